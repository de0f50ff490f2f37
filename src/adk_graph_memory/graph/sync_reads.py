"""Run read-only statements on a sync driver, for the retrievers of neo4j-graphrag."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import neo4j
from tenacity import RetryCallState, Retrying

from adk_graph_memory.graph.retries import get_error

if TYPE_CHECKING:
    from adk_graph_memory.graph.connection import Connection

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
            session = driver.session(bookmark_manager=bookmarks, **options)
            # Closed twice: the first try may break off if its driver was closed beneath it.
            with self._end_silence(driver), closing(session), session:
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

        return Retrying(**self._connection.make_retry_options(drop_dead_driver))(read_once)

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
        with self._lock:
            if driver is None or driver is not self._driver:
                return  # the caller's, or closed already
            self._driver = None
        driver.close()

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
