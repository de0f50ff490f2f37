"""The commands ``up``, ``down``, ``status`` and ``migrate``."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import DownloadColumn, TimeRemainingColumn
from rich.table import Table

from adk_graph_memory import errors, graph, local_neo4j
from adk_graph_memory.cli import application
from adk_graph_memory.cli.application import (
    SERVER_PANEL,
    JsonOption,
    app,
    console,
    print_hint,
    print_json,
    report_errors,
)
from adk_graph_memory.cli.layout import replace_controls
from adk_graph_memory.settings import Settings, hide_credentials, is_variable_set, load_settings


@app.command(rich_help_panel=SERVER_PANEL)
def up(
    port: Annotated[int, typer.Option(help="Bolt port on 127.0.0.1.")] = 7687,
    version: Annotated[str | None, typer.Option(help="Neo4j 2026 (default) or 5.26.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a local Neo4j without Docker, or find the one that runs; its data is kept between runs."""
    with report_errors(as_json):
        _print_server(start_with_progress(port, version), as_json)


@app.command(rich_help_panel=SERVER_PANEL)
def down(as_json: JsonOption = False) -> None:
    """Stop the local Neo4j; its data stays for the next `up`."""
    with report_errors(as_json):
        was_running = local_neo4j.stop_server()
    if as_json:
        print_json({"stopped": was_running})
    else:
        console.print("Stopped." if was_running else "No local server was running.")


@app.command(rich_help_panel=SERVER_PANEL)
def status(as_json: JsonOption = False) -> None:
    """Say whether the local Neo4j runs, and how to reach it. Exit code 1 if it does not."""
    with report_errors(as_json):
        server = local_neo4j.find_running_server()
        if is_variable_set("NEO4J_URI") and not as_json:
            print_hint(f"NEO4J_URI is set, and used: {hide_credentials(load_settings().uri or '')}")
    if server is None:
        console.print("null" if as_json else "No local server is running; `adk-graph-memory up` starts one.")
        raise typer.Exit(1)
    _print_server(server, as_json)


@app.command(rich_help_panel=SERVER_PANEL)
def migrate(
    print_: Annotated[bool, typer.Option("--print", help="Only print the Cypher, for a DBA to run.")] = False,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="With --print: numbers a vector of your embedder, for its indexes.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring the database's schema to this release's version; safe to run again, and by two processes at once."""
    with report_errors(as_json):
        settings = load_settings()
        if print_:
            script = asyncio.run(_make_migration_script(settings, dimensions))
        else:
            version, uri = asyncio.run(_migrate_schema(settings)), hide_credentials(settings.uri or "")
    if as_json:
        print_json({"cypher": script} if print_ else {"uri": uri, "version": version})
    elif print_:
        typer.echo(script, nl=False)
    else:
        console.print(f"The schema of {replace_controls(uri)} is at version {version}.")


async def _make_migration_script(settings: Settings, dimensions: int | None) -> str:
    if settings.uri:
        async with graph.Connection(settings=settings) as connection:
            try:
                renamings = await graph.migrate.fetch_renamings(connection)
                return graph.migrate.make_migration_script(settings, dimensions, renamings)
            except errors.DatabaseError as error:
                print_hint(f"The script is for a new database; indexes of former names were not looked up: {error}")
    return graph.migrate.make_migration_script(settings, dimensions)


async def _migrate_schema(settings: Settings) -> int:
    async with graph.Connection(settings=settings, schema="auto") as connection:
        await graph.prepare_connection(connection)
    return graph.migrate.get_schema_version()


def start_with_progress(port: int, version: str | None, *, any_port: bool = False) -> local_neo4j.RunningServer:
    """Start the local server, with a progress bar for missing jars; ``any_port`` allows another port than ``port``."""
    bar = application.make_progress_bar("Fetching Neo4j", DownloadColumn(), TimeRemainingColumn())
    with bar:
        task = bar.add_task("jars", total=None, visible=False)

        def update_bar(fetched_bytes: int, total_bytes: int) -> None:
            bar.update(task, completed=fetched_bytes, total=total_bytes, visible=True)

        try:
            return local_neo4j.start_server(port, version=version, progress=update_bar)
        except errors.PortTaken:
            if not any_port:
                raise
            return local_neo4j.start_server(0, version=version, progress=update_bar)


def _print_server(server: local_neo4j.RunningServer, as_json: bool) -> None:
    if as_json:
        print_json(asdict(server))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name in ("uri", "username", "password", "version", "home"):
        table.add_row(name, replace_controls(str(getattr(server, name))))
    console.print(table)
