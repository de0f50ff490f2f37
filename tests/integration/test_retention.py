"""What has expired is nobody's to see at once, and pruning takes it away for good."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adk_graph_memory import (
    Filters,
    GraphMemory,
    Neo4jArtifactService,
    Neo4jMemoryService,
    Neo4jSessionService,
    Statement,
    Turn,
)
from adk_graph_memory.records import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

PREFIX = "TestHash"
LONG_AGO, LATELY = datetime(2020, 5, 1, 12, tzinfo=UTC), datetime.now(UTC) - timedelta(hours=1)
PAST, FUTURE = datetime(2021, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def turn(id: str, text: str, at: datetime = LATELY, **fields: Any) -> Turn:
    return Turn(id, "user", text, at, **fields)


def said(text: str, at: datetime = LATELY, **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id="inv", content=content, timestamp=at.timestamp(), **fields)


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=text)]), author="user", **fields)


def reply(*quotes: str, **names: list[int]) -> str:
    """What the model finds: a fact for each quote, each of a turn of its own and about whom the names say."""
    entities = [{"ref": 1, "name": "user", "type": "person"}]
    facts = [
        {"subject": 1, "predicate": "states", "object": None, "text": quote, "quote": quote, "turns": [number]}
        for number, quote in enumerate(quotes)
    ]
    for ref, (name, about) in enumerate(names.items(), start=2):
        entities.append({"ref": ref, "name": name, "type": "person"})
        for number in about:
            facts[number]["object"] = ref
    return json.dumps({"entities": entities, "facts": facts})


Make = Callable[..., GraphMemory]


@pytest.fixture
def owner(app_name: str) -> dict[str, str]:
    return {"app_name": app_name, "user_id": "ada"}


@pytest.fixture
async def make(neo4j_server: Any) -> AsyncIterator[Make]:
    """Makes memories over the same graph, each with settings of its own."""
    async with AsyncExitStack() as stack:

        def make_memory(*replies: str, **chosen: Any) -> GraphMemory:
            settings = neo4j_server.settings(label_prefix=PREFIX, **chosen)
            model = ScriptedLlm.from_replies(*replies) if replies else None
            memory = GraphMemory(settings=settings, embedder=HashEmbedder(), model=model)
            stack.push_async_callback(memory.close)
            return memory

        yield make_memory


async def texts(memory: GraphMemory, query: str, owner: dict[str, str], **more: Any) -> set[str]:
    return {found.text for found in await memory.recall(query, **owner, **more)}


async def facts(memory: GraphMemory, owner: dict[str, str]) -> set[str]:
    return {fact.text async for fact in memory.facts(**owner, past=True)}


async def entities(memory: GraphMemory, owner: dict[str, str]) -> set[str]:
    return {entity.name async for entity in memory.entities(**owner)}


# -- what has expired is not to be seen -------------------------------------------------------------------------


async def test_a_memory_expires_at_its_own_time_and_with_it_what_rests_on_it_alone(make, owner):
    memory = make(reply("Inés keeps bees", "Rui keeps goats", Inés=[0], Rui=[1]))
    turns = [turn("t1", "Inés keeps bees", expires_at=PAST), turn("t2", "Rui keeps goats", expires_at=FUTURE)]
    await memory.remember(turns, **owner, session_id="s")
    assert await texts(memory, "Who keeps bees or goats?", owner) == {"Rui keeps goats"}
    assert await facts(memory, owner) == {"Rui keeps goats"}
    assert await entities(memory, owner) == {"user", "Rui"}
    [user] = [user async for user in memory.users(app_name=owner["app_name"])]
    assert (user.turns, user.facts) == (1, 1)
    [app] = [app async for app in memory.apps() if app.app_name == owner["app_name"]]
    assert app.facts == 1
