"""``python -m benchmarks.latency``: a server is started, everything is measured, one table is printed."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.latency import first, memories, over_http, report, scopes, services, sessions, turns
from benchmarks.latency.result import Result
from benchmarks.latency.scale import FULL, QUICK, Scale

OF_SESSIONS = {
    "append": sessions.append,
    "get": sessions.get,
    "recent": sessions.get_recent,
    "list": sessions.list_sessions,
    "concurrent": sessions.append_concurrently,
}
OF_MEMORIES = {
    "remember": memories.remember,
    "search": memories.search,
    "scopes": scopes.search,
    "turns": turns.measure_plugin,
    "first": first.time_first_answers,
    "http": over_http.measure,
}
PREFIX = "Bench"


async def run_measurements(settings: Settings, scale: Scale, names: Sequence[str], console: Console) -> list[Result]:
    """The results of the named measurements, in the order of the table."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="adk-graph-memory-") as folder:
        async with services.open_services(settings, Path(folder)) as opened:
            for name in (name for name in OF_SESSIONS if name in names):
                console.print(f"{name} …", style="dim")
                results += [result async for result in OF_SESSIONS[name](opened, scale)]
    for name in (name for name in OF_MEMORIES if name in names):
        console.print(f"{name} …", style="dim")
        results += [result async for result in OF_MEMORIES[name](settings, scale)]
    return results


async def main(arguments: argparse.Namespace) -> None:
    about = machine.describe_machine() | {"load before": machine.read_load()}
    scale = QUICK if arguments.quick else FULL
    async with server.serve(PREFIX) as (settings, which):
        names = arguments.only or [*OF_SESSIONS, *OF_MEMORIES]
        results = await run_measurements(settings, scale, names, Console(stderr=True))
    about |= {"load after": machine.read_load(), "server": which, "rounds": str(scale.rounds)}
    if arguments.quick:
        about["quick"] = "smaller sizes than the bars speak of, and fewer repetitions"
    report.show(machine.make_console(), results, about)
    if arguments.json:
        report.save(arguments.json, results, about)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    parser.add_argument("--only", action="append", choices=[*OF_SESSIONS, *OF_MEMORIES], help="may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    return parser.parse_args()


asyncio.run(main(parse_arguments()))
