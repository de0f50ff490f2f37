"""Lock by key across all event loops and threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager
from weakref import WeakValueDictionary

from adk_graph_memory.calls import Throttle


class KeyedLocks:
    """First-come, first-served locks by key, removed once nobody holds or awaits them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Hashable, Throttle] = WeakValueDictionary()

    def hold_lock(self, key: Hashable) -> AbstractAsyncContextManager[None]:
        """Wait for the key's lock and hold it for the length of the block."""
        with self._guard:
            if (lock := self._locks.get(key)) is None:
                lock = self._locks[key] = Throttle(1)
        return lock.hold_permit()
