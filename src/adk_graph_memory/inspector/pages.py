"""Show pages: ask a question, a fact, an entity, a conversation, and the lists of these."""

from __future__ import annotations

import time
from datetime import date, datetime
from datetime import time as time_of_day
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from adk_graph_memory import graph, ledger
from adk_graph_memory.html_pages import entity_view
from adk_graph_memory.inspector.visits import OwnVisit
from adk_graph_memory.records import AsOf
from adk_graph_memory.records.profile import SECTION_TITLES

router = APIRouter()
PAGE_SIZE = 100
"""Rows of a list on one page."""
FOLDED_AFTER = 10
"""Memories that an answer shows at once; a prompt gets all of them."""
FIRST_WAIT = 20.0
"""Seconds that the first question waits for the embedder before words alone have to do."""
PageNumber = Annotated[int, Query(ge=1, le=100_000)]


@router.get("/")
async def ask(visit: OwnVisit, question: str = "", as_of: str = "") -> HTMLResponse:
    """Show the memories that answer a question, and why; without a question, what memory always keeps in mind."""
    if not question.strip():
        profile = await visit.memory.profile(**visit.whose)
        groups = groupby(profile.items, lambda item: item.section)
        sections = [(SECTION_TITLES[section], list(items)) for section, items in groups]
        return visit.show("ask.html", view="ask", question="", as_of="", sections=sections)
    moment = await _parse_day(visit, as_of)
    start = time.perf_counter()
    memories = await visit.memory.recall(question, **visit.whose, explain=True, first_wait=FIRST_WAIT, as_of=moment)
    milliseconds = 1000 * (time.perf_counter() - start)
    pairs = {(memory.id, share.through) for memory in memories for share in memory.shares if share.through}
    paths = await graph.inspection.fetch_paths(
        await visit.connect(), visit.scope, sorted((id, through) for id, through in pairs if through)
    )
    return visit.show(
        "ask.html",
        view="ask",
        question=question,
        as_of=as_of,
        memories=memories,
        folded_after=FOLDED_AFTER,
        paths=paths,
        milliseconds=milliseconds,
        degraded=next((memory.degraded for memory in memories if memory.degraded), None),
        largest_share=max((abs(share.amount) for memory in memories for share in memory.shares), default=0.0),
    )


async def _parse_day(visit: OwnVisit, day: str) -> AsOf | None:
    """Make the end of a day in the user's zone; None without a day, or if it is none."""
    try:
        parsed = date.fromisoformat(day)
    except ValueError:
        return None
    await visit.connect()
    zone = await visit.memory.speakers.find_zone(visit.scope)
    return AsOf(valid=datetime.combine(parsed, time_of_day.max, zone))


@router.get("/facts/{id}")
async def show_fact(visit: OwnVisit, id: str) -> HTMLResponse:
    """Show a fact: its words in their conversation, its history, and the facts next to it."""
    details = await graph.inspection.fetch_fact(await visit.connect(), visit.scope, id)
    return visit.show("fact.html", details=details)


@router.get("/entities")
async def list_entities(visit: OwnVisit, name: str = "", page: PageNumber = 1) -> HTMLResponse:
    """List people and things, those of which most is said first."""
    entities = await graph.inspection.fetch_entities(
        await visit.connect(), visit.scope, text=name.strip(), skip=(page - 1) * PAGE_SIZE, limit=PAGE_SIZE
    )
    return visit.show("entities.html", view="entities", entities=entities, name=name, page=page, page_size=PAGE_SIZE)


@router.get("/entities/{key}")
async def show_entity(visit: OwnVisit, key: str, page: PageNumber = 1) -> HTMLResponse:
    """Show an entity: its names, what is known of it and since when, and whom it is connected with."""
    size = graph.inspection.FACTS_PER_PAGE
    details = await graph.inspection.fetch_entity(await visit.connect(), visit.scope, key, skip=(page - 1) * size)
    return visit.show(
        "entity.html",
        view="entities",
        details=details,
        groups=entity_view.group_facts(details.facts),
        scale=entity_view.TimeScale.from_facts(details.facts),
        elements=entity_view.make_graph_elements(details, visit.renderer.make_url),
        types=entity_view.list_types(details),
        page=page,
        page_size=size,
    )


@router.get("/sessions")
async def list_sessions(visit: OwnVisit, page: PageNumber = 1) -> HTMLResponse:
    """List conversations, what waits to be read, and what reading cost."""
    connection = await visit.connect()
    sessions = await graph.inspection.fetch_sessions(
        connection, visit.scope, skip=(page - 1) * PAGE_SIZE, limit=PAGE_SIZE
    )
    pending = await graph.ingest_queue.fetch_pending_ingests(connection, **visit.whose)
    reports = await graph.ingest_queue.fetch_ingest_reports(connection, **visit.whose)
    costs = ledger.sum_reports(reports, connection.settings.prices)
    return visit.show(
        "sessions.html",
        view="sessions",
        sessions=sessions,
        pending=pending,
        costs=sorted(costs, key=lambda entry: entry.day, reverse=True),
        page=page,
        page_size=PAGE_SIZE,
    )


@router.get("/sessions/{session_id:path}")
async def show_session(visit: OwnVisit, session_id: str, page: PageNumber = 1) -> HTMLResponse:
    """Show a conversation with what was read from each turn."""
    turns = await graph.inspection.fetch_session_turns(
        await visit.connect(), visit.scope, session_id, skip=(page - 1) * PAGE_SIZE, limit=PAGE_SIZE
    )
    return visit.show(
        "session.html", view="sessions", session_id=session_id, turns=turns, page=page, page_size=PAGE_SIZE
    )
