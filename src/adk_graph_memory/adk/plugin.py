"""Conversations fill memory by themselves: each run's events are queued, and read when there are enough.

The queue is the graph (its Ingest nodes), so what was queued outlives its process; a run's words are there within
moments. All of it happens in a thread of its own: no reply waits for memory, and none fails for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial

from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.adk.tools._forwarding_artifact_service import ForwardingArtifactService
from typing_extensions import override

from adk_graph_memory.adk import memory_codec
from adk_graph_memory.adk.background import BackgroundLoop
from adk_graph_memory.adk.ingest_worker import IngestWorker
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.adk.turn_buffer import TurnBuffer

logger = logging.getLogger(__name__)

EVALUATION_PREFIX = "adk-eval-session-"
"""How the ids of sessions begin that ADK's evaluation makes up."""


class GraphMemoryPlugin(BasePlugin):
    """Adds what is said in every run to memory, without anybody calling ``add_session_to_memory``.

    ``adk web --extra_plugins adk_graph_memory.adk.GraphMemoryPlugin``, or ``App(plugins=[GraphMemoryPlugin()])``. A
    user's events are read when there are enough of them, when the user has been quiet for a while, when one of their
    sessions is closed (``Neo4jSessionService.close_session``), and when the plugin closes.

    Args:
        name: as ADK wants it.
        memory: where to; without it the Runner's own memory service, if that is a ``Neo4jMemoryService``.
        every: events of a user after which they are read.
        idle: seconds without a run of that user after which they are read, however few they are.
        at_once: users whose events are read side by side, each user's one after the other.
        drain: seconds that closing waits for what is being read; the rest stays queued. ADK allows five.
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
        self._memory_service, self._has_warned = memory, False
        self._make_worker = partial(IngestWorker, every=every, idle=idle, at_once=at_once, drain=drain)
        self._turn_buffer, self._lock = TurnBuffer(), threading.Lock()
        self._background_worker: tuple[BackgroundLoop, IngestWorker] | None = None
        self._session_services: list[Neo4jSessionService] = []

    @override
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Queues what is new in the session; returns before that is done."""
        try:
            if not _is_agent_tool(invocation_context):
                self._buffer_session(invocation_context, await _load_whole_session(invocation_context))
        except Exception:  # whatever it is, the reply was given
            logger.exception("A run could not be queued for memory; the session's next one takes it along.")

    @override
    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """The same: what was said before the error was said all the same."""
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
            background, reader = self._ensure_worker()
            if key is not None:
                background.submit(reader.enqueue_session(key))

    def _ensure_worker(self) -> tuple[BackgroundLoop, IngestWorker]:
        """The thread and what works in it: others after :meth:`mark_session_closed`, and in a fork of the process."""
        if self._background_worker is None or not self._background_worker[0].is_running:
            reader = self._make_worker(self._turn_buffer)
            self._background_worker = BackgroundLoop(f"{self.name} of {id(self):x}", reader.drain_queue), reader
            for left in self._turn_buffer.list_pending_sessions():
                self._background_worker[0].submit(reader.enqueue_session(left))
        return self._background_worker

    def _find_memory_service(self, memory: BaseMemoryService | None) -> Neo4jMemoryService | None:
        ours = self._memory_service or memory
        if not isinstance(ours, Neo4jMemoryService):
            reason = f"the Runner's memory service is {type(ours).__name__}"
        elif ours.memory.connection.is_loop_bound:
            reason = "its memory was given driver=, of which another loop has no use; give it an address instead"
        else:
            return ours
        if not self._has_warned:
            self._has_warned = True
            logger.warning("%s remembers nothing: %s.", self.name, reason)
        return None

    def _flush_session(self, session: Session) -> None:
        with self._lock:
            if self._background_worker is not None and self._background_worker[0].is_running:
                background, reader = self._background_worker
                background.submit(reader.flush_user(session.app_name, session.user_id))

    @override
    async def close(self) -> None:
        """Reads what is queued, for as long as there is time; the rest stays in the graph for ``ingest --pending``."""
        with self._lock:
            life, self._background_worker = self._background_worker, None  # whatever comes from now on begins another
            hooked, self._session_services = self._session_services, []
        for sessions in hooked:
            sessions.on_close_session.remove(self._flush_session)
        if life is not None and life[0].is_running:
            await asyncio.wrap_future(life[0].stop_loop())


def _is_agent_tool(context: InvocationContext) -> bool:
    """Whether one agent runs as another's tool: what they tell each other is no user's word."""
    return isinstance(context.artifact_service, ForwardingArtifactService)


async def _load_whole_session(context: InvocationContext) -> Session:
    """The run's session, with all its events where one takes back what this run has not loaded."""
    session = context.session
    if not memory_codec.has_unloaded_rewind(session.events):
        return session
    whole = await context.session_service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id
    )
    return whole or session
