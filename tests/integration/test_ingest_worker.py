"""The plugin's worker in the test's own loop: what is cancelled, queued twice, left by others or in error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types
from tests.support.ingests import fetch_ingests

from adk_graph_memory import Neo4jMemoryService
from adk_graph_memory.adk.plugin import GraphMemoryPlugin, describe_session
from adk_graph_memory.memory import background
from adk_graph_memory.memory.background import IngestWorker, SessionKey, TurnBuffer
from adk_graph_memory.memory.engine import Engine
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = 1_780_000_000.0
PREFIX = "TestHash"


class Gate:
    """Holds every queuing until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened, self.count = asyncio.Event(), asyncio.Event(), 0
        enqueue_turns = background.enqueue_turns

        async def wait(*arguments: Any, **options: Any) -> int:
            self.count += 1
            self.reached.set()
            await self.opened.wait()
            return await enqueue_turns(*arguments, **options)

        monkeypatch.setattr(background, "enqueue_turns", wait)


@pytest.fixture
def lease() -> float:
    """Seconds until a sweep comes again."""
    return 600.0


@pytest.fixture
async def service(neo4j_server: Any, lease: float) -> AsyncIterator[Neo4jMemoryService]:
    settings = neo4j_server.settings(label_prefix=PREFIX, lease=lease)
    async with Neo4jMemoryService(settings=settings, model="rules", embedder=HashEmbedder()) as opened:
        yield opened


@pytest.fixture
async def worker(service: Neo4jMemoryService) -> AsyncIterator[IngestWorker]:
    made = IngestWorker(TurnBuffer(), every=100, idle=3_600, at_once=2, drain=0)
    yield made
    await made.drain_queue()


def say(worker: IngestWorker, service: Neo4jMemoryService, app_name: str, *texts: str) -> SessionKey:
    events = [
        Event(id=f"e{n}", author="user", timestamp=NOON + n, content=types.UserContent(text))
        for n, text in enumerate(texts)
    ]
    session = Session(id="s", app_name=app_name, user_id="ada", events=events)
    key, event_ids, split_turns = describe_session(service, session)
    assert worker._turn_buffer.add_session(key, event_ids, split_turns)
    return key


async def read_states(service: Neo4jMemoryService, app_name: str, user_id: str = "ada") -> list[str]:
    connection = service.memory.connection
    await connection.prepare()
    return [row["state"] for row in await fetch_ingests(connection, Scope(app_name, user_id))]


async def test_words_whose_queuing_is_cancelled_wait_for_the_next_worker(
    worker: IngestWorker, service: Neo4jMemoryService, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    key = say(worker, service, app_name, "I keep bees.")
    task = asyncio.create_task(worker.enqueue_session(key))
    await gate.reached.wait()
    later = say(worker, service, app_name, "I keep bees.", "They are mine.")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert later == key
    pending = worker._turn_buffer.take_turns(key)
    assert pending is not None
    assert [turn.text for turn in pending.turns] == ["I keep bees.", "They are mine."]
    assert await read_states(service, app_name) == []


async def test_a_session_that_is_queued_twice_at_once_is_queued_by_one(
    worker: IngestWorker, service: Neo4jMemoryService, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    key = say(worker, service, app_name, "I keep bees.")
    first = asyncio.create_task(worker.enqueue_session(key))
    await gate.reached.wait()
    say(worker, service, app_name, "I keep bees.", "They are mine.")
    async with asyncio.timeout(20):
        await worker.enqueue_session(key)  # leaves them to the first, which is still at it
    assert gate.count == 1
    gate.opened.set()
    await first
    assert gate.count == 2
    assert await read_states(service, app_name) == ["pending", "pending"]


@pytest.mark.parametrize("lease", [0.05])
async def test_what_others_leave_is_looked_for_again_and_again(
    worker: IngestWorker, service: Neo4jMemoryService, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds, resume, came_again = list[float](), background.resume_ingests, asyncio.Event()

    async def count(engine: Engine, **filters: Any) -> Any:
        reports = await resume(engine, **filters)
        bounds.append(filters["before"])
        if await read_states(service, app_name, "bob") == ["done"]:
            came_again.set()
        return reports

    monkeypatch.setattr(background, "resume_ingests", count)
    await worker.enqueue_session(say(worker, service, app_name, "I keep bees."))
    turns = say(worker, service, app_name, "I keep bees.", "They are mine.")
    taken = worker._turn_buffer.take_turns(turns)
    assert taken is not None
    # Bob's process dies after this one began: only a later sweep may take its request up.
    await service.memory.user(app_name, "bob").enqueue(taken.turns, session_id="s")
    async with asyncio.timeout(20):
        await came_again.wait()
    assert len(bounds) > 1
    assert bounds == sorted(set(bounds))


async def test_no_error_of_the_plugin_reaches_the_reply(
    service: Neo4jMemoryService,
    app_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin, sessions = GraphMemoryPlugin(idle=3_600), InMemorySessionService()
    agent = LlmAgent(name="companion", model=ScriptedLlm.from_replies("I see.", "Indeed."))
    runner = Runner(agent=agent, app_name=app_name, session_service=sessions, memory_service=service, plugins=[plugin])
    await sessions.create_session(app_name=app_name, user_id="ada", session_id="s")

    async def say(text: str) -> list[str]:
        events = runner.run_async(user_id="ada", session_id="s", new_message=types.UserContent(text))
        return [event.content.parts[0].text async for event in events]

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("a bug in the buffer")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(TurnBuffer, "add_session", fail)
        assert await say("I keep bees.") == ["I see."]
    assert "a bug in the buffer" in caplog.text
    assert await say("They are mine.") == ["Indeed."]
    await plugin.close()
    connection = service.memory.connection
    await connection.prepare()
    query = f"MATCH (e:{PREFIX}Event {{scope: $scope}}) RETURN e.text AS text ORDER BY e.seq"
    rows = await connection.run_cypher(query, {"scope": Scope(app_name, "ada").key})
    # The first run's words came with the second's.
    assert [row["text"] for row in rows] == ["I keep bees.", "I see.", "They are mine.", "Indeed."]
