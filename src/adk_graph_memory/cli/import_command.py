"""The command ``import``: take over the sessions and memories of other services."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from adk_graph_memory import errors, importing
from adk_graph_memory.cli.application import MEMORY_PANEL, UsageError, command
from adk_graph_memory.cli.output import Output, announce, format_count, make_grid, print_error
from adk_graph_memory.importing import ImportOptions, ImportReceipt
from adk_graph_memory.memory import GraphMemory


class SourceKind(StrEnum):
    """What can be imported."""

    ADK_SQLITE = importing.ADK_SQLITE
    ADK_DATABASE = importing.ADK_DATABASE
    ADK_SQLITE_MEMORY = importing.ADK_SQLITE_MEMORY
    MEM0 = importing.MEM0
    MEMORY_BANK = importing.MEMORY_BANK


SESSION_KINDS = (SourceKind.ADK_SQLITE, SourceKind.ADK_DATABASE)


@command(MEMORY_PANEL, name="import")
async def import_from(
    location: Annotated[
        str, typer.Argument(metavar="PATH_OR_URL", help="The file, or the URL of ADK's database as ADK takes it.")
    ],
    kind: Annotated[SourceKind, typer.Option("--from", help="What it is.")],
    app_name: Annotated[
        str | None, typer.Option("--app", help="Of this app only; what names no app is this one's.")
    ] = None,
    user_id: Annotated[
        str | None, typer.Option("--user", help="Of this user only; what names no user is this one's.")
    ] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Queue what was said in the sessions for memory.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only read it and say what is in it; needs no database.")
    ] = False,
) -> Output:
    """Take over the sessions or memories that another service stored, with their ids and times.

    What the graph has already stays as it is: an import may be repeated, and goes on where it was interrupted.
    """
    if remember and kind not in SESSION_KINDS:
        raise UsageError("--remember is for sessions; memories are searched as soon as they are imported.")
    options = ImportOptions(kind.value, app_name, user_id, remembers=remember)

    def show_progress(text: str) -> None:
        announce(f"{'Reading' if dry_run else 'Importing'}: {text}")

    announce("Reading the source" if dry_run else "Waiting for Neo4j")
    if dry_run:
        return _report(await importing.import_source(None, location, options, show_progress), options)
    async with GraphMemory() as memory:
        return _report(await importing.import_source(memory, location, options, show_progress), options)


def _report(receipt: ImportReceipt, options: ImportOptions) -> Output:
    for row in receipt.problems:
        print_error(errors.UnreadableTranscript(f"{row.place}: {row.reason}", place=row.place, reason=row.reason))
    rows = list(_describe_counts(receipt))
    is_unremembered = bool(receipt.sessions.get("new")) and not options.remembers
    return Output(
        value=receipt,
        text=make_grid(rows) if rows else "Nothing is in it.",
        hints=[
            "What was said in them is not in memory yet: the same command with --remember queues it."
            if is_unremembered
            else None,
            "`adk-graph-memory ingest --pending` reads what is queued." if receipt.waiting_turns else None,
        ],
        exit_code=1 if receipt.has_problems else 0,
    )


def _describe_counts(receipt: ImportReceipt) -> Iterator[tuple[str, str]]:
    for what, counts in (("sessions", receipt.sessions), ("events", receipt.events), ("memories", receipt.memories)):
        outcomes = ", ".join(f"{number:,} {how}" for how, number in counts.items() if how != "read")
        if counts:
            yield what, f"{counts.get('read', 0):,} read" + (f": {outcomes}" if outcomes else "")
    if receipt.state_keys:
        yield "state", f"{format_count(receipt.state_keys, 'key')} added"
    if receipt.waiting_turns:
        yield "queued", f"{format_count(receipt.waiting_turns, 'turn')} for memory"
    if receipt.skipped:
        yield "left out", ", ".join(f"{number:,} {kind}" for kind, number in receipt.skipped.items())
