"""What was said is queued in the graph and read from there: a user's one after the other, a few users side by side."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from adk_graph_memory import errors, graph, telemetry
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.turn_buffer import MemoryUser, PendingTurns, SessionKey, TurnBuffer

logger = logging.getLogger(__name__)

MAX_WRITERS = 8
"""Sessions that are queued side by side."""
RETRY_PAUSE, MAX_RETRY_PAUSE = 0.5, 30.0
"""Seconds until a database that was away is tried again; doubled each time."""
RELEASE_TIMEOUT = 0.5
"""Seconds that what is called off has to let go of its claims; they end with their lease in any case."""
MAX_TRIES = 10
"""Readings of one request after which only ``ingest --pending`` tries it again: some words no model can read."""


class IngestWorker:
    """All of it runs in one event loop, and is done with when that ends.

    Args:
        outbox: where what was said waits to be queued.
        every: turns of a user after which they are read.
        idle: seconds after the last of them, after which they are read however few they are.
        at_once: users side by side.
        drain: seconds that :meth:`drain_queue` goes on reading.
    """

    def __init__(self, outbox: TurnBuffer, *, every: int, idle: float, at_once: int, drain: float) -> None:
        self._turn_buffer, self._batch_size, self._idle_seconds, self._drain_seconds = outbox, every, idle, drain
        self._writer_slots, self._ingest_slots, self._locks = (
            asyncio.Semaphore(MAX_WRITERS),
            asyncio.Semaphore(at_once),
            graph.KeyedLocks(),
        )
        self._start_time = time.time()
        self._memory_services: set[Neo4jMemoryService] = set()
        self._sweep_tasks: dict[tuple[Neo4jMemoryService, str], asyncio.Task[None]] = {}
        self._enqueue_tasks: dict[SessionKey, asyncio.Task[None] | None] = {}
        self._queued_counts: Counter[MemoryUser] = Counter()
        self._queued_links: defaultdict[MemoryUser, list[telemetry.Link]] = defaultdict(list)
        self._timers: dict[MemoryUser, asyncio.TimerHandle] = {}
        self._ingest_tasks: dict[MemoryUser, asyncio.Task[None]] = {}

    async def enqueue_session(self, key: SessionKey) -> None:
        """Queues what waits of a session, and sees to it that it is read; and what others left of its app."""
        if key in self._enqueue_tasks:
            return  # whoever is at it looks for more when done
        self._enqueue_tasks[key] = asyncio.current_task()
        self._memory_services.add(key.user.memory_service)
        try:
            pause = RETRY_PAUSE
            while not await self._deliver_turns(key):
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_PAUSE)
        finally:
            del self._enqueue_tasks[key]

    async def _deliver_turns(self, key: SessionKey) -> bool:
        async with self._writer_slots, self._locks.hold_lock(key.user):  # in the order in which it was said
            while letter := self._turn_buffer.take_turns(key):
                try:
                    with telemetry.trace_background("queue_said", letter.links):
                        queued = await _write_turns(key, letter)
                except errors.DatabaseUnavailable as error:
                    self._turn_buffer.restore_turns(key, letter)
                    logger.warning("What was said in session %s waits to be queued: %s", key.session_id, error)
                    return False
                except asyncio.CancelledError:
                    self._turn_buffer.restore_turns(key, letter)
                    raise
                except Exception:  # its own fault, or a setting's: the session's next run brings all of it again
                    self._turn_buffer.reset_session(key)
                    logger.exception("What was said in session %s could not be queued for memory.", key.session_id)
                else:
                    self._schedule_ingest(key.user, queued, letter.links)
        return True

    def _schedule_ingest(self, owner: MemoryUser, queued: int, links: Sequence[telemetry.Link]) -> None:
        app = owner.memory_service, owner.app_name
        if app not in self._sweep_tasks:
            self._sweep_tasks[app] = asyncio.create_task(self._sweep_app(*app))
        if queued:
            self._queued_counts[owner] += queued
            self._queued_links[owner] += links
            self._stop_timer(owner)
            if self._queued_counts[owner] >= self._batch_size:
                self._start_ingest(owner)
            else:
                self._timers[owner] = asyncio.get_running_loop().call_later(
                    self._idle_seconds, self._start_ingest, owner
                )

    async def flush_user(self, app_name: str, user_id: str) -> None:
        """Does not wait for more of this user's turns."""
        for owner in [MemoryUser(memory, app_name, user_id) for memory in self._memory_services]:
            async with self._locks.hold_lock(owner):
                self._start_ingest(owner)

    async def drain_queue(self) -> None:
        """Reads all that is queued, for a while, and closes the connections of this loop."""
        try:
            async with asyncio.timeout(self._drain_seconds):
                while self._enqueue_tasks or self._queued_counts or self._ingest_tasks:
                    for owner in list(self._queued_counts):
                        self._start_ingest(owner)
                    busy = filter(None, (*self._enqueue_tasks.values(), *self._ingest_tasks.values()))
                    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            logger.info("What could not be read in time stays queued.")
        late = [*filter(None, self._enqueue_tasks.values()), *self._ingest_tasks.values(), *self._sweep_tasks.values()]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=RELEASE_TIMEOUT)
        if lost := self._turn_buffer.list_pending_sessions():
            logger.error("The last words of %d sessions could not be queued; their next runs bring them.", len(lost))
        for memory in self._memory_services:
            await memory.memory.connection.close_loop_driver()

    def _start_ingest(self, owner: MemoryUser) -> None:
        """Starts to read, unless that is being done already: whoever does it looks for more when done."""
        self._stop_timer(owner)
        if self._queued_counts[owner] and owner not in self._ingest_tasks:
            self._ingest_tasks[owner] = asyncio.create_task(self._ingest_queued(owner))

    async def _ingest_queued(self, owner: MemoryUser) -> None:
        try:
            while self._queued_counts.pop(owner, 0):
                try:
                    async with self._ingest_slots:
                        with telemetry.trace_background("read_queued", self._queued_links.pop(owner, ())):
                            await owner.memory_service.memory.resume(
                                app_name=owner.app_name, user_id=owner.user_id, tries=MAX_TRIES
                            )
                except Exception:  # it stays queued, with the reason
                    logger.exception("What was said by %s stays queued, for it could not be read.", owner[1:])
        finally:
            del self._ingest_tasks[owner]

    async def _sweep_app(self, memory: Neo4jMemoryService, app_name: str) -> None:
        """Reads what earlier processes left, and from time to time what a dead one's lease has kept from us."""
        before, lease = self._start_time, memory.memory.connection.settings.lease
        while True:
            try:
                async with self._ingest_slots:
                    with telemetry.trace_background("sweep_queued"):
                        await memory.memory.resume(app_name=app_name, before=before, tries=MAX_TRIES)
                        await graph.ingest_queue.record_waiting_ingests(memory.memory.connection, app_name)
            except Exception:
                logger.exception(
                    "What an earlier process left of app %s stays queued, for it could not be read.", app_name
                )
            await asyncio.sleep(lease)
            before = time.time() - lease

    def _stop_timer(self, owner: MemoryUser) -> None:
        if timer := self._timers.pop(owner, None):
            timer.cancel()


async def _write_turns(key: SessionKey, letter: PendingTurns) -> int:
    """How many turns were new; those that were taken back are forgotten, whether they were read by now or not."""
    service, app_name, user_id = key.user
    memory = service.memory
    if letter.rewound_turns:
        ids = [turn.make_memory_id(key.session_id) for turn in letter.rewound_turns]
        await memory.forget(ids, app_name=app_name, user_id=user_id)
    return await memory.enqueue(letter.turns, app_name=app_name, user_id=user_id, session_id=key.session_id)
