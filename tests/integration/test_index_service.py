"""An index of one's own in an agent: ADK's memory service, a tool, and a context provider of Agent Framework."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import Any

import neo4j
import pytest
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory
from tests.support.existing_graph import TRAVERSAL
from tests.support.fake_gemini import FakeGemini, call, said

from adk_graph_memory import IndexRetrieval, Neo4jIndexService, errors

pytestmark = [pytest.mark.slow, pytest.mark.schema, pytest.mark.xdist_group("existing_graph")]

COMPETITION = "Apple faces strong competition in smartphones."
OF_USER = "WITH node, score WHERE node.source = $user_id RETURN node.text AS text, score, $app_name AS app"


@pytest.fixture
def options(driver: neo4j.Driver, label: str) -> dict[str, Any]:
    return {"index_type": "fulltext", "index_name": f"{label}_text", "driver": driver, "timeout": 60.0}


# -- ADK -------------------------------------------------------------------------------------------------------


async def test_an_entry_holds_the_text_and_what_is_known_of_it(options: dict[str, Any]) -> None:
    async with Neo4jIndexService(retrieval_query=TRAVERSAL, top_k=1, **options) as service:
        await service.prepare()
        response = await service.search_memory(app_name="a", user_id="u", query="competition in smartphones")
    [entry] = response.memories
    assert entry.content.parts[0].text == COMPETITION
    assert entry.custom_metadata["company"] == "Apple Inc"
    assert sorted(entry.custom_metadata["risks"]) == ["Competition", "Supply Chain"]
    assert entry.custom_metadata["score"] > 0


async def test_an_entry_has_the_id_of_its_node(options: dict[str, Any], driver: neo4j.Driver) -> None:
    service = Neo4jIndexService(top_k=1, **options)
    [entry] = (await service.search_memory(app_name="a", user_id="u", query="smartphones")).memories
    [record], _, _ = driver.execute_query("MATCH (n) WHERE elementId(n) = $id RETURN n.text AS text", {"id": entry.id})
    assert record["text"] == COMPETITION


async def test_the_traversal_knows_app_and_user(options: dict[str, Any]) -> None:
    service = Neo4jIndexService(retrieval_query=OF_USER, query_params={"user_id": "Apple"}, **options)
    for user, expected in (("Apple", {"Apple"}), ("Intel", {"Intel"}), ("nobody", set())):
        response = await service.search_memory(app_name="home", user_id=user, query="Apple Intel office competition")
        found = [entry.content.parts[0].text for entry in response.memories]
        assert {name for name in ("Apple", "Intel") if any(name in text for text in found)} == expected
        assert all(entry.custom_metadata["app"] == "home" for entry in response.memories)


async def test_nothing_can_be_added(options: dict[str, Any]) -> None:
    service, session = Neo4jIndexService(**options), Session(id="s", app_name="a", user_id="u")
    with pytest.raises(NotImplementedError, match="make_tool"):
        await service.add_session_to_memory(session)
    with pytest.raises(NotImplementedError, match="Neo4jMemoryService"):
        await service.add_events_to_memory(app_name="a", user_id="u", events=[])


async def test_an_agent_has_memory_and_knowledge(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        parts = [part for content in request["contents"] for part in content["parts"]]
        answers[:] = [part["functionResponse"] for part in parts if "functionResponse" in part]
        declared = {tool["name"]: tool for tool in request["tools"][0]["functionDeclarations"]}
        assert set(declared) == {"load_memory", "filings"}
        assert declared["filings"]["description"] == "Searches filings."
        schema = declared["filings"].get("parameters_json_schema") or declared["filings"]["parameters"]
        assert list(schema["properties"]) == ["query"]
        return {"text": "done"} if answers else call("filings", query=said(request))

    service = Neo4jIndexService(retrieval_query=OF_USER, **options)
    tools = [load_memory, service.make_tool("filings", "Searches filings.")]
    with FakeGemini(reply, keeps_alive=False) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        agent = LlmAgent(name="analyst", model="gemini-flash-latest", tools=tools)
        sessions = InMemorySessionService()
        async with Runner(app_name="home", agent=agent, session_service=sessions, memory_service=service) as runner:
            await runner.run_debug("smartphones competition", user_id="Apple", session_id="s", quiet=True)
    [answer] = answers
    assert answer["response"]["result"][0].endswith(f"[app: home] {COMPETITION}")


async def test_closing_leaves_what_was_given(options: dict[str, Any], driver: neo4j.Driver) -> None:
    retrieval = IndexRetrieval(**options)
    async with Neo4jIndexService(retrieval=retrieval) as service:
        await service.search_memory(app_name="a", user_id="u", query="Apple")
    assert await retrieval.search("Apple")
    driver.verify_connectivity()


# -- Agent Framework -------------------------------------------------------------------------------------------

af = pytest.importorskip("agent_framework")


def make_agent(*providers: Any) -> tuple[Any, list[list[tuple[str, str]]]]:
    """An agent with a scripted model, and the requests that reach the model."""
    requests: list[list[tuple[str, str]]] = []

    class ScriptedClient(af.BaseChatClient):  # type: ignore[misc, name-defined]
        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
            requests.append([(message.role, message.text) for message in messages])

            async def answer() -> Any:
                return af.ChatResponse(messages=[af.Message("assistant", ["I see."])])

            return answer()

    return af.Agent(client=ScriptedClient(), context_providers=list(providers)), requests


@pytest.fixture
def provider_class() -> Any:
    from adk_graph_memory.maf.index_provider import Neo4jContextProvider

    return Neo4jContextProvider


async def test_a_run_gets_one_message_with_what_was_found(options: dict[str, Any], provider_class: Any) -> None:
    provider = provider_class(retrieval_query=TRAVERSAL, context_prompt="Known:", **options)
    agent, requests = make_agent(provider)
    await agent.run("What competition is there in smartphones?")
    [(role, text), question] = requests[0]
    lines = text.splitlines()
    assert (role, lines[0]) == ("user", "Known:")
    assert lines[1].endswith(COMPETITION)
    assert "[company: Apple Inc]" in lines[1]
    assert question == ("user", "What competition is there in smartphones?")


async def test_earlier_messages_count_if_history_is_loaded_before(options: dict[str, Any], provider_class: Any) -> None:
    for count, found in ((10, True), (1, False)):
        provider = provider_class(message_history_count=count, **options)
        agent, requests = make_agent(af.InMemoryHistoryProvider(), provider)
        session = agent.create_session()
        await agent.run("smartphones", session=session)
        await agent.run("And what about it zzz?", session=session)
        assert any(COMPETITION in text for _, text in requests[1]) is found


async def test_nothing_is_added_without_hits_or_without_words(options: dict[str, Any], provider_class: Any) -> None:
    agent, requests = make_agent(provider_class(**options))
    await agent.run("submarine zzz")
    await agent.run(af.Message("user", [""]))
    await agent.run(af.Message("assistant", ["smartphones"]))
    assert [len(request) for request in requests] == [1, 1, 1]


async def test_the_state_s_user_reaches_the_traversal(options: dict[str, Any], provider_class: Any) -> None:
    query = "WITH node WHERE node.source = $user_id RETURN node.text AS text, $session_id AS session"
    agent, requests = make_agent(provider_class(retrieval_query=query, **options))
    session = agent.create_session(session_id="s1")
    session.state["user_id"] = "Intel"
    await agent.run("Apple Intel office", session=session)
    assert "Apple faces" not in requests[0][0][1]
    assert "[session: s1]" in requests[0][0][1]
    with pytest.raises(errors.QueryFailed, match="user_id"):
        await agent.run("Apple Intel office", session=agent.create_session())


async def test_an_outage_is_one_warning_and_the_agent_answers(
    provider_class: Any, caplog: pytest.LogCaptureFixture
) -> None:
    provider = provider_class("bolt://127.0.0.1:1", index_type="fulltext", timeout=0.5)
    agent, requests = make_agent(provider)
    with caplog.at_level(logging.WARNING, "adk_graph_memory"):
        async with provider:
            for _ in range(2):
                assert (await agent.run("smartphones")).text == "I see."
    assert [len(request) for request in requests] == [1, 1]
    assert len([record for record in caplog.records if record.name.startswith("adk_graph_memory")]) == 1


async def test_a_configuration_error_is_raised(options: dict[str, Any], provider_class: Any) -> None:
    agent, _ = make_agent(provider_class(**options | {"index_name": "nowhere"}))
    with pytest.raises(errors.ConfigurationError, match="nowhere"):
        await agent.run("smartphones")
    with pytest.raises(ValueError, match="message_history_count"):
        provider_class(message_history_count=0, **options)


async def test_a_cancelled_run_is_cancelled(provider_class: Any) -> None:
    async def wait(text: str, **_: Any) -> list[Any]:
        await asyncio.sleep(60)
        return []

    provider = provider_class(index_type="fulltext")
    provider.retrieval.search = wait
    agent, _ = make_agent(provider)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await agent.run("smartphones")


async def test_closing_the_provider_leaves_what_was_given(options: dict[str, Any], provider_class: Any) -> None:
    retrieval = IndexRetrieval(**options)
    async with provider_class(retrieval=retrieval) as provider:
        agent, _ = make_agent(provider)
        await agent.run("smartphones")
    assert await retrieval.search("Apple")


def test_without_the_framework_the_extra_is_named() -> None:
    code = "import sys; sys.modules['agent_framework'] = None; import adk_graph_memory.maf"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "adk-graph-memory[agent-framework]"' in result.stderr
