"""``python -m benchmarks.latency.growth``: what operations cost while one store grows to a million facts.

It is filled by plain Cypher with texts from templates, and with vectors and tokens from a seed. With ``--home`` it
stays, and the next run goes on from what it holds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from rich.table import Table

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Turn
from benchmarks import machine, server
from benchmarks.latency.clock import time_call
from benchmarks.latency.scopes import Talk, Topics, open_store
from benchmarks.latency.speech import Speaker
from benchmarks.percentile import compute_percentile

APP_NAME = "growth"
FACTS = (1_000, 10_000, 100_000, 1_000_000)
SCOPE = 4_000
"""Memories of the user who searches, half of them facts."""
MEMORIES_A_USER = 2_000
WARM_UP, SEARCHES, APPENDS, SESSIONS, TURNS = 30, 400, 1_000, 10, 10
QUIET_LOAD, LONGEST_REST = 1.0, 600
"""Neo4j merges what was filled in for minutes: until the load falls to this, at most so many seconds."""
SAID = ("I keep {} goats.", "My sister moved to town {}.", "I read book {} on the train.", "I work in shop {}.")
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Costs:
    """What operations cost with so many facts in the store: milliseconds, and bytes of the store's files."""

    facts: int
    fill_seconds: float
    append: float
    ingest: float
    search_middle: float
    search_slowest: float
    forget: float
    store_bytes: int
    load: str


async def measure_appends(sessions: Neo4jSessionService) -> list[float]:
    """Append events to a new session."""
    session = await sessions.create_session(app_name=APP_NAME, user_id=f"appends-{uuid.uuid4().hex}")
    events = Speaker(3).make_events(WARM_UP + APPENDS)
    return [await time_call(partial(sessions.append_event, session, event)) for event in events][WARM_UP:]


async def measure_ingests(memory: GraphMemory) -> tuple[list[float], list[float]]:
    """Remember short sessions of a new user by rules, and forget them."""
    owner = {"app_name": APP_NAME, "user_id": f"ingests-{uuid.uuid4().hex}"}
    ingests, forgets = list[float](), list[float]()
    for number in range(SESSIONS):
        texts = [SAID[turn % len(SAID)].format(number * TURNS + turn) for turn in range(TURNS)]
        turns = [Turn(f"t{n}", "user", text, NOON + timedelta(days=number, minutes=n)) for n, text in enumerate(texts)]
        ingests.append(await time_call(partial(memory.remember, turns, **owner, session_id=f"s{number}")))
    for number in range(SESSIONS):
        forgets.append(await time_call(partial(memory.user(**owner).forget_session, f"s{number}")))
    return ingests[1:], forgets[1:]


async def measure_searches(service: Neo4jMemoryService, embedder: Topics, user_id: str) -> list[float]:
    """Search the memories of one user; milliseconds beyond the embedding."""
    talk, times = Talk(SCOPE), list[float]()
    for _ in range(WARM_UP + SEARCHES):
        embedded = embedder.milliseconds
        search = partial(service.search_memory, app_name=APP_NAME, user_id=user_id, query=talk.make_question())
        times.append(await time_call(search) - (embedder.milliseconds - embedded))
    return times[WARM_UP:]


async def measure_growth(arguments: argparse.Namespace, home: Path) -> tuple[list[Costs], str]:
    """Fill a store step by step, and measure at each."""
    kept = {"home": home, "page_cache": arguments.page_cache, "heap": arguments.heap}
    async with server.serve_own("", **kept) as (settings, about):
        embedder, costs = Topics(), list[Costs]()
        memory = GraphMemory(settings=settings, model="rules", embedder=embedder)
        async with Neo4jMemoryService(memory=memory) as service, Neo4jSessionService(settings=settings) as sessions:
            users = len([user async for user in memory.users(app_name=APP_NAME)])
            store = await open_store(memory, APP_NAME, users)
            for facts in arguments.facts:
                start_time, scope = time.monotonic(), min(SCOPE, 2 * facts)
                asker = f"asks-{users}-{facts}"
                await store.fill(asker, scope, 2 * facts, MEMORIES_A_USER)
                seconds = time.monotonic() - start_time
                print(f"{facts:,} facts after {seconds:.0f} s …", file=sys.stderr, flush=True)
                await memory.connection.run_cypher("CALL db.awaitIndexes(3600)")
                await rest()
                if not costs:  # until Neo4j's JVM has compiled what they run
                    await _measure_costs(facts, seconds, service, sessions, embedder, asker, home)
                costs.append(await _measure_costs(facts, seconds, service, sessions, embedder, asker, home))
    return costs, about


async def rest() -> None:
    """Wait until the server has put its indexes in order."""
    deadline = time.monotonic() + LONGEST_REST
    while os.getloadavg()[0] > QUIET_LOAD and time.monotonic() < deadline:  # noqa: ASYNC110  nothing tells
        await asyncio.sleep(5)


async def _measure_costs(
    facts: int,
    seconds: float,
    service: Neo4jMemoryService,
    sessions: Neo4jSessionService,
    embedder: Topics,
    asker: str,
    home: Path,
) -> Costs:
    searches = await measure_searches(service, embedder, asker)
    ingests, forgets = await measure_ingests(service.memory)
    files = (path for path in (home / "data").rglob("*") if path.is_file() and "transactions" not in path.parts)
    return Costs(
        facts,
        seconds,
        statistics.median(await measure_appends(sessions)),
        statistics.median(ingests),
        compute_percentile(searches, 0.5),
        compute_percentile(searches, 0.95),
        statistics.median(forgets),
        sum(path.stat().st_size for path in files),
        machine.read_load(),
    )


def show(costs: Sequence[Costs]) -> None:
    """Print a table, with the last step's ratios to the one before."""
    table = Table(title="One store that grows; milliseconds")
    headings = (
        "facts",
        "append p50",
        "ingest of 10 turns",
        "search p50",
        "search p95",
        "forget",
        "store, GB",
        "filled in, s",
    )
    for heading in (*headings, "load"):
        table.add_column(heading, justify="right")
    for one in costs:
        times = (one.append, one.ingest, one.search_middle, one.search_slowest, one.forget)
        cells = [f"{value:.1f}" for value in times]
        table.add_row(
            f"{one.facts:,}", *cells, f"{one.store_bytes / 1e9:.2f}", f"{one.fill_seconds:.0f}", one.load.split()[0]
        )
    console = machine.make_console()
    console.print(table)
    for former, latter in itertools.pairwise(costs):
        console.print(
            f"{latter.facts:,} to {former.facts:,}: append p50 {latter.append / former.append:.2f}, search p95 "
            f"{latter.search_slowest / former.search_slowest:.2f}"
        )


async def main(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        costs, about = await measure_growth(arguments, arguments.home or Path(folder))
    show(costs)
    for name, value in (machine.describe_machine() | {"server": about}).items():
        print(f"{name}: {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in costs], indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.growth", description=__doc__)
    parser.add_argument("--facts", type=int, nargs="+", default=FACTS, help="facts in the store at each step")
    parser.add_argument("--home", type=Path, help="where the store stays, so that a later run goes on")
    parser.add_argument("--page-cache", default=server.PAGE_CACHE)
    parser.add_argument("--heap", default=server.HEAP)
    parser.add_argument("--json", type=Path, metavar="FILE")
    asyncio.run(main(parser.parse_args()))
