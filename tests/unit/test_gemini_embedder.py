"""Gemini's embedding models over the wire: each way in which they go wrong without a word is a test."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from neo4j_graphrag.embeddings import GeminiEmbedder as PlainEmbedder
from tests.support.fake_gemini import HANG, FakeGemini, embedded, refused, vector

from adk_graph_memory import errors
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.gemini import EMPTY_PLACEHOLDER, MAX_REQUEST_CHARACTERS, MAX_REQUEST_TEXTS, GeminiEmbedder
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.records.turns import Passage
from adk_graph_memory.runtime.settings import Limits, Settings

SIZE = 8
MODELS = ("gemini-embedding-001", "gemini-embedding-2")


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    with FakeGemini() as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture(params=["Gemini API", "Vertex AI"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Vertex AI by a key alone ("express"), the one way to it that the environment can lead elsewhere."""
    if request.param == "Vertex AI":
        monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    return str(request.param)


def embedder(model: str = MODELS[0], **options: Any) -> GeminiEmbedder:
    gemini_embedder = GeminiEmbedder(model, SIZE, **options)
    gemini_embedder.retry_pause = 0.001
    return gemini_embedder


def near(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


@pytest.mark.parametrize("model", [*MODELS, "text-embedding-005"])
@pytest.mark.usefixtures("service")
def test_every_text_gets_a_vector_of_its_own(gemini: FakeGemini, model: str) -> None:
    texts = ["bees in a hive", "a yellow car", "the spare key"]
    vectors = embedder(model).embed_documents(texts)
    sent = [text for request in gemini.requests for text in embedded(request)]
    assert len(sent) == len(vectors) == 3
    assert all(text in prefixed_text for text, prefixed_text in zip(texts, sent, strict=True))
    assert min(
        near(embedded_vector, vector(text, SIZE)) for embedded_vector, text in zip(vectors, sent, strict=True)
    ) == pytest.approx(1.0)


@pytest.mark.parametrize("model", [*MODELS, "text-embedding-005"])
@pytest.mark.parametrize("blank", ["", " ", "\n"])
@pytest.mark.usefixtures("service")
def test_an_empty_text_shifts_no_vector(gemini: FakeGemini, model: str, blank: str) -> None:
    first, nothing, last = embedder(model).embed_documents(["bees", blank, "car"])
    assert [text for request in gemini.requests for text in embedded(request)][1].endswith(EMPTY_PLACEHOLDER)
    assert embedder(model).embed_documents(["bees", "car"]) == [first, last]
    assert nothing not in (first, last)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_vectors_is_an_error(gemini: FakeGemini, count: int) -> None:
    gemini.script = [(200, {"embeddings": [{"values": [1.0] * SIZE}] * count})]
    with pytest.raises(errors.EmbedderFailed, match=f"{count} vectors for 2 texts"):
        embedder().embed_documents(["a", "b"])


def test_a_question_and_what_it_is_compared_with_are_different_tasks(gemini: FakeGemini) -> None:
    embedder().embed_documents(["bees", "car"])
    embedder().embed_query("bees?")
    document_call, question_call = gemini.requests
    assert [request["taskType"] for request in document_call["requests"]] == ["RETRIEVAL_DOCUMENT"] * 2
    assert [request["taskType"] for request in question_call["requests"]] == ["RETRIEVAL_QUERY"]


@pytest.mark.usefixtures("service")
def test_a_model_that_knows_no_tasks_is_told_in_words(gemini: FakeGemini) -> None:
    embedder("gemini-embedding-2").embed_documents(["bees"])
    embedder("gemini-embedding-2").embed_query("bees?")
    assert list(map(embedded, gemini.requests)) == [
        ["title: none | text: bees"],
        ["task: search result | query: bees?"],
    ]
    assert "task" not in str(gemini.requests[0]).lower()


def test_texts_go_in_requests_of_as_many_as_the_service_takes(gemini: FakeGemini) -> None:
    texts = [f"text {n}" for n in range(2 * MAX_REQUEST_TEXTS + 1)]
    assert len(embedder().embed_documents(texts)) == len(texts)
    assert [len(embedded(request)) for request in gemini.requests] == [MAX_REQUEST_TEXTS, MAX_REQUEST_TEXTS, 1]
    assert [text for request in gemini.requests for text in embedded(request)] == texts


def test_a_request_has_no_more_characters_than_the_service_takes(gemini: FakeGemini) -> None:
    texts = ["x" * (MAX_REQUEST_CHARACTERS // 2 - 1)] * 5 + ["long " * MAX_REQUEST_CHARACTERS, "short"]
    assert len(embedder().embed_documents(texts)) == 7
    assert [len(embedded(request)) for request in gemini.requests] == [2, 2, 1, 1, 1]
    assert max(len("".join(embedded(request))) for request in gemini.requests) == MAX_REQUEST_CHARACTERS


def test_vectors_are_as_long_as_was_chosen_and_of_length_one(gemini: FakeGemini) -> None:
    bees_vector = embedder().embed_documents(["bees in a hive"])[0]
    assert gemini.requests[0]["requests"][0]["outputDimensionality"] == len(bees_vector) == SIZE
    assert math.hypot(*vector("bees in a hive", SIZE)) == pytest.approx(2.0)
    assert math.hypot(*bees_vector) == pytest.approx(1.0)


@pytest.mark.parametrize("chosen", [PlainEmbedder, GeminiEmbedder])
def test_one_embedder_serves_many_event_loops(gemini: FakeGemini, chosen: Any) -> None:
    vectors = EmbedderAdapter(chosen(), Settings(limits=Limits(embed_concurrency=2)))
    for _ in range(3):
        assert len(asyncio.run(vectors.embed_passages([Passage("a"), Passage("b")]))) == 2
        assert len(asyncio.run(vectors.aembed_question("a")).vector) == 768


def test_it_can_be_awaited_in_many_event_loops(gemini: FakeGemini) -> None:
    gemini_embedder = embedder()
    assert [len(asyncio.run(gemini_embedder.async_embed_query("a"))) for _ in range(3)] == [SIZE] * 3


# -- what fails -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_passes_is_tried_again(gemini: FakeGemini, status: int) -> None:
    gemini.script = [refused(status, "UNAVAILABLE"), (502, b"<html>"), (200, b'{"embeddings": [')]
    assert len(embedder().embed_documents(["bees"])) == 1
    assert len(gemini.requests) == 4


def test_what_does_not_pass_is_not_tried_again(gemini: FakeGemini) -> None:
    gemini.script = [refused(400, "INVALID_ARGUMENT", "no such thing")]
    with pytest.raises(Exception, match="no such thing"):
        embedder().embed_documents(["bees"])
    assert len(gemini.requests) == 1


class PauseClock:
    """A clock that only pauses move on; nobody waits for them."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("method", "seconds"), [("embed_documents", 600), ("embed_query", 60)])
def test_trying_again_has_an_end(
    gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch, method: str, seconds: float
) -> None:
    monkeypatch.setattr("adk_graph_memory.models.gemini.time", clock := PauseClock())
    gemini.script = [refused(429, "RESOURCE_EXHAUSTED", "too many")] * 1000
    gemini_embedder = embedder(timeout=60, retry_time=600)
    gemini_embedder.retry_pause = 1.0
    with pytest.raises(Exception, match="too many"):
        getattr(gemini_embedder, method)("bees" if method == "embed_query" else ["bees"])
    assert 5 <= len(gemini.requests) <= 11
    assert seconds / 8 < clock.now < seconds


@pytest.mark.slow
def test_a_service_that_hangs_is_given_up_and_asked_again(gemini: FakeGemini) -> None:
    gemini.script = [HANG]
    assert len(embedder(timeout=1).embed_documents(["bees"])) == 1
    assert len(gemini.requests) >= 2


def test_a_question_is_given_up_in_the_time_of_one_request(gemini: FakeGemini) -> None:
    gemini.script = [HANG] * 1000
    with pytest.raises(Exception, match="timed out"):
        embedder(timeout=0.2, retry_time=1000).embed_query("bees")
    assert len(gemini.requests) <= 3


async def test_what_the_service_says_is_in_the_error(gemini: FakeGemini) -> None:
    gemini.script = [refused(400, "INVALID_ARGUMENT", "API key not valid")]
    with pytest.raises(errors.EmbedderFailed, match=r"gemini-embedding-001.*API key not valid"):
        await EmbedderAdapter(embedder(), Settings()).embed_passages([Passage("bees")])


async def test_without_a_key_the_error_says_what_to_set(gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    vectors = EmbedderAdapter("gemini-embedding-001", Settings())
    for call in (
        vectors.wait_until_ready,
        lambda: vectors.embed_passages([Passage("bees")]),
        lambda: vectors.aembed_question("bees?"),
    ):
        with pytest.raises(errors.CredentialsMissing, match=r"(?s)gemini-embedding-001.*GOOGLE_API_KEY.*USE_VERTEXAI"):
            await call()
    monkeypatch.setenv("GOOGLE_API_KEY", "come at last")
    await vectors.wait_until_ready()
    assert len(await vectors.embed_passages([Passage("bees")])) == 1
    assert gemini.headers[-1]["x-goog-api-key"] == "come at last"


async def test_on_vertex_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    for project in ({}, {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}):
        for name, value in project.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(errors.CredentialsMissing, match="GOOGLE_CLOUD_PROJECT"):
            await EmbedderAdapter("gemini-embedding-001", Settings()).embed_passages([Passage("bees")])


# -- as the memory uses it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MODELS, "models/gemini-embedding-001"])
def test_a_name_is_enough(name: str) -> None:
    gemini_embedder = EmbedderAdapter(name, Settings()).embedder
    assert isinstance(gemini_embedder, GeminiEmbedder)
    assert (gemini_embedder.model, gemini_embedder.embedding_dim) == (name.removeprefix("models/"), 768)


def test_the_dimensions_of_a_named_model_can_be_chosen() -> None:
    gemini_embedder = EmbedderAdapter("gemini-embedding-001", Settings(embed_dimensions=1536)).embedder
    assert isinstance(gemini_embedder, GeminiEmbedder)
    assert gemini_embedder.embedding_dim == 1536


@pytest.mark.parametrize("name", ["./gemini-embedding-001", "google/embeddinggemma-300m", "all-MiniLM-L6-v2"])
def test_any_other_name_is_a_model_on_this_machine(name: str) -> None:
    assert isinstance(EmbedderAdapter(name, Settings()).embedder, LocalEmbedder)


def test_the_same_model_by_either_class_has_the_same_name(gemini: FakeGemini) -> None:
    embedders = [GeminiEmbedder("models/gemini-embedding-001", 256), GeminiEmbedder(), PlainEmbedder()]
    assert {EmbedderAdapter(embedder_choice, Settings()).name for embedder_choice in embedders} == {
        "neo4j_graphrag.embeddings.google_genai.GeminiEmbedder:gemini-embedding-001"
    }
    assert EmbedderAdapter("gemini-embedding-2", Settings()).name.endswith(":gemini-embedding-2")


@pytest.mark.parametrize(
    ("model", "texts"), [("gemini-embedding-001", 1), ("gemini-embedding-2", 1), ("text-embedding-005", 100)]
)
def test_a_request_takes_so_many_texts_on_vertex(
    gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch, model: str, texts: int
) -> None:
    assert EmbedderAdapter(GeminiEmbedder(model), Settings()).texts_per_call == 100
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    assert EmbedderAdapter(GeminiEmbedder(model), Settings()).texts_per_call == texts


async def test_a_hundred_texts_are_one_request_and_a_question_is_a_question(gemini: FakeGemini) -> None:
    vectors = EmbedderAdapter(embedder(), Settings(limits=Limits(embed_concurrency=4)))
    await vectors.embed_passages([Passage(f"text {n}") for n in range(100)])
    await vectors.aembed_question("text?")
    document_call, question_call = gemini.requests
    assert {request["taskType"] for request in document_call["requests"]} == {"RETRIEVAL_DOCUMENT"}
    assert [request["taskType"] for request in question_call["requests"]] == ["RETRIEVAL_QUERY"]


async def test_requests_run_side_by_side_and_come_back_in_order(
    gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    watched, running, most, lock = embedder(), 0, 0, threading.Lock()
    ask = watched.embed_documents

    def counted(texts: list[str]) -> list[list[float]]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            return ask(texts)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(watched, "embed_documents", counted)
    vectors = EmbedderAdapter(watched, Settings(limits=Limits(embed_concurrency=3)))
    texts = [f"text number {n}" for n in range(20)]
    batches = await asyncio.gather(*(vectors.embed_passages([Passage(text) for text in texts]) for _ in range(3)))
    assert 1 < most <= 3
    assert batches[0] == batches[1] == batches[2]
    assert min(
        near(embedding.vector, vector(text, SIZE)) for embedding, text in zip(batches[0], texts, strict=True)
    ) == pytest.approx(1.0)


async def test_what_was_used_is_counted(gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch) -> None:
    gemini_embedder = embedder()
    gemini_embedder.embed_documents(["bees in a hive"] * 101)
    assert gemini_embedder.usage == Usage(calls=2)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    on_vertex = embedder()
    on_vertex.embed_documents(["bees in a hive"] * 3)
    assert on_vertex.usage == Usage(calls=3, input_tokens=12)
