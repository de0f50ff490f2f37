"""A memory service as one would write it in an afternoon: a node a turn, and neo4j-graphrag's HybridCypherRetriever."""

from __future__ import annotations

import asyncio
import re

import neo4j
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types
from neo4j_graphrag.embeddings.base import Embedder
from neo4j_graphrag.indexes import create_fulltext_index, create_vector_index
from neo4j_graphrag.retrievers import HybridCypherRetriever

LABEL, VECTORS, WORDS = "PlainTurn", "plain_turn_vectors", "plain_turn_words"
DIMENSIONS = 384
WANTED, CANDIDATES = 10, 100
"""Turns of an answer, and of each index, of whoever they are; the user's are chosen among those."""
STORE = f"""
UNWIND $rows AS row
MERGE (turn:{LABEL} {{app_name: $app_name, user_id: $user_id, session_id: $session_id, event_id: row.event_id}})
SET turn.author = row.author, turn.text = row.text
WITH turn, row
CALL db.create.setNodeVectorProperty(turn, 'embedding', row.embedding)
"""
CHOOSE = """
WITH node, score WHERE node.app_name = $app_name AND node.user_id = $user_id
RETURN node.event_id AS event_id, node.author AS author, node.text AS text
ORDER BY score DESC LIMIT $wanted
"""
_SYNTAX = re.compile(r'[+\-&|!(){}\[\]^"~*?:\\/]')
"""What Lucene's query parser would take for an operator, or fail at."""


class HybridMemoryService(BaseMemoryService):
    """Turns in one label with a full-text and a vector index.

    Args:
        driver: the caller closes it.
        embedder: of all turns and questions.
    """

    def __init__(self, driver: neo4j.Driver, embedder: Embedder) -> None:
        self._driver, self._embedder = driver, embedder
        driver.execute_query(
            f"CREATE CONSTRAINT plain_turn_key IF NOT EXISTS FOR (turn:{LABEL}) "
            "REQUIRE (turn.app_name, turn.user_id, turn.session_id, turn.event_id) IS UNIQUE"
        )
        create_vector_index(driver, VECTORS, LABEL, "embedding", DIMENSIONS, "cosine")
        create_fulltext_index(driver, WORDS, LABEL, ["text"])
        driver.execute_query("CALL db.awaitIndexes()")
        self._retriever = HybridCypherRetriever(driver, VECTORS, WORDS, CHOOSE, embedder)

    async def add_session_to_memory(self, session: Session) -> None:
        await asyncio.to_thread(self._store, session)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        return await asyncio.to_thread(self._search, query, {"app_name": app_name, "user_id": user_id})

    def _store(self, session: Session) -> None:
        texts = {event.id: "\n".join(part.text or "" for part in event.content.parts) for event in session.events}
        embeddings = self._embedder.embed_documents(list(texts.values()))
        rows = [
            {"event_id": event.id, "author": event.author, "text": texts[event.id], "embedding": embedding}
            for event, embedding in zip(session.events, embeddings, strict=True)
        ]
        owner = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
        self._driver.execute_query(STORE, rows=rows, **owner)

    def _search(self, query: str, owner: dict[str, str]) -> SearchMemoryResponse:
        result = self._retriever.get_search_results(
            _SYNTAX.sub(" ", query), top_k=CANDIDATES, query_params=owner | {"wanted": WANTED}
        )
        entries = [
            MemoryEntry(
                id=record["event_id"],
                author=record["author"],
                content=types.Content(role="user", parts=[types.Part(text=record["text"])]),
            )
            for record in result.records
        ]
        return SearchMemoryResponse(memories=entries)
