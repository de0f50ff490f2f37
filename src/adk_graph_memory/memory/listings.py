"""List what memory holds: apps, users, and a user's facts, entities and documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from adk_graph_memory import errors
from adk_graph_memory.graph import listings
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.records.facts import check_as_of
from adk_graph_memory.records.scopes import check_flags, check_text

if TYPE_CHECKING:
    from adk_graph_memory.records.facts import AsOf
    from adk_graph_memory.records.results import AppSummary, StoredDocument, StoredEntity, StoredFact, UserSummary


class FactsOptions(TypedDict, total=False):
    """Which facts a list has; :meth:`.UserMemory.facts` says what each option means."""

    about: str | None
    past: bool
    limit: int | None
    after: str | None
    as_of: AsOf | None


async def iterate_facts(
    graph: UserGraph,
    *,
    about: str | None = None,
    past: bool = False,
    limit: int | None = None,
    after: str | None = None,
    as_of: AsOf | None = None,
) -> AsyncIterator[StoredFact]:
    """Yield a user's facts, newest first; :meth:`.UserMemory.facts` says which."""
    check_flags(past=past)
    if about is not None:
        check_text("about", about)
    if as_of is not None:
        listings.check_page(limit, after)
        check_as_of(as_of)
        from adk_graph_memory.memory.past import derive_past_memory  # a list of what holds now derives nothing

        memory = await derive_past_memory(graph, as_of)
        for fact in _cut_page(memory.list_facts(about=about, past=past), limit, after):
            yield fact
        return
    keys = None if about is None else await listings.find_named_keys(graph, about)
    fetch_page = partial(listings.fetch_facts, graph, now=datetime.now(UTC), about=keys, past=past)
    async for fact in listings.iterate_pages(fetch_page, lambda fact: fact.id, limit, after):
        yield fact


def iterate_entities(
    graph: UserGraph, *, type: str | None = None, limit: int | None = None, after: str | None = None
) -> AsyncIterator[StoredEntity]:
    """Yield the entities that a user's facts are about, those with the most facts first."""
    if type is not None:
        check_text("type", type)
    fetch_page = partial(listings.fetch_entities, graph, now=datetime.now(UTC), type=type)
    return listings.iterate_pages(fetch_page, lambda entity: entity.key, limit, after)


def iterate_documents(
    graph: UserGraph, *, limit: int | None = None, after: str | None = None
) -> AsyncIterator[StoredDocument]:
    """Yield the user's documents, by title."""
    fetch_page = partial(listings.fetch_documents, graph)
    return listings.iterate_pages(fetch_page, lambda document: document.session_id, limit, after)


def iterate_users(
    connection: Connection, app_name: str, *, limit: int | None = None, after: str | None = None
) -> AsyncIterator[UserSummary]:
    """Yield an app's users in the order of their ids, with counts of what is stored for each."""
    fetch_page = partial(listings.fetch_users, connection, app_name)
    return listings.iterate_pages(fetch_page, lambda user: user.user_id, limit, after)


def iterate_apps(
    connection: Connection, *, limit: int | None = None, after: str | None = None
) -> AsyncIterator[AppSummary]:
    """Yield the apps of a database in the order of their names, with counts of what is stored for each."""
    fetch_page = partial(listings.fetch_apps, connection)
    return listings.iterate_pages(fetch_page, lambda app: app.app_name, limit, after)


def _cut_page(facts: list[StoredFact], limit: int | None, after: str | None) -> list[StoredFact]:
    ids = [fact.id for fact in facts]
    if after is not None and after not in ids:
        raise errors.NotFound(what=f"place {after!r} in this list", where="the last id of the page before")
    start = 0 if after is None else ids.index(after) + 1
    return facts[start:] if limit is None else facts[start : start + limit]
