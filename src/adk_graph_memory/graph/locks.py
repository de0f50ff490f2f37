"""Lock by key across all event loops and threads of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary, WeakValueDictionary

_POLL_SECONDS = 0.001
"""Seconds between attempts to take a lock that another event loop holds."""


class KeyedLocks:
    """Locks by key, removed once nobody holds or awaits them.

    An ``asyncio.Lock`` queues the tasks of one loop; a ``threading.Lock`` excludes the other loops.
    """

    def __init__(self) -> None:
        self._loop_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Hashable, asyncio.Lock]] = (
            WeakKeyDictionary()
        )
        self._guard = threading.Lock()
        self._thread_locks: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold_lock(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for the key's lock and hold it for the length of the block."""
        loop_locks = self._loop_locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        loop_lock = loop_locks.setdefault(key, asyncio.Lock())
        async with loop_lock:
            with self._guard:
                thread_lock = self._thread_locks.setdefault(key, threading.Lock())
            while not thread_lock.acquire(blocking=False):  # noqa: ASYNC110  # an asyncio.Event wakes one loop only
                await asyncio.sleep(_POLL_SECONDS)
            try:
                yield
            finally:
                thread_lock.release()
