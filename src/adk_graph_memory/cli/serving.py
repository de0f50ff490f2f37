"""Serve a web application on the loopback interface until Ctrl-C."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from adk_graph_memory import errors
from adk_graph_memory.cli.lazy_modules import asyncio

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def listen(port: int) -> socket.socket:
    """Listen on the loopback interface.

    Raises:
        errors.PortTaken: another process does.
        errors.InvalidArgument: the port cannot be used.
    """
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise errors.PortTaken(port=port) from error
        reason = f"port {port} cannot be used ({error.strerror or error}); choose another (`--port`)"
        raise errors.InvalidArgument(reason=reason) from error


async def serve_until_interrupted(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application on a socket that listens."""
    import uvicorn

    from adk_graph_memory.cli.bounded_http import BoundedH11Protocol

    config = uvicorn.Config(app, http=BoundedH11Protocol, ws="none", log_level="warning")
    with suppress(asyncio.CancelledError):  # uvicorn hands Ctrl-C on when it has ended
        await uvicorn.Server(config).serve(sockets=[listener])
        await asyncio.sleep(0)
