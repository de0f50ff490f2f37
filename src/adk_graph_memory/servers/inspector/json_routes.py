"""The same as JSON, for an application's own pages: list, search, history and delete; OpenAPI describes it."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from adk_graph_memory.memory.recall import FIRST_WAIT
from adk_graph_memory.records.history import FactHistory
from adk_graph_memory.records.results import Receipt, StoredEntity, StoredFact
from adk_graph_memory.servers.inspector.visits import WRITE_HEADER, OwnVisit
from adk_graph_memory.servers.json_forms import Limit, SearchResult

router = APIRouter(prefix="/api")


class WriteToken(BaseModel):
    """What a request that changes memory carries in a header; None if memory is shown read-only."""

    header: str = WRITE_HEADER
    token: str | None


@router.get("/facts")
async def list_facts(
    visit: OwnVisit, about: str | None = None, past: bool = False, limit: Limit = 50, after: str | None = None
) -> list[StoredFact]:
    """List facts, newest first: also those that ended with ``past``, those behind the id ``after``."""
    facts = visit.user.facts(about=about, past=past, limit=limit, after=after)
    return [fact async for fact in facts]


@router.get("/entities")
async def list_entities(visit: OwnVisit, limit: Limit = 50, after: str | None = None) -> list[StoredEntity]:
    """List the people and things that facts are about, those with most facts first."""
    return [entity async for entity in visit.user.entities(limit=limit, after=after)]


@router.get("/search")
async def search(visit: OwnVisit, query: str, limit: Limit = 10) -> list[SearchResult]:
    """Return the memories that fit a question best, best first, with what each signal added."""
    memories = await visit.user.recall(query, limit=limit, explain=True, first_wait=FIRST_WAIT)
    return [SearchResult.model_validate(memory) for memory in memories]


@router.get("/facts/{id}/history")
async def get_history(visit: OwnVisit, id: str) -> FactHistory:
    """Return a fact with every word that speaks for it and every decision about it."""
    return await visit.user.history(id)


@router.get("/token")
async def get_token(visit: OwnVisit) -> WriteToken:
    """Return the token that a request needs to change memory."""
    return WriteToken(token=visit.write_token)


@router.delete("/memories/{id}")
async def delete_memory(visit: OwnVisit, id: str) -> Receipt:
    """Forget a turn or a fact as if it had never been heard; the header of ``/api/token`` is needed."""
    return await visit.user.forget(id)
