"""``python -m benchmarks.latency.asking SIZE TOTAL OTHERS SEARCHES``: a round of work for each line that is read.

For ``benchmarks.latency.beside``, which runs this file with the package and the ``benchmarks`` of one checkout or of
another; so it keeps to what every version has. First it fills its own store, up to TOTAL memories: SIZE of the user who
asks, OTHERS of each of the others; then it prints a line. A round is SEARCHES searches of that user, half as many
events appended to one session, and a tenth as many turns remembered, each in a session of its own. Prints p50 and
p95 of each, beyond the embedding, in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from google.adk.events.event import Event
from google.genai.types import Content, Part

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Turn
from benchmarks.latency.scopes import Talk, Topics, open_store
from benchmarks.percentile import compute_percentile

APP = "beside"


async def time_calls(embedder: Topics, count: int, call: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """p50 and p95 of calls after each other, beyond the embedding, in milliseconds."""
    spent = []
    for _ in range(count):
        start, embedding = time.perf_counter(), embedder.milliseconds
        await call()
        spent.append((time.perf_counter() - start) * 1_000 - (embedder.milliseconds - embedding))
    return compute_percentile(spent, 0.5), compute_percentile(spent, 0.95)


async def main(size: int, total: int, others: int, searches: int) -> None:
    embedder, talk, user_id = Topics(), Talk(size), f"asks-among-{size}"
    owner = {"app_name": APP, "user_id": user_id}
    memory = GraphMemory(model="rules", embedder=embedder)
    numbers = iter(range(1_000_000))
    async with Neo4jMemoryService(memory=memory) as service, Neo4jSessionService() as sessions:
        store = await open_store(memory, APP, first_user=size)
        await store.fill(user_id, size, total, others)
        await service.prepare()
        session = await sessions.create_session(**owner)

        async def search() -> None:
            await service.search_memory(query=talk.make_question(), **owner)

        async def append() -> None:
            content = Content(role="user", parts=[Part(text=f"This is message {next(numbers)}.")])
            await sessions.append_event(session, Event(author="user", content=content))

        async def remember() -> None:
            n = next(numbers)
            turn = Turn(f"t{n}", "user", f"I have a cat whose name is Miu{n}.", datetime.now(UTC))
            await memory.remember([turn], session_id=f"s{n}", **owner)

        print("filled", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            figures = {
                "search_memory": await time_calls(embedder, searches, search),
                "append_event": await time_calls(embedder, searches // 2, append),
                "remember": await time_calls(embedder, searches // 10, remember),
            }
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
