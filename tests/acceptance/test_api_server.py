"""ADK's own server in a process of its own, with all three addresses on a real Neo4j and a model on this machine."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from neo4j import GraphDatabase
from tests.adk_server import answered, remembered, started, write_agent
from tests.fake_gemini import FakeGemini, preloaded, said


class Api:
    """A running server, as its users meet it."""

    def __init__(self, url: str, app_name: str, process: subprocess.Popen[bytes]) -> None:
        self.app_name, self.process = app_name, process
        self.client = httpx.Client(base_url=url, timeout=120, trust_env=False)
        self.user = f"/apps/{app_name}/users/ana"

    def create(self, session_id: str) -> None:
        self.client.post(f"{self.user}/sessions", json={"sessionId": session_id}).raise_for_status()

    def run(self, session_id: str, words: str) -> list[dict[str, Any]]:
        answer = self.client.post("/run", json=self._asked(session_id, words))
        return answer.raise_for_status().json()

    def stream(self, session_id: str, words: str) -> list[dict[str, Any]]:
        with self.client.stream(
            "POST", "/run_sse", json=self._asked(session_id, words) | {"streaming": True}
        ) as answer:
            lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    def remember(self, session_id: str) -> None:
        self.client.patch(f"{self.user}/memory", json={"sessionId": session_id}).raise_for_status()

    def _asked(self, session_id: str, words: str) -> dict[str, Any]:
        message = {"role": "user", "parts": [{"text": words}]}
        return {"appName": self.app_name, "userId": "ana", "sessionId": session_id, "newMessage": message}


@pytest.fixture(scope="module")
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini(answered) as fake:
        yield fake


@pytest.fixture
def serving(neo4j_server: Any, gemini: FakeGemini, app_name: str, tmp_path: Path) -> Callable[[], Any]:
    name = app_name.replace("-", "_")
    write_agent(tmp_path / "agents", name)
    scheme, _, place = neo4j_server.uri.partition("://")
    username, password = map(quote, neo4j_server.auth)
    address = f"{scheme}://{username}:{password}@{place}/neo4j?model=rules"
    environment = gemini.environment | {"ADK_GRAPH_MEMORY_LEASE": "3"}

    @contextmanager
    def serve() -> Iterator[Api]:
        with started("api_server", tmp_path / "agents", address, environment) as (url, process):
            api = Api(url, name, process)
            try:
                yield api
            finally:
                api.client.close()
        assert neo4j_server.auth[1] not in (tmp_path / "server.log").read_text()

    return serve


def test_sessions_memory_and_artifacts_outlive_the_process(serving: Callable[[], Any], gemini: FakeGemini) -> None:
    with serving() as api:
        api.create("first")
        api.run("first", "My dog is called Rex.")
        api.run("first", "Please note down that we need oats.")
        assert "I heard" in api.stream("first", "Rex is afraid of thunder.")[-1]["content"]["parts"][0]["text"]
        api.remember("first")

    with serving() as api:
        told = api.client.get(f"{api.user}/sessions/first").json()["events"]
        assert [event["content"]["parts"][0].get("text") for event in told if event["author"] == "user"] == [
            "My dog is called Rex.",
            "Please note down that we need oats.",
            "Rex is afraid of thunder.",
        ]
        artifacts = f"{api.user}/sessions/first/artifacts"
        assert api.client.get(artifacts).json() == ["note.txt"]
        assert api.client.get(f"{artifacts}/note.txt").json()["text"] == "buy oats"

        api.create("second")
        answer = api.run("second", "What is my dog called?")[-1]["content"]["parts"][0]["text"]
        assert "My dog is called Rex." in answer
        [asked] = [request for request in gemini.requests if said(request) == "What is my dog called?"]
        assert "My dog is called Rex." in preloaded(asked)


def test_what_is_said_is_remembered_though_the_server_is_killed(serving: Callable[[], Any], neo4j_server: Any) -> None:
    for number in range(3):
        with serving() as api:
            api.create(f"s{number}")
            api.run(f"s{number}", f"My bee number {number} is called Bee{number}.")
            time.sleep(number * 0.1)  # before it is queued, while, and after
            api.process.kill()
    with serving() as api, GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        api.create("last")
        for number in range(3):
            api.run(f"s{number}", "Hello again.")
        app_name, end = api.app_name, time.monotonic() + 60
        while (turns := remembered(driver, app_name)) != {"s0": 4, "s1": 4, "s2": 4, "last": 0}:
            assert time.monotonic() < end, turns
            time.sleep(0.2)
        facts, _, _ = driver.execute_query(FACTS, app_name=app_name)
        assert sorted(row["text"] for row in facts if "bee number" in row["text"] and row["author"] == "user") == [
            f"My bee number {number} is called Bee{number}." for number in range(3)
        ]


FACTS = "MATCH (u:User {app_name: $app_name}) MATCH (f:Fact {scope: u.scope}) RETURN f.text AS text, f.author AS author"
