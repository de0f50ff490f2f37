"""What was said is queued in the graph and read from there: a user's one after the other, a few users side by side."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.graph import Locks
from adk_graph_memory.records import Turn

logger = logging.getLogger(__name__)


class Owner(NamedTuple):
    """One user of one app."""

    app_name: str
    user_id: str


class Reader:
    """All of it runs in one event loop.

    Args:
        every: turns of a user after which they are read.
        idle: seconds after the last of them, after which they are read however few they are.
        at_once: users side by side.
    """

    def __init__(self, *, every: int, idle: float, at_once: int) -> None:
        self._every, self._idle = every, idle
        self._slots, self._locks = asyncio.Semaphore(at_once), Locks()
        self._memory: Neo4jMemoryService | None = None
        self._queuing: set[asyncio.Task[None] | None] = set()
        self._started = time.time()
        self._sweeps: dict[str, asyncio.Task[None]] = {}
        self._waiting: Counter[Owner] = Counter()
        self._timers: dict[Owner, asyncio.TimerHandle] = {}
        self._running: dict[Owner, asyncio.Task[None]] = {}

    async def queue(
        self,
        memory: Neo4jMemoryService,
        owner: Owner,
        session_id: str,
        turns: Sequence[Turn],
        undone: Sequence[Turn] = (),
    ) -> None:
        """Queues turns, and sees to it that they are read; and, from the first time on, what others left of the app.

        Those that were taken back are forgotten, whether they were read by now or not.

        Raises:
            errors.GraphMemoryError: they could not be stored.
        """
        task, self._memory, whose = asyncio.current_task(), memory, owner._asdict()
        self._queuing.add(task)
        try:
            async with self._locks.hold(owner):  # in the order in which they were said
                if undone:
                    await memory.memory.forget([turn.memory_id(session_id) for turn in undone], **whose)
                queued = await memory.memory.queue(turns, **whose, session_id=session_id)
        finally:
            self._queuing.discard(task)
        if owner.app_name not in self._sweeps:
            self._sweeps[owner.app_name] = asyncio.create_task(self._sweep(owner.app_name, memory))
        self._waiting[owner] += queued
        self._stop_timer(owner)
        if self._waiting[owner] >= self._every:
            self._read(owner)
        elif self._waiting[owner]:
            self._timers[owner] = asyncio.get_running_loop().call_later(self._idle, self._read, owner)

    async def read_now(self, owner: Owner) -> None:
        """Does not wait for more of this user's turns."""
        async with self._locks.hold(owner):
            self._read(owner)

    async def finish(self, seconds: float) -> None:
        """Reads all that is queued, for so long, and closes the connections of this loop."""
        try:
            async with asyncio.timeout(seconds):
                while unfinished := self._unfinished():
                    await asyncio.wait(unfinished)
        except TimeoutError:
            logger.info("What could not be read in time stays queued.")
        late = [*self._running.values(), *self._sweeps.values()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if self._memory is not None:
            await self._memory.close()

    def _unfinished(self) -> list[asyncio.Task[None]]:
        for owner in list(self._waiting):
            self._read(owner)
        return [task for task in (*self._queuing, *self._running.values()) if task is not None]

    def _read(self, owner: Owner) -> None:
        """Starts to read, unless that is being done already: whoever does it looks for more when done."""
        self._stop_timer(owner)
        if self._waiting[owner] and owner not in self._running:
            self._running[owner] = asyncio.create_task(self._resume(owner))

    async def _resume(self, owner: Owner) -> None:
        try:
            while self._waiting.pop(owner, 0) and self._memory is not None:
                async with self._slots:
                    await self._memory.memory.resume(**owner._asdict())
        except Exception:  # it stays queued, with the reason
            logger.exception("What was said by %s stays queued, for it could not be read.", owner)
        finally:
            del self._running[owner]

    async def _sweep(self, app_name: str, memory: Neo4jMemoryService) -> None:
        """Reads what earlier processes left, and from time to time what a dead one's lease has kept from us."""
        before, lease = self._started, memory.memory.connection.settings.lease
        while True:
            try:
                async with self._slots:
                    await memory.memory.resume(app_name=app_name, before=before)
            except Exception:
                logger.exception(
                    "What an earlier process left of app %s stays queued, for it could not be read.", app_name
                )
            await asyncio.sleep(lease)
            before = time.time() - lease

    def _stop_timer(self, owner: Owner) -> None:
        if timer := self._timers.pop(owner, None):
            timer.cancel()
