"""Commands around memory: what waits, what it came to, what is known."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from adk_graph_memory import graph, ledger
from adk_graph_memory.cli.application import AppName, AsJson, OfApp, OfUser, UserId, app, console, failing_well
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Filters, IngestReport, Kind, Receipt, Recollection


@app.command()
def ingest(
    pending: Annotated[bool, typer.Option("--pending", help="Take up what was asked for and never finished.")] = False,
    app_name: OfApp = None,
    user_id: OfUser = None,
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
    app_name: OfApp = None,
    user_id: OfUser = None,
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
def forget(
    ids: Annotated[list[str], typer.Argument(help="As `recall --json` gives them.")],
    app_name: AppName,
    user_id: UserId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before anything is forgotten.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget memories for good, and the facts that rest on them alone; adding their session brings none back."""
    if not yes:
        typer.confirm(f"Forget {len(ids)} for good, and what rests on them alone?", abort=True, err=True)

    async def forgotten() -> Receipt:
        async with GraphMemory() as memory:
            return await memory.forget(ids, app_name=app_name, user_id=user_id)

    with failing_well():
        receipt = asyncio.run(forgotten())
    if as_json:
        typer.echo(json.dumps(asdict(receipt)))
        return
    console.print(f"Forgotten: {receipt.facts} facts, {receipt.events} turns and {receipt.entities} entities.")
