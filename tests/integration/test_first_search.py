"""The first search of a process: the model is loaded meanwhile, and an agent does not wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pytest

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Turn, errors
from adk_graph_memory.memory import vectors as memory_vectors
from adk_graph_memory.models.light import LightEmbedder
from adk_graph_memory.runtime.settings import load_settings
from adk_graph_memory.testing import ScriptedLlm

TOLD = ["I keep bees on the roof.", "My boat is called Rex.", "We paint ships on the harbour wall."]
ASKED = "What insects do I have?"


class SlowEmbedder(LightEmbedder):
    """The default model; it is there once ``may_load`` is set, or fails at first as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_load, self.is_called, self.calls = threading.Event(), threading.Event(), 0
        self.failure: Exception | None = None

    @property
    def embedder_name(self) -> str:
        return LightEmbedder(self.model).embedder_name

    @cached_property
    def loaded_model(self) -> Any:
        self.calls += 1
        self.is_called.set()
        assert self.may_load.wait(60)
        if self.failure and self.calls == 1:
            raise self.failure
        return LightEmbedder(self.model).loaded_model


@pytest.fixture
def owner(app_name: str) -> dict[str, str]:
    return {"app_name": app_name, "user_id": "ann"}


@pytest.fixture
async def settings(neo4j_server: Any, owner: dict[str, str]) -> Any:
    settings = neo4j_server.settings(first_search_wait=0.05)
    turns = [Turn(f"t{n}", "user", text, datetime(2026, 5, n + 1, tzinfo=UTC)) for n, text in enumerate(TOLD)]
    async with GraphMemory(settings=settings, model="rules") as memory:
        await memory.remember(turns, session_id="s", **owner)
    return settings


@pytest.fixture
def embedder() -> Iterator[SlowEmbedder]:
    embedder = SlowEmbedder()
    yield embedder
    embedder.may_load.set()


async def wait_until_planned(service: Neo4jMemoryService) -> None:
    """Only the embedder is to be waited for."""
    await service.memory.connection.prepare()
    await service.memory.connection.planner.wait_until_planned()


@pytest.mark.slow
async def test_an_agents_first_search_goes_by_full_text_and_its_second_is_a_warm_processs(settings, owner, embedder):
    async with Neo4jMemoryService(memory=GraphMemory(settings=settings)) as service:
        await service.prepare()
        warm = await service.search_memory(query=ASKED, **owner)
    async with Neo4jMemoryService(memory=GraphMemory(settings=settings, embedder=embedder)) as service:
        await wait_until_planned(service)
        first = await service.search_memory(query="bees", **owner)
        assert "still being loaded" in first.memories[0].custom_metadata["degraded"]
        second = asyncio.create_task(service.search_memory(query=ASKED, **owner))
        await asyncio.sleep(0.5)
        assert not second.done()
        embedder.may_load.set()
        assert await second == warm
    assert "bees" in warm.memories[0].content.parts[0].text
    assert "degraded" not in warm.memories[0].custom_metadata


@pytest.mark.slow
async def test_the_model_is_loaded_when_a_service_is_made_and_once(settings, owner, embedder):
    embedder.may_load.set()
    async with Neo4jMemoryService(memory=GraphMemory(settings=settings, embedder=embedder)) as service:
        assert await asyncio.to_thread(embedder.is_called.wait, 60)
        await asyncio.gather(*(service.search_memory(query=ASKED, **owner) for _ in range(3)))
    assert embedder.calls == 1


@pytest.mark.slow
async def test_a_model_that_is_there_is_used_however_short_the_wait(settings, owner, embedder):
    embedder.may_load.set()
    hasty = load_settings(**settings.model_dump(), first_search_wait=0.0)
    async with Neo4jMemoryService(memory=GraphMemory(settings=hasty, embedder=embedder)) as service:
        await service.memory.engine.vectors.embedder.wait_until_ready()
        await wait_until_planned(service)
        found = await service.search_memory(query=ASKED, **owner)
    assert "degraded" not in found.memories[0].custom_metadata


async def test_what_the_environment_says_after_a_service_is_made_still_counts(monkeypatch):
    for name in ("NEO4J_URI", "NEO4J_PASSWORD", "ADK_GRAPH_MEMORY_EMBEDDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("adk_graph_memory.models.embedder.EmbedderAdapter.start_loading", lambda vectors: None)
    service = Neo4jMemoryService("neo4j://db")
    monkeypatch.setenv("NEO4J_PASSWORD", "later")
    monkeypatch.setenv("ADK_GRAPH_MEMORY_EMBEDDER", "gemini-embedding-001")
    assert service.memory.connection.settings.password.get_secret_value() == "later"
    assert service.memory.engine.vectors.embedder.name.endswith("gemini-embedding-001")


@pytest.mark.slow
async def test_recall_waits_for_the_model(settings, owner, embedder):
    async with GraphMemory(settings=settings, embedder=embedder) as memory:
        asked = asyncio.create_task(memory.recall(ASKED, **owner))
        await asyncio.sleep(0.5)
        assert not asked.done()
        embedder.may_load.set()
        assert (await asked)[0].degraded is None


FAILURES = {errors.EmbedderMissing: errors.EmbedderMissing(reason="the disk is full")}
FAILURES[errors.EmbedderFailed] = RuntimeError("the disk is full")


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILURES)
async def test_a_model_that_cannot_be_loaded_is_named_and_tried_again(settings, owner, embedder, kind):
    embedder.failure = FAILURES[kind]
    embedder.may_load.set()
    async with GraphMemory(settings=settings, embedder=embedder) as memory:
        if kind is errors.EmbedderMissing:
            with pytest.raises(kind, match="the disk is full"):
                await memory.recall(ASKED, **owner)
        else:
            assert "the disk is full" in (await memory.recall("bees", **owner))[0].degraded
        assert (await memory.recall(ASKED, **owner))[0].degraded is None


@pytest.mark.parametrize("kind", FAILURES)
async def test_an_agent_goes_by_words_without_its_model_and_says_so_once(
    settings, owner, embedder, kind, caplog, monkeypatch
):
    embedder.failure = FAILURES[kind]
    embedder.may_load.set()
    async with Neo4jMemoryService(memory=GraphMemory(settings=settings, embedder=embedder)) as service:
        await wait_until_planned(service)
        for _ in range(3):
            [first, *_] = (await service.search_memory(query="bees", **owner)).memories
            assert "the disk is full" in first.custom_metadata["degraded"]
        assert embedder.calls == 1
        [line] = [record.getMessage() for record in caplog.records if record.name.startswith("adk_graph_memory")]
        assert "full text alone" in line
        assert "the disk is full" in line
        monkeypatch.setattr(memory_vectors, "LOAD_RETRY_PAUSE", 0.0)
        await service.search_memory(query=ASKED, **owner)  # it begins to load the model again
        found = await service.search_memory(query=ASKED, **owner)
        assert "degraded" not in found.memories[0].custom_metadata


LATE = Turn("late", "user", "My boat needs paint.", datetime(2026, 6, 1, tzinfo=UTC))


@pytest.mark.slow
async def test_a_model_that_cannot_be_loaded_leaves_the_turns_stored_and_says_so(settings, owner, embedder, caplog):
    embedder.failure = errors.EmbedderMissing(reason="the disk is full")
    embedder.may_load.set()
    async with GraphMemory(settings=settings, model="rules", embedder=embedder) as memory:
        with pytest.raises(errors.EmbedderMissing, match=r"the disk is full.*stored and pending.*ingest --pending"):
            await memory.remember([LATE], session_id="s", **owner)
        [report] = await memory.resume(**owner)
        assert report.turns == 1
    assert not caplog.records  # whoever called has the error


def list_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("adk_graph_memory")]


@pytest.mark.slow
@pytest.mark.parametrize("is_closed_first", [True, False])
async def test_a_wrong_embedder_is_logged_though_its_service_closes_before_it_is_needed(
    settings, embedder, caplog, is_closed_first
):
    embedder.failure = RuntimeError("the disk is full")
    service = Neo4jMemoryService(memory=GraphMemory(settings=settings, embedder=embedder))
    if not is_closed_first:
        embedder.may_load.set()
        with suppress(RuntimeError):
            await asyncio.wrap_future(service.memory.engine.vectors.embedder._loading_future)
    await service.close()
    embedder.may_load.set()
    for _ in range(6_000):
        if list_lines(caplog):
            break
        await asyncio.sleep(0.01)
    await service.close()
    [line] = list_lines(caplog)
    assert "the disk is full" in line


WRONG_PARTS = {
    "unknown model": ({"model": "no-such-model"}, errors.ConfigurationError, "no-such-model"),
    "model without a key": ({"model": "gemini-flash-latest"}, errors.ConfigurationError, "GOOGLE_API_KEY"),
    "no model": ({"model": 5}, errors.InvalidArgument, "neither the name of a model"),
    "unknown topic": ({"topics": ["HOBBIES"]}, errors.ConfigurationError, "HOBBIES.*only USER_PERSONAL_INFO"),
    "unknown embedder": ({"embedder": "/no/such/folder"}, errors.EmbeddingModelMissing, "/no/such/folder"),
    "embedder without vectors": ({"embedder": lambda text: []}, errors.EmbedderFailed, "dimensions"),
    "another embedder": ({"embedder": lambda text: [1.0, 2.0]}, errors.EmbedderMismatch, "reembed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", WRONG_PARTS)
async def test_a_wrong_part_is_named_before_the_first_conversation(settings, part):
    chosen, kind, reason = WRONG_PARTS[part]
    async with Neo4jMemoryService(memory=GraphMemory(settings=settings, **chosen)) as service:
        with pytest.raises(kind, match=reason):
            await service.prepare()


@pytest.mark.slow
async def test_preparing_asks_the_model_nothing(settings):
    model = ScriptedLlm.from_replies("Hello.")
    async with GraphMemory(settings=settings, model=model) as memory:
        await memory.prepare()
    assert model.requests == []


@pytest.mark.parametrize("embedder", [5, True, LightEmbedder, object()])
def test_what_is_no_embedder_is_refused_at_once(embedder):
    with pytest.raises(errors.InvalidArgument, match="a function from text to a list of numbers"):
        Neo4jMemoryService(embedder=embedder)


async def test_agents_whose_settings_are_read_later_load_no_model_before(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(
        "adk_graph_memory.models.embedder.EmbedderAdapter.start_loading", lambda vectors: started.append(vectors)
    )
    Neo4jMemoryService("bolt://127.0.0.1:1", agents_dir=str(tmp_path))
    assert not started
    Neo4jMemoryService("bolt://127.0.0.1:1")
    assert len(started) == 1
