"""``python -m benchmarks.latency.asking APP USER SIZE SEARCHES``: a round of searches for each line that is read.

For ``benchmarks.latency.beside``, which runs this file with the package and the ``benchmarks`` of one checkout or of
another; so it keeps to what every version has. Prints p50 and p95 of a round beyond the embedding, in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from adk_graph_memory import GraphMemory, Neo4jMemoryService
from benchmarks.latency.scopes import Talk, Topics
from benchmarks.percentile import compute_percentile


async def main(app_name: str, user_id: str, size: int, searches: int) -> None:
    embedder, talk = Topics(), Talk(size)
    async with Neo4jMemoryService(memory=GraphMemory(model="rules", embedder=embedder)) as service:
        await service.prepare()
        while await asyncio.to_thread(sys.stdin.readline):
            spent = []
            for _ in range(searches):
                start, embedding = time.perf_counter(), embedder.milliseconds
                await service.search_memory(app_name=app_name, user_id=user_id, query=talk.make_question())
                spent.append((time.perf_counter() - start) * 1_000 - (embedder.milliseconds - embedding))
            print(json.dumps([compute_percentile(spent, 0.5), compute_percentile(spent, 0.95)]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
