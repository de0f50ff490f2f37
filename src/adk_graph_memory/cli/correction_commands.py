"""The commands of an owner's word: ``correct``, ``pin``, ``unpin``, ``retract``, ``rollback``, ``merge``, ``split``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from types import EllipsisType
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from adk_graph_memory.cli.application import MEMORY_PANEL, AppOption, UserOption, YesOption, command
from adk_graph_memory.cli.memory_commands import parse_moment, set_timezone
from adk_graph_memory.cli.output import Output, announce, confirm, format_day, make_grid
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope
from adk_graph_memory.records.history import FactVersion, MemoryChange

FactArgument = Annotated[str, typer.Argument(metavar="ID", help="A fact's id, as `facts` and `recall` print it.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the history.")]
_Apply = Callable[[GraphMemory, bool], Awaitable[MemoryChange]]


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
    since = ... if valid_from is None else _parse_date(valid_from)
    until = ... if valid_to is None else _parse_date(valid_to)

    async def apply(memory: GraphMemory, preview: bool) -> MemoryChange:
        zone = await memory.speakers.find_zone(Scope(app_name, user_id))

        def place(moment: datetime | EllipsisType | None) -> datetime | EllipsisType | None:
            return set_timezone(moment, zone) if isinstance(moment, datetime) else moment

        return await memory.correct(
            id,
            app_name=app_name,
            user_id=user_id,
            text=text,
            valid_from=place(since),
            valid_to=place(until),
            reason=reason,
            preview=preview,
        )

    return await _change_memory(apply, yes=yes)


@command(MEMORY_PANEL)
async def pin(
    id: FactArgument, app_name: AppOption, user_id: UserOption, reason: ReasonOption = "", yes: YesOption = False
) -> Output:
    """Pin a fact: nothing that is said ends or rewords it until you say otherwise."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await _change_memory(
        lambda memory, preview: memory.pin(id, **whose, reason=reason, preview=preview), yes=yes
    )


@command(MEMORY_PANEL)
async def unpin(
    id: FactArgument, app_name: AppOption, user_id: UserOption, reason: ReasonOption = "", yes: YesOption = False
) -> Output:
    """Unpin a fact: what is said counts again, and what was said meanwhile."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await _change_memory(
        lambda memory, preview: memory.unpin(id, **whose, reason=reason, preview=preview), yes=yes
    )


@command(MEMORY_PANEL)
async def retract(
    id: FactArgument, app_name: AppOption, user_id: UserOption, reason: ReasonOption = "", yes: YesOption = False
) -> Output:
    """Say that a fact was never true; its words stay."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await _change_memory(
        lambda memory, preview: memory.retract(id, **whose, reason=reason, preview=preview), yes=yes
    )


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
    return await _change_memory(
        lambda memory, preview: memory.rollback(id, revision, **whose, reason=reason, preview=preview), yes=yes
    )


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
    return await _change_memory(
        lambda memory, preview: memory.merge(name, other, **whose, reason=reason, preview=preview), yes=yes
    )


@command(MEMORY_PANEL)
async def split(
    alias: Annotated[str, typer.Argument(help="An alias, as `entity` lists it.")],
    app_name: AppOption,
    user_id: UserOption,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Say that an alias is somebody else's name."""
    whose = {"app_name": app_name, "user_id": user_id}
    return await _change_memory(
        lambda memory, preview: memory.split(alias, **whose, reason=reason, preview=preview), yes=yes
    )


async def _change_memory(apply: _Apply, *, yes: bool) -> Output:
    """Show what would change, ask, and change it."""
    announce("Waiting for Neo4j")
    async with GraphMemory() as memory:
        if not yes:
            preview = await apply(memory, True)
            confirm("\n".join([*_list_lines(preview), "Change this?"]), yes=yes)
        announce("Changing")
        change = await apply(memory, False)
    hint = f"`adk-graph-memory undo {change.ingest_id}` takes it back."
    return Output(change, Group(_make_change_grid(change), hint))


def _list_changes(change: MemoryChange) -> list[tuple[str, str]]:
    """List what was and what is in its place."""
    rows = [(_describe_version(fact.before), _describe_version(fact.after)) for fact in change.facts]
    rows += [(", ".join(entity.before), ", ".join(entity.after)) for entity in change.entities]
    return [(before or "(nothing)", after or "(nothing)") for before, after in rows]


def _list_lines(change: MemoryChange) -> list[str]:
    return [f"{before} → {after}" for before, after in _list_changes(change)] or ["Nothing changes."]


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
