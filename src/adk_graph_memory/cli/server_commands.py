"""The commands ``up``, ``down``, ``status``, ``migrate`` and ``reembed``: the local server and any database."""

from __future__ import annotations

import pkgutil
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from adk_graph_memory import embeddings, errors, graph, local_neo4j, reembedding
from adk_graph_memory.cli.application import SERVER_PANEL, UsageError, command
from adk_graph_memory.cli.output import Output, announce, make_grid, replace_controls
from adk_graph_memory.settings import Settings, hide_credentials, is_variable_set, load_settings

DEFAULT_PORT = 7687
"""Neo4j's own port for Bolt."""
MAX_LISTED_FAILURES = 100
"""Maximum number of failed texts to list."""


@command(SERVER_PANEL)
def up(
    port: Annotated[int | None, typer.Option(help="Bolt port on 127.0.0.1, 7687 by default.")] = None,
    version: Annotated[str | None, typer.Option(help="Neo4j 2026 (default) or 5.26.")] = None,
) -> Output:
    """Start a local Neo4j without Docker, or find the running one; its data is kept between runs."""
    server = start_with_progress(DEFAULT_PORT if port is None else port, version)
    if (port and port != urlsplit(server.uri).port) or (version and not f"{server.version}.".startswith(f"{version}.")):
        raise errors.LocalServerError(
            f"The local server is already running, as Neo4j {server.version} at {server.uri}. To start it with other "
            "options, stop it first: `adk-graph-memory down`."
        )
    next_steps = (
        "Agents and commands use this server, as long as NEO4J_URI is not set.",
        "See memory at work on it: adk-graph-memory demo",
    )
    return _describe_server(server, *([note] if (note := _note_variable()) else next_steps))


@command(SERVER_PANEL)
def down() -> Output:
    """Stop the local Neo4j; its data stays for the next `up`."""
    announce("Stopping Neo4j")
    was_running = local_neo4j.stop_server()
    return Output({"stopped": was_running}, "Stopped." if was_running else "No local server was running.")


@command(SERVER_PANEL)
def status(
    password: Annotated[bool, typer.Option("--password", help="Show the password too, for Neo4j's own tools.")] = False,
) -> Output:
    """Say whether the local Neo4j runs, and how to reach it. Exit code 1 if it does not."""
    server = local_neo4j.find_running_server()
    if server is None:
        text = "No local server is running; `adk-graph-memory up` starts one."
        return Output({"running": False}, text, [_note_variable()], exit_code=1)
    return _describe_server(server, _note_variable(), password=password)


def start_with_progress(port: int, version: str | None, *, any_port: bool = False) -> local_neo4j.RunningServer:
    """Start the local server and announce each step; ``any_port`` allows another port than ``port``."""

    def announce_download(fetched_bytes: int, total_bytes: int) -> None:
        if fetched_bytes < total_bytes:
            announce(f"Fetching Neo4j, once: {fetched_bytes / 1e6:,.0f} of {total_bytes / 1e6:,.0f} MB")
        else:
            announce("Starting Neo4j")

    announce("Starting Neo4j")
    try:
        return local_neo4j.start_server(port, version=version, progress=announce_download)
    except errors.PortTaken:
        if not any_port:
            raise
        return local_neo4j.start_server(0, version=version, progress=announce_download)


def _describe_server(server: local_neo4j.RunningServer, *hints: str | None, password: bool = False) -> Output:
    value = {"running": True, **asdict(server)}
    if not password:
        del value["password"]
    rows = value | {"password": server.password if password else "shown by `adk-graph-memory status --password`"}
    names = ("uri", "username", "password", "version", "home")
    return Output(value, make_grid((name, str(rows[name])) for name in names), hints)


def _note_variable() -> str | None:
    if not is_variable_set("NEO4J_URI"):
        return None
    return f"NEO4J_URI is set: agents and commands use {hide_credentials(load_settings().uri or '')} instead."


# -- any database -----------------------------------------------------------------------------------------------


@command(SERVER_PANEL)
async def migrate(
    print_: Annotated[bool, typer.Option("--print", help="Only print the Cypher, for a DBA to run.")] = False,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="With --print: numbers per vector of your embedder, for its indexes.")
    ] = None,
) -> Output:
    """Bring the database's schema to this release's version; safe to run again, and by two processes at once."""
    if dimensions is not None and not print_:
        raise UsageError("Give --dimensions with --print: otherwise the first vector tells how many there are.")
    settings = load_settings()
    if print_:
        script, hint = await _make_migration_script(settings, dimensions)
        return Output({"cypher": script}, script, [hint], is_script=True)
    announce("Updating the schema")
    async with graph.Connection(settings=settings, schema="auto") as connection:
        await graph.prepare_connection(connection)
    version, uri = graph.migrate.get_schema_version(), hide_credentials(settings.uri or "")
    text = f"The schema of {replace_controls(uri)} is at version {version}."
    return Output({"uri": uri, "version": version}, text)


async def _make_migration_script(settings: Settings, dimensions: int | None) -> tuple[str, str | None]:
    """Make the script, and a hint if the database could not be asked for indexes of former names."""
    hint = None
    if settings.uri:
        async with graph.Connection(settings=settings) as connection:
            try:
                renamings = await graph.migrate.fetch_renamings(connection)
                return graph.migrate.make_migration_script(settings, dimensions, renamings), None
            except errors.DatabaseError as error:
                hint = f"The script is for a new database; indexes of former names were not looked up: {error}"
    return graph.migrate.make_migration_script(settings, dimensions), hint


@command(SERVER_PANEL)
async def reembed(
    embedder: Annotated[
        str | None,
        typer.Option(help="A model's name or path, or module:name of a Python object; by default the configured one."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts that are read, embedded and written together.")] = 256,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even if the vectors are this embedder's already.")] = False,
    keep_old: Annotated[bool, typer.Option("--keep-old", help="Leave the old vectors in place.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only list the texts that cannot be embedded.")] = False,
) -> Output:
    """Replace every vector by one of the configured or another embedder, while searches go on.

    Exit code 1 means that texts are left or that it failed. Whatever stopped it, the same command goes on from there.
    """
    choice = _resolve_embedder(embedder)
    announce("Waiting for Neo4j")
    async with graph.Connection(schema="check" if dry_run or failed else None) as connection:
        if failed:
            await graph.prepare_connection(connection)
            rows = await graph.reembed.fetch_embedding_failures(connection, MAX_LISTED_FAILURES)
            lines = [f"{row['id']}  {row['text'][:60]!r}\n    {row['error']}" for row in rows]
            text = replace_controls("\n".join(lines)) or "Every text could be embedded."
            return Output(rows, text, exit_code=1 if rows else 0)
        announce("Loading the embedding model")
        vectors = embeddings.EmbedderAdapter(choice or connection.settings.embedder, connection.settings)
        if dry_run:
            plan = await reembedding.plan_reembedding(connection, vectors, batch=batch, force=force)
            return Output(plan, _format_plan(plan))
        outcome = await reembedding.reembed_texts(
            connection, vectors, batch=batch, progress=_announce_step, force=force, keep_old=keep_old
        )
        return Output(outcome, _format_outcome(outcome), exit_code=0 if outcome.is_done else 1)


def _resolve_embedder(name: str | None) -> Any:
    """Resolve ``--embedder``: a Python object as ``module:name`` (a class is called), else a model's name or path."""
    if name is None or ":" not in name or Path(name).exists():
        return name
    sys.path.append(str(Path.cwd()))  # a program that pip installed does not look for modules where it is run
    try:
        value = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"--embedder {name}: {error}.") from error
    return value() if isinstance(value, type) else value


def _announce_step(step: reembedding.ProgressStep) -> None:
    text = f"{step.phase}: {step.done:,} of {step.total:,}" if step.total else step.phase
    if step.done and step.seconds:
        rate = step.done / step.seconds
        text += f", {rate:,.0f}/s, {timedelta(seconds=round((step.total - step.done) / rate))} left"
    announce(text)


def _format_plan(plan: reembedding.ReembedPlan) -> str:
    live, slot = plan.target.live, plan.target.slot
    if not plan.is_needed:
        return _describe_done(slot.embedder)
    old = f"from  {live.embedder}, {live.dimensions} numbers" if live else "from  no vectors"
    new = f"to    {slot.embedder}, {slot.dimensions} numbers" + (", begun already" if plan.target.is_begun else "")
    texts = [f"{count.left + count.failed:>9,} of {count.texts:,} texts of kind {count.kind}" for count in plan.counts]
    return errors.shorten_embedder_names("\n".join((old, new, *texts, f"{plan.calls:>9,} calls of the embedder")))


def _describe_done(embedder: str) -> str:
    name = errors.shorten_embedder_names(embedder)
    return f"Nothing to do: the vectors are {name}'s already; --force makes every one of them anew."


def _format_outcome(outcome: reembedding.ReembedOutcome) -> str:
    if outcome.is_done and not outcome.embedded:
        return _describe_done(outcome.embedder)
    embedder = errors.shorten_embedder_names(outcome.embedder)
    text = f"{outcome.embedded:,} texts were embedded by {embedder} in {outcome.seconds:,} s."
    if outcome.failed:
        text += (
            f"\n{outcome.failed:,} could not be embedded; searches find them by their words alone. "
            "`adk-graph-memory reembed --failed` lists them; the same command as before tries them again."
        )
    if outcome.left:
        text += (
            f"\n{outcome.left:,} came in without a vector meanwhile: stop the services that have the old embedder, "
            "then run the same command again."
        )
    return text
