"""Whatever stage of remembering a process is killed in, one more call ends in the graph that nobody disturbed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adk_graph_memory import GraphMemory, Turn
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

pytestmark = pytest.mark.slow

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
LEASE = 0.5

KILLED = """
import asyncio, sys, time
from datetime import datetime
from adk_graph_memory import GraphMemory, Limits, Settings, Turn
from adk_graph_memory.graph import writing
from adk_graph_memory.graph.connection import Transaction
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

uri, user, password, app, lease, stage, at, text, reading, decision = sys.argv[1:]

def stop(*_):
    print("READY", flush=True)
    time.sleep(600)


if stage == "while embedding":
    HashEmbedder.embed_query = HashEmbedder.embed_documents = stop

run, apply = Transaction.run_statement, writing.apply_plan

async def running(self, name, *parameters, **more):
    found = await run(self, name, *parameters, **more)
    stop() if stage == f"after {name}" else None
    return found

async def applying(*arguments, **more):
    found = await apply(*arguments, **more)
    stop() if stage == "after the commit" else None
    return found

Transaction.run_statement, writing.apply_plan = running, applying
replies = [stop if stage == "while reading" else reading, stop if stage == "while judging" else decision]
memory = GraphMemory(
    settings=Settings(
        uri=uri, username=user, password=password, label_prefix="TestHash", limits=Limits(lease=float(lease))
    ),
    model=ScriptedLlm.from_replies(*replies),
    embedder=HashEmbedder(),
)
turn = Turn("t1", "user", text, datetime.fromisoformat(at))
asyncio.run(memory.remember([turn], app_name=app, user_id="ada", session_id="s2"))
print("DONE", flush=True)
"""

VEGAN, STEAK = "I am a vegan", "I eat steak again"
LATER = NOON + timedelta(days=30)
ENDS = json.dumps(
    {
        "ops": [
            {"fact": 0, "op": "SUPERSEDE", "targets": [1], "quotes": [STEAK, VEGAN], "reason": "No vegan eats steak."}
        ]
    }
)

STATE = """
MATCH (f:TestHashFact {scope: $scope})-[s:SUPPORTED_BY]->(e)
RETURN f.id, f.text, f.state, toString(f.valid_to), f.support, s.quote, e.memory_id, e.extracted,
       COLLECT { MATCH (f)-[:HAS_REVISION]->(r) RETURN r.op + r.text + r.reason } AS revisions,
       COLLECT { MATCH (f)-[:SUPERSEDES]->(old) RETURN old.text } AS ended,
       COLLECT { MATCH (i:TestHashIngest {scope: $scope}) RETURN i.session_id + i.state ORDER BY i.id } AS asked,
       COUNT { (:TestHashEvent {scope: $scope})-[:MENTIONS]->() } AS mentions
ORDER BY f.text
"""


def reading(text: str) -> str:
    fact = {"subject": 1, "predicate": "eats", "text": text, "quote": text, "turns": [0]}
    return json.dumps({"entities": [{"ref": 1, "name": "user"}], "facts": [fact]})


def memory(server: Any, *replies: str) -> GraphMemory:
    settings = server.settings(label_prefix="TestHash", lease=LEASE)
    return GraphMemory(settings=settings, model=ScriptedLlm.from_replies(*replies), embedder=HashEmbedder())


async def remember(told: GraphMemory, app_name: str, text: str, at: datetime, id: str, session_id: str) -> None:
    await told.remember([Turn(id, "user", text, at)], app_name=app_name, user_id="ada", session_id=session_id)


async def state(told: GraphMemory, app_name: str) -> list[Any]:
    driver = await told.connection.get_driver()
    records, _, _ = await driver.execute_query(STATE, scope=Scope(app_name, "ada").key)
    return [[str(value) for value in record.values()] for record in records]


def killed(server: Any, app_name: str, stage: str) -> None:
    given = [server.uri, *server.auth, app_name, str(LEASE), stage, LATER.isoformat(), STEAK, reading(STEAK), ENDS]
    with subprocess.Popen([sys.executable, "-c", KILLED, *given], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "READY"
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("stage", "calls"),
    [
        pytest.param("after unread_turns", 2, marks=pytest.mark.full),
        ("after claim_turns", 2),
        ("while reading", 2),
        pytest.param("while embedding", 2, marks=pytest.mark.full),
        pytest.param("after candidate_facts", 2, marks=pytest.mark.full),
        pytest.param("while judging", 2, marks=pytest.mark.full),
        pytest.param("after finish_ingest", 2, marks=pytest.mark.full),
        pytest.param("after write_facts", 2, marks=pytest.mark.full),
        ("after write_changes", 2),
        ("after the commit", 0),
    ],
)
async def test_one_more_call_ends_as_if_nothing_had_happened(
    neo4j_server: Any, app_name: str, stage: str, calls: int
) -> None:
    async with memory(neo4j_server, reading(VEGAN), reading(STEAK), ENDS) as undisturbed:
        await remember(undisturbed, f"{app_name}-calm", VEGAN, NOON, "t0", "s1")
        await remember(undisturbed, f"{app_name}-calm", STEAK, LATER, "t1", "s2")
        wanted = await state(undisturbed, f"{app_name}-calm")
    async with memory(neo4j_server, reading(VEGAN)) as first:
        await remember(first, app_name, VEGAN, NOON, "t0", "s1")
    await asyncio.to_thread(killed, neo4j_server, app_name, stage)
    await asyncio.sleep(LEASE)
    async with memory(neo4j_server, reading(STEAK), ENDS) as again:
        await remember(again, app_name, STEAK, LATER, "t1", "s2")
        assert await state(again, app_name) == wanted
        assert len(again.engine.extractor._model.requests) == calls
