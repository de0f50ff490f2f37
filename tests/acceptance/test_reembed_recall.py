"""While a memory gets new vectors, and afterwards, every question is answered as well as before."""

from __future__ import annotations

import asyncio
import statistics
import uuid
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from benchmarks.quality import chats, ingest
from benchmarks.quality.answers import ask_questions
from benchmarks.quality.dialogue import Conversation
from tests.conftest import Server

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.embeddings import EmbedderAdapter
from adk_graph_memory.embeddings.local import LocalEmbedder
from adk_graph_memory.reembedding import reembed_texts
from adk_graph_memory.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.schema, pytest.mark.xdist_group("reembed")]
APP_NAME = "switch"


class Renamed(LocalEmbedder):
    """The same model under another name, so that its vectors are another embedder's."""

    embedder_name = "renamed"


class Users:
    """Users of the chats and what they were asked; ``settings`` have labels of their own."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.conversations = settings, chats.load()[:1]

    def open_memory(self, embedder: Any = None) -> Neo4jMemoryService:
        return Neo4jMemoryService(memory=GraphMemory(settings=self.settings, model="rules", embedder=embedder))

    async def measure_recall(self, memory: Neo4jMemoryService) -> float:
        """Ask each question; no search may fail, or do without vectors."""

        async def search(user_id: str, question: str) -> list[Any]:
            recollections = await memory.memory.recall(question, app_name=APP_NAME, user_id=user_id)
            assert {recollection.degraded for recollection in recollections} == {None}
            return (await memory.search_memory(app_name=APP_NAME, user_id=user_id, query=question)).memories

        return statistics.fmean(answer.recall for answer in await ask_questions(search, self.conversations, first=10))


@pytest.fixture
async def users(neo4j_server: Server) -> AsyncIterator[Users]:
    users = Users(neo4j_server.settings(label_prefix=f"W{uuid.uuid4().hex[:10]}"))
    async with Neo4jSessionService(settings=users.settings) as sessions, users.open_memory() as memory:

        async def remember(conversation: Conversation) -> None:
            await ingest.remember(conversation, sessions, memory, app_name=APP_NAME)

        await asyncio.gather(*map(remember, users.conversations))
    yield users


@pytest.mark.parametrize("is_kept", [False, True], ids=["same_embedder", "another_embedder"])
async def test_recall_never_falls(users: Users, is_kept: bool) -> None:
    async with users.open_memory() as memory, users.open_memory(Renamed()) as restarted:
        before = await users.measure_recall(memory)
        vectors = EmbedderAdapter(Renamed() if is_kept else None, users.settings)
        reembed = partial(reembed_texts, memory.memory.connection, vectors, keep_old=is_kept, force=not is_kept)
        job, recalls = asyncio.create_task(reembed(batch=32)), list[float]()
        while not job.done():
            recalls.append(await users.measure_recall(memory))
        assert (await job).is_switched
        recalls += [await users.measure_recall(memory), await users.measure_recall(restarted if is_kept else memory)]
    print(f"recall before {before:.3f}, then {[round(recall, 3) for recall in recalls]}")
    assert len(recalls) > 3
    assert min(recalls) >= before
