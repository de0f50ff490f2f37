"""The commands ``recall``, ``forget`` and ``stats``."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, tzinfo
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from adk_graph_memory import graph, ledger
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AppFilterOption,
    AppOption,
    JsonOption,
    LimitOption,
    UserFilterOption,
    UserOption,
    YesOption,
    app,
    check_user,
    console,
    load_session,
    prepare_memory,
    print_json,
    report_errors,
)
from adk_graph_memory.cli.layout import add_details, format_day, make_grid
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Filters, MemoryKind, Receipt, Recollection, Scope


@app.command(rich_help_panel=MEMORY_PANEL)
def recall(
    query: Annotated[str, typer.Argument(help="A question, or any words.")],
    app_name: AppOption,
    user_id: UserOption,
    limit: LimitOption = 10,
    since: Annotated[datetime | None, typer.Option(help="Said on this day (in the user's zone) or later.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Said on this day or earlier.")] = None,
    kind: Annotated[MemoryKind | None, typer.Option(help="Facts only, or turns (events) only.")] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="Of this session only.")] = None,
    topic: Annotated[str | None, typer.Option(help="Facts of this topic only.")] = None,
    entity: Annotated[str | None, typer.Option(help="Only what speaks of whom or what is called so.")] = None,
    min_score: Annotated[float | None, typer.Option(min=0, max=1, help="Leave out what scores less.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what is remembered of a user that fits a question best."""

    def make_filters(zone: tzinfo) -> Filters:
        start, end = since and _set_timezone(since, zone), until and _set_timezone(_extend_to_day_end(until), zone)
        return Filters(start, end, kind, session_id, topic, entity)

    async def recall_memories() -> list[Recollection]:
        make_filters(UTC)  # rejects invalid filters before connecting to a server
        async with GraphMemory() as memory:
            await prepare_memory(memory)
            return await memory.recall(
                query,
                app_name=app_name,
                user_id=user_id,
                limit=limit,
                min_score=min_score,
                filters=make_filters(await memory.speakers.find_zone(Scope(app_name, user_id))),
                explain=explain,
            )

    with report_errors(as_json):
        memories = asyncio.run(recall_memories())
        if not memories:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        print_json(memories)
        return
    rows = ((f"{memory.score:.2f}", format_day(memory.at), _format_recollection(memory)) for memory in memories)
    console.print(make_grid(rows) if memories else "Nothing is remembered about this.")


def _extend_to_day_end(moment: datetime) -> datetime:
    """Move a date without a time to the last moment of its day."""
    return datetime.combine(moment, time.max, moment.tzinfo) if moment.time() == time.min else moment


def _set_timezone(moment: datetime, zone: tzinfo) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _format_recollection(memory: Recollection) -> Text:
    notes = ["words not found"] * (not memory.is_verified) + [f"before: {text}" for text in memory.previously]
    text = memory.prompt_text + (f" ({'; '.join(notes)})" if notes else "")
    return add_details(text, " · ".join(filter(None, (memory.id, memory.author))), *_format_shares(memory))


def _format_shares(memory: Recollection) -> list[str]:
    """The memory's own shares in one line, then a line for each memory that passed on a share."""
    by_memory: dict[str | None, list[str]] = {None: []}
    for share in memory.shares:
        by_memory.setdefault(share.through, []).append(f"{share.signal} {share.amount:+.2f}")
    return [" · ".join(parts) + f" through {id}" * bool(id) for id, parts in by_memory.items() if parts]


@app.command(rich_help_panel=MEMORY_PANEL)
def forget(
    app_name: AppOption,
    user_id: UserOption,
    ids: Annotated[list[str] | None, typer.Argument(help="As `recall` and `facts` give them.")] = None,
    session_id: Annotated[
        str | None, typer.Option("--session", help="All that memory holds of this session; the session stays.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Forget memories for good, and the facts that rest on them alone; adding their session brings none back."""
    if bool(ids) == bool(session_id):
        raise typer.BadParameter("say what to forget: ids of memories, or --session")
    if not yes:
        target = f"{len(ids)} by id" if ids else f"all that memory holds of session {session_id!r}"
        typer.confirm(f"Forget {target} for good, and the facts that rest on that alone?", abort=True, err=True)

    async def forget_memories() -> Receipt:
        if session_id:
            return await _forget_session(app_name, user_id, session_id.strip())
        async with GraphMemory() as memory:
            return await memory.forget(ids or (), app_name=app_name, user_id=user_id)

    with report_errors(as_json):
        receipt = asyncio.run(forget_memories())
        if not any((receipt.events, receipt.facts)):
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        print_json(receipt)
        return
    console.print(f"Forgotten: {receipt.facts} facts, {receipt.events} turns and {receipt.entities} entities.")


async def _forget_session(app_name: str, user_id: str, session_id: str) -> Receipt:
    async with graph.Connection() as connection:
        receipt = await graph.forgetting.forget_session_memories(
            await graph.prepare_connection(connection), Scope(app_name, user_id), session_id
        )
    if not receipt.events:
        await load_session(app_name, user_id, session_id, recent=0)  # fails if there is no such session
    return receipt


@app.command(rich_help_panel=MEMORY_PANEL)
def stats(
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sum up what remembering came to, by user, day and extractor; with its cost where prices are configured."""

    async def sum_costs() -> list[ledger.CostEntry]:
        async with graph.Connection() as connection:
            rows = await graph.ingest_queue.fetch_ingest_reports(
                await graph.prepare_connection(connection), app_name=app_name, user_id=user_id
            )
            return ledger.sum_reports(rows, connection.settings.prices)

    with report_errors(as_json):
        entries = asyncio.run(sum_costs())
    if as_json:
        print_json(entries)
        return
    console.print(_make_ledger_table(entries) if entries else "Nothing has been remembered yet.")


def _make_ledger_table(entries: list[ledger.CostEntry]) -> Table:
    table = Table("day", show_edge=False)
    table.add_column("user of app", overflow="fold", ratio=1)
    for column in ("turns", "facts", "calls", "tokens", "cost"):
        table.add_column(column, justify="right", no_wrap=True)
    for entry in entries:
        report, usage = entry.report, entry.report.usage
        owner = add_details(f"{entry.user_id} of {entry.app_name}", entry.extractor)
        counts = (report.turns, report.facts.get("ADD", 0), usage.calls)
        tokens = f"{usage.input_tokens:,} in\n{usage.output_tokens:,} out"
        cost = "" if entry.cost is None else f"{entry.cost:.4f}"
        table.add_row(entry.day, owner, *(f"{count:,}" for count in counts), tokens, cost)
    return table
