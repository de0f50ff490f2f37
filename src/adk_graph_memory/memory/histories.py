"""Show why memory holds a fact or a name, and undo what one ingest wrote."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
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
