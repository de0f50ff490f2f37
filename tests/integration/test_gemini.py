"""Memory with Gemini on both sides, by its names alone: what reads facts, and what makes vectors."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from neo4j_graphrag.embeddings import GeminiEmbedder as PlainEmbedder
from tests.support.fake_gemini import FakeGemini, Part, Request, embedded, refused

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.models.gemini import GeminiEmbedder

pytestmark = pytest.mark.slow

PREFIX, SIZE = "TestGemini", 64
NAMES = {"model": "gemini-2.5-flash", "embedder": "gemini-embedding-001", "embed_dimensions": SIZE}
BEES, QUESTION = "I keep bees in the garden", "Does she keep bees?"
Make = Callable[..., GraphMemory]


def read(request: Request) -> Part:
    """Every turn as a fact."""
    _, first, rest = request["contents"][0]["parts"][0]["text"].rpartition('{"turn": 0')  # behind the prompt's examples
    turns = [json.loads(line) for line in (first + rest).splitlines() if line.startswith('{"turn"')]
    facts = [
        {"ref": n, "subject": 1, "predicate": "says", "turns": [n], "text": said["text"], "quote": said["text"]}
        for n, said in enumerate(turns)
    ]
    return {"text": json.dumps({"entities": [{"ref": 1, "name": "user"}], "facts": facts})}


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    with FakeGemini(read, keeps_alive=False) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture
async def make(neo4j_server: Any) -> AsyncIterator[Make]:
    made: list[GraphMemory] = []

    def memory(embedder: Any = None, **chosen: Any) -> GraphMemory:
        settings = neo4j_server.settings(**{"label_prefix": PREFIX, **NAMES, **chosen})
        made.append(GraphMemory(settings=settings, embedder=embedder))
        return made[-1]

    yield memory
    for one in made:
        await one.close()


def turn(text: str, id: str = "t0") -> Turn:
    return Turn(id, "user", text, datetime(2026, 5, 4, 12, tzinfo=UTC))


def asked(gemini: FakeGemini, verb: str) -> list[Request]:
    return [body for path, body in zip(gemini.paths, gemini.requests, strict=True) if path.endswith(f":{verb}")]


async def test_remembering_and_recalling_go_through_gemini(make: Make, gemini: FakeGemini, owner: Any) -> None:
    memory = make()
    report = await memory.remember([turn(BEES), turn("My car is yellow", "t1")], session_id="s", **owner)
    assert (report.facts, report.unembedded, report.usage.calls) == ({"ADD": 2}, 0, 1)
    [extraction], [stored] = asked(gemini, "generateContent"), asked(gemini, "batchEmbedContents")
    assert "responseSchema" in extraction["generationConfig"]
    assert {BEES, "My car is yellow"} <= set(embedded(stored))
    assert {one["taskType"] for one in stored["requests"]} == {"RETRIEVAL_DOCUMENT"}

    found = await memory.recall(QUESTION, explain=True, **owner)
    assert (found[0].text, found[0].degraded) == (BEES, None)
    assert "vector" in {share.signal for share in found[0].shares}
    [question] = asked(gemini, "batchEmbedContents")[1:]
    assert [one["taskType"] for one in question["requests"]] == ["RETRIEVAL_QUERY"]
    assert len(asked(gemini, "generateContent")) == 1


async def test_an_address_names_both(neo4j_server: Any, gemini: FakeGemini, owner: Any) -> None:
    scheme, _, place = neo4j_server.uri.partition("://")
    username, password = (quote(one, safe="") for one in neo4j_server.auth)
    chosen = "&".join(f"{name}={value}" for name, value in {**NAMES, "label_prefix": PREFIX}.items())
    async with GraphMemory(f"{scheme}://{username}:{password}@{place}?{chosen}") as memory:
        report = await memory.remember([turn(BEES)], session_id="s", **owner)
        assert (report.facts, report.unembedded) == ({"ADD": 1}, 0)
        assert [found.text for found in await memory.recall(QUESTION, **owner)] == [BEES]
    [first, *_] = asked(gemini, "batchEmbedContents")
    assert first["requests"][0]["outputDimensionality"] == SIZE


def test_one_memory_serves_many_event_loops(neo4j_server: Any, gemini: FakeGemini, owner: Any) -> None:
    memory = GraphMemory(settings=neo4j_server.settings(label_prefix=PREFIX, **NAMES))

    async def once(number: int) -> None:
        async with memory:
            report = await memory.remember([turn(BEES, f"t{number}")], session_id="s", **owner)
            assert report.unembedded == 0
            assert {found.degraded for found in await memory.recall(f"bees {number}", **owner)} == {None}

    for number in range(3):
        asyncio.run(once(number))


async def test_the_same_model_by_another_class_fits_and_other_dimensions_do_not(
    make: Make, gemini: FakeGemini, owner: Any
) -> None:
    await make().remember([turn(BEES)], session_id="s", **owner)
    for same in (PlainEmbedder(embedding_dim=SIZE), GeminiEmbedder("models/gemini-embedding-001", SIZE)):
        [found, *_] = await make(same).recall(QUESTION, **owner)
        assert (found.text, found.degraded) == (BEES, None)
    with pytest.raises(errors.EmbedderMismatch, match=r"(?s)64 numbers each.*128 numbers each"):
        await make(embed_dimensions=128).recall(QUESTION, **owner)
    with pytest.raises(errors.EmbedderMismatch, match=r"(?s)gemini-embedding-001.*gemini-embedding-2"):
        await make(embedder="gemini-embedding-2").recall(QUESTION, **owner)


async def test_what_could_not_be_embedded_is_found_by_its_words_and_embedded_later(
    make: Make, gemini: FakeGemini, owner: Any
) -> None:
    memory = make()
    await memory.remember([turn("Hello")], session_id="s", **owner)
    gemini.broken["batchEmbedContents"] = refused(400, "INVALID_ARGUMENT", "not today")
    report = await memory.remember([turn(BEES, "t1")], session_id="s", **owner)
    assert report.unembedded > 0
    [found, *_] = await memory.recall(QUESTION, **owner)
    assert found.text == BEES
    assert "not today" in (found.degraded or "")
    gemini.broken.clear()
    await memory.remember([turn("Good night", "t2")], session_id="s", **owner)
    assert BEES in embedded(asked(gemini, "batchEmbedContents")[-1])
    [found, *_] = await memory.recall(QUESTION, **owner)
    assert (found.text, found.degraded) == (BEES, None)


async def test_without_a_key_no_model_is_paid_and_nothing_is_lost(
    make: Make,
    gemini: FakeGemini,
    owner: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    memory = make()
    with pytest.raises(errors.CredentialsMissing, match="GOOGLE_API_KEY"):
        await memory.remember([turn(BEES)], session_id="s", **owner)
    with pytest.raises(errors.CredentialsMissing, match="GOOGLE_API_KEY"):
        await memory.recall(QUESTION, **owner)
    assert gemini.requests == []
    gc.collect()
    await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    [report] = await memory.resume(**owner)
    assert (report.facts, report.unembedded) == ({"ADD": 1}, 0)


async def test_users_share_the_calls_that_a_process_may_make(make: Make, gemini: FakeGemini, app_name: str) -> None:
    reading, most = 0, 0

    def counted(request: Request) -> Part:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        time.sleep(0.02)
        reading -= 1
        return read(request)

    gemini.answer = counted
    memories = [make(model_concurrency=2, window_tokens=500) for _ in range(2)]
    turns = [turn(f"{n} " + "bees " * 300, f"t{n}") for n in range(4)]
    await asyncio.gather(
        *(
            memory.remember(turns, session_id="s", app_name=app_name, user_id=user)
            for memory in memories
            for user in ("ada", "bob")
        )
    )
    assert len(asked(gemini, "generateContent")) >= 8
    assert most == 2


WITHOUT_TORCH = """
import asyncio, sys
from datetime import UTC, datetime
from adk_graph_memory import GraphMemory, Settings, Turn

async def main():
    uri, user, password, app = sys.argv[1:]
    settings = Settings(uri=uri, username=user, password=password)
    owner = {"app_name": app, "user_id": "ada"}
    async with GraphMemory(settings=settings) as memory:
        await memory.remember([Turn("t", "user", "I keep bees", datetime.now(UTC))], session_id="s", **owner)
        found = await memory.recall("bees", **owner)
    heavy = [name for name in ("torch", "sentence_transformers", "transformers") if name in sys.modules]
    print([one.degraded for one in found], heavy)

asyncio.run(main())
"""


async def test_with_gemini_torch_is_never_imported(
    neo4j_server: Any, gemini: FakeGemini, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**NAMES, "label_prefix": PREFIX, "model": "rules"}.items():
        monkeypatch.setenv(f"ADK_GRAPH_MEMORY_{name.upper()}", str(value))
    script = [sys.executable, "-c", WITHOUT_TORCH, neo4j_server.uri, *neo4j_server.auth, app_name]
    ran = await asyncio.to_thread(subprocess.run, script, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("[None] []", 0), ran.stderr
    assert len(asked(gemini, "batchEmbedContents")) == 2
