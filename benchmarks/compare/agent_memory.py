"""Open neo4j-agent-memory's ADK service, with the embedder that all are given and without a language model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.sessions.session import Session
from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory.runtime.settings import Settings

DIMENSIONS = 384


class Provider:
    """The embedder as neo4j-agent-memory's ``EmbeddingProvider``."""

    model, dimensions = "sentence-transformers/all-MiniLM-L6-v2", DIMENSIONS

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._embedder.embed_documents, list(texts))

    async def embed_one(self, text: str) -> list[float]:
        return (await self.embed([text]))[0]


class LoggedErrors(logging.Handler):
    """Keeps what the service logs as an error, for it raises none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@asynccontextmanager
async def open_agent_memory(
    settings: Settings, embedder: Embedder, threshold: float | None = None
) -> AsyncIterator[BaseMemoryService]:
    """The service on the server of the settings.

    Args:
        settings: of the server; the label prefix means nothing to it.
        embedder: of all messages and questions.
        threshold: the least similarity of a search, which ADK does not pass; by default the service's own, .7.

    Raises:
        RuntimeError: on leaving, if it has logged an error.
    """
    from neo4j_agent_memory import MemoryClient, MemorySettings
    from neo4j_agent_memory.config.settings import ExtractionConfig, ExtractorType
    from neo4j_agent_memory.integrations.google_adk import Neo4jMemoryService

    class WithThreshold(Neo4jMemoryService):  # type: ignore[misc]
        async def search_memory(self, query: str, **named: Any) -> SearchMemoryResponse:
            return await super().search_memory(query, threshold=threshold, **named)

    server = {"uri": str(settings.uri), "username": settings.username, "password": settings.password}
    configuration = MemorySettings(
        backend="bolt",
        neo4j=server,
        llm=None,
        embedding=Provider(embedder),
        extraction=ExtractionConfig(extractor_type=ExtractorType.NONE, enable_llm_fallback=False),
    )
    logged, logger = LoggedErrors(), logging.getLogger("neo4j_agent_memory")
    logger.addHandler(logged)
    try:
        async with MemoryClient(configuration) as client:
            service = Neo4jMemoryService if threshold is None else WithThreshold
            yield service(client, extract_on_store=False)
    finally:
        logger.removeHandler(logged)
    if logged.messages:
        raise RuntimeError(f"{len(logged.messages)} errors were logged, the first: {logged.messages[0]}")


async def clear_session(service: Any, session: Session) -> None:
    """Deletes a session's messages, by the service's own means."""
    await service.clear_session(session.id)
