"""Run an event loop in a thread of its own.

A framework may start a new loop for each call, and no reply must wait for memory.
"""

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
    """An event loop in a thread, until :meth:`stop_loop`.

    Args:
        name: the thread's name.
        final_work: runs before the thread ends, at the latest when the process exits.
    """

    def __init__(self, name: str, final_work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._final_work, self._loop = final_work, asyncio.new_event_loop()
        self._stopping: Future[None] | None = None
        self._thread = threading.Thread(target=_run_loop, args=[self._loop], name=name, daemon=True)
        self._thread.start()
        _loops.add(self)

    @property
    def is_running(self) -> bool:
        """Whether the loop still accepts work; always False in a fork, which does not inherit the thread."""
        return self._stopping is None and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work in an empty context, so that it does not inherit the current request's span and variables."""
        return Context().run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def stop_loop(self) -> Future[None]:
        """Run the final work and end the thread; work that still runs is cancelled and may clean up.

        The process does not exit until then, even if nobody waits.
        """
        if self._stopping is None:
            self._stopping = self.submit(self._final_work())
            self._stopping.add_done_callback(self._end_thread)
        return self._stopping

    def _end_thread(self, _: Future[None]) -> None:
        _loops.discard(self)
        self._loop.call_soon_threadsafe(self._loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


_loops: set[BackgroundLoop] = set()
"""Loops whose thread may still run; in a fork also the parent's, whose threads are gone."""


def _stop_loops() -> None:
    futures = [loop.stop_loop() for loop in list(_loops) if loop._thread.is_alive()]  # not in a fork
    for error in filter(None, (future.exception() for future in futures)):
        logger.error("The last work of a background thread failed.", exc_info=error)


# asyncio resolves host names in a thread pool, which is shut down before atexit runs: run before that.
getattr(threading, "_register_atexit", atexit.register)(_stop_loops)
