"""``adk-graph-memory`` at the command line: words go in, the rooms do the work, people read what comes out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from adk_graph_memory import errors, graph, ledger, local_neo4j
from adk_graph_memory.adk import Neo4jSessionService
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Filters, IngestReport, Kind, Recollection
from adk_graph_memory.settings import Settings, configured, is_set, redacted

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
console = Console(highlight=False)
complaints = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AppName = Annotated[str, typer.Option("--app", help="The app's name.")]
UserId = Annotated[str, typer.Option("--user", help="The user's id.")]


@app.callback()
def main() -> None:
    """Graph memory for agents built with Google's ADK, on Neo4j.

    The database is NEO4J_URI (with NEO4J_USERNAME, NEO4J_PASSWORD, NEO4J_DATABASE), or else the local server that
    `adk-graph-memory up` has started.
    """


@app.command()
def up(
    port: Annotated[int, typer.Option(help="Bolt port on 127.0.0.1.")] = 7687,
    version: Annotated[str | None, typer.Option(help="Neo4j 2026 (default) or 5.26.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start a local Neo4j without Docker, or find the one that runs; its data is kept between runs."""
    with failing_well():
        _show_server(_started(port, version), as_json)


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


@app.command()
def ingest(
    pending: Annotated[bool, typer.Option("--pending", help="Take up what was asked for and never finished.")] = False,
    app_name: Annotated[str | None, typer.Option("--app", help="Of this app only.")] = None,
    user_id: Annotated[str | None, typer.Option("--user", help="Of this user only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Remember what waits to be remembered: a process died, a model failed."""
    if not pending:
        raise typer.BadParameter("say what to ingest: --pending")

    async def resumed() -> IngestReport:
        async with GraphMemory() as memory:
            return sum(await memory.resume(app_name=app_name, user_id=user_id), IngestReport(extractor="nobody"))

    with failing_well():
        report = asyncio.run(resumed())
    if as_json:
        typer.echo(json.dumps(asdict(report), ensure_ascii=False))
        return
    changes = ", ".join(f"{count} {op.lower()}" for op, count in sorted(report.facts.items())) or "nothing new"
    console.print(f"{report.turns} turns remembered: {changes}." if report.turns else "Nothing was waiting.")


@app.command()
def stats(
    app_name: Annotated[str | None, typer.Option("--app", help="Of this app only.")] = None,
    user_id: Annotated[str | None, typer.Option("--user", help="Of this user only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Sum up what remembering came to, by user, day and extractor; with its cost where prices are configured."""

    async def summed() -> list[ledger.Entry]:
        async with graph.Connection() as connection:
            rows = await graph.ingests.reports(await graph.prepared(connection), app_name=app_name, user_id=user_id)
            return ledger.entries(rows, connection.settings.prices)

    with failing_well():
        entries = asyncio.run(summed())
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in entries], ensure_ascii=False))
        return
    table = Table(show_edge=False)
    for column in ("app", "user", "day", "extractor"):
        table.add_column(column, overflow="fold")
    for column in ("turns", "facts", "calls", "tokens in", "out", "cost"):
        table.add_column(column, justify="right")
    for entry in entries:
        report, usage = entry.report, entry.report.usage
        cost = "" if entry.cost is None else f"{entry.cost:.4f}"
        counts = (report.turns, report.facts.get("ADD", 0), usage.calls, usage.input_tokens, usage.output_tokens)
        named = map(escape, (entry.app_name, entry.user_id, entry.day, entry.extractor))
        table.add_row(*named, *(f"{count:,}" for count in counts), cost)
    console.print(table if entries else "Nothing has been remembered yet.")


@app.command()
def recall(
    query: str,
    app_name: AppName,
    user_id: UserId,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 10,
    since: Annotated[datetime | None, typer.Option(help="Said at this time (UTC) or later.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Said at this time (UTC) or earlier.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Facts only, or turns (events) only.")] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="Of this session only.")] = None,
    topic: Annotated[str | None, typer.Option(help="Facts of this topic only.")] = None,
    entity: Annotated[str | None, typer.Option(help="Only what speaks of whom or what is called so.")] = None,
    min_score: Annotated[float | None, typer.Option(min=0, max=1, help="Leave out what scores less.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what is remembered of a user that fits a question best."""
    first, last = (moment.replace(tzinfo=UTC) if moment else None for moment in (since, until))

    async def found() -> list[Recollection]:
        async with GraphMemory() as memory:
            return await memory.recall(
                query,
                app_name=app_name,
                user_id=user_id,
                limit=limit,
                min_score=min_score,
                filters=Filters(first, last, kind, session_id, topic, entity),
                explain=explain,
            )

    with failing_well():
        memories = asyncio.run(found())
    if as_json:
        typer.echo(json.dumps([asdict(memory) for memory in memories], default=str, ensure_ascii=False, indent=1))
        return
    table = Table(show_edge=False, show_header=False, padding=(0, 1))
    for memory in memories:
        when = memory.at.strftime("%Y-%m-%d") if memory.at else ""
        table.add_row(f"{memory.score:.2f}", when, memory.kind, escape(memory.author or ""), _told(memory))
    console.print(table if memories else "Nothing is remembered about this.")


def _told(memory: Recollection) -> str:
    told = ["words not found"] * (not memory.is_verified) + [f"before: {text}" for text in memory.previously]
    text = escape(memory.told + (f" ({'; '.join(told)})" if told else ""))
    shares = (f"{one.signal} {one.amount:+.2f}{f' through {one.through}' * bool(one.through)}" for one in memory.shares)
    return f"{text}\n[dim]{' · '.join(shares)}[/]" if memory.shares else text


@app.command()
def demo(
    data: Annotated[Path | None, typer.Option(help="A conversation in the demo's own JSON form.")] = None,
    questions: Annotated[int | None, typer.Option(min=0, help="How many of its questions to ask.")] = None,
    model: Annotated[str | None, typer.Option(help="What reads facts: a model's name, or rules.")] = None,
) -> None:
    """Run the main job on a real conversation: sessions, memory, questions.

    Gemini reads it if GOOGLE_API_KEY is set. Otherwise the demo's own conversation is read by replies that a language
    model once gave to these prompts, and any other by rules.
    """
    from adk_graph_memory import demo as demonstration

    with failing_well():
        conversation = demonstration.load(data)
        if not is_set("NEO4J_URI"):
            _started(7687, None, any_port=True)
        settings = configured()
        reader = demonstration.model(model or settings.model, has_key=is_set("GOOGLE_API_KEY"), is_own=data is None)
        told = reader if isinstance(reader, str) else "recorded replies of a language model"
        console.print(f"Neo4j at {redacted(settings.uri or '')}, facts read by [bold]{told}[/]\n")

        async def played() -> None:
            async with Neo4jSessionService() as sessions, GraphMemory(model=reader) as memory:
                await demonstration.play(
                    conversation, sessions=sessions, memory=memory, console=console, questions=questions
                )

        asyncio.run(played())


async def _migrated(settings: Settings) -> int:
    async with graph.Connection(settings=settings, schema="auto") as connection:
        await graph.prepared(connection)
    return graph.migrate.known_version()


def _started(port: int, version: str | None, *, any_port: bool = False) -> local_neo4j.RunningServer:
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


@contextmanager
def failing_well() -> Iterator[None]:
    """An error of ours is one sentence on stderr and exit code 1; anything else is a bug and keeps its traceback."""
    try:
        yield
    except errors.GraphMemoryError as error:
        complaints.print(f"[red]{type(error).__name__}[/]: {escape(' '.join(str(error).split()))}")
        raise typer.Exit(1) from error
