"""Decide whose memory a request may see, and whether it may change it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, TypedDict

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse

from adk_graph_memory import graph
from adk_graph_memory.consolidation.entity_resolution import OWNER_KEY
from adk_graph_memory.html_pages import PageRenderer
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope
from adk_graph_memory.web_access import Identify, find_scope

WRITE_HEADER = "X-Inspector-Token"
"""A request that changes memory carries the page's token in this header, which no other site can send."""


class Whose(TypedDict):
    """The owner of a memory, as its methods take it."""

    app_name: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that may see one user's memory."""

    memory: GraphMemory
    scope: Scope
    renderer: PageRenderer
    write_token: str | None
    """lets its pages change memory; None if they only show it"""

    @property
    def whose(self) -> Whose:
        """The owner, as methods of a memory take it."""
        return {"app_name": self.scope.app_name, "user_id": self.scope.user_id}

    async def connect(self) -> graph.Connection:
        """Return the prepared connection."""
        return await graph.prepare_connection(self.memory.connection)

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
        scope = await find_scope(self.identify, request)
        if scope is None:
            raise HTTPException(403, "This request is nobody's whose memory could be shown.")
        token = self.make_token(scope) if self.is_writable else None
        if request.method not in ("GET", "HEAD"):
            self._check_token(request.headers, token)
        base = request.scope.get("root_path", "").rstrip("/")
        return Visit(self.memory, scope, PageRenderer(scope, base, token), token)

    def make_token(self, scope: Scope) -> str:
        """Make the token with which this user's pages change memory."""
        return hmac.new(self.secret, scope.key.encode(), sha256).hexdigest()

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
    visit.renderer.owner_name = await graph.inspection.find_owner_name(await visit.connect(), visit.scope, OWNER_KEY)
    return visit


PageVisit = Annotated[Visit, Depends(open_page_visit)]
"""What the route of a page needs."""
