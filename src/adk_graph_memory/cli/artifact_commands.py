"""The command ``artifacts``: list a user's artifacts, and find or delete orphans in an artifact store."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.table import Table

from adk_graph_memory.adk.artifact_service import Neo4jArtifactService
from adk_graph_memory.cli.application import (
    CONVERSATIONS_PANEL,
    AppFilterOption,
    JsonOption,
    UserFilterOption,
    YesOption,
    app,
    check_user,
    console,
    print_json,
    report_errors,
)
from adk_graph_memory.cli.layout import format_timestamp, replace_controls


@app.command(rich_help_panel=CONVERSATIONS_PANEL)
def artifacts(
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    session_id: Annotated[
        str | None, typer.Option("--session", help="This session's as well as the user's own.")
    ] = None,
    orphans: Annotated[bool, typer.Option("--orphans", help="Contents in the store that no artifact names.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="With --orphans: delete them.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List a user's artifacts with their latest versions, or what a store of contents holds for nobody."""
    if orphans == bool(app_name and user_id) or (delete and not orphans):
        raise typer.BadParameter("say whose: --app and --user; or --orphans, with or without --delete")
    if delete and not yes:
        typer.confirm(
            "Delete every content in the store that no artifact of this database names?", abort=True, err=True
        )

    async def fetch_rows() -> list[dict[str, Any]]:
        async with Neo4jArtifactService() as service:
            if orphans:
                return [orphan._asdict() async for orphan in service.list_orphans(delete=delete)]
            owner: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
            names = await service.list_artifact_keys(**owner)
            versions = [(name, await service.get_artifact_version(filename=name, **owner)) for name in names]
            return [{"name": name, **version.model_dump()} for name, version in versions if version]

    with report_errors(as_json):
        rows = asyncio.run(fetch_rows())
        if not rows and app_name and user_id:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        print_json(rows)
    elif orphans:
        outcome = "deleted" if delete else "found; --delete removes them"
        summary = f"{len(rows)} {outcome}." if rows else "No orphans."
        console.print("\n".join([*(f"{row['scope']}/{row['id']}" for row in rows), summary]))
    else:
        console.print(_make_artifact_table(rows) if rows else "No artifacts.")


def _make_artifact_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("saved", show_edge=False)
    for column in ("name", "type"):
        table.add_column(column, overflow="fold")
    table.add_column("versions", justify="right")
    for row in rows:
        save_time, count = format_timestamp(row["create_time"]), str(row["version"] + 1)
        table.add_row(save_time, replace_controls(row["name"]), replace_controls(row["mime_type"]), count)
    return table
