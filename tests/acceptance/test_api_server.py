"""ADK's own server in a process of its own, with all three addresses on a real Neo4j and a model on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from neo4j import Driver, GraphDatabase
from tests.fake_gemini import FakeGemini, Part, Request, call, preloaded, responses, said

AGENT = '''
from google.adk.agents import LlmAgent
from google.adk.tools import ToolContext, load_memory, preload_memory
from google.genai import types


async def save_note(text: str, tool_context: ToolContext) -> int:
    """Saves a note."""
    return await tool_context.save_artifact("note.txt", types.Part(text=text))


tools = [preload_memory, load_memory, save_note]
root_agent = LlmAgent(name="{name}", model="gemini-2.5-flash", tools=tools)
'''
SERVICES = "from adk_graph_memory.adk import register\n\nregister()\n"


def answered(request: Request) -> Part:
    if found := responses(request):
        return {"text": json.dumps(found, ensure_ascii=False)}
    if "note down" in said(request):
        return call("save_note", text="buy oats")
    if "called?" in said(request):
        return call("load_memory", query=said(request))
    return {"text": f"I heard: {said(request)}"}


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
    agent = tmp_path / "agents" / name
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(AGENT.format(name=name))
    (tmp_path / "agents" / "services.py").write_text(SERVICES)
    scheme, _, place = neo4j_server.uri.partition("://")
    username, password = map(quote, neo4j_server.auth)
    uri = f"{scheme}://{username}:{password}@{place}/neo4j?model=rules"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("NEO4J", "ADK_GRAPH"))}
    environment |= gemini.environment | {"ADK_GRAPH_MEMORY_HOME": str(tmp_path / "home"), "ADK_GRAPH_MEMORY_LEASE": "3"}

    @contextmanager
    def started() -> Iterator[Api]:
        port = free_port()
        options = [f"--{kind}_service_uri={uri}" for kind in ("session", "memory", "artifact")]
        options += ["--extra_plugins", "adk_graph_memory.adk.GraphMemoryPlugin", f"--port={port}"]
        command = [str(Path(sys.executable).with_name("adk")), "api_server", *options, "agents"]
        log = (tmp_path / "server.log").open("ab")
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        api = Api(f"http://127.0.0.1:{port}", name, server)
        try:
            wait_for(api, server)
            yield api
        finally:
            api.client.close()
            server.terminate()
            server.wait(30)
            log.close()
            assert neo4j_server.auth[1] not in (tmp_path / "server.log").read_text()

    return started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(api: Api, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server ended by itself"
        try:
            api.client.get("/list-apps").raise_for_status()
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the server did not come up")


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
        while (turns := remembered(driver, app_name)) != [4, 4, 4]:
            assert time.monotonic() < end, turns
            time.sleep(0.2)
        facts, _, _ = driver.execute_query(FACTS, app_name=app_name)
        assert sorted(row["text"] for row in facts if "bee number" in row["text"] and row["author"] == "user") == [
            f"My bee number {number} is called Bee{number}." for number in range(3)
        ]


FACTS = "MATCH (u:User {app_name: $app_name}) MATCH (f:Fact {scope: u.scope}) RETURN f.text AS text, f.author AS author"
TURNS = """
MATCH (u:User {app_name: $app_name})-[:HAS_SESSION]->(s:Session) WHERE s.id STARTS WITH 's'
RETURN s.id AS id, COUNT { MATCH (e:Event&Memory {scope: u.scope, session_uid: s.uid}) } AS turns ORDER BY id
"""


def remembered(driver: Driver, app_name: str) -> list[int]:
    """How many turns of each session are remembered."""
    return [row["turns"] for row in driver.execute_query(TURNS, app_name=app_name).records]
