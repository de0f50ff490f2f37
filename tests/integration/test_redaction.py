"""A secret that was said is found nowhere: not in the graph, not in a prompt, not at the embedder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from neo4j import GraphDatabase
from tests.support.ingests import fetch_ingests

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Statement, Turn, errors
from adk_graph_memory.adk.plugin import GraphMemoryPlugin
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOW = datetime(2025, 5, 1, 12, tzinfo=UTC)
TOKEN = "ghp_" + "x7Gd93kLmPq2RsTuVwXyZ1aB4cDe5FgH6iJk"
CARD = "4111 1111 1111 1111"
PREFIX = "TestHash"


class Listening(HashEmbedder):
    """Keeps what it was given."""

    embedder_name = "adk_graph_memory.testing.HashEmbedder:hash-64"

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.heard += texts
        return super().embed_documents(texts)


def content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def owner(app_name: str) -> dict[str, Any]:
    return {"app_name": app_name, "user_id": "ann"}


def reply(request: Any) -> str:
    """A fact whose quote is what the model was shown of the turn."""
    quote = "My token is [GitHub token] for the bees"
    assert quote in request.contents[0].parts[0].text
    entity = {"ref": 1, "name": "user", "type": "person", "aliases": [], "known_id": None}
    fact = {"subject": 1, "predicate": "owns", "object": None, "text": "The user has [GitHub token].", "quote": quote}
    about = {"turns": [0], "speaker": "user", "modality": "asserted", "valid_from": None, "valid_to": None, "topic": ""}
    return json.dumps({"entities": [entity], "facts": [fact | about]})


def stored(server: Any, app_name: str) -> list[dict[str, Any]]:
    """The properties of every node of this user, and of every edge at one of them."""
    with GraphDatabase.driver(server.uri, auth=server.auth) as driver:
        records, _, _ = driver.execute_query(
            "MATCH (n {scope: $scope}) OPTIONAL MATCH (n)-[r]-() "
            "RETURN properties(n) AS node, collect(properties(r)) AS edges",
            scope=Scope(app_name, "ann").key,
        )
    assert records
    return [properties for record in records for properties in (record["node"], *record["edges"])]


def keys_of(secret: str, server: Any, app_name: str) -> set[str]:
    """Under which keys the graph holds this secret."""
    return {key for one in stored(server, app_name) for key, value in one.items() if secret in repr(value)}


def is_nowhere(secret: str, texts: Iterable[object]) -> bool:
    return not any(secret in str(text) for text in texts)


@pytest.mark.parametrize("kind", ["model", "rules"])
async def test_a_secret_is_nowhere(neo4j_server, app_name, kind):
    embedder = Listening()
    model = ScriptedLlm.from_replies(reply) if kind == "model" else "rules"
    settings = neo4j_server.settings(label_prefix=PREFIX)
    async with GraphMemory(settings=settings, model=model, embedder=embedder, redact="secrets") as memory:
        turns = [
            Turn("t1", author="user", text=f"My token is {TOKEN} for the bees.", at=NOW),
            Turn("t2", author="user", text=f"I pay the bees with {CARD} every month.", at=NOW),
        ]
        report = await memory.remember(
            turns, session_id="s", metadata={"note": f"uses {TOKEN}", "deep": [{"card": CARD}]}, **owner(app_name)
        )
        assert report.facts["ADD"] >= 1
        statement = Statement(f"The bees cost {CARD}.", at=NOW, metadata={"from": TOKEN})
        await memory.user(**owner(app_name)).add_statements([statement])

        again = await memory.remember(turns, session_id="s", **owner(app_name))
        assert again.turns == 0
        found = await memory.recall(f"which bees are paid with {CARD}", **owner(app_name))
        assert any("[card number]" in one.text for one in found)
        retriever = await memory.user(**owner(app_name)).make_retriever()
        assert retriever.search(query_text=f"bees {TOKEN}", top_k=3).items

    graph = stored(neo4j_server, app_name)
    assert "[GitHub token]" in str(graph)
    prompts = [str(request.contents) for request in model.requests] if isinstance(model, ScriptedLlm) else []
    assert len(prompts) == (kind == "model")
    assert any("[card number]" in text for text in embedder.heard)
    for secret in (TOKEN, CARD):
        assert is_nowhere(secret, graph)
        assert is_nowhere(secret, prompts)
        assert is_nowhere(secret, embedder.heard)


@pytest.mark.slow
async def test_the_service_of_adk_redacts_sessions_events_and_entries(neo4j_server, app_name):
    embedder, settings = Listening(), neo4j_server.settings(label_prefix=PREFIX)
    async with Neo4jMemoryService(settings=settings, embedder=embedder, redact="secrets") as service:
        event = Event(author="user", content=content(f"My bees know {TOKEN} by heart."), timestamp=NOW.timestamp())
        await service.add_events_to_memory(events=[event], custom_metadata={"x": CARD}, **owner(app_name))
        entry = MemoryEntry(content=content(f"The bees paid by {CARD}."), custom_metadata={"y": TOKEN})
        await service.add_memory(memories=[entry], **owner(app_name))
        response = await service.search_memory(query=f"bees {CARD}", **owner(app_name))
        assert "[GitHub token]" in str(response) or "[card number]" in str(response)
    for secret in (TOKEN, CARD):
        assert is_nowhere(secret, stored(neo4j_server, app_name))
        assert is_nowhere(secret, embedder.heard)


@pytest.mark.slow
async def test_the_session_keeps_what_was_said_and_memory_does_not(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix=PREFIX)
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        Neo4jMemoryService(settings=settings, embedder=Listening(), redact="secrets") as service,
    ):
        session = await sessions.create_session(session_id="s", **owner(app_name))
        await sessions.append_event(session, Event(author="user", content=content(f"My bees know {TOKEN}.")))
        await service.add_session_to_memory(session)
        told = await sessions.get_session(session_id="s", **owner(app_name))
        assert told is not None
        assert told.events[0].content == content(f"My bees know {TOKEN}.")
        [found] = await service.memory.recall("bees", **owner(app_name))
        assert "[GitHub token]" in found.text
    assert keys_of(TOKEN, neo4j_server, app_name) == {"body"}


async def test_a_redaction_that_fails_leaves_nothing_behind(neo4j_server, app_name):
    def failing(text: str) -> str:
        raise RuntimeError(text)

    model, embedder = ScriptedLlm.from_replies(), Listening()
    settings = neo4j_server.settings(label_prefix=PREFIX)
    async with GraphMemory(settings=settings, model=model, embedder=embedder, redact=failing) as memory:
        await memory.prepare()
        heard = list(embedder.heard)
        with pytest.raises(errors.RedactionFailed, match="failing"):
            await memory.remember([Turn("t", author="user", text=TOKEN, at=NOW)], session_id="s", **owner(app_name))
        with pytest.raises(errors.RedactionFailed, match="failing"):
            await memory.user(**owner(app_name)).add_statements([Statement(TOKEN, at=NOW)])
        with pytest.raises(errors.RedactionFailed, match="failing"):
            await memory.recall(TOKEN, **owner(app_name))
        with pytest.raises(errors.RedactionFailed, match="failing"):
            (await memory.user(**owner(app_name)).make_retriever()).search(query_text=TOKEN)
    assert (model.requests, embedder.heard) == ([], heard)
    with GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        [record], _, _ = driver.execute_query(
            "MATCH (n {scope: $scope}) RETURN count(n) AS nodes", scope=Scope(app_name, "ann").key
        )
    assert record["nodes"] == 0


async def test_a_turn_read_before_redaction_is_read_again_without_its_secret(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix=PREFIX)
    turns = [Turn("t1", author="user", text=f"My bees know {TOKEN} by heart.", at=NOW)]
    async with GraphMemory(settings=settings, embedder=Listening()) as memory:
        await memory.remember(turns, session_id="s", **owner(app_name))
    assert not is_nowhere(TOKEN, stored(neo4j_server, app_name))
    async with GraphMemory(settings=settings, embedder=Listening(), redact="secrets") as memory:
        assert (await memory.remember(turns, session_id="s", **owner(app_name))).turns == 1
    assert is_nowhere(TOKEN, stored(neo4j_server, app_name))


@pytest.mark.slow
@pytest.mark.parametrize("is_read", [False, True], ids=["queued", "read"])
async def test_what_the_plugin_queues_and_reads_is_redacted(neo4j_server, app_name, is_read):
    settings, embedder = neo4j_server.settings(label_prefix=PREFIX), Listening()
    sessions = InMemorySessionService()  # a session of ours would keep what was said
    async with Neo4jMemoryService(settings=settings, embedder=embedder, redact="secrets") as service:
        plugin = GraphMemoryPlugin(idle=0.1 if is_read else 60.0)
        agent = LlmAgent(name="companion", model=ScriptedLlm.from_replies(f"I wrote {TOKEN} down."))
        runner = Runner(
            agent=agent, app_name=app_name, session_service=sessions, memory_service=service, plugins=[plugin]
        )
        await sessions.create_session(session_id="s", **owner(app_name))
        said = content(f"My bees know {TOKEN} by heart and cost {CARD}.")
        async for _ in runner.run_async(user_id="ann", session_id="s", new_message=said):
            pass
        connection = service.memory.connection
        await connection.prepare()
        wanted = {"done" if is_read else "pending"}
        for _ in range(600):
            states = {one["state"] for one in await fetch_ingests(connection, Scope(app_name, "ann"))}
            if states == wanted:
                break
            await asyncio.sleep(0.05)
        assert states == wanted
        kept = stored(neo4j_server, app_name)
        assert "[GitHub token]" in str(kept)
        assert "[card number]" in str(kept)
        for secret in (TOKEN, CARD):
            assert is_nowhere(secret, kept)
        await plugin.close()
    assert is_nowhere(TOKEN, embedder.heard)
    assert any("[GitHub token]" in text for text in embedder.heard) >= is_read
