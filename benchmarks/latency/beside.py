"""``python -m benchmarks.latency.beside CHECKOUT``: what calls cost here and in another version, by turns.

CHECKOUT is a worktree of that version with a ``.venv`` of its own. Each fills a graph of its own on one server, in the
schema that it knows, with the same memories; a round of one follows a round of the other, so that whatever else the
machine does meets both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from rich.table import Table

from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.latency import asking
from benchmarks.latency.scale import FULL

HERE = Path(__file__).parents[2]
WARM_UP = 4
"""Rounds of each version before those that count."""


async def start_asking(checkout: Path, settings: Settings, size: int, total: int) -> Process:
    """A process that asks with the code of a checkout, once its graph is filled."""
    numbers = map(str, (size, total, FULL.memories_a_user, FULL.searches))
    command = (checkout / ".venv/bin/python", asking.__file__, *numbers)
    surroundings = server.make_environment(settings) | {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}
    process = await asyncio.create_subprocess_exec(*command, cwd=checkout, env=surroundings, stdin=PIPE, stdout=PIPE)
    await read_line(process)
    return process


async def read_line(process: Process) -> bytes:
    """The next line that a process prints."""
    assert process.stdout
    if line := await process.stdout.readline():
        return line
    raise RuntimeError(f"a process that asked ended with {await process.wait()}; its error is above")


async def run_round(process: Process) -> dict[str, tuple[float, float]]:
    """p50 and p95 of each call in a round, in milliseconds."""
    assert process.stdin
    process.stdin.write(b"\n")
    figures: dict[str, tuple[float, float]] = json.loads(await read_line(process))
    return figures


async def compare(
    settings: Settings, checkout: Path, size: int, total: int, rounds: int
) -> dict[str, list[list[float]]]:
    """For p50 and p95 of each call: the median of the other version, of this one, and of the ratios of the rounds."""
    graphs = {checkout: server.set_apart(settings, "There"), HERE: server.set_apart(settings, "Here")}
    processes = [await start_asking(folder, graph, size, total) for folder, graph in graphs.items()]
    pairs = []
    for number in range(-WARM_UP, rounds):
        order = (0, 1) if number % 2 else (1, 0)
        figures = {which: await run_round(processes[which]) for which in order}
        if number >= 0:
            pairs.append((figures[0], figures[1]))
    for process in processes:
        assert process.stdin
        process.stdin.close()
        await process.wait()

    def summarize(call: str, at: int) -> list[float]:
        rows = [(other[call][at], ours[call][at], ours[call][at] / other[call][at]) for other, ours in pairs]
        return [statistics.median(column) for column in zip(*rows, strict=True)]

    return {call: [summarize(call, at) for at in (0, 1)] for call in pairs[0][0]}


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    table = Table(title="beyond the embedding, milliseconds, medians of the rounds")
    for column in ("of all", "call", "p50", "there", "ratio", "p95", "there", "ratio"):
        table.add_column(column, justify="left" if column in ("of all", "call") else "right", no_wrap=True)
    async with server.serve("Beside") as (settings, which):
        for size, total in FULL.scopes[: arguments.scopes]:
            print(f"{size:,} of {total:,} …", file=sys.stderr, flush=True)
            compared = await compare(settings, arguments.checkout.absolute(), size, total, arguments.rounds)
            for call, columns in compared.items():
                cells = (f"{ours:.1f} {other:.1f} {ratio:.2f}".split() for other, ours, ratio in columns)
                table.add_row(f"{size:,} of {total:,}", call, *(cell for row in cells for cell in row))
    console = machine.make_console()
    console.print(table)
    about = {"load before": before, "load after": machine.read_load(), "server": which, "rounds": str(arguments.rounds)}
    machine.print_about(console, about)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.beside", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a worktree of another version, with its .venv")
    parser.add_argument("--rounds", type=int, default=12, help="of each version, a hundred searches each")
    parser.add_argument("--scopes", type=int, default=len(FULL.scopes), help="1: only the smaller store")
    arguments = parser.parse_args()
    if not (arguments.checkout / ".venv/bin/python").exists():
        parser.error(f"{arguments.checkout} has no .venv/bin/python: run `make setup` there first")
    asyncio.run(main(arguments))
