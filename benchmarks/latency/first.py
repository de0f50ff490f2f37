"""Time the first and the second answer of an agent in a fresh process."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from adk_graph_memory import GraphMemory, Turn
from adk_graph_memory.runtime.settings import Settings
from benchmarks import server
from benchmarks.latency.fresh import USER
from benchmarks.latency.result import Result
from benchmarks.latency.scale import Scale

TOLD = ("I keep bees on the roof.", "My boat is called Rex.", "We paint ships on the harbour wall.")


async def time_first_answers(settings: Settings, scale: Scale) -> AsyncIterator[Result]:
    """Of an agent with ADK's ``preload_memory`` and a model that replies at once, a process for each round."""
    app_name = f"bench-{uuid.uuid4().hex[:12]}"
    apart = server.set_apart(settings, "First")
    turns = [Turn(f"t{n}", "user", text, datetime(2026, 5, n + 1, tzinfo=UTC)) for n, text in enumerate(TOLD)]
    async with GraphMemory(settings=apart, model="rules") as memory:
        await memory.remember(turns, app_name=app_name, user_id=USER, session_id="s")
    rounds = [await _run_round(apart, app_name) for _ in range(scale.rounds)]
    first, second = zip(*(turns for turns, _ in rounds), strict=True)
    complete_rounds = sum(both == [True, True] for _, both in rounds)
    note = (
        f"ADK's preload_memory, a model that replies at once, a new process each; the first search waits "
        f"{apart.limits.first_search_wait:g} s for the embedder, the second until it is loaded; "
        f"in {complete_rounds} of {len(rounds)} processes both had the memory that answers"
    )
    yield Result("first answer under a Runner, once connected", "ms", first, 1_500, note=note)
    yield Result("  second answer, right after it", "ms", second)


async def _run_round(settings: Settings, app_name: str) -> tuple[list[float], list[bool]]:
    command = (sys.executable, "-m", "benchmarks.latency.fresh", app_name)
    process = await asyncio.create_subprocess_exec(
        *command, env=server.make_environment(settings), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}; its error is above")
    figures = json.loads(printed.splitlines()[-1])
    return figures["turns"], figures["found"]
