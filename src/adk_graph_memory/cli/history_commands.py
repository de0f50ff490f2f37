"""The commands ``history``, ``entity``, ``undo`` and ``forget-user``: what memory holds, and how to take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import adk_graph_memory
from adk_graph_memory import graph
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AppOption,
    UserArgument,
    UserOption,
    YesOption,
    check_owner,
    command,
)
from adk_graph_memory.cli.lazy_modules import histories
from adk_graph_memory.cli.output import Output, add_details, announce, confirm, format_day, make_grid
from adk_graph_memory.language.wording import format_count, join_lines
from adk_graph_memory.records import Scope

if TYPE_CHECKING:
    from adk_graph_memory.records.history import HistoryEntry


@command(MEMORY_PANEL)
async def history(
    id: Annotated[str, typer.Argument(metavar="ID", help="A fact's id, as `facts` and `recall` print it.")],
    app_name: AppOption,
    user_id: UserOption,
) -> Output:
    """Tell why memory holds a fact: every word that speaks for it, and every decision about it."""
    announce("Waiting for Neo4j")
    async with graph.Connection() as connection:
        known = await histories.Histories(connection).history(id, app_name=app_name, user_id=user_id)
    return Output(
        known, Group(join_lines(f"{known.fact.text} ({known.fact.state})"), "", _make_history_grid(known.entries))
    )


@command(MEMORY_PANEL)
async def entity(
    words: Annotated[
        list[str], typer.Argument(metavar="NAME", help="A name, an alias, or a key as `entities --json` prints it.")
    ],
    app_name: AppOption,
    user_id: UserOption,
) -> Output:
    """Tell who or what somebody is, where each name comes from, and what holds of them."""
    announce("Waiting for Neo4j")
    async with graph.Connection() as connection:
        known = await histories.Histories(connection).entity(" ".join(words), app_name=app_name, user_id=user_id)
    described = [known.entity.type, *([known.entity.about] if known.entity.about else [])]
    aliases = f"also {', '.join(known.entity.other_names)}" if known.entity.other_names else ""
    facts = [(format_day(fact.at), add_details(fact.text, fact.id)) for fact in known.facts]
    parts: list[RenderableType] = [add_details(f"{known.entity.display_name} ({', '.join(described)})", aliases), ""]
    parts += [make_grid(facts), ""] if facts else []
    return Output(known, Group(*parts, _make_history_grid(known.entries)))


@command(MEMORY_PANEL)
async def undo(
    ingest_id: Annotated[str, typer.Argument(metavar="INGEST", help="An ingest, as `history --json` names it.")],
    app_name: AppOption,
    user_id: UserOption,
    yes: YesOption = False,
) -> Output:
    """Take back all that one ingest wrote, also if later ones built on it; its turns may be read again."""
    confirm(f"Take back all that ingest {ingest_id} wrote?", yes=yes)
    announce("Taking back")
    async with adk_graph_memory.GraphMemory() as memory:
        receipt = await memory.undo(ingest_id, app_name=app_name, user_id=user_id)
    counts = format_count(receipt.events, "turn"), format_count(receipt.facts, "fact")
    return Output(receipt, f"Taken back: {' and '.join(counts)}.")


@command(MEMORY_PANEL, name="forget-user")
async def forget_user(
    user_id: UserArgument,
    app_name: AppOption,
    sessions: Annotated[bool, typer.Option("--sessions", help="Also sessions, events and state.")] = False,
    artifacts: Annotated[bool, typer.Option("--artifacts", help="Also artifacts.")] = False,
    yes: YesOption = False,
) -> Output:
    """Forget all that memory holds of a user, and print a receipt of what went and what stays."""
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        connection, scope = await graph.prepare_connection(memory.connection), Scope(app_name, user_id)
        counts = await graph.forgetting.count_user(connection, scope)
        if not any(counts.values()):
            await check_owner(app_name, user_id)
        what = [format_count(counts["turns"], "turn"), format_count(counts["facts"], "fact")]
        what += [format_count(counts["sessions"], "session")] if sessions else []
        what += [format_count(counts["artifacts"], "artifact")] if artifacts else []
        confirm(f"Forget {', '.join(what)} of {user_id!r} for good?", yes=yes)
        announce("Forgetting")
        receipt = await memory.forget_user(app_name=app_name, user_id=user_id, sessions=sessions, artifacts=artifacts)
    words = "event" if sessions else "turn"
    gone = {words: receipt.events, "fact": receipt.facts, "session": receipt.sessions, "artifact": receipt.artifacts}
    stays = ", ".join(_count_kind(count, kind) for kind, count in receipt.stays.items())
    text = ", ".join(format_count(count, noun) for noun, count in gone.items())
    return Output(receipt, f"Forgotten: {text}." + (f" What stays: {stays}." if stays else ""))


def _count_kind(count: int, kind: str) -> str:
    return format_count(count, kind.removesuffix("s")) if kind != "entities" else format_count(count, "entity", kind)


def _make_history_grid(entries: tuple[HistoryEntry, ...]) -> RenderableType:
    if not entries:
        return Text("It was added directly, word for word.")
    return make_grid([_make_history_row(entry) for entry in entries])


def _make_history_row(entry: HistoryEntry) -> tuple[str, str, Text]:
    quote = f"“{entry.quote}”" if entry.quote else ""
    said = f"said on {format_day(entry.said_at)} in session {entry.session_id}" if entry.said_at else ""
    decided = ": ".join(filter(None, (f"by {entry.by}" if entry.by else "", entry.reason)))
    ingest = f"ingest {entry.ingest_id}" if entry.ingest_id else ""
    revision = f"revision {entry.revision}" if entry.revision else ""
    return format_day(entry.at), entry.kind, add_details(entry.text, quote, said, decided, ingest, revision)
