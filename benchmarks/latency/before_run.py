"""``python -m benchmarks.latency.before_run``: what ``GraphMemoryProvider.before_run`` adds to the search it makes.

A search by ``GraphMemory.recall`` and a ``before_run`` of Agent Framework's provider alternate on one store, by the
same questions; what a run queues (the user's words) goes on in the background meanwhile, as it does in an agent.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid

from agent_framework import Agent, AgentSession, BaseChatClient, Message, SessionContext
from rich.table import Table

from adk_graph_memory import GraphMemory
from adk_graph_memory.maf import GraphMemoryProvider
from benchmarks import machine, server
from benchmarks.latency.scale import FULL
from benchmarks.latency.scopes import Talk, Topics, open_store
from benchmarks.percentile import compute_percentile

APP, USER = "before-run", "ana"
WARM_UP = 20
"""Pairs before those that count."""


async def compare(memory: GraphMemory, size: int, pairs: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each search and of each ``before_run``."""
    scope, talk = {"app_name": APP, "user_id": USER}, Talk(size)
    searches, runs = list[float](), list[float]()
    async with GraphMemoryProvider(memory, **scope, idle=3_600, drain=0, recall_timeout=60) as provider:
        agent = Agent(client=BaseChatClient(), context_providers=[provider])
        for number in range(-WARM_UP, pairs):
            question = talk.make_question()
            session, context = AgentSession(session_id=uuid.uuid4().hex), SessionContext(input_messages=[])
            context.input_messages = [Message("user", [question])]
            start = time.perf_counter()
            await memory.recall(question, **scope)
            middle = time.perf_counter()
            await provider.before_run(agent=agent, session=session, context=context, state={})
            end = time.perf_counter()
            if number >= 0:
                searches.append((middle - start) * 1_000)
                runs.append((end - middle) * 1_000)
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
