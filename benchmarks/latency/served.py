"""``python -m benchmarks.latency.served APP``: serve a memory over HTTP, and ask it in this process for each line read.

For ``benchmarks.latency.over_http``. A line is a JSON list: the arguments of :func:`ask_side_by_side` after the first.
Prints the port first, and then for each line the milliseconds of every question; a signal ends it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from adk_graph_memory import GraphMemory
from adk_graph_memory.cli.serving_commands import listen, serve_until_interrupted
from adk_graph_memory.memory.recall import FIRST_WAIT
from adk_graph_memory.servers.hosts import HostCheck
from adk_graph_memory.servers.http import make_http_app
from adk_graph_memory.servers.tokens import BearerAccess, SecretVerifier, get_owner
from benchmarks.latency.clock import time_call
from benchmarks.latency.memories import Meter
from benchmarks.latency.speech import Speaker

TOKEN = "a token that only measurements use, on loopback"  # noqa: S105
CALLERS = 50


async def ask_side_by_side(
    ask: Callable[[int, str, str], Awaitable[object]], users: int, calls: int, pause: float, seed: int
) -> list[float]:
    """Milliseconds of the questions of all callers, who each take about ``pause`` seconds before the next one."""

    async def ask_after_each_other(caller: int) -> list[float]:
        draw, user, spent = random.Random(seed * CALLERS + caller), caller % users, []
        for number in range(calls):
            await asyncio.sleep(draw.uniform(0, 2 * pause))
            question = Speaker(user).make_question(seed * calls + number)
            spent.append(await time_call(partial(ask, caller, f"user-{user}", question)))
        return spent

    spent = await asyncio.gather(*map(ask_after_each_other, range(CALLERS)))
    return [milliseconds for of_caller in spent for milliseconds in of_caller]


async def main(app_name: str) -> None:
    async with GraphMemory(model="rules", embedder=Meter()) as memory:
        await memory.prepare()
        verifier = SecretVerifier(TOKEN, (app_name, None))
        app = HostCheck(BearerAccess(make_http_app(memory, get_owner), verifier))

        async def ask(caller: int, user_id: str, question: str) -> None:
            await memory.user(app_name, user_id).recall(question, first_wait=FIRST_WAIT)

        with listen(0) as listener:
            serving = asyncio.create_task(serve_until_interrupted(app, listener))
            print(listener.getsockname()[1], flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                print(json.dumps(await ask_side_by_side(ask, *json.loads(line))), flush=True)
            await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
