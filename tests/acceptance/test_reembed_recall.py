"""While a memory gets new vectors, and afterwards, every question is answered as well as before."""

from __future__ import annotations

import asyncio
import statistics
import uuid
from functools import partial
from typing import Any

import pytest
from benchmarks.quality import chats, ingest
from benchmarks.quality.answers import ask_questions
from tests.conftest import Server

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.memory.jobs.reembedding import reembed_texts
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.runtime.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.schema, pytest.mark.xdist_group("reembed")]
APP_NAME = "switch"


class Renamed(LocalEmbedder):
    """The same model under another name, so that its vectors are another embedder's."""

    embedder_name = "renamed"


class Memory:
    """The memory of one user of the chats; ``settings`` have labels of their own."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.conversation = settings, chats.load()[0]

    def open_service(self, embedder: Any = None) -> Neo4jMemoryService:
        return Neo4jMemoryService(memory=GraphMemory(settings=self.settings, model="rules", embedder=embedder))

    async def measure_recall(self, service: Neo4jMemoryService) -> float:
        """Ask each question; no search may fail, or do without vectors."""

        async def search(user_id: str, question: str) -> list[Any]:
            recollections = await service.memory.recall(question, app_name=APP_NAME, user_id=user_id)
            assert {recollection.degraded for recollection in recollections} == {None}
            return [memory_codec.make_memory_entry(recollection) for recollection in recollections]

        answers = await ask_questions(search, [self.conversation], first=10)
        return statistics.fmean(answer.recall for answer in answers)


@pytest.fixture
async def memory(neo4j_server: Server) -> Memory:
    memory = Memory(neo4j_server.settings(label_prefix=f"W{uuid.uuid4().hex[:10]}"))
    async with Neo4jSessionService(settings=memory.settings) as sessions, memory.open_service() as service:
        await ingest.remember(memory.conversation, sessions, service, app_name=APP_NAME)
    return memory


@pytest.mark.parametrize("is_kept", [False, True], ids=["same_embedder", "another_embedder"])
async def test_recall_never_falls(memory: Memory, is_kept: bool) -> None:
    async with memory.open_service() as running, memory.open_service(Renamed()) as restarted:
        before = await memory.measure_recall(running)
        vectors = EmbedderAdapter(Renamed() if is_kept else None, memory.settings)
        reembed = partial(reembed_texts, running.memory.connection, vectors, keep_old=is_kept, force=not is_kept)
        job, recalls = asyncio.create_task(reembed(batch=32)), list[float]()
        while not job.done():
            recalls.append(await memory.measure_recall(running))
        assert (await job).is_switched
        recalls += [await memory.measure_recall(service) for service in (running, restarted if is_kept else running)]
    print(f"recall before {before:.3f}, then {[round(recall, 3) for recall in recalls]}")
    assert len(recalls) > 3
    assert min(recalls) >= before
