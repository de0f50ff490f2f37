"""Conversations fill memory by themselves, behind a Runner, on a real Neo4j."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.memory import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_graph_memory import Neo4jMemoryService, Neo4jSessionService, graph
from adk_graph_memory.adk import GraphMemoryPlugin
from adk_graph_memory.extraction import RuleExtractor
from adk_graph_memory.records import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

PREFIX = "TestHash"
"""Vectors are a database's own: under this prefix they are all HashEmbedder's."""


class World:
    """One fresh app with a talkative agent on our services."""

    def __init__(self, settings: Any, app_name: str) -> None:
        self.app_name = app_name
        self.memory = Neo4jMemoryService(settings=settings, embedder=HashEmbedder(), model="rules")
        self.sessions: Any = Neo4jSessionService(settings=settings)
        self.plugins: list[GraphMemoryPlugin] = []

    def runner(self, replies: int = 100, memory: Any = None, **chosen: Any) -> Runner:
        plugin = GraphMemoryPlugin(**chosen)
        self.plugins.append(plugin)
        agent = LlmAgent(name="companion", model=ScriptedLlm.of(*["I see."] * replies))
        return Runner(
            agent=agent,
            app_name=self.app_name,
            session_service=self.sessions,
            memory_service=memory or self.memory,
            plugins=[plugin],
        )

    async def start(self, session_id: str = "s", user_id: str = "ada") -> None:
        await self.sessions.create_session(app_name=self.app_name, user_id=user_id, session_id=session_id)

    async def say(self, runner: Runner, words: str, session_id: str = "s", user_id: str = "ada") -> None:
        message = types.Content(role="user", parts=[types.Part(text=words)])
        async for _ in runner.run_async(user_id=user_id, session_id=session_id, new_message=message):
            pass

    async def ingests(self, user_id: str = "ada") -> list[dict[str, Any]]:
        connection = await graph.prepared(self.memory.memory.connection)
        return await graph.ingests.listed(connection, Scope(self.app_name, user_id))

    async def states(self, user_id: str = "ada") -> list[str]:
        return [one["state"] for one in await self.ingests(user_id)]

    async def until(self, is_so: Callable[[], Any], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not await is_so():
            assert time.monotonic() < end, await self.ingests()
            await asyncio.sleep(0.05)

    async def found(self, query: str, user_id: str = "ada") -> list[str]:
        answer = await self.memory.search_memory(app_name=self.app_name, user_id=user_id, query=query)
        return [entry.content.parts[0].text for entry in answer.memories]


@pytest.fixture
async def world(neo4j_server, app_name):
    made = World(neo4j_server.settings(label_prefix=PREFIX), app_name)
    async with made.memory, made.sessions:
        yield made
        for plugin in made.plugins:
            await plugin.close()


@pytest.fixture
def readings(monkeypatch) -> Iterator[list[int]]:
    """How many turns each reading had."""
    counted: list[int] = []
    extract = RuleExtractor.extract

    async def counting(self: RuleExtractor, turns: Any, *more: Any) -> Any:
        counted.append(len(turns))
        return await extract(self, turns, *more)

    monkeypatch.setattr(RuleExtractor, "extract", counting)
    yield counted


async def test_what_was_said_is_found_though_nobody_added_it(world):
    runner = world.runner(idle=0.1)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))


async def test_a_run_is_queued_at_once_and_read_when_the_user_is_quiet(world, readings):
    runner = world.runner(idle=60)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: queued(world, 1))
    await world.say(runner, "He is afraid of thunder.")
    await world.until(lambda: queued(world, 2))
    assert readings == []


async def queued(world: World, count: int) -> bool:
    return await world.states() == ["pending"] * count


async def test_runs_that_were_queued_are_read_together(world, readings):
    runner = world.runner(idle=60, every=6)
    await world.start()
    for words in ("My dog is called Rex.", "He is afraid of thunder.", "He is three."):
        await world.say(runner, words)
    await world.until(lambda: world.found("Who is afraid of thunder?"))
    assert readings == [6]
    assert set(await world.states()) == {"done", "superseded"}


async def test_only_what_is_new_is_offered(world, monkeypatch):
    offered: list[int] = []
    queue = type(world.memory.memory).queue

    async def counting(self: Any, turns: Any, **more: Any) -> int:
        offered.append(len(turns))
        return await queue(self, turns, **more)

    monkeypatch.setattr(type(world.memory.memory), "queue", counting)
    runner = world.runner(idle=60)
    await world.start()
    for number in range(3):
        await world.say(runner, f"I have {number} bees.")
        await world.until(lambda number=number: queued(world, number + 1))
    assert offered == [2, 2, 2]


async def test_closing_a_session_has_it_read(world):
    runner = world.runner(idle=60)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: queued(world, 1))
    session = await world.sessions.get_session(app_name=world.app_name, user_id="ada", session_id="s")
    await world.sessions.close_session(session)
    await world.until(lambda: world.found("What is my dog called?"))


async def test_closing_the_runner_reads_what_is_left(world):
    runner = world.runner(idle=60)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.plugins[0].close()
    assert await world.states() == ["done"]
    assert await world.found("What is my dog called?")


async def test_what_closing_has_no_time_for_stays_pending_and_the_next_process_reads_it(world, monkeypatch):
    extract = RuleExtractor.extract

    async def slow(self: RuleExtractor, *more: Any) -> Any:
        await asyncio.sleep(30)
        return await extract(self, *more)

    with monkeypatch.context() as patch:
        patch.setattr(RuleExtractor, "extract", slow)
        runner = world.runner(idle=0, drain=0.3)
        await world.start()
        await world.say(runner, "My dog is called Rex.")
        await world.until(lambda: claimed(world))
        await world.plugins[0].close()
        assert await world.states() == ["pending"]
    await world.start("t", user_id="bea")
    await world.say(world.runner(idle=60), "Hello.", "t", user_id="bea")
    await world.until(lambda: world.found("What is my dog called?"))


async def claimed(world: World) -> bool:
    return "claimed" in await world.states()


async def test_a_model_that_fails_breaks_no_reply_and_loses_nothing(world, monkeypatch, caplog):
    async def fails(self: RuleExtractor, *_: Any) -> Any:
        raise RuntimeError("no model today")

    runner = world.runner(idle=0)
    await world.start()
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(RuleExtractor, "extract", fails)
        await world.say(runner, "My dog is called Rex.")
        await world.until(lambda: failed(world))
    await world.say(runner, "He is three.")
    await world.until(lambda: world.found("What is my dog called?"))
    assert "no model today" in caplog.text
    assert "Rex" not in caplog.text


async def failed(world: World) -> bool:
    return any("no model today" in (one["reason"] or "") for one in await world.ingests())


async def test_a_database_that_is_away_breaks_no_reply_and_the_next_run_takes_it_along(world, monkeypatch):
    async def away(*_: Any, **__: Any) -> int:
        raise ConnectionError("away")

    runner = world.runner(idle=0)
    await world.start()
    with monkeypatch.context() as patch:
        patch.setattr(type(world.memory.memory), "queue", away)
        await world.say(runner, "My dog is called Rex.")
        await asyncio.sleep(0.2)
    await world.say(runner, "He is three.")
    await world.until(lambda: world.found("What is my dog called?"))


async def test_sessions_that_live_elsewhere_are_remembered_too(world):
    world.sessions = InMemorySessionService()
    runner = world.runner(idle=0)
    await world.start()
    for words in ("My dog is called Rex.", "He is afraid of thunder."):
        await world.say(runner, words)
    await world.until(lambda: world.found("Who is afraid of thunder?"))


async def test_what_was_rewound_is_forgotten_with_the_next_run(world):
    runner = world.runner(idle=0.1)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))
    stored = await world.sessions.get_session(app_name=world.app_name, user_id="ada", session_id="s")
    first = stored.events[0].invocation_id
    await runner.rewind_async(user_id="ada", session_id="s", rewind_before_invocation_id=first)
    await world.say(runner, "My cat is called Muschi.")

    async def only_the_cat_is_known() -> bool:
        told = " ".join(await world.found("What are my dog and my cat called?"))
        return "Muschi" in told and "Rex" not in told

    await world.until(only_the_cat_is_known)


async def test_sessions_of_an_evaluation_are_not_remembered(world):
    runner = world.runner(idle=0)
    await world.start("adk-eval-session-1")
    await world.say(runner, "My dog is called Rex.", "adk-eval-session-1")
    await world.plugins[0].close()
    assert await world.ingests() == []


async def test_another_memory_service_is_left_alone_and_that_is_said_once(world, caplog):
    runner = world.runner(memory=InMemoryMemoryService())
    await world.start()
    with caplog.at_level(logging.WARNING):
        await world.say(runner, "One.")
        await world.say(runner, "Two.")
    assert caplog.text.count("InMemoryMemoryService") == 1


async def test_a_memory_of_its_own_is_filled_beside_another(world):
    runner = world.runner(memory=InMemoryMemoryService())
    await world.plugins[0].close()
    runner.plugin_manager.plugins[:] = [GraphMemoryPlugin(memory=world.memory, idle=0)]
    world.plugins[:] = runner.plugin_manager.plugins
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))


def test_every_run_may_have_a_loop_of_its_own(neo4j_server, app_name):
    world = World(neo4j_server.settings(label_prefix=PREFIX), app_name)
    runner = world.runner(idle=0)
    asyncio.run(closing(world, world.start()))
    for words in ("My dog is called Rex.", "He is afraid of thunder."):
        message = types.Content(role="user", parts=[types.Part(text=words)])
        list(runner.run(user_id="ada", session_id="s", new_message=message))
    asyncio.run(world.plugins[0].close())
    assert asyncio.run(closing(world, world.found("Who is afraid of thunder?")))


async def closing(world: World, work: Any) -> Any:
    async with world.memory, world.sessions:
        return await work


async def test_fifty_users_at_once_lose_nothing_and_see_nothing_of_each_other(world):
    runner = world.runner(replies=500, idle=0.2, drain=60)

    async def talk(user_id: str) -> None:
        await world.start("s", user_id)
        for number in range(10):
            await world.say(
                runner, f"My number {number} bee of {user_id} is called Bee{user_id}x{number}.", "s", user_id
            )

    users = [f"user{number:02}" for number in range(50)]
    await asyncio.gather(*map(talk, users))
    await world.plugins[0].close()
    connection = world.memory.memory.connection
    for user_id in users:
        scope = Scope(world.app_name, user_id).key
        [row] = await connection.run_text(
            f"MATCH (e:{PREFIX}Event {{scope: $scope}}) WHERE e.memory_id IS NOT NULL "
            f"RETURN count(e) AS turns, count(CASE WHEN e:{PREFIX}Memory THEN 1 END) AS remembered",
            {"scope": scope},
        )
        assert (row["turns"], row["remembered"]) == (20, 20), user_id
        assert set(await world.states(user_id)) <= {"done", "superseded"}
        assert all(user_id in text or text == "I see." for text in await world.found("Which bees are called?", user_id))
