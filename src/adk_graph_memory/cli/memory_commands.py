"""The commands ``profile``, ``facts``, ``entities``, ``recall`` and ``forget``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from adk_graph_memory import errors
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AfterOption,
    LimitOption,
    Owner,
    UsageError,
    YesOption,
    collect_page,
    command,
    load_session,
    make_page,
)
from adk_graph_memory.cli.lazy_modules import (
    connections,
    erasing,
    fact_rules,
    graph_listings,
    listings,
    speakers,
)
from adk_graph_memory.cli.output import Output, add_details, announce, confirm, format_day, make_grid
from adk_graph_memory.language.dates import format_short_date
from adk_graph_memory.language.text import format_count, join_lines, shorten_text
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.history import MemoryChange
from adk_graph_memory.records.results import Filters, Receipt
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import MemoryKind, Origin, check_origin

if TYPE_CHECKING:
    from adk_graph_memory.records.facts import FactStatus
    from adk_graph_memory.records.results import Recollection, StoredFact


_ORIGIN_HELP = f"Only this origin: {', '.join(get_args(Origin))}; repeat the option for several."
SHARES_HINT = (
    "Each number is how much a signal adds to the memory's rank: +1.00 is one deviation from what is usual for this "
    "user's memories. The higher the score in front (0 to 1), the more likely the memory helps to answer the question."
)
"""What the numbers of ``recall --explain`` mean."""
_STATUS_HEADINGS: dict[str, tuple[FactStatus, ...]] = {
    "": ("holds", "planned"),
    "Planned, and nothing was heard of it since:": ("lapsed",),
    "Happened:": ("happened",),
    "No longer so, or in doubt:": ("over",),
}
"""Headings of the list of facts, with the statuses that belong under each."""


def parse_moment(text: str) -> datetime:
    """Parse a date or a time of an option."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        example = "2026-05-29, 2026-05-29T18:00 or 2026-05-29T18:00+02:00"
        raise typer.BadParameter(f"{text!r} is not a date or a time such as {example}.") from error


MomentOption = partial(typer.Option, parser=parse_moment, metavar="<date or time>")
ValidOption = Annotated[
    datetime | None, MomentOption("--valid-at", help="Only what was true then (a date or a time in the user's zone).")
]
RecordedOption = Annotated[datetime | None, MomentOption("--recorded-at", help="Only what was on record then.")]


async def resolve_as_of(
    connection: connections.Connection, scope: Scope | None, valid_at: datetime | None, recorded_at: datetime | None
) -> AsOf | None:
    """Resolve the point in time, in the user's zone if it is one user's; a date without a time is the day's end."""
    if valid_at is None and recorded_at is None:
        return None
    zone = await speakers.SpeakerCache(connection).find_zone(scope) if scope else connection.settings.timezone
    moments = (moment and set_timezone(_extend_to_day_end(moment), zone) for moment in (valid_at, recorded_at))
    return AsOf(*moments)


@command(MEMORY_PANEL)
async def profile(owner: Owner) -> Output:
    """Print what is always worth knowing about a user, in the form that a prompt gets."""
    async with owner.open_memory() as user:
        known = await user.profile()
    if not known.items:
        await owner.check()
    return Output(known.items, known.text or "Nothing is known yet.")


@command(MEMORY_PANEL)
async def facts(
    owner: Owner,
    about: Annotated[str | None, typer.Option(help="Only about the person or thing with this name.")] = None,
    past: Annotated[
        bool, typer.Option("--all", help="Also facts that have ended, were retracted or are stale.")
    ] = False,
    valid_at: ValidOption = None,
    recorded_at: RecordedOption = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
) -> Output:
    """List what is known about a user, newest first: what is true, what was planned, and what happened once."""
    async with owner.open_graph() as graph:
        as_of = await resolve_as_of(graph.connection, owner.scope, valid_at, recorded_at)
        listing = listings.iterate_facts(graph, about=about, past=past, limit=limit, after=after, as_of=as_of)
        page = await collect_page(listing, owner.app_name, owner.user_id)
        if about and not page and not after and as_of is None:  # whom they mean may be spelled with accents
            meant = await graph_listings.find_entity(graph, about, now=datetime.now(UTC))
            listing = listings.iterate_facts(graph, about=meant.key, past=past, limit=limit)
            page = await collect_page(listing, owner.app_name, owner.user_id)
    sections: list[RenderableType] = []
    for heading, statuses in _STATUS_HEADINGS.items():
        rows = [
            (format_day(fact.at), add_details(fact.text, " · ".join(_list_details(fact, owner.scope))))
            for fact in page
            if fact.status in statuses
        ]
        if rows:
            sections += [*filter(None, [heading]), make_grid(rows)]
    hint = "`adk-graph-memory entities` lists the people and things that facts are about." if about else None
    text = Group(*sections) if page else "No facts."
    return make_page(page, text, limit=limit, after=lambda fact: fact.id, hint=None if page else hint)


def _list_details(fact: StoredFact, scope: Scope) -> list[str]:
    """List a fact's id, who said it if not the user, when it holds, and what is odd about it."""
    start_word = "for" if fact.modality == "planned" else "from"
    end_word = "ended" if fact.status == "over" else "until"
    start = format_short_date(fact.valid_from, fact.valid_from_precision)
    end = format_short_date(fact.valid_to, fact.valid_to_precision, is_end=True)
    period = [f"{word} {date}" for word, date in ((start_word, start), (end_word, end)) if date]
    marks = {"retracted": fact.state == "retracted", "stale": fact.is_stale, "disputed": fact.is_disputed}
    author = [fact.author] if fact.author and fact.author != scope.owner_name else []
    return [fact.id, *author, *period, *(mark for mark, is_so in marks.items() if is_so)]


@command(MEMORY_PANEL)
async def entities(
    owner: Owner,
    type: Annotated[str | None, typer.Option(help="Only this type: person, place …")] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
) -> Output:
    """List the people and things that a user's facts are about, those with the most facts first."""
    async with owner.open_graph() as graph:
        listing = listings.iterate_entities(graph, type=type, limit=limit, after=after)
        page = await collect_page(listing, owner.app_name, owner.user_id)
    rows = []
    for entity in page:
        aliases = f"also {', '.join(entity.other_names)}" if entity.other_names else ""
        name = add_details(entity.display_name, entity.about, aliases)
        rows.append((format_count(entity.facts, "fact"), entity.type, name))
    text = make_grid(rows) if rows else "No entities."
    return make_page(page, text, limit=limit, after=lambda entity: entity.key)


@command(MEMORY_PANEL)
async def recall(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION", help="A question, or any words.")],
    owner: Owner,
    limit: LimitOption = 10,
    since: Annotated[datetime | None, MomentOption(help="Said on this day (in the user's zone) or later.")] = None,
    until: Annotated[datetime | None, MomentOption(help="Said on this day or earlier.")] = None,
    kind: Annotated[MemoryKind | None, typer.Option(help="fact: facts only; event: turns only.")] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="Only from this session.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only facts on this topic.")] = None,
    entity: Annotated[str | None, typer.Option(help="Only about the person or thing with this name.")] = None,
    origin: Annotated[list[str] | None, typer.Option(help=_ORIGIN_HELP)] = None,
    min_score: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out memories with a lower score.")
    ] = None,
    valid_at: ValidOption = None,
    recorded_at: RecordedOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what makes up each score.")] = False,
) -> Output:
    """Print the memories of a user that best fit a question."""

    def build_filters(zone: tzinfo) -> Filters:
        start, end = since and set_timezone(since, zone), until and set_timezone(_extend_to_day_end(until), zone)
        return Filters(start, end, kind, session_id, topic, entity, {}, tuple(map(check_origin, origin or ())))

    query = " ".join(words)
    if not query.strip():
        raise UsageError("Give a question, or any words.")
    build_filters(UTC)  # rejects invalid filters before connecting to a server
    async with owner.open_memory() as user:
        zone = await user.engine.speakers.find_zone(user.scope)
        announce("Loading the embedding model")
        await user.engine.vectors.check_embedder()
        announce("Searching")
        memories = await user.recall(
            query,
            limit=limit,
            min_score=min_score,
            filters=build_filters(zone),
            explain=explain,
            as_of=await resolve_as_of(user.connection, user.scope, valid_at, recorded_at),
        )
    if not memories:
        await owner.check()
    rows = ((f"{memory.score:.2f}", format_day(memory.at), _format_recollection(memory)) for memory in memories)
    text = make_grid(rows) if memories else "Nothing is remembered about this."
    return Output(memories, text, [SHARES_HINT if explain and memories else None])


def _extend_to_day_end(moment: datetime) -> datetime:
    """Move a date without a time to the last moment of its day."""
    return datetime.combine(moment, time.max, moment.tzinfo) if moment.time() == time.min else moment


def set_timezone(moment: datetime, zone: tzinfo) -> datetime:
    """Take a time without a zone as of this zone."""
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
    owner: Owner,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of memories, as `recall` and `facts` print them.")
    ] = None,
    session_id: Annotated[
        str | None, typer.Option("--session", help="All memories of this session; the session itself stays.")
    ] = None,
    with_turns: Annotated[
        bool, typer.Option("--with-turns", help="Also forget the turns that the facts rest on.")
    ] = False,
    yes: YesOption = False,
) -> Output:
    """Forget memories for good, and facts that rest on them alone; adding their session does not bring them back."""
    if bool(ids) == bool(session_id) or (session_id and with_turns):
        raise UsageError("Give either ids of memories, with or without --with-turns, or --session.")
    session_id = session_id and session_id.strip()
    async with owner.open_memory() as user:
        if session_id:
            count = await erasing.count_session_memories(user.graph, session_id)
        else:
            known_ids = [*(ids or ()), *map(fact_rules.compute_statement_memory_id, ids or ())]
            count = await erasing.count_known_memories(user.graph, known_ids)
        if not count:
            await _check_target(owner, session_id, ids)
        else:
            target = format_count(count, "memory", "memories") + (f" of session {session_id!r}" if session_id else "")
            question = f"Forget {target} for good, with the facts that rest on nothing else?"
            if ids and not yes:
                change = await user.preview_forget(ids, with_turns=with_turns)
                question = "\n".join([*_list_what_stays(change), question])
            confirm(question, yes=yes)
        announce("Forgetting")
        if session_id:
            receipt = await user.forget_session(session_id)
        else:
            receipt = await user.forget(ids or [], with_turns=with_turns)
    return Output(receipt, _describe_receipt(receipt))


def _describe_receipt(receipt: Receipt) -> str:
    counts = format_count(receipt.facts, "fact"), format_count(receipt.events, "turn")
    entities = format_count(receipt.entities, "entity", "entities")
    turns, copies = (receipt.stays.get(kind, 0) for kind in ("turns", "copies"))
    lines = [
        f"Forgotten: {', '.join(counts)} and {entities}.",
        f"What was said in {format_count(turns, 'turn')} stays in memory; --with-turns forgets it too." * bool(turns),
        f"Shared memories keep {format_count(copies, 'copy', 'copies')} of it." * bool(copies),
    ]
    return "\n".join(filter(None, lines))


def _list_what_stays(change: MemoryChange) -> list[str]:
    """List the turns that would still say what is forgotten as a fact, and the copies in shared memories."""
    lines = [
        f"Stays, unless you give --with-turns: {join_lines(shorten_text(text, 100))} ({id})"
        for id, text in change.staying_turns.items()
    ]
    if change.copies:
        lines.append(f"Stays in shared memories: {format_count(change.copies, 'copy', 'copies')} of it.")
    if change.turns:
        lines.append(
            f"Also forgotten: {format_count(change.turns, 'turn')}, and everything that rests on nothing else."
        )
    return lines


async def _check_target(owner: Owner, session_id: str | None, ids: Sequence[str] | None) -> None:
    """After nothing was found to forget, make sure that there is the session; there are no memories of these ids."""
    await owner.check()
    if session_id:
        await load_session(owner.app_name, owner.user_id, session_id, recent=0)
        return
    what = f"memory {' or '.join(map(repr, ids or ()))} of user {owner.user_id!r} in app {owner.app_name!r}"
    raise errors.NotFound(what=what, where="`adk-graph-memory facts` and `adk-graph-memory recall`")
