"""What the server has planned before a conversation needs it, and what an agent gets in the meantime."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from benchmarks.wire import Wire
from google.adk.events import Event
from google.genai import types
from neo4j.exceptions import DriverError

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Turn, errors
from adk_graph_memory.graph import planning
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.graph.vector_slots import fetch_schema_state
from adk_graph_memory.memory import recall as recalls
from adk_graph_memory.memory.recall import list_planned_statements
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.settings import Settings, load_settings
from adk_graph_memory.testing import HashEmbedder

Owner = dict[str, str]
START = datetime(2026, 5, 1, tzinfo=UTC)
TOLD = ("I keep bees on the roof.", "My phone number is 5551234.", "My phone number is 5559876.")
ASKED = "What about bees and the phone number?"


def say(*texts: str, first: int = 0) -> list[Turn]:
    return [Turn(f"t{n}", "user", text, START + timedelta(hours=n)) for n, text in enumerate(texts, first)]


@pytest.fixture(autouse=True)
def _time_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine changes nothing."""
    monkeypatch.setattr(planning, "CHECK_SECONDS", 60.0)


@pytest.fixture
async def service(neo4j_server: Any, owner: Owner) -> AsyncIterator[Neo4jMemoryService]:
    settings = neo4j_server.settings(label_prefix="TestHash", first_search_wait=0.05)
    async with Neo4jMemoryService(settings=settings, model="rules", embedder=HashEmbedder()) as service:
        await service.memory.remember(say(*TOLD), session_id="s", **owner)
        yield service


@contextmanager
def planning_held(service: Neo4jMemoryService, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server has lost its plans, and plans only a search by words until the block ends."""
    may_plan = threading.Event()
    plan_once = planning._PlanningRun._plan_once

    def wait_and_plan(run: Any, driver: Any, statement: planning.PlannedStatement) -> None:
        assert statement.stage == "words" or may_plan.wait(60)
        plan_once(run, driver, statement)

    monkeypatch.setattr(planning._PlanningRun, "_plan_once", wait_and_plan)
    service.memory.connection.planner.renew()
    try:
        yield
    finally:
        may_plan.set()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are planned from now on."""
    names = list[str]()
    run_once = planning._PlanningRun._run_once

    def note_and_run(run: Any, driver: Any, statement: planning.PlannedStatement) -> None:
        names.append(statement.name)
        run_once(run, driver, statement)

    monkeypatch.setattr(planning._PlanningRun, "_run_once", note_and_run)
    return names


@contextmanager
def messages_counted() -> Iterator[Counter[str]]:
    """What a planner's thread sends to the server, by the messages' kinds."""
    counts = Counter[str]()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sent = re.search(r"C: ([A-Z]+)", record.getMessage())
            if sent and record.threadName == "graph-planning":
                counts[sent[1]] += 1

    logger, handler = logging.getLogger("neo4j.io"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield counts
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def pause(planner: planning.StatementPlanner) -> None:
    """So long as a server takes to restart, nobody asks it anything."""
    planner.server.last_answer -= planning.RESTART_SECONDS


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

    listed = {statement.name for statement in list_planned_statements(service.memory.engine, {})}
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
        assert await service.memory.recall("bees", embed_timeout=0.0, **owner)
    assert {"append_events", "write_facts", "results", "candidates_scan"} < asked
    assert asked <= listed


async def test_a_pause_costs_a_search_one_round_trip_and_no_statement(service, owner):
    await service.prepare()
    planner = service.memory.connection.planner
    with messages_counted() as counts:
        await search(service, owner)
        assert not counts
        for _ in range(3):
            pause(planner)
            assert set((await search(service, owner)).values()) == {None}
        assert counts == {"RESET": 3}


@pytest.fixture
def wired(neo4j_server: Any) -> Iterator[tuple[Wire, Settings]]:
    """A wire to the server, and settings by which it leads there."""
    with Wire(neo4j_server.uri) as wire:
        settings = neo4j_server.settings(label_prefix="TestHash", first_search_wait=0.0, database_timeout=3)
        yield wire, settings.model_copy(update={"uri": wire.uri})


@pytest.fixture
async def memory(wired: tuple[Wire, Settings]) -> AsyncIterator[GraphMemory]:
    async with GraphMemory(settings=wired[1], model="rules", embedder=HashEmbedder()) as memory:
        await memory.prepare()
        yield memory


async def test_a_lost_connection_has_each_statement_planned_once_for_all(wired, memory, planned):
    """That is all that a process notices of a restart, and each connection of the process notices it by itself."""
    wire, settings = wired
    planner = memory.connection.planner
    async with Neo4jSessionService(settings=settings) as sessions:
        await sessions.prepare()
        assert not planned
        wire.cut()
        wire.mend()
        for _ in range(2):
            pause(planner)
            await sessions.prepare()
            await planner.wait_until_planned()
    listed = {statement.name for statement in list_planned_statements(memory.engine, {})}
    assert planned[0] == planning.SESSION_STATEMENTS[0].name
    assert Counter(planned) == Counter(listed)


async def test_a_pass_that_failed_is_made_again_at_the_next_use(wired, memory, planned):
    wire, _ = wired
    planner = memory.connection.planner
    pause(planner)
    last_answer = planner.server.last_answer
    wire.cut()
    for _ in range(2):
        await planner.wait_until_planned()
    assert planner.server.last_answer == last_answer
    assert not planned
    wire.mend()
    assert await planner.wait_for_stage("words", 60)
    assert planned[0] == "plain_search"


@pytest.mark.slow
async def test_both_searches_of_an_agent_share_one_deadline(wired, memory, owner, monkeypatch):
    """Nothing answers, so the first one takes all its time, and so does the one by words."""
    wire, settings = wired
    deadlines = list[float | None]()
    timeout, timeout_at = asyncio.timeout, asyncio.timeout_at

    def note_timeout(seconds: float | None) -> asyncio.Timeout:
        limit = timeout(seconds)
        if seconds == recalls.HURRIED_SHARE * settings.limits.database_timeout:
            deadlines.append(limit.when())
        return limit

    def note_deadline(deadline: float | None) -> asyncio.Timeout:
        deadlines.append(deadline)
        return timeout_at(deadline)

    monkeypatch.setattr(asyncio, "timeout", note_timeout)
    monkeypatch.setattr(asyncio, "timeout_at", note_deadline)
    wire.silence(new=True)
    monkeypatch.setattr(planning, "CHECK_SECONDS", 0.0)
    with pytest.raises(errors.DatabaseTimeout, match="no answer within 3 s"):
        await memory.recall(ASKED, first_wait=0.0, **owner)
    [full, by_words] = deadlines
    assert by_words == pytest.approx(full + 1.0, abs=1e-6)


async def test_an_answer_during_a_long_pass_changes_nothing(service, monkeypatch):
    await service.prepare()
    planner = service.memory.connection.planner
    with planning_held(service, monkeypatch):
        assert await planner.wait_for_stage("words", 60)
        run, plans = planner._run, planner.server.plans
        pause(planner)
        planner.note_answer()
        assert (planner._run, planner.server.plans) == (run, plans)
        assert planner.server.plans is plans


async def test_there_is_one_pass_at_a_time_and_none_after_closing(service, monkeypatch):
    await service.prepare()
    planner, running, most = service.memory.connection.planner, set[object](), [0]
    run_once = planning._PlanningRun._run_once

    def count_and_run(run: Any, driver: Any, statement: planning.PlannedStatement) -> None:
        running.add(run)
        most[0] = max(most[0], len(running))
        run_once(run, driver, statement)
        running.remove(run)

    monkeypatch.setattr(planning._PlanningRun, "_run_once", count_and_run)
    runs = set()
    for _ in range(3):
        planner.renew()
        assert await planner.wait_for_stage("words", 60)
        runs.add(planner._run)
    await service.close()
    assert len(runs) == 3
    assert most == [1]
    assert not any(run.thread.is_alive() for run in runs)


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
        assert set(by_words.values()) == {recalls.STILL_PLANNING}
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
    await service.memory.user(**owner).forget_session("lost")
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


async def test_a_pass_that_cannot_succeed_leaves_planning_to_each_statements_first_use(service, owner, monkeypatch):
    passes = list[object]()

    def fail(run: Any, _: Any) -> Any:
        passes.append(run)
        raise errors.ConfigurationError(reason="wrong")

    monkeypatch.setattr(planning._PlanningRun, "_read_meta", fail)
    service.memory.connection.planner.renew()
    for _ in range(2):
        assert set((await search(service, owner)).values()) == {None}
    assert len(passes) == 1


def test_what_nobody_closes_is_closed_with_its_last_user(neo4j_server):
    async def prepare() -> Any:
        sessions = Neo4jSessionService(settings=neo4j_server.settings())
        await sessions.prepare()
        driver = sessions._connection.planner._kept_connection._driver
        driver.verify_connectivity()
        return driver

    driver = asyncio.run(prepare())
    gc.collect()
    with pytest.raises(DriverError, match="closed"):
        driver.verify_connectivity()


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
        settings = load_settings(uri=server.uri, username=username, password=password, first_search_wait=0)
        async with Neo4jMemoryService(settings=settings, model="rules", embedder=HashEmbedder()) as service:
            await service.prepare()
            await service.memory.remember(say(*TOLD), session_id="s", **owner)
            assert set((await search(service, owner)).values()) == {None}
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            by_words = await search(service, owner)
            assert by_words[TOLD[0]] == recalls.STILL_PLANNING
            await service.memory.connection.planner.wait_until_planned()
            assert set((await search(service, owner)).values()) == {None}
