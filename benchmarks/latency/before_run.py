"""``python -m benchmarks.latency.before_run``: what ``GraphMemoryProvider.before_run`` adds to the search it makes.

A search by ``GraphMemory.recall`` and a ``before_run`` of Agent Framework's provider alternate on one store, by the
same questions, in turns of who is first; what a run queues (the user's words) is written in between, as in an agent.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agent_framework import Agent, AgentSession, BaseChatClient, Message, SessionContext
from rich.table import Table

from adk_graph_memory import GraphMemory
from adk_graph_memory.maf.memory_provider import GraphMemoryProvider
from benchmarks import machine, server
from benchmarks.latency.scale import FULL
from benchmarks.latency.scopes import Talk, Topics, open_store
from benchmarks.percentile import compute_percentile

APP, USER = "before-run", "ana"
WARM_UP = 20
"""Pairs before those that count."""


class UnaskedClient(BaseChatClient):
    """An agent needs a client; nothing here asks it."""

    def _inner_get_response(self, **_: Any) -> Any:
        raise NotImplementedError


async def compare(memory: GraphMemory, size: int, pairs: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each search and of each ``before_run``."""
    scope, talk = {"app_name": APP, "user_id": USER}, Talk(size)
    searches, runs = list[float](), list[float]()
    async with GraphMemoryProvider(memory, **scope, idle=3_600, drain=10, recall_timeout=60) as provider:
        agent = Agent(client=UnaskedClient(), context_providers=[provider])
        for number in range(-WARM_UP, pairs):
            question = talk.make_question()
            session, context = AgentSession(session_id=uuid.uuid4().hex), SessionContext(input_messages=[])
            context.input_messages = [Message("user", [question])]
            asks: list[tuple[list[float], Callable[[], Awaitable[object]]]] = [
                (searches, partial(memory.recall, question, **scope)),
                (runs, partial(provider.before_run, agent=agent, session=session, context=context, state={})),
            ]
            for milliseconds, ask in asks if number % 2 else reversed(asks):
                start = time.perf_counter()
                await ask()
                if number >= 0:
                    milliseconds.append((time.perf_counter() - start) * 1_000)
                await asyncio.sleep(0.05)  # what a run queued is written before the next search
    return searches, runs


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    size, total = FULL.scopes[0]
    async with (
        server.serve("BeforeRun") as (settings, which),
        GraphMemory(settings=settings, model="rules", embedder=Topics()) as memory,
    ):
        store = await open_store(memory, APP)
        await store.fill(USER, size, total, FULL.memories_a_user)
        searches, runs = await compare(memory, size, arguments.pairs)
    table = Table(title=f"{size:,} memories of {total:,}, milliseconds")
    for column in ("", "p50", "p95"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in (("search", searches), ("before_run", runs)):
        table.add_row(name, *(f"{compute_percentile(values, share):.1f}" for share in (0.5, 0.95)))
    differences = [run - search for search, run in zip(searches, runs, strict=True)]
    table.add_row("difference, median of the pairs", f"{statistics.median(differences):.1f}", "")
    console = machine.make_console()
    console.print(table)
    about = {"load before": before, "load after": machine.read_load(), "server": which, "pairs": str(arguments.pairs)}
    machine.print_about(console, about)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.before_run", description=__doc__)
    parser.add_argument("--pairs", type=int, default=300, help="searches, and runs beside them")
    asyncio.run(main(parser.parse_args()))
