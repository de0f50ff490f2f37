"""Queue turns to remember, lease them to workers window by window, and find sessions that an older extractor read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any, Literal

from neo4j import Record

from adk_graph_memory.graph import erasing, fact_rows
from adk_graph_memory.graph.connection import Connection, Transaction, UserGraph
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT
from adk_graph_memory.language.dates import get_utc_offset, restore_datetime
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.facts import FAMILIAR_FACTS, RECOGNIZING_FACTS, KnownEntity
from adk_graph_memory.records.health import QueueState
from adk_graph_memory.records.scopes import OWNER_NAME, Scope, is_blank
from adk_graph_memory.records.turns import Passage, ShownPart, Turn, is_evidence
from adk_graph_memory.runtime import telemetry

MAX_KNOWN_ENTITIES = 300
"""Entities offered to an extractor; more would crowd out the conversation."""
CONTEXT_TURNS = 4
"""Turns before a window that are shown with it, so that "she" and "there" can be understood."""
MAX_UNEMBEDDED_MEMORIES = 1_000
"""Memories without a vector that one ingest embeds as well."""
PENDING_PER_PAGE = 50
"""Pending requests that one statement returns, at most, with their turns."""
_SHOWN_COLUMNS = tuple(field.name for field in fields(ShownPart) if field.name != "content")


@dataclass(frozen=True, slots=True)
class Lease:
    """A window of turns leased to this worker, and the context it needs to read them."""

    ingest_id: str
    lease_id: str
    session_id: str
    turns: tuple[Turn, ...]
    context: tuple[Turn, ...] = ()
    edited_turn_ids: frozenset[str] = frozenset()
    known_entities: tuple[KnownEntity, ...] = ()
    unembedded_passages: Mapping[str, Passage] = field(default_factory=dict)
    live_slot_name: str | None = None

    @property
    def memory_ids(self) -> dict[str, str]:
        """Memory ids by turn id."""
        return {turn.id: turn.make_memory_id(self.session_id) for turn in self.turns}

    @property
    def is_evidence(self) -> bool:
        """Whether a search finds the facts that rest on these turns, and not the turns."""
        return is_evidence(self.session_id)

    def list_passages(self, forget: Collection[str]) -> dict[str, Passage]:
        """List each turn's passage: its text and that of the turn before it, leaving out the turns to forget.

        Evidence has none: nobody searches for it.
        """
        if self.is_evidence:
            return {}
        turns = [turn for turn in (*self.context, *self.turns) if turn.id not in forget]
        passages = {later.id: Passage(later.text, earlier.text) for earlier, later in pairwise(turns)}
        return {turn.id: passages.get(turn.id, Passage(turn.text)) for turn in self.turns if turn.id not in forget}


@dataclass(frozen=True, slots=True)
class LeasedWindows:
    """The windows leased to this worker, in conversation order, and how many turns another worker has leased."""

    windows: tuple[Lease, ...] = ()
    busy: int = 0

    def __add__(self, other: LeasedWindows) -> LeasedWindows:
        return LeasedWindows(self.windows + other.windows, self.busy + other.busy)


@dataclass(frozen=True, slots=True)
class PendingIngest:
    """An unfinished request to remember turns, with its attempts so far and the reason it is not finished."""

    scope: Scope
    session_id: str
    turns: tuple[Turn, ...]
    attempts: int
    reason: str | None
    topics: tuple[str, ...] = ()
    """labels of the allowed topics; empty for all"""
    wait_seconds: float = 0.0
    """seconds since the request was made"""
    model: str = ""
    """name of the model it was made for; ``rules`` for none"""


@dataclass(frozen=True, slots=True)
class ClaimedIngest:
    """A request that a worker reads, and when another may take it over if that worker has died."""

    app_name: str
    user_id: str
    session_id: str
    free_at: datetime


async def lease_turns(
    graph: UserGraph,
    session_id: str,
    turns: Sequence[Turn],
    *,
    split: Callable[[Sequence[Turn]], Sequence[Sequence[Turn]]],
    lease: str,
    now: float,
    lease_seconds: float,
    metadata: JsonMapDelta,
    topics: Sequence[str] = (),
    model: str = "rules",
    pending_reason: str | None = None,
) -> LeasedWindows:
    """Store the request with its turns, and lease the unread ones to this worker.

    Args:
        graph: the user's graph.
        session_id: the turns' session.
        turns: the turns, at least one, each once.
        split: splits the unread turns into windows; each becomes an Ingest node.
        lease: this worker's token.
        now: epoch seconds.
        lease_seconds: how long the lease lasts.
        metadata: merged into the turns' metadata.
        topics: labels of the allowed topics, kept for whoever resumes the request; empty for all.
        model: name of the model that is to extract from the turns, kept likewise.
        pending_reason: if set, the windows stay pending for this reason instead of being leased.
    """
    foreign_uid = f"elsewhere:{digest(session_id)}"
    await graph.connection.prepare()
    requests = await asyncio.to_thread(_encode_request_rows, graph.connection, turns, session_id)

    async def work(transaction: Transaction) -> LeasedWindows:
        given = {
            "offset": get_utc_offset(turns[-1].at),
            "now": now,
            "lease": lease,
        }
        rows = list[Record]()
        for start in range(0, len(requests), ROWS_PER_STATEMENT):
            part = requests[start : start + ROWS_PER_STATEMENT]
            session = {"session_id": session_id, "foreign_uid": foreign_uid}
            rows += await transaction.run_statement("unread_turns", given, **session, turns=part)
        unread = {row["id"]: row for row in rows if not row["is_busy"]}
        leased_windows = LeasedWindows(busy=len(rows) - len(unread))
        if unread:
            first = next(iter(unread.values()))
            kept = [_keep_descriptions(turn, unread[turn.id]["shown"]) for turn in turns if turn.id in unread]
            unread_turns = _number_turns(kept, unread, session_id)
            edited = frozenset(id for id, row in unread.items() if row["is_edited"])
            windows, turn_rows = await asyncio.to_thread(_split_windows, split, unread_turns, lease, session_id)
            place = {"session_id": session_id, "uid": first["uid"], "foreign_uid": foreign_uid}
            if len(unread_turns) > ROWS_PER_STATEMENT:
                await transaction.run_rows("store_turns", list(chain(*turn_rows)), **place)
                turn_rows = [[]] * len(windows)
            [row] = await transaction.run_statement(
                "claim_turns",
                {"now": now, "lease_until": now + lease_seconds, **place},
                last_seq=first["last_seq"],
                windows=[
                    {"ingest": window.ingest_id, "first": window.turns[0].make_memory_id(session_id), "turns": rows}
                    for window, rows in zip(windows, turn_rows, strict=True)
                ],
                topics=list(topics),
                model=model,
                lease=lease,
                pending_reason=pending_reason,
                context=CONTEXT_TURNS,
                entities=MAX_KNOWN_ENTITIES,
                familiar=0 if model == "rules" else FAMILIAR_FACTS,
                facts=RECOGNIZING_FACTS,
                texts=MAX_UNEMBEDDED_MEMORIES,
            )
            windows = [replace(window, edited_turn_ids=edited, live_slot_name=first["live"]) for window in windows]
            leased_windows = replace(leased_windows, windows=_add_context(windows, row))
        await _annotate_turns(transaction, session_id, turns, metadata)
        return leased_windows

    return await graph.transact(work)


async def _annotate_turns(
    transaction: Transaction, session_id: str, turns: Sequence[Turn], metadata: JsonMapDelta
) -> None:
    """Merge metadata into the turns, and date those that expire; turns that were read before get both too."""
    if metadata.keys:
        merge = {"ids": [turn.make_memory_id(session_id) for turn in turns], "metadata": metadata.to_parameter()}
        await transaction.run_statement("merge_metadata", merge)
    # Evidence that is given again without an expiry is to stay from now on.
    dated_turns = [turn for turn in turns if turn.expires_at or turn.revisions_expire_at or is_evidence(session_id)]
    if rows := [_encode_expiry_row(turn, session_id) for turn in dated_turns]:
        await transaction.run_rows("date_turns", rows)


def _add_context(windows: Sequence[Lease], row: Record) -> tuple[Lease, ...]:
    """Add context turns and known entities to each window, and memories without a vector to the first."""
    contexts = {context["ingest"]: tuple(map(read_turn, context["turns"])) for context in row["contexts"]}
    entities = tuple(
        replace(read_known_entity(known["entity"]), facts=tuple(known["facts"])) for known in row["entities"]
    )
    first, *others = (
        replace(window, context=contexts.get(window.ingest_id, ()), known_entities=entities) for window in windows
    )
    unembedded = {memory["id"]: Passage(memory["text"], memory["before"]) for memory in row["unembedded"]}
    return replace(first, unembedded_passages=unembedded), *others


def _keep_descriptions(turn: Turn, column: Sequence[str] | None) -> Turn:
    """Give the parts of an edited turn the descriptions that they had."""
    if not (turn.shown and column):
        return turn
    former = {part.key: part for part in read_shown(column) if part.described_by}
    return turn.show_parts(
        replace(part, description=former[part.key].description, described_by=former[part.key].described_by)
        if part.key in former and not part.described_by
        else part
        for part in turn.shown
    )


def _number_turns(turns: Sequence[Turn], unread: Mapping[str, Record], session_id: str) -> list[Turn]:
    """Set each turn's place in its session; turns that the graph does not have come after all that it has."""
    last_seq = next(iter(unread.values()))["last_seq"]
    new_ids = [turn.id for turn in turns if unread[turn.id]["seq"] is None]
    seqs = {id: last_seq + n for n, id in enumerate(new_ids, start=1)}
    return [replace(turn, seq=seqs.get(turn.id) or unread[turn.id]["seq"], session_id=session_id) for turn in turns]


async def release_lease(graph: UserGraph, lease: str, reason: str, ingest: str | None = None) -> None:
    """End a lease (or its window ``ingest``) unfinished: the windows are pending again, with the reason."""
    reason = reason.encode("utf-8", "replace").decode()
    await graph.run_statement("fail_ingest", lease=lease, reason=reason, ingest=ingest)


async def fetch_pending_ingests(connection: Connection, **which: Any) -> list[PendingIngest]:
    """List what :func:`iterate_pending_ingests` yields."""
    return [ingest async for ingest in iterate_pending_ingests(connection, **which)]


async def iterate_pending_ingests(
    connection: Connection,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    before: float | None = None,
    max_attempts: int | None = None,
) -> AsyncIterator[PendingIngest]:
    """Yield unfinished requests that no worker has leased, oldest first, of an app, a user or all, a page at a time.

    ``before`` keeps requests made by then (epoch seconds), ``max_attempts`` those with fewer attempts.
    """
    filters = {"before": before, "max_attempts": max_attempts, "now": time.time(), "limit": PENDING_PER_PAGE}
    after: Mapping[str, Any] | None = None
    while True:
        if app_name is not None and user_id is not None:
            graph = connection.user(Scope(app_name, user_id))
            rows = await graph.run_statement("pending_ingests_of_user", filters, after=after)
        else:
            owner = {"app_name": app_name, "user_id": user_id}
            rows = await connection.run_statement("pending_ingests", filters, **owner, after=after)
        for row in rows:
            yield PendingIngest(
                scope=Scope.from_graph(row["app_name"], row["user_id"]),
                session_id=row["session_id"],
                turns=tuple(map(_read_pending_turn, row["turns"])),
                attempts=row["attempts"],
                reason=row["reason"],
                topics=tuple(row["topics"]),
                wait_seconds=row["waited"],
                model=row["model"],
            )
        if len(rows) < PENDING_PER_PAGE:
            return
        after = rows[-1]["place"]


async def fetch_claimed_ingests(
    connection: Connection, *, app_name: str | None = None, user_id: str | None = None
) -> list[ClaimedIngest]:
    """List the requests that workers have leased, of an app, a user or all; the first to be free comes first."""
    filters = {"app_name": app_name, "user_id": user_id, "now": time.time()}
    return [
        ClaimedIngest(
            row["app_name"], row["user_id"], row["session_id"], datetime.fromtimestamp(row["lease_until"], UTC)
        )
        for row in await connection.run_statement("claimed_ingests", filters)
    ]


async def count_waiting_ingests(connection: Connection, app_name: str | None = None) -> QueueState:
    """Count the unfinished requests of an app, or of all, including those that were given up."""
    [row] = await connection.run_statement("count_waiting", app_name=app_name, now=time.time())
    return QueueState(**row)


async def record_waiting_ingests(connection: Connection, app_name: str) -> None:
    """Report to telemetry how many requests of an app are unfinished."""
    telemetry.record_pending(app_name, (await count_waiting_ingests(connection, app_name)).pending)


async def fetch_ingest_reports(
    connection: Connection, *, app_name: str | None = None, user_id: str | None = None
) -> list[dict[str, Any]]:
    """List finished requests of one app or user, or of all: app_name, user_id, day, extractor, report (JSON)."""
    if app_name is not None and user_id is not None:
        owner = {"app_name": app_name, "user_id": user_id}
        rows = await connection.user(Scope(**owner)).run_statement("ingest_reports_of_user")
        return [{**owner, **row} for row in rows]
    rows = await connection.run_statement("ingest_reports", app_name=app_name, user_id=user_id)
    return [dict(row) for row in rows]


async def fetch_event_body(graph: UserGraph, memory_id: str) -> str | None:
    """Fetch the JSON of a turn's event as its session holds it; None if the session is not in this graph."""
    rows = await graph.run_statement("event_body", memory_id=memory_id)
    return rows[0]["body"] if rows else None


async def find_edited_turns(graph: UserGraph, session_id: str, turns: Sequence[Turn]) -> list[str]:
    """Find the ids of the turns that memory holds with other texts, authors or roles."""
    rows = [encode_turn_row(turn, session_id) for turn in turns]
    ids = list[str]()
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        found = await graph.run_statement("edited_turns", turns=rows[start : start + ROWS_PER_STATEMENT])
        ids += [row["id"] for row in found]
    return ids


def read_known_entity(row: Mapping[str, Any]) -> KnownEntity:
    """Read an entity from the map that statements return."""
    aliases, merged_keys = tuple(row["aliases"]), tuple(row["merged_keys"])
    own_names, foreign_names = tuple(row["own_names"] or ()), tuple(row["foreign_names"] or ())
    names = aliases, row["about"] or "", merged_keys, own_names, foreign_names
    return KnownEntity(row["key"], row["name"], row["type"], *names)


def _compute_ingest_id(session_id: str, turns: Sequence[Turn]) -> str:
    """Compute an id from the content, so that the same turns with the same text are the same request."""
    return digest(session_id, *(part for turn in turns for part in (turn.id, turn.text_key)))


def _split_windows(
    split: Callable[[Sequence[Turn]], Sequence[Sequence[Turn]]], turns: Sequence[Turn], lease: str, session_id: str
) -> tuple[list[Lease], list[list[dict[str, Any]]]]:
    """Split the turns into windows; return these, and the rows of each one's turns."""
    windows = [Lease(_compute_ingest_id(session_id, part), lease, session_id, tuple(part)) for part in split(turns)]
    return windows, [
        [{**encode_turn_row(turn, session_id), "seq": turn.seq, "ingest": window.ingest_id} for turn in window.turns]
        for window in windows
    ]


def _encode_request_rows(connection: Connection, turns: Sequence[Turn], session_id: str) -> list[dict[str, Any]]:
    ids = [turn.make_memory_id(session_id) for turn in turns]
    return [
        {
            "id": turn.id,
            "memory_id": id,
            "text_key": turn.text_key,
            "tombstone": erasing.make_turn_tombstone(connection, id),
        }
        for turn, id in zip(turns, ids, strict=True)
    ]


def encode_turn_row(turn: Turn, session_id: str) -> dict[str, Any]:
    """Encode a turn as a row of the statements that store it."""
    return {
        "id": turn.id,
        "memory_id": turn.make_memory_id(session_id),
        "author": turn.author,
        "role": turn.role,
        "origin": turn.origin,
        "text": turn.text,
        **encode_shown_columns(turn),
        "timestamp": turn.at.timestamp(),
        "offset": get_utc_offset(turn.at),
    }


def encode_shown_columns(turn: Turn) -> dict[str, Any]:
    """Encode what a turn shows as columns of its node; both are None if it shows nothing."""
    return {"own_text": turn.own_text, "shown": [json.dumps(_describe_part(part)) for part in turn.shown] or None}


def _describe_part(part: ShownPart) -> dict[str, Any]:
    return {name: value for name in _SHOWN_COLUMNS if (value := getattr(part, name)) not in ("", None)}


def read_shown(column: Sequence[str] | None) -> tuple[ShownPart, ...]:
    """Read what a turn shows from the column of its node."""
    return tuple(ShownPart(**json.loads(text)) for text in column or ())


def _encode_expiry_row(turn: Turn, session_id: str) -> dict[str, Any]:
    return {
        "memory_id": turn.make_memory_id(session_id),
        "is_evidence": is_evidence(session_id),
        "expires_at": turn.expires_at and turn.expires_at.timestamp(),
        "revisions_expire_at": turn.revisions_expire_at and turn.revisions_expire_at.timestamp(),
    }


def read_turn(row: Mapping[str, Any]) -> Turn:
    """Read a turn from the map that statements return."""
    at = restore_datetime(row["timestamp"], row["offset"])
    role: Literal["user", "model"] = "model" if row["role"] == "model" else "user"
    author = row["author"]
    if is_blank(author):  # of a graph, or an export, from before these were refused
        author = "agent" if role == "model" else OWNER_NAME
    turn = Turn(row["id"], author, row["text"], at, role, row["seq"] or 0, origin=row["origin"])
    return replace(turn, own_text=row["own_text"], shown=read_shown(row["shown"])) if row["shown"] else turn


def _read_pending_turn(row: Mapping[str, Any]) -> Turn:
    expires_at, revisions_expire_at = map(fact_rows.read_expiry, (row["expires_at"], row["revisions_expire_at"]))
    return replace(read_turn(row), expires_at=expires_at, revisions_expire_at=revisions_expire_at)
