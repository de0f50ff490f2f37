"""An ADK plugin that queues the events of each run and ingests them in the background.

The queue lies in the graph (its Ingest nodes), so it outlives the process. All work runs in a thread of its own: no
reply waits for memory or fails because of it.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from typing_extensions import override

from adk_graph_memory.adk import _compat, memory_codec
from adk_graph_memory.adk.ingest_worker import IngestWorker
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.adk.turn_buffer import TurnBuffer

logger = logging.getLogger(__name__)

T = TypeVar("T")

EVALUATION_PREFIX = "adk-eval-session-"
"""Prefix of the session ids that ADK's evaluation generates."""


class GraphMemoryPlugin(BasePlugin):
    """Adds every run to memory without a call of ``add_session_to_memory``.

    Use ``adk web --extra_plugins adk_graph_memory.GraphMemoryPlugin`` or ``App(plugins=[GraphMemoryPlugin()])``.
    It ingests a user's turns when there are enough of them, when the user has been idle for a while, when one of the
    user's sessions is closed (``Neo4jSessionService.close_session``), and when the plugin closes.

    Args:
        name: the plugin's name in ADK.
        memory: the service to fill; by default the Runner's memory service, if that is a ``Neo4jMemoryService``.
        every: queued turns of a user that start an ingest.
        idle: seconds after a user's last run that start an ingest, however few turns there are.
        at_once: users ingested in parallel; each user's turns are ingested in order.
        drain: seconds for which closing goes on ingesting; the rest stays queued. ADK allows five.

    Example:
        agent = LlmAgent(name="companion", model="gemini-flash-latest", tools=[load_memory])
        app = App(name="home", root_agent=agent, plugins=[GraphMemoryPlugin()])
        async with Neo4jSessionService() as sessions, Neo4jMemoryService() as memory:
            async with Runner(app=app, session_service=sessions, memory_service=memory) as runner:
                await runner.run_debug("My dog Rex is afraid of thunder.", user_id="ana", session_id="monday")
            await memory.memory.resume(app_name="home")  # whatever was still queued when the plugin closed
            response = await memory.search_memory(app_name="home", user_id="ana", query="What is Rex afraid of?")
            print(response.memories[0].content.parts[0].text)
    """

    def __init__(
        self,
        name: str = "graph_memory",
        *,
        memory: Neo4jMemoryService | None = None,
        every: int = 20,
        idle: float = 5.0,
        at_once: int = 4,
        drain: float = 4.0,
    ) -> None:
        super().__init__(name=name)
        Neo4jMemoryService.has_plugin = True
        self._memory_service, self._has_warned = memory, False
        self._make_worker = partial(IngestWorker, every=every, idle=idle, at_once=at_once, drain=drain)
        self._turn_buffer, self._lock = TurnBuffer(), threading.Lock()
        self._background_worker: tuple[BackgroundLoop, IngestWorker] | None = None
        self._session_services: list[Neo4jSessionService] = []

    @override
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Queue the session's new events; returns before they are queued."""
        try:
            if not _is_agent_tool(invocation_context):
                self._buffer_session(invocation_context, await _load_whole_session(invocation_context))
        except Exception:  # the reply was given, so no error may reach the caller
            logger.exception("A run could not be queued for memory; the session's next run will queue it too.")

    @override
    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Queue the session's new events, those before the error included."""
        await self.after_run_callback(invocation_context=invocation_context)

    def _buffer_session(self, context: InvocationContext, session: Session) -> None:
        memory = self._find_memory_service(context.memory_service)
        if memory is None or session.id.startswith(EVALUATION_PREFIX):
            return
        sessions = context.session_service
        if isinstance(sessions, Neo4jSessionService) and sessions not in self._session_services:
            self._session_services.append(sessions)
            sessions.on_close_session.append(self._flush_session)
        key = self._turn_buffer.add_session(memory, session)
        with self._lock:
            background, worker = self._ensure_worker()
            if key is not None:
                background.submit(worker.enqueue_session(key))

    def _ensure_worker(self) -> tuple[BackgroundLoop, IngestWorker]:
        """Return the running worker; start a new one after :meth:`close`, or in a fork of the process."""
        if self._background_worker is None or not self._background_worker[0].is_running:
            worker = self._make_worker(self._turn_buffer)
            self._background_worker = BackgroundLoop(f"{self.name} of {id(self):x}", worker.drain_queue), worker
            for key in self._turn_buffer.list_pending_sessions():
                self._background_worker[0].submit(worker.enqueue_session(key))
        return self._background_worker

    def _find_memory_service(self, runner_service: BaseMemoryService | None) -> Neo4jMemoryService | None:
        service = self._memory_service or runner_service
        if not isinstance(service, Neo4jMemoryService):
            reason = f"the Runner's memory service is {type(service).__name__}"
        elif service.memory.connection.is_loop_bound:
            reason = "its memory was given driver=, of which another loop has no use; give it an address instead"
        else:
            return service
        if not self._has_warned:
            self._has_warned = True
            logger.warning("%s remembers nothing: %s.", self.name, reason)
        return None

    def _flush_session(self, session: Session) -> None:
        with self._lock:
            if self._background_worker is not None and self._background_worker[0].is_running:
                background, worker = self._background_worker
                background.submit(worker.flush_user(session.app_name, session.user_id))

    @override
    async def close(self) -> None:
        """Ingest the queue until the drain time is over; the rest stays in the graph for ``ingest --pending``."""
        with self._lock:
            background_worker, self._background_worker = self._background_worker, None  # a later run starts a new one
            session_services, self._session_services = self._session_services, []
        for sessions in session_services:
            sessions.on_close_session.remove(self._flush_session)
        if background_worker is not None and background_worker[0].is_running:
            await asyncio.wrap_future(background_worker[0].stop_loop())


def _is_agent_tool(context: InvocationContext) -> bool:
    """Whether an agent runs as another agent's tool; nothing in such a run is said by a user."""
    return isinstance(context.artifact_service, _compat.ForwardingArtifactService)


async def _load_whole_session(context: InvocationContext) -> Session:
    """Return the run's session; reload it with all its events if a rewind targets one that is not loaded."""
    session = context.session
    if not memory_codec.has_unloaded_rewind(session.events):
        return session
    full_session = await context.session_service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id
    )
    return full_session or session


class BackgroundLoop:
    """An event loop in a thread, until :meth:`stop_loop`; ``Runner.run()`` creates a new loop for each call.

    Args:
        name: the thread's name.
        final_work: runs before the thread ends, at the latest when the process exits.
    """

    def __init__(self, name: str, final_work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._final_work, self._loop = final_work, asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run_loop, args=[self._loop], name=name, daemon=True)
        self._thread.start()
        _running_loops.add(self)

    @property
    def is_running(self) -> bool:
        """Whether the loop still accepts work; always False in a fork, which does not inherit the thread."""
        return self in _running_loops and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work in an empty context, so that it does not inherit the current request's span and variables."""
        return Context().run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def stop_loop(self) -> Future[None]:
        """Run the final work and end the thread; work that still runs is cancelled and may clean up."""
        _running_loops.discard(self)
        future = self.submit(self._final_work())
        future.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        return future


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


_running_loops: set[BackgroundLoop] = set()


def _stop_loops() -> None:
    futures = [loop.stop_loop() for loop in list(_running_loops) if loop.is_running]
    for error in filter(None, (future.exception() for future in futures)):
        logger.error("A plugin's shutdown work failed.", exc_info=error)


# asyncio resolves host names in a thread pool, which is shut down before atexit runs: run before that.
getattr(threading, "_register_atexit", atexit.register)(_stop_loops)
