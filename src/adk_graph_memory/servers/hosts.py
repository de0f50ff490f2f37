"""Let only requests in that call this server by a name it has: any other may be a trick of a web page."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from adk_graph_memory.servers.access import is_allowed_host
from adk_graph_memory.servers.problems import make_problem


class HostCheck:
    """Answers requests to this machine or one of these names, of a browser only those of such a host's page."""

    def __init__(self, app: ASGIApp, *names: str) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scheme, _, page = headers.get("origin", "http://127.0.0.1").partition("://")
        if not is_allowed_host(headers.get("host", ""), self._names):
            problem = make_problem(421, "This server has another name: allow this one with --allowed-host.")
            await problem(scope, receive, send)
        elif scheme not in ("http", "https") or not is_allowed_host(page, self._names):
            await make_problem(403, "Pages of other sites may not use this server.")(scope, receive, send)
        else:
            await self._app(scope, receive, send)
