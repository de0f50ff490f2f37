"""``python -m benchmarks.latency.restarts``: seconds of the first operations on a server that has just started.

Each round starts a server with an empty database, so that ``prepare()`` has everything to do, and restarts it beneath
the process that uses it. ``--busy 8`` keeps eight processes busy meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from rich.table import Table

from adk_graph_memory import Neo4jMemoryService, Turn
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.runtime.settings import load_settings
from benchmarks import machine
from benchmarks.latency.clock import time_call

OWNER = {"app_name": "restarts", "user_id": "ada"}
SAID = ("I keep bees on the roof.", "My boat is called Rex.", "I paint ships on Sundays.")
BARS = {
    "prepare: schema": None,
    "prepare: the embedder's model": None,
    "prepare: indexes for vectors, plans": None,
    "prepare": 12.0,
    "first remember": 1.0,
    "second remember": 1.0,
    "third remember": None,
    "first search": 0.5,
    "second search": None,
    "first search after a restart": 3.0,
    "first search of a service that prepared nothing": None,
    "prepare, the schema and memories being there": None,
    "first search after that": 0.5,
}
"""What is timed, and how long it may take on a quiet machine."""


async def measure(seconds: dict[str, list[float]], by_words_alone: dict[str, int]) -> None:
    """One round."""

    async def timed(name: str, operation: Callable[[], Awaitable[object]]) -> float:
        spent = await time_call(operation) / 1_000
        seconds[name].append(spent)
        return spent

    async def search(name: str, service: Neo4jMemoryService) -> None:
        async def ask() -> None:
            found = await service.search_memory(query="What do I keep on the roof?", **OWNER)
            assert found.memories, "nothing was found"
            by_words_alone[name] += "degraded" in (found.memories[0].custom_metadata or {})

        await timed(name, ask)

    async with LocalNeo4j(jvm_flags=()) as server:
        username, password = server.auth
        settings = load_settings(uri=server.uri, username=username, password=password)
        async with Neo4jMemoryService(settings=settings, model="rules") as service:
            memory = service.memory
            assert memory.engine.vectors.embedder
            parts = [
                await timed("prepare: schema", memory.connection.prepare),
                await timed("prepare: the embedder's model", memory.engine.vectors.embedder.wait_until_ready),
                await timed("prepare: indexes for vectors, plans", service.prepare),
            ]
            seconds["prepare"].append(sum(parts))
            for number, (which, text) in enumerate(zip(("first", "second", "third"), SAID, strict=True)):
                turn = Turn(f"t{number}", "user", text, datetime.now(UTC) + timedelta(seconds=number))
                await timed(f"{which} remember", lambda turn=turn: memory.remember([turn], **OWNER, session_id="s"))
            await search("first search", service)
            await search("second search", service)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await search("first search after a restart", service)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        async with Neo4jMemoryService(settings=settings, model="rules") as service:
            await search("first search of a service that prepared nothing", service)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        async with Neo4jMemoryService(settings=settings, model="rules") as service:
            await timed("prepare, the schema and memories being there", service.prepare)
            await search("first search after that", service)


@contextmanager
def keep_busy(processes: int) -> Iterator[None]:
    """Keep so many processes busy, and wait until the load shows them."""
    command = (sys.executable, "-c", "while True: pass")
    started = [subprocess.Popen(command) for _ in range(processes)]
    try:
        time.sleep(60 if started else 0)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


async def main(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    before = machine.read_load()
    seconds: dict[str, list[float]] = {name: [] for name in BARS}
    by_words_alone = dict.fromkeys(BARS, 0)
    with keep_busy(arguments.busy):
        for _ in range(arguments.rounds):
            await measure(seconds, by_words_alone)
        after = machine.read_load()
    table = Table(
        "what", "median", "slowest", "bar", "by words alone", title="Seconds on a server that has just started"
    )
    for name, values in seconds.items():
        values.sort()
        bar = "" if BARS[name] is None else f"≤ {BARS[name]:g}"
        degraded = f"{by_words_alone[name]} of {len(values)}" if "search" in name else ""
        table.add_row(name, f"{values[len(values) // 2]:.2f}", f"{values[-1]:.2f}", bar, degraded)
    console = machine.make_console()
    console.print(table)
    machine.print_about(console, {"load before": before, "load after": after, "rounds": str(arguments.rounds)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.restarts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="servers to start")
    parser.add_argument(
        "--busy", type=int, default=0, metavar="N", help="processes that keep the machine busy meanwhile"
    )
    asyncio.run(main(parser.parse_args()))
