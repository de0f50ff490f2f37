"""A client that sends half a request and stalls keeps no connection open, and holds up nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="the extra inspect is not installed")

from uvicorn.server import ServerState  # noqa: E402

from adk_graph_memory.cli.bounded_http import BoundedH11Protocol  # noqa: E402

WHOLE = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nwhat"
HALVES = [b"", b"POST / HT", WHOLE[:30], WHOLE[:-3], WHOLE + WHOLE[:30], WHOLE + WHOLE[:-3]]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def test_half_requests_are_closed_and_whole_ones_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedH11Protocol, "request_seconds", 0.2)
    config, state = uvicorn.Config(echo, timeout_keep_alive=1, log_level="critical"), ServerState()
    config.load()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: BoundedH11Protocol(config, state, {}), "127.0.0.1", 0) as server:
        answers = await asyncio.gather(
            *(_count_answers(server.sockets[0].getsockname(), request) for request in (*HALVES, WHOLE))
        )
    assert answers == [0, 0, 0, 0, 1, 1, 1]
    assert state.connections == set()


async def _count_answers(address: tuple[str, int], request: bytes) -> int:
    """Send what there is of a request, and count the answers until the server closes the connection."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    count = (await reader.read()).count(b"200 OK")
    writer.close()
    return count
