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

from adk_graph_memory.adk import entries
from adk_graph_memory.adk.background import Background
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.outbox import Outbox
from adk_graph_memory.adk.reader import Reader
from adk_graph_memory.adk.session_service import Neo4jSessionService

logger = logging.getLogger(__name__)

EVALUATION = "adk-eval-session-"
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
        self._memory, self._has_complained = memory, False
        self._made = partial(Reader, every=every, idle=idle, at_once=at_once, drain=drain)
        self._outbox, self._lock = Outbox(), threading.Lock()
        self._life: tuple[Background, Reader] | None = None
        self._hooked: list[Neo4jSessionService] = []

    @override
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Queues what is new in the session; returns before that is done."""
        try:
            if not _is_inner(invocation_context):
                self._take(invocation_context, await _whole(invocation_context))
        except Exception:  # whatever it is, the reply was given
            logger.exception("A run could not be queued for memory; the session's next one takes it along.")

    @override
    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """The same: what was said before the error was said all the same."""
        await self.after_run_callback(invocation_context=invocation_context)

    def _take(self, context: InvocationContext, session: Session) -> None:
        memory = self._ours(context.memory_service)
        if memory is None or session.id.startswith(EVALUATION):
            return
        sessions = context.session_service
        if isinstance(sessions, Neo4jSessionService) and sessions not in self._hooked:
            self._hooked.append(sessions)
            sessions.on_close_session.append(self._closed)
        key = self._outbox.put(memory, session)
        with self._lock:
            background, reader = self._alive()
            if key is not None:
                background.submit(reader.queue(key))

    def _alive(self) -> tuple[Background, Reader]:
        """The thread and what works in it: others after :meth:`close`, and in a fork of the process."""
        if self._life is None or not self._life[0].is_running:
            reader = self._made(self._outbox)
            self._life = Background(f"{self.name} of {id(self):x}", reader.finish), reader
            for left in self._outbox.waiting():
                self._life[0].submit(reader.queue(left))
        return self._life

    def _ours(self, memory: BaseMemoryService | None) -> Neo4jMemoryService | None:
        ours = self._memory or memory
        if not isinstance(ours, Neo4jMemoryService):
            reason = f"the Runner's memory service is {type(ours).__name__}"
        elif ours.memory.connection.belongs_to_a_loop:
            reason = "its memory was given driver=, of which another loop has no use; give it an address instead"
        else:
            return ours
        if not self._has_complained:
            self._has_complained = True
            logger.warning("%s remembers nothing: %s.", self.name, reason)
        return None

    def _closed(self, session: Session) -> None:
        with self._lock:
            if self._life is not None and self._life[0].is_running:
                background, reader = self._life
                background.submit(reader.read_now(session.app_name, session.user_id))

    @override
    async def close(self) -> None:
        """Reads what is queued, for as long as there is time; the rest stays in the graph for ``ingest --pending``."""
        with self._lock:
            life, self._life = self._life, None  # whatever comes from now on begins another
            hooked, self._hooked = self._hooked, []
        for sessions in hooked:
            sessions.on_close_session.remove(self._closed)
        if life is not None and life[0].is_running:
            await asyncio.wrap_future(life[0].end())


def _is_inner(context: InvocationContext) -> bool:
    """Whether one agent runs as another's tool: what they tell each other is no user's word."""
    return isinstance(context.artifact_service, ForwardingArtifactService)


async def _whole(context: InvocationContext) -> Session:
    """The run's session, with all its events where one takes back what this run has not loaded."""
    session = context.session
    if not entries.reaches_back(session.events):
        return session
    whole = await context.session_service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id
    )
    return whole or session
