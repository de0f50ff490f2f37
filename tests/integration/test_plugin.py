"""Conversations fill memory by themselves, behind a Runner, on a real Neo4j."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from benchmarks.wire import Wire
from google.adk.agents import LlmAgent, RunConfig
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools import load_memory
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from neo4j import AsyncGraphDatabase
from tests.support.ingests import fetch_ingests

from adk_graph_memory import Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.adk.plugin import GraphMemoryPlugin
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.graph import schema
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.memory import background
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Passage
from adk_graph_memory.runtime.settings import Limits, Settings, load_settings
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm, make_tool_call

PREFIX = "TestHash"
"""Vectors are a database's own: under this prefix they are all HashEmbedder's."""


class World:
    """One fresh app with a talkative agent on our services."""

    def __init__(self, settings: Any, app_name: str) -> None:
        self.app_name, self.settings = app_name, settings
        self.memory = Neo4jMemoryService(settings=settings, embedder=HashEmbedder(), model="rules")
        self.sessions: Any = Neo4jSessionService(settings=settings)
        self.plugins: list[GraphMemoryPlugin] = []

    def runner(self, replies: int = 100, memory: Any = None, memory_given: Any = None, **chosen: Any) -> Runner:
        plugin = GraphMemoryPlugin(memory=memory_given, **chosen)
        self.plugins.append(plugin)
        agent = LlmAgent(name="companion", model=ScriptedLlm.from_replies(*["I see."] * replies))
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
        connection = self.memory.memory.connection
        await connection.prepare()
        return await fetch_ingests(connection, Scope(self.app_name, user_id))

    async def states(self, user_id: str = "ada") -> list[str]:
        return [one["state"] for one in await self.ingests(user_id)]

    async def words(self, user_id: str = "ada") -> list[str]:
        """All that memory holds or is asked to hold of what was said, in its order, but for "I see."."""
        connection = self.memory.memory.connection
        await connection.prepare()
        rows = await connection.run_cypher(
            f"MATCH (e:{PREFIX}Event {{scope: $scope}}) WHERE e.memory_id IS NOT NULL "
            "RETURN e.text AS text ORDER BY e.timestamp",
            {"scope": Scope(self.app_name, user_id).key},
        )
        return [row["text"] for row in rows if row["text"] != "I see."]

    async def until(self, is_so: Callable[[], Any], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not await is_so():  # noqa: ASYNC110 (what comes true is in the database)
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


@pytest.mark.slow
async def test_what_was_said_is_found_though_nobody_added_it(world):
    runner = world.runner(idle=0.1)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))


@pytest.mark.slow
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


async def are_stored(world: World, count: int) -> bool:
    """Whether so many turns are in the graph, in however many requests."""
    return len(await world.words()) == count


@pytest.mark.slow
async def test_runs_that_were_queued_are_read_together(world, readings):
    runner = world.runner(idle=60, every=6)
    await world.start()
    for words in ("My dog is called Rex.", "He is afraid of thunder.", "He is three."):
        await world.say(runner, words)
    await world.until(lambda: world.found("Who is afraid of thunder?"))
    assert readings == [6]
    assert set(await world.states()) == {"done", "superseded"}


@pytest.mark.slow
async def test_only_what_is_new_is_offered(world, monkeypatch):
    offered: list[int] = []
    queue = background.enqueue_turns

    async def counting(self: Any, turns: Any, **more: Any) -> int:
        offered.append(len(turns))
        return await queue(self, turns, **more)

    monkeypatch.setattr(background, "enqueue_turns", counting)
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


@pytest.mark.slow
async def test_closing_the_runner_reads_what_is_left(world):
    runner = world.runner(idle=60, drain=60)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.plugins[0].close()
    assert await world.states() == ["done"]
    assert await world.found("What is my dog called?")


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("patience", [10.0, 0.3], ids=["waited for", "given up by the caller"])
async def test_closing_queues_what_waits_for_the_schema_to_be_made(world, monkeypatch, patience):
    migrate_schema = schema.migrate_schema

    async def migrate_slowly(connection: Connection) -> None:
        await asyncio.sleep(1)
        await migrate_schema(connection)

    await world.memory.prepare()
    monkeypatch.setattr(schema, "find_missing_indexes", lambda *_: ["an index"])
    monkeypatch.setattr(schema, "migrate_schema", migrate_slowly)
    memory = Neo4jMemoryService(settings=world.settings, model="rules", embedder=HashEmbedder())
    runner = world.runner(memory=memory, idle=60, drain=0.1)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    with suppress(TimeoutError):
        await asyncio.wait_for(world.plugins[0].close(), patience)
    await world.until(lambda: queued(world, 1))
    assert await world.words() == ["My dog is called Rex."]


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


WRONG = {
    "model": ({"model": "gemni-flash"}, "ADK knows no model named 'gemni-flash'"),
    "embedder": ({"embedder": "./no-such-model"}, "there is no such folder"),
    "dimensions": ({"embedder": HashEmbedder(32)}, "hash-32"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "reason"), WRONG.values(), ids=WRONG)
async def test_a_wrong_setting_costs_no_reply_and_is_one_line_of_the_log_for_each_thing_it_prevents(
    world, caplog, chosen, reason
):
    await world.memory.prepare()
    await world.memory.memory.engine.vectors.embed_passages([Passage("The vectors here are another embedder's.")])
    chosen = {"model": "rules", "embedder": HashEmbedder()} | chosen
    memory = Neo4jMemoryService(settings=world.settings, **chosen)
    runner = world.runner(memory=memory, idle=0)
    runner.agent.tools = [load_memory]
    replies = [make_tool_call("load_memory", query="Rex?"), "I do not know."] * 3
    runner.agent.model = ScriptedLlm.from_replies(*replies)
    await world.start()
    for words in ("My dog is called Rex.", "He is three.", "What is my dog called?"):
        await world.say(runner, words)
        await asyncio.sleep(0.5)
    await world.plugins[0].close()
    await memory.close()
    assert len(runner.agent.model.requests) == 6
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("adk_graph_memory")]
    lines = [line for line in lines if not line.startswith("The last turns of")]  # said when the plugin closes
    assert 1 <= len(lines) <= 2
    assert len({line.partition(":")[0] for line in lines}) == len(lines)
    assert all(reason in line for line in lines)
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.slow
async def test_what_cannot_be_queued_is_taken_along_by_the_next_run(world, monkeypatch):
    async def fails(*_: Any, **__: Any) -> int:
        raise ConnectionError("a bug")

    runner = world.runner(idle=0)
    await world.start()
    with monkeypatch.context() as patch:
        patch.setattr(background, "enqueue_turns", fails)
        await world.say(runner, "My dog is called Rex.")
        await asyncio.sleep(0.2)
    await world.say(runner, "He is three.")
    await world.until(lambda: world.found("What is my dog called?"))


@pytest.fixture
def wire(neo4j_server, world, monkeypatch) -> Iterator[Wire]:
    """Between the memory that the plugin fills and the server; the sessions live elsewhere."""
    monkeypatch.setattr(background, "MAX_RETRY_PAUSE", 0.1)
    world.sessions = InMemorySessionService()
    with Wire(neo4j_server.uri) as wire:
        username, password = neo4j_server.auth
        address = {"uri": wire.uri, "username": username, "password": password}
        settings = Settings(**address, label_prefix=PREFIX, limits=Limits(database_timeout=3), model="rules")
        world.cut_off = Neo4jMemoryService(settings=settings, embedder=HashEmbedder())
        yield wire


@pytest.mark.slow
async def test_what_is_said_while_the_database_is_away_is_queued_when_it_is_back(world, wire):
    runner = world.runner(memory=world.cut_off, idle=60)
    await world.start()
    await world.say(runner, "Zero.")
    await world.until(lambda: queued(world, 1))
    wire.cut()
    for words in ("My dog is called Rex.", "He is three.", "He is afraid of thunder."):
        await world.say(runner, words)
    await asyncio.sleep(0.3)
    wire.mend()
    await world.until(lambda: are_stored(world, 4))
    await world.plugins[0].close()
    assert await world.words() == ["Zero.", "My dog is called Rex.", "He is three.", "He is afraid of thunder."]


@pytest.mark.slow
async def test_a_database_that_is_away_is_not_waited_for_with_a_task_a_run(world, wire):
    runner = world.runner(memory=world.cut_off, idle=60, drain=0.1)
    await world.start()
    wire.cut()
    for number in range(30):
        await world.say(runner, f"Number {number}.")
    _, filling = world.plugins[0]._queue._background_worker
    assert len(filling._enqueue_tasks) == 1
    assert len(world.plugins[0]._queue._turn_buffer.list_pending_sessions()) == 1


@pytest.mark.slow
async def test_what_closing_could_not_queue_is_said_and_waits_for_the_next_life(world, wire, caplog):
    runner = world.runner(memory=world.cut_off, idle=60, drain=0.2)
    await world.start()
    wire.cut()
    with caplog.at_level(logging.ERROR):
        await world.say(runner, "My dog is called Rex.")
        await world.plugins[0].close()
    assert "The last turns of 1 sessions could not be queued" in caplog.text
    wire.mend()
    await world.start("t")
    await world.say(runner, "Hello.", "t")
    await world.until(lambda: queued(world, 2))
    assert "My dog is called Rex." in await world.words()


@pytest.mark.slow
async def test_when_too_many_wait_the_one_that_has_waited_longest_is_left_to_its_next_run(
    world, wire, caplog, monkeypatch
):
    monkeypatch.setattr(background, "MAX_BUFFERED_SESSIONS", 3)
    runner = world.runner(memory=world.cut_off, idle=60, drain=0.2)
    wire.cut()
    with caplog.at_level(logging.ERROR):
        for number in range(5):
            await world.start(f"s{number}")
            await world.say(runner, f"Number {number}.", f"s{number}")
    assert "The buffer is full while the database is away" in caplog.text
    assert len(world.plugins[0]._queue._turn_buffer.list_pending_sessions()) <= 3
    monkeypatch.setattr(background, "MAX_BUFFERED_SESSIONS", 100)
    wire.mend()
    for number in range(5):
        await world.say(runner, "Again.", f"s{number}")

    async def all_are_there() -> bool:
        return sorted(await world.words()) == [*["Again."] * 5, *(f"Number {number}." for number in range(5))]

    await world.until(all_are_there)


@pytest.mark.slow
async def test_a_run_that_fails_is_remembered_as_far_as_it_went(world):
    runner = world.runner(idle=0)
    runner.agent.model = ScriptedLlm.from_replies(RuntimeError("no model today"))
    await world.start()
    with pytest.raises(RuntimeError, match="no model today"):
        await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))


@pytest.mark.slow
async def test_a_plugin_may_be_closed_and_go_on(world):
    runner = world.runner(idle=0, at_once=1)
    for number in range(4):
        await world.start(f"s{number}", f"user{number}")
        await world.say(runner, f"My number is {number}.", f"s{number}", f"user{number}")
        await runner.close()
        assert await world.states(f"user{number}") == ["done"]
    assert world.sessions.on_close_session == []


@pytest.mark.slow
async def test_two_runners_may_share_a_plugin_and_fill_two_memories(world, neo4j_server):
    another = World(neo4j_server.settings(label_prefix=PREFIX), f"{world.app_name}-too")
    async with another.memory, another.sessions:
        shared = world.runner(idle=0).plugin_manager.plugins
        for one in (world, another):
            runner = one.runner()
            runner.plugin_manager.plugins[:] = shared
            await one.start()
            await one.say(runner, f"My dog is called {one.app_name}.")
        for one in (world, another):
            await one.until(lambda one=one: one.found("What is my dog called?"))
        assert another.plugins[0]._queue._background_worker is None


@pytest.mark.slow
async def test_what_is_read_in_the_background_is_read_in_nobodys_context(world):
    tenant = contextvars.ContextVar("tenant", default="nobody")
    seen: list[str] = []

    def reply(request: Any) -> str:
        seen.append(tenant.get())
        return '{"entities": [], "facts": []}'

    memory = Neo4jMemoryService(
        settings=world.settings, embedder=HashEmbedder(), model=ScriptedLlm.from_replies(*[reply] * 3)
    )
    runner = world.runner(memory=memory, idle=0)
    await world.start()
    tenant.set("ada")
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))
    await world.plugins[0].close()
    assert set(seen) == {"nobody"}
    await memory.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_given", [False, True])
async def test_what_agents_tell_each_other_is_no_users_word(world, is_given, caplog):
    helper = LlmAgent(name="researcher", model=ScriptedLlm.from_replies("He lives in Oslo."))
    replies = make_tool_call("researcher", request="I live in Rome."), "Done."
    runner = world.runner(idle=0, memory_given=world.memory if is_given else None)
    runner.agent.model = ScriptedLlm.from_replies(*replies)
    runner.agent.tools = [AgentTool(helper)]
    await world.start()
    with caplog.at_level(logging.WARNING):
        await world.say(runner, "Please look something up.")
        await world.plugins[0].close()
    assert await world.words() == ["Please look something up.", "Done."]
    assert "remembers nothing" not in caplog.text


@pytest.mark.slow
async def test_a_turn_that_no_model_can_read_is_tried_a_few_times_and_keeps_no_other_out(world, monkeypatch):
    monkeypatch.setattr(background, "MAX_ATTEMPTS", 3)
    asked: list[str] = []

    def reply(request: Any) -> str:
        asked.append(request.contents[0].parts[0].text.rpartition("<conversation>")[2])
        if "Poison." in asked[-1].partition('"turn": 0')[2]:
            raise RuntimeError("refused")
        return '{"entities": [], "facts": []}'

    settings = load_settings(**world.settings.model_dump(), model_retries=0)
    memory = Neo4jMemoryService(
        settings=settings, embedder=HashEmbedder(), model=ScriptedLlm.from_replies(*[reply] * 20)
    )
    runner = world.runner(memory=memory, idle=0)
    await world.start()
    for words in ("Poison.", "My dog is called Rex.", "He is three.", "He is black.", "He is fast.", "He is mine."):
        await world.say(runner, words)
        await world.until(lambda: nobody_reads(world))
    await world.plugins[0].close()
    await memory.close()
    assert [one["state"] for one in await world.ingests() if one["state"] != "superseded"].count("pending") == 1
    assert "He is mine." in await world.found("Whose is the dog?")
    assert sum("Poison." in text and "Rex" not in text for text in asked) == 3


async def nobody_reads(world: World) -> bool:
    await asyncio.sleep(0.3)
    [life] = [plugin._queue._background_worker for plugin in world.plugins]
    return not (life[1]._ingest_tasks or life[1]._queued_counts or life[1]._enqueue_tasks)


@pytest.mark.slow
async def test_an_event_that_cannot_be_stored_takes_no_other_with_it(world, caplog):
    world.sessions = InMemorySessionService()
    runner = world.runner(idle=60)
    await world.start()
    session = world.sessions.sessions[world.app_name]["ada"]["s"]
    content = types.Content(role="user", parts=[types.Part(text="Said in milliseconds.")])
    session.events.append(Event(author="user", content=content, timestamp=1_800_000_000_000.0))
    await world.say(runner, "My dog is \ud83d called Rex.")
    await world.say(runner, "He is three.")
    await world.plugins[0].close()
    assert await world.words() == ["My dog is ? called Rex.", "He is three."]
    assert "cannot be remembered" in caplog.text


@pytest.mark.slow
async def test_what_comes_in_while_a_queuing_fails_is_queued(world, monkeypatch):
    queue, begun, go_on = background.enqueue_turns, threading.Event(), threading.Event()

    async def fails_once(self: Any, turns: Any, **more: Any) -> int:
        if not begun.is_set():
            begun.set()
            await asyncio.to_thread(go_on.wait)
            raise ConnectionError("a bug")
        return await queue(self, turns, **more)

    monkeypatch.setattr(background, "enqueue_turns", fails_once)
    runner = world.runner(idle=60)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await asyncio.to_thread(begun.wait)
    await world.say(runner, "He is three.")
    go_on.set()
    await world.until(lambda: world.words())
    assert await world.words() == ["My dog is called Rex.", "He is three."]
    await world.say(runner, "He is black.")
    await world.plugins[0].close()
    assert await world.words() == ["My dog is called Rex.", "He is three.", "He is black."]


async def test_a_memory_with_a_driver_of_anothers_loop_is_left_alone(world, neo4j_server, caplog):
    async with AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        memory = Neo4jMemoryService(driver=driver, settings=world.settings, embedder=False)
        runner = world.runner(memory=memory, idle=0)
        await world.start()
        with caplog.at_level(logging.WARNING):
            await world.say(runner, "My dog is called Rex.")
    assert "give it an address instead" in caplog.text


@pytest.mark.slow
async def test_closing_a_plugin_leaves_searches_alone(world):
    runner = world.runner(idle=0)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))
    before = world.memory.memory.connection.sync_driver
    await runner.close()
    assert world.memory.memory.connection.sync_driver is before
    assert await world.found("What is my dog called?")


@pytest.mark.slow
async def test_a_rewind_is_seen_though_a_run_loads_only_the_latest_events(world):
    runner = world.runner(idle=0.1)
    await world.start()
    await world.say(runner, "My dog is called Rex.")
    await world.until(lambda: world.found("What is my dog called?"))
    stored = await world.sessions.get_session(app_name=world.app_name, user_id="ada", session_id="s")
    first = stored.events[0].invocation_id
    await runner.rewind_async(user_id="ada", session_id="s", rewind_before_invocation_id=first)
    message = types.Content(role="user", parts=[types.Part(text="My cat is called Muschi.")])
    recent = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    async for _ in runner.run_async(user_id="ada", session_id="s", new_message=message, run_config=recent):
        pass

    async def only_the_cat_is_known() -> bool:
        told = " ".join(await world.found("What are my dog and my cat called?"))
        return "Muschi" in told and "Rex" not in told

    await world.until(only_the_cat_is_known)


@pytest.mark.slow
def test_a_process_that_ends_without_closing_has_queued_what_was_said(neo4j_server, app_name, tmp_path):
    script = tmp_path / "talk.py"
    script.write_text(ENDS_WITHOUT_CLOSING)
    username, password = neo4j_server.auth
    environment = {**os.environ, "NEO4J_URI": neo4j_server.uri, "NEO4J_USERNAME": username, "NEO4J_PASSWORD": password}
    environment["ADK_GRAPH_MEMORY_LABEL_PREFIX"] = PREFIX
    subprocess.run([sys.executable, str(script), app_name], env=environment, check=True, timeout=120)
    world = World(neo4j_server.settings(label_prefix=PREFIX), app_name)
    assert asyncio.run(closing(world, world.words())) == ["My dog is called Rex."]


ENDS_WITHOUT_CLOSING = """
import asyncio, sys

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_graph_memory import Neo4jMemoryService
from adk_graph_memory.adk.plugin import GraphMemoryPlugin
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm


async def main() -> None:
    agent = LlmAgent(name="companion", model=ScriptedLlm.from_replies("I see."))
    app = App(name=sys.argv[1], root_agent=agent, plugins=[GraphMemoryPlugin()])
    sessions, memory = InMemorySessionService(), Neo4jMemoryService(embedder=HashEmbedder(), model="rules")
    runner = Runner(app=app, session_service=sessions, memory_service=memory)
    await sessions.create_session(app_name=sys.argv[1], user_id="ada", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="My dog is called Rex.")])
    async for _ in runner.run_async(user_id="ada", session_id="s", new_message=message):
        pass


asyncio.run(main())
"""


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.full
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
        [row] = await connection.run_cypher(
            f"MATCH (e:{PREFIX}Event {{scope: $scope}}) WHERE e.memory_id IS NOT NULL "
            f"RETURN count(e) AS turns, count(CASE WHEN e:{PREFIX}Memory THEN 1 END) AS remembered",
            {"scope": scope},
        )
        assert (row["turns"], row["remembered"]) == (20, 20), user_id
        assert set(await world.states(user_id)) <= {"done", "superseded"}
        assert all(user_id in text or text == "I see." for text in await world.found("Which bees are called?", user_id))
