"""Turns to remember go in and are claimed, a window at a time; the Ingest nodes are the queue of what is yet to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from neo4j import Record

from adk_graph_memory import telemetry
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.members import Delta
from adk_graph_memory.graph.queries import scoped
from adk_graph_memory.language.zones import moment_at, offset_of
from adk_graph_memory.records import KnownEntity, Passage, Scope, Turn, digest

MOST_KNOWN_ENTITIES = 300
"""Entities that are offered to an extractor; more would crowd out the conversation."""
CONTEXT = 4
"""Turns before a window that are shown with it, so that "she" and "there" can be understood."""
MOST_UNEMBEDDED = 1_000  # memories without a vector that one ingest makes up for


@dataclass(frozen=True, slots=True)
class Claim:
    """A window of turns that this worker may read, and what it needs to know to read them."""

    ingest: str
    lease: str
    session_id: str
    turns: tuple[Turn, ...]
    context: tuple[Turn, ...] = ()
    edited: frozenset[str] = frozenset()
    known: tuple[KnownEntity, ...] = ()
    unembedded: Mapping[str, Passage] = field(default_factory=dict)
    live: str | None = None

    @property
    def memory_ids(self) -> dict[str, str]:
        """The id under which memory knows each turn."""
        return {turn.id: turn.memory_id(self.session_id) for turn in self.turns}

    def passages(self, forget: Collection[str]) -> dict[str, Passage]:
        """What is embedded of each turn, after what was said before it; what is to be forgotten is left out."""
        said = [turn for turn in (*self.context, *self.turns) if turn.id not in forget]
        passages = {later.id: Passage(later.text, earlier.text) for earlier, later in pairwise(said)}
        return {turn.id: passages.get(turn.id, Passage(turn.text)) for turn in self.turns if turn.id not in forget}


@dataclass(frozen=True, slots=True)
class Claims:
    """The windows to read, in the order they were said, and how many turns another worker is reading."""

    windows: tuple[Claim, ...] = ()
    busy: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """A request to remember that was not finished: whose it is, what was said, and why it failed."""

    scope: Scope
    session_id: str
    turns: tuple[Turn, ...]
    attempts: int
    reason: str | None
    topics: tuple[str, ...] = ()
    """labels of the topics that were allowed; empty for all"""
    waited: float = 0.0
    """seconds since it was made"""


async def claim(
    connection: Connection,
    scope: Scope,
    session_id: str,
    turns: Sequence[Turn],
    *,
    split: Callable[[Sequence[Turn]], Sequence[Sequence[Turn]]],
    lease: str,
    now: float,
    lease_seconds: float,
    metadata: Delta,
    topics: Sequence[str] = (),
    waits: str | None = None,
) -> Claims:
    """Stores the request with its turns and takes what is new of them for this worker.

    Args:
        connection: a prepared connection.
        scope: whose memory it is.
        session_id: where it was said.
        turns: what was said, each turn once.
        split: cuts the unread turns into windows; each becomes an Ingest of its own.
        lease: this worker's token.
        now: epoch seconds.
        lease_seconds: for how long the windows are left to this worker.
        metadata: merged into what is known of the turns.
        topics: labels of those that the request allows, kept for whoever takes it up again; of none, all.
        waits: why the windows are left pending instead, for whoever resumes.
    """
    foreign_uid = f"elsewhere:{digest(session_id)}"

    async def work(transaction: Transaction) -> Claims:
        rows = await transaction.run(
            "unread_turns",
            scoped(scope),
            session_id=session_id,
            foreign_uid=foreign_uid,
            turns=[{**_turn(turn, session_id), "text_key": turn.text_key} for turn in turns],
            offset=offset_of(turns[-1].at),
            now=now,
            lease=lease,
        )
        unread = {row["id"]: row for row in rows if not row["is_busy"]}
        claims = Claims(busy=len(rows) - len(unread))
        if unread:
            first = next(iter(unread.values()))
            mine = _placed([turn for turn in turns if turn.id in unread], unread, session_id)
            edited = frozenset(id for id, row in unread.items() if row["is_edited"])
            parts = await asyncio.to_thread(split, mine)
            windows = [Claim(_id(session_id, part), lease, session_id, tuple(part)) for part in parts]
            [row] = await transaction.run(
                "claim_turns",
                scope=scope.key,
                session_id=session_id,
                uid=first["uid"],
                foreign_uid=foreign_uid,
                last_seq=first["last_seq"],
                windows=[_window(window) for window in windows],
                topics=list(topics),
                lease=lease,
                lease_until=now + lease_seconds,
                waits=waits,
                context=CONTEXT,
                entities=MOST_KNOWN_ENTITIES,
                texts=MOST_UNEMBEDDED,
            )
            contexts = {ingest: tuple(map(_said, said)) for ingest, said in row["contexts"]}
            shared = {"edited": edited, "known": tuple(map(known_entity, row["entities"])), "live": first["live"]}
            windows = [replace(window, context=contexts.get(window.ingest, ()), **shared) for window in windows]
            windows[0] = replace(windows[0], unembedded={id: Passage(*said) for id, *said in row["unembedded"]})
            claims = replace(claims, windows=tuple(windows))
        if metadata.keys:
            ids = [turn.memory_id(session_id) for turn in turns]
            await transaction.run("merge_metadata", scope=scope.key, ids=ids, metadata=metadata.parameter())
        return claims

    return await connection.transact(work)


def _placed(turns: Sequence[Turn], unread: Mapping[str, Record], session_id: str) -> list[Turn]:
    """The turns with their places in the session; those that the graph does not know come after all that it does."""
    last = next(iter(unread.values()))["last_seq"]
    missing = [turn.id for turn in turns if unread[turn.id]["seq"] is None]
    seqs = {id: last + n for n, id in enumerate(missing, start=1)}
    return [replace(turn, seq=seqs.get(turn.id) or unread[turn.id]["seq"], session_id=session_id) for turn in turns]


async def release(connection: Connection, scope: Scope, lease: str, reason: str, ingest: str | None = None) -> None:
    """Leaves what was claimed under this lease (or one window of it) pending, with the reason, for who comes next."""
    reason = reason.encode("utf-8", "replace").decode()
    await connection.run("fail_ingest", scope=scope.key, lease=lease, reason=reason, ingest=ingest)


async def pending(
    connection: Connection,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    before: float | None = None,
    tries: int | None = None,
) -> list[Pending]:
    """Requests to remember that nobody works at, the oldest first; of one app or user, or made before some time.

    With ``tries``, only those that were tried fewer times.
    """
    wanted = {"before": before, "tries": tries, "now": time.time()}
    if app_name is not None and user_id is not None:
        rows = await connection.run("pending_ingests_of_user", wanted, scope=Scope(app_name, user_id).key)
    else:
        rows = await connection.run("pending_ingests", wanted, app_name=app_name, user_id=user_id)
    return [
        Pending(
            Scope(row["app_name"], row["user_id"]),
            row["session_id"],
            tuple(map(_said, row["turns"])),
            row["attempts"],
            row["reason"],
            tuple(row["topics"]),
            row["waited"],
        )
        for row in rows
    ]


async def count_waiting(connection: Connection, app_name: str) -> None:
    """Tells telemetry how many requests of an app wait, those that were given up included."""
    [row] = await connection.run("count_waiting", app_name=app_name)
    telemetry.waiting({app_name: row["waiting"]})


async def reports(
    connection: Connection, *, app_name: str | None = None, user_id: str | None = None
) -> list[dict[str, Any]]:
    """Finished requests of one app or user, or of all: app_name, user_id, day, extractor and the report as JSON."""
    return [dict(row) for row in await connection.run("ingest_reports", app_name=app_name, user_id=user_id)]


async def listed(connection: Connection, scope: Scope) -> list[dict[str, Any]]:
    """The user's requests to remember, oldest first: id, session_id, state, reason, report."""
    return [dict(row) for row in await connection.run("ingests", scope=scope.key)]


def known_entity(row: Sequence[Any]) -> KnownEntity:
    """An entity of the graph, as statements return one."""
    key, name, type_, aliases, about, merged = row
    return KnownEntity(key, name, type_, tuple(aliases), about or "", tuple(merged))


def _id(session_id: str, turns: Sequence[Turn]) -> str:
    """The same turns of the same words are the same request, whoever makes it."""
    return digest(session_id, *(part for turn in turns for part in (turn.id, turn.text_key)))


def _window(window: Claim) -> dict[str, Any]:
    turns = [{**_turn(turn, window.session_id), "seq": turn.seq} for turn in window.turns]
    return {"ingest": window.ingest, "turns": turns}


def _turn(turn: Turn, session_id: str) -> dict[str, Any]:
    return {
        "id": turn.id,
        "memory_id": turn.memory_id(session_id),
        "author": turn.author,
        "role": turn.role,
        "text": turn.text,
        "timestamp": turn.at.timestamp(),
        "offset": offset_of(turn.at),
    }


def _said(row: Sequence[Any]) -> Turn:
    """A turn of the graph, as statements return one."""
    id, author, role, text, timestamp, offset, seq = row
    return Turn(id, author, text, moment_at(timestamp, offset), role or "user", seq or 0)
