"""The command ``export``: write what the graph holds into a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import adk_graph_memory
from adk_graph_memory.cli.application import MEMORY_PANEL, AppFilterOption, UsageError, UserFilterOption, command
from adk_graph_memory.cli.memory_commands import RecordedOption, make_as_of
from adk_graph_memory.cli.output import Output, announce, error_console, make_grid, wants_json
from adk_graph_memory.language.wording import format_count
from adk_graph_memory.records import Scope

if TYPE_CHECKING:
    from adk_graph_memory.records.portable_rows import ExportReport


@command(MEMORY_PANEL)
async def export(
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; without it the lines go to the standard output.")
    ] = None,
    recorded_at: RecordedOption = None,
) -> Output | None:
    """Write sessions, memory and artifacts of a user, an app or everybody into a file that another graph can import.

    `import --from export` reads it. The content of artifacts that lies in a store, and secrets, stay here. With
    `--recorded-at` it is the memory of then, derived from what had been read by then, without what was forgotten since.
    """
    if output is None and wants_json.get():
        raise UsageError("--json describes a file: name it with --output.")
    async with adk_graph_memory.GraphMemory() as memory:
        scope = Scope(app_name, user_id) if app_name is not None and user_id is not None else None
        as_of = await make_as_of(memory.connection, scope, None, recorded_at)
        announce("Exporting")
        if output is not None:
            report = await memory.export(output, app_name=app_name, user_id=user_id, as_of=as_of)
            return Output(report, make_grid([("file", str(output)), *describe_report(report)]), list(_warn(report)))
        report = await memory.export(sys.stdout, app_name=app_name, user_id=user_id, as_of=as_of)
    for warning in _warn(report):
        error_console.print(warning, style="dim", soft_wrap=True)
    return None


def describe_report(report: ExportReport) -> Iterator[tuple[str, str]]:
    """Describe what an export wrote, kind by kind."""
    if report.apps:
        yield "apps", f"{report.apps:,}"
    yield "users", f"{report.users:,}"
    yield "nodes", ", ".join(f"{count:,} {label}" for label, count in report.nodes.items()) or "none"
    yield "relationships", f"{sum(report.relationships.values()):,}"
    yield "size", f"{report.bytes:,} bytes"


def _warn(report: ExportReport) -> Iterator[str]:
    for store, count in report.outside_contents.items():
        yield f"The content of {format_count(count, 'artifact version')} is not in it: it lies in {store}."
    if report.changed_users:
        app_name, user_id = report.changed_users[0]
        more = f" and {len(report.changed_users) - 1} more" if len(report.changed_users) > 1 else ""
        yield f"Somebody wrote to user {user_id!r} of app {app_name!r}{more} meanwhile: export again to be exact."
