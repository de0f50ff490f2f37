"""``python -m benchmarks.latency.pages``: how long each page of the inspector takes in a store of 100,000 facts."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from urllib.parse import quote

import httpx
from rich.table import Table

from adk_graph_memory import GraphMemory
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.servers.inspector.application import inspector
from benchmarks import machine, server
from benchmarks.latency.clock import time_call
from benchmarks.latency.counting import count_sent
from benchmarks.latency.scopes import Talk, Topics, open_store

APP_NAME, USER_ID = "pages", "looks"
OWN_FACTS = 5_000
PROPOSALS = 100
MEMORIES_A_USER = 2_000
WARM_UP = 3
_CONNECT = """
MATCH (f:Fact {scope: $scope})
WITH f ORDER BY f.timestamp
WITH collect(f) AS facts
UNWIND range(1, size(facts) - 1) AS place
WITH facts[place - 1] AS earlier, facts[place] AS later
CALL (earlier, later) {
  MATCH (earlier)-[:SUBJECT]->(n:Entity)
  CREATE (later)-[:OBJECT]->(n), (later)-[:SUPERSEDES {op: 'SUPERSEDE', reason: 'said later'}]->(earlier)
  CREATE (earlier)-[:HAS_REVISION]->(:Revision {scope: later.scope, fact_id: earlier.id, n: '1', op: 'SUPERSEDE',
    reason: 'said later', by: 'rules', text: earlier.text, state: 'current', recorded_at: datetime()})
} IN TRANSACTIONS OF 500 ROWS
"""
"""Each fact ends the one before it, and points to what that one is about."""


async def fill_store(memory: GraphMemory, facts: int) -> None:
    """Fill the store with facts, 5,000 of them of the user whose pages are measured."""
    store = await open_store(memory, APP_NAME)
    await store.fill(USER_ID, 2 * OWN_FACTS, 2 * facts, MEMORIES_A_USER)
    await memory.connection.run_cypher(_CONNECT, {"scope": Scope(APP_NAME, USER_ID).key})
    await memory.connection.run_cypher("CALL db.awaitIndexes(3600)")
    owner = {"app_name": APP_NAME, "user_id": USER_ID}
    for fact in [fact async for fact in memory.facts(**owner, limit=PROPOSALS)]:
        await memory.user(**owner).propose_forgetting(fact.id, reason="asked to")


async def list_paths(memory: GraphMemory) -> dict[str, str]:
    """List a page of each kind; the entity is the one of which most is said."""
    owner = {"app_name": APP_NAME, "user_id": USER_ID}
    [fact] = [fact async for fact in memory.facts(**owner, limit=1)]
    [entity] = [entity async for entity in memory.user(**owner).entities(limit=1)]
    return {
        "start": "/",
        "ask": f"/?question={quote(Talk(2 * OWN_FACTS).make_question())}",
        "fact": f"/facts/{fact.id}",
        "people and things": "/entities",
        "person or thing": f"/entities/{entity.key}",
        "conversations": "/sessions",
        "to decide": "/review",
        "conversation": f"/sessions/{fact.sources[0].session_id}",
    }


async def measure_pages(memory: GraphMemory, requests: int) -> dict[str, tuple[list[float], int]]:
    """Request each page; return milliseconds and the number of statements."""
    measured = {}
    app = inspector(memory, lambda request: (APP_NAME, USER_ID))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        for name, path in (await list_paths(memory)).items():
            times = [await time_call(partial(client.get, path)) for _ in range(WARM_UP + requests)]
            with count_sent() as sent:
                answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            measured[name] = times[WARM_UP:], sent.statements
    return measured


async def measure_command(settings: Settings) -> tuple[float, float]:
    """Return the seconds that the imports of ``inspect`` take, and those from the command to its first page."""
    environment = server.make_environment(settings)
    start = time.perf_counter()
    imports = "from adk_graph_memory import GraphMemory, cli; import adk_graph_memory.servers.inspector"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", imports, env=environment)
    await process.wait()
    imported = time.perf_counter() - start
    start = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", "from adk_graph_memory.cli import app; app()", "inspect", "--no-browser"),
        *("--port", "0", "--app", APP_NAME, "--user", USER_ID),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout
    await process.stdout.readline()
    address = (await process.stdout.readline()).decode().strip()
    async with httpx.AsyncClient(follow_redirects=True, timeout=60) as browser:
        answer = await browser.get(address)
    seconds = time.perf_counter() - start
    assert answer.status_code == 200, answer.text
    process.terminate()
    await process.wait()
    return imported, seconds


async def main(arguments: argparse.Namespace) -> None:
    """Fill, measure and print."""
    async with server.serve_own("") as (settings, about):
        async with GraphMemory(settings=settings, model="rules", embedder=Topics()) as memory:
            await fill_store(memory, arguments.facts)
            measured = await measure_pages(memory, arguments.requests)
        commands = [await measure_command(settings) for _ in range(3)]
    table = Table(
        "page",
        "median ms",
        "slowest ms",
        "statements",
        title=f"{arguments.facts:,} facts, {OWN_FACTS:,} of them the user's",
    )
    for name, (times, statements) in measured.items():
        table.add_row(name, f"{statistics.median(times):.0f}", f"{max(times):.0f}", str(statements))
    console = machine.make_console()
    console.print(table)
    imported, seconds = (statistics.median(column) for column in zip(*commands, strict=True))
    console.print(f"command to first page {seconds:.1f} s, of which importing {imported:.1f} s; median of three")
    machine.print_about(console, machine.describe_machine() | {"server": about})


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=100_000, help="facts in the store")
    parser.add_argument("--requests", type=int, default=30, help="requests of each page")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(parse_arguments()))
