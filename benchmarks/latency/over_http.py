"""Measure what HTTP adds to a search: fifty clients beside fifty callers in the process that serves them."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator

from adk_graph_memory import GraphMemory, Neo4jMemoryService
from adk_graph_memory.runtime.settings import Settings
from benchmarks import server
from benchmarks.latency.beside import read_line
from benchmarks.latency.memories import Meter, fill_store
from benchmarks.latency.result import Result
from benchmarks.latency.scale import Scale
from benchmarks.latency.served import CALLERS, TOKEN, ask_side_by_side
from benchmarks.percentile import compute_percentile

PAUSE = 5.0
"""Seconds between a client's questions: fifty people who talk to an agent ask ten a second."""
WARM_UP = 1
ADDED_BAR = 5


class Clients:
    """Connections that stay open for a round, one for each caller, and do as little as a client can."""

    def __init__(self, app_name: str, port: int) -> None:
        self._app_name, self._port = app_name, port
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, caller: int, user_id: str, question: str) -> None:
        """Ask one question, and read the whole answer."""
        if caller not in self._streams:
            self._streams[caller] = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams[caller]
        body = json.dumps({"question": question}).encode()
        head = f"POST /v1/apps/{self._app_name}/users/{user_id}/recall HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert answer.startswith("http/1.1 200"), answer
        await reader.readexactly(int(answer.partition("content-length: ")[2].partition("\r\n")[0]))

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._streams.values():
            writer.close()
        self._streams.clear()


async def measure(settings: Settings, scale: Scale) -> AsyncIterator[Result]:
    """p95 of searches over HTTP and in the process that serves, rounds by turns."""
    apart, app_name = server.set_apart(settings, "Http"), f"bench-{uuid.uuid4().hex[:12]}"
    async with Neo4jMemoryService(memory=GraphMemory(settings=apart, model="rules", embedder=Meter())) as service:
        await service.prepare()
        await fill_store(service, app_name, scale)
    command = (sys.executable, "-m", "benchmarks.latency.served", app_name)
    environment = server.make_environment(apart)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdin=PIPE, stdout=PIPE)
    port = int(await read_line(process))
    clients = Clients(app_name, port)
    for pause, what in ((PAUSE, f"each with {PAUSE:g} s between questions"), (0.0, "without a pause")):
        rounds = []
        for number in range(-WARM_UP, scale.rounds):
            plan = (scale.users, max(2, scale.searches // CALLERS * 2), pause, number + WARM_UP)
            rounds.append(await _run_round(process, clients, plan, is_http_first=number % 2 == 0))
        ours, theirs = zip(*rounds[WARM_UP:], strict=True)
        yield Result(f"recall over HTTP, {CALLERS} clients, {what}, p95", "ms", ours, peer="in process", theirs=theirs)
        added = tuple(own - other for own, other in zip(ours, theirs, strict=True))
        yield Result("  added by HTTP", "ms", added, ADDED_BAR if pause else None)
    process.terminate()
    await process.wait()


async def _run_round(
    process: Process, clients: Clients, plan: tuple[int, int, float, int], *, is_http_first: bool
) -> tuple[float, float]:
    """p95 of the questions over HTTP and in the process, in milliseconds."""
    assert process.stdin
    over_http = await ask_side_by_side(clients.ask, *plan) if is_http_first else []
    clients.close()  # the server would, while the process asks itself
    process.stdin.write(f"{json.dumps(plan)}\n".encode())
    in_process = json.loads(await read_line(process))
    over_http = over_http or await ask_side_by_side(clients.ask, *plan)
    clients.close()
    return compute_percentile(over_http, 0.95), compute_percentile(in_process, 0.95)
