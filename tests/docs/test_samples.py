"""Every sample in docs/samples.md runs, and prints what is shown below it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from neo4j import GraphDatabase
from neo4j_graphrag.indexes import create_vector_index
from pydantic import ValidationError
from tests.support.documents import blocks, run_block
from tests.support.fake_gemini import FakeGemini, embedded
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_server import serve_json

pytestmark = pytest.mark.slow

BLOCKS = blocks("docs/samples.md")
SAMPLES = {
    code.heading: (code.text, shown.text)
    for code, shown in pairwise(BLOCKS)
    if (code.language, shown.language) == ("python", "text")
}


@pytest.fixture
def printed(at_the_test_server: None, gemini: FakeGemini, app_name: str, capsys: Any) -> Any:
    def of(code: str) -> str:
        run_block(code, app_name)
        return str(capsys.readouterr().out)

    return of


def test_two_memories_are_asked(printed: Any) -> None:
    code, shown = SAMPLES["Two memories in one agent"]
    assert printed(code) == shown


def test_the_traversal_brings_along_what_else_is_known(printed: Any) -> None:
    code, shown = SAMPLES["A traversal of your own"]
    assert printed(code) == shown


def test_the_hosted_model_makes_the_vectors(printed: Any, gemini: FakeGemini) -> None:
    code, shown = SAMPLES["Hosted embeddings"]
    assert printed(code) == shown
    texts = [text for request in gemini.requests for text in embedded(request)]
    assert {"My dog Rex is afraid of thunder.", "What is my dog afraid of?"} <= set(texts)


def test_two_agents_share_a_memory(printed: Any) -> None:
    code, shown = SAMPLES["Two agents that share one memory"]
    assert printed(code) == shown


def test_graphrag_asks_the_memory(printed: Any) -> None:
    code, shown = SAMPLES["GraphRAG over the memory"]
    assert printed(code) == shown


def test_a_local_model_reads_and_answers(printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = SAMPLES["A local model, by Ollama"]
    fact = {"subject": 2, "predicate": "afraid_of", "text": "Rex is afraid of thunder.", "quote": "Rex is afraid"}
    entities = [{"ref": 1, "name": "user", "type": "person"}, {"ref": 2, "name": "Rex", "type": "animal"}]
    fake = FakeOllama({"entities": entities, "facts": [{"ref": 1, "turns": [0], **fact}]})
    with serve_json(fake.reply) as address:
        monkeypatch.setenv("OLLAMA_API_BASE", address)
        assert printed(code) == shown
    assert {request["model"] for request in fake.requests} == {"qwen3:8b"}
    assert [bool(request.get("format")) for request in fake.requests] == [False, True, False]
    assert "facts" in next(request["format"] for request in fake.requests if request.get("format"))["properties"]


@pytest.mark.schema
def test_azure_makes_the_vectors(printed: Any, neo4j_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = SAMPLES["Azure embeddings over an index you already have"]
    paths = []

    def embed(path: str, request: Any) -> tuple[int, Any]:
        paths.append(path)
        return 200, {
            "object": "list",
            "model": "m",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}],
        }

    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "none")
    monkeypatch.setenv("AZURE_AI_EMBEDDING_NAME", "text-embedding-3-small")
    with GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver, serve_json(embed) as address:
        monkeypatch.setenv("AZURE_AI_PROJECT_ENDPOINT", "not an address")
        with pytest.raises(ValidationError, match="AZURE_AI_PROJECT_ENDPOINT"):
            printed(code)
        monkeypatch.setenv("AZURE_AI_PROJECT_ENDPOINT", f"{address}/api/projects/demo")
        chunk = {"text": "Rivals sell smartphones for less.", "embedding": [0.6, 0.8]}
        driver.execute_query("CREATE (n:AzureChunk) SET n = $chunk", {"chunk": chunk})
        create_vector_index(driver, "chunkEmbeddings", "AzureChunk", "embedding", 2, "cosine")
        driver.execute_query("CALL db.awaitIndex('chunkEmbeddings', 60)")
        try:
            assert printed(code) == shown
        finally:
            driver.execute_query("DROP INDEX chunkEmbeddings")
            driver.execute_query("MATCH (n:AzureChunk) DELETE n")
    assert {path.partition("?")[0] for path in paths} == {"/openai/deployments/text-embedding-3-small/embeddings"}


def test_no_block_is_left_out() -> None:
    """``adk web``'s two are run by the tests of ADK's servers, on which this agent lives."""
    python = [block.heading for block in BLOCKS if block.language == "python"]
    assert python == ["An agent for `adk web`", "An agent for `adk web`", *SAMPLES]


@pytest.mark.parametrize("heading", SAMPLES)
def test_a_sample_is_short(heading: str) -> None:
    assert len(SAMPLES[heading][0].splitlines()) <= 35
