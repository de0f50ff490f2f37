"""The commands ``facts``, ``entities``, ``recall``, ``forget`` and ``stats``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, tzinfo
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Column
from rich.text import Text

from adk_graph_memory import errors, graph, ledger
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AfterOption,
    AppFilterOption,
    AppOption,
    LimitOption,
    UserFilterOption,
    UserOption,
    YesOption,
    check_user,
    collect_page,
    command,
    load_session,
    make_page,
)
from adk_graph_memory.cli.output import (
    Output,
    add_details,
    announce,
    confirm,
    format_count,
    format_day,
    make_grid,
    make_table,
    number_column,
    text_column,
)
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Filters, MemoryKind, Receipt, Recollection, Scope, StoredEntity, StoredFact
from adk_graph_memory.records.dates import format_short_date
from adk_graph_memory.records.fact_validity import FactStatus

_STATUS_HEADINGS: dict[str, tuple[FactStatus, ...]] = {
    "": ("holds", "planned"),
    "Planned, and nothing was heard of it since:": ("lapsed",),
    "Happened:": ("happened",),
    "No longer so, or in doubt:": ("over",),
}
"""Headings of the list of facts, with the statuses that belong under each."""


@command(MEMORY_PANEL)
async def facts(
    app_name: AppOption,
    user_id: UserOption,
    about: Annotated[str | None, typer.Option(help="Only about the person or thing with this name.")] = None,
    past: Annotated[bool, typer.Option("--all", help="Also what ended, was retracted or is stale.")] = False,
    limit: LimitOption = 50,
    after: AfterOption = None,
) -> Output:
    """List what is known of a user, newest first: what is so, what was planned, and what happened once."""
    whose = app_name, user_id
    async with GraphMemory() as memory:
        listing = memory.facts(app_name=app_name, user_id=user_id, about=about, past=past, limit=limit, after=after)
        page = await collect_page(listing, whose)
    sections = [
        section
        for heading, statuses in _STATUS_HEADINGS.items()
        if (rows := [_make_fact_row(fact) for fact in page if fact.status in statuses])
        for section in ([heading] * bool(heading) + [make_grid(rows)])
    ]
    hint = "`adk-graph-memory entities` lists the people and things that facts are about." if about else None
    text = Group(*sections) if page else "No facts."
    return make_page(page, text, limit=limit, after=lambda fact: fact.id, hint=None if page else hint)


def _make_fact_row(fact: StoredFact) -> tuple[str, Text]:
    return format_day(fact.at), add_details(fact.text, " · ".join([fact.id, *_describe_validity(fact)]))


def _describe_validity(fact: StoredFact) -> list[str]:
    start_word = "for" if fact.modality == "planned" else "from"
    end_word = "ended" if fact.status == "over" else "until"
    start = format_short_date(fact.valid_from, fact.valid_from_precision)
    end = format_short_date(fact.valid_to, fact.valid_to_precision, is_end=True)
    period = [f"{word} {date}" for word, date in ((start_word, start), (end_word, end)) if date]
    return period + ["retracted"] * (fact.state == "retracted") + ["stale"] * fact.is_stale


@command(MEMORY_PANEL)
async def entities(
    app_name: AppOption,
    user_id: UserOption,
    type: Annotated[str | None, typer.Option(help="Only of this type: person, place …")] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
) -> Output:
    """List the people and things that a user's facts are about, those with most facts first."""
    async with GraphMemory() as memory:
        listing = memory.entities(app_name=app_name, user_id=user_id, type=type, limit=limit, after=after)
        page = await collect_page(listing, (app_name, user_id))
    text = make_grid(map(_make_entity_row, page)) if page else "No entities."
    return make_page(page, text, limit=limit, after=lambda entity: entity.key)


def _make_entity_row(entity: StoredEntity) -> tuple[str, str, Text]:
    aliases = f"also {', '.join(entity.aliases)}" if entity.aliases else ""
    return format_count(entity.facts, "fact"), entity.type, add_details(entity.name, entity.about, aliases)


@command(MEMORY_PANEL)
async def recall(
    query: Annotated[str, typer.Argument(help="A question, or any words.")],
    app_name: AppOption,
    user_id: UserOption,
    limit: LimitOption = 10,
    since: Annotated[datetime | None, typer.Option(help="Said on this day (in the user's zone) or later.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Said on this day or earlier.")] = None,
    kind: Annotated[MemoryKind | None, typer.Option(help="Facts only, or turns (events) only.")] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="Of this session only.")] = None,
    topic: Annotated[str | None, typer.Option(help="Facts of this topic only.")] = None,
    entity: Annotated[str | None, typer.Option(help="Only about the person or thing with this name.")] = None,
    min_score: Annotated[float | None, typer.Option(min=0, max=1, help="Leave out what scores less.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
) -> Output:
    """Print the memories of a user that fit a question best."""

    def make_filters(zone: tzinfo) -> Filters:
        start, end = since and _set_timezone(since, zone), until and _set_timezone(_extend_to_day_end(until), zone)
        return Filters(start, end, kind, session_id, topic, entity)

    make_filters(UTC)  # rejects invalid filters before connecting to a server
    async with GraphMemory() as memory:
        zone = await memory.speakers.find_zone(Scope(app_name, user_id))
        announce("Loading the embedding model")
        await memory.vectors.check_embedder()
        announce("Searching")
        memories = await memory.recall(
            query,
            app_name=app_name,
            user_id=user_id,
            limit=limit,
            min_score=min_score,
            filters=make_filters(zone),
            explain=explain,
        )
    if not memories:
        await check_user(app_name, user_id)
    rows = ((f"{memory.score:.2f}", format_day(memory.at), _format_recollection(memory)) for memory in memories)
    return Output(memories, make_grid(rows) if memories else "Nothing is remembered about this.")


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


@command(MEMORY_PANEL)
async def forget(
    app_name: AppOption,
    user_id: UserOption,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of memories, as `recall` and `facts` print them.")
    ] = None,
    session_id: Annotated[
        str | None, typer.Option("--session", help="All memories of this session; the session itself stays.")
    ] = None,
    yes: YesOption = False,
) -> Output:
    """Forget memories for good, and the facts that rest on them alone; adding their session brings none back."""
    if bool(ids) == bool(session_id):
        raise typer.BadParameter("say what to forget: ids of memories, or --session")
    target = format_count(len(ids), "memory", "memories") if ids else f"all memories of session {session_id!r}"
    confirm(f"Forget {target} for good, and the facts that rest on that alone?", yes=yes)
    announce("Forgetting")
    if session_id:
        receipt = await _forget_session(app_name, user_id, session_id.strip())
    else:
        receipt = await _forget_ids(app_name, user_id, ids or ())
    counts = format_count(receipt.facts, "fact"), format_count(receipt.events, "turn")
    entities = format_count(receipt.entities, "entity", "entities")
    return Output(receipt, f"Forgotten: {', '.join(counts)} and {entities}.")


async def _forget_ids(app_name: str, user_id: str, ids: Sequence[str]) -> Receipt:
    async with GraphMemory() as memory:
        receipt = await memory.forget(ids, app_name=app_name, user_id=user_id)
    if receipt == Receipt():
        await check_user(app_name, user_id)
        what = f"memory {' or '.join(map(repr, ids))} of user {user_id!r} in app {app_name!r}"
        raise errors.NotFound(what=what, where="`adk-graph-memory facts` and `adk-graph-memory recall`")
    return receipt


async def _forget_session(app_name: str, user_id: str, session_id: str) -> Receipt:
    async with graph.Connection() as connection:
        receipt = await graph.forgetting.forget_session_memories(
            await graph.prepare_connection(connection), Scope(app_name, user_id), session_id
        )
    if receipt == Receipt():
        await check_user(app_name, user_id)
        await load_session(app_name, user_id, session_id, recent=0)  # fails if there is no such session
    return receipt


@command(MEMORY_PANEL)
async def stats(app_name: AppFilterOption = None, user_id: UserFilterOption = None) -> Output:
    """Sum up what was remembered and what it cost, by user, day and extractor; prices come from the settings."""
    announce("Waiting for Neo4j")
    async with graph.Connection() as connection:
        rows = await graph.ingest_queue.fetch_ingest_reports(
            await graph.prepare_connection(connection), app_name=app_name, user_id=user_id
        )
        entries = ledger.sum_reports(rows, connection.settings.prices)
    columns = [Column("day"), text_column("user of app", ratio=1)]
    columns += map(number_column, ("turns", "facts", "calls", "tokens", "cost"))
    table = make_table(columns, map(_make_ledger_row, entries))
    return Output(entries, table if entries else "Nothing has been remembered yet.")


def _make_ledger_row(entry: ledger.CostEntry) -> tuple[str | Text, ...]:
    report, usage = entry.report, entry.report.usage
    counts = (report.turns, report.facts.get("ADD", 0), usage.calls)
    return (
        entry.day,
        add_details(f"{entry.user_id} of {entry.app_name}", entry.extractor),
        *(f"{count:,}" for count in counts),
        f"{usage.input_tokens:,} in\n{usage.output_tokens:,} out",
        "" if entry.cost is None else f"{entry.cost:.4f}",
    )
