"""List apps, users, facts and entities, show why memory holds them, and undo what one ingest wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from adk_graph_memory import errors
from adk_graph_memory.consolidation.provenance import trace_entity, trace_fact
from adk_graph_memory.graph import listings, snapshots
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.memory.changes import describe_change
from adk_graph_memory.memory.rewriting import Erasure, Rewriter, derive_memory, select_current_readings
from adk_graph_memory.records.history import EntityHistory, FactHistory, MemoryChange
from adk_graph_memory.records.memory import DerivedMemory
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.results import Receipt
from adk_graph_memory.records.scopes import Scope, check_text
from adk_graph_memory.runtime import telemetry

if TYPE_CHECKING:
    from adk_graph_memory.memory.vectors import GraphVectors
    from adk_graph_memory.records.facts import AsOf
    from adk_graph_memory.records.results import AppSummary, StoredEntity, StoredFact, UserSummary


class Listings:
    """Async iterators over memory; a base class of :class:`adk_graph_memory.GraphMemory`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def facts(
        self,
        *,
        app_name: str,
        user_id: str,
        about: str | None = None,
        past: bool = False,
        limit: int | None = None,
        after: str | None = None,
        as_of: AsOf | None = None,
    ) -> AsyncIterator[StoredFact]:
        """Yield the facts about a user, newest first.

        Args:
            app_name, user_id: whose memory it is.
            about: only facts about the entity with this name, alias or key.
            past: also facts that have ended, were retracted or are stale.
            limit: the maximum number of facts.
            after: the id of the fact to continue after.
            as_of: list what was true then, according to what was on record then. The facts are re-derived for this.

        Raises:
            errors.NotFound: this user has no fact with the id ``after``.
        """
        graph = self.connection.user(Scope(app_name, user_id))
        if as_of is not None:
            from adk_graph_memory.memory.past import (
                derive_past_memory,  # a list of what holds now needs nothing that derives
            )

            memory = await derive_past_memory(graph, as_of)
            for fact in _cut_page(memory.list_facts(about=about, past=past), limit, after):
                yield fact
            return
        keys = None if about is None else await listings.find_named_keys(graph, about)
        fetch_page = partial(listings.fetch_facts, graph, now=datetime.now(UTC), about=keys, past=past)
        async for fact in listings.iterate_pages(fetch_page, lambda fact: fact.id, limit, after):
            yield fact

    async def entities(
        self,
        *,
        app_name: str,
        user_id: str,
        type: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> AsyncIterator[StoredEntity]:
        """Yield the entities that a user's facts are about, those with the most facts first.

        Args:
            app_name, user_id: whose memory it is.
            type: only entities of this type: ``person``, ``place`` …
            limit: the maximum number of entities.
            after: the key of the entity to continue after.

        Raises:
            errors.NotFound: this user has no entity with the key ``after``.
        """
        graph = self.connection.user(Scope(app_name, user_id))
        fetch_page = partial(listings.fetch_entities, graph, now=datetime.now(UTC), type=type)
        async for entity in listings.iterate_pages(fetch_page, lambda entity: entity.key, limit, after):
            yield entity

    async def users(
        self, *, app_name: str, limit: int | None = None, after: str | None = None
    ) -> AsyncIterator[UserSummary]:
        """Yield an app's users in the order of their ids, with counts of what is stored for each.

        Args:
            app_name: the app.
            limit: the maximum number of users.
            after: the id of the user to continue after.
        """
        fetch_page = partial(listings.fetch_users, self.connection, app_name)
        async for user in listings.iterate_pages(fetch_page, lambda user: user.user_id, limit, after):
            yield user

    async def apps(self, *, limit: int | None = None, after: str | None = None) -> AsyncIterator[AppSummary]:
        """Yield the apps of this database in the order of their names, with counts of what is stored for each.

        Args:
            limit: the maximum number of apps.
            after: the name of the app to continue after.
        """
        fetch_page = partial(listings.fetch_apps, self.connection)
        async for app in listings.iterate_pages(fetch_page, lambda app: app.app_name, limit, after):
            yield app


def _cut_page(facts: list[StoredFact], limit: int | None, after: str | None) -> list[StoredFact]:
    ids = [fact.id for fact in facts]
    if after is not None and after not in ids:
        raise errors.NotFound(what=f"place {after!r} in this list", where="the last id of the page before")
    start = 0 if after is None else ids.index(after) + 1
    return facts[start:] if limit is None else facts[start : start + limit]


class Histories:
    """Where facts and names come from; a base class of :class:`adk_graph_memory.GraphMemory`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @telemetry.trace_operation("get_memory")
    async def history(self, id: str, *, app_name: str, user_id: str) -> FactHistory:
        """Return a fact with every quote that supports it and every decision about it.

        Args:
            id: the fact's id, as in ``Recollection.id`` or ``StoredFact.id``.
            app_name, user_id: whose memory it is.

        Raises:
            errors.NotFound: this user has no such fact.
        """
        check_text("the id", id)
        graph = self.connection.user(Scope(app_name, user_id))
        facts = await listings.fetch_facts(graph, now=datetime.now(UTC), past=True, id=id, limit=1)
        if not facts:
            raise errors.NotFound(what=f"fact {id!r} of this user", where="`adk-graph-memory facts`")
        readings, memory = await _derive_memory(graph)
        key = id.removeprefix("fact:")
        entries = trace_fact(readings, memory, key) if key in memory.facts else ()
        return FactHistory(facts[0], entries)

    @telemetry.trace_operation("get_memory")
    async def entity(self, name: str, *, app_name: str, user_id: str) -> EntityHistory:
        """Return an entity by name, alias or key, with the source of each name and the facts that hold.

        Raises:
            errors.NotFound: this user has no entity with this name; the error lists the closest names.
            errors.InvalidArgument: several entities have this name.
        """
        check_text("the name", name)
        graph = self.connection.user(Scope(app_name, user_id))
        now = datetime.now(UTC)
        entity = await listings.find_entity(graph, name, now=now)
        readings, memory = await _derive_memory(graph)
        facts = await listings.fetch_facts(graph, now=now, about=[entity.key], limit=50)
        entries = trace_entity(readings, memory, entity.key)
        return EntityHistory(entity, tuple(facts), entries)


async def _derive_memory(graph: UserGraph) -> tuple[list[Reading], DerivedMemory]:
    snapshot = await snapshots.fetch_snapshot(graph)
    readings, difference = await asyncio.to_thread(derive_memory, snapshot, Erasure())
    return select_current_readings(snapshot, readings), difference.derived


class Undoing:
    """Takes ingests back; a base class of :class:`adk_graph_memory.GraphMemory`."""

    connection: Connection
    vectors: GraphVectors

    @telemetry.trace_operation("delete_memory")
    async def undo(self, ingest_id: str, *, app_name: str, user_id: str) -> Receipt:
        """Take back everything that one ingest wrote, even if later ones built on it; its turns may be added and read
        again.

        Turns that :meth:`~adk_graph_memory.GraphMemory.reextract` read again return to their earlier reading.

        Args:
            ingest_id: as in ``HistoryEntry.ingest_id``.
            app_name, user_id: whose memory it is.

        Raises:
            errors.NotFound: this user's memory holds nothing from this ingest.
        """
        graph = self.connection.user(Scope(app_name, user_id))
        rewriter = Rewriter(graph, self.vectors)
        receipt = await rewriter.erase_memories(lambda snapshot: Erasure.select_ingest(snapshot, ingest_id))
        if not receipt.ids:
            where = "`adk-graph-memory history`, which names the ingests of a fact"
            raise errors.NotFound(what=f"ingest {ingest_id!r} of this user", where=where)
        return receipt

    async def preview_undo(self, ingest_id: str, *, app_name: str, user_id: str) -> MemoryChange:
        """Return which facts and names would change if :meth:`undo` took this ingest back; nothing is written.

        Raises:
            errors.DatabaseError: the graph could not be read.
        """
        check_text("the ingest", ingest_id)
        graph = self.connection.user(Scope(app_name, user_id))
        rewriter = Rewriter(graph, self.vectors)
        rewrite = await rewriter.preview_erasure(lambda snapshot: Erasure.select_ingest(snapshot, ingest_id))
        return replace(describe_change(ingest_id, rewrite.difference), turns=len(rewrite.erasure.turn_ids))
