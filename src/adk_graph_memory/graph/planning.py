"""Have the server plan the statements of a conversation before it needs them, again after a restart.

No statement that every user may run tells when a server started, but its connections do not outlive it.

Neo4j plans a statement at its first use. A server that has just started takes seconds of CPU for that, because nothing
of its planner is compiled yet. So each statement runs once beforehand, on nobody's behalf: with parameters that find
nothing, in a transaction that is rolled back. EXPLAIN would leave a quarter of the work to the first use.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import neo4j
from neo4j import exceptions as driver_errors

from adk_graph_memory import errors
from adk_graph_memory.graph.driver_errors import is_transient
from adk_graph_memory.graph.sync_driver import close_driver, open_session
from adk_graph_memory.records.scopes import Scope

if TYPE_CHECKING:
    from adk_graph_memory.graph.connection import Connection


RESTART_SECONDS = 5.0
"""No server restarts faster: one that has answered more recently was not restarted."""


class ServerState:
    """What this process knows of a server; all connections to it share this."""

    def __init__(self) -> None:
        self.plans = set[tuple[object, ...]]()
        """what it has planned; replaced when it may have lost its plans"""
        self.last_answer, self._is_doubted = -math.inf, True

    @property
    def may_be_restarted(self) -> bool:
        """Whether it may have been restarted since :meth:`trust`."""
        return self._is_doubted or time.monotonic() - self.last_answer > RESTART_SECONDS

    def doubt(self) -> None:
        """It may have been restarted."""
        self._is_doubted = True

    def trust(self) -> None:
        """It has answered on a connection that is kept to notice restarts."""
        self._is_doubted, self.last_answer = False, time.monotonic()

    def note_answer(self) -> None:
        """It has answered on another connection, which may be new."""
        self._is_doubted, self.last_answer = self.may_be_restarted, time.monotonic()


_states: defaultdict[str | None, ServerState] = defaultdict(ServerState)
"""By the servers' addresses."""


class KeptConnection:
    """A driver whose connection stays open: while it does, the server was not restarted.

    Args:
        connection: whose settings the driver has.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver: neo4j.Driver | None = None
        self._last_driver: neo4j.Driver | None = None
        """the driver opened last, even if it is closed: a thread may still be opening a connection with it"""
        self._process = 0
        self._addresses = set[neo4j.Address]()
        """where the driver has opened connections: more than one in a cluster"""
        self._known_plans: object = None
        self._note_restart: Callable[[], None] = lambda: None

    @property
    def server(self) -> ServerState:
        """The server at the other end."""
        return _states[self._connection.settings.uri]

    @contextmanager
    def use_driver(self, note_restart: Callable[[], None]) -> Iterator[neo4j.Driver]:
        """Find out whether the server was restarted, in one round trip without a statement, and yield the driver.

        If it may have been, forget its plans and call ``note_restart``, even before it answers. Another thread may
        close the driver meanwhile.

        Raises:
            neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError: the server cannot be reached.
        """
        self._note_restart = note_restart
        if self._driver is None or self._process != os.getpid():  # a fork must not use its parent's sockets
            self._driver = self._open_driver()
        driver = self._driver
        try:
            driver.verify_connectivity()
            self.server.trust()
            self._known_plans = self.server.plans
            yield driver
        finally:
            if driver is not self._driver:
                close_driver(driver)

    def _open_driver(self) -> neo4j.Driver:
        note_opening = weakref.WeakMethod(self._note_opening)

        # The driver asks for each connection that it opens. With neo4j:// it also asks whenever it renews its routing
        # table, every few minutes: then plans that are there are asked for again, which takes milliseconds.
        def resolve(address: neo4j.Address) -> list[neo4j.Address]:
            if note := note_opening():
                note(address)
            return [address]

        self._process = os.getpid()
        self._addresses.clear()
        driver = self._connection.open_sync_driver(resolver=resolve, max_connection_lifetime=-1)
        weakref.finalize(self, _close_own_driver, driver, self._process)
        self._last_driver = driver
        return driver

    def _note_opening(self, address: neo4j.Address) -> None:
        """The driver opens a connection to an address, because it has none there or has lost it."""
        is_lost = address in self._addresses
        self._addresses.add(address)
        if is_lost or self.server.may_be_restarted:
            # Whoever else has lost a connection may have replaced the plans already, and may be planning.
            if not is_lost or self.server.plans is self._known_plans:
                self.server.plans = set()
            self._note_restart()

    def close(self) -> None:
        """Close the driver, which wakes a thread that waits for it; the next use opens another one.

        Nobody needs to: a driver is closed with the last reference to this, or at the end of the process.
        """
        self._driver = None
        if self._last_driver is not None:
            _close_own_driver(self._last_driver, self._process)


def _close_own_driver(driver: neo4j.Driver, process: int) -> None:
    if os.getpid() == process:
        close_driver(driver)


logger = logging.getLogger(__name__)

Occasion = Literal["read", "first", "later"]
"""When a statement runs: reading, as the first of its transaction that may write, or after one that has written, for
which the server makes a plan of its own."""
Stage = Literal["words", "searches", "rest"]
"""What is planned first, second and last: a search by words alone, searches, and all else."""
STAGES: tuple[Stage, ...] = ("words", "searches", "rest")
PLANNING_SECONDS = 600.0
"""The longest that one statement may take."""
CHECK_SECONDS = 1.0
"""The longest that a search waits to hear whether the server was restarted."""
CLOSING_SECONDS = 5.0
"""How long closing waits for the current statement."""
WAKING_SECONDS = 0.1
"""How long it then waits each time that it has closed whatever the thread may wait for."""


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """A named statement, when it runs, and parameters with which it finds nothing; missing ones are null."""

    name: str
    occasion: Occasion
    parameters: Mapping[str, Any] = field(default_factory=dict, compare=False)
    stage: Stage = "rest"


SESSION_STATEMENTS = (
    PlannedStatement("append_events", "first", {"appends": ()}),
    PlannedStatement("get_session", "read"),
    PlannedStatement("create_session", "first"),
    PlannedStatement("list_sessions_of_user", "read"),
)
"""What a conversation asks of a session service."""
HISTORY_STATEMENTS = (
    PlannedStatement("list_events", "read"),
    PlannedStatement("create_session", "first"),
    PlannedStatement("list_event_ids", "read"),
    PlannedStatement("append_messages", "first"),
)
"""What it asks of a history provider."""
INGEST_STATEMENTS = (
    PlannedStatement("unread_turns", "first"),
    PlannedStatement("claim_turns", "later"),
    PlannedStatement("entities_by_name", "first"),
    PlannedStatement("candidate_facts", "first"),
    PlannedStatement("known_facts", "first"),
    PlannedStatement("finish_ingest", "first"),
    PlannedStatement("write_entities", "later"),
    PlannedStatement("write_events", "later"),
    PlannedStatement("write_facts", "later"),
    PlannedStatement("write_changes", "later"),
    PlannedStatement("pending_ingests_of_user", "first"),
    PlannedStatement("near_facts", "first"),
)
"""What it asks of a memory in order to remember: a model's reading all of it, rules all but the last."""
CONVERSATION_STATEMENTS = (PlannedStatement("filling", "read"), *SESSION_STATEMENTS, *INGEST_STATEMENTS)
"""What it asks besides searches of an agent's memory."""
ListStatements = Callable[[Mapping[str, Any]], Iterable[PlannedStatement]]
"""Lists what to plan, given the properties of the Meta node."""


class StatementPlanner:
    """Has the server plan what a connection will ask, in a thread.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock, self._is_paused = connection, threading.Lock(), False
        self._kept_connection = KeptConnection(connection)
        self._run: _PlanningRun | None = None
        self.list_statements: ListStatements | None = None
        """If None, each statement is planned at its first use: enough for a command that runs once."""

    @property
    def server(self) -> ServerState:
        """The server that plans."""
        return self._kept_connection.server

    def note_answer(self) -> None:
        """The server has answered just now; have it plan what it has not planned."""
        self.server.note_answer()
        self.start()

    def note_loss(self, error: BaseException | None) -> None:
        """A connection was lost, if the error says so: the server may have been restarted."""
        if isinstance(error, driver_errors.ServiceUnavailable | driver_errors.SessionExpired):
            self.server.doubt()

    def renew(self) -> None:
        """Have all planned again: an index is new, for which the server drops its plans."""
        self.server.plans = set()

    def start(self) -> None:
        """Start planning, unless that goes on, or is done on a server that was not restarted since."""
        if self.list_statements is None or self._is_paused or not self._connection.is_prepared:
            return
        if self._connection.is_loop_bound:  # the caller's driver is of no use in a thread
            return
        with self._lock:
            if self._run is None or self._run.is_outdated:
                self._run = _PlanningRun(self._connection, self._kept_connection, self.list_statements, self._run)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Start nothing for the length of the block."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    async def wait_until_planned(self) -> None:
        """Plan now, and wait until that is done or has failed; then the server plans at a statement's first use."""
        self.start()
        while (run := self._run) is not None and not run.is_over("rest"):
            await asyncio.wrap_future(run.stages["rest"])

    async def wait_for_stage(self, stage: Stage, seconds: float) -> bool:
        """Wait at most so many seconds until a stage is over, planned or failed; return whether it is.

        Before that, wait shortly to hear whether the server has to plan. One that does not say is not planning.
        """
        self.start()
        with suppress(TimeoutError):
            if self._run is not None:
                async with asyncio.timeout(CHECK_SECONDS):
                    await asyncio.wrap_future(self._run.checked)
            async with asyncio.timeout(seconds):
                while (run := self._run) is not None and run.is_planning(stage):
                    await asyncio.wrap_future(run.stages[stage])
        return (run := self._run) is None or not run.is_planning(stage)

    async def close(self) -> None:
        """End what goes on and close its driver; the next use of the connection starts it again."""
        with self._lock:
            run, self._run = self._run, None
        if run is not None:
            await asyncio.to_thread(self._close, run)

    def _close(self, run: _PlanningRun) -> None:
        run.is_ended = True
        run.thread.join(CLOSING_SECONDS)
        self._kept_connection.close()
        while run.thread.is_alive():  # it may open another connection, or driver, until it notices
            run.thread.join(WAKING_SECONDS)
            self._kept_connection.close()


class _PlanningRun:
    """One pass over the statements; whether it succeeds or fails, its futures are done at its end.

    Args:
        connection: for whose statements.
        kept_connection: where they run.
        list_statements: lists them.
        previous: the pass before, which is ended first.
    """

    def __init__(
        self,
        connection: Connection,
        kept_connection: KeptConnection,
        list_statements: ListStatements,
        previous: _PlanningRun | None,
    ) -> None:
        self._connection, self._kept_connection, self._previous = connection, kept_connection, previous
        self._list_statements, self._server = list_statements, kept_connection.server
        self._owner = Scope(f":nobody:{uuid.uuid4()}", "")
        self._plans: set[tuple[object, ...]] | None = None
        """what it adds to, or has added all to; None before it has asked the server, and after it has failed"""
        self.is_ended = False
        self.checked: Future[None] = Future()
        """done once it is known whether the server has to plan"""
        self.stages: dict[Stage, Future[None]] = {stage: Future() for stage in STAGES}
        for future in (self.checked, *self.stages.values()):
            future.set_running_or_notify_cancel()  # whoever waits cannot cancel it for others
        self.thread = threading.Thread(target=self._run, name="graph-planning", daemon=True)
        self.thread.start()

    @property
    def is_outdated(self) -> bool:
        """Whether there has to be another pass."""
        if self.is_over("rest"):
            return self._plans is not self._server.plans or self._server.may_be_restarted
        return self._plans is not None and self._plans is not self._server.plans

    def is_over(self, stage: Stage) -> bool:
        """Whether nothing more comes of a stage."""
        return self.stages[stage].done() or not self.thread.is_alive()  # a fork has no thread

    def is_planning(self, stage: Stage) -> bool:
        """Whether the server is known to have to plan, and a stage is not over."""
        return self.checked.done() and not self.is_over(stage)

    def _run(self) -> None:
        try:
            if self._previous is not None:
                self._previous.is_ended = True
                self._previous.thread.join()
            with self._kept_connection.use_driver(lambda: _finish(self.checked)) as driver:
                self._connection.health.note_answer(driver)
                self._plan_on(driver)
        except (driver_errors.DriverError, driver_errors.Neo4jError, OSError, errors.GraphMemoryError) as error:
            logger.debug("The server plans statements at their first use: %r", error)
            self._plans = None
            if not is_transient(error):  # the next use would fail alike
                self._plans = self._server.plans
                self._server.trust()
        finally:
            self._previous = None
            for future in (*self.stages.values(), self.checked):
                _finish(future)

    def _plan_on(self, driver: neo4j.Driver) -> None:
        plans = self._plans = self._server.plans
        if self._previous is not None and self._previous._plans is plans:
            return
        statements = [
            statement
            for statement in self._list_statements(self._read_meta(driver))
            if self._identify_plan(statement) not in plans
        ]
        for stage in STAGES:
            for statement in [statement for statement in statements if statement.stage == stage]:
                _finish(self.checked)
                if self.is_ended or plans is not self._server.plans:
                    self._plans = None
                    return
                self._plan_once(driver, statement)
                plans.add(self._identify_plan(statement))
            _finish(self.stages[stage])

    def _identify_plan(self, statement: PlannedStatement) -> tuple[object, ...]:
        settings = self._connection.settings
        return settings.database, settings.label_prefix, self._connection.server_line, statement

    def _read_meta(self, driver: neo4j.Driver) -> Mapping[str, Any]:
        options = self._connection.session_options | {"default_access_mode": neo4j.READ_ACCESS}
        with open_session(driver, **options) as session:
            row = session.run(*self._connection.statements.bind_parameters("schema_state", {})).single()
        return row["m"] if row else {}

    def _plan_once(self, driver: neo4j.Driver, statement: PlannedStatement) -> None:
        try:
            self._run_once(driver, statement)
        except driver_errors.Neo4jError as error:
            if error.is_retryable():
                raise
            logger.debug("%s does not run on this server: %r", statement.name, error)
        self._server.trust()

    def _run_once(self, driver: neo4j.Driver, statement: PlannedStatement) -> None:
        bind = self._connection.statements.bind_placeholders
        text, parameters = bind(statement.name, statement.parameters, self._owner)
        access = neo4j.READ_ACCESS if statement.occasion == "read" else neo4j.WRITE_ACCESS
        with open_session(driver, **self._connection.session_options | {"default_access_mode": access}) as session:
            if statement.occasion == "read":
                session.run(neo4j.Query(text, timeout=PLANNING_SECONDS), parameters).consume()
                return
            with session.begin_transaction(timeout=PLANNING_SECONDS) as transaction:
                if statement.occasion == "later":
                    transaction.run(*bind("know_user", {}, self._owner)).consume()
                transaction.run(text, parameters).consume()
                transaction.rollback()  # the end of the block would commit


def _finish(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)
