"""A thread with an event loop of its own, in which memory is written while replies go on."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundLoop:
    """Runs until :meth:`stop_loop`; its loop outlives those of ``Runner.run()``, which makes one a call.

    Args:
        name: of the thread.
        last: what is still to be done before the thread ends, at the end of the process at the latest.
    """

    def __init__(self, name: str, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._final_work, self._loop = last, asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run_loop, args=[self._loop], name=name, daemon=True)
        self._thread.start()
        _running_loops.add(self)

    @property
    def is_running(self) -> bool:
        """Whether work is still taken; never so in a fork of the process that started the thread."""
        return self in _running_loops and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts the work, in nobody's context: what is read here is not the request of whoever was answered last."""
        return Context().run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def stop_loop(self) -> Future[None]:
        """Does what is last; then the thread ends, and what still runs in it is cancelled, and may clean up."""
        _running_loops.discard(self)
        ending = self.submit(self._final_work())
        ending.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        return ending


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


_running_loops: set[BackgroundLoop] = set()


def _stop_loops() -> None:
    endings = [one.stop_loop() for one in list(_running_loops) if one.is_running]
    for error in filter(None, (ending.exception() for ending in endings)):
        logger.error("What a plugin had left to do at the end failed.", exc_info=error)


# atexit comes after the thread pools are shut down, by which asyncio looks up a server's name: this comes before.
getattr(threading, "_register_atexit", atexit.register)(_stop_loops)
