"""The commands ``backup`` and ``restore``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import adk_graph_memory
from adk_graph_memory.cli.application import SERVER_PANEL, command
from adk_graph_memory.cli.output import Output, announce, make_grid
from adk_graph_memory.cli.transfer_commands import describe_counts, describe_report, print_problems
from adk_graph_memory.language.text import format_count

if TYPE_CHECKING:
    from adk_graph_memory.records.portable import ExportReport, RestoreReport


@command(SERVER_PANEL)
async def backup(
    file: Annotated[Path, typer.Argument(help="The file; an existing file is replaced once the backup is complete.")],
) -> Output:
    """Write the whole graph, and the content of artifacts, into one file for `restore`; agents can keep working."""
    async with adk_graph_memory.GraphMemory() as memory:
        announce("Backing up")
        report = await memory.back_up(file)
    rows = make_grid([("file", str(file)), *describe_report(report), ("sha256", report.sha256)])
    return Output(report, rows, list(_warn_of_backup(report)), exit_code=int(report.missing_contents > 0))


def _warn_of_backup(report: ExportReport) -> Iterator[str]:
    if report.missing_contents:
        stores = ", ".join(report.outside_contents)
        versions = format_count(report.missing_contents, "artifact version")
        yield f"The content of {versions} is missing, in the backup as in the store: {stores}."
    if report.changed_users:
        count = format_count(len(report.changed_users), "user")
        yield f"{count} had no quiet moment: after a restore, `adk-graph-memory doctor --mend` completes their memory."


@command(SERVER_PANEL)
async def restore(
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
) -> Output:
    """Make the graph of a backup again, in a database without users, and compare the two.

    If it is interrupted, run it again: it continues. Start agents afterwards.
    """
    async with adk_graph_memory.GraphMemory() as memory:
        announce("Checking the file")
        report = await memory.restore(file, on_progress=lambda text: announce(f"Restoring: {text}"))
    print_problems(report.receipt)
    is_whole = report.is_equal and not report.receipt.has_problems
    return Output(
        report,
        make_grid([*describe_counts(report.receipt), ("equal", "yes" if report.is_equal else "no")]),
        list(_warn_of_restore(report)),
        exit_code=int(not is_whole),
    )


def _warn_of_restore(report: RestoreReport) -> Iterator[str]:
    if not report.is_equal:
        yield "The graph differs from the file: a line was left out, or somebody has written to the graph meanwhile."
    if report.changed_users:
        yield "Somebody wrote to some users during the backup: `adk-graph-memory doctor --mend` completes their memory."
    yield "What was forgotten after the backup is here again: forget it once more."
