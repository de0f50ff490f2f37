"""Show operators all apps and users: counts, what waits, what each day cost; nobody's words, unless they may read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from adk_graph_memory import errors
from adk_graph_memory.graph import overview
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.jobs import batches
from adk_graph_memory.memory.pages.renderer import load_templates
from adk_graph_memory.records.overview import AppCounts, CostPage, DayCost, StoreCounts, UserCounts
from adk_graph_memory.records.scopes import check_flags
from adk_graph_memory.servers.access import Owner, Permit, is_permitted
from adk_graph_memory.servers.inspector.application import inspector, make_web_app
from adk_graph_memory.servers.json_forms import Limit

PAGE_SIZE = 100
"""Apps or users on one page."""
MAX_REPORTS = 10_000
"""Finished requests that one page sums up."""


def operators_inspector(
    memory: GraphMemory,
    may_operate: Permit[Request],
    *,
    may_read: Permit[Request] | None = None,
    write: bool = False,
    secret: bytes | None = None,
) -> FastAPI:
    """Make a web application that shows operators who has a memory, what waits and what it costs; mount it in your own.

    It lists apps and users, whose ids may be names or addresses, with counts. What is remembered of anybody, it shows
    only with ``may_read``: then each user's :func:`inspector` is below ``/memories``.

    Args:
        memory: the memory; it is not closed here.
        may_operate: returns whether a request may see any of this. Your application must already have authenticated the
            operator.
        may_read: returns whether an operator's request may also open memories; by default nobody's does, and there are
            no such pages.
        write: whether who may open a memory may also change it.
        secret: signs the tokens of pages that change memory, as for :func:`inspector`.

    Raises:
        errors.ExtraMissing: Jinja2 is not installed.
        errors.InvalidArgument: a permission is not a function, ``write`` is not a bool, or the secret is not bytes.

    Example:
        app.mount("/operators", operators_inspector(memory, lambda request: request.state.user in OPERATORS))
    """
    permits = {"may_operate": may_operate} | ({} if may_read is None else {"may_read": may_read})
    for name, permit in permits.items():
        if not callable(permit):
            raise errors.InvalidArgument(reason=f"{name}={permit!r} is no function that tells what a request may do")
    check_flags(write=write)
    app = make_web_app(memory, "Who has a memory, what waits and what it costs")
    app.state.access = access = OperatorAccess(memory, may_operate, may_read)
    app.include_router(pages, include_in_schema=False)
    app.include_router(json_routes)
    if may_read is not None:
        app.mount("/memories/{owner_key}", inspector(memory, access.identify, write=write, secret=secret))
    return app


@dataclass(frozen=True, slots=True)
class OperatorVisit:
    """A request that may see who has a memory, and perhaps open memories."""

    connection: Connection
    base: str
    may_read: bool

    def show(self, view: str, **context: Any) -> HTMLResponse:
        """Answer with a page."""
        context |= {"view": view, "url": self.format_url, "may_read": self.may_read}
        return HTMLResponse(load_templates().get_template(f"{view}.html").render(context))

    def format_url(self, path: str = "", **query: str) -> str:
        """Format the address of a page: ids stand in its query, because a browser resolves ``..`` in a path."""
        return f"{self.base}/{path}{'?' if query else ''}{urlencode(query)}"


@dataclass(frozen=True, slots=True)
class OperatorAccess:
    """Lets operators in: it knows who may see the counts, and who may open memories."""

    memory: GraphMemory
    may_operate: Permit[Request]
    may_read: Permit[Request] | None

    async def open_visit(self, request: Request) -> OperatorVisit:
        """Open the visit of an operator's request.

        Raises:
            HTTPException: 403 if it is no operator's.
        """
        if not await is_permitted(self.may_operate, request):
            raise HTTPException(403, "This request is no operator's.")
        may_read = self.may_read is not None and await is_permitted(self.may_read, request)
        return OperatorVisit(self.memory.connection, request.scope.get("root_path", "").rstrip("/"), may_read)

    async def identify(self, request: Request) -> Owner | None:
        """Find whose memory an operator's request opens; None if it may open none."""
        visit = await self.open_visit(request)
        return await overview.find_owner(visit.connection, request.path_params["owner_key"]) if visit.may_read else None


async def open_operator_visit(request: Request) -> OperatorVisit:
    """Open the visit of a request to the operators' inspector."""
    access: OperatorAccess = request.app.state.access
    return await access.open_visit(request)


Visit = Annotated[OperatorVisit, Depends(open_operator_visit)]
AppName = Annotated[str, Query(alias="app")]
pages = APIRouter(default_response_class=HTMLResponse)
json_routes = APIRouter(prefix="/api")


@pages.get("/")
async def show_apps(visit: Visit, after: str = "") -> HTMLResponse:
    """Show the apps, by name."""
    store = await overview.fetch_store_counts(visit.connection)
    apps = await overview.fetch_apps(visit.connection, store, limit=PAGE_SIZE + 1, after=after)
    more = len(apps) > PAGE_SIZE
    return visit.show("apps", store=store, apps=apps[:PAGE_SIZE], after=after, has_more=more)


@pages.get("/users")
async def show_users(visit: Visit, app_name: AppName, search: str = "", after: str = "") -> HTMLResponse:
    """Show an app's users, by id; with ``search`` those whose id contains it."""
    filters = {"after": after, "search": search.strip()}
    users = await overview.fetch_users(visit.connection, app_name, limit=PAGE_SIZE + 1, **filters)
    more = len(users) > PAGE_SIZE
    return visit.show("users", app_name=app_name, users=users[:PAGE_SIZE], has_more=more, **filters)


@pages.get("/costs")
async def show_costs(visit: Visit, app_name: AppName, before: date = date.max) -> HTMLResponse:
    """Show what remembering cost an app each day, the latest first."""
    page = await _sum_days(visit.connection, app_name, before)
    return visit.show("costs", app_name=app_name, page=page, is_earlier=before != date.max)


@json_routes.get("/store")
async def get_store(visit: Visit) -> StoreCounts:
    """Return how much the database holds of all users."""
    return await overview.fetch_store_counts(visit.connection)


@json_routes.get("/apps")
async def list_apps(visit: Visit, limit: Limit = 50, after: str = "") -> list[AppCounts]:
    """List the apps behind the name ``after``, by name."""
    store = await overview.fetch_store_counts(visit.connection)
    return await overview.fetch_apps(visit.connection, store, limit=limit, after=after)


@json_routes.get("/users")
async def list_users(
    visit: Visit, app_name: AppName, search: str = "", limit: Limit = 50, after: str = ""
) -> list[UserCounts]:
    """List an app's users behind the id ``after``, by id; with ``search`` those whose id contains it, in any case."""
    return await overview.fetch_users(visit.connection, app_name, limit=limit, after=after, search=search)


@json_routes.get("/costs")
async def get_costs(visit: Visit, app_name: AppName, before: date = date.max) -> CostPage:
    """Return what remembering cost an app on the latest days before one, as many as a page reads."""
    return await _sum_days(visit.connection, app_name, before)


async def _sum_days(connection: Connection, app_name: str, before: date) -> CostPage:
    """Sum up the latest requests before a day. A day that does not fit on this page begins the next one."""
    rows = await overview.fetch_day_reports(connection, app_name, limit=MAX_REPORTS + 1, before=before)
    prices = connection.settings.prices
    days = await asyncio.to_thread(lambda: tuple(_sum_reports(app_name, row, prices) for row in rows))
    if sum(one.requests for one in days) <= MAX_REPORTS:
        return CostPage(days, None, is_partial=False)
    *_, oldest = days
    if whole := tuple(one for one in days if one.day != oldest.day):  # the next page has all of that day
        return CostPage(whole, whole[-1].day, is_partial=False)
    return CostPage(days, oldest.day, is_partial=True)


def _sum_reports(app_name: str, row: Mapping[str, Any], prices: batches.Prices) -> DayCost:
    whose = {"app_name": app_name, "user_id": "", "day": row["day"], "extractor": row["extractor"]}
    [entry] = batches.sum_reports(({**whose, "report": report} for report in row["reports"]), prices)
    usage = entry.report.usage
    return DayCost(
        entry.day,
        entry.extractor,
        entry.ingests,
        row["sessions"],
        row["failures"],
        entry.report.turns,
        usage.calls,
        usage.input_tokens,
        usage.output_tokens,
        entry.cost,
    )
