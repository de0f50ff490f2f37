"""Offer an index of yours to an agent: as ADK's memory service, or as a tool beside a memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Unpack

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

from adk_graph_memory.language.text import join_lines
from adk_graph_memory.retrieval.own_index.results import IndexHit
from adk_graph_memory.retrieval.own_index.search import IndexOptions, IndexRetrieval, choose_retrieval
from adk_graph_memory.runtime.concurrency import Closeable

DESCRIPTION = "Searches the documents of this deployment and returns the passages that fit a question."


class Neo4jIndexService(Closeable, BaseMemoryService):
    """ADK's memory service over an index you already have, which it only reads.

    A ``retrieval_query`` gets ``$app_name`` and ``$user_id``, so that a graph with several users can be filtered.

    Args:
        uri: Neo4j's address; by default NEO4J_URI, or the server that ``adk-graph-memory up`` started.
        retrieval: a retrieval to use instead of one made from the other arguments; it is never closed here.
        options: as :class:`adk_graph_memory.IndexRetrieval` takes them.

    Example:
        knowledge = Neo4jIndexService(index_type="fulltext", index_name="search_chunks")
        tools = [load_memory, knowledge.make_tool()]
        agent = LlmAgent(name="analyst", model="gemini-flash-latest", tools=tools)
        runner = Runner(app_name="home", agent=agent, session_service=Neo4jSessionService(), memory_service=knowledge)
        print([tool.name for tool in tools])
    """

    def __init__(
        self, uri: str | None = None, *, retrieval: IndexRetrieval | None = None, **options: Unpack[IndexOptions]
    ) -> None:
        self.retrieval = choose_retrieval(uri, retrieval, options)
        self._is_own = retrieval is None

    async def prepare(self) -> None:
        """Connect, and check the indexes, the embedder and the ``retrieval_query`` now."""
        await self.retrieval.prepare()

    @override
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what the index finds, best first; each entry's metadata holds its score."""
        hits = await self._search_index(query, app_name, user_id)
        return SearchMemoryResponse(memories=[convert_index_hit(hit) for hit in hits])

    async def _search_index(self, query: str, app_name: str, user_id: str) -> list[IndexHit]:
        return await self.retrieval.search(query, query_params={"app_name": app_name, "user_id": user_id})

    def make_tool(self, name: str = "search_knowledge", description: str = DESCRIPTION) -> FunctionTool:
        """Make a tool that searches the index, for an agent that also has a memory.

        Args:
            name: the tool's name.
            description: tells the model what the index holds, and when to search it.
        """

        async def search_knowledge(query: str, tool_context: ToolContext) -> list[str]:
            session = tool_context.session
            return [hit.prompt_text for hit in await self._search_index(query, session.app_name, session.user_id)]

        search_knowledge.__name__, search_knowledge.__doc__ = name, description
        return FunctionTool(search_knowledge)

    @override
    async def add_session_to_memory(self, session: Session) -> NoReturn:
        """Refuse, because your index is only read."""
        raise NotImplementedError(
            "Neo4jIndexService only reads your index; to remember sessions, give the Runner a Neo4jMemoryService and "
            "the agent this service's make_tool()."
        )

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Any,
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> NoReturn:
        """Refuse, as :meth:`add_session_to_memory` does."""
        await self.add_session_to_memory(Session(id=session_id or "", app_name=app_name, user_id=user_id))

    async def close(self) -> None:
        """Close the connections that this service opened; may be called again."""
        if self._is_own:
            await self.retrieval.close()


def convert_index_hit(hit: IndexHit) -> MemoryEntry:
    """Convert a hit to ADK's entry."""
    return MemoryEntry(
        id=hit.id,
        content=types.Content(role="user", parts=[types.Part(text=join_lines(hit.text))]),
        custom_metadata={**hit.metadata, "score": hit.score},
    )
