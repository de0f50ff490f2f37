"""Give neo4j-graphrag's retrievers a driver that only reads, within a time limit, by whichever driver there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, TypeVar

import neo4j
from neo4j import exceptions as driver_errors

from adk_graph_memory import errors, telemetry
from adk_graph_memory.graph import Connection

T = TypeVar("T")

_LOOP: ContextVar[asyncio.AbstractEventLoop] = ContextVar("_LOOP")
"""The event loop of the search that a thread works for."""


class ReadDriver(neo4j.Driver):
    """A connection behind the one method of a driver that neo4j-graphrag's retrievers call.

    Args:
        connection: its driver, sync or async, runs the statements; its time limit applies.
    """

    _closed = True  # it has no connections of its own: nothing to close, and nothing to warn of

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # The base class of neo4j-graphrag's retrievers writes its name there, which a caller's driver is spared.
        self._pool = SimpleNamespace(pool_config=SimpleNamespace(user_agent=""))

    def execute_query(  # type: ignore[override]  # of the options, only these are used
        self, query_: str, parameters_: Mapping[str, Any] | None = None, **_: object
    ) -> neo4j.EagerResult:
        """Read in one round trip; options such as ``database_`` are the connection's."""
        query = neo4j.Query(query_, timeout=self._seconds)
        parameters = dict(parameters_ or {})
        with telemetry.trace_statement("index_search", self._connection.telemetry_attributes):
            if self._connection.is_loop_bound:
                return self._read_on_loop(query, parameters)
            return self._connection.reads.run_read(lambda session: session.run(query, parameters).to_eager_result())

    def _read_on_loop(self, query: neo4j.Query, parameters: dict[str, Any]) -> neo4j.EagerResult:
        """Read by an async driver, in whose loop the search is awaited, while this thread waits."""
        reading = asyncio.run_coroutine_threadsafe(self._connection.read_cypher(query, parameters), _LOOP.get())
        try:
            return reading.result(self._seconds + 1.0)
        except TimeoutError as error:
            reading.cancel()
            raise self._connection.make_timeout_error() from error
        except errors.DatabaseError as error:
            if isinstance(error.__cause__, driver_errors.Neo4jError | driver_errors.DriverError):
                raise error.__cause__ from None  # the retrievers handle some errors of the driver
            raise

    async def run_in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that reads by this driver in a thread.

        Raises:
            errors.DatabaseTimeout: the database did not answer in time.
        """
        _LOOP.set(asyncio.get_running_loop())
        return await self._connection.reads.run_in_thread(function, *arguments)

    @property
    def _seconds(self) -> float:
        return self._connection.settings.limits.database_timeout
