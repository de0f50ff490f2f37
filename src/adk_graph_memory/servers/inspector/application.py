"""Make the web application: its routes, the headers of every answer, and what an error looks like."""

from __future__ import annotations

import secrets

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adk_graph_memory import errors
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.pages.renderer import STATIC_FOLDER, load_templates
from adk_graph_memory.records.scopes import check_flags
from adk_graph_memory.servers.access import Identify, check_identify
from adk_graph_memory.servers.health import HealthProbes
from adk_graph_memory.servers.inspector import changes, json_routes, pages
from adk_graph_memory.servers.inspector.visits import Reception
from adk_graph_memory.servers.json_forms import describe_error

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Nothing from elsewhere runs, nothing is kept, and no other site may frame or read a page.

No page needs an inline script or style: bars and spans are SVG with attributes, Cytoscape draws graphs on positions
that the renderer computes, and the slider only adds a class.
"""


def inspector(
    memory: GraphMemory, identify: Identify[Request], *, write: bool = False, secret: bytes | None = None
) -> FastAPI:
    """Make a web application that shows users what is remembered about them; mount it in your own.

    Args:
        memory: the memory; it is not closed here.
        identify: returns the app name and the user id whose memory a request may see, or None if it may see nobody's.
            Your application must already have authenticated the user.
        write: whether the user may correct, pin, merge, split, undo and forget.
        secret: signs the tokens of pages that change memory; several processes that serve one application need the
            same one. A new one by default.

    Raises:
        errors.ExtraMissing: Jinja2 is not installed.
        errors.InvalidArgument: ``identify`` is not a function, ``write`` is not a bool, or the secret is not bytes.

    Example:
        app.mount("/memory", inspector(memory, lambda request: ("home", request.state.user)))
    """
    check_identify(identify)
    check_flags(write=write)
    if not isinstance(secret, bytes | None):
        raise errors.InvalidArgument(reason="the secret is not made of bytes")
    app = make_web_app(memory, "What memory holds of a user")
    app.state.reception = Reception(memory, identify, secret or secrets.token_bytes(32), write)
    app.include_router(pages.router, include_in_schema=False)
    app.include_router(changes.router, include_in_schema=False)
    app.include_router(json_routes.router)
    return app


def make_web_app(memory: GraphMemory, title: str) -> FastAPI:
    """Make an application without routes, with static files, probes, headers and answers to errors.

    Raises:
        errors.ExtraMissing: Jinja2 is not installed.
    """
    load_templates()
    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", redirect_slashes=False)
    app.state.memory = memory
    app.mount("/static", StaticFiles(directory=STATIC_FOLDER))
    app.add_exception_handler(errors.GraphMemoryError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_error)
    app.add_middleware(HealthProbes, memory=memory)
    app.add_middleware(SecurityHeaders)
    return app


class SecurityHeaders:
    """Adds the headers that keep a browser from running what memory holds."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if "/static/" in scope["path"]:
                    headers["Cache-Control"] = "private, max-age=3600"
            await send(message)

        await self._app(scope, receive, send_with_headers)


async def _answer_error(request: Request, error: Exception) -> Response:
    """Say what is wrong: on a page, in the dialog of a change, or as JSON."""
    status_code, message = describe_error(request, request.app.state.memory, error)
    root_path = request.scope.get("root_path", "")
    if request.url.path.removeprefix(root_path).startswith("/api/"):
        return JSONResponse({"error": type(error).__name__, "message": message}, status_code)
    is_dialog, base = request.headers.get("HX-Request") == "true", root_path.rstrip("/")
    page = load_templates().get_template("refusal.html").render(message=message, is_dialog=is_dialog, base=base)
    return HTMLResponse(page, status_code)
