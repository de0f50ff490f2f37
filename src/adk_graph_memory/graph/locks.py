"""A key goes in; while the lock for it is held, nobody else in this process holds it, in whatever event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary, WeakValueDictionary

_POLL_SECONDS = 0.001
"""Seconds between two looks at a lock that another event loop holds."""


class KeyedLocks:
    """Locks by key, gone once nobody holds or awaits them.

    Within a loop an ``asyncio.Lock`` keeps the queue; it belongs to one loop, so between loops a thread's lock decides.
    """

    def __init__(self) -> None:
        self._loop_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Hashable, asyncio.Lock]] = (
            WeakKeyDictionary()
        )
        self._guard = threading.Lock()
        self._thread_locks: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold_lock(self, key: Hashable) -> AsyncIterator[None]:
        """Waits until the key is free, and keeps it for the time of the block."""
        queues = self._loop_locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        queue = queues.setdefault(key, asyncio.Lock())
        async with queue:
            with self._guard:
                gate = self._thread_locks.setdefault(key, threading.Lock())
            while not gate.acquire(blocking=False):  # noqa: ASYNC110  # an asyncio.Event wakes one loop only
                await asyncio.sleep(_POLL_SECONDS)
            try:
                yield
            finally:
                gate.release()
