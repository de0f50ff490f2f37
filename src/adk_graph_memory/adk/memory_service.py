"""ADK's memory contract on the corridor: sessions, events and entries go in, ``MemoryEntry`` come out.

Where this differs from ADK's own services: whoever adds an event twice stores it once, whatever was forgotten stays
forgotten, and every entry that is a fact names the words it rests on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Unpack

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from typing_extensions import override

from adk_graph_memory import embeddings, extraction, graph, llm, redaction, retrieval
from adk_graph_memory.adk import agent_dotenv, memory_codec
from adk_graph_memory.closing import Closeable
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import NO_SESSION, IngestReport, Scope

logger = logging.getLogger(__name__)


class MemoryOptions(graph.ConnectionOptions, total=False):
    """All that may be chosen beside the address, as :class:`adk_graph_memory.GraphMemory` takes it."""

    model: str | llm.BaseLlm | None
    embedder: embeddings.EmbedderChoice
    retrieval_query: str | None
    redact: redaction.RedactOption
    topics: Sequence[extraction.Topic | str] | None
    weights: retrieval.Weights | None
    reranker: retrieval.Reranker | None


class Neo4jMemoryService(Closeable, BaseMemoryService):
    """Long-term memory for the agents of a Runner: entities, facts and turns in Neo4j.

    Args:
        uri: an address, settings and all (``settings.of_address``); else NEO4J_URI, or ``adk-graph-memory up``'s.
        memory: a memory to serve, instead of one made from the other arguments.
        agents_dir: what ADK's command line passes: the folder of the agents, whose ``.env`` files are read.
        options: as :class:`adk_graph_memory.GraphMemory` takes them.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        memory: GraphMemory | None = None,
        agents_dir: str | None = None,
        **options: Unpack[MemoryOptions],
    ) -> None:
        self.memory, self._agents_dir = memory or GraphMemory(uri, **options), agents_dir
        if agents_dir is None:
            self.memory.vectors.start_loading()

    async def prepare(self) -> None:
        """Connects, makes the schema fit and loads the embedder now rather than at the first request."""
        await self.memory.prepare()

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers what is new in the session's events; the same session again costs one statement.

        What a rewind has taken back is not remembered, and forgotten where it was.

        Raises:
            errors.ModelError: the model failed; what was to be remembered is stored and pending.
        """
        await self.remember(session)

    async def remember(self, session: Session) -> IngestReport:
        """Does what :meth:`add_session_to_memory` does, and says what it came to."""
        memory, app_name, user_id = self._get_memory(session.app_name), session.app_name, session.user_id
        turns, undone = memory_codec.split_rewound(session.events, zone=self.find_session_zone(session))
        if undone:
            ids = [turn.make_memory_id(session.id) for turn in undone]
            await memory.forget(ids, app_name=app_name, user_id=user_id)
        return await memory.remember(turns, app_name=app_name, user_id=user_id, session_id=session.id)

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers these events, whichever of them are new; ``custom_metadata`` comes back with them.

        Its key ``allowed_topics`` keeps the request to topics of these labels, as with Memory Bank.
        """
        memory = self._get_memory(app_name)
        zone = await memory.speakers.find_zone(Scope(app_name, user_id))
        await memory.remember(
            memory_codec.split_rewound(events, zone=zone)[0],
            app_name=app_name,
            user_id=user_id,
            session_id=session_id or NO_SESSION,
            metadata=memory_codec.clean_metadata(custom_metadata),
            allowed_topics=memory_codec.read_allowed_topics(custom_metadata),
        )

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Writes entries down as they are; of an entry's metadata and the call's, the call's wins."""
        memory = self._get_memory(app_name)
        zone = await memory.speakers.find_zone(Scope(app_name, user_id))
        statements = memory_codec.make_statements(memories, memory_codec.clean_metadata(custom_metadata), zone)
        if statements:
            await memory.add_statements(statements, app_name=app_name, user_id=user_id)

    @override
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The user's memories that fit the query best, best first, small enough to go into a prompt.

        An agent's first search waits for the model only as long as the setting ``first_search_wait`` says; what full
        text finds without it says so (``custom_metadata["degraded"]``).
        """
        memory = self._get_memory(app_name)
        wait = memory.connection.settings.first_search_wait
        found = await memory.recall(query, app_name=app_name, user_id=user_id, first_wait=wait)
        return SearchMemoryResponse(memories=[memory_codec.make_memory_entry(memory) for memory in found])

    @override
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forgets the entry of this id for good; an unknown one, None or another user's is no error."""
        if memory_id:
            await self._get_memory(app_name).forget([memory_id], app_name=app_name, user_id=user_id)

    def find_session_zone(self, session: Session) -> tzinfo:
        """The time zone that a session's turns are said in: of its state's ``user:timezone``, or else the usual one."""
        return (
            memory_codec.read_state_zone(session.state)
            or self._get_memory(session.app_name).connection.settings.timezone
        )

    def _get_memory(self, app_name: str) -> GraphMemory:
        agent_dotenv.load_agent_dotenv(self._agents_dir, app_name, self.memory.connection)
        self.memory.vectors.start_loading()
        return self.memory

    async def close(self) -> None:
        """Closes the connections this service opened in the running event loop; may be called again."""
        await self.memory.close()
