"""Limit and retry calls, lock by key across event loops and threads, and close what holds connections."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

_TRANSIENT_STATUSES = {408, 429, 500, 502, 503, 504}
_REFUSAL_STATUSES = {400, 413, 422}
_API_KEY = re.compile(r"\bapi[ _-]?key|\bapi_key|key inputs argument", re.IGNORECASE)
_HTTP_LIBRARIES = ("httpx", "httpcore", "httpx2", "httpcore2", "aiohttp")


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed: too many requests, an overloaded server, a lost connection, a truncated reply."""
    codes = {getattr(error, name, None) for name in ("code", "status_code")}
    is_http_error = type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES
    return bool(codes & _TRANSIENT_STATUSES) or is_http_error or isinstance(error, (OSError, json.JSONDecodeError))


def is_refusal(error: Exception) -> bool:
    """Whether a service refused what it was asked, such as a text that is too long or not allowed."""
    codes = {getattr(error, name, None) for name in ("code", "status_code")}
    return bool(codes & _REFUSAL_STATUSES) and not _API_KEY.search(str(error))


def describe_failure(error: BaseException) -> str:
    """Name a service's error on one line, with the remedy where it refused the credentials or was given none."""
    text = " ".join(str(error).split())
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    codes = {getattr(error, name, None) for name in ("code", "status_code")}
    if codes & {401, 403} or _API_KEY.search(text):
        line += " (Is the API key set, right, and allowed to use this model? Gemini reads GOOGLE_API_KEY)"
    return line


def generate_backoff_delays(first: float) -> Iterator[float]:
    """Yield the seconds to wait before each retry, without end: doubled each time, with ±50 % jitter."""
    while True:
        yield first * random.uniform(0.5, 1.5)  # noqa: S311
        first *= 2


class Throttle:
    """A first-come, first-served semaphore for all event loops and threads of this process.

    An ``asyncio.Semaphore`` belongs to one loop, and ``Runner.run()`` starts a loop per call.

    Args:
        at_once: how many may hold a permit at the same time.
    """

    def __init__(self, at_once: int) -> None:
        self._free_permits, self._waiters = at_once, deque[Future[None]]()
        self._lock = threading.RLock()

    @asynccontextmanager
    async def hold_permit(self) -> AsyncIterator[None]:
        """Wait for a permit and hold it for the length of the block."""
        await self._acquire_permit()
        try:
            yield
        finally:
            self._release_permit()

    async def _acquire_permit(self) -> None:
        with self._lock:
            if self._free_permits:
                self._free_permits -= 1
                return
            waiter: Future[None] = Future()
            self._waiters.append(waiter)
        try:
            await asyncio.wrap_future(waiter)
        except BaseException:
            if not waiter.cancel():  # the permit came while we were being cancelled
                self._release_permit()
            raise

    def _release_permit(self) -> None:
        with self._lock:
            while self._waiters:
                waiter = self._waiters.popleft()
                if waiter.set_running_or_notify_cancel():
                    waiter.set_result(None)
                    return
            self._free_permits += 1


_throttles: dict[int, Throttle] = {}


def get_shared_throttle(at_once: int) -> Throttle:
    """The process's one throttle for this limit, shared: a throttle per user or loop would multiply the limit."""
    return _throttles.setdefault(at_once, Throttle(at_once))


class Closeable:
    """Base class that makes a class with ``close`` an async context manager."""

    async def close(self) -> None:
        """Close what this object opened; may be called again."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


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
