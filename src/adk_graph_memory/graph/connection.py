"""An address or a caller's driver goes in; statements run on the driver of whichever event loop asks.

A service is built before any loop runs and may be used from many (``Runner.run()`` makes a fresh one per call), so
each running loop gets a driver of its own, opened at first use and closed when that loop shuts down.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import neo4j
from neo4j import AsyncDriver, AsyncGraphDatabase, Driver, GraphDatabase, Record
from neo4j import exceptions as driver_errors
from neo4j.auth_management import AuthManager

from adk_graph_memory import errors, telemetry
from adk_graph_memory.closing import Closeable
from adk_graph_memory.graph.error_translation import translate_driver_error
from adk_graph_memory.graph.locks import KeyedLocks
from adk_graph_memory.graph.queries import CypherStatements
from adk_graph_memory.language.zones import parse_timezone
from adk_graph_memory.settings import Settings, hide_credentials, load_settings, parse_address

T = TypeVar("T")
Auth = tuple[str, str] | neo4j.Auth | None
Parameters = Mapping[str, Any]

_RACE_CODES = {"Neo.ClientError.Statement.EntityNotFound", "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"}
"""Codes of statements that lost a race (against a deletion, or for an index) and only have to be run again."""
_PERMANENT_ERRORS = (errors.DatabaseReadOnly, errors.AuthenticationFailed)


class Connection(Closeable):
    """Where the graph is and how to talk to it; safe to share among event loops and threads.

    Args:
        uri: a Neo4j address, with whatever else :func:`~adk_graph_memory.settings.parse_address` reads in it; without
            it, ``NEO4J_URI`` or the server of ``adk-graph-memory up`` is used. The environment is read at the first
            statement, not before.
        auth: user name and password, or any ``neo4j.Auth``; without it, NEO4J_USERNAME and NEO4J_PASSWORD.
        database: the database's name; without it, NEO4J_DATABASE or ``neo4j``.
        driver: an async driver of the caller's, used as it is and never closed here.
        sync_driver: the same for the retrievers of neo4j-graphrag, which are synchronous.
        settings: instead of the environment.
        schema: ``auto`` migrates at first use, ``check`` refuses an unfit schema, ``off`` asks nothing.
        timezone: IANA name of the time zone for users whose own is not known.
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
    ) -> None:
        chosen = {"database": database, "schema_mode": schema, "timezone": timezone and parse_timezone(timezone)}
        self._overrides = parse_address(uri) | {name: value for name, value in chosen.items() if value is not None}
        self._auth, self._given_settings = auth, settings
        self._given_driver, self._given_sync_driver = driver, sync_driver
        self._loop_drivers: dict[asyncio.AbstractEventLoop, _LoopDriver] = {}
        self._sync_driver: Driver | None = None
        self._sync_lock = threading.Lock()
        self._has_answered = self.is_prepared = False
        self.server_line, self.locks = "2026", KeyedLocks()

    def read_settings(self) -> Settings:
        """What the settings are by now."""
        base = self._given_settings.model_dump() if self._given_settings else {}
        return load_settings(**base | self._overrides)

    settings = cached_property(read_settings)
    """The settings as they were when first needed."""

    def __repr__(self) -> str:
        place = "a driver of the caller's" if self._given_driver else hide_credentials(self.settings.uri or "nowhere")
        return f"<Connection to {place}>"

    # -- statements -------------------------------------------------------------------------------------------

    async def run_statement(self, name: str, parameters: Parameters | None = None, /, **more: Any) -> list[Record]:
        """One named statement in one auto-commit transaction, tried again while the server is unreachable.

        Only for statements that may run twice: a lost acknowledgement cannot be told from a lost request.
        """
        return await self.run_cypher(*self.statements.bind_parameters(name, {**(parameters or {}), **more}), name)

    async def run_cypher(self, text: str, parameters: Parameters | None = None, name: str = "schema") -> list[Record]:
        """The same for a statement that stands in no block of its own: schema changes."""

        async def once(driver: AsyncDriver) -> list[Record]:
            async with driver.session(**self._session_options) as session:
                return [record async for record in await session.run(text, dict(parameters or {}))]

        with telemetry.trace_statement(name, self.telemetry_attributes):
            return await self._run_with_retry(once)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """All of ``work`` in one transaction, run again as a whole after a deadlock or a lost connection."""

        async def once(driver: AsyncDriver) -> T:
            async with (
                driver.session(**self._session_options) as session,
                await session.begin_transaction() as transaction,
            ):
                done = await work(Transaction(transaction, self.statements, self.telemetry_attributes))
                await transaction.commit()
                return done

        return await self._run_with_retry(once)

    async def fetch_server_agent(self) -> str:
        """What the server calls itself, for example ``Neo4j/2026.08.1``."""

        async def once(driver: AsyncDriver) -> str:
            return (await driver.get_server_info()).agent

        return await self._run_with_retry(once)

    async def _run_with_retry(self, once: Callable[[AsyncDriver], Awaitable[T]]) -> T:
        deadline, pause = time.monotonic() + self._retry_seconds, 0.05
        while True:
            try:
                done = await once(await self.get_driver())
                self._has_answered = True
                return done
            except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
                translated = self.translate_error(error)
                hopeful = error.is_retryable() or getattr(error, "code", None) in _RACE_CODES
                if not hopeful or isinstance(translated, _PERMANENT_ERRORS) or time.monotonic() + pause > deadline:
                    raise translated from error
            except UnicodeEncodeError as error:
                raise errors.InvalidUnicode(reason=str(error)) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
            pause = min(pause * 2, 2.0)

    @property
    def _retry_seconds(self) -> float:
        """Seconds to keep trying; a server that never answered is more likely misnamed than restarting."""
        return self.settings.retry_time if self._has_answered else min(self.settings.retry_time, 2.0)

    @property
    def statements(self) -> CypherStatements:
        """The named statements for this deployment and the server's line."""
        return CypherStatements.from_settings(self.settings, self.server_line)

    @property
    def telemetry_attributes(self) -> telemetry.Attributes:
        """Where statements run, as telemetry says it."""
        return telemetry.get_database_attributes(
            None if self._given_driver else self.settings.uri, self.settings.database
        )

    @property
    def store_id(self) -> str:
        """What telemetry calls the graph: its database, and the labels' prefix where there is one."""
        return "/".join(filter(None, (self.settings.database, self.settings.label_prefix)))

    # -- drivers ----------------------------------------------------------------------------------------------

    async def get_driver(self) -> AsyncDriver:
        """The driver of the running event loop, opened if it is the loop's first."""
        if self._given_driver is not None:
            return self._given_driver
        loop = asyncio.get_running_loop()
        if loop not in self._loop_drivers:
            generator = self._open_driver()
            self._loop_drivers[loop] = _LoopDriver(generator, await anext(generator))
        return self._loop_drivers[loop].driver

    async def _open_driver(self) -> AsyncGenerator[AsyncDriver]:
        """A driver that lives as long as the loop: asyncio closes a loop's generators before the loop itself."""
        loop = asyncio.get_running_loop()
        for other in [loop for loop in list(self._loop_drivers) if loop.is_closed()]:
            self._loop_drivers.pop(other, None)
        driver = AsyncGraphDatabase.driver(self._address, auth=self._credentials, **self._driver_options)
        try:
            while True:
                yield driver
        finally:
            self._loop_drivers.pop(loop, None)
            await driver.close()

    @property
    def sync_driver(self) -> Driver:
        """The driver for neo4j-graphrag's retrievers; one for all threads."""
        if self._given_sync_driver is not None:
            return self._given_sync_driver
        if self._given_driver is not None:
            reason = "neo4j-graphrag's retrievers need a sync driver: pass sync_driver= beside driver=."
            raise errors.ConfigurationError(reason)
        with self._sync_lock:
            if self._sync_driver is None:
                self._sync_driver = GraphDatabase.driver(self._address, auth=self._credentials, **self._driver_options)
            return self._sync_driver

    @property
    def is_loop_bound(self) -> bool:
        """Whether it is of no use in another event loop: whoever passed a driver opened it in one."""
        return self._given_driver is not None

    async def close_loop_driver(self) -> None:
        """Closes what was opened here for this event loop; others go on."""
        if held := self._loop_drivers.pop(asyncio.get_running_loop(), None):
            await held.generator.aclose()

    async def close(self) -> None:
        """Closes what was opened here for this event loop and for threads; may be called again."""
        await self.close_loop_driver()
        with self._sync_lock:
            sync, self._sync_driver = self._sync_driver, None
        if sync is not None:
            await asyncio.to_thread(sync.close)

    @property
    def _address(self) -> str:
        if self.settings.uri is None:
            del self.settings  # the environment may name one by the next request
            raise errors.NoDatabaseConfigured
        return self.settings.uri

    @property
    def _credentials(self) -> Any:
        return self._auth or (self.settings.username, self.settings.password.get_secret_value())

    @property
    def _username(self) -> str:
        named = self._auth.principal if isinstance(self._auth, neo4j.Auth) else None
        return named or (self._auth[0] if isinstance(self._auth, tuple) else self.settings.username)

    @property
    def _driver_options(self) -> dict[str, Any]:
        return {
            "max_connection_pool_size": self.settings.pool_size,
            "connection_acquisition_timeout": max(self.settings.retry_time, 1.0),
            "connection_timeout": 10.0,
            "max_transaction_retry_time": self.settings.retry_time,
            "notifications_min_severity": "OFF",
        }

    @property
    def _session_options(self) -> dict[str, Any]:
        return {"database": self.settings.database, "notifications_min_severity": "OFF"}

    def translate_error(self, error: Exception) -> errors.GraphMemoryError:
        """The driver's error as one of ours, with what our message needs."""
        return translate_driver_error(
            error,
            uri="the given driver's address"
            if self._given_driver
            else hide_credentials(self.settings.uri or "nowhere"),
            username=self._username,
            database=self.settings.database,
        )


class _LoopDriver(NamedTuple):
    """A loop's driver and the generator that closes it."""

    generator: AsyncGenerator[AsyncDriver]
    driver: AsyncDriver


class Transaction:
    """Named statements inside one open transaction."""

    def __init__(
        self, transaction: neo4j.AsyncTransaction, statements: CypherStatements, place: telemetry.Attributes
    ) -> None:
        self._transaction, self._statements, self._telemetry_attributes = transaction, statements, place

    async def run_statement(self, name: str, parameters: Parameters | None = None, /, **more: Any) -> list[Record]:
        with telemetry.trace_statement(name, self._telemetry_attributes):
            result = await self._transaction.run(
                *self._statements.bind_parameters(name, {**(parameters or {}), **more})
            )
            return [record async for record in result]
