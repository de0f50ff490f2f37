"""The commands ``up``, ``down``, ``status``, ``migrate`` and ``health``: the local server and any database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import SERVER_PANEL, UsageError, command
from adk_graph_memory.cli.lazy_modules import connections, environment, persistent, schema
from adk_graph_memory.cli.lazy_modules import settings as configuration
from adk_graph_memory.cli.output import Output, announce, make_grid
from adk_graph_memory.language.text import format_count

if TYPE_CHECKING:
    from adk_graph_memory.records.health import Health


@command(SERVER_PANEL)
def up(
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Bolt port on 127.0.0.1; by default the former one, at first 7687."),
    ] = None,
    version: Annotated[str | None, typer.Option(help="Neo4j 2026 (default) or 5.26.")] = None,
    rotate_password: Annotated[
        bool, typer.Option("--rotate-password", help="Also give it a new password; then restart what uses it.")
    ] = False,
) -> Output:
    """Start a local Neo4j without Docker, or find the running one; its data is kept between runs."""
    server = start_with_progress(port, version)
    if port and port != urlsplit(server.uri).port:
        raise _make_running_error(server)
    if rotate_password:
        server = persistent.start_server(rotate_password=True)
        return _describe_server(
            server, "It has a new password. Restart the processes that use it: they still have the old one."
        )
    next_steps = (
        "Agents and commands use this server as long as NEO4J_URI is not set.",
        "To see memory at work: adk-graph-memory demo",
    )
    return _describe_server(server, *([note] if (note := _note_variable()) else next_steps))


@command(SERVER_PANEL)
def down() -> Output:
    """Stop the local Neo4j; its data is kept for the next `up`."""
    announce("Stopping Neo4j")
    was_running = persistent.stop_server()
    return Output({"stopped": was_running}, "Stopped." if was_running else "No local server was running.")


@command(SERVER_PANEL)
def status(
    password: Annotated[
        bool, typer.Option("--password", help="Also show the password, for Neo4j's own tools.")
    ] = False,
) -> Output:
    """Show whether the local Neo4j is running, and how to reach it. Exit code 1 if it is not."""
    server = persistent.find_running_server()
    if server is None:
        text = "No local server is running; `adk-graph-memory up` starts one."
        return Output({"running": False}, text, [_note_variable()], exit_code=1)
    return _describe_server(server, _note_variable(), password=password)


def start_with_progress(
    port: int | None = None, version: str | None = None, *, any_port: bool = False
) -> persistent.RunningServer:
    """Start the local server and announce each step; ``any_port`` allows another port than ``port``."""

    def announce_download(fetched_bytes: int, total_bytes: int) -> None:
        if fetched_bytes < total_bytes:
            announce(f"Fetching Neo4j, once: {fetched_bytes / 1e6:,.0f} of {total_bytes / 1e6:,.0f} MB")
        else:
            announce("Starting Neo4j")

    announce("Starting Neo4j")
    version = version or environment.get_server_version()
    try:
        server = persistent.start_server(port, version=version, progress=announce_download)
    except errors.PortTaken:
        if not any_port:
            raise
        server = persistent.start_server(0, version=version, progress=announce_download)
    if version and not f"{server.version}.".startswith(f"{version}."):
        raise _make_running_error(server)
    return server


def _make_running_error(server: persistent.RunningServer) -> errors.LocalServerError:
    return errors.LocalServerError(
        f"The local server is already running, as Neo4j {server.version} at {server.uri}. To start it with other "
        "options, stop it first: `adk-graph-memory down`."
    )


def _describe_server(server: persistent.RunningServer, *hints: str | None, password: bool = False) -> Output:
    value = {"running": True, **asdict(server)}
    if not password:
        del value["password"]
    rows = value | {"password": server.password if password else "shown by `adk-graph-memory status --password`"}
    names = ("uri", "username", "password", "version", "home")
    return Output(value, make_grid((name, str(rows[name])) for name in names), hints)


def _note_variable() -> str | None:
    if not environment.is_variable_set("NEO4J_URI"):
        return None
    uri = configuration.hide_credentials(configuration.load_settings().uri or "")
    return f"NEO4J_URI is set: agents and commands use {uri} instead."


# -- any database -----------------------------------------------------------------------------------------------


@command(SERVER_PANEL)
async def migrate(
    print_: Annotated[bool, typer.Option("--print", help="Only print the Cypher, for a DBA to run.")] = False,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="With --print: the dimension of your embedder's vectors, for the indexes.")
    ] = None,
) -> Output:
    """Bring the database's schema to this release's version; safe to repeat, and to run in two processes at once."""
    if dimensions is not None and not print_:
        raise UsageError("Give --dimensions only with --print: otherwise the first vector determines the dimension.")
    settings = configuration.load_settings()
    if print_:
        script = schema.render_migration_script(settings, dimensions)
        return Output({"cypher": script}, script, is_script=True)
    announce("Updating the schema")
    async with connections.Connection(settings=settings, schema="auto") as connection:
        await connection.prepare()
    version, uri = schema.get_schema_version(), configuration.hide_credentials(settings.uri or "")
    text = f"The schema of {uri} is at version {version}."
    return Output({"uri": uri, "version": version}, text)


@command(SERVER_PANEL)
async def health() -> Output:
    """Check whether memory can be used: the database, its schema, the embedder and the queue. Changes nothing.

    Exit code 1 if it cannot be used.
    """
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        report = await memory.health()
    value = {"ready": report.ready, **asdict(report)}
    return Output(value, make_grid(_list_health_rows(report)), exit_code=int(not report.ready))


def _list_health_rows(report: Health) -> Iterator[tuple[str, str]]:
    yield "ready", "yes" if report.ready else "no"
    yield "database", ", ".join(filter(None, (report.address, report.database, report.server))) or "unknown"
    if report.schema_version is not None:
        yield "schema", f"version {report.schema_version}" if report.schema_version else "made at the first use"
    if report.address:
        yield "embedder", f"{report.embedder}, {report.embedder_state}" if report.embedder else "none"
    if queue := report.queue:
        age = f", the oldest for {timedelta(seconds=round(queue.oldest_seconds or 0))}" if queue.pending else ""
        yield "queue", f"{format_count(queue.pending, 'request')} to remember{age}"
    for problem in report.problems:
        yield "problem", problem.text
