"""The trace view of ``adk web``: it shows what memory does beside what the agent does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from google.adk import cli

AGENT = """
from google.adk.agents import LlmAgent
from google.adk.tools import preload_memory
from adk_graph_memory.testing import ScriptedLlm


async def remember(callback_context):
    await callback_context.add_session_to_memory()


model = ScriptedLlm.from_replies("I see.")
root_agent = LlmAgent(name="companion", model=model, tools=[preload_memory], after_agent_callback=remember)
"""
SERVICES = """
from google.adk.cli.service_registry import get_service_registry
from adk_graph_memory import Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

reading = {"model": ScriptedLlm.from_replies('{"entities": [], "facts": []}'), "embedder": HashEmbedder()}
get_service_registry().register_session_service("bolt", lambda uri, **_: Neo4jSessionService(uri))
get_service_registry().register_memory_service("bolt", lambda uri, **_: Neo4jMemoryService(uri, **reading))
"""
TALK = """
import json, sys
from fastapi.testclient import TestClient
from google.adk.cli.fast_api import get_fast_api_app

agents, uri, app_name = sys.argv[1:]
app = get_fast_api_app(agents_dir=agents, session_service_uri=uri, memory_service_uri=uri, web=True)
with TestClient(app) as client:
    client.post(f"/apps/{app_name}/users/ana/sessions", json={"sessionId": "monday"}).raise_for_status()
    message = {"role": "user", "parts": [{"text": "My dog is called Rex."}]}
    said = {"appName": app_name, "userId": "ana", "sessionId": "monday", "newMessage": message}
    client.post("/run", json=said).raise_for_status()
    shown = client.get(f"/dev/apps/{app_name}/debug/trace/session/monday").raise_for_status().json()
print(json.dumps(shown))
"""
REFUSES = re.compile(r"attrEventId:\w+\.string\(\{message:`'\$\{\w+\}' is required on '\$\{\w+\}' spans`")
"""How the view's code refuses a ``generate_content`` that names no event."""


pytestmark = [pytest.mark.full, pytest.mark.xdist_group("trace_view")]  # one worker plays the run for all


@pytest.fixture(scope="module")
def shown(neo4j_server: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the view is served; by a process of its own, for ADK sets a provider."""
    folder, app_name = tmp_path_factory.mktemp("adk"), f"app_{uuid.uuid4().hex[:12]}"
    agent = folder / "agents" / app_name
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(AGENT)
    (folder / "agents" / "services.py").write_text(SERVICES)
    username, password = neo4j_server.auth
    scheme, _, place = neo4j_server.uri.partition("://")
    uri = f"{scheme}://{username}:{password}@{place}/neo4j?label_prefix=TestHash"
    command = [sys.executable, "-c", TALK, str(folder / "agents"), uri, app_name]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_it_shows_what_memory_does_in_a_run(shown: list[dict[str, Any]]) -> None:
    names = {span["span_id"]: span["name"] for span in shown}
    parents = {span["name"]: names.get(span["parent_span_id"]) for span in shown}
    assert parents["search_memory"] == parents["upsert_memory"] == "invoke_agent companion"
    assert (parents["chat scripted"], parents["claim_turns"]) == ("upsert_memory", "upsert_memory")
    assert parents["append_event"] in ("append_event", "invoke_workflow companion")


def test_every_span_has_what_the_view_asks_of_it(shown: list[dict[str, Any]]) -> None:
    # One span without it, and the view shows none.
    required = {
        "invoke_agent": {"gen_ai.conversation.id"},
        "generate_content": {"gcp.vertex.agent.event_id", "gcp.vertex.agent.invocation_id"},
    }
    for span in shown:
        attributes = span["attributes"]
        assert attributes.keys() >= required.get(attributes.get("gen_ai.operation.name"), set()), span["name"]


def test_the_view_still_refuses_a_generate_content_that_names_no_event() -> None:
    # Once it does not, telemetry.trace_model_call may call Gemini's work what the conventions call it.
    code = "".join(path.read_text("utf-8") for path in (Path(cli.__file__).parent / "browser").glob("main*.js"))
    assert REFUSES.search(code)
