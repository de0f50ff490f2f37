"""Calls of a service: an error goes in, whether it passes comes out; so many run at once, and the rest wait."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager

_TRANSIENT_STATUSES = {408, 429, 500, 502, 503, 504}
_HTTP_LIBRARIES = ("httpx", "httpcore", "httpx2", "httpcore2", "aiohttp")


def is_transient(error: Exception) -> bool:
    """Whether the same call may do better a little later: too many of them, an overloaded server, a lost connection."""
    codes = {getattr(error, name, None) for name in ("code", "status_code")}
    by_the_way = type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES
    return bool(codes & _TRANSIENT_STATUSES) or by_the_way or isinstance(error, (OSError, json.JSONDecodeError))


def generate_backoff_delays(first: float) -> Iterator[float]:
    """Seconds to wait before each further attempt: doubled every time, and not the same for all who failed together."""
    while True:
        yield first * random.uniform(0.5, 1.5)  # noqa: S311
        first *= 2


class Throttle:
    """So many at once, in whatever event loop of this process; the rest wait in line.

    An ``asyncio.Semaphore`` belongs to one loop, and there are several: ``Runner.run()`` makes one a call.

    Args:
        at_once: how many.
    """

    def __init__(self, at_once: int) -> None:
        self._free_permits, self._waiters = at_once, deque[Future[None]]()
        self._lock = threading.RLock()

    @asynccontextmanager
    async def hold_permit(self) -> AsyncIterator[None]:
        """Waits for its turn, and keeps it for the time of the block."""
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
            turn: Future[None] = Future()
            self._waiters.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except BaseException:
            if not turn.cancel():  # it came just as we gave up
                self._release_permit()
            raise

    def _release_permit(self) -> None:
        with self._lock:
            while self._waiters:
                turn = self._waiters.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._free_permits += 1


_throttles: dict[int, Throttle] = {}


def get_shared_throttle(at_once: int) -> Throttle:
    """The process's own: whoever allows so many shares it, for a limit each would be multiplied by users and loops."""
    return _throttles.setdefault(at_once, Throttle(at_once))
