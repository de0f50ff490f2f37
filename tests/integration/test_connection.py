"""Drivers come and go with their event loops, and whatever happens to the server has a name."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import neo4j
import pytest
from benchmarks.wire import Wire
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import Session
from neo4j import AsyncDriver, AsyncGraphDatabase, GraphDatabase
from neo4j.exceptions import ServiceUnavailable

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.graph import connection as module
from adk_graph_memory.graph import driver_errors, json_map, sessions, writing
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Limits, Settings
from adk_graph_memory.testing import ScriptedLlm

NOTHING = json_map.JsonMapDelta()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[AsyncDriver]:
    """Every async driver that the package opens, also once it is closed."""
    drivers: list[AsyncDriver] = []
    real = AsyncGraphDatabase.driver

    def driver(*arguments: Any, **options: Any) -> AsyncDriver:
        drivers.append(real(*arguments, **options))
        return drivers[-1]

    monkeypatch.setattr(AsyncGraphDatabase, "driver", driver)
    return drivers


def still_open(drivers: list[AsyncDriver]) -> int:
    return sum(not driver._closed for driver in drivers)


async def fetch_state(connection: Connection) -> int:
    return len(await connection.run_statement("schema_state"))


async def fetch_prepared_state(connection: Connection) -> int:
    await connection.prepare()
    return await fetch_state(connection)


@pytest.fixture
async def connection(neo4j_server: Any) -> AsyncIterator[Connection]:
    async with Connection(settings=neo4j_server.settings()) as connection:
        yield connection


# -- one driver per event loop ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_event_loop_has_one_driver_that_ends_with_it(neo4j_server: Any, opened: list[AsyncDriver]) -> None:
    connection = Connection(settings=neo4j_server.settings())

    async def twice() -> tuple[int, int]:
        return await fetch_prepared_state(connection), await fetch_prepared_state(connection)

    for _ in range(5):
        assert asyncio.run(twice()) == (1, 1)
    assert (len(opened), still_open(opened)) == (5, 0)


@pytest.mark.slow
def test_no_loop_is_remembered_after_its_end(neo4j_server: Any) -> None:
    connection = Connection(settings=neo4j_server.settings())
    asyncio.run(fetch_prepared_state(connection))
    gc.collect()
    assert (connection._loop_drivers._drivers, dict(connection._append_queues)) == ({}, {})


@pytest.mark.slow
def test_nothing_is_left_open_for_python_to_complain_about(neo4j_server: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(fetch_prepared_state(Connection(settings=neo4j_server.settings())))
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []


def test_a_driver_that_is_dropped_while_it_connects_leaves_nothing_open(
    neo4j_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drop_while_connecting() -> int:
        is_connecting, may_connect = asyncio.Event(), asyncio.Event()

        async def resolve(address: neo4j.Address) -> list[neo4j.Address]:
            is_connecting.set()
            await may_connect.wait()
            return [address]

        monkeypatch.setattr(AsyncGraphDatabase, "driver", partial(AsyncGraphDatabase.driver, resolver=resolve))
        async with Connection(settings=neo4j_server.settings()) as connection:
            states = asyncio.gather(*(fetch_state(connection) for _ in range(3)))
            await is_connecting.wait()
            await connection.close_loop_driver()
            may_connect.set()
            return sum(await states)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert asyncio.run(drop_while_connecting()) == 3
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []


@pytest.mark.slow
def test_many_threads_share_a_connection_each_with_its_own_loop(neo4j_server: Any, opened: list[AsyncDriver]) -> None:
    connection = Connection(settings=neo4j_server.settings())
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: asyncio.run(fetch_prepared_state(connection)), range(32)))
    assert found == [1] * 32
    assert (len(opened), still_open(opened)) == (32, 0)


@pytest.mark.slow
async def test_tasks_of_one_loop_share_its_driver(neo4j_server: Any, opened: list[AsyncDriver]) -> None:
    async with Connection(settings=neo4j_server.settings()) as connection:
        await asyncio.gather(*(fetch_prepared_state(connection) for _ in range(20)))
        assert len(opened) == 1


async def test_closing_twice_is_closing_once(connection: Connection) -> None:
    await fetch_prepared_state(connection)
    await connection.close()
    await connection.close()


async def test_closing_what_was_never_used_is_nothing(connection: Connection) -> None:
    await connection.close()


@pytest.mark.slow
async def test_a_closed_connection_opens_again(connection: Connection, opened: list[AsyncDriver]) -> None:
    await fetch_prepared_state(connection)
    await connection.close()
    assert await fetch_prepared_state(connection) == 1
    assert (len(opened), still_open(opened)) == (2, 1)


async def test_closing_also_closes_the_sync_driver(connection: Connection) -> None:
    driver = connection.sync_driver
    await connection.close()
    assert driver._closed
    connection.sync_driver.verify_connectivity()


async def test_a_driver_of_the_callers_is_used_and_never_closed(neo4j_server: Any, opened: list[AsyncDriver]) -> None:
    async with AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        opened.clear()
        async with Connection(driver=driver) as connection:
            await fetch_prepared_state(connection)
        await driver.verify_connectivity()
        assert opened == []


async def test_a_sync_driver_of_the_callers_is_used_and_never_closed(neo4j_server: Any) -> None:
    with GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        connection = Connection(settings=neo4j_server.settings(), sync_driver=driver)
        assert connection.sync_driver is driver
        await connection.close()
        driver.verify_connectivity()


async def test_a_closed_driver_of_the_callers_is_named_as_such(neo4j_server: Any) -> None:
    driver = AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth)
    await driver.close()
    with pytest.raises(errors.DriverClosed, match=r"\bclosed\b"):
        await fetch_prepared_state(Connection(driver=driver))


# -- when it does not work --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_as", "source", "remedy"),
    [
        ("auth", "the auth= that was given", "give the new one there"),
        ("settings", "the settings that were given", "give the new one there"),
        ("address", "the address that was given", "give the new one there"),
        ("variable", "NEO4J_PASSWORD, in the environment or an agent's .env file", "give the new one there"),
        ("up", "connection.json, where `adk-graph-memory up` wrote it", "run `adk-graph-memory up`"),
    ],
)
async def test_a_wrong_password_names_the_user_and_the_source_and_not_the_password(
    neo4j_server: Any, given_as: str, source: str, remedy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A user that does not exist: three failures of a real one would lock the other tests out.
    user, wrong, uri = "nobody-of-that-name", "correct-horse", neo4j_server.uri
    monkeypatch.setenv("ADK_GRAPH_MEMORY_HOME", str(tmp_path))
    for name in ("NEO4J_URI", "NEO4J_USERNAME", "NEO4J_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    if given_as == "auth":
        connection = Connection(uri, auth=(user, wrong))
    elif given_as == "settings":
        connection = Connection(settings=Settings(uri=uri, username=user, password=wrong))
    elif given_as == "address":
        connection = Connection(uri.replace("://", f"://{user}:{wrong}@"))
    else:
        connection = Connection()
        known = {"uri": uri, "username": user, "password": wrong}
        (tmp_path / "connection.json").write_text(json.dumps(known))
        if given_as == "variable":
            for name, value in known.items():
                monkeypatch.setenv(f"NEO4J_{name.upper()}", value)
    async with connection:
        with pytest.raises(errors.AuthenticationFailed, match=user) as raised:
            await fetch_prepared_state(connection)
    assert f"{source}. If the password was changed, {remedy}" in str(raised.value)
    assert wrong not in f"{raised.value} {raised.value.__cause__}"


@pytest.mark.slow
async def test_a_password_that_must_be_changed_first_names_the_statement(neo4j_server: Any, app_name: str) -> None:
    async with AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as admin:
        await admin.execute_query(f"CREATE USER `{app_name}` SET PASSWORD 'correct-horse' CHANGE REQUIRED")
        async with Connection(neo4j_server.uri, auth=(app_name, "correct-horse")) as connection:
            with pytest.raises(errors.AuthenticationFailed, match="run ALTER CURRENT USER SET PASSWORD FROM"):
                await fetch_prepared_state(connection)
        await admin.execute_query(f"DROP USER `{app_name}`")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
async def test_where_nothing_listens_host_and_port_are_named_soon(scheme: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        # 2 s of patience, and what a busy machine takes; without them it would be the driver's own minute.
        async with asyncio.timeout(30), Connection(f"{scheme}://127.0.0.1:{port}", auth=("u", "p")) as connection:
            with pytest.raises(errors.DatabaseUnavailable, match=rf"127\.0\.0\.1:{port}"):
                await fetch_prepared_state(connection)


async def test_a_database_that_does_not_exist_is_named(neo4j_server: Any) -> None:
    async with Connection(settings=neo4j_server.settings(database="nosuch")) as connection:
        with pytest.raises(errors.DatabaseError, match="nosuch"):
            await fetch_prepared_state(connection)


async def test_without_a_server_the_error_says_how_to_name_one() -> None:
    with pytest.raises(errors.NoDatabaseConfigured, match="NEO4J_URI"):
        await fetch_prepared_state(Connection())


async def test_a_server_that_the_environment_names_after_all_is_found(
    neo4j_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Connection() as connection:
        with pytest.raises(errors.NoDatabaseConfigured):
            await fetch_prepared_state(connection)
        monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
        monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.auth[0])
        monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.auth[1])
        await fetch_prepared_state(connection)


@pytest.mark.slow
async def test_a_statement_that_the_server_refuses_is_an_error_of_ours(connection: Connection) -> None:
    with pytest.raises(errors.QueryFailed, match="Invalid input"):
        await connection.run_cypher("NO CYPHER")


@pytest.mark.slow
async def test_a_second_node_of_a_key_is_an_error_of_ours(connection: Connection, app_name: str) -> None:
    await connection.prepare()
    await new_session(connection, Scope(app_name, "ada"), "one")
    with pytest.raises(errors.ConstraintViolated, match="already exists"):
        await new_session(connection, Scope(app_name, "ada"), "one")


async def new_session(connection: Connection, scope: Scope, id: str) -> None:
    await sessions.store_session(
        connection.user(scope),
        id=id,
        uid=f"uid-{time.time_ns()}",
        now=1.0,
        app=NOTHING,
        user=NOTHING,
        session=NOTHING,
    )


@pytest.mark.slow
async def test_a_deadlock_is_tried_again(connection: Connection, app_name: str) -> None:
    await connection.prepare()
    scope = Scope(app_name, "ada")
    for id in ("one", "two"):
        await new_session(connection, scope, id)
    both_hold_one = asyncio.Barrier(2)
    attempts = 0

    async def lock(first: str, second: str) -> None:
        waited = False

        async def work(transaction: Transaction) -> None:
            nonlocal attempts, waited
            attempts += 1
            await transaction.run_statement("close_session", id=first, now=2.0)
            if not waited:
                waited = True
                await both_hold_one.wait()
            await transaction.run_statement("close_session", id=second, now=2.0)

        await connection.user(scope).transact(work)

    await asyncio.gather(lock("one", "two"), lock("two", "one"))
    assert attempts > 2


@pytest.mark.slow
async def test_a_failed_transaction_leaves_nothing(connection: Connection, app_name: str) -> None:
    await connection.prepare()
    scope = Scope(app_name, "ada")
    await new_session(connection, scope, "one")

    async def work(transaction: Transaction) -> None:
        await transaction.run_statement("close_session", id="one", now=2.0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await connection.user(scope).transact(work)
    assert await sessions.mark_session_closed(connection.user(scope), id="one", now=3.0) == 3.0


# -- a network that goes silent ---------------------------------------------------------------------------------


@pytest.fixture
def wire(neo4j_server: Any) -> Iterator[Wire]:
    with Wire(neo4j_server.uri) as wire:
        yield wire


def wired(neo4j_server: Any, wire: Wire, seconds: float) -> Settings:
    settings: Settings = neo4j_server.settings(database_timeout=seconds)
    return settings.model_copy(update={"uri": wire.uri})


def read_one(connection: Connection) -> Any:
    return connection.reads.run_in_thread(connection.reads.read_rows, "RETURN 1 AS one", {})


async def write_one(connection: Connection) -> Any:
    return await connection.transact(lambda transaction: transaction.run_statement("schema_state"))


def get_agent(connection: Connection) -> Any:
    return connection.fetch_server_agent()


each_operation = pytest.mark.parametrize("operation", [fetch_state, write_one, get_agent, read_one])


@pytest.mark.slow
@each_operation
async def test_a_silent_network_ends_an_operation_and_the_next_one_works(
    neo4j_server: Any, wire: Wire, operation: Callable[[Connection], Awaitable[Any]]
) -> None:
    async with Connection(settings=wired(neo4j_server, wire, 2)) as connection:
        await operation(connection)
        wire.silence(new=True)
        async with asyncio.timeout(60):  # and not the 120 s of the driver
            with pytest.raises(errors.DatabaseUnavailable):
                await operation(connection)
        wire.mend()
        await operation(connection)


@pytest.mark.slow
@each_operation
async def test_a_server_that_was_stopped_is_named_soon(
    neo4j_server: Any, wire: Wire, operation: Callable[[Connection], Awaitable[Any]]
) -> None:
    async with Connection(settings=wired(neo4j_server, wire, 600)) as connection:
        await operation(connection)
        wire.refuse()
        async with asyncio.timeout(60):  # and not the ten minutes that a silent server has
            with pytest.raises((errors.DatabaseUnavailable, ServiceUnavailable), match="Couldn't connect"):
                await operation(connection)


@pytest.mark.slow
@each_operation
@pytest.mark.parametrize("connections", [1, 5])
async def test_connections_that_died_unseen_are_replaced(
    neo4j_server: Any, wire: Wire, operation: Callable[[Connection], Awaitable[Any]], connections: int
) -> None:
    async with Connection(settings=wired(neo4j_server, wire, 10)) as connection:
        await asyncio.gather(*(operation(connection) for _ in range(connections)))
        wire.cut()
        wire.mend()
        await asyncio.gather(*(operation(connection) for _ in range(connections)))


@pytest.mark.slow
@each_operation
async def test_idle_connections_that_a_firewall_forgot_are_replaced(
    neo4j_server: Any, wire: Wire, operation: Callable[[Connection], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (module, driver_errors):
        monkeypatch.setattr(place, "LIVENESS_SECONDS", 0.0)
    async with Connection(settings=wired(neo4j_server, wire, 6)) as connection:
        await asyncio.gather(*(operation(connection) for _ in range(5)))
        wire.silence()
        await operation(connection)


@pytest.mark.slow
async def test_searches_that_wait_leave_the_threads_of_others_free(neo4j_server: Any, wire: Wire) -> None:
    async with Connection(settings=wired(neo4j_server, wire, 2)) as connection:
        await read_one(connection)
        wire.silence(new=True)
        reads = asyncio.gather(*(read_one(connection) for _ in range(40)), return_exceptions=True)
        await asyncio.sleep(0)
        assert await asyncio.to_thread(lambda: threading.current_thread().name.startswith("asyncio"))
        assert not reads.done()
        assert {isinstance(outcome, errors.DatabaseTimeout | ServiceUnavailable) for outcome in await reads} == {True}


def list_watches() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "graph-read-watch"}


@pytest.mark.slow
async def test_all_reads_share_one_watch_and_those_after_its_end_are_watched_too(neo4j_server: Any, wire: Wire) -> None:
    before = list_watches()
    async with Connection(settings=wired(neo4j_server, wire, 2)) as connection:
        await asyncio.gather(*(read_one(connection) for _ in range(20)))
        [watch] = list_watches() - before
        await asyncio.to_thread(watch.join, 60)
        assert not watch.is_alive()
        wire.silence(new=True)
        with pytest.raises(errors.DatabaseUnavailable):
            await asyncio.to_thread(connection.reads.read_rows, "RETURN 1 AS one", {})


@pytest.mark.slow
async def test_a_transaction_may_take_longer_than_the_timeout_while_the_database_answers(
    neo4j_server: Any, wire: Wire
) -> None:
    async def work(transaction: Transaction) -> int:
        answers = 0
        for _ in range(4):
            await asyncio.sleep(0.4)
            answers += len(await transaction.run_statement("schema_state"))
        return answers

    async with Connection(settings=neo4j_server.settings()) as connection:
        await connection.prepare()
    async with Connection(settings=wired(neo4j_server, wire, 1)) as connection:
        assert await connection.transact(work) == 4


async def test_a_statement_that_takes_too_long_is_ended_on_the_server_too(neo4j_server: Any) -> None:
    async with Connection(settings=neo4j_server.settings(database_timeout=1)) as connection:
        statement = "UNWIND range(1, 100000000) AS a UNWIND range(1, 100000000) AS b RETURN count(*) AS endless"
        with pytest.raises(errors.DatabaseTimeout, match="DATABASE_TIMEOUT"):
            try:
                await connection.reads.run_in_thread(connection.reads.read_rows, statement, {})
            except neo4j.exceptions.Neo4jError as error:
                raise connection.translate_error(error) from error
        rows = await connection.run_cypher("SHOW TRANSACTIONS YIELD currentQuery RETURN currentQuery AS query")
        queries = [row["query"] or "" for row in rows]
        assert not [query for query in queries if "endless" in query]


# -- servers of our own -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server() -> Iterator[LocalNeo4j]:
    server = LocalNeo4j()
    yield server
    server.close()


def event(number: int) -> Event:
    return Event(id=f"event-{number}", author="user", invocation_id="inv")


@pytest.mark.xdist_group("own-server")
@pytest.mark.full
async def test_an_append_while_the_server_dies_and_returns_happened_once_or_raised(
    own_server: LocalNeo4j, app_name: str
) -> None:
    key = {"app_name": app_name, "user_id": "ada", "session_id": "s"}
    accepted: list[str] = []
    raised: list[str] = []
    warm, is_back = asyncio.Event(), asyncio.Event()

    async def append_many(service: Neo4jSessionService, session: Session) -> None:
        number = after_return = 0
        while after_return < 5:
            number += 1
            after_return += is_back.is_set()
            try:
                await service.append_event(session, event(number))
                accepted.append(f"event-{number}")
                if len(accepted) == 20:
                    warm.set()
            except (errors.DatabaseError, StaleSessionError):
                raised.append(f"event-{number}")
                session = (await service.get_session(**key) if is_back.is_set() else None) or session

    await asyncio.to_thread(own_server.start)
    async with Neo4jSessionService(own_server.uri, auth=own_server.auth) as service:
        session = await service.create_session(**key)
        appending = asyncio.create_task(append_many(service, session))
        await asyncio.wait_for(warm.wait(), 60)
        before = len(accepted)
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        is_back.set()
        await asyncio.wait_for(appending, 120)
        stored = await service.get_session(**key)

    assert stored is not None
    ids = [event.id for event in stored.events]
    assert len(ids) == len(set(ids))
    assert set(accepted) <= set(ids) <= set(accepted) | set(raised)
    assert len(accepted) > before


KEEPS_BEES = {"subject": 1, "predicate": "keeps", "text": "Bees.", "quote": "I keep bees", "turns": [0]}


@pytest.mark.xdist_group("own-server")
@pytest.mark.full
async def test_an_ingest_whose_server_dies_is_taken_up_where_the_turns_were_claimed(
    own_server: LocalNeo4j, app_name: str
) -> None:
    await asyncio.to_thread(own_server.start)
    owner = {"app_name": app_name, "user_id": "ada"}
    turns = [Turn("t1", author="user", text="I keep bees in Porto.", at=datetime.now(UTC))]
    reply = json.dumps({"entities": [{"ref": 1, "name": "user"}], "facts": [KEEPS_BEES]})

    def read_while_the_server_dies(_: LlmRequest) -> str:
        own_server.kill()
        return reply

    settings = Settings(uri=own_server.uri, username="neo4j", password=own_server.auth[1], limits=Limits(lease=1))
    async with GraphMemory(
        settings=settings, model=ScriptedLlm.from_replies(read_while_the_server_dies), embedder=False
    ) as memory:
        with pytest.raises(errors.DatabaseUnavailable):
            await memory.remember(turns, session_id="s", **owner)
    await asyncio.to_thread(own_server.start)
    async with GraphMemory(settings=settings, model=ScriptedLlm.from_replies(reply), embedder=False) as memory:
        assert (await memory.remember(turns, session_id="s", **owner)).facts == {"ADD": 1}
        assert (await memory.remember(turns, session_id="s", **owner)).turns == 0
        held = await writing.count_memories(memory.connection.user(Scope(app_name, "ada")))
        assert (held["turns"], held["facts"]) == (1, 1)


async def test_a_key_that_no_check_has_refused_is_named(neo4j_server: Any) -> None:
    async with Connection(settings=neo4j_server.settings()) as connection:
        await connection.prepare()
        with pytest.raises(errors.KeyTooLong, match=r"about 8,000 bytes.*shorten it"):
            await connection.run_cypher("CREATE (:App {app_name: $name})", {"name": "x" * 9_000})


@pytest.mark.xdist_group("own-server")
@pytest.mark.full
async def test_a_read_only_database_is_named_as_such(own_server: LocalNeo4j, app_name: str) -> None:
    await asyncio.to_thread(own_server.stop)
    conf = {"server.databases.default_to_read_only": "true"}
    async with LocalNeo4j(home=own_server.home, conf=conf) as server:
        settings = Settings(
            uri=server.uri,
            username="neo4j",
            password=server.auth[1],
            label_prefix="Fresh",
            limits=Limits(database_timeout=600),
        )
        async with asyncio.timeout(60), Connection(settings=settings, schema="off") as connection:
            await connection.prepare()
            with pytest.raises(errors.DatabaseReadOnly, match=r"neo4j.*writable"):
                await new_session(connection, Scope(app_name, "ada"), "one")
        async with Connection(settings=settings) as connection:
            with pytest.raises(errors.DatabaseReadOnly):
                await connection.prepare()
