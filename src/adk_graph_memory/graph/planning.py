"""Have the server plan the statements of a conversation before the conversation needs them.

Neo4j plans a statement at its first use. A server that has just started takes seconds of CPU for that, because nothing
of its planner is compiled yet. So each statement runs once beforehand, on nobody's behalf: with parameters that find
nothing, in a transaction that is rolled back. EXPLAIN would leave a quarter of the work to the first use.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import neo4j
from neo4j import exceptions as driver_errors

from adk_graph_memory import errors
from adk_graph_memory.graph.queries import make_scope_parameters
from adk_graph_memory.records import Scope

if TYPE_CHECKING:
    from adk_graph_memory.graph.connection import Connection

logger = logging.getLogger(__name__)

Occasion = Literal["read", "first", "later"]
"""When a statement runs: reading, as the first of its transaction that may write, or after one that has written, for
which the server makes a plan of its own."""
Stage = Literal["words", "searches", "rest"]
"""What is planned first, second and last: a search by words alone, searches, and all else."""
STAGES: tuple[Stage, ...] = ("words", "searches", "rest")
PLANNING_SECONDS = 600.0
"""The longest that one statement may take."""
RESTART_SECONDS = 5.0
"""No server restarts faster: one that has answered more recently still has its plans."""
CLOSING_SECONDS = 5.0
"""How long closing waits for the current statement."""


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


class _ServerPlans:
    """What a server has planned for this process, so that not each connection asks it again.

    After a lost connection, and after a pause in which it answered nobody, the server may be one that was just started.
    """

    def __init__(self) -> None:
        self.last_answer = 0.0
        self.planned = set[tuple[object, ...]]()
        """replaced when the server may have lost its plans"""

    def note_use(self) -> None:
        """The server is asked, or has answered, just now."""
        if time.monotonic() - self.last_answer > RESTART_SECONDS:
            self.planned = set()
        self.last_answer = time.monotonic()


_servers: defaultdict[str, _ServerPlans] = defaultdict(_ServerPlans)
"""By their addresses."""


class NotPlanned(Exception):
    """The server is still planning the search; whoever cannot wait has to do without."""

    def __str__(self) -> str:
        return "the server is still planning the search, as one does that has just started"


class StatementPlanner:
    """Has the server plan what a connection will ask, in a thread with an event loop of its own.

    A server that may have been restarted is asked again, which costs one that still has its plans some milliseconds.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock, self._is_paused = connection, threading.Lock(), False
        self._run: _PlanningRun | None = None
        self._plans_without_address = _ServerPlans()
        self.list_statements: ListStatements | None = None
        """If None, each statement is planned at its first use: enough for a command that runs once."""

    @property
    def _server(self) -> _ServerPlans:
        uri = self._connection.settings.uri
        return _servers[uri] if uri else self._plans_without_address

    def note_answer(self) -> None:
        """The server has answered just now; start planning, unless that goes on or is done."""
        self._server.note_use()
        self.start()

    def start(self) -> None:
        """Start planning, unless that goes on or is done."""
        if self.list_statements is None or self._is_paused or not self._connection.is_prepared:
            return
        if self._connection.is_loop_bound:  # the caller's driver is of no use in a thread
            return
        with self._lock:
            server, run = self._server, self._run
            if run is None or run.planned is not server.planned:
                self._run = _PlanningRun(self._connection, self.list_statements, server)
                if run is not None:
                    run.is_ended = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Start nothing for the length of the block."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def note_loss(self, error: BaseException | None) -> None:
        """A connection was lost, if the error says so: the server may have been restarted, and then has no plans."""
        if isinstance(error, driver_errors.ServiceUnavailable | driver_errors.SessionExpired):
            self.renew()
            self.start()

    def renew(self) -> None:
        """Have all planned again: the server was restarted, or an index is new, for which it drops its plans."""
        self._server.planned = set()

    async def wait_until_planned(self) -> None:
        """Plan now, and wait until that is done or has failed; then the server plans at a statement's first use."""
        self.start()
        if (run := self._run) is not None:
            await asyncio.wrap_future(run.stages["rest"])

    async def wait_for_stage(self, stage: Stage, seconds: float) -> bool:
        """Wait at most so many seconds until a stage is over, planned or failed; return whether it is."""
        if not self._is_planning("rest"):
            self._server.note_use()
        self.start()
        if self._is_planning(stage) and (run := self._run):
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(run.stages[stage]), seconds)
        return not self._is_planning(stage)

    @property
    def is_planning_searches(self) -> bool:
        """Whether a search would wait for the server to plan it."""
        return self._is_planning("searches")

    def _is_planning(self, stage: Stage) -> bool:
        run = self._run
        return run is not None and not run.stages[stage].done() and run.thread.is_alive()  # a fork has no thread

    async def close(self) -> None:
        """End what goes on; the next use of the connection starts it again."""
        with self._lock:
            run, self._run = self._run, None
        if run is not None:
            await asyncio.to_thread(run.close)


class _PlanningRun:
    """One pass over the statements; whether it succeeds or fails, the futures of its stages are done at its end."""

    def __init__(self, connection: Connection, list_statements: ListStatements, server: _ServerPlans) -> None:
        self._connection, self._list_statements = connection, list_statements
        self._server, self.planned = server, server.planned
        self._owner = make_scope_parameters(Scope(f":nobody:{uuid.uuid4()}", ""))
        self._loop, self.is_ended = asyncio.new_event_loop(), False
        self._task: asyncio.Task[None] | None = None
        self.stages: dict[Stage, Future[None]] = {stage: Future() for stage in STAGES}
        for future in self.stages.values():
            future.set_running_or_notify_cancel()  # whoever waits cannot cancel it for others
        self.thread = threading.Thread(target=self._run, name="graph-planning", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End after the current statement, or in the middle of one that takes too long."""
        self.is_ended = True
        self.thread.join(CLOSING_SECONDS)  # in the middle, the driver would leave a socket open
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._cancel_task)
        self.thread.join()

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
                runner.run(self._plan_stages())
        finally:
            for future in self.stages.values():
                if not future.done():
                    future.set_result(None)

    async def _plan_stages(self) -> None:
        self._task = asyncio.current_task()
        try:
            driver = await self._connection.get_driver()
            statements = list(self._list_statements(await self._read_meta(driver)))
            for stage, future in self.stages.items():
                for statement in [statement for statement in statements if statement.stage == stage]:
                    if self.is_ended:
                        return
                    await self._plan_once(driver, statement)
                future.set_result(None)
        except (driver_errors.DriverError, driver_errors.Neo4jError, OSError, errors.GraphMemoryError) as error:
            logger.debug("The server plans statements at their first use: %r", error)

    async def _read_meta(self, driver: neo4j.AsyncDriver) -> Mapping[str, Any]:
        options = self._connection.session_options | {"default_access_mode": neo4j.READ_ACCESS}
        async with driver.session(**options) as session:
            query = self._connection.statements.bind_parameters("schema_state", {})
            row = await (await session.run(*query)).single()
        return row["m"] if row else {}

    async def _plan_once(self, driver: neo4j.AsyncDriver, statement: PlannedStatement) -> None:
        connection, settings = self._connection, self._connection.settings
        plan = settings.database, settings.label_prefix, connection.server_line, statement
        if plan in self.planned:
            return
        try:
            await self._run_once(driver, statement)
        except driver_errors.Neo4jError as error:
            if error.is_retryable():
                raise
            logger.debug("%s does not run on this server: %r", statement.name, error)
        connection.health.note_answer(driver)
        self._server.last_answer = time.monotonic()
        self.planned.add(plan)

    async def _run_once(self, driver: neo4j.AsyncDriver, statement: PlannedStatement) -> None:
        bind = self._connection.statements.bind_placeholders
        text, parameters = bind(statement.name, {**self._owner, **statement.parameters})
        access = neo4j.READ_ACCESS if statement.occasion == "read" else neo4j.WRITE_ACCESS
        async with driver.session(**self._connection.session_options | {"default_access_mode": access}) as session:
            if statement.occasion == "read":
                await (await session.run(neo4j.Query(text, timeout=PLANNING_SECONDS), parameters)).consume()
                return
            async with await session.begin_transaction(timeout=PLANNING_SECONDS) as transaction:
                if statement.occasion == "later":
                    await (await transaction.run(*bind("know_user", self._owner))).consume()
                await (await transaction.run(text, parameters)).consume()
                await transaction.rollback()  # the end of the block would commit
