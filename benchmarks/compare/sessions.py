"""The session services that are compared, and what an event and a session cost in each."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import methodcaller

from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from adk_graph_memory import Neo4jSessionService
from benchmarks.compare.counter import Counter
from benchmarks.compare.rows import Contender, Peer, Row, Stage, do_in_turn
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


class SessionBench:
    """What one service stores and reads.

    Args:
        service: ADK's interface.
        counter: counts the statements of the process.
    """

    def __init__(self, service: BaseSessionService, counter: Counter) -> None:
        self._service, self._counter = service, counter
        self._appending: list[float] = []
        self._getting: list[float] = []
        self._append_statements: list[int] = []
        self._get_statements: list[int] = []

    async def store(self, number: int) -> None:
        """Creates, fills and reads a session; those with a number below zero do not count.

        Raises:
            RuntimeError: if events are missing.
        """
        session = await self._service.create_session(app_name=APP, user_id=USER)
        appending, statements = [], []
        for event in Speaker(number).make_events(EVENTS):
            before = self._counter.statements
            appending.append(await time_call(partial(self._service.append_event, session, event)))
            statements.append(self._counter.statements - before)
        get = partial(self._service.get_session, app_name=APP, user_id=USER, session_id=session.id)
        before = self._counter.statements
        getting = await time_call(get)
        if number >= 0:
            self._appending += appending
            self._append_statements += statements
            self._getting.append(getting)
            self._get_statements.append(self._counter.statements - before)
        if len(events := (await get()).events) != EVENTS:
            raise RuntimeError(f"a session of {EVENTS} events came back with {len(events)}")

    def make_figures(self) -> dict[str, float]:
        """Statements and milliseconds."""
        return {
            "append_statements": statistics.median(self._append_statements),
            "append_p50": compute_percentile(self._appending, 0.50),
            "append_p95": compute_percentile(self._appending, 0.95),
            "get_statements": statistics.median(self._get_statements),
            "get_p50": compute_percentile(self._getting, 0.50),
        }


async def compare(peers: Sequence[Peer], stage: Stage, rounds: int, counter: Counter) -> list[Row]:
    """A row for each peer, in their order."""
    contenders = [Contender(peer, partial(SessionBench, counter=counter)) for peer in peers]
    for contender in contenders:
        await contender.open(stage)
    await do_in_turn(contenders, [methodcaller("store", number) for number in range(-WARM_UP, rounds)])
    return [await contender.close() for contender in contenders]
