"""Make the web application: its routes, the bounds of every request, and what an error looks like."""

from __future__ import annotations

import asyncio
from importlib import metadata
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adk_graph_memory import errors
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.records.scopes import check_flags
from adk_graph_memory.servers.access import Identify, check_identify
from adk_graph_memory.servers.http import routes
from adk_graph_memory.servers.json_forms import describe_error
from adk_graph_memory.servers.problems import make_problem

MAX_BODY_BYTES = 1 << 20
RETRY_SECONDS = 5
"""After which a caller may send a request again that memory could not answer."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
TOO_LARGE = f"A request may have {MAX_BODY_BYTES:,} bytes: send fewer turns at a time."
NO_ROUTE = "This service does not have that address and method: /openapi.json lists all that it has."
WORDINGS = {
    "Not Found": NO_ROUTE,
    "Method Not Allowed": NO_ROUTE,
    "There was an error parsing the body": "The body cannot be read: send JSON in UTF-8, not nested deeply.",
}
"""What to say instead of the framework's words, which do not tell what to do."""


def make_http_app(memory: GraphMemory, identify: Identify[Request], *, write: bool = True) -> FastAPI:
    """Make a web application that serves memories as JSON; mount it in your own.

    Args:
        memory: the memory; it is not closed here.
        identify: returns the app name and the user id whose memory a request may use, the app name and None if it may
            use that of every user of the app, or None if it may use nobody's. Your application must already have
            authenticated the caller. Never base this on the request's path or body.
        write: whether requests may add turns, correct, undo and forget.

    Raises:
        errors.ExtraMissing: FastAPI is not installed.
        errors.InvalidArgument: ``identify`` is not a function, or ``write`` is not a bool.

    Example:
        app.mount("/memory", make_http_app(memory, lambda request: ("home", request.state.user)))
    """
    check_identify(identify)
    check_flags(write=write)
    app = FastAPI(
        title="Memory",
        version=metadata.version("adk-graph-memory"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.memory, app.state.identify = memory, identify
    app.state.export_slots = asyncio.Semaphore(routes.MAX_EXPORTS)
    app.include_router(routes.reading)
    app.include_router(routes.writing if write else routes.make_refusals())
    for kind in (errors.GraphMemoryError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer_error)
    app.add_middleware(Bounds)
    memory.plan_ahead()
    return app


class Bounds:
    """Refuses large bodies, routes by the path as it was sent, and lets nobody keep an answer.

    A server decodes the path, so that an id with an encoded slash would lead to another route, about another user.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size = 0

        async def receive_bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BODY_BYTES:
                raise HTTPException(413, TOO_LARGE)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or len(length) > 20 or int(length) > MAX_BODY_BYTES:
            await make_problem(413, TOO_LARGE)(scope, receive, send_with_headers)
            return
        raw_path = scope.get("raw_path") or quote(scope["path"]).encode()  # not every server hands it on
        scope = {**scope, "path": raw_path.decode("ascii", "surrogateescape")}
        await self._app(scope, receive_bounded, send_with_headers)


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    """Say what is wrong, and what to do."""
    status, detail = describe_error(request, request.app.state.memory, error)
    name = type(error).__name__ if isinstance(error, errors.GraphMemoryError) and status != 503 else None
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return make_problem(status, WORDINGS.get(detail, detail), headers, error=name)
