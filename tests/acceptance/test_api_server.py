"""ADK's own server in a process of its own, with all three addresses on a real Neo4j and a model on this machine."""

from __future__ import annotations

import json
import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from neo4j import Driver, GraphDatabase
from tests.support.adk_server import answered, remembered, started, write_agent
from tests.support.fake_gemini import FakeGemini, Part, Request, call, preloaded, responses, said

pytestmark = pytest.mark.slow

HOSTED = "&embedder=gemini-embedding-001&embed_dimensions=64&label_prefix=TestGemini"
"""What an address adds for an embedder that needs no torch."""


class Api:
    """A running server, as its users meet it."""

    def __init__(self, url: str, app_name: str, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.client = httpx.Client(base_url=url, timeout=120, trust_env=False)
        self.choose(app_name)

    def choose(self, app_name: str) -> None:
        """Speaks with this app from now on."""
        self.app_name, self.user = app_name, f"/apps/{app_name}/users/ana"

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
    def serve(chosen: str = "") -> Iterator[Api]:
        with started("api_server", tmp_path / "agents", address + chosen, environment) as (url, process):
            api = Api(url, name, process)
            try:
                yield api
            finally:
                api.client.close()
        assert neo4j_server.auth[1] not in (tmp_path / "server.log").read_text()

    return serve


@pytest.mark.parametrize("chosen", [HOSTED, pytest.param("", marks=pytest.mark.full)], ids=["hosted", "local"])
def test_sessions_memory_and_artifacts_outlive_the_process(
    serving: Callable[[str], Any], gemini: FakeGemini, neo4j_server: Any, chosen: str
) -> None:
    with serving(chosen) as api:
        api.create("first")
        api.run("first", "My dog is called Rex.")
        api.run("first", "Please note down that we need oats.")
        assert "I heard" in api.stream("first", "Rex is afraid of thunder.")[-1]["content"]["parts"][0]["text"]
        api.remember("first")

    with serving(chosen) as api:
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
        api.run("second", "Hello again.")  # what the first process left unread is read now
        prefix = "TestGemini" if chosen else ""
        with GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
            wait_until_remembered(driver, api.app_name, {"first": 6, "second": 2}, prefix)
        answer = api.run("second", "What is my dog called?")[-1]["content"]["parts"][0]["text"]
        assert "My dog is called Rex." in answer
        requests = [request for request in gemini.requests if "contents" in request]  # the others ask for vectors
        *_, asked = [request for request in requests if said(request) == "What is my dog called?"]
        assert "My dog is called Rex." in preloaded(asked)


@pytest.mark.full
def test_what_is_said_is_remembered_once_though_the_server_is_killed(
    serving: Callable[[], Any], neo4j_server: Any, kills: int
) -> None:
    chance = random.Random(kills)
    for number in range(kills):
        with serving() as api:
            api.create(f"s{number}")
            api.run(f"s{number}", f"My bee number {number} is called Bee{number}.")
            if number % 2:
                threading.Thread(target=cut_off, args=[api.remember, f"s{number}"]).start()
            time.sleep(chance.uniform(0, 0.8 if number % 2 else 0.2))  # before it is queued or read, while, and after
            api.process.kill()
    with serving() as api, GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        for number in range(kills):
            api.run(f"s{number}", "Hello again.")
        wait_until_remembered(driver, api.app_name, {f"s{number}": 4 for number in range(kills)})
        facts, _, _ = driver.execute_query(FACTS, app_name=api.app_name)
        assert sorted(
            row["text"] for row in facts if "bee number" in row["text"] and row["author"] == "user"
        ) == sorted(f"My bee number {number} is called Bee{number}." for number in range(kills))


LOOKS = 300
"""How often the plugin is looked after before it counts as stuck."""


def wait_until_remembered(driver: Driver, app_name: str, turns: dict[str, int], prefix: str = "") -> None:
    """Waits for the plugin, which reads in the background what nobody else is reading."""
    for _ in range(LOOKS):
        if (now := remembered(driver, app_name, prefix)) == turns:
            break
        time.sleep(0.2)
    assert now == turns


def cut_off(ask: Callable[[str], None], session_id: str) -> None:
    """Asks a server that is killed before it can answer, or just after."""
    with suppress(httpx.TransportError, RuntimeError):
        ask(session_id)


FACTS = "MATCH (u:User {app_name: $app_name}) MATCH (f:Fact {scope: u.scope}) RETURN f.text AS text, f.author AS author"


@pytest.mark.full
def test_agents_side_by_side_and_as_tools_share_one_memory_in_a_session_that_is_compacted(
    serving: Callable[[], Any],
    neo4j_server: Any,
    gemini: FakeGemini,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(gemini, "answer", answered_by_a_team)
    with serving() as api, GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        write_agent(tmp_path / "agents", team := f"team_{api.app_name}", TEAM)
        api.choose(team)
        api.create("first")
        told = api.run("first", "My dog is called Rex.")
        said_by = {event["author"]: event["content"]["parts"][0].get("text") for event in told}
        assert [said_by[f"scout{number}"] for number in range(3)] == ["I am scout 0.", "I am scout 1.", "I am scout 2."]
        assert said_by["speaker"] == "The archivist says: I keep the files."
        wait_until_remembered(driver, api.app_name, {"first": 5})

        assert "My dog is called Rex." in api.run("first", "What is he called?")[-1]["content"]["parts"][0]["text"]
        session = api.client.get(f"{api.user}/sessions/first").json()
        assert session["state"]["scout2"] == "I am scout 2."
        [compaction] = [one["actions"]["compaction"] for one in session["events"] if one["actions"].get("compaction")]
        assert compaction["compactedContent"]["parts"][0]["text"] == "They spoke of a dog."
        api.run("first", "Go on.")
        assert any("They spoke of a dog." in json.dumps(request["contents"]) for request in gemini.requests[-8:])


def answered_by_a_team(request: Request) -> Part:
    """What the models of its agents say, each by its instruction."""
    told = json.dumps(request.get("systemInstruction", {}))
    if scout := re.search(r"You are scout \d", told):
        return {"text": scout[0].replace("You are", "I am") + "."}
    if "You are the archivist." in told:
        return {"text": "I keep the files."}
    if "You are the speaker." not in told:
        return {"text": "They spoke of a dog."}  # the summary of a compacted session
    if found := responses(request):
        return {"text": f"The {found[0]['name']} says: {' '.join(map(str, found[0]['response'].values()))}"}
    if "called?" in json.dumps(request["contents"][-4:]):
        return call("search_elsewhere", question="What is the dog called?")
    return call("archivist", request="What do you keep?")


TEAM = '''
import asyncio

from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.models import Gemini
from google.adk.tools import ToolContext
from google.adk.tools.agent_tool import AgentTool

MODEL = "gemini-2.5-flash"


async def search_elsewhere(question: str, tool_context: ToolContext) -> str:
    """Searches the memory in another thread, with an event loop of its own."""
    found = await asyncio.to_thread(lambda: asyncio.run(tool_context.search_memory(question)))
    return " ".join(entry.content.parts[0].text for entry in found.memories)


scouts = [
    LlmAgent(name=f"scout{n}", model=MODEL, instruction=f"You are scout {n}.", output_key=f"scout{n}") for n in range(3)
]
archivist = LlmAgent(name="archivist", model=MODEL, instruction="You are the archivist.")
tools = [AgentTool(archivist), search_elsewhere]
speaker = LlmAgent(name="speaker", model=MODEL, instruction="You are the speaker.", tools=tools)
team = SequentialAgent(name="team", sub_agents=[ParallelAgent(name="scouts", sub_agents=scouts), speaker])
summarizer = LlmEventSummarizer(llm=Gemini(model=MODEL))
compaction = EventsCompactionConfig(summarizer=summarizer, compaction_interval=2, overlap_size=0)
app = App(name="companion", root_agent=team, events_compaction_config=compaction)
'''
