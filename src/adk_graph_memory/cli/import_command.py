"""The command ``import``: take over an export, or the sessions and memories of other services."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import MEMORY_PANEL, OWNER, UsageError, command
from adk_graph_memory.cli.lazy_modules import importing
from adk_graph_memory.cli.output import Output, announce, make_grid, print_error
from adk_graph_memory.language.wording import format_count

if TYPE_CHECKING:
    from adk_graph_memory.importing import ImportOptions, ImportReceipt


class SourceKind(StrEnum):
    """What can be imported, by the names of :mod:`adk_graph_memory.importing.sources`."""

    ADK_SQLITE = "adk-sqlite"
    ADK_DATABASE = "adk-database"
    ADK_SQLITE_MEMORY = "adk-sqlite-memory"
    MEM0 = "mem0"
    MEMORY_BANK = "memory-bank"
    EXPORT = "export"


SESSION_KINDS = (SourceKind.ADK_SQLITE, SourceKind.ADK_DATABASE)


@command(MEMORY_PANEL, name="import")
async def import_from(
    location: Annotated[
        str, typer.Argument(metavar="PATH_OR_URL", help="The file, or the URL of ADK's database as ADK takes it.")
    ],
    kind: Annotated[SourceKind, typer.Option("--from", help="What it is.")],
    app_name: Annotated[
        str | None,
        typer.Option("--app", help="Of this app only; what names no app is this one's. Names an export's app anew."),
    ] = None,
    user_id: Annotated[
        str | None,
        typer.Option(
            "--user", **OWNER, help="Of this user only; what names no user is this one's. Names an export's user anew."
        ),
    ] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Queue what was said in the sessions for memory.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only read it and say what is in it; needs no database.")
    ] = False,
) -> Output:
    """Take over an export of another graph, or what another service stored, with ids and times.

    What the graph has already stays as it is: an import may be repeated, and goes on where it was interrupted.
    """
    if remember and kind not in SESSION_KINDS:
        raise UsageError("--remember is for other services' sessions; all else is searched once it is imported.")
    options = importing.ImportOptions(kind.value, app_name, user_id, remembers=remember)

    def show_progress(text: str) -> None:
        announce(f"{'Reading' if dry_run else 'Importing'}: {text}")

    announce("Reading the source" if dry_run else "Waiting for Neo4j")
    if dry_run:
        return _report(await adk_graph_memory.importing.import_source(None, location, options, show_progress), options)
    async with adk_graph_memory.GraphMemory() as memory:
        return _report(
            await adk_graph_memory.importing.import_source(memory, location, options, show_progress), options
        )


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
            *_explain_export(receipt),
        ],
        exit_code=1 if receipt.has_problems else 0,
    )


def _describe_counts(receipt: ImportReceipt) -> Iterator[tuple[str, str]]:
    for what in ("sessions", "events", "memories", "apps", "users", "nodes", "relationships"):
        counts = getattr(receipt, what)
        outcomes = ", ".join(f"{number:,} {how}" for how, number in counts.items() if how != "read")
        if counts:
            yield what, f"{counts.get('read', 0):,} read" + (f": {outcomes}" if outcomes else "")
    if receipt.state_keys:
        yield "state", f"{format_count(receipt.state_keys, 'key')} added"
    if receipt.waiting_turns:
        yield "queued", f"{format_count(receipt.waiting_turns, 'turn')} for memory"
    if receipt.skipped:
        yield "left out", ", ".join(f"{number:,} {kind}" for kind, number in receipt.skipped.items())


def _explain_export(receipt: ImportReceipt) -> Iterator[str]:
    """Say what of an export is not here, or not as it was."""
    if receipt.dropped_vectors:
        count = format_count(receipt.dropped_vectors, "memory", "memories")
        yield f"{count} came without vectors, for this graph's are another embedder's: the next ingests make them."
    if receipt.outside_contents:
        yield (
            f"The content of {format_count(receipt.outside_contents, 'artifact version')} is not in the file: it "
            "lies in the store of the graph that it comes from."
        )
    if receipt.refused_turns:
        yield f"{format_count(receipt.refused_turns, 'turn')} stayed forgotten, as somebody asked here."
    if receipt.foreign_tombstones:
        yield (
            f"{format_count(receipt.foreign_tombstones, 'tombstone')} of turns that are not in the file refuse nothing "
            "here: do not add sessions again that were deleted where it comes from."
        )
