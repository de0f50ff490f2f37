"""What callers get wrong is named at once, loses nothing and leaves nothing half done."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from adk_graph_memory import GraphMemory, Turn, errors, graph
from adk_graph_memory.cli import app
from adk_graph_memory.records import Scope, Statement
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOW = datetime(2025, 5, 1, 12, tzinfo=UTC)
EMPTY = '{"entities": [], "facts": []}'


@pytest.fixture
async def memory(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=HashEmbedder()) as memory:
        yield memory


def turn(text: str, id: str = "t1") -> Turn:
    return Turn(id, author="user", text=text, at=NOW)


def owner(app_name: str) -> dict[str, Any]:
    return {"app_name": app_name, "user_id": "ann"}


async def test_metadata_whose_keys_are_no_text_is_refused_and_recall_goes_on(memory, app_name):
    with pytest.raises(errors.ConfigurationError, match="keys have to be text"):
        await memory.remember([turn("I keep bees in here")], session_id="s", metadata={1: "x"}, **owner(app_name))
    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    assert await memory.recall("bees", **owner(app_name))


async def test_metadata_may_hold_dates(memory, app_name):
    await memory.remember([turn("I keep bees in here")], session_id="s", metadata={"seen": NOW}, **owner(app_name))
    found = await memory.recall("bees", **owner(app_name))
    assert [one.metadata["seen"] for one in found if one.kind == "event"] in ([], ["2025-05-01T12:00:00Z"])


async def test_a_failure_that_cannot_be_written_down_as_it_is_still_frees_the_claim(neo4j_server, app_name):
    model = ScriptedLlm.of(RuntimeError("bo\ud800om"), EMPTY)
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        with pytest.raises(errors.ModelFailed):
            await memory.remember([turn("I keep bees")], session_id="s", **owner(app_name))
        report = await memory.remember([turn("I keep bees")], session_id="s", **owner(app_name))
        assert (report.turns, report.busy) == (1, 0)


async def test_sessions_that_say_the_same_at_once_make_one_fact(memory, app_name):
    await memory.prepare()
    await asyncio.gather(
        *(
            memory.remember([turn("I keep bees in the garden.", f"t{n}")], session_id=f"s{n}", **owner(app_name))
            for n in range(4)
        )
    )
    counts = await graph.memories.counts(memory.connection, Scope(app_name, "ann"))
    assert (counts["facts"], counts["turns"]) == (1, 4)


async def test_a_limit_of_none_at_all_finds_nothing_and_a_negative_one_is_refused(memory, app_name):
    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    assert await memory.recall("bees", limit=0, **owner(app_name)) == []
    assert await memory.recall("bees", token_budget=0, **owner(app_name)) == []
    with pytest.raises(errors.ConfigurationError, match="limit=-1"):
        await memory.recall("bees", limit=-1, **owner(app_name))


@pytest.mark.parametrize("kind", [Turn, Statement])
def test_a_time_without_a_zone_is_refused(kind):
    with pytest.raises(errors.ConfigurationError, match="no time zone"):
        if kind is Turn:
            Turn("t", author="user", text="x", at=datetime(2025, 5, 1))
        else:
            Statement("x", at=datetime(2025, 5, 1))


async def test_one_id_is_forgotten_as_well_as_a_list(memory, app_name):
    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    [found] = await memory.recall("bees", **owner(app_name))
    receipt = await memory.forget(found.id, **owner(app_name))
    assert receipt.facts + receipt.events >= 1


async def test_an_embedder_that_gives_only_zeros_leaves_the_search_to_full_text(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestZeros")
    async with GraphMemory(settings=settings, embedder=lambda text: [0.0] * 64) as memory:
        report = await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        assert report.unembedded > 0
        [found, *_] = await memory.recall("bees", **owner(app_name))
        assert found.degraded


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("RETURN node.memory_id AS id, score", "returns no text"),
        ("RETURN node.memory_id AS id", "returns no score and no text"),
        ("RETRUN node.text AS text, score", "RETRUN"),
        ("RETURN nobody.text AS text, score", "nobody"),
        ("SET node.text = '' RETURN node.text AS text, score", "only read"),
    ],
)
async def test_a_retrieval_query_that_cannot_be_is_refused_before_it_runs(neo4j_server, app_name, query, reason):
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        for asked in (memory.retriever(**owner(app_name)), memory.recall("bees", **owner(app_name))):
            with pytest.raises(errors.ConfigurationError, match=f"(?s)retrieval_query.*{reason}"):
                await asked


async def test_a_retrieval_query_is_planned_once_and_may_have_parameters(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    query = "RETURN node.text + coalesce($mark, '') AS text, score"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        retriever = await memory.retriever(**owner(app_name))
        found = await asyncio.to_thread(retriever.search, "bees", query_params={"mark": "!"})
        assert {item.content for item in found.items} == {"I keep bees in here!"}


async def test_half_a_character_is_refused_by_name(memory, app_name):
    with pytest.raises(errors.NoUnicode, match="surrogate"):
        await memory.remember([turn("bees \ud800")], session_id="s", **owner(app_name))
    with pytest.raises(errors.NoUnicode):
        await memory.recall("bees", app_name=app_name, user_id="\ud800") or await memory.remember(
            [turn("bees")], session_id="s", app_name=app_name, user_id="\ud800"
        )


async def test_a_statement_is_forgotten_by_its_own_id(memory, app_name):
    await memory.add([Statement("The gate code is 4711.", at=NOW, id="gate")], **owner(app_name))
    assert (await memory.forget("gate", **owner(app_name))).facts == 1
    assert await memory.recall("gate code", **owner(app_name)) == []


async def test_the_wrong_embedder_is_noticed_before_a_model_is_paid(neo4j_server, memory, app_name):
    class Another(HashEmbedder):
        pass

    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    model = ScriptedLlm.of(EMPTY)
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model=model, embedder=Another()) as other:
        with pytest.raises(errors.EmbedderMismatch, match="Another"):
            await other.remember([turn("I keep cats in here", "t2")], session_id="s", **owner(app_name))
    assert model.requests == []
    assert (await memory.remember([turn("I keep cats in here", "t2")], session_id="s", **owner(app_name))).turns == 1


async def test_an_embedder_that_hangs_leaves_the_vectors_for_later(neo4j_server, app_name):
    class Hanging(HashEmbedder):
        def embed_documents(self, texts):
            time.sleep(2)
            return super().embed_documents(texts)

    settings = neo4j_server.settings(label_prefix="TestHanging", lease=1)
    async with GraphMemory(settings=settings, embedder=Hanging()) as memory:
        report = await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    assert (report.turns, report.embedded) == (1, 0)
    assert report.unembedded > 0


async def test_a_retriever_hands_on_metadata_of_an_own_column(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    query = "RETURN node.text AS text, score, {own: 1} AS metadata"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        retriever = await memory.retriever(**owner(app_name))
        found = await asyncio.to_thread(retriever.search, "bees")
        assert found.items[0].metadata["metadata"] == {"own": 1}


def test_filters_that_cannot_be_are_told_in_a_line():
    asked = ["recall", "bees", "--app", "a", "--user", "b", "--since", "2026-02-01", "--until", "2026-01-01"]
    result = CliRunner().invoke(app, asked, env={"NEO4J_URI": "bolt://127.0.0.1:1"})
    assert result.exit_code == 1
    assert "later than until" in " ".join(result.output.split())


def test_a_turn_without_text_is_named():
    with pytest.raises(errors.ConfigurationError, match="None is no text"):
        turn(None)
