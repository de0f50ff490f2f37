"""Bound what uvicorn does not: the time until a request is whole, and the end of requests that are cut off."""

from __future__ import annotations

import asyncio
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

RELEASE_SECONDS = 5.0
"""How long requests that are cut off have to clean up: to release the turns that they were reading."""


class PatientServer(uvicorn.Server):
    """A server that waits for the end of requests that it cuts off; uvicorn's own ends the process before."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=RELEASE_SECONDS)


class BoundedH11Protocol(H11Protocol):
    """HTTP/1.1 with a deadline for each request, counted from when the connection is ready for it."""

    request_seconds = 30.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def handle_events(self) -> None:
        super().handle_events()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._clear_deadline()

    def _set_deadline(self) -> None:
        """Start the deadline, unless it runs, while a request is awaited or comes in; clear it once that is whole."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._clear_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.request_seconds, self.transport.close)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
