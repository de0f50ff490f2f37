"""Find what was read by another extractor than today's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from neo4j import Record

from adk_graph_memory.graph import erasing, ingest_queue
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.graph.ingest_queue import CONTEXT_TURNS, Lease
from adk_graph_memory.graph.listings import iterate_owners
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Turn


@dataclass(frozen=True, slots=True)
class OutdatedSession:
    """A session with turns that another extractor read: how many turns, and their characters."""

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


async def iterate_outdated_sessions(
    connection: Connection,
    extractor: str | None,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    since: float | None = None,
) -> AsyncIterator[OutdatedSession]:
    """Yield the sessions with turns last read by an extractor of another version, user by user.

    Never read again are turns on which the owner ruled, from which a fact was forgotten, or which were added directly.

    Args:
        connection: a connection.
        extractor: the version; None for all sessions.
        app_name: of this app only.
        user_id: of this user only.
        since: only turns said since this time, in epoch seconds.
    """
    async for scope in iterate_owners(connection, app_name, user_id):
        characters: dict[str, list[int]] = {}
        for row in await _fetch_rows(connection.user(scope), None, extractor, since):
            characters.setdefault(row["session_id"], []).append(row["characters"])
        for session_id, counts in characters.items():
            yield OutdatedSession(scope, session_id, len(counts), sum(counts))


async def fetch_outdated_turns(
    graph: UserGraph, session_id: str, extractor: str | None, since: float | None = None
) -> list[OutdatedTurns]:
    """Fetch the turns of a session that :func:`iterate_outdated_sessions` counts, those of the same topics together."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for row in await _fetch_rows(graph, session_id, extractor, since):
        groups.setdefault(tuple(row["topics"]), []).append(row["turn"])
    return [
        OutdatedTurns(
            tuple(replace(ingest_queue.read_turn(turn), session_id=session_id) for turn in turns),
            topics,
            {turn["id"]: turn["ingest"] for turn in turns},
        )
        for topics, turns in groups.items()
    ]


async def _fetch_rows(
    graph: UserGraph, session_id: str | None, extractor: str | None, since: float | None
) -> list[Record]:
    """Fetch rows of turns to be read again, without those from which a fact was forgotten: nothing is read in them."""
    given = {"session_id": session_id, "extractor": extractor, "since": since}
    rows = await graph.run_statement("outdated_turns", given)
    keys = [erasing.make_fact_tombstone(graph.connection, row["memory_id"]) for row in rows]
    graves = await graph.run_statement("tombstones", keys=keys) if keys else []
    refused_keys = {grave["key"] for grave in graves}
    return [row for row, key in zip(rows, keys, strict=True) if key not in refused_keys]


async def fetch_contexts(graph: UserGraph, windows: Sequence[Lease]) -> dict[str, tuple[Turn, ...]]:
    """Fetch the turns before each window, by the window's ingest."""
    firsts = [{"ingest": window.ingest_id, "first": window.memory_ids[window.turns[0].id]} for window in windows]
    rows = await graph.run_statement("contexts", windows=firsts, context=CONTEXT_TURNS)
    return {row["ingest"]: tuple(map(ingest_queue.read_turn, row["turns"])) for row in rows}
