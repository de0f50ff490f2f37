"""Queue buffered turns in the graph and ingest them: one user's in order, a few users in parallel."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from adk_graph_memory import errors, graph, telemetry
from adk_graph_memory.background.turn_buffer import MemoryUser, PendingTurns, SessionKey, TurnBuffer
from adk_graph_memory.ingest import STAYS_PENDING
from adk_graph_memory.memory import GraphMemory

logger = logging.getLogger(__name__)

MAX_WRITERS = 8
"""Sessions that are queued in parallel."""
RETRY_PAUSE, MAX_RETRY_PAUSE = 0.5, 30.0
"""Seconds until an unavailable database is tried again: the first pause, doubled each time, and the longest."""
RELEASE_TIMEOUT = 0.5
"""Seconds that cancelled tasks get to release their claims; otherwise the claims end with their lease."""
WAITS_FOR_GRAPH = "What was said waits in this process to be queued"
NOT_QUEUED = "What was said cannot be queued for memory; it waits in this process for the session's next run"
"""How the log names what prevents queuing."""
MAX_ATTEMPTS = 10
"""Attempts at one request, after which only ``ingest --pending`` retries it: some text fails with every model."""


class IngestWorker:
    """Queues and ingests turns in one event loop, and ends with it.

    Args:
        turn_buffer: holds the turns that are not queued yet.
        every: queued turns of a user that start an ingest.
        idle: seconds after a user's last turn that start an ingest, however few turns there are.
        at_once: users ingested in parallel.
        drain: seconds for which :meth:`drain_queue` continues.
    """

    def __init__(self, turn_buffer: TurnBuffer, *, every: int, idle: float, at_once: int, drain: float) -> None:
        self._turn_buffer, self._batch_size, self._idle_seconds, self._drain_seconds = turn_buffer, every, idle, drain
        self._writer_slots, self._ingest_slots = asyncio.Semaphore(MAX_WRITERS), asyncio.Semaphore(at_once)
        self._locks = graph.KeyedLocks()
        self._start_time, self._is_closing = time.time(), False
        self._memories: set[GraphMemory] = set()
        self._sweep_tasks: dict[tuple[GraphMemory, str], asyncio.Task[None]] = {}
        self._enqueue_tasks: dict[SessionKey, asyncio.Task[None] | None] = {}
        self._queued_counts: Counter[MemoryUser] = Counter()
        self._queued_links: defaultdict[MemoryUser, list[telemetry.Link]] = defaultdict(list)
        self._timers: dict[MemoryUser, asyncio.TimerHandle] = {}
        self._ingest_tasks: dict[MemoryUser, asyncio.Task[None]] = {}

    async def enqueue_session(self, key: SessionKey) -> None:
        """Queue a session's buffered turns and schedule their ingest; also ingest what earlier processes left."""
        if key in self._enqueue_tasks:
            return  # the running task looks for more before it ends
        self._enqueue_tasks[key] = asyncio.current_task()
        self._memories.add(key.user.memory)
        try:
            pause = RETRY_PAUSE
            while not await self._deliver_turns(key) and not self._is_closing:
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_PAUSE)
        finally:
            del self._enqueue_tasks[key]

    async def _deliver_turns(self, key: SessionKey) -> bool:
        problems = key.user.memory.problems
        async with self._writer_slots, self._locks.hold_lock(key.user):  # keeps a user's turns in order
            while pending := self._turn_buffer.take_turns(key):
                try:
                    with telemetry.trace_background("queue_said", pending.links):
                        queued_count = await _write_turns(key, pending)
                except errors.DatabaseUnavailable as error:
                    self._turn_buffer.restore_turns(key, pending)
                    problems.report_problem(WAITS_FOR_GRAPH, error)
                    return False
                except asyncio.CancelledError:
                    self._turn_buffer.restore_turns(key, pending)
                    raise
                except Exception as error:  # noqa: BLE001  bad data or a wrong setting; the next run tries again
                    problems.report_problem(NOT_QUEUED, error, logging.ERROR)
                    if not self._turn_buffer.restore_turns(key, pending):
                        return True
                else:
                    problems.clear_problem(WAITS_FOR_GRAPH)
                    problems.clear_problem(NOT_QUEUED)
                    self._schedule_ingest(key.user, queued_count, pending.links)
        return True

    def _schedule_ingest(self, user: MemoryUser, queued_count: int, links: Sequence[telemetry.Link]) -> None:
        app = user.memory, user.app_name
        if app not in self._sweep_tasks:
            self._sweep_tasks[app] = asyncio.create_task(self._sweep_app(*app))
        if queued_count:
            self._queued_counts[user] += queued_count
            self._queued_links[user] += links
            self._stop_timer(user)
            if self._queued_counts[user] >= self._batch_size:
                self._start_ingest(user)
            else:
                self._timers[user] = asyncio.get_running_loop().call_later(self._idle_seconds, self._start_ingest, user)

    async def flush_user(self, app_name: str, user_id: str) -> None:
        """Ingest this user's queued turns now instead of waiting for more."""
        for user in [MemoryUser(memory, app_name, user_id) for memory in self._memories]:
            async with self._locks.hold_lock(user):
                self._start_ingest(user)

    async def finish_queue(self) -> None:
        """Queue and ingest until no turns are left; a request that fails stays in the graph with the reason."""
        while self._enqueue_tasks or self._queued_counts or self._ingest_tasks:
            for user in list(self._queued_counts):
                self._start_ingest(user)
            active = filter(None, (*self._enqueue_tasks.values(), *self._ingest_tasks.values()))
            await asyncio.wait(active, return_when=asyncio.FIRST_COMPLETED)

    async def drain_queue(self) -> None:
        """Ingest what is queued until the drain time is over, then close this loop's connections.

        Turns that are on their way into the graph then have one ``database_timeout`` more: the server may have started
        a moment ago and have no schema yet.
        """
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self.finish_queue()
        except TimeoutError:
            logger.info("Requests that were not ingested in time stay queued.")
            await self._finish_queueing()
        tasks = [*filter(None, self._enqueue_tasks.values()), *self._ingest_tasks.values(), *self._sweep_tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=RELEASE_TIMEOUT)
        if keys := self._turn_buffer.list_pending_sessions():
            logger.error(
                "The last turns of %d sessions could not be queued; their next runs will queue them.", len(keys)
            )
        for memory in self._memories:
            await memory.connection.close_loop_driver()

    async def _finish_queueing(self) -> None:
        """Wait for turns on their way into the graph, but not for a database that is known to be away."""
        self._is_closing = True
        memories = {task: key.user.memory for key, task in self._enqueue_tasks.items() if task}
        if tasks := [task for task, memory in memories.items() if not memory.problems.has_problem(WAITS_FOR_GRAPH)]:
            seconds = max(memories[task].connection.settings.limits.database_timeout for task in tasks)
            await asyncio.wait(tasks, timeout=seconds)

    def _start_ingest(self, user: MemoryUser) -> None:
        """Start an ingest unless one runs, which looks for more before it ends."""
        self._stop_timer(user)
        if self._queued_counts[user] and user not in self._ingest_tasks:
            self._ingest_tasks[user] = asyncio.create_task(self._ingest_queued(user))

    async def _ingest_queued(self, user: MemoryUser) -> None:
        memory = user.memory
        try:
            while self._queued_counts.pop(user, 0):
                try:
                    async with self._ingest_slots:
                        with telemetry.trace_background("read_queued", self._queued_links.pop(user, ())):
                            await memory.resume(app_name=user.app_name, user_id=user.user_id, max_attempts=MAX_ATTEMPTS)
                    memory.problems.clear_problem(STAYS_PENDING)
                except Exception as error:  # noqa: BLE001  it stays queued, and the graph keeps the reason
                    memory.problems.report_problem(STAYS_PENDING, error, logging.ERROR)
        finally:
            del self._ingest_tasks[user]

    async def _sweep_app(self, memory: GraphMemory, app_name: str) -> None:
        """Ingest what earlier processes left; repeat after each lease, since a dead process may have held claims."""
        before, lease = self._start_time, memory.connection.settings.limits.lease
        while True:
            try:
                async with self._ingest_slots:
                    with telemetry.trace_background("sweep_queued"):
                        await memory.resume(app_name=app_name, before=before, max_attempts=MAX_ATTEMPTS)
                        await graph.ingest_queue.record_waiting_ingests(memory.connection, app_name)
            except Exception as error:  # noqa: BLE001  it stays queued, and the next sweep tries again
                memory.problems.report_problem(STAYS_PENDING, error, logging.ERROR)
            await asyncio.sleep(lease)
            before = time.time() - lease

    def _stop_timer(self, user: MemoryUser) -> None:
        if timer := self._timers.pop(user, None):
            timer.cancel()


async def _write_turns(key: SessionKey, pending: PendingTurns) -> int:
    """Forget the rewound turns, ingested or not, enqueue the others and return how many of these were new."""
    memory, app_name, user_id = key.user
    if pending.rewound_turns:
        ids = [turn.make_memory_id(key.session_id) for turn in pending.rewound_turns]
        await memory.forget(ids, app_name=app_name, user_id=user_id)
    return await memory.enqueue(pending.turns, app_name=app_name, user_id=user_id, session_id=key.session_id)
