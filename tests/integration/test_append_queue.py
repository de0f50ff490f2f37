"""Appends that arrive at once share transactions, and none of them notices the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import neo4j
import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from neo4j import AsyncDriver

from adk_graph_memory import Neo4jSessionService, errors
from adk_graph_memory.graph.append_queue import AppendQueue

LONG = 120
"""Seconds that no statement takes, however busy the machine is."""


@pytest.fixture
async def sessions(neo4j_server: Any) -> AsyncIterator[Neo4jSessionService]:
    async with Neo4jSessionService(settings=neo4j_server.settings(database_timeout=LONG)) as sessions:
        await sessions.prepare()
        yield sessions


@pytest.fixture
async def driver(neo4j_server: Any) -> AsyncIterator[AsyncDriver]:
    async with neo4j.AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        yield driver


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many appends each transaction held."""
    sizes = list[int]()
    run = neo4j.AsyncSession.run

    async def count_and_run(self: Any, query: Any, parameters: Any, **options: Any) -> Any:
        if appends := parameters.get("given", {}).get("appends"):
            sizes.append(len(appends))
        return await run(self, query, parameters, **options)

    monkeypatch.setattr(neo4j.AsyncSession, "run", count_and_run)
    return sizes


async def create(sessions: Neo4jSessionService, app_name: str, *users: str) -> list[Session]:
    return [await sessions.create_session(app_name=app_name, user_id=user, session_id=user) for user in users]


def event(id: str = "", **delta: Any) -> Event:
    return Event(id=id, author="user", invocation_id="inv", actions=EventActions(state_delta=delta))


async def fetch_ids(sessions: Neo4jSessionService, session: Session) -> list[str]:
    stored = await sessions.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
    assert stored is not None
    return [event.id for event in stored.events]


@asynccontextmanager
async def hold_session(driver: AsyncDriver, session: Session) -> AsyncIterator[None]:
    """Lock a session, as another process does that stores an event in it."""
    query = "MATCH (s:Session {app_name: $app_name, id: $id}) SET s.lock = 1 RETURN s.id"
    async with driver.session() as server, await server.begin_transaction() as transaction:
        assert await (await transaction.run(query, app_name=session.app_name, id=session.id)).single()
        yield
        await transaction.rollback()


@pytest.mark.slow
async def test_appends_that_arrive_at_once_share_a_transaction(
    sessions: Neo4jSessionService, app_name: str, sizes: list[int]
) -> None:
    opened = await create(sessions, app_name, *(f"user-{number:02}" for number in range(20)))
    for _ in range(2):
        await asyncio.gather(*(sessions.append_event(session, event(turn=1)) for session in opened))
    assert sizes == [1, 19] * 2
    assert [len(session.events) for session in opened] == [2] * 20
    assert [await fetch_ids(sessions, session) for session in opened] == [
        [event.id for event in session.events] for session in opened
    ]


async def test_what_changes_the_state_of_others_shares_nothing(
    sessions: Neo4jSessionService, app_name: str, sizes: list[int]
) -> None:
    opened = await create(sessions, app_name, "ana", "ben", "cleo", "dan")
    deltas = [{"user:n": 1}, {"app:n": 1}, {"n": 1}, {"temp:n": 1}]
    appends = zip(opened, deltas, strict=True)
    await asyncio.gather(*(sessions.append_event(session, event(**delta)) for session, delta in appends))
    assert sizes == [1] * 4


@pytest.mark.slow
async def test_each_append_has_its_own_outcome(sessions: Neo4jSessionService, app_name: str, sizes: list[int]) -> None:
    names = ("first", "new", "repeated", "taken", "stale", "closed", "gone")
    opened = dict(zip(names, await create(sessions, app_name, *names), strict=True))
    stale, once = opened["stale"].model_copy(deep=True), event("once")
    for name in ("repeated", "taken", "stale"):
        await sessions.append_event(opened[name], once.model_copy(deep=True))
    await sessions.close_session(opened["closed"])
    await sessions.delete_session(app_name=app_name, user_id="gone", session_id="gone")
    sizes.clear()
    given = [
        (opened["first"], event("first")),
        (opened["new"], event("new", topic="bees")),
        (opened["repeated"], once),
        (opened["taken"], event("once", topic="bees")),
        (stale, event("late")),
        (opened["closed"], event("late")),
        (opened["gone"], event("late")),
    ]
    appends = [sessions.append_event(session, event) for session, event in given]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert sizes == [1, 6]
    assert [type(outcome) for outcome in outcomes] == [
        *[Event] * 3,
        AlreadyExistsError,
        StaleSessionError,
        errors.SessionClosed,
        SessionNotFoundError,
    ]
    assert [await fetch_ids(sessions, opened[name]) for name in ("first", "new", "repeated", "taken", "stale")] == [
        ["first"],
        ["new"],
        *[["once"]] * 3,
    ]
    assert opened["new"].state == {"topic": "bees"}


async def test_an_append_that_fails_takes_no_other_along(
    sessions: Neo4jSessionService, app_name: str, sizes: list[int]
) -> None:
    opened = await create(sessions, app_name, "ana", "ben", "cleo", "dan")
    opened[2].id = "\ud800"  # no text: it cannot be sent
    appends = [sessions.append_event(session, event("e")) for session in opened]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Event, Event, errors.InvalidUnicode, Event]
    assert sizes == [1, 3, 1, 1, 1]
    for session in (opened[0], opened[1], opened[3]):
        assert await fetch_ids(sessions, session) == ["e"]


@pytest.mark.slow
async def test_a_cancelled_append_that_still_waits_is_not_stored(
    sessions: Neo4jSessionService, app_name: str, sizes: list[int]
) -> None:
    opened = await create(sessions, app_name, "ana", "ben", "cleo", "dan")
    tasks = [asyncio.create_task(sessions.append_event(session, event("e"))) for session in opened]
    await asyncio.sleep(0)  # now all but the first one wait
    tasks[2].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Event, Event, asyncio.CancelledError, Event]
    assert sizes == [1, 2]
    assert [await fetch_ids(sessions, session) for session in opened] == [["e"], ["e"], [], ["e"]]
    await sessions.append_event(opened[2], event("next"))
    assert await fetch_ids(sessions, opened[2]) == ["next"]


async def test_a_session_that_another_process_holds_keeps_no_other_waiting_for_long(
    sessions: Neo4jSessionService, app_name: str, driver: AsyncDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([0.5])  # of the transaction that they share; then each has as long as it takes
    monkeypatch.setattr(AppendQueue, "_half_time", property(lambda _: next(seconds, LONG)))
    opened = await create(sessions, app_name, "ana", "ben", "cleo", "dan")
    async with hold_session(driver, opened[2]):
        tasks = [asyncio.create_task(sessions.append_event(session, event("e"))) for session in opened]
        await asyncio.gather(tasks[0], tasks[1], tasks[3])
        assert not tasks[2].done()
    await tasks[2]
    assert [await fetch_ids(sessions, session) for session in opened] == [["e"]] * 4


async def test_transactions_that_wait_for_locks_let_others_start(
    sessions: Neo4jSessionService, app_name: str, driver: AsyncDriver
) -> None:
    opened = await create(sessions, app_name, *(f"user-{number}" for number in range(6)))
    async with AsyncExitStack() as held:
        for session in opened[:3]:
            await held.enter_async_context(hold_session(driver, session))
        tasks = [asyncio.create_task(sessions.append_event(session, event("e"))) for session in opened[:3]]
        for session in opened[3:]:
            await sessions.append_event(session, event("e"))
        assert not any(task.done() for task in tasks)
    await asyncio.gather(*tasks)
    assert [await fetch_ids(sessions, session) for session in opened] == [["e"]] * 6
