"""The flows of ADK's tutorials on sessions, state and memory, on our two services, with a scripted agent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.adk.agents import LlmAgent, ParallelAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events import Event, EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.tools import FunctionTool, ToolContext, load_memory, preload_memory
from google.adk.tools.agent_tool import AgentTool
from google.adk.utils.instructions_utils import inject_session_state
from google.adk.workflow import START, Workflow
from google.genai import types

from adk_graph_memory import Neo4jArtifactService, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import ScriptedLlm, make_tool_call

USER = "ada"
"""Vectors are a database's own: under this prefix they are all MiniLM's."""


def message(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def prompt(request: LlmRequest) -> str:
    """All that the model was told, whatever it was: instructions, words, results of tools."""
    told = [str(request.config.system_instruction or "")]
    for part in (part for content in request.contents for part in content.parts or []):
        told += [part.text or "", str(part.function_response.response) if part.function_response else ""]
    return "\n".join(told)


class World:
    """One fresh app on both services, with the arguments that never vary filled in."""

    def __init__(self, sessions: Neo4jSessionService, memory: Neo4jMemoryService, app_name: str) -> None:
        self.sessions, self.memory, self.app = sessions, memory, app_name

    def runner(self, agent: Any, **more: Any) -> Runner:
        services = {"session_service": self.sessions, "memory_service": self.memory, **more}
        return Runner(agent=agent, app_name=self.app, **services)

    async def start(self, session_id: str | None = None, **more: Any) -> Session:
        return await self.sessions.create_session(app_name=self.app, user_id=USER, session_id=session_id, **more)

    async def fetch(self, session_id: str) -> Session:
        session = await self.sessions.get_session(app_name=self.app, user_id=USER, session_id=session_id)
        assert session is not None
        return session

    async def say(self, agent: Any, session_id: str, text: str, **more: Any) -> list[Event]:
        runner = self.runner(agent)
        run = runner.run_async(user_id=USER, session_id=session_id, new_message=message(text), **more)
        return [event async for event in run]

    async def told(self, text: str, session_id: str = "told") -> Session:
        """A session in which the user says this, added to memory."""
        await self.start(session_id)
        await self.say(agent("Good to know."), session_id, text)
        session = await self.fetch(session_id)
        await self.memory.add_session_to_memory(session)
        return session

    async def search(self, query: str) -> list[str]:
        found = await self.memory.search_memory(app_name=self.app, user_id=USER, query=query)
        return [entry.content.parts[0].text for entry in found.memories]


def agent(*replies: Any, name: str = "companion", **more: Any) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedLlm.from_replies(*replies), **more)


@pytest.fixture(scope="module")
def shared_embedder() -> Any:
    """MiniLM, loaded once."""
    from adk_graph_memory.models.light import LightEmbedder

    return LightEmbedder()


@pytest.fixture
async def world(neo4j_server: Any, app_name: str, shared_embedder: Any) -> AsyncIterator[World]:
    chosen = neo4j_server.settings(embed_timeout=60)
    async with (
        Neo4jSessionService(settings=chosen) as sessions,
        Neo4jMemoryService(settings=chosen, embedder=shared_embedder) as memory,
    ):
        yield World(sessions, memory, app_name)


# --- sessions and state -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_session_is_created_inspected_and_deleted(world: World) -> None:
    session = await world.start("s1", state={"greeting": "hello"})
    assert (session.id, session.app_name, session.user_id) == ("s1", world.app, USER)
    assert (session.state, session.events) == ({"greeting": "hello"}, [])
    assert session.last_update_time > 0
    await world.sessions.delete_session(app_name=world.app, user_id=USER, session_id="s1")
    assert await world.sessions.get_session(app_name=world.app, user_id=USER, session_id="s1") is None


@pytest.mark.slow
def test_an_output_key_is_stored_by_the_sync_runner(neo4j_server: Any, app_name: str, shared_embedder: Any) -> None:
    settings = neo4j_server.settings()
    sessions = Neo4jSessionService(settings=settings)
    memory = Neo4jMemoryService(settings=settings, embedder=shared_embedder)
    world = World(sessions, memory, app_name)
    session = asyncio.run(world.start())
    greeter = agent("Hello, Ada.", "Hello again.", output_key="last_greeting")
    for expected in ("Hello, Ada.", "Hello again."):
        list(world.runner(greeter).run(user_id=USER, session_id=session.id, new_message=message("Hi")))
        assert asyncio.run(world.fetch(session.id)).state["last_greeting"] == expected


async def test_a_hand_made_event_without_content_carries_state_of_every_scope(world: World) -> None:
    session = await world.start()
    changes = {"task_status": "active", "user:login_count": 1, "temp:validation_needed": True}
    event = Event(invocation_id="login", author="system", actions=EventActions(state_delta=changes))
    await world.sessions.append_event(session, event)
    stored = await world.fetch(session.id)
    assert stored.state == {"task_status": "active", "user:login_count": 1}
    assert stored.events[-1].content is None


async def test_user_state_is_there_in_the_users_other_sessions(world: World) -> None:
    await world.start("s1", state={"user:theme": "dark", "app:motd": "hi", "mine": 1})
    assert (await world.start("s2")).state == {"user:theme": "dark", "app:motd": "hi"}


async def test_state_changed_in_a_callback_is_stored(world: World) -> None:
    def count(callback_context: CallbackContext) -> None:
        callback_context.state["count"] = callback_context.state.get("count", 0) + 1
        callback_context.state["user:seen"] = True
        callback_context.state["temp:secret"] = "gone"

    session = await world.start()
    counting = agent("One.", "Two.", before_agent_callback=count)
    for _ in range(2):
        await world.say(counting, session.id, "Count")
    assert (await world.fetch(session.id)).state == {"count": 2, "user:seen": True}


async def test_state_changed_in_a_tool_is_stored(world: World) -> None:
    def remember_city(city: str, tool_context: ToolContext) -> str:
        """Keeps the city."""
        tool_context.state["user:city"] = city
        return "kept"

    session = await world.start()
    keeper = agent(make_tool_call("remember_city", city="Porto"), "Kept.", tools=[remember_city])
    await world.say(keeper, session.id, "I live in Porto")
    assert (await world.fetch(session.id)).state == {"user:city": "Porto"}


async def test_state_fills_the_braces_of_an_instruction(world: World) -> None:
    session = await world.start(state={"topic": "bees", "user:name": "Ada"})
    storyteller = agent("Once.", instruction="Tell {user:name} about {topic}; the mood is {mood?}.")
    await world.say(storyteller, session.id, "Go")
    assert "Tell Ada about bees; the mood is ." in prompt(storyteller.model.requests[0])


async def test_an_instruction_provider_may_inject_state_itself(world: World) -> None:
    async def instruction(context: ReadonlyContext) -> str:
        return await inject_session_state("Whatever is asked, the topic is {topic}.", context)

    session = await world.start(state={"topic": "bees"})
    storyteller = agent("Once.", instruction=instruction)
    await world.say(storyteller, session.id, "Go")
    assert "the topic is bees." in prompt(storyteller.model.requests[0])


async def test_writing_to_a_sessions_state_directly_stores_nothing(world: World) -> None:
    session = await world.start()
    (await world.fetch(session.id)).state["lost"] = True
    session.state["lost"] = True
    assert "lost" not in (await world.fetch(session.id)).state


# --- memory -------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_was_told_in_one_session_is_recalled_in_another(world: World) -> None:
    await world.told("My favourite project is the beehive monitor I call Alpha.")
    await world.start("asked")
    recaller = agent(make_tool_call("load_memory", query="favourite project"), "Alpha.", tools=[load_memory])
    events = await world.say(recaller, "asked", "What is my favourite project?")
    assert "beehive monitor I call Alpha" in prompt(recaller.model.requests[1])
    assert events[-1].content.parts[0].text == "Alpha."


@pytest.mark.slow
async def test_a_question_in_other_words_recalls_it_too(world: World) -> None:
    await world.told("I am terribly allergic to penicillin.")
    assert any("penicillin" in text for text in await world.search("Which medicine must not be given?"))


@pytest.mark.slow
async def test_what_one_node_of_a_workflow_tells_another_is_nobodys_word(world: World) -> None:
    async def remember(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    planner = agent("The client is allergic to penicillin.", name="planner", mode="single_turn")
    writer = agent("Noted.", name="writer", mode="single_turn", after_agent_callback=remember)
    await world.start("work")
    await world.say(Workflow(name="work", edges=[(START, planner, writer)]), "work", "I keep bees. Plan my week.")
    query = "MATCH (e:Event&Memory {scope: $scope}) RETURN e.author, e.text ORDER BY e.timestamp, e.seq"
    rows = await world.memory.memory.connection.run_cypher(query, {"scope": Scope(world.app, USER).key})
    assert [tuple(row) for row in rows] == [
        ("user", "I keep bees. Plan my week."),
        ("planner", "The client is allergic to penicillin."),
        ("writer", "Noted."),
    ]
    profile = await world.memory.memory.profile(app_name=world.app, user_id=USER)
    assert "bees" in profile.text
    assert "penicillin" not in profile.text


@pytest.mark.slow
async def test_preloaded_memories_stand_in_every_prompt(world: World) -> None:
    await world.told("My dog is called Krümel.")
    await world.start("asked")
    knowing = agent("Krümel.", tools=[preload_memory])
    await world.say(knowing, "asked", "What is my dog called?")
    told = prompt(knowing.model.requests[0])
    assert "<PAST_CONVERSATIONS>" in told
    assert "user: My dog is called Krümel." in told


@pytest.mark.slow
async def test_memories_that_were_preloaded_are_not_remembered_again(world: World) -> None:
    await world.told("My dog is called Krümel.")
    await world.start("asked")
    await world.say(agent("I will ask him.", tools=[preload_memory]), "asked", "Who is my dog?")
    await world.memory.add_session_to_memory(await world.fetch("asked"))
    assert sum("Krümel" in text for text in await world.search("dog Krümel")) == 1


@pytest.mark.slow
async def test_an_agent_adds_its_session_when_it_is_done(world: World) -> None:
    async def keep(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    session = await world.start()
    keeper = agent("Noted.", "Noted, too.", after_agent_callback=keep)
    await world.say(keeper, session.id, "I keep bees in the garden.")
    await world.say(keeper, session.id, "They make very dark honey.")
    assert {"I keep bees in the garden.", "They make very dark honey."} <= set(await world.search("bees honey garden"))


@pytest.mark.slow
async def test_a_tool_adds_searches_and_deletes_memories(world: World) -> None:
    async def forget_all(tool_context: ToolContext) -> int:
        """Forgets what is known about bees."""
        found = (await tool_context.search_memory("bees")).memories
        for entry in found:
            await tool_context.delete_memory(memory_id=entry.id)
        return len(found)

    await world.told("I keep bees in the garden.")
    await world.start("asked")
    await world.say(agent(make_tool_call("forget_all"), "Done.", tools=[forget_all]), "asked", "Forget the bees")
    assert "I keep bees in the garden." not in [entry for entry in await world.search("bees") if "user" in entry]


@pytest.mark.slow
async def test_one_agent_may_search_two_memories(world: World, neo4j_server: Any, shared_embedder: Any) -> None:
    docs_app = f"docs-{uuid.uuid4().hex}"
    settings = neo4j_server.settings(embed_timeout=60)
    docs = Neo4jMemoryService(settings=settings, embedder=shared_embedder)
    page = Session(
        id="page",
        app_name=docs_app,
        user_id="docs",
        events=[Event(author="user", content=message("A hive needs a roof of tin."))],
    )
    await docs.add_session_to_memory(page)

    async def search_docs(query: str) -> list[str]:
        """Looks into the handbook."""
        found = await docs.search_memory(app_name=docs_app, user_id="docs", query=query)
        return [entry.content.parts[0].text for entry in found.memories]

    await world.told("My hive stands behind the shed.")
    await world.start("asked")
    calls = [make_tool_call("load_memory", query="hive"), make_tool_call("search_docs", query="hive")]
    both = agent(*calls, "Behind the shed, under tin.", tools=[load_memory, search_docs])
    await world.say(both, "asked", "Tell me about my hive")
    await docs.close()
    told = prompt(both.model.requests[2])
    assert "behind the shed" in told
    assert "roof of tin" in told


# --- rewind and compaction ----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_a_rewind_takes_back_is_neither_remembered_nor_kept_in_memory(world: World) -> None:
    await world.start("s")
    await world.say(agent("I see."), "s", "My dog is called Rex.")
    for words in ("My cat is called Muschi.", "My bird is called Hansi."):
        [*_, last] = await world.say(agent("I see."), "s", words)
        if "cat" in words:
            await world.memory.add_session_to_memory(await world.fetch("s"))
            taken_back = last.invocation_id
    assert any("Muschi" in text for text in await world.search("What is my cat called?"))

    runner = world.runner(agent("I see."))
    await runner.rewind_async(user_id=USER, session_id="s", rewind_before_invocation_id=taken_back)
    await world.memory.add_session_to_memory(await world.fetch("s"))
    told = " ".join(await world.search("What are my dog, my cat and my bird called?"))
    assert "Rex" in told
    assert "Muschi" not in told
    assert "Hansi" not in told


@pytest.mark.slow
async def test_a_rewind_restores_state_and_artifacts(world: World, neo4j_server: Any) -> None:
    async def note(text: str, tool_context: ToolContext) -> int:
        """Writes a note."""
        tool_context.state["note"] = text
        return await tool_context.save_artifact("note.txt", types.Part(text=text))

    async with Neo4jArtifactService(settings=neo4j_server.settings()) as artifacts:
        await world.start("s")
        runs = []
        for text in ("oats", "rye"):
            noting = agent(make_tool_call("note", text=text), "Noted.", tools=[note])
            runner = world.runner(noting, artifact_service=artifacts)
            run = runner.run_async(user_id=USER, session_id="s", new_message=message(f"Note {text}"))
            runs += {event.invocation_id async for event in run}
        await runner.rewind_async(user_id=USER, session_id="s", rewind_before_invocation_id=runs[1])
        assert (await world.fetch("s")).state["note"] == "oats"
        kept = await artifacts.load_artifact(app_name=world.app, user_id=USER, session_id="s", filename="note.txt")
        assert kept.text == "oats" or kept.inline_data.data == b"oats"


@pytest.mark.slow
async def test_a_compacted_session_is_stored_and_remembered_by_its_own_words(world: World) -> None:
    summarizer = LlmEventSummarizer(llm=ScriptedLlm.from_replies("They spoke of a dog and of bees."))
    compaction = EventsCompactionConfig(summarizer=summarizer, compaction_interval=2, overlap_size=0)
    speaker = agent("I see.", "I see.", "Rex.")
    app = App(name=world.app, root_agent=speaker, events_compaction_config=compaction)
    runner = Runner(app=app, session_service=world.sessions, memory_service=world.memory)
    await world.start("s")
    for words in ("My dog is called Rex.", "I keep bees.", "What is my dog called?"):
        async for _ in runner.run_async(user_id=USER, session_id="s", new_message=message(words)):
            pass
    stored = await world.fetch("s")
    [summary] = [event.actions.compaction for event in stored.events if event.actions.compaction]
    assert summary.compacted_content.parts[0].text == "They spoke of a dog and of bees."
    assert "They spoke of a dog and of bees." in prompt(speaker.model.requests[-1])
    assert "I keep bees." not in prompt(speaker.model.requests[-1])
    await world.memory.add_session_to_memory(stored)
    assert "I keep bees." in await world.search("bees")
    assert not any("They spoke of" in text for text in await world.search("What did they speak of?"))


# --- several agents, threads and loops ----------------------------------------------------------------------


@pytest.mark.slow
async def test_parallel_agents_write_into_one_session(world: World) -> None:
    names = [f"worker{n}" for n in range(5)]
    team = ParallelAgent(name="team", sub_agents=[agent(f"Result of {n}", name=n, output_key=n) for n in names])
    session = await world.start()
    await world.say(team, session.id, "Go")
    stored = await world.fetch(session.id)
    assert stored.state == {name: f"Result of {name}" for name in names}
    await world.memory.add_session_to_memory(stored)
    await world.memory.add_session_to_memory(stored)
    assert {f"Result of {name}" for name in names} <= set(await world.search("result worker0 worker1 worker2"))


@pytest.mark.slow
async def test_an_agent_as_a_tool_shares_the_memory(world: World) -> None:
    await world.told("My dog is called Krümel.")
    await world.start("asked")
    archivist = agent(make_tool_call("load_memory", query="dog"), "Krümel.", name="archivist", tools=[load_memory])
    boss = agent(make_tool_call("archivist", request="Who is the dog?"), "It is Krümel.", tools=[AgentTool(archivist)])
    events = await world.say(boss, "asked", "Who is my dog?")
    assert events[-1].content.parts[0].text == "It is Krümel."
    assert "called Krümel" in prompt(archivist.model.requests[1]) or "Krümel" in prompt(boss.model.requests[1])


@pytest.mark.slow
async def test_a_tool_in_a_thread_of_its_own_may_use_the_memory(world: World) -> None:
    await world.told("My dog is called Krümel.")

    def search_in_a_thread(query: str) -> list[str]:
        """Searches the memory."""
        return asyncio.run(world.search(query))

    async def in_thread(query: str) -> list[str]:
        """Searches the memory."""
        return await asyncio.to_thread(search_in_a_thread, query)

    await world.start("asked")
    threaded = agent(make_tool_call("in_thread", query="dog"), "Krümel.", tools=[FunctionTool(in_thread)])
    await world.say(threaded, "asked", "Who is my dog?")
    assert "called Krümel" in prompt(threaded.model.requests[1])


@pytest.mark.slow
def test_many_threads_share_one_service(neo4j_server: Any, app_name: str, shared_embedder: Any) -> None:
    settings = neo4j_server.settings(embed_timeout=60)
    memory = Neo4jMemoryService(settings=settings, embedder=shared_embedder)
    world = World(Neo4jSessionService(settings=settings), memory, app_name)

    async def one(n: int) -> list[str]:
        event = Event(author="user", content=message(f"My lucky number is {n}000."))
        await memory.add_session_to_memory(Session(id=f"s{n}", app_name=app_name, user_id=USER, events=[event]))
        return await world.search(f"lucky number {n}000")

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: asyncio.run(one(n)), range(8)))
    assert all(f"My lucky number is {n}000." in texts for n, texts in enumerate(found))
    asyncio.run(memory.close())


@pytest.mark.slow
def test_one_service_serves_one_event_loop_after_another(
    neo4j_server: Any, app_name: str, shared_embedder: Any
) -> None:
    settings = neo4j_server.settings(embed_timeout=60)
    sessions, memory = (
        Neo4jSessionService(settings=settings),
        Neo4jMemoryService(settings=settings, embedder=shared_embedder),
    )
    world = World(sessions, memory, app_name)
    asyncio.run(world.told("My dog is called Krümel."))
    for _ in range(3):
        assert asyncio.run(world.search("dog")) != []
    asyncio.run(memory.close())


@pytest.mark.slow
async def test_closing_in_one_loop_leaves_the_service_usable(world: World) -> None:
    await world.told("My dog is called Krümel.")
    await world.memory.close()
    await world.memory.close()
    assert "My dog is called Krümel." in await world.search("dog")
