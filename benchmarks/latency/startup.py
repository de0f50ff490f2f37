"""``python -m benchmarks.latency.startup [CHECKOUT]``: CPU seconds of whole commands, here and in another version.

CHECKOUT is a worktree of that version with a ``.venv`` of its own. Each round runs a command once here and once there,
so that whatever else the machine does meets both. Only the command's process counts, not the server.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks import machine, server
from benchmarks.latency.startup_store import APP, USER

HERE = Path(__file__).parents[2]
_TIMED_IMPORT = "import time, typing; start = time.process_time(); import adk_graph_memory"
_TIMED_IMPORT += "; print(time.process_time() - start)"


def fill_store(checkout: Path, environment: Mapping[str, str]) -> str:
    """Have a version fill the store that it finds in the environment, and return the id of a fact there."""
    program = (checkout / ".venv/bin/python", HERE / "benchmarks/latency/startup_store.py")
    return subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def list_commands(fact_id: str) -> dict[str, Sequence[str]]:
    """List the commands to run, by what the table calls them."""
    of_user = ("--app", APP, "--user", USER)
    return {
        "--version": ("--version",),
        "--help": ("--help",),
        "recall --help": ("recall", "--help"),
        "ingest --help": ("ingest", "--help"),
        "facts": ("facts", *of_user),
        "entities": ("entities", *of_user),
        "history": ("history", fact_id, *of_user),
        "sessions": ("sessions", "--app", APP),
    }


def run_command(checkout: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command, and return its CPU seconds (user and system)."""
    program = (checkout / ".venv/bin/python", "-c", "from adk_graph_memory.cli import app; app()", *arguments)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(program, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def time_import(checkout: Path) -> float:
    """Import the package in a fresh process, and return the CPU milliseconds that takes."""
    program = (checkout / ".venv/bin/python", "-c", _TIMED_IMPORT)
    return 1_000 * float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


async def main(arguments: argparse.Namespace) -> None:
    """Fill, measure and print."""
    before = machine.read_load()
    checkouts = [HERE, *([arguments.checkout.absolute()] if arguments.checkout else [])]
    table = Table("command", "here", "there", "ratio", title="CPU seconds of the process, medians")
    async with server.serve_own("") as (settings, which):
        stores = []
        for number, checkout in enumerate(checkouts):  # a graph for each: schemas differ
            environment = server.make_environment(server.set_apart(settings, f"Version{number}"))
            stores.append((checkout, environment, list_commands(fill_store(checkout, environment))))
        for name in stores[0][2]:
            print(f"{name} …", file=sys.stderr, flush=True)
            rounds = [
                [run_command(checkout, commands[name], environment) for checkout, environment, commands in stores]
                for _ in range(1 + arguments.rounds)
            ]
            table.add_row(name, *describe_rounds(rounds[1:]))  # the first compiles, and lets the server plan
    imports = [[time_import(checkout) for checkout in checkouts] for _ in range(3 * arguments.rounds)]
    table.add_row("import adk_graph_memory (ms)", *describe_rounds(imports))
    console = machine.make_console()
    console.print(table)
    about = {"load before": before, "load after": machine.read_load(), "server": which}
    machine.print_about(console, about | {"rounds": str(arguments.rounds)})


def describe_rounds(rounds: Sequence[Sequence[float]]) -> list[str]:
    """The medians of here and there, and that of the ratios of the rounds."""
    medians = [f"{statistics.median(column):.2f}" for column in zip(*rounds, strict=True)]
    if len(medians) == 1:
        return medians
    return [*medians, f"{statistics.median(here / there for here, there in rounds):.2f}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.startup", description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="a worktree of another version, with its .venv")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each command")
    asyncio.run(main(parser.parse_args()))
