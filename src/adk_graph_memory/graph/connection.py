"""Run Cypher statements on Neo4j drivers: an async one for each event loop, a sync one for searches.

A service is built before any loop runs and may be used from many loops: ``Runner.run()`` starts one per call. So each
loop gets its own driver, opened at first use and closed when the loop shuts down.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import neo4j
from neo4j import AsyncDriver, AsyncGraphDatabase, Driver, GraphDatabase, Record
from neo4j import exceptions as driver_errors
from neo4j.auth_management import AuthManager
from tenacity import AsyncRetrying, RetryCallState, Retrying

from adk_graph_memory import errors
from adk_graph_memory.graph.append_queue import AppendQueue
from adk_graph_memory.graph.driver_errors import (
    CREDENTIALS_EXPIRED,
    LIVENESS_SECONDS,
    REFUSED_SECONDS,
    DriverHealth,
    SilenceTimer,
    get_error,
    make_retry_options,
    translate_driver_error,
)
from adk_graph_memory.graph.planning import StatementPlanner
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT, CypherStatements
from adk_graph_memory.graph.sync_driver import close_driver, open_session
from adk_graph_memory.language.dates import parse_timezone
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime import environment, telemetry
from adk_graph_memory.runtime.concurrency import Closeable, KeyedLocks
from adk_graph_memory.runtime.settings import Settings, hide_credentials, load_settings, parse_address


@dataclass(eq=False)
class _LoopDriver:
    """A loop's driver, the generator that closes it, and how many operations use it."""

    driver: AsyncDriver
    generator: AsyncGenerator[AsyncDriver]
    users: int = 0


class LoopDrivers:
    """The drivers of event loops: one for each loop, opened at its first use and closed when the loop shuts down.

    A driver that is closed while it connects leaves the new connection open. So a driver that is dropped is closed by
    the last operation that uses it.

    Args:
        open_driver: opens one.
    """

    def __init__(self, open_driver: Callable[[], AsyncDriver]) -> None:
        self._open_driver = open_driver
        self._drivers: dict[asyncio.AbstractEventLoop, _LoopDriver] = {}

    async def get_driver(self) -> AsyncDriver:
        """The driver of the running loop."""
        return (await self._get_loop_driver()).driver

    @asynccontextmanager
    async def use_driver(self) -> AsyncIterator[AsyncDriver]:
        """The driver of the running loop, which stays open for the length of the block."""
        loop_driver = await self._get_loop_driver()
        loop_driver.users += 1
        try:
            yield loop_driver.driver
        finally:
            loop_driver.users -= 1
            await self._close_dropped(loop_driver)

    async def drop_driver(self, driver: AsyncDriver | None = None) -> None:
        """Let the running loop's next operation open another driver.

        Args:
            driver: nothing happens if this is not the loop's driver any more.
        """
        loop = asyncio.get_running_loop()
        loop_driver = self._drivers.get(loop)
        if loop_driver is not None and driver in (None, loop_driver.driver):
            del self._drivers[loop]
            await self._close_dropped(loop_driver)

    async def _get_loop_driver(self) -> _LoopDriver:
        loop = asyncio.get_running_loop()
        if loop not in self._drivers:
            generator = self._open_until_shutdown()
            self._drivers[loop] = _LoopDriver(await anext(generator), generator)
        return self._drivers[loop]

    async def _open_until_shutdown(self) -> AsyncGenerator[AsyncDriver]:
        """Open a driver; asyncio closes a loop's generators, and with this one the driver, before the loop itself."""
        loop = asyncio.get_running_loop()
        for closed_loop in [other for other in list(self._drivers) if other.is_closed()]:
            self._drivers.pop(closed_loop, None)
        driver = self._open_driver()
        try:
            while True:
                yield driver
        finally:
            if (loop_driver := self._drivers.get(loop)) is not None and loop_driver.driver is driver:
                del self._drivers[loop]
            await driver.close()

    async def _close_dropped(self, loop_driver: _LoopDriver) -> None:
        if not loop_driver.users and loop_driver is not self._drivers.get(asyncio.get_running_loop()):
            await loop_driver.generator.aclose()


T = TypeVar("T")

READ_THREADS = 8
"""Threads for reads, apart from asyncio's own, so that a silent database holds up nothing else."""


@dataclass(eq=False, slots=True)
class _OpenRead:
    """A read that waits for the database, until when, and by which driver."""

    driver: neo4j.Driver
    deadline: float
    is_silent: bool = False


class SyncReads:
    """The sync driver of a connection, and threads that read with it; all event loops and threads share both.

    Args:
        connection: the connection; its settings and retries apply.
        given_driver: a driver of the caller's, used as it is and never closed here.
    """

    def __init__(self, connection: Connection, given_driver: neo4j.Driver | None) -> None:
        self._connection, self._given_driver = connection, given_driver
        self._driver: neo4j.Driver | None = None
        self._lock, self._closings = threading.Lock(), 0
        self._open_reads: dict[_OpenRead, None] = {}
        self._watch: threading.Thread | None = None

    @property
    def driver(self) -> neo4j.Driver:
        """The driver, opened at its first use."""
        if self._given_driver is not None:
            return self._given_driver
        with self._lock:
            if self._driver is None:
                self._driver = self._connection.open_sync_driver()
            return self._driver

    def read_rows(self, statement: str, parameters: Mapping[str, Any]) -> list[neo4j.Record]:
        """Read in one round trip; raises what :meth:`run_read` raises."""
        query = neo4j.Query(statement, timeout=self._timeout)
        return self.run_read(lambda session: list(session.run(query, dict(parameters))))

    def run_read(self, read: Callable[[neo4j.Session], T], **session_options: Any) -> T:
        """Read in a session; after a lost connection, read again on another one.

        Args:
            read: what reads.
            session_options: further options of the driver's session.

        Raises:
            errors.DatabaseTimeout: the database did not answer in time.
            neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError: whatever else went wrong.
        """
        health = self._connection.health
        options = self._connection.session_options | {"default_access_mode": neo4j.READ_ACCESS} | session_options

        def read_once() -> T:
            driver = self.driver
            bookmarks = driver.execute_query_bookmark_manager  # a read sees what the driver's earlier statements saw
            with self._end_silence(driver), open_session(driver, bookmark_manager=bookmarks, **options) as session:
                result = read(session)
            health.note_answer(driver)
            self._connection.planner.note_answer()
            return result

        closings = self._closings

        def drop_dead_driver(state: RetryCallState) -> None:
            if closings != self._closings and (error := get_error(state)):
                raise error
            self._connection.planner.note_loss(get_error(state))
            if health.is_dead(driver := self._driver, get_error(state)):
                self._drop_driver(driver)

        return Retrying(**self._connection.choose_retry_options(drop_dead_driver))(read_once)

    async def run_in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that reads by these methods in a thread, for at most a little over the timeout.

        Raises:
            errors.DatabaseTimeout: the database did not answer in time, or all threads wait for it.
        """
        run = partial(contextvars.copy_context().run, function, *arguments)  # as asyncio.to_thread does
        try:
            async with asyncio.timeout(self._timeout + 1.0) as timeout:
                return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise self._connection.make_timeout_error() from error

    @contextmanager
    def _end_silence(self, driver: neo4j.Driver) -> Iterator[None]:
        """Close the driver when the database does not answer in time; that wakes the thread which waits for it."""
        read = _OpenRead(driver, time.monotonic() + self._timeout + 0.5)  # half a second after the server's own
        with self._lock:
            self._open_reads[read] = None
            if self._watch is None or not self._watch.is_alive():  # it ended, an error ended it, or this is a fork
                self._watch = threading.Thread(target=self._watch_reads, name="graph-read-watch", daemon=True)
                self._watch.start()
        try:
            yield
        except Exception as error:
            if read.is_silent:  # whatever a driver raises that was closed beneath its reader
                raise self._connection.make_timeout_error() from error
            raise
        finally:
            with self._lock:
                self._open_reads.pop(read, None)
            if driver is not self._driver:
                self._drop_driver(driver)

    def _watch_reads(self) -> None:
        """Close the driver of each read at its deadline; end when no read is open.

        One thread for all reads: a thread for each would cost more than its statement. All have the same timeout, so
        the oldest is due first, and nothing needs to wake this thread before.
        """
        while True:
            with self._lock:
                read = next(iter(self._open_reads), None)
                if read is None:
                    self._watch = None
                    return
            if (seconds_left := read.deadline - time.monotonic()) > 0:
                time.sleep(seconds_left)
                continue
            read.is_silent = True
            self._drop_driver(read.driver)
            with self._lock:
                self._open_reads.pop(read, None)

    @property
    def _timeout(self) -> float:
        return self._connection.settings.limits.database_timeout

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(READ_THREADS, thread_name_prefix="graph-read")

    def _drop_driver(self, driver: neo4j.Driver | None) -> None:
        """Close a driver, unless it is the caller's, and what was opened since if it is closed."""
        if driver is None or driver is self._given_driver:
            return
        with self._lock:
            if driver is self._driver:
                self._driver = None
        close_driver(driver)

    async def close(self) -> None:
        """Close the driver, unless it is the caller's, and end what reads with it; the next read opens another one."""
        if self._driver is not None or "_threads" in self.__dict__:
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._closings += 1
        threads = self.__dict__.pop("_threads", None)
        for _ in range(2):  # a read may open another driver until its thread has ended
            self._drop_driver(self._driver)
            if threads is not None:
                is_own = self._given_driver is None  # only its closed driver wakes a thread that waits in vain
                threads.shutdown(wait=is_own, cancel_futures=True)


Auth = tuple[str, str] | neo4j.Auth | None
Parameters = Mapping[str, Any]

TRANSACTION_TIMEOUTS = 40
"""The server ends a transaction after so many times ``database_timeout``: a client that is gone keeps no locks."""


class Connection(Closeable):
    """A connection to the graph; event loops and threads may share it.

    Args:
        uri: a Neo4j address, with whatever else :func:`.settings.parse_address` reads in it. By
            default ``NEO4J_URI`` or the server of ``adk-graph-memory up``; the environment is read at the first
            statement, not before.
        auth: user name and password, or any ``neo4j.Auth``; by default NEO4J_USERNAME and NEO4J_PASSWORD.
        database: the database's name; by default NEO4J_DATABASE or ``neo4j``.
        driver: an async driver of the caller's, used as it is and never closed here.
        sync_driver: a sync driver of the caller's for the retrievers of neo4j-graphrag, which are synchronous.
        settings: used instead of the environment.
        schema: ``auto`` migrates at first use, ``check`` refuses an unfit schema, ``off`` checks nothing.
        timezone: IANA name of the time zone for users whose own is not known.
        timeout: seconds without an answer until an operation gives up; by default the setting.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        auth: Auth | AuthManager = None,
        database: str | None = None,
        driver: AsyncDriver | None = None,
        sync_driver: Driver | None = None,
        settings: Settings | None = None,
        schema: str | None = None,
        timezone: str | None = None,
        timeout: float | None = None,
    ) -> None:
        options: dict[str, Any] = {"database": database, "schema_mode": schema, "database_timeout": timeout}
        options["timezone"] = timezone and parse_timezone(timezone)
        self._overrides = parse_address(uri) | {name: value for name, value in options.items() if value is not None}
        self._auth, self._given_settings = auth, settings
        self._given_driver = driver
        self._is_driver_given = driver is not None or (sync_driver is not None and "uri" not in self._overrides)
        self._loop_drivers = LoopDrivers(self._open_driver)
        self._append_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, AppendQueue] = WeakKeyDictionary()
        self.reads, self.health = SyncReads(self, sync_driver), DriverHealth()
        self.server_line, self.locks = "2026", KeyedLocks()
        self.planner = StatementPlanner(self)
        self._tombstone_key: str | None = None

    def read_settings(self) -> Settings:
        """Read the settings as they are now, without caching them."""
        base = self._given_settings.model_dump() if self._given_settings else {}
        return load_settings(**base | self._overrides)

    settings = cached_property(read_settings)
    """The settings as they were when first needed."""

    def __repr__(self) -> str:
        place = "a driver of the caller's" if self._given_driver else hide_credentials(self.settings.uri or "nowhere")
        return f"<Connection to {place}>"

    # -- schema -----------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Check the server and migrate or check the schema, as the settings say; every statement does this first.

        Raises:
            errors.DatabaseError, errors.SchemaError: as :func:`.schema.prepare_schema` does.
        """
        if self.is_prepared:
            return
        from adk_graph_memory.graph.schema import prepare_schema  # it runs its statements here

        async with self.locks.hold_lock("prepare"):
            if not self.is_prepared:
                self._tombstone_key = await prepare_schema(self)

    def forget_schema(self) -> None:
        """Check the schema, and learn the key of the tombstones, once more before the next statement."""
        self._tombstone_key = None

    @property
    def is_prepared(self) -> bool:
        """Whether the schema has been checked, and is there."""
        return bool(self._tombstone_key)

    @property
    def tombstone_key(self) -> str:
        """The key of this graph's tombstones.

        Raises:
            errors.SchemaUnchecked: nothing has prepared the connection, so the key is not known yet.
            errors.SchemaMissing: nobody has migrated the database, and the settings keep this process from it.
        """
        if self._tombstone_key is None:
            raise errors.SchemaUnchecked(database=self.settings.database)
        if not self._tombstone_key:
            raise errors.SchemaMissing(database=self.settings.database, missing="everything")
        return self._tombstone_key

    # -- statements -------------------------------------------------------------------------------------------

    async def run_statement(
        self,
        name: str,
        parameters: Parameters | None = None,
        within: float | None = None,
        scope: Scope | None = None,
        /,
        **more: Any,
    ) -> list[Record]:
        """Run a named statement in an auto-commit transaction, with retries while the server is unreachable.

        Only for statements that may run twice: a lost acknowledgement cannot be told from a lost request.

        Args:
            name: the statement.
            parameters: its parameters.
            within: seconds to give up after, instead of the setting.
            scope: whose statement it is; only :class:`UserGraph` says so.
            more: further parameters.
        """
        if not self.is_prepared and self.statements.needs_schema(name):
            await self.prepare()
        text, bound = self.statements.bind_parameters(name, {**(parameters or {}), **more}, scope)
        seconds = None if self.statements.is_unbounded(name) else within or self._timeout
        return await self._run_text(text, bound, name, seconds)

    async def run_cypher(self, text: str, parameters: Parameters | None = None, name: str = "schema") -> list[Record]:
        """Run the text of a schema change, with no timeout: it takes as long as the graph is large.

        ``name`` is the change's in telemetry.
        """
        return await self._run_text(text, parameters or {}, name, None)

    async def read_cypher(self, query: neo4j.Query, parameters: Parameters) -> neo4j.EagerResult:
        """Read by a statement of a caller's; the result also holds its plan. The session refuses to write."""

        async def run_once(driver: AsyncDriver, _: SilenceTimer) -> neo4j.EagerResult:
            options = self.session_options | {"default_access_mode": neo4j.READ_ACCESS}
            async with driver.session(**options) as session:
                return await (await session.run(query, dict(parameters))).to_eager_result()

        return await self._run_with_retry(run_once, self._timeout)

    async def _run_text(self, text: str, parameters: Parameters, name: str, seconds: float | None) -> list[Record]:
        query = neo4j.Query(text, timeout=seconds)  # the server ends it too, so that it keeps no locks

        async def run_once(driver: AsyncDriver, _: SilenceTimer) -> list[Record]:
            async with driver.session(**self.session_options) as session:
                return [record async for record in await session.run(query, dict(parameters))]

        with telemetry.trace_statement(name, self.telemetry_attributes):
            return await self._run_with_retry(run_once, seconds)

    async def transact(
        self, work: Callable[[Transaction], Awaitable[T]], *, changes_schema: bool = False, scope: Scope | None = None
    ) -> T:
        """Run ``work`` in one transaction; after a deadlock or a lost connection, run all of it again.

        Args:
            work: what runs the statements.
            changes_schema: it needs no schema, and waits for others as long as they take.
            scope: whose statements it runs; only :class:`UserGraph` says so.
        """
        if not changes_schema:
            await self.prepare()
        seconds = None if changes_schema else self._timeout

        async def run_once(driver: AsyncDriver, timer: SilenceTimer) -> T:
            async with (
                driver.session(**self.session_options) as session,
                await session.begin_transaction(timeout=seconds and TRANSACTION_TIMEOUTS * seconds) as transaction,
            ):
                timer.stop()
                result = await work(Transaction(transaction, self.statements, self.telemetry_attributes, timer, scope))
                timer.start()
                await transaction.commit()
                return result

        return await self._run_with_retry(run_once, seconds)

    @property
    def append_queue(self) -> AppendQueue:
        """The appends of the running event loop."""
        loop = asyncio.get_running_loop()
        if (queue := self._append_queues.get(loop)) is None:
            queue = self._append_queues[loop] = AppendQueue(self)
        return queue

    async def fetch_server_agent(self) -> str:
        """The server's agent string, for example ``Neo4j/2026.08.1``."""

        async def run_once(driver: AsyncDriver, _: SilenceTimer) -> str:
            return (await driver.get_server_info()).agent

        return await self._run_with_retry(run_once, self._timeout)

    async def _run_with_retry(
        self, run_once: Callable[[AsyncDriver, SilenceTimer], Awaitable[T]], seconds: float | None
    ) -> T:
        driver: AsyncDriver | None = None

        async def attempt() -> T:
            nonlocal driver
            timer.start()
            async with self._use_driver() as driver:
                result = await run_once(driver, timer)
            self.health.note_answer(driver)
            self.planner.note_answer()
            return result

        last_error: BaseException | None = None

        async def drop_dead_driver(state: RetryCallState) -> None:
            nonlocal last_error
            last_error = get_error(state)
            self.planner.note_loss(last_error)
            if self.health.is_dead(driver, last_error):
                await self._loop_drivers.drop_driver(driver)

        try:
            async with asyncio.timeout(None) as timeout:
                timer = SilenceTimer(timeout, seconds)
                return await AsyncRetrying(**self.choose_retry_options(drop_dead_driver))(attempt)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            if isinstance(last_error, driver_errors.GqlError):
                raise self.translate_error(last_error) from last_error
            await self._loop_drivers.drop_driver(driver)  # its other connections lead to the same silence
            raise self.make_timeout_error() from error
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            raise self.translate_error(error) from error
        except UnicodeEncodeError as error:
            raise errors.InvalidUnicode(reason=str(error)) from error

    @property
    def _timeout(self) -> float:
        return self.settings.limits.database_timeout

    def choose_retry_options(self, drop_driver: Callable[[RetryCallState], Any]) -> dict[str, Any]:
        """Options of tenacity's retries; short for a server that never answered: its address is probably wrong.

        Args:
            drop_driver: called before the next attempt.
        """
        seconds = self._timeout if self.health.has_answered else min(self._timeout, REFUSED_SECONDS)
        return make_retry_options(seconds, drop_driver)

    def make_timeout_error(self, seconds: float | None = None) -> errors.DatabaseTimeout:
        """The error for a database that stayed silent, for so many seconds or for ``database_timeout``."""
        reason = f"no answer within {seconds or self._timeout:g} s"
        return errors.DatabaseTimeout(uri=self.shown_uri, reason=reason, seconds=f"{self._timeout:g}")

    @property
    def statements(self) -> CypherStatements:
        """The named statements for these settings and this server line."""
        return CypherStatements.from_settings(self.settings, self.server_line)

    @property
    def telemetry_attributes(self) -> telemetry.Attributes:
        """The server and database of the statements, as telemetry attributes."""
        return telemetry.get_database_attributes(
            None if self._is_driver_given else self.settings.uri, self.settings.database
        )

    @property
    def store_id(self) -> str:
        """The graph's name in telemetry: its database, and the label prefix if there is one."""
        return "/".join(filter(None, (self.settings.database, self.settings.label_prefix)))

    def user(self, scope: Scope) -> UserGraph:
        """Return the graph as one user's memory sees it."""
        return UserGraph(self, scope)

    # -- drivers ----------------------------------------------------------------------------------------------

    async def get_driver(self) -> AsyncDriver:
        """The driver of the running event loop, opened at the loop's first use."""
        return self._given_driver or await self._loop_drivers.get_driver()

    def _use_driver(self) -> AbstractAsyncContextManager[AsyncDriver]:
        return nullcontext(self._given_driver) if self._given_driver else self._loop_drivers.use_driver()

    def _open_driver(self) -> AsyncDriver:
        return AsyncGraphDatabase.driver(self._address, auth=self._credentials, **self._driver_options)

    def open_sync_driver(self, **options: Any) -> Driver:
        """Open a sync driver with the settings of this connection, and more options; the caller closes it.

        Raises:
            errors.ConfigurationError: the connection has a driver of the caller's, and no sync driver beside it.
        """
        if self._given_driver is not None:
            reason = "neo4j-graphrag's retrievers need a sync driver: pass sync_driver= beside driver=."
            raise errors.ConfigurationError(reason)
        return GraphDatabase.driver(self._address, auth=self._credentials, **self._driver_options | options)

    @property
    def sync_driver(self) -> Driver:
        """The sync driver for neo4j-graphrag's retrievers; all threads share it."""
        return self.reads.driver

    @property
    def is_loop_bound(self) -> bool:
        """Whether the connection works in one event loop only, as a caller's driver does."""
        return self._given_driver is not None

    async def close_loop_driver(self) -> None:
        """Close the driver of this event loop, once nothing uses it; other loops keep theirs."""
        await self._loop_drivers.drop_driver()

    async def close(self) -> None:
        """Close the driver of this event loop and the sync driver; may be called again."""
        await self.close_loop_driver()
        await self.reads.close()
        await self.planner.close()  # last, because what ends may start it

    @property
    def _address(self) -> str:
        if self.settings.uri is None:
            del self.settings  # not cached: the environment may name an address by the next request
            raise errors.NoDatabaseConfigured
        return self.settings.uri

    @property
    def _credentials(self) -> Any:
        return self._auth or (self.settings.username, self.settings.password.get_secret_value())

    @property
    def _username(self) -> str:
        principal = self._auth.principal if isinstance(self._auth, neo4j.Auth) else None
        return principal or (self._auth[0] if isinstance(self._auth, tuple) else self.settings.username)

    @property
    def _driver_options(self) -> dict[str, Any]:
        return {
            "max_connection_pool_size": self.settings.limits.pool_size,
            "connection_acquisition_timeout": self._timeout / 3,  # an attempt on another connection still has time
            "connection_timeout": self._timeout / 3,
            "liveness_check_timeout": LIVENESS_SECONDS,
            "max_transaction_retry_time": self._timeout,
            "notifications_min_severity": "OFF",
        }

    @property
    def session_options(self) -> dict[str, Any]:
        """Options of each session of a driver."""
        return {"database": self.settings.database, "notifications_min_severity": "OFF"}

    def translate_error(self, error: Exception) -> errors.GraphMemoryError:
        """Translate an error of the driver into one of ours, with the address, user name and database."""
        return translate_driver_error(
            error,
            uri=self.shown_uri,
            username=self._username,
            database=self.settings.database,
            seconds=f"{self._timeout:g}",
            advice=self._advise_on_password(error),
        )

    def _advise_on_password(self, error: Exception) -> str:
        """Say where the password came from, for a server that refused it, and what to do if it was changed."""
        if getattr(error, "code", None) == CREDENTIALS_EXPIRED:
            return (
                "it wants a new password first; in its database `system`, run ALTER CURRENT USER SET PASSWORD FROM "
                "'the present one' TO 'a new one'"
            )
        remedy = "give the new one there, and restart this process"
        if not (self._auth or self._is_driver_given or self.settings.password.get_secret_value()):
            return "NEO4J_PASSWORD is not set"
        if self._is_driver_given:
            source = "the driver that was given"
        elif self._auth:
            source = "the auth= that was given"
        elif "password" in self._overrides:
            source = "the address that was given"
        elif self._given_settings:
            source = "the settings that were given"
        elif environment.is_variable_set("NEO4J_PASSWORD"):
            source = "NEO4J_PASSWORD, in the environment or an agent's .env file"
        else:
            source = f"{environment.get_connection_file()}, where `adk-graph-memory up` wrote it"
            remedy = "run `adk-graph-memory up`, which looks for the new one, and restart this process"
        return (
            f"check the user name and the password, which came from {source}. If the password was changed, {remedy} "
            "(after three failures the server waits some seconds)"
        )

    @property
    def shown_uri(self) -> str:
        """The server's address without credentials, for people."""
        return (
            "the given driver's address" if self._is_driver_given else hide_credentials(self.settings.uri or "nowhere")
        )


@dataclass(frozen=True, slots=True)
class UserGraph:
    """Runs the statements about one user, with the user's scope filled in, and no other statement.

    :meth:`Connection.user` makes it; the connection itself refuses statements about one user.
    """

    connection: Connection
    scope: Scope

    async def run_statement(
        self, name: str, parameters: Parameters | None = None, within: float | None = None, /, **more: Any
    ) -> list[Record]:
        """Run a statement about this user, as :meth:`Connection.run_statement` does.

        Raises:
            errors.ScopeError: the statement is not about one user, or a parameter names a scope.
        """
        return await self.connection.run_statement(name, parameters, within, self.scope, **more)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run ``work`` in one transaction, whose statements are about this user too."""
        return await self.connection.transact(work, scope=self.scope)


class Transaction:
    """Named statements inside one open transaction, about one user if a :class:`UserGraph` opened it."""

    def __init__(
        self,
        transaction: neo4j.AsyncTransaction,
        statements: CypherStatements,
        attributes: telemetry.Attributes,
        timer: SilenceTimer,
        scope: Scope | None,
    ) -> None:
        self._transaction, self._statements, self._telemetry_attributes = transaction, statements, attributes
        self._timer, self._scope = timer, scope

    async def run_statement(self, name: str, parameters: Parameters | None = None, /, **more: Any) -> list[Record]:
        """Run a named statement without retries of its own: :meth:`Connection.transact` repeats the whole work."""
        text, bound = self._statements.bind_parameters(name, {**(parameters or {}), **more}, self._scope)
        with telemetry.trace_statement(name, self._telemetry_attributes):
            self._timer.start()
            records = [record async for record in await self._transaction.run(text, bound)]
            self._timer.stop()
            return records

    async def run_rows(self, name: str, rows: Sequence[Any], **more: Any) -> None:
        """Run a named statement over rows, as many at a time as one statement takes."""
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            await self.run_statement(name, rows=rows[start : start + ROWS_PER_STATEMENT], **more)
