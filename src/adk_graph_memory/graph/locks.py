"""A key goes in; the running event loop's lock for it comes out, and is gone once nobody holds or awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakKeyDictionary, WeakValueDictionary


class Locks:
    """asyncio locks by key; an ``asyncio.Lock`` belongs to one loop, so every loop has its own."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Hashable, asyncio.Lock]] = (
            WeakKeyDictionary()
        )

    def of(self, key: Hashable) -> asyncio.Lock:
        """The lock for this key in the running loop."""
        locks = self._loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        lock = locks.get(key)
        if lock is None:
            lock = locks[key] = asyncio.Lock()
        return lock
