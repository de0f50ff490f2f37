"""What the server has planned before a conversation needs it, and what an agent gets in the meantime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types
from neo4j.exceptions import ServiceUnavailable

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Turn, errors, graph, telemetry
from adk_graph_memory import recall as recalls
from adk_graph_memory.graph import planning
from adk_graph_memory.graph.vector_slots import fetch_schema_state
from adk_graph_memory.local_neo4j import LocalNeo4j
from adk_graph_memory.records import Scope
from adk_graph_memory.settings import load_settings
from adk_graph_memory.testing import HashEmbedder

Owner = dict[str, str]
START = datetime(2026, 5, 1, tzinfo=UTC)
TOLD = ("I keep bees on the roof.", "My phone number is 5551234.", "My phone number is 5559876.")
ASKED = "What about bees and the phone number?"


def say(*texts: str, first: int = 0) -> list[Turn]:
    return [Turn(f"t{n}", "user", text, START + timedelta(hours=n)) for n, text in enumerate(texts, first)]


@pytest.fixture
async def service(neo4j_server: Any, owner: Owner) -> AsyncIterator[Neo4jMemoryService]:
    settings = neo4j_server.settings(label_prefix="TestHash", first_search_wait=0.05)
    async with Neo4jMemoryService(settings=settings, model="rules", embedder=HashEmbedder()) as service:
        await service.memory.remember(say(*TOLD), session_id="s", **owner)
        yield service


@contextmanager
def planning_held(service: Neo4jMemoryService, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server is restarted, as far as the service knows, and plans only a search by words until the block ends."""
    may_plan = asyncio.Event()
    plan_once = planning._PlanningRun._plan_once

    async def wait_and_plan(self: Any, driver: Any, statement: planning.PlannedStatement) -> None:
        while statement.stage != "words" and not may_plan.is_set():  # noqa: ASYNC110  # another loop sets it
            await asyncio.sleep(0.01)
        await plan_once(self, driver, statement)

    monkeypatch.setattr(planning._PlanningRun, "_plan_once", wait_and_plan)
    service.memory.connection.planner.renew()
    yield
    may_plan.set()


async def search(service: Neo4jMemoryService, owner: Owner) -> dict[str, str | None]:
    """The texts found, each with what its search did without."""
    found = await service.search_memory(query=ASKED, **owner)
    return {entry.content.parts[0].text: entry.custom_metadata.get("degraded") for entry in found.memories}


@pytest.mark.slow
async def test_all_that_a_conversation_asks_is_planned_before_it(service, owner, monkeypatch):
    asked = set[str]()
    trace_statement = telemetry.trace_statement

    def note_and_trace(name: str, *arguments: Any) -> Any:
        asked.add(name)
        return trace_statement(name, *arguments)

    planned = {statement.name for statement in service.memory._recall.list_planned_statements({})}
    settings = service.memory.connection.settings
    async with Neo4jSessionService(settings=settings) as sessions:
        await sessions.prepare()
        await service.prepare()
        monkeypatch.setattr(telemetry, "trace_statement", note_and_trace)
        session = await sessions.create_session(**owner)
        event = Event(id="e", author="user", invocation_id="i", content=types.UserContent("I live in Lisbon."))
        await sessions.append_event(session, event)
        assert await sessions.get_session(session_id=session.id, **owner)
        await service.add_session_to_memory(session)
        assert await search(service, owner)
    assert {"append_events", "write_facts", "results"} < asked
    assert asked <= planned


async def test_after_a_silence_or_a_loss_the_server_plans_again(service, owner, monkeypatch):
    """Nobody tells a process that the server beneath it was restarted, but it cannot be so in no time."""
    planned = list[str]()
    plan_once = planning._PlanningRun._run_once

    async def note_and_plan(self: Any, driver: Any, statement: planning.PlannedStatement) -> None:
        planned.append(statement.name)
        await plan_once(self, driver, statement)

    await service.prepare()
    monkeypatch.setattr(planning._PlanningRun, "_run_once", note_and_plan)
    planner = service.memory.connection.planner
    for silence, is_planned_again in ((0.0, False), (planning.RESTART_SECONDS, True), (0.0, False)):
        planner._server.last_answer -= silence
        await search(service, owner)
        await planner.wait_until_planned()
        assert ("candidates_a" in planned) is is_planned_again
        planned.clear()
    planner.note_loss(ServiceUnavailable())
    await planner.wait_until_planned()
    assert planned[0] == "plain_search"


async def test_statements_are_planned_for_nobody_and_leave_nothing(neo4j_server, app_name):
    async with GraphMemory(
        settings=neo4j_server.settings(label_prefix="TestHash"), model="rules", embedder=HashEmbedder()
    ) as memory:
        memory.connection.planner.renew()
        await memory.prepare()
        left = "MATCH (n) WHERE n.app_name STARTS WITH ':nobody:' RETURN count(n)"
        [[nodes]] = await memory.connection.run_cypher(left)
    assert nodes == 0


async def test_the_server_knows_each_name_before_a_node_has_it(service, owner):
    """A statement with a name that is new to the server would be planned again once the name came up."""
    connection = service.memory.connection
    named = set(connection.statements.list_names()["keys"])
    assert named <= {key for [key] in await connection.run_cypher("CALL db.propertyKeys()")}
    stored = "MATCH (n) WHERE n.scope = $scope OR n:TestHashMeta UNWIND keys(n) AS key RETURN DISTINCT key"
    keys = {key for [key] in await connection.run_cypher(stored, {"scope": Scope(**owner).key})}
    assert {"memory_id", "predicate", "tombstone_key"} < keys
    assert keys - named <= {"embedder_a"}  # statements name it by n[$…] alone


async def test_while_the_server_plans_an_agent_is_answered_by_words(service, owner, stranger, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "adk_graph_memory")
    await service.memory.remember(say("I keep bees in a secret garden.", first=9), session_id="x", **stranger)
    with planning_held(service, monkeypatch):
        for _ in range(2):
            by_words = await search(service, owner)
        assert set(by_words.values()) == {str(graph.NotPlanned())}
        assert {TOLD[0], TOLD[2]} <= by_words.keys()
        assert not any("secret" in text for text in by_words)
        [line] = [record.getMessage() for record in caplog.records if "by words alone" in record.getMessage()]
        assert "still planning" in line
        assert (await service.memory.recall(ASKED, **owner))[0].degraded is None  # who looks can wait
    await service.memory.connection.planner.wait_until_planned()
    assert set((await search(service, owner)).values()) == {None}


@pytest.mark.slow
async def test_by_words_alone_nothing_comes_back_that_does_not_hold(service, owner, monkeypatch):
    """What was ended, what has expired and what was forgotten stay away, whatever the server has time for."""
    old = Turn("old", "user", "I keep bees in an old garden.", START, expires_at=START + timedelta(days=1))
    await service.memory.remember([old], session_id="old", **owner)
    await service.memory.remember(say("I keep bees in a lost garden.", first=8), session_id="lost", **owner)
    await service.memory.forget_session("lost", **owner)
    with planning_held(service, monkeypatch):
        by_words = await service.search_memory(query=ASKED, **owner)
    texts = [(entry.custom_metadata["kind"], entry.content.parts[0].text) for entry in by_words.memories]
    assert ("event", TOLD[0]) in texts
    assert not any("garden" in text for _, text in texts)
    assert not any("5551234" in text for kind, text in texts if kind == "fact")


async def test_a_search_that_runs_out_of_time_is_made_again_by_words(service, owner, monkeypatch, caplog):
    await service.prepare()
    monkeypatch.setattr(recalls, "HURRIED_SHARE", 1e-9)
    for _ in range(2):
        degraded = set((await search(service, owner)).values())
    [reason] = degraded
    assert "it is still planning its first statements" in reason
    [line] = [record.getMessage() for record in caplog.records if "by words alone" in record.getMessage()]
    assert "no answer within" in line
    with pytest.raises(errors.DatabaseTimeout, match="its first statements"):
        raise service.memory.connection.make_timeout_error()


async def test_a_failed_pass_leaves_planning_to_each_statements_first_use(service, owner, monkeypatch):
    def fail(*_: Any) -> Any:
        raise errors.DatabaseUnavailable(uri="bolt://db", reason="gone")

    monkeypatch.setattr(planning._PlanningRun, "_read_meta", fail)
    service.memory.connection.planner.renew()
    assert set((await search(service, owner)).values()) == {None}


@pytest.mark.slow
@pytest.mark.schema
async def test_vector_indexes_that_are_made_ahead_fit_whoever_writes_first(neo4j_server, owner):
    """``prepare()`` makes them for its embedder; another one of other dimensions may store the first vectors."""
    settings = neo4j_server.settings(label_prefix=f"Ahead{owner['app_name'][4:]}")
    wide, narrow = HashEmbedder(), HashEmbedder(dimensions=32)
    async with GraphMemory(settings=settings, model="rules", embedder=wide) as first:
        await first.prepare()
    async with GraphMemory(settings=settings, model="rules", embedder=narrow) as second:
        await second.remember(say(*TOLD), session_id="s", **owner)
        found = await second.recall(ASKED, **owner)
        assert found[0].degraded is None
        assert (await fetch_schema_state(second.connection)).live_slot.dimensions == 32
        assert [checkup.findings async for checkup in second.check_memories(**owner)] == [()]


@pytest.mark.slow
async def test_an_agent_is_answered_by_a_server_that_was_restarted_beneath_it():
    owner = {"app_name": "restarts", "user_id": "ann"}
    async with LocalNeo4j() as server:
        username, password = server.auth
        settings = load_settings(uri=server.uri, username=username, password=password, first_search_wait=1)
        async with Neo4jMemoryService(settings=settings, model="rules", embedder=HashEmbedder()) as service:
            await service.prepare()
            await service.memory.remember(say(*TOLD), session_id="s", **owner)
            assert set((await search(service, owner)).values()) == {None}
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            assert TOLD[0] in await search(service, owner)
            await service.memory.connection.planner.wait_until_planned()
            assert set((await search(service, owner)).values()) == {None}
