"""What only our session service has, on a real Neo4j; what all of ADK's have is in tests/contract."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.platform import time as platform_time
from google.adk.sessions import Session
from google.genai import types
from neo4j import AsyncDriver, AsyncGraphDatabase

from adk_graph_memory import Neo4jSessionService, errors
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings

USER = "ada"
NOON = 1_800_000_000.0

# --- builders -----------------------------------------------------------------------------------------------


def said(text: str = "hello", *, at: float | None = None, delta: dict[str, Any] | None = None, **fields: Any) -> Event:
    if at is not None:
        fields["timestamp"] = at
    content = types.Content(role="user", parts=[types.Part(text=text)])
    actions = EventActions(state_delta=delta or {})
    return Event(author="user", invocation_id="inv", content=content, **{"actions": actions, **fields})


def texts(events: list[Event]) -> list[str]:
    return [event.content.parts[0].text for event in events]


def elsewhere(session: Session) -> Session:
    """The same session as another process would send it: equal fields, no storage marker."""
    return Session.model_validate_json(session.model_dump_json())


class App:
    """One fresh app on one service, with the arguments that never vary filled in."""

    def __init__(self, sessions: Neo4jSessionService, name: str) -> None:
        self.sessions, self.name = sessions, name

    async def start(self, session_id: str | None = None, *, user: str = USER, **more: Any) -> Session:
        return await self.sessions.create_session(app_name=self.name, user_id=user, session_id=session_id, **more)

    async def fetch(self, session_id: str, user: str = USER) -> Session | None:
        return await self.sessions.get_session(app_name=self.name, user_id=user, session_id=session_id)

    async def again(self, session: Session) -> Session:
        fetched = await self.fetch(session.id, session.user_id)
        assert fetched is not None
        return fetched

    async def say(self, session: Session, *what: str, **more: Any) -> Session:
        for text in what:
            await self.sessions.append_event(session, said(text, **more))
        return session

    async def ids(self, user: str | None = USER, **more: Any) -> list[str]:
        found = await self.sessions.list_sessions(app_name=self.name, user_id=user, **more)
        return [session.id for session in found.sessions]

    async def drop(self, session_id: str, **more: Any) -> None:
        await self.sessions.delete_session(app_name=self.name, user_id=USER, session_id=session_id, **more)

    async def page(self, session_id: str, user: str = USER, **more: Any) -> Any:
        return await self.sessions.list_events(app_name=self.name, user_id=user, session_id=session_id, **more)

    async def user_state(self) -> dict[str, Any]:
        return await self.sessions.get_user_state(app_name=self.name, user_id=USER)


@contextmanager
def time_is(now: float) -> Iterator[None]:
    platform_time.set_time_provider(lambda: now)
    try:
        yield
    finally:
        platform_time.reset_time_provider()


def fresh_name() -> str:
    return f"app-{uuid.uuid4()}"


@pytest.fixture
def connect(neo4j_server: Any) -> Callable[..., Neo4jSessionService]:
    """Makes services on the test server."""

    def make(**more: Any) -> Neo4jSessionService:
        return Neo4jSessionService(neo4j_server.uri, auth=neo4j_server.auth, **more)

    return make


@pytest.fixture
async def app(connect: Callable[..., Neo4jSessionService]) -> AsyncIterator[App]:
    async with connect() as sessions:
        yield App(sessions, fresh_name())


@pytest.fixture
async def other(app: App, connect: Callable[..., Neo4jSessionService]) -> AsyncIterator[App]:
    """The same app as another process sees it."""
    async with connect() as sessions:
        yield App(sessions, app.name)


@pytest.fixture
async def driver(neo4j_server: Any) -> AsyncIterator[AsyncDriver]:
    """A driver of the caller's own."""
    async with AsyncGraphDatabase.driver(
        neo4j_server.uri, auth=neo4j_server.auth, notifications_min_severity="OFF"
    ) as opened:
        yield opened


async def rows(driver: AsyncDriver, query: str, app: App, **more: Any) -> list[list[Any]]:
    records, _, _ = await driver.execute_query(query, {"scope": Scope(app.name, USER).key, **more})
    return [record.values() for record in records]


# --- connecting ---------------------------------------------------------------------------------------------


async def one_turn(sessions: Neo4jSessionService, name: str | None = None) -> list[str]:
    app = App(sessions, name or fresh_name())
    session = await app.fetch("s") or await app.start("s")
    await app.say(session, "hello")
    return texts((await app.again(session)).events)


@pytest.mark.slow
async def test_an_address_and_credentials_are_enough(neo4j_server):
    async with Neo4jSessionService(neo4j_server.uri, auth=neo4j_server.auth, database="neo4j") as sessions:
        assert await one_turn(sessions) == ["hello"]


@pytest.mark.slow
async def test_the_environment_is_read_at_first_use_and_not_before(neo4j_server, monkeypatch):
    async with Neo4jSessionService() as sessions:
        monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
        monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.auth[0])
        monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.auth[1])
        monkeypatch.setenv("NEO4J_DATABASE", "neo4j")
        assert await one_turn(sessions) == ["hello"]


@pytest.mark.slow
async def test_settings_can_be_handed_over(neo4j_server):
    settings = Settings(
        uri=neo4j_server.uri, username=neo4j_server.auth[0], password=neo4j_server.auth[1], database="neo4j"
    )
    async with Neo4jSessionService(settings=settings) as sessions:
        assert await one_turn(sessions) == ["hello"]


async def test_without_any_address_the_first_use_says_what_is_missing():
    async with Neo4jSessionService() as sessions:
        with pytest.raises(errors.NoDatabaseConfigured):
            await one_turn(sessions)


def test_an_address_of_another_kind_is_refused_at_once():
    with pytest.raises(errors.UnknownScheme):
        Neo4jSessionService("http://localhost:7474")


async def test_a_refused_password_is_one_of_our_errors(neo4j_server):
    async with Neo4jSessionService(neo4j_server.uri, auth=("nobody", "wrong")) as sessions:
        with pytest.raises(errors.AuthenticationFailed):
            await one_turn(sessions)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["auto", "check", "off"])
async def test_every_schema_mode_works_on_a_prepared_database(app, connect, schema):
    await app.sessions.prepare()
    async with connect(schema=schema) as sessions:
        assert await one_turn(sessions) == ["hello"]


@pytest.mark.slow
async def test_preparing_often_and_at_once_is_harmless(app, other):
    await asyncio.gather(*(one.sessions.prepare() for one in (app, other, app, other)))
    await app.sessions.prepare()
    assert await one_turn(app.sessions) == ["hello"]


async def test_the_callers_driver_is_used_and_never_closed(driver):
    async with Neo4jSessionService(driver=driver) as sessions:
        assert await one_turn(sessions) == ["hello"]
    await sessions.close()
    records, _, _ = await driver.execute_query("RETURN 1 AS one")
    assert records[0]["one"] == 1


@pytest.mark.slow
async def test_close_may_be_called_before_any_use_and_again_and_again(connect):
    sessions = connect()
    await sessions.close()
    assert await one_turn(sessions) == ["hello"]
    await sessions.close()
    await sessions.close()


async def open_connections(driver: AsyncDriver) -> set[str]:
    records, _, _ = await driver.execute_query("CALL dbms.listConnections() YIELD connectionId")
    return {record["connectionId"] for record in records}


async def find_own_connections(driver: AsyncDriver) -> set[str]:
    """The connections of this driver alone: other tests open and close theirs meanwhile."""
    mark = uuid.uuid4().hex
    query = f"SHOW TRANSACTIONS YIELD connectionId AS id, currentQuery WHERE currentQuery CONTAINS '{mark}' RETURN id"
    records, _, _ = await driver.execute_query(query)
    return {record["id"] for record in records}


@pytest.mark.slow
async def test_leaving_the_context_closes_the_connections(driver, connect):
    async with connect() as sessions:
        await one_turn(sessions)
        opened = await find_own_connections(await sessions._connection.get_driver())
        assert opened & await open_connections(driver)
    async with asyncio.timeout(5):
        while opened & await open_connections(driver):  # noqa: ASYNC110 (the server tells nobody)
            await asyncio.sleep(0.02)


# --- event loops and threads --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_service_built_before_any_loop_works_in_a_fresh_loop_for_every_call(connect):
    sessions, name = connect(), fresh_name()
    for turn in range(1, 4):
        assert asyncio.run(one_turn(sessions, name)) == ["hello"] * turn
    gc.collect()  # a connection left open by a dropped loop warns here, and warnings are errors


@pytest.mark.slow
def test_many_threads_with_a_loop_each_share_one_service(connect):
    sessions, name = connect(), fresh_name()

    async def work(n: int) -> list[str]:
        app = App(sessions, name)
        session = await app.start(f"s{n}", state={f"app:{n}": n, f"user:{n}": n})
        await app.say(session, *(f"{n}.{turn}" for turn in range(5)))
        return texts((await app.again(session)).events)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: asyncio.run(work(n)), range(8)))
    assert found == [[f"{n}.{turn}" for turn in range(5)] for n in range(8)]
    state = asyncio.run(App(sessions, name).start("last")).state
    assert state == {f"{level}:{n}": n for n in range(8) for level in ("app", "user")}
    gc.collect()


@pytest.mark.slow
def test_threads_that_append_through_one_session_object_lose_nothing(connect):
    app = App(connect(), fresh_name())
    session = asyncio.run(app.start())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: asyncio.run(app.say(session, str(n))), range(16)))
    stored = asyncio.run(app.again(session))
    assert sorted(texts(stored.events), key=int) == [str(n) for n in range(16)]
    assert stored == session


@pytest.mark.slow
async def test_a_tools_thread_with_its_own_loop_works_beside_the_running_one(app):
    session = await app.start()
    await app.say(session, "from the loop")
    await asyncio.to_thread(lambda: asyncio.run(app.say(session, "from the thread")))
    await app.say(session, "from the loop")
    assert texts((await app.again(session)).events) == ["from the loop", "from the thread", "from the loop"]


@pytest.mark.slow
async def test_a_cancelled_append_leaves_nothing_half_done_and_nothing_locked(app):
    session = await app.start()
    for delay in (0, 0.0005, 0.001, 0.002, 0.004, 0.008):
        mine = await app.again(session)
        task = asyncio.create_task(app.say(mine, f"cancelled {delay}", delta={f"k{delay}": 1}))
        await asyncio.sleep(delay)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            stored = await app.say(await app.again(session), "next")
        assert set(texts(mine.events)) <= set(texts(stored.events))
        for text in texts(stored.events):
            assert text == "next" or f"k{text.split()[1]}" in stored.state


# --- several processes --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_of_creates_by_two_services_at_once_exactly_one_wins(app, other):
    results = await asyncio.gather(*(one.start("s") for one in [app, other] * 5), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["AlreadyExistsError"] * 9 + ["Session"]


@pytest.mark.full
async def test_one_delete_among_many_creates_frees_the_id_for_at_most_one_of_them(app, other):
    for session_id in map(str, range(15)):
        old = await app.start(session_id, state={"n": "old"})
        creates = [one.start(session_id, state={"n": n}) for n, one in enumerate([app, other] * 8)]
        results = await asyncio.gather(*creates[:8], app.drop(session_id), *creates[8:], return_exceptions=True)
        won = [one for one in results if isinstance(one, Session)]
        assert len(won) <= 1
        assert await app.fetch(session_id) == (won[0] if won else None) != old


@pytest.mark.slow
async def test_of_many_stale_services_at_once_exactly_one_wins(app, connect):
    async with AsyncExitStack() as stack:
        apps = [App(await stack.enter_async_context(connect()), app.name) for _ in range(8)]
        await app.start("s")
        for round_ in range(1, 6):
            copies = [await one.fetch("s") for one in apps]
            results = await asyncio.gather(
                *(one.say(copy, "x", delta={"user:x": 1}) for one, copy in zip(apps, copies, strict=True)),
                return_exceptions=True,
            )
            assert sorted(type(one).__name__ for one in results) == ["Session"] + ["StaleSessionError"] * 7
            assert len((await app.fetch("s")).events) == round_


async def test_an_event_retried_by_another_service_is_accepted_once(app, other):
    session, event = await app.start("s"), said("once", delta={"k": 1})
    await app.sessions.append_event(session, event.model_copy(deep=True))
    await other.sessions.append_event(elsewhere(session), event.model_copy(deep=True))
    assert texts((await other.fetch("s")).events) == ["once"]


@pytest.mark.slow
async def test_a_session_read_before_its_id_was_deleted_and_reused_cannot_write_into_the_new_one(app, other):
    old = await app.say(await app.start("s"), "old")
    await other.drop("s")
    new = await other.say(await other.start("s"), "new")
    with pytest.raises((StaleSessionError, SessionNotFoundError)):
        await app.say(old, "of the deleted session")
    assert await app.fetch("s") == new


# --- lost acknowledgements ------------------------------------------------------------------------------------


class LossyWire:
    """A wire to the server that breaks, once, after the server has done what a request with `word` asked for."""

    def __init__(self) -> None:
        self.word: bytes | None = None
        self.broken = 0
        self.carriers: set[asyncio.Task[None] | None] = set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uri: str) -> None:
        self.carriers.add(asyncio.current_task())
        host, _, port = uri.rpartition("/")[2].partition(":")
        from_server, to_server = await asyncio.open_connection(host, int(port))
        breaking = asyncio.Event()

        async def requests() -> None:
            while data := await reader.read(65_536):
                if self.word and self.word in data:
                    self.word = None
                    breaking.set()
                to_server.write(data)

        async def replies() -> None:
            while data := await from_server.read(65_536):
                if breaking.is_set():
                    with suppress(TimeoutError):
                        while await asyncio.wait_for(from_server.read(65_536), 0.2):
                            pass
                    self.broken += 1
                    return
                writer.write(data)

        ways = [asyncio.create_task(requests()), asyncio.create_task(replies())]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for end in (writer, to_server):
            end.close()
        await asyncio.gather(*ways, writer.wait_closed(), to_server.wait_closed(), return_exceptions=True)


@pytest.fixture
async def wire(neo4j_server: Any) -> AsyncIterator[tuple[LossyWire, str]]:
    wire = LossyWire()
    server = await asyncio.start_server(
        lambda reader, writer: wire.carry(reader, writer, neo4j_server.uri), "127.0.0.1", 0
    )
    async with server:
        yield wire, f"bolt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*wire.carriers)


@pytest.fixture
async def lossy(wire: tuple[LossyWire, str], neo4j_server: Any) -> AsyncIterator[tuple[App, LossyWire]]:
    async with Neo4jSessionService(wire[1], auth=neo4j_server.auth) as sessions:
        await sessions.prepare()
        yield App(sessions, fresh_name()), wire[0]


@pytest.mark.slow
@pytest.mark.parametrize("load", [lambda session: session, elsewhere], ids=["loaded", "built elsewhere"])
async def test_an_append_whose_acknowledgement_was_lost_is_done_once_and_seen_by_the_session(lossy, load):
    app, wire = lossy
    session = load(await app.say(await app.start(), "first"))
    event = said("second", delta={"k": 1, "user:k": 1})
    wire.word = event.id.encode()
    await app.sessions.append_event(session, event)
    assert wire.broken == 1
    assert await app.again(session) == session
    await app.say(session, "third")
    assert texts((await app.again(session)).events) == texts(session.events) == ["first", "second", "third"]


@pytest.mark.slow
async def test_a_create_whose_acknowledgement_was_lost_succeeds_once(lossy):
    app, wire = lossy
    name = str(uuid.uuid4())
    wire.word = name.encode()
    session = await app.start(name, state={"k": 1, "user:k": 1, "app:k": 1})
    assert wire.broken == 1
    assert session.state == {"k": 1, "user:k": 1, "app:k": 1}
    assert await app.again(session) == session


@pytest.mark.slow
async def test_a_delete_whose_acknowledgement_was_lost_is_done(lossy):
    app, wire = lossy
    session = await app.say(await app.start(str(uuid.uuid4())), "said")
    wire.word = session.id.encode()
    await app.drop(session.id)
    assert wire.broken == 1
    assert await app.fetch(session.id) is None


# --- a failing write ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_an_append_that_fails_in_the_database_leaves_the_session_as_it_was(driver, neo4j_server):
    own = AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth)
    app = App(Neo4jSessionService(driver=own), fresh_name())
    session = await app.say(await app.start(state={"k": 1}), "stored")
    before = session.model_copy(deep=True)
    await own.close()
    with pytest.raises(errors.DriverClosed):
        await app.say(session, "lost", delta={"k": 2, "user:k": 2})
    assert session == before
    assert await App(Neo4jSessionService(driver=driver), app.name).again(session) == before


async def test_an_id_longer_than_8000_bytes_is_refused_and_nothing_is_stored(app):
    session = await app.start()
    before = session.model_copy(deep=True)
    with pytest.raises(InputValidationError, match="8,001 bytes"):
        await app.start("x" * 8_001)
    with pytest.raises(InputValidationError, match="8,004 bytes"):
        await App(app.sessions, "😀" * 2_001).start()
    with pytest.raises(InputValidationError, match="shorten it"):
        await app.say(session, "hello", id="x" * 8_001, delta={"k": 1})
    assert session == before
    assert await app.ids() == [session.id]
    assert await app.again(session) == session


@pytest.mark.slow
async def test_an_id_of_8000_bytes_of_any_script_is_kept(app):
    session = await app.start("😀" * 2_000)
    await app.say(session, "hello", id="数" * 2_666)
    assert await app.again(session) == session


# --- an event id in use -------------------------------------------------------------------------------------


async def test_another_event_under_a_stored_id_is_refused_and_changes_nothing(app):
    session = await app.start()
    await app.say(session, "first", id="e", at=1.0, delta={"k": 1, "user:k": 1})
    before = session.model_copy(deep=True)
    with pytest.raises(AlreadyExistsError):
        await app.say(session, "second", id="e", at=1.0, delta={"k": 2, "user:k": 2, "app:k": 2})
    assert session == before
    assert await app.again(session) == before


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"at": 2.0}, {"branch": "b"}, {"delta": {"k": None}}, {"partial": False}])
async def test_any_difference_makes_it_another_event(app, change):
    session = await app.say(await app.start(), "same", id="e", at=1.0)
    with pytest.raises(AlreadyExistsError):
        await app.say(session, "same", **{"id": "e", "at": 1.0, **change})


# --- expiry -------------------------------------------------------------------------------------------------

AN_HOUR = {
    "seconds": {"ttl": 3600},
    "float seconds": {"ttl": 3600.0},
    "seconds as text": {"ttl": "3600s"},
    "timedelta": {"ttl": timedelta(hours=1)},
    "timestamp": {"expire_time": NOON + 3600},
    "datetime": {"expire_time": datetime.fromtimestamp(NOON + 3600, UTC)},
    "datetime elsewhere": {"expire_time": datetime.fromtimestamp(NOON + 3600, timezone(timedelta(hours=9)))},
    "ISO text": {"expire_time": datetime.fromtimestamp(NOON + 3600, UTC).isoformat()},
    "ISO text with Z": {"expire_time": f"{datetime.fromtimestamp(NOON + 3600, UTC):%Y-%m-%dT%H:%M:%SZ}"},
}


@pytest.mark.parametrize("given", AN_HOUR.values(), ids=AN_HOUR)
async def test_a_session_is_there_until_it_expires_and_gone_from_then_on(app, given):
    with time_is(NOON):
        session = await app.start("s", **given)
    with time_is(NOON + 3599):
        assert await app.fetch("s") == session
        assert await app.ids() == await app.ids(None) == ["s"]
    with time_is(NOON + 3600):
        assert await app.fetch("s") is None
        assert await app.ids() == await app.ids(None) == []


async def test_a_session_without_a_time_to_live_never_expires(app):
    with time_is(NOON):
        session = await app.start(ttl=None, expire_time=None)
    with time_is(NOON * 2):
        assert await app.again(session) == session


@pytest.mark.slow
async def test_expiry_goes_by_the_real_clock_too(app):
    session = await app.start(ttl=0.05)
    await asyncio.sleep(0.06)
    assert await app.fetch(session.id) is None


@pytest.mark.slow
async def test_an_expired_session_takes_no_events(app):
    with time_is(NOON):
        session = await app.start(ttl=60)
    with time_is(NOON + 61), pytest.raises(SessionNotFoundError):
        await app.say(session, "too late", delta={"user:k": 1})
    assert session.events == []
    assert await app.user_state() == {}


async def test_the_events_of_an_expired_session_cannot_be_listed_nor_the_session_closed(app):
    with time_is(NOON):
        session = await app.say(await app.start("s", ttl=60), "I keep bees")
        assert len((await app.sessions.list_events(app_name=app.name, user_id=USER, session_id="s")).events) == 1
    with time_is(NOON + 60):
        assert (await app.sessions.list_events(app_name=app.name, user_id=USER, session_id="s")).events == []
        with pytest.raises(SessionNotFoundError):
            await app.sessions.close_session(session)
        with pytest.raises(SessionNotFoundError):
            await app.sessions.delete_state_keys(session, ["k"])


async def test_the_id_of_an_expired_session_can_be_created_afresh(app):
    with time_is(NOON):
        await app.say(await app.start("s", ttl=60, state={"old": 1, "user:k": 1}), "old", id="e")
    with time_is(NOON + 61):
        new = await app.start("s", state={"new": 1})
        assert (new.state, new.events) == ({"new": 1, "user:k": 1}, [])
        assert await app.again(new) == new
        await app.say(new, "new", id="e")
        assert texts((await app.again(new)).events) == ["new"]


@pytest.mark.slow
async def test_of_concurrent_creates_over_an_expired_session_exactly_one_wins(app, other):
    for session_id in map(str, range(6)):
        with time_is(NOON):
            await app.start(session_id, ttl=60)
        with time_is(NOON + 61):
            results = await asyncio.gather(
                *(one.start(session_id, state={"n": n}) for n, one in enumerate([app, other] * 8)),
                return_exceptions=True,
            )
            won = [one for one in results if isinstance(one, Session)]
            assert len(won) == 1
            assert [type(one) for one in results].count(AlreadyExistsError) == 15
            assert await app.fetch(session_id) == won[0]


async def test_deleting_an_expired_session_is_fine(app):
    with time_is(NOON):
        await app.start("s", ttl=60)
    with time_is(NOON + 61):
        await app.drop("s")
        await app.start("s")


@pytest.mark.parametrize(
    "given",
    [{"ttl": "soon"}, {"ttl": "1h30"}, {"expire_time": "tomorrow"}, {"ttl": 60, "expire_time": NOON}],
    ids=str,
)
async def test_a_time_to_live_that_cannot_be_understood_is_refused(app, given):
    with pytest.raises(InputValidationError):
        await app.start("s", **given)
    assert await app.fetch("s") is None


# --- what else a session can be given -----------------------------------------------------------------------


def test_the_options_of_create_are_keywords_that_adks_api_server_can_pass():
    parameters = inspect.signature(Neo4jSessionService.create_session).parameters
    options = ("ttl", "expire_time", "display_name", "labels", "owner")
    assert [parameters[name].kind for name in options] == [inspect.Parameter.KEYWORD_ONLY] * 5


async def test_display_name_and_owner_are_stored_and_leave_adks_session_as_it_is(app, driver):
    session = await app.start(display_name="Trip to Rome", owner="ada@example.org", labels={"team": "a"})
    assert await app.again(session) == session
    assert session.state == {}
    stored = await rows(
        driver,
        "MATCH (u:User)-[:HAS_SESSION]->(s:Session {scope: $scope}) RETURN s.display_name, u.owner",
        app,
    )
    assert stored == [["Trip to Rome", "ada@example.org"]]


@pytest.mark.slow
async def test_a_list_by_labels_has_the_sessions_that_carry_them_all(app):
    await app.start("both", labels={"team": "a", "kind": "test"})
    await app.start("one", labels={"team": "a"})
    await app.start("other", labels={"team": "ab", "kind": 'te"st'})
    await app.start("none")
    assert await app.ids(labels={"team": "a"}) == ["both", "one"]
    assert await app.ids(None, labels={"team": "a", "kind": "test"}) == ["both"]
    assert await app.ids(labels={"kind": 'te"st'}) == ["other"]
    assert await app.ids(labels={"team": "b"}) == []
    assert await app.ids(labels={}) == await app.ids() == ["both", "one", "other", "none"]


# --- long lists ---------------------------------------------------------------------------------------------


async def thirteen_with_ties(app: App) -> list[str]:
    """Sessions of three users at four moments; the ids in the order of the list."""
    places = [(moment, user, f"{user}{n}") for n, (moment, user) in enumerate(["1a", "1b", "1c"] * 4 + ["2a"])]
    for moment, user, name in places:
        with time_is(NOON + int(moment)):
            await app.start(name, user=user)
    return [name for _, _, name in sorted(places)]


async def paged(app: App, limit: int, **more: Any) -> list[str]:
    seen: list[str] = []
    while page := await app.ids(limit=limit, after=seen[-1] if seen else None, **more):
        assert len(page) <= limit
        assert not set(page) & set(seen)
        seen += page
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 5, 13, 50])
@pytest.mark.parametrize("user", [None, "a"])
async def test_paging_visits_each_session_once_in_the_order_of_the_list(app, limit, user):
    expected = [name for name in await thirteen_with_ties(app) if name.startswith(user or "")]
    assert await app.ids(user) == expected
    assert await paged(app, limit, user=user) == expected


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 5, 50])
@pytest.mark.parametrize("user", [None, "a"])
async def test_paging_newest_first_visits_each_session_once_too(app, limit, user):
    expected = [name for name in await thirteen_with_ties(app) if name.startswith(user or "")]
    whole = await app.ids(user, newest_first=True)
    assert sorted(whole) == sorted(expected)
    assert whole[0] == "a12"
    assert await paged(app, limit, user=user, newest_first=True) == whole


@pytest.mark.slow
async def test_newest_first_turns_the_order_of_activity_round(app):
    for n, name in enumerate("abc"):
        await app.say(await app.start(name), "hello", at=NOON + n)
    assert await app.ids(newest_first=True) == ["c", "b", "a"]
    assert await app.ids(newest_first=True, limit=1) == ["c"]


async def test_paging_over_one_user_is_not_disturbed_by_anothers_equal_ids(app):
    for user in ("ada", "bob"):
        for name in "abc":
            await app.start(name, user=user)
    assert await paged(app, 1, user="bob") == ["a", "b", "c"]


async def test_a_page_after_an_unknown_or_ambiguous_session_is_refused(app):
    for user in ("ada", "bob"):
        await app.start("s", user=user)
    with pytest.raises(InputValidationError):
        await app.ids(after="unknown")
    with pytest.raises(InputValidationError):
        await app.ids(None, after="s")
    assert await app.ids(after="s") == []


async def test_a_list_without_state_has_everything_but_the_state(app):
    await app.start("s", state={"k": 1, "user:k": 1, "app:k": 1})
    for user in (USER, None):
        full, bare = [
            (await app.sessions.list_sessions(app_name=app.name, user_id=user, include_state=include_state)).sessions
            for include_state in (True, False)
        ]
        assert full[0].state == {"k": 1, "user:k": 1, "app:k": 1}
        assert bare == [full[0].model_copy(update={"state": {}})]


# --- pages of events ----------------------------------------------------------------------------------------


async def test_the_events_of_a_session_come_in_the_order_of_appending(app):
    session = await app.start()
    for n, at in enumerate([30.0, 10.0, 20.0]):
        await app.say(session, str(n), at=at)
    page = await app.page(session.id)
    assert page.events == session.events
    assert isinstance(page.last_seq, int)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_paging_visits_each_event_once(app, limit):
    session = await app.say(await app.start(), *"abcdefg", at=1.0)
    seen, last_seq = [], None
    while (page := await app.page(session.id, after_seq=last_seq, limit=limit)).events:
        assert len(page.events) <= limit
        assert not set(texts(page.events)) & set(seen)
        seen += texts(page.events)
        last_seq = page.last_seq
    assert seen == list("abcdefg")


@pytest.mark.slow
async def test_what_is_new_since_the_last_page_is_the_next_page(app):
    session = await app.say(await app.start(), "a", "b")
    last_seq = (await app.page(session.id)).last_seq
    await app.say(session, "c")
    assert texts((await app.page(session.id, after_seq=last_seq)).events) == ["c"]


@pytest.mark.slow
async def test_a_page_after_a_timestamp_includes_that_moment(app):
    session = await app.start()
    for text, at in [("a", 30.0), ("b", 10.0), ("c", 20.0), ("d", 40.0)]:
        await app.say(session, text, at=at)
    assert texts((await app.page(session.id, after_timestamp=20.0)).events) == ["a", "c", "d"]
    first = await app.page(session.id, after_timestamp=20.0, limit=2)
    assert texts(first.events) == ["a", "c"]
    rest = await app.page(session.id, after_timestamp=20.0, after_seq=first.last_seq)
    assert texts(rest.events) == ["d"]


async def test_a_session_without_events_has_an_empty_page(app):
    page = await app.page((await app.start()).id)
    assert (page.events, page.last_seq) == ([], None)


async def test_an_unknown_session_and_anothers_have_an_empty_page(app):
    session = await app.say(await app.start(), "mine")
    for page in (await app.page(session.id, user="bob"), await app.page("unknown")):
        assert (page.events, page.last_seq) == ([], None)


# --- closing a session --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_closed_session_stays_readable(app):
    session = await app.say(await app.start(state={"k": 1}), "said")
    await app.sessions.close_session(session)
    fetched = await app.again(session)
    assert (texts(fetched.events), fetched.state) == (["said"], {"k": 1})
    assert await app.ids() == [session.id]
    assert texts((await app.page(session.id)).events) == ["said"]


async def test_a_closed_session_takes_no_more_events_through_any_copy(app):
    session = await app.say(await app.start(), "said")
    await app.sessions.close_session(session)
    stored = await app.again(session)
    for copy in (session, stored, elsewhere(session)):
        before = copy.model_copy(deep=True)
        with pytest.raises(errors.SessionClosed):
            await app.say(copy, "more", delta={"k": 1, "user:k": 1, "app:k": 1})
        assert copy == before
    assert await app.again(session) == stored


@pytest.mark.slow
async def test_an_event_stored_before_the_close_may_still_be_redelivered(app):
    session, event = await app.start(), said("once")
    await app.sessions.append_event(session, event.model_copy(deep=True))
    await app.sessions.close_session(session)
    await app.sessions.append_event(session, event.model_copy(deep=True))
    assert texts((await app.again(session)).events) == ["once"]


@pytest.mark.slow
async def test_closing_twice_keeps_the_first_time(app, driver):
    session = await app.start()
    for at in (NOON, NOON + 9):
        with time_is(at):
            await app.sessions.close_session(session)
    assert await rows(driver, "MATCH (s:Session {scope: $scope}) RETURN s.closed_at", app) == [[NOON]]


async def test_closing_a_missing_session_is_refused(app):
    with pytest.raises(SessionNotFoundError):
        await app.sessions.close_session(Session(id="missing", app_name=app.name, user_id=USER))


@pytest.mark.slow
async def test_the_id_of_a_closed_session_is_free_after_its_deletion(app):
    await app.sessions.close_session(await app.start("s"))
    with pytest.raises(AlreadyExistsError):
        await app.start("s")
    await app.drop("s")
    assert texts((await app.say(await app.start("s"), "open")).events) == ["open"]


# --- deleting state keys ------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_deleted_key_is_gone_where_none_would_stay(app):
    session = await app.start(state={"a": 1, "b": 1, "kept": 1})
    await app.say(session, "none", delta={"a": None})
    assert session.state == {"a": None, "b": 1, "kept": 1}
    await app.sessions.delete_state_keys(session, ["a", "b"])
    assert session.state == {"kept": 1}
    assert await app.again(session) == session


@pytest.mark.slow
async def test_deleted_keys_of_the_app_and_the_user_are_gone_for_all(app):
    state = {f"{level}{key}": 1 for level in ("", "app:", "user:") for key in ("k", "kept")}
    session = await app.start(state=state)
    bystander = await app.start()
    await app.sessions.delete_state_keys(session, ["app:k", "user:k"])
    assert session.state == {"k": 1, "kept": 1, "app:kept": 1, "user:kept": 1}
    assert await app.again(session) == session
    assert (await app.again(bystander)).state == {"app:kept": 1, "user:kept": 1}
    assert await app.user_state() == {"kept": 1}


@pytest.mark.slow
async def test_deleting_a_key_leaves_keys_that_begin_alike(app):
    state = {"k": 1, "k2": 1, 'k":': 1, "K": 1, "app:k": 1, "nested": {"k": 1}}
    session = await app.start(state=state)
    await app.sessions.delete_state_keys(session, ["k"])
    assert (await app.again(session)).state == {key: value for key, value in state.items() if key != "k"}


@pytest.mark.slow
async def test_deleting_unknown_keys_does_nothing(app):
    session = await app.start(state={"k": 1})
    await app.sessions.delete_state_keys(session, ["unknown", "app:unknown", "user:unknown"])
    assert (await app.again(session)).state == session.state == {"k": 1}


async def test_a_deleted_key_can_be_set_again(app):
    session = await app.start(state={"k": 1})
    await app.sessions.delete_state_keys(session, ["k"])
    await app.say(session, "again", delta={"k": 2})
    assert (await app.again(session)).state == {"k": 2}


@pytest.mark.slow
async def test_deleting_keys_is_an_event_so_other_copies_become_stale(app):
    session = await app.start(state={"k": 1})
    stale = await app.again(session)
    await app.sessions.delete_state_keys(session, ["k"])
    assert len(session.events) == 1
    assert (await app.again(session)).events == session.events
    with pytest.raises(StaleSessionError):
        await app.say(stale, "too late")


async def test_a_stale_session_deletes_no_keys(app):
    stale = await app.start(state={"k": 1, "user:k": 1})
    await app.say(await app.again(stale), "newer")
    with pytest.raises(StaleSessionError):
        await app.sessions.delete_state_keys(stale, ["k", "user:k"])
    assert stale.state == (await app.again(stale)).state == {"k": 1, "user:k": 1}


# --- deleting a session -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("forget_memory", [False, True])
async def test_a_deleted_session_that_was_never_remembered_leaves_nothing_behind(app, driver, forget_memory):
    await app.say(await app.start("s"), "a", "b")
    await app.drop("s", forget_memory=forget_memory)
    left = "MATCH (n {scope: $scope}) WHERE n:Session OR n:Event RETURN count(n)"
    assert await rows(driver, left, app) == [[0]]


async def test_deleting_what_is_unknown_is_fine_with_forgetting_too(app):
    await app.drop("unknown", forget_memory=True)


# --- what is stored -----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_stored_body_is_the_whole_event_in_adks_own_json(app, driver):
    event = said("Zürich", branch="a.b", custom_metadata={"k": [1, None]}, delta={"k": {"a": None}})
    await app.sessions.append_event(await app.start(), event)
    [[body, stored]] = await rows(driver, "MATCH (e:Event {scope: $scope}) RETURN e.body, properties(e)", app)
    assert Event.model_validate_json(body) == event
    columns = ("id", "timestamp", "author", "invocation_id", "branch")
    assert [stored[name] for name in columns] == [getattr(event, name) for name in columns]


@pytest.mark.slow
async def test_the_graph_leads_from_the_session_through_its_events_in_order(app, driver):
    await app.say(await app.start(), "a", "b", "c", at=1.0)
    walked = await rows(
        driver,
        """
        MATCH (:User)-[:HAS_SESSION]->(s:Session {scope: $scope})-[:HAS_EVENT]->(first:Event)
        WHERE NOT (:Event)-[:NEXT]->(first)
        MATCH path = (first)-[:NEXT*]->(last:Event) WHERE NOT (last)-[:NEXT]->(:Event)
        RETURN [e IN nodes(path) | e.text]
        """,
        app,
    )
    assert walked == [[["a", "b", "c"]]]


@pytest.mark.slow
async def test_state_keys_never_become_property_keys_of_the_database(app, driver):
    key = f"key{uuid.uuid4().hex}"
    session = await app.start(state={f"{level}{key}0": 1 for level in ("", "app:", "user:")}, labels={key: "x"})
    await app.say(session, "hello", delta={f"{level}{key}1": {key: 1} for level in ("", "app:", "user:")})
    records, _, _ = await driver.execute_query("CALL db.propertyKeys() YIELD propertyKey")
    assert not [record["propertyKey"] for record in records if key in record["propertyKey"]]


NEWER = {
    "at the top": lambda body: body.update(brand_new={"a": [1]}),
    "inside actions": lambda body: body["actions"].update(brandNew=True),
    "inside a part": lambda body: body["content"]["parts"][0].update(brand_new="x"),
    "inside a compaction": lambda body: body["actions"]["compaction"]["compactedContent"].update(brand_new=[]),
    "in several places": lambda body: [
        place.update(one=1, two={}) for place in (body, body["actions"], body["content"])
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("edit", NEWER.values(), ids=NEWER)
async def test_an_event_with_fields_of_a_newer_adk_is_still_readable(app, driver, edit):
    summary = types.Content(role="model", parts=[types.Part(text="summary")])
    compaction = EventCompaction(start_timestamp=1.0, end_timestamp=2.0, compacted_content=summary)
    session = await app.start()
    await app.say(session, "from the future", actions=EventActions(compaction=compaction), branch="b")
    [[body]] = await rows(driver, "MATCH (e:Event {scope: $scope}) RETURN e.body", app)
    edit(newer := json.loads(body))
    await rows(driver, "MATCH (e:Event {scope: $scope}) SET e.body = $body", app, body=json.dumps(newer))

    assert await app.again(session) == session
    assert (await app.page(session.id)).events == session.events
    await app.say(await app.again(session), "and on")
    assert texts((await app.again(session)).events) == ["from the future", "and on"]


@pytest.mark.slow
@pytest.mark.parametrize("levels", [200, 500, 20_000])
async def test_an_event_nested_too_deep_is_refused_and_its_session_can_be_read(app: App, levels: int) -> None:
    arguments: dict[str, Any] = {}
    for _ in range(levels):
        arguments = {"x": arguments}
    call = types.Part(function_call=types.FunctionCall(name="f", args=arguments))
    session = await app.start("s")
    with pytest.raises(InputValidationError, match=r"deep|depth"):
        await app.sessions.append_event(session, Event(author="m", content=types.Content(role="model", parts=[call])))
    await app.sessions.append_event(session, said())
    kept = await app.fetch("s")
    assert kept is not None
    assert texts(kept.events) == ["hello"]
