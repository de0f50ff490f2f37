"""Commands around the server: a local one, and the schema of any."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from adk_graph_memory import errors, graph, local_neo4j
from adk_graph_memory.cli.application import AsJson, app, complaints, console, failing_well
from adk_graph_memory.settings import Settings, configured, is_set, redacted


@app.command()
def up(
    port: Annotated[int, typer.Option(help="Bolt port on 127.0.0.1.")] = 7687,
    version: Annotated[str | None, typer.Option(help="Neo4j 2026 (default) or 5.26.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start a local Neo4j without Docker, or find the one that runs; its data is kept between runs."""
    with failing_well():
        _show_server(started(port, version), as_json)


@app.command()
def down() -> None:
    """Stop the local Neo4j; its data stays for the next `up`."""
    with failing_well():
        console.print("Stopped." if local_neo4j.down() else "No local server was running.")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Say whether the local Neo4j runs, and how to reach it. Exit code 1 if it does not."""
    with failing_well():
        running = local_neo4j.status()
        if is_set("NEO4J_URI"):
            complaints.print(f"NEO4J_URI is set, and used: {escape(redacted(configured().uri or ''))}")
    if running is None:
        console.print("null" if as_json else "No local server is running; `adk-graph-memory up` starts one.")
        raise typer.Exit(1)
    _show_server(running, as_json)


@app.command()
def migrate(
    print_: Annotated[bool, typer.Option("--print", help="Only print the Cypher, for a DBA to run.")] = False,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="With --print: numbers a vector of your embedder, for its indexes.")
    ] = None,
) -> None:
    """Bring the database's schema to this release's version; safe to run again, and by two processes at once."""
    with failing_well():
        if print_:
            typer.echo(graph.migrate.script(configured(), dimensions), nl=False)
            return
        settings = configured()
        console.print(f"The schema of {redacted(settings.uri or '')} is at version {asyncio.run(_migrated(settings))}.")


async def _migrated(settings: Settings) -> int:
    async with graph.Connection(settings=settings, schema="auto") as connection:
        await graph.prepared(connection)
    return graph.migrate.known_version()


def started(port: int, version: str | None, *, any_port: bool = False) -> local_neo4j.RunningServer:
    """The local server, started with a bar for what has to be fetched."""
    bar = Progress(
        TextColumn("Fetching Neo4j"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=complaints,
        transient=True,
    )
    with bar:
        task = bar.add_task("jars", total=None, visible=False)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        try:
            return local_neo4j.up(port, version=version, progress=progress)
        except errors.PortTaken:
            if not any_port:
                raise
            return local_neo4j.up(0, version=version, progress=progress)


def _show_server(server: local_neo4j.RunningServer, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(server)))
        return
    table = Table.grid(padding=(0, 2))
    for name in ("uri", "username", "password", "version", "home"):
        table.add_row(f"[dim]{name}[/]", escape(str(getattr(server, name))))
    console.print(table)
