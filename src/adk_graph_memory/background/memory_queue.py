"""Queue what is said in the graph and ingest it in the background, for whichever framework it is said in.

The queue lies in the graph (its Ingest nodes), so it outlives the process. All work runs in a thread of its own: no
reply waits for memory or fails because of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial

from adk_graph_memory.background.background_loop import BackgroundLoop
from adk_graph_memory.background.ingest_worker import IngestWorker
from adk_graph_memory.background.turn_buffer import SessionKey, SplitTurns, TurnBuffer


class MemoryQueue:
    """The way of turns into memory; each plugin or provider has its own.

    Args:
        name: names the thread.
        every: queued turns of a user that start an ingest.
        idle: seconds after a user's last turn that start an ingest, however few turns there are.
        at_once: users ingested in parallel; each user's turns are ingested in order.
        drain: seconds for which closing goes on ingesting; the rest stays queued.
    """

    def __init__(self, name: str, *, every: int, idle: float, at_once: int, drain: float) -> None:
        self._name = name
        self._make_worker = partial(IngestWorker, every=every, idle=idle, at_once=at_once, drain=drain)
        self._turn_buffer, self._lock = TurnBuffer(), threading.Lock()
        self._background_worker: tuple[BackgroundLoop, IngestWorker] | None = None

    def add_session(self, key: SessionKey, event_ids: Sequence[str], split_turns: SplitTurns) -> None:
        """Take over a session's new turns, as :meth:`TurnBuffer.add_session`; returns before they are queued."""
        is_new = self._turn_buffer.add_session(key, event_ids, split_turns)
        with self._lock:
            background, worker = self._ensure_worker()
            if is_new:
                background.submit(worker.enqueue_session(key))

    def _ensure_worker(self) -> tuple[BackgroundLoop, IngestWorker]:
        """Return the running worker; start a new one after :meth:`close`, or in a fork of the process."""
        if self._background_worker is None or not self._background_worker[0].is_running:
            worker = self._make_worker(self._turn_buffer)
            self._background_worker = BackgroundLoop(f"{self._name} of {id(self):x}", worker.drain_queue), worker
            for key in self._turn_buffer.list_pending_sessions():
                self._background_worker[0].submit(worker.enqueue_session(key))
        return self._background_worker

    def start_ingest(self, app_name: str, user_id: str) -> None:
        """Ingest this user's queued turns now instead of waiting for more; returns at once."""
        with self._lock:
            if self._background_worker is not None and self._background_worker[0].is_running:
                background, worker = self._background_worker
                background.submit(worker.flush_user(app_name, user_id))

    async def flush(self) -> None:
        """Wait until all turns so far are ingested, or pending in the graph with the reason why they cannot be.

        While the database is away, this waits for it.
        """
        with self._lock:
            background, worker = self._ensure_worker()
            future = background.submit(worker.finish_queue())
        await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Ingest the queue until the drain time is over; the rest stays in the graph for ``ingest --pending``.

        A caller that stops waiting, as ADK does after five seconds, does not stop it; the process exits once it has
        finished.
        """
        with self._lock:
            background_worker, self._background_worker = self._background_worker, None  # a later run starts a new one
        if background_worker is not None and background_worker[0].is_running:
            await asyncio.shield(asyncio.wrap_future(background_worker[0].stop_loop()))
