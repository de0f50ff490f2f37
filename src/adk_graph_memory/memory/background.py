"""Buffer what is said, queue it in the graph, and ingest it in the background, for any framework.

A framework may start a new loop for each call, and no reply must wait for memory.

The queue lies in the graph (its Ingest nodes), so it outlives the process. All work runs in a thread of its own: no
reply waits for memory or fails because of it.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from adk_graph_memory import errors
from adk_graph_memory.graph import ingest_queue
from adk_graph_memory.memory.engine import Engine, UserContext
from adk_graph_memory.memory.forgetting import forget_memories
from adk_graph_memory.memory.ingestion import STAYS_PENDING, enqueue_turns, resume_ingests
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Turn
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.concurrency import KeyedLocks

logger = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a thread, until :meth:`stop_loop`.

    Args:
        name: the thread's name.
        final_work: runs before the thread ends, at the latest when the process exits.
    """

    def __init__(self, name: str, final_work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._final_work, self._loop = final_work, asyncio.new_event_loop()
        self._stopping: Future[None] | None = None
        self._thread = threading.Thread(target=_run_loop, args=[self._loop], name=name, daemon=True)
        self._thread.start()
        _loops.add(self)

    @property
    def is_running(self) -> bool:
        """Whether the loop still accepts work; always False in a fork, which does not inherit the thread."""
        return self._stopping is None and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work in an empty context, so that it does not inherit the current request's span and variables."""
        return Context().run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def stop_loop(self) -> Future[None]:
        """Run the final work and end the thread; work that still runs is cancelled and may clean up.

        The process does not exit until then, even if nobody waits.
        """
        if self._stopping is None:
            self._stopping = self.submit(self._final_work())
            self._stopping.add_done_callback(self._end_thread)
        return self._stopping

    def _end_thread(self, _: Future[None]) -> None:
        _loops.discard(self)
        self._loop.call_soon_threadsafe(self._loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


_loops: set[BackgroundLoop] = set()
"""Loops whose thread may still run; in a fork also the parent's, whose threads are gone."""


def _stop_loops() -> None:
    futures = [loop.stop_loop() for loop in list(_loops) if loop._thread.is_alive()]  # not in a fork
    for error in filter(None, (future.exception() for future in futures)):
        logger.error("The last work of a background thread failed.", exc_info=error)


# asyncio resolves host names in a thread pool, which is shut down before atexit runs: run before that.
getattr(threading, "_register_atexit", atexit.register)(_stop_loops)
MAX_TRACKED_SESSIONS = 10_000
"""Sessions whose last buffered event is remembered; other sessions are harmlessly buffered again as a whole."""
MAX_BUFFERED_SESSIONS = 1_000
"""Sessions that may wait for an unavailable database; beyond it the oldest is dropped until its next run."""


SplitTurns = Callable[[int], tuple[list[Turn], list[Turn]]]
"""Returns the turns of a session from its n-th event on, and all turns that these events undo."""


class SessionKey(NamedTuple):
    """A session of a user."""

    user: UserContext
    session_id: str


@dataclass(slots=True)
class PendingTurns:
    """A session's turns since they were last taken, those that a rewind has undone, and links to the runs' spans."""

    turns: list[Turn] = field(default_factory=list)
    rewound_turns: list[Turn] = field(default_factory=list)
    links: list[telemetry.Link] = field(default_factory=list)

    def append_turns(
        self, turns: Sequence[Turn], rewound_turns: Sequence[Turn], links: Sequence[telemetry.Link]
    ) -> None:
        """Append later turns, rewound turns and links."""
        self.turns += turns
        self.rewound_turns += rewound_turns
        self.links += links


class TurnBuffer:
    """Pending turns by session; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending_turns: OrderedDict[SessionKey, PendingTurns] = OrderedDict()
        self._last_event_ids: OrderedDict[SessionKey, str] = OrderedDict()

    def add_session(self, key: SessionKey, event_ids: Sequence[str], split_turns: SplitTurns) -> bool:
        """Buffer the new turns of a session: those behind the event that was its last one before.

        Args:
            key: the session.
            event_ids: the ids of all its events that the caller can see, in order.
            split_turns: makes their turns.

        Returns:
            Whether anything is new.
        """
        with self._lock:
            last_id = self._last_event_ids.get(key)
            start = event_ids.index(last_id) + 1 if last_id is not None and last_id in event_ids else 0
            turns, rewound_turns = split_turns(start)
            if event_ids:
                self._last_event_ids[key] = event_ids[-1]
                self._last_event_ids.move_to_end(key)
            if len(self._last_event_ids) > MAX_TRACKED_SESSIONS:
                self._last_event_ids.popitem(last=False)
            if not turns and not rewound_turns:
                return False
            self._pending_turns.setdefault(key, PendingTurns()).append_turns(
                turns, rewound_turns, telemetry.link_current_span()
            )
            self._drop_oldest()
        return True

    def take_turns(self, key: SessionKey) -> PendingTurns | None:
        """Remove and return a session's pending turns; None if there are none."""
        with self._lock:
            return self._pending_turns.pop(key, None)

    def restore_turns(self, key: SessionKey, pending: PendingTurns) -> bool:
        """Put back turns that could not be queued, before those that came meanwhile; return whether any came."""
        with self._lock:
            if later := self._pending_turns.pop(key, None):
                pending.append_turns(later.turns, later.rewound_turns, later.links)
            self._pending_turns[key] = pending
            self._pending_turns.move_to_end(key, last=False)
            self._drop_oldest()
        return later is not None

    def list_pending_sessions(self) -> list[SessionKey]:
        """List the sessions with pending turns."""
        with self._lock:
            return list(self._pending_turns)

    def _drop_oldest(self) -> None:
        while len(self._pending_turns) > MAX_BUFFERED_SESSIONS:
            key, _ = self._pending_turns.popitem(last=False)
            self._last_event_ids.pop(key, None)
            logger.error(
                "The buffer is full while the database is away; session %s is queued at its next run.",
                key.session_id,
            )


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
        self._locks = KeyedLocks()
        self._start_time, self._is_closing = time.time(), False
        self._engines: set[Engine] = set()
        self._sweep_tasks: dict[tuple[Engine, str], asyncio.Task[None]] = {}
        self._enqueue_tasks: dict[SessionKey, asyncio.Task[None] | None] = {}
        self._queued_counts: Counter[UserContext] = Counter()
        self._queued_links: defaultdict[UserContext, list[telemetry.Link]] = defaultdict(list)
        self._timers: dict[UserContext, asyncio.TimerHandle] = {}
        self._ingest_tasks: dict[UserContext, asyncio.Task[None]] = {}

    async def enqueue_session(self, key: SessionKey) -> None:
        """Queue a session's buffered turns and schedule their ingest; also ingest what earlier processes left."""
        if key in self._enqueue_tasks:
            return  # the running task looks for more before it ends
        self._enqueue_tasks[key] = asyncio.current_task()
        self._engines.add(key.user.engine)
        try:
            pause = RETRY_PAUSE
            while not await self._deliver_turns(key) and not self._is_closing:
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_PAUSE)
        finally:
            del self._enqueue_tasks[key]

    async def _deliver_turns(self, key: SessionKey) -> bool:
        problems = key.user.engine.problems
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

    def _schedule_ingest(self, user: UserContext, queued_count: int, links: Sequence[telemetry.Link]) -> None:
        app = user.engine, user.scope.app_name
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
        users = {*self._queued_counts, *(key.user for key in self._enqueue_tasks)}
        for user in [user for user in users if user.scope == Scope(app_name, user_id)]:
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
        for engine in self._engines:
            await engine.connection.close_loop_driver()

    async def _finish_queueing(self) -> None:
        """Wait for turns on their way into the graph, but not for a database that is known to be away."""
        self._is_closing = True
        engines = {task: key.user.engine for key, task in self._enqueue_tasks.items() if task}
        if tasks := [task for task, engine in engines.items() if not engine.problems.has_problem(WAITS_FOR_GRAPH)]:
            seconds = max(engines[task].connection.settings.limits.database_timeout for task in tasks)
            await asyncio.wait(tasks, timeout=seconds)

    def _start_ingest(self, user: UserContext) -> None:
        """Start an ingest unless one runs, which looks for more before it ends."""
        self._stop_timer(user)
        if self._queued_counts[user] and user not in self._ingest_tasks:
            self._ingest_tasks[user] = asyncio.create_task(self._ingest_queued(user))

    async def _ingest_queued(self, user: UserContext) -> None:
        engine, scope = user.engine, user.scope
        try:
            while self._queued_counts.pop(user, 0):
                try:
                    async with self._ingest_slots:
                        with telemetry.trace_background("read_queued", self._queued_links.pop(user, ())):
                            await resume_ingests(
                                engine, app_name=scope.app_name, user_id=scope.user_id, max_attempts=MAX_ATTEMPTS
                            )
                    engine.problems.clear_problem(STAYS_PENDING)
                except Exception as error:  # noqa: BLE001  it stays queued, and the graph keeps the reason
                    engine.problems.report_problem(STAYS_PENDING, error, logging.ERROR)
        finally:
            del self._ingest_tasks[user]

    async def _sweep_app(self, engine: Engine, app_name: str) -> None:
        """Ingest what earlier processes left; repeat after each lease, since a dead process may have held claims."""
        before, lease = self._start_time, engine.connection.settings.limits.lease
        while True:
            try:
                async with self._ingest_slots:
                    with telemetry.trace_background("sweep_queued"):
                        await resume_ingests(engine, app_name=app_name, before=before, max_attempts=MAX_ATTEMPTS)
                        await ingest_queue.record_waiting_ingests(engine.connection, app_name)
            except Exception as error:  # noqa: BLE001  it stays queued, and the next sweep tries again
                engine.problems.report_problem(STAYS_PENDING, error, logging.ERROR)
            await asyncio.sleep(lease)
            before = time.time() - lease

    def _stop_timer(self, user: UserContext) -> None:
        if timer := self._timers.pop(user, None):
            timer.cancel()


async def _write_turns(key: SessionKey, pending: PendingTurns) -> int:
    """Forget the rewound turns, ingested or not, enqueue the others and return how many of these were new."""
    if pending.rewound_turns:
        await forget_memories(key.user, [turn.make_memory_id(key.session_id) for turn in pending.rewound_turns])
    return await enqueue_turns(key.user, pending.turns, session_id=key.session_id)


class MemoryQueue:
    """The way of turns into memory; each plugin or provider has its own.

    Args:
        name: names the thread.
        every: queued turns of a user that start an ingest.
        idle: seconds after a user's last turn that start an ingest, however few turns there are.
        at_once: users ingested in parallel; each user's turns are ingested in order.
        drain: seconds for which closing goes on ingesting; the rest stays queued.
    """

    def __init__(self, name: str, *, every: int, idle: float, at_once: int, drain: float) -> None:
        self._name = name
        self._make_worker = partial(IngestWorker, every=every, idle=idle, at_once=at_once, drain=drain)
        self._turn_buffer, self._lock = TurnBuffer(), threading.Lock()
        self._background_worker: tuple[BackgroundLoop, IngestWorker] | None = None

    def add_session(self, key: SessionKey, event_ids: Sequence[str], split_turns: SplitTurns) -> None:
        """Take over a session's new turns, as :meth:`TurnBuffer.add_session`; returns before they are queued."""
        is_new = self._turn_buffer.add_session(key, event_ids, split_turns)
        with self._lock:
            background, worker = self._ensure_worker()
            if is_new:
                background.submit(worker.enqueue_session(key))

    def _ensure_worker(self) -> tuple[BackgroundLoop, IngestWorker]:
        """Return the running worker; start a new one after :meth:`close`, or in a fork of the process."""
        if self._background_worker is None or not self._background_worker[0].is_running:
            worker = self._make_worker(self._turn_buffer)
            self._background_worker = BackgroundLoop(f"{self._name} of {id(self):x}", worker.drain_queue), worker
            for key in self._turn_buffer.list_pending_sessions():
                self._background_worker[0].submit(worker.enqueue_session(key))
        return self._background_worker

    def start_ingest(self, app_name: str, user_id: str) -> None:
        """Ingest this user's queued turns now instead of waiting for more; returns at once."""
        with self._lock:
            if self._background_worker is not None and self._background_worker[0].is_running:
                background, worker = self._background_worker
                background.submit(worker.flush_user(app_name, user_id))

    async def flush(self) -> None:
        """Wait until all turns so far are ingested, or pending in the graph with the reason why they cannot be.

        While the database is away, this waits for it.
        """
        with self._lock:
            background, worker = self._ensure_worker()
            future = background.submit(worker.finish_queue())
        await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Ingest the queue until the drain time is over; the rest stays in the graph for ``ingest --pending``.

        A caller that stops waiting, as ADK does after five seconds, does not stop it; the process exits once it has
        finished.
        """
        with self._lock:
            background_worker, self._background_worker = self._background_worker, None  # a later run starts a new one
        if background_worker is not None and background_worker[0].is_running:
            await asyncio.shield(asyncio.wrap_future(background_worker[0].stop_loop()))
