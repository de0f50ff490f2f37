"""The server stops in the middle of a conversation and comes back: memory costs no run, history loses no message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

pytest.importorskip("agent_framework", reason="the extra agent-framework is not installed")

from agent_framework import Agent, AgentSession, InMemoryHistoryProvider
from tests.support.scripted_client import ScriptedClient

from adk_graph_memory import GraphMemory, LocalNeo4j, errors
from adk_graph_memory.maf.history_provider import GraphHistoryProvider
from adk_graph_memory.maf.memory_provider import GraphMemoryProvider
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings, load_settings
from adk_graph_memory.testing import HashEmbedder

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("outage")]
RUNS, STOP, RESTART = 50, 20, 23


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNeo4j]:
    server = LocalNeo4j(home=tmp_path_factory.mktemp("outage") / "home").start()
    yield server
    server.close()


@pytest.fixture
def settings(server: LocalNeo4j) -> Settings:
    username, password = server.auth
    return load_settings(
        uri=server.uri, username=username, password=password, database_timeout=8
    )  # planning on a server just started takes seconds


async def switch(server: LocalNeo4j, number: int) -> None:
    """Stop the server before one run, and start it in the same place before a later one."""
    if number == STOP:
        await asyncio.to_thread(server.close)
    if number == RESTART:
        await asyncio.to_thread(server.start)


async def test_memory_costs_no_run_and_remembers_all_of_them(
    server: LocalNeo4j, settings: Settings, app_name: str
) -> None:
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), model="rules") as memory:
        options = {"app_name": app_name, "user_id": "ana"}
        async with GraphMemoryProvider(memory, recall_timeout=5, **options) as provider:  # type: ignore[arg-type]
            agent = Agent(client=ScriptedClient(), context_providers=[InMemoryHistoryProvider(), provider])
            session = AgentSession(session_id="s")
            for number in range(RUNS):
                await switch(server, number)
                assert (await agent.run(f"Number {number}.", session=session)).text == "I see."
            async with asyncio.timeout(120):
                await provider.flush()
        connection = memory.connection
        await connection.prepare()
        rows = await connection.run_cypher(
            "MATCH (e:Event {scope: $scope, author: 'user'}) RETURN e.text AS text ORDER BY e.timestamp, e.seq",
            {"scope": Scope(app_name, "ana").key},
        )
    assert [row["text"] for row in rows] == [f"Number {number}." for number in range(RUNS)]


async def test_a_database_that_takes_no_writes_costs_no_run(
    server: LocalNeo4j, settings: Settings, app_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(server.close)
    read_only = LocalNeo4j(home=server.home, conf={"server.databases.default_to_read_only": "true"})
    username, password = server.auth
    async with read_only, GraphMemory(read_only.uri, auth=(username, password), embedder=HashEmbedder()) as memory:
        options = {"app_name": app_name, "user_id": "ana"}
        async with GraphMemoryProvider(memory, drain=1, **options) as provider:  # type: ignore[arg-type]
            agent = Agent(client=ScriptedClient(), context_providers=[InMemoryHistoryProvider(), provider])
            assert (await agent.run("I live in Porto.", session=AgentSession(session_id="s"))).text == "I see."
        history = GraphHistoryProvider(read_only.uri, auth=(username, password), **options)  # type: ignore[arg-type]
        async with history:
            agent = Agent(client=ScriptedClient(), context_providers=[history])
            with pytest.raises(errors.DatabaseUnavailable, match="does not accept writes"):
                await agent.run("I live in Porto.", session=AgentSession(session_id="s"))
    assert "does not accept writes" in caplog.text
    await asyncio.to_thread(server.start)


async def test_history_raises_and_a_run_that_is_tried_again_is_stored_once(
    server: LocalNeo4j, settings: Settings, app_name: str
) -> None:
    failed_runs = []
    async with GraphHistoryProvider(settings=settings, app_name=app_name, user_id="ana") as history:
        agent = Agent(client=ScriptedClient(), context_providers=[history])
        for number in range(RUNS):
            await switch(server, number)
            try:
                await agent.run(f"Number {number}.", session=AgentSession(session_id="s"))
            except errors.DatabaseUnavailable:
                failed_runs.append(number)
        for number in failed_runs:
            await agent.run(f"Number {number}.", session=AgentSession(session_id="s"))
        texts = [message.text for message in await history.get_messages("s")]
    assert failed_runs == list(range(STOP, RESTART))
    order = [number for number in range(RUNS) if number not in failed_runs] + failed_runs
    assert texts == [text for number in order for text in (f"Number {number}.", "I see.")]
