"""Let only the browser in that opens the address which the command printed."""

from __future__ import annotations

import hmac
import secrets

from starlette import types
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from adk_graph_memory.web_access import LOOPBACK_NAMES

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
        response: Response
        if headers.get("host", "") not in self._hosts:
            response = PlainTextResponse("This page is served on this machine alone.", 421)
        elif self._has_cookie(headers):
            await self._app(scope, receive, send)
            return
        elif self._token and hmac.compare_digest(_get_token(scope), self._token.encode()):
            self._token = None
            response = RedirectResponse(scope["path"], 303)
            response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="lax", path="/")
        else:
            response = PlainTextResponse(REFUSAL, 403)
        response.headers.update({"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
        await response(scope, receive, send)

    def _has_cookie(self, headers: Headers) -> bool:
        given = cookie_parser(headers.get("cookie", "")).get(self._cookie_name, "")
        return hmac.compare_digest(given.encode(), self._cookie.encode())


def _get_token(scope: types.Scope) -> bytes:
    query: bytes = scope["query_string"]
    return query.removeprefix(b"token=") if query.startswith(b"token=") else b""
