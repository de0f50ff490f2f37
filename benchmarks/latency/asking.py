"""``python -m benchmarks.latency.asking SIZE TOTAL OTHERS SEARCHES``: a round of searches for each line that is read.

For ``benchmarks.latency.beside``, which runs this file with the package and the ``benchmarks`` of one checkout or of
another; so it keeps to what every version has. First it fills its own store, up to TOTAL memories: SIZE of the user who
asks, OTHERS of each of the others; then it prints a line. Prints p50 and p95 of a round beyond the embedding, in
milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from adk_graph_memory import GraphMemory, Neo4jMemoryService
from benchmarks.latency.scopes import Talk, Topics, open_store
from benchmarks.percentile import compute_percentile

APP = "beside"


async def main(size: int, total: int, others: int, searches: int) -> None:
    embedder, talk, user_id = Topics(), Talk(size), f"asks-among-{size}"
    memory = GraphMemory(model="rules", embedder=embedder)
    async with Neo4jMemoryService(memory=memory) as service:
        store = await open_store(memory, APP, first_user=size)
        await store.fill(user_id, size, total, others)
        await service.prepare()
        print("filled", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            spent = []
            for _ in range(searches):
                start, embedding = time.perf_counter(), embedder.milliseconds
                await service.search_memory(app_name=APP, user_id=user_id, query=talk.make_question())
                spent.append((time.perf_counter() - start) * 1_000 - (embedder.milliseconds - embedding))
            print(json.dumps([compute_percentile(spent, 0.5), compute_percentile(spent, 0.95)]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
