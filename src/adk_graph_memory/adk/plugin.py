"""Conversations fill memory by themselves: each run's events are queued, and read when there are enough.

The queue is the graph (its Ingest nodes), so a process that dies loses nothing. All of it happens in a thread of its
own: no reply waits for memory, and none fails for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence

from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from typing_extensions import override

from adk_graph_memory.adk import entries
from adk_graph_memory.adk.background import Background
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.reader import Owner, Reader
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.records import Turn

logger = logging.getLogger(__name__)

EVALUATION = "adk-eval-session-"
"""How the ids of sessions begin that ADK's evaluation makes up."""
MOST_SESSIONS = 10_000
"""Sessions of which it is kept in mind how far they were queued; of others all is offered again, and known already."""


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
        self._memory, self._drain = memory, drain
        self._background = Background(f"{name} of {id(self):x}")
        self._queued: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._reader = Reader(every=every, idle=idle, at_once=at_once)
        self._has_complained = False

    @override
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Queues what is new in the session; returns before that is done."""
        try:
            self._take(invocation_context)
        except Exception:  # whatever it is, the reply was given
            logger.exception("A run could not be queued for memory; the session's next one takes it along.")

    def _take(self, context: InvocationContext) -> None:
        session, memory = context.session, self._ours(context.memory_service)
        if memory is None or session.id.startswith(EVALUATION):
            return
        sessions = context.session_service
        if isinstance(sessions, Neo4jSessionService) and self._closed not in sessions.on_close_session:
            sessions.on_close_session.append(self._closed)
        turns, undone = entries.told(session.events, self._first_new(session))
        if turns or undone:
            self._background.submit(self._queue(memory, session, turns, undone))

    def _ours(self, memory: BaseMemoryService | None) -> Neo4jMemoryService | None:
        if self._memory is not None:
            return self._memory
        if isinstance(memory, Neo4jMemoryService):
            return memory
        if not self._has_complained:
            self._has_complained = True
            logger.warning("%s remembers nothing: the Runner's memory service is %s.", self.name, type(memory).__name__)
        return None

    def _first_new(self, session: Session) -> int:
        """The place of the first event that was not queued yet; 0 where none is known to be."""
        key = session.app_name, session.user_id, session.id
        last = self._queued.pop(key, None)
        ids = [event.id for event in session.events]
        if ids:
            self._queued[key] = ids[-1]
        if len(self._queued) > MOST_SESSIONS:
            self._queued.popitem(last=False)
        return ids.index(last) + 1 if last in ids else 0

    async def _queue(
        self, memory: Neo4jMemoryService, session: Session, turns: Sequence[Turn], undone: Sequence[Turn]
    ) -> None:
        app_name, user_id, id = key = session.app_name, session.user_id, session.id
        try:
            await self._reader.queue(memory, Owner(app_name, user_id), id, turns, undone)
        except Exception:  # the database is away: the session's next run offers all of it again
            self._queued.pop(key, None)
            logger.exception("What was said in session %s could not be queued for memory.", id)

    def _closed(self, session: Session) -> None:
        self._background.submit(self._reader.read_now(Owner(session.app_name, session.user_id)))

    @override
    async def close(self) -> None:
        """Reads what is queued, for as long as there is time; the rest stays in the graph for ``ingest --pending``."""
        if self._background.is_running:
            await asyncio.wrap_future(self._background.submit(self._reader.finish(self._drain)))
            self._background.stop()
