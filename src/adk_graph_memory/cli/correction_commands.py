"""The commands of an owner's word: ``correct``, ``pin``, ``unpin``, ``retract``, ``rollback``, ``merge``, ``split``."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import adk_graph_memory
from adk_graph_memory.cli.application import MEMORY_PANEL, AppOption, UserOption, YesOption, command
from adk_graph_memory.cli.memory_commands import parse_moment, set_timezone
from adk_graph_memory.cli.output import Output, announce, confirm, format_day, make_grid
from adk_graph_memory.language.wording import format_count, join_lines
from adk_graph_memory.records import Scope

if TYPE_CHECKING:
    from adk_graph_memory.records.history import FactVersion, MemoryChange

FactArgument = Annotated[str, typer.Argument(metavar="ID", help="A fact's id, as `facts` and `recall` print it.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the history.")]
_Method = Callable[..., Awaitable["MemoryChange"]]
"""A method of :class:`GraphMemory`, or what calls one."""


def _parse_date(text: str) -> datetime | None:
    return None if text == "none" else parse_moment(text)


@command(MEMORY_PANEL)
async def correct(
    id: FactArgument,
    app_name: AppOption,
    user_id: UserOption,
    text: Annotated[str | None, typer.Option(help="What is true.")] = None,
    valid_from: Annotated[str | None, typer.Option(metavar="DATE", help="Since when; none if unknown.")] = None,
    valid_to: Annotated[str | None, typer.Option(metavar="DATE", help="Until when; none if open.")] = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Replace a fact that is wrong by what you say; nothing that was extracted outranks it."""
    dates = {"valid_from": valid_from, "valid_to": valid_to}
    changes = {name: _parse_date(date) for name, date in dates.items() if date is not None}
    whose = {"app_name": app_name, "user_id": user_id}
    return await change_memory(_correct_in_zone, id, **whose, text=text, **changes, reason=reason, yes=yes)


async def _correct_in_zone(
    memory: adk_graph_memory.GraphMemory, id: str, app_name: str, user_id: str, **options: Any
) -> MemoryChange:
    """Correct a fact; dates without a zone are of the user's."""
    zone = await memory.speakers.find_zone(Scope(app_name, user_id))
    for name, value in options.items():
        options[name] = set_timezone(value, zone) if isinstance(value, datetime) else value
    return await memory.correct(id, app_name=app_name, user_id=user_id, **options)


@command(MEMORY_PANEL)
async def pin(
    id: FactArgument, app_name: AppOption, user_id: UserOption, reason: ReasonOption = "", yes: YesOption = False
) -> Output:
    """Pin a fact: nothing that is said ends or rewords it until you say otherwise."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await change_memory(adk_graph_memory.GraphMemory.pin, id, **whose, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def unpin(
    id: FactArgument, app_name: AppOption, user_id: UserOption, reason: ReasonOption = "", yes: YesOption = False
) -> Output:
    """Unpin a fact: what is said counts again, and what was said meanwhile."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await change_memory(adk_graph_memory.GraphMemory.unpin, id, **whose, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def retract(
    id: FactArgument, app_name: AppOption, user_id: UserOption, reason: ReasonOption = "", yes: YesOption = False
) -> Output:
    """Say that a fact was never true; its words stay."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await change_memory(adk_graph_memory.GraphMemory.retract, id, **whose, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def rollback(
    id: FactArgument,
    revision: Annotated[str, typer.Argument(help="A revision, as `history` names it.")],
    app_name: AppOption,
    user_id: UserOption,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Return a fact to what it was before a change."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await change_memory(adk_graph_memory.GraphMemory.rollback, id, revision, **whose, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def merge(
    name: Annotated[str, typer.Argument(help="The name that stays, an alias of it, or a key.")],
    other: Annotated[str, typer.Argument(help="The name that becomes an alias.")],
    app_name: AppOption,
    user_id: UserOption,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Say that two people or things are one."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await change_memory(adk_graph_memory.GraphMemory.merge, name, other, **whose, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def split(
    words: Annotated[list[str], typer.Argument(metavar="ALIAS", help="An alias, as `entity` lists it.")],
    app_name: AppOption,
    user_id: UserOption,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Say that an alias is somebody else's name."""
    alias, whose = " ".join(words), {"app_name": app_name, "user_id": user_id}
    return await change_memory(adk_graph_memory.GraphMemory.split, alias, **whose, reason=reason, yes=yes)


async def change_memory(method: _Method, *names: str, yes: bool, **options: Any) -> Output:
    """Show what would change, ask, and change it."""
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        if not yes:
            preview = await method(memory, *names, **options, preview=True)
            question = "Change this?" if preview.ingest_id else "Forget this for good?"
            confirm("\n".join([*list_change_lines(preview), question]), yes=yes)
        announce("Changing")
        change = await method(memory, *names, **options)
    if not (change.facts or change.entities or change.turns):
        return Output(change, "Nothing changes.")
    if not change.ingest_id:
        return Output(change, _make_change_grid(change))
    words = ["undo", change.ingest_id, "--app", options["app_name"], "--user", options["user_id"]]
    hint = Text(f"adk-graph-memory {shlex.join(words)}", overflow="fold")
    return Output(change, Group(_make_change_grid(change), "This takes it back:", hint))


def _list_changes(change: MemoryChange) -> list[tuple[str, str]]:
    """List what was and what is in its place, and how many turns go."""
    rows = [(_describe_version(fact.before), _describe_version(fact.after)) for fact in change.facts]
    rows += [(", ".join(entity.before), ", ".join(entity.after)) for entity in change.entities]
    rows += [(format_count(change.turns, "turn"), "")] * bool(change.turns)
    return [(before or "(nothing)", after or "(nothing)") for before, after in rows]


def list_change_lines(change: MemoryChange) -> list[str]:
    """List what changes, a line for each fact and name, and for the turns that go."""
    return [join_lines(f"{before} → {after}") for before, after in _list_changes(change)] or ["Nothing changes."]


def _make_change_grid(change: MemoryChange) -> RenderableType:
    rows = [(before, "→", after) for before, after in _list_changes(change)]
    return make_grid(rows) if rows else "Nothing changes."


def _describe_version(fact: FactVersion | None) -> str:
    if fact is None:
        return ""
    notes = [
        "" if fact.state == "current" else fact.state,
        "pinned" if fact.is_pinned else "",
        f"from {format_day(fact.valid_from)}" if fact.valid_from else "",
        f"until {format_day(fact.valid_to)}" if fact.valid_to else "",
    ]
    described = ", ".join(filter(None, notes))
    return f"{fact.text} ({described})" if described else fact.text
