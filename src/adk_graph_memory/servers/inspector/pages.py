"""Show pages: ask a question, a fact, an entity, a conversation, and the lists of these."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from adk_graph_memory import errors
from adk_graph_memory.graph import ingest_queue, inspection
from adk_graph_memory.memory.jobs import batches
from adk_graph_memory.memory.pages.document import find_answer
from adk_graph_memory.memory.pages.renderer import Page
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.servers.inspector.visits import PageVisit, Visit

router = APIRouter(default_response_class=HTMLResponse)
PAGE_SIZE = 100
"""Rows of a list on one page."""
PageNumber = Annotated[int, Query(ge=1, le=100_000)]


@router.get("/")
async def ask(visit: PageVisit, question: str = "", as_of: str = "") -> str:
    """Show the memories that answer a question, and why; without a question, what memory always keeps in mind."""
    if not question.strip():
        return visit.renderer.render_profile(await visit.user.profile())
    moment = await _parse_day(visit, as_of)
    return visit.renderer.render_answer(await find_answer(visit.user, question, moment, day=as_of))


async def _parse_day(visit: Visit, day: str) -> AsOf | None:
    """Make the end of a day in the user's zone; None without a day.

    Raises:
        errors.InvalidArgument: it is no day.
    """
    if not day:
        return None
    try:
        parsed = date.fromisoformat(day)
    except ValueError as error:
        raise errors.InvalidArgument(reason=f"{day!r} is no day such as 2026-05-29") from error
    zone = await visit.user.engine.speakers.find_zone(visit.user.scope)
    return AsOf(valid=datetime.combine(parsed, time.max, zone))


@router.get("/facts")
async def list_facts(visit: PageVisit, after: str | None = None) -> str:
    """List all facts, ended ones too, newest first."""
    listing = visit.user.facts(past=True, limit=PAGE_SIZE + 1, after=after)
    facts = [fact async for fact in listing]
    return visit.renderer.render_facts(facts[:PAGE_SIZE], has_more=len(facts) > PAGE_SIZE)


@router.get("/facts/{id}")
async def show_fact(visit: PageVisit, id: str, page: PageNumber = 1) -> str:
    """Show a fact: its words in their conversation, its history, and the facts next to it."""
    size = inspection.AROUND_PER_PAGE
    details = await inspection.fetch_fact(visit.user.graph, id, skip=(page - 1) * size, limit=size)
    return visit.renderer.render_fact(details, Page(page, max(details.counts.values()) > page * size), page * size)


@router.get("/entities")
async def list_entities(visit: PageVisit, name: str = "", page: PageNumber = 1) -> str:
    """List people and things, those with most facts that hold first."""
    entities = await inspection.fetch_entities(
        visit.user.graph,
        text=name.strip(),
        skip=(page - 1) * PAGE_SIZE,
        limit=PAGE_SIZE + 1,
    )
    query = f"{urlencode({'name': name})}&" if name else ""
    return visit.renderer.render_entities(entities[:PAGE_SIZE], name, Page(page, len(entities) > PAGE_SIZE, query))


@router.get("/entities/{key}")
async def show_entity(visit: PageVisit, key: str, page: PageNumber = 1) -> str:
    """Show an entity: its names, what is known of it and since when, and whom it is connected with."""
    size = inspection.FACTS_PER_PAGE
    details = await inspection.fetch_entity(visit.user.graph, key, skip=(page - 1) * size)
    return visit.renderer.render_entity(details, Page(page, details.fact_count > page * size))


@router.get("/review")
async def show_review(visit: PageVisit) -> str:
    """Show what waits for the owner: what agents propose to change, and what a guard holds back."""
    proposals = await visit.user.proposals()
    return visit.renderer.render_review(proposals, await visit.user.held_facts())


@router.get("/sessions")
async def list_sessions(visit: PageVisit, page: PageNumber = 1) -> str:
    """List conversations, what waits to be read, and what reading cost."""
    sessions = await inspection.fetch_sessions(visit.user.graph, skip=(page - 1) * PAGE_SIZE, limit=PAGE_SIZE + 1)
    connection, scope = visit.user.connection, visit.user.scope
    app_name, user_id = scope.app_name, scope.user_id
    pending = await ingest_queue.fetch_pending_ingests(connection, app_name=app_name, user_id=user_id)
    reports = await ingest_queue.fetch_ingest_reports(connection, app_name=app_name, user_id=user_id)
    costs = sorted(batches.sum_reports(reports, connection.settings.prices), key=lambda entry: entry.day, reverse=True)
    following = Page(page, len(sessions) > PAGE_SIZE)
    return visit.renderer.render_sessions(sessions[:PAGE_SIZE], pending, costs, following)


@router.get("/sessions/{session_id:path}")
async def show_session(visit: PageVisit, session_id: str, page: PageNumber = 1, turn: str | None = None) -> str:
    """Show a conversation with what was read from each turn; its first page, or that of one turn."""
    if turn is not None:
        page = 1 + await inspection.find_turn_place(visit.user.graph, session_id, turn) // PAGE_SIZE
    turns = await inspection.fetch_session_turns(
        visit.user.graph, session_id, skip=(page - 1) * PAGE_SIZE, limit=PAGE_SIZE + 1
    )
    return visit.renderer.render_session(session_id, turns[:PAGE_SIZE], Page(page, len(turns) > PAGE_SIZE))
