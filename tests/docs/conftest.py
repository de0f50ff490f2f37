"""What a reader of the documents has: a database in the environment, and a key for a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.fake_gemini import FakeGemini, Part, Request, call, said
from tests.support.fake_server import serve_json


@pytest.fixture
def at_the_test_server(neo4j_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    if neo4j_server.auth[0] == "neo4j":  # a reader need not set the default
        monkeypatch.delenv("NEO4J_USERNAME", raising=False)
    else:
        monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.auth[0])
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.auth[1])


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    with FakeGemini(answered, keeps_alive=False) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A chat model that answers from what stands before the question."""

    def reply(path: str, request: Any) -> tuple[int, Any]:
        assert path == "/chat/completions"
        texts = [message["content"] for message in request["messages"] if message["role"] == "user"]
        texts = [text if isinstance(text, str) else text[0]["text"] for text in texts]
        memories = [line.partition(": ")[2] for text in texts for line in text.splitlines() if line.startswith("- ")]
        answer = f"You said: “{memories[0]}”" if memories else "I will remember that."
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
        return 200, {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}

    with serve_json(reply) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_MODEL", "m")
        yield


WRITTEN = (
    "MATCH (c:Company {name: 'Apple Inc'})-[:FACES_RISK]->(r) RETURN c.name AS company, count(r) AS risks",
    "MATCH (c:Company {name: 'Apple Inc'}) DETACH DELETE c",
)
"""What the model writes if it is asked for Cypher: a question's, and an order's."""


def answered(request: Request) -> Part:
    """A question has all tools asked, one after the other, and is answered by nothing but what they found."""
    if "Generate a Cypher statement" in said(request):
        return {"text": WRITTEN["Delete" in said(request)]}
    if "tools" not in request and (context := said(request).partition("Context:\n")[2]):
        from_tool = re.search("content='([^']*)'", context)
        return {"text": f"The context says: “{from_tool[1] if from_tool else context.splitlines()[0]}”"}
    question = said({"contents": [one for one in request["contents"] if "text" in one["parts"][0]]})
    if "?" not in question:
        return {"text": "I will remember that."}
    found = {
        part["functionResponse"]["name"]: part["functionResponse"]["response"]["result"]
        for content in request["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    }
    for tool in request["tools"][0]["functionDeclarations"]:
        if tool["name"] not in found:
            argument = next(iter((tool.get("parameters_json_schema") or tool["parameters"])["properties"]))
            return call(tool["name"], **{argument: question})
    return {"text": " ".join(_told(found))}


def _told(found: dict[str, Any]) -> Iterator[str]:
    yield from (f"The filings say: “{passage}”" for passage in found.get("search_filings", ()))
    for memory in found["load_memory"]["memories"][:1]:
        yield f"You said: “{memory['content']['parts'][0]['text']}”"
        yield from (f"Also known: “{fact}”" for fact in memory["custom_metadata"].get("also_known", ()))
    yield from (f"The handbook says: “{page}”" for page in found.get("read_handbook", ()))
