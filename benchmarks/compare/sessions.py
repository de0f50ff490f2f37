"""The session services that are compared, and what an event and a session cost in each."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from adk_graph_memory import Neo4jSessionService
from benchmarks.compare.counter import Counter
from benchmarks.compare.rows import Peer, Stage
from benchmarks.latency.clock import time_call
from benchmarks.latency.speech import Speaker
from benchmarks.percentile import compute_percentile

APP, USER = "compare", "ada"
EVENTS, WARM_UP = 50, 3


@asynccontextmanager
async def open_ours(stage: Stage) -> AsyncIterator[BaseSessionService]:
    """As it is."""
    async with stage.serve() as settings, Neo4jSessionService(settings=settings) as service:
        await service.prepare()
        yield service


@asynccontextmanager
async def open_in_memory(stage: Stage) -> AsyncIterator[BaseSessionService]:
    """As it is."""
    yield InMemorySessionService()


@asynccontextmanager
async def open_sqlite(stage: Stage) -> AsyncIterator[BaseSessionService]:
    """On a file."""
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    service = SqliteSessionService(str(stage.folder / "sqlite.db"))
    try:
        yield service
    finally:
        await service.close()


@asynccontextmanager
async def open_database(stage: Stage) -> AsyncIterator[BaseSessionService]:
    """On a file of SQLite's."""
    from google.adk.sessions.database_session_service import DatabaseSessionService

    service = DatabaseSessionService(f"sqlite+aiosqlite:///{stage.folder / 'database.db'}")
    try:
        yield service
    finally:
        await service.close()


PEERS = (
    Peer("adk-graph-memory", "as it is", open_ours, is_ours=True),
    Peer("ADK InMemorySessionService", "as it is; in the process's memory", open_in_memory),
    Peer("ADK SqliteSessionService", "on a file, in the process", open_sqlite),
    Peer("ADK DatabaseSessionService", "sqlite+aiosqlite on a file, in the process", open_database, "database"),
)


async def measure(service: BaseSessionService, rounds: int, counter: Counter) -> Mapping[str, float]:
    """Creates, fills and reads that many sessions, after some that do not count."""
    appending: list[float] = []
    getting: list[float] = []
    append_statements: list[int] = []
    get_statements: list[int] = []
    for number in range(-WARM_UP, rounds):
        events = Speaker(number).make_events(EVENTS)
        session = await service.create_session(app_name=APP, user_id=USER)
        for event in events:
            before = counter.statements
            appending.append(await time_call(partial(service.append_event, session, event)))
            append_statements.append(counter.statements - before)
        get = partial(service.get_session, app_name=APP, user_id=USER, session_id=session.id)
        before = counter.statements
        getting.append(await time_call(get))
        get_statements.append(counter.statements - before)
        stored = await get()
        if len(stored.events) != EVENTS:
            raise RuntimeError(f"a session of {EVENTS} events came back with {len(stored.events)}")
    appending, getting = appending[EVENTS * WARM_UP :], getting[WARM_UP:]
    return {
        "append_statements": statistics.median(append_statements),
        "append_p50": compute_percentile(appending, 0.50),
        "append_p95": compute_percentile(appending, 0.95),
        "get_statements": statistics.median(get_statements),
        "get_p50": compute_percentile(getting, 0.50),
    }
