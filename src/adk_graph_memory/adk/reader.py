"""What was said is queued in the graph and read from there: a user's one after the other, a few users side by side."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from adk_graph_memory import errors, graph, telemetry
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.outbox import Key, Letter, Outbox, Owner

logger = logging.getLogger(__name__)

WRITERS = 8
"""Sessions that are queued side by side."""
PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a database that was away is tried again; doubled each time."""
RELEASE = 0.5
"""Seconds that what is called off has to let go of its claims; they end with their lease in any case."""
TRIES = 10
"""Readings of one request after which only ``ingest --pending`` tries it again: some words no model can read."""


class Reader:
    """All of it runs in one event loop, and is done with when that ends.

    Args:
        outbox: where what was said waits to be queued.
        every: turns of a user after which they are read.
        idle: seconds after the last of them, after which they are read however few they are.
        at_once: users side by side.
        drain: seconds that :meth:`finish` goes on reading.
    """

    def __init__(self, outbox: Outbox, *, every: int, idle: float, at_once: int, drain: float) -> None:
        self._outbox, self._every, self._idle, self._drain = outbox, every, idle, drain
        self._writers, self._slots, self._locks = asyncio.Semaphore(WRITERS), asyncio.Semaphore(at_once), graph.Locks()
        self._started = time.time()
        self._memories: set[Neo4jMemoryService] = set()
        self._sweeps: dict[tuple[Neo4jMemoryService, str], asyncio.Task[None]] = {}
        self._queuing: dict[Key, asyncio.Task[None] | None] = {}
        self._waiting: Counter[Owner] = Counter()
        self._asked: defaultdict[Owner, list[telemetry.Link]] = defaultdict(list)
        self._timers: dict[Owner, asyncio.TimerHandle] = {}
        self._running: dict[Owner, asyncio.Task[None]] = {}

    async def queue(self, key: Key) -> None:
        """Queues what waits of a session, and sees to it that it is read; and what others left of its app."""
        if key in self._queuing:
            return  # whoever is at it looks for more when done
        self._queuing[key] = asyncio.current_task()
        self._memories.add(key.owner.memory)
        try:
            pause = PAUSE
            while not await self._is_delivered(key):
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            del self._queuing[key]

    async def _is_delivered(self, key: Key) -> bool:
        async with self._writers, self._locks.hold(key.owner):  # in the order in which it was said
            while letter := self._outbox.take(key):
                try:
                    with telemetry.apart("queue_said", letter.links):
                        queued = await _write(key, letter)
                except errors.DatabaseUnavailable as error:
                    self._outbox.put_back(key, letter)
                    logger.warning("What was said in session %s waits to be queued: %s", key.id, error)
                    return False
                except asyncio.CancelledError:
                    self._outbox.put_back(key, letter)
                    raise
                except Exception:  # its own fault, or a setting's: the session's next run brings all of it again
                    self._outbox.skip(key)
                    logger.exception("What was said in session %s could not be queued for memory.", key.id)
                else:
                    self._see_to(key.owner, queued, letter.links)
        return True

    def _see_to(self, owner: Owner, queued: int, links: Sequence[telemetry.Link]) -> None:
        app = owner.memory, owner.app_name
        if app not in self._sweeps:
            self._sweeps[app] = asyncio.create_task(self._sweep(*app))
        if queued:
            self._waiting[owner] += queued
            self._asked[owner] += links
            self._stop_timer(owner)
            if self._waiting[owner] >= self._every:
                self._read(owner)
            else:
                self._timers[owner] = asyncio.get_running_loop().call_later(self._idle, self._read, owner)

    async def read_now(self, app_name: str, user_id: str) -> None:
        """Does not wait for more of this user's turns."""
        for owner in [Owner(memory, app_name, user_id) for memory in self._memories]:
            async with self._locks.hold(owner):
                self._read(owner)

    async def finish(self) -> None:
        """Reads all that is queued, for a while, and closes the connections of this loop."""
        try:
            async with asyncio.timeout(self._drain):
                while self._queuing or self._waiting or self._running:
                    for owner in list(self._waiting):
                        self._read(owner)
                    busy = filter(None, (*self._queuing.values(), *self._running.values()))
                    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            logger.info("What could not be read in time stays queued.")
        late = [*filter(None, self._queuing.values()), *self._running.values(), *self._sweeps.values()]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=RELEASE)
        if lost := self._outbox.waiting():
            logger.error("The last words of %d sessions could not be queued; their next runs bring them.", len(lost))
        for memory in self._memories:
            await memory.memory.connection.leave()

    def _read(self, owner: Owner) -> None:
        """Starts to read, unless that is being done already: whoever does it looks for more when done."""
        self._stop_timer(owner)
        if self._waiting[owner] and owner not in self._running:
            self._running[owner] = asyncio.create_task(self._resume(owner))

    async def _resume(self, owner: Owner) -> None:
        try:
            while self._waiting.pop(owner, 0):
                try:
                    async with self._slots:
                        with telemetry.apart("read_queued", self._asked.pop(owner, ())):
                            await owner.memory.memory.resume(
                                app_name=owner.app_name, user_id=owner.user_id, tries=TRIES
                            )
                except Exception:  # it stays queued, with the reason
                    logger.exception("What was said by %s stays queued, for it could not be read.", owner[1:])
        finally:
            del self._running[owner]

    async def _sweep(self, memory: Neo4jMemoryService, app_name: str) -> None:
        """Reads what earlier processes left, and from time to time what a dead one's lease has kept from us."""
        before, lease = self._started, memory.memory.connection.settings.lease
        while True:
            try:
                async with self._slots:
                    with telemetry.apart("sweep_queued"):
                        await memory.memory.resume(app_name=app_name, before=before, tries=TRIES)
                        await graph.ingests.count_waiting(memory.memory.connection, app_name)
            except Exception:
                logger.exception(
                    "What an earlier process left of app %s stays queued, for it could not be read.", app_name
                )
            await asyncio.sleep(lease)
            before = time.time() - lease

    def _stop_timer(self, owner: Owner) -> None:
        if timer := self._timers.pop(owner, None):
            timer.cancel()


async def _write(key: Key, letter: Letter) -> int:
    """How many turns were new; those that were taken back are forgotten, whether they were read by now or not."""
    service, app_name, user_id = key.owner
    memory = service.memory
    if letter.undone:
        ids = [turn.memory_id(key.id) for turn in letter.undone]
        await memory.forget(ids, app_name=app_name, user_id=user_id)
    return await memory.queue(letter.turns, app_name=app_name, user_id=user_id, session_id=key.id)
