"""Find what was read by another extractor than today's, and write what is read in it now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adk_graph_memory.graph import ingest_queue
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.derivation import MemorySnapshot
from adk_graph_memory.graph.ingest_queue import CONTEXT_TURNS, Lease
from adk_graph_memory.graph.knowledge import iterate_owners
from adk_graph_memory.records import Scope, Turn
from adk_graph_memory.records.readings import Reading, encode_reading


@dataclass(frozen=True, slots=True)
class OutdatedSession:
    """A session of which turns were read by another extractor: how many turns, and their characters."""

    scope: Scope
    session_id: str
    turns: int
    characters: int


@dataclass(frozen=True, slots=True)
class OutdatedTurns:
    """Turns of a session to read again, all restricted to the same topics, with what a reader has to know."""

    turns: tuple[Turn, ...]
    topics: tuple[str, ...]
    ingest_ids: Mapping[str, str]
    """by turn id, the ingest that read it last"""


@dataclass(frozen=True, slots=True)
class Rereading:
    """A window of turns that was read again: what was read, and the columns of the turns' and the ingest's nodes."""

    reading: Reading
    report: str
    model: str
    topics: tuple[str, ...]
    turns: Sequence[Mapping[str, Any]]
    """memory_id, ingest (that read it before), extracted, manner and writer of each"""


async def iterate_outdated_sessions(
    connection: Connection,
    extractor: str | None,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    since: float | None = None,
) -> AsyncIterator[OutdatedSession]:
    """Yield the sessions of which an extractor of another version has read a turn last.

    What the owner ruled on, and what was added directly, is never read again.

    Args:
        connection: a prepared connection.
        extractor: the version; None for all sessions.
        app_name: of this app only.
        user_id: of this user only.
        since: only turns said since this time, in epoch seconds.
    """
    async for scope in iterate_owners(connection, app_name, user_id):
        rows = await connection.run_statement("outdated_sessions", scope=scope.key, extractor=extractor, since=since)
        for row in rows:
            yield OutdatedSession(scope, row["session_id"], row["turns"], row["characters"])


async def fetch_outdated_turns(
    connection: Connection, scope: Scope, session_id: str, extractor: str | None, since: float | None = None
) -> list[OutdatedTurns]:
    """Fetch the turns of a session that :func:`iterate_outdated_sessions` counts, those of the same topics together."""
    rows = await connection.run_statement(
        "outdated_turns", scope=scope.key, session_id=session_id, extractor=extractor, since=since
    )
    return [
        OutdatedTurns(
            tuple(replace(ingest_queue.read_turn(turn), session_id=session_id) for turn in row["turns"]),
            tuple(row["topics"]),
            {turn["id"]: turn["ingest"] for turn in row["turns"]},
        )
        for row in rows
    ]


async def fetch_contexts(connection: Connection, scope: Scope, windows: Sequence[Lease]) -> dict[str, tuple[Turn, ...]]:
    """Fetch the turns before each window, by the window's ingest."""
    firsts = [{"ingest": window.ingest_id, "first": window.memory_ids[window.turns[0].id]} for window in windows]
    rows = await connection.run_statement("contexts", scope=scope.key, windows=firsts, context=CONTEXT_TURNS)
    return {row["ingest"]: tuple(map(ingest_queue.read_turn, row["turns"])) for row in rows}


async def are_turns_as_read(transaction: Transaction, scope: Scope, rereading: Rereading) -> bool:
    """Whether nobody has edited, forgotten or claimed any of the turns meanwhile; the user has to be locked."""
    rows = [{"memory_id": turn["memory_id"], "ingest": turn["ingest"]} for turn in rereading.turns]
    [row] = await transaction.run_statement("turns_as_read", scope=scope.key, turns=rows)
    return bool(row["turns"] == len(rows))


async def write_rereading(
    transaction: Transaction, scope: Scope, snapshot: MemorySnapshot, rereading: Rereading
) -> None:
    """Store what was read again, within a transaction that began a rewrite; what was read before stays for history."""
    reading = rereading.reading
    await transaction.run_statement(
        "write_rereading",
        scope=scope.key,
        id=reading.id,
        session_id=reading.session_id,
        at=reading.at,
        writes=snapshot.writes + 1,
        report=rereading.report,
        extractor=reading.extractor,
        model=rereading.model,
        topics=list(rereading.topics),
        reading=encode_reading(reading),
        held=len(reading.held) or None,
        turns=list(rereading.turns),
    )
