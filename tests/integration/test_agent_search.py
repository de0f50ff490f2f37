"""What an agent gets by each way in: few lines with the answer, none where nothing answers, and a word of doubt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_framework import Agent
from mcp import Client
from tests.support.scripted_client import ScriptedClient

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Turn
from adk_graph_memory.maf import GraphMemoryProvider
from adk_graph_memory.records.results import DOUBT_NOTE
from adk_graph_memory.servers.mcp.tools import make_mcp_server
from adk_graph_memory.testing import HashEmbedder

SAID = """
My dog Rex is afraid of thunder.
I work as a nurse at the children's hospital.
My sister Clara moved to Lisbon last spring.
We repainted the kitchen in pale green.
The car needs new brakes before the winter.
I am learning to play the cello on Thursdays.
My neighbour grows tomatoes on her balcony.
Our flight to Oslo leaves at seven in the morning.
I read two crime novels a month.
The boiler was repaired by Mr Hansen.
My brother coaches a handball team.
I never drink coffee after lunch.
We keep the spare key under the blue pot.
My grandmother baked bread every Sunday.
The printer in the office jams on thick paper.
I run ten kilometres along the river.
"""
KNOWN, UNHEARD, GIBBERISH = "What is my dog Rex afraid of?", "What is my dog Otto afraid of?", "asdfghjkl"
Owner = dict[str, str]
Ask = Callable[[str], Awaitable[list[str]]]


async def remember(memory: GraphMemory, owner: Owner) -> None:
    said_at, lines = datetime(2026, 3, 2, 12, tzinfo=UTC), SAID.strip().splitlines()
    turns = [Turn(str(number), "user", line, said_at) for number, line in enumerate(lines)]
    await memory.remember(turns, session_id="s", **owner)


@pytest.fixture
async def memory(neo4j_server: Any, owner: Owner) -> AsyncIterator[GraphMemory]:
    async with GraphMemory(settings=neo4j_server.settings(), model="rules") as memory:
        await remember(memory, owner)
        yield memory


def ask_service(memory: GraphMemory, owner: Owner) -> Ask:
    async def ask(question: str) -> list[str]:
        response = await Neo4jMemoryService(memory=memory).search_memory(query=question, **owner)
        return [entry.content.parts[0].text or "" for entry in response.memories if entry.content.parts]

    return ask


def ask_mcp(memory: GraphMemory, owner: Owner) -> Ask:
    async def ask(question: str) -> list[str]:
        async with Client(make_mcp_server(memory, lambda request: (owner["app_name"], owner["user_id"]))) as client:
            result = await client.call_tool("recall", {"question": question})
        lines = str(result.content[0].text).splitlines()  # type: ignore[union-attr]
        return [] if lines == ["Nothing in memory fits this question."] else lines

    return ask


def ask_agent_framework(memory: GraphMemory, owner: Owner) -> Ask:
    async def ask(question: str) -> list[str]:
        client, provider = ScriptedClient(), GraphMemoryProvider(memory, recall_timeout=30.0, **owner)
        await Agent(client=client, context_providers=[provider]).run(question)
        await provider.close()
        return [line for text in client.texts()[:-1] for line in text.splitlines() if line.startswith("- ")]

    return ask


@pytest.mark.parametrize("way", [ask_service, ask_mcp, ask_agent_framework])
async def test_an_agent_gets_few_lines_with_the_answer_and_none_without(
    memory: GraphMemory, owner: Owner, way: Callable[[GraphMemory, Owner], Ask]
) -> None:
    ask = way(memory, owner)
    answer, doubtful = await ask(KNOWN), await ask(UNHEARD)
    assert "Rex is afraid of thunder" in answer[0]
    assert (len(answer), [line for line in answer if DOUBT_NOTE in line]) == (10, [])
    assert doubtful and all(DOUBT_NOTE in line for line in doubtful)
    assert await ask(GIBBERISH) == []


async def test_in_python_nothing_is_left_out_and_doubts_are_told(memory: GraphMemory, owner: Owner) -> None:
    found = {question: await memory.recall(question, **owner) for question in (KNOWN, UNHEARD, GIBBERISH)}
    assert {question: (len(one), {memory.is_doubtful for memory in one}) for question, one in found.items()} == {
        KNOWN: (16, {False}),
        UNHEARD: (16, {True}),
        GIBBERISH: (16, {True}),
    }


async def test_the_setting_min_score_decides_instead(neo4j_server: Any, memory: GraphMemory, owner: Owner) -> None:
    async with GraphMemory(settings=neo4j_server.settings(min_score=0.0), model="rules") as uncut:
        assert len(await ask_service(uncut, owner)(GIBBERISH)) == 16


async def test_nothing_is_left_out_by_scores_that_are_not_calibrated(neo4j_server: Any, owner: Owner) -> None:
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        await remember(memory, owner)
        for question in (UNHEARD, GIBBERISH):
            lines = await ask_service(memory, owner)(question)
            assert (len(lines), [line for line in lines if DOUBT_NOTE in line]) == (16, [])
