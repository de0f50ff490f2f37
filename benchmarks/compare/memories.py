"""The memory services that are compared, each opened in its best documented configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import neo4j
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService

from adk_graph_memory import GraphMemory, Neo4jMemoryService
from benchmarks.compare import agent_memory, hybrid
from benchmarks.compare.rows import Peer, Stage

WANTED = 10
"""Memories of an answer, where a service can be told; the others give ten by themselves, or what their budget holds."""


@asynccontextmanager
async def open_ours(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """Facts read by rules."""
    async with stage.serve() as settings:
        memory = GraphMemory(settings=settings, model="rules", embedder=stage.embedder)
        async with Neo4jMemoryService(memory=memory) as service:
            await service.prepare()
            yield service


@asynccontextmanager
async def open_in_memory(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """As it is."""
    yield InMemoryMemoryService()


@asynccontextmanager
async def open_sqlite(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """With full-text search, which it uses by default where SQLite has it."""
    from google.adk.memory import SqliteMemoryService

    service = SqliteMemoryService(stage.folder / "memory.db", fts="on", max_results=WANTED)
    try:
        yield service
    finally:
        await service.close()


@asynccontextmanager
async def open_hybrid(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """With a driver of its own."""
    async with stage.serve() as settings:
        auth = settings.username, settings.password.get_secret_value()
        with neo4j.GraphDatabase.driver(str(settings.uri), auth=auth) as driver:
            yield await asyncio.to_thread(hybrid.HybridMemoryService, driver, stage.embedder)


@asynccontextmanager
async def open_agent_memory(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """As a Runner calls it."""
    async with stage.serve() as settings, agent_memory.open_agent_memory(settings, stage.embedder) as service:
        yield service


@asynccontextmanager
async def open_agent_memory_apart(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """With no threshold."""
    async with (
        stage.serve() as settings,
        agent_memory.open_agent_memory(settings, stage.embedder, threshold=0.0) as service,
    ):
        yield service


LOCK = "neo4j-agent-memory"
PEERS = (
    Peer("adk-graph-memory", "facts read by rules", open_ours, is_ours=True),
    Peer("ADK InMemoryMemoryService", "as it is: words in common, in the process's memory", open_in_memory),
    Peer("ADK SqliteMemoryService", "`fts='on', max_results=10`: words by BM25, on a file in the process", open_sqlite),
    Peer(
        "plain HybridCypherRetriever",
        "`benchmarks/compare/hybrid.py`: a node a turn, the best 100 of each index, of these the user's best ten",
        open_hybrid,
    ),
    Peer("neo4j-agent-memory", "on Bolt, `llm=None`, no extraction; called as ADK calls it", open_agent_memory, LOCK),
    Peer(
        "neo4j-agent-memory, a user at a time",
        "the same with `threshold=0`, which ADK does not pass, and no other user's messages in the graph",
        open_agent_memory_apart,
        LOCK,
        forget=agent_memory.clear_session,
    ),
)
