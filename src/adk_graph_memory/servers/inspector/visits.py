"""Decide whose memory a request may see, and whether it may change it."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse
from starlette import types
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from adk_graph_memory.consolidation.entity_resolution import OWNER_KEY
from adk_graph_memory.graph import inspection
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.pages.renderer import PageRenderer
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.servers.access import LOOPBACK_NAMES, Identify, find_memory

WRITE_HEADER = "X-Inspector-Token"
"""A request that changes memory carries the page's token in this header, which no other site can send."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that may see one user's memory."""

    user: UserMemory
    renderer: PageRenderer
    write_token: str | None
    """lets its pages change memory; None if they only show it"""

    def show(self, template: str, **context: Any) -> HTMLResponse:
        """Answer with a page."""
        return HTMLResponse(self.renderer.render(template, **context))


@dataclass(frozen=True, slots=True)
class Reception:
    """Lets requests in: it knows who they are, and gives and checks the tokens without which they change nothing."""

    memory: GraphMemory
    identify: Identify[Request]
    secret: bytes
    is_writable: bool

    async def open_visit(self, request: Request) -> Visit:
        """Open the visit of a request.

        Raises:
            HTTPException: 403 if it may see nobody's memory, or is to change one without the token.
        """
        user = await find_memory(self.memory, self.identify, request)
        if user is None:
            raise HTTPException(403, "This request is nobody's whose memory could be shown.")
        token = hmac.new(self.secret, user.scope.key.encode(), sha256).hexdigest() if self.is_writable else None
        if request.method not in ("GET", "HEAD"):
            self._check_token(request.headers, token)
        base = request.scope.get("root_path", "").rstrip("/")
        return Visit(user, PageRenderer(user.scope, base, token), token)

    def _check_token(self, headers: Mapping[str, str], token: str | None) -> None:
        if token is None:
            raise HTTPException(403, "This memory is shown read-only.")
        if not hmac.compare_digest(headers.get(WRITE_HEADER, "").encode(), token.encode()):
            raise HTTPException(403, "The page that sent this is no page of this memory, or an old one: reload it.")


async def open_visit(request: Request) -> Visit:
    """Open the visit of a request to an inspector."""
    reception: Reception = request.app.state.reception
    return await reception.open_visit(request)


OwnVisit = Annotated[Visit, Depends(open_visit)]
"""What a route needs to see anything at all."""


async def open_page_visit(visit: OwnVisit) -> Visit:
    """Open the visit of a request for a page, which calls the owner of the memory by name."""
    visit.renderer.owner_name = await inspection.find_owner_name(visit.user.graph, OWNER_KEY)
    return visit


PageVisit = Annotated[Visit, Depends(open_page_visit)]
"""What the route of a page needs."""
REFUSAL = "Open the address that `adk-graph-memory inspect` printed. It works once: for another browser, run it again."


class LocalAccess:
    """Guards an application on the loopback interface, where every user and every web page of the machine can knock.

    The address with the token works once: it leaves a cookie in the browser that opened it.

    Args:
        app: the application.
        port: the port that it is served at.
    """

    def __init__(self, app: types.ASGIApp, port: int) -> None:
        self._app, self._hosts = app, {f"{name}:{port}" for name in LOOPBACK_NAMES}
        self._hosts |= {*LOOPBACK_NAMES} if port == 80 else set()  # a browser leaves it out
        self._token: str | None = secrets.token_urlsafe(32)
        self._cookie_name, self._cookie = f"inspector_{port}", secrets.token_urlsafe(32)
        self.address = f"http://127.0.0.1:{port}/?token={self._token}"

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie_name, "")
        response: Response
        if headers.get("host", "") not in self._hosts:
            response = PlainTextResponse("This page is served on this machine alone.", 421)
        elif hmac.compare_digest(cookie.encode(), self._cookie.encode()):
            await self._app(scope, receive, send)
            return
        elif self._token and hmac.compare_digest(scope["query_string"], f"token={self._token}".encode()):
            self._token = None
            response = RedirectResponse(scope["path"], 303)
            response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="lax", path="/")
        else:
            response = PlainTextResponse(REFUSAL, 403)
        response.headers.update({"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
        await response(scope, receive, send)
