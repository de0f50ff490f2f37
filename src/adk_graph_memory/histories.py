"""See why memory holds what it holds, and take back what one ingest wrote."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adk_graph_memory import consolidation, errors, graph, telemetry
from adk_graph_memory.erasure import Erasure
from adk_graph_memory.memory_changes import describe_change
from adk_graph_memory.records import Receipt, Scope
from adk_graph_memory.records.derived_memory import DerivedMemory
from adk_graph_memory.records.history import EntityHistory, FactHistory, MemoryChange
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.scopes import check_text
from adk_graph_memory.rewriting import Rewriter, derive_memory, select_current_readings

if TYPE_CHECKING:
    from adk_graph_memory.graph_vectors import GraphVectors


class Histories:
    """Where facts and names come from; :class:`adk_graph_memory.GraphMemory` tells it."""

    def __init__(self, connection: graph.Connection) -> None:
        self.connection = connection

    @telemetry.trace_operation("get_memory")
    async def history(self, id: str, *, app_name: str, user_id: str) -> FactHistory:
        """Return a fact with every word that speaks for it and every decision about it.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            app_name, user_id: whose memory it is.

        Raises:
            errors.NotFound: this user has no such fact.
        """
        check_text("the id", id)
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        facts = await graph.knowledge.fetch_facts(connection, scope, now=datetime.now(UTC), past=True, id=id, limit=1)
        if not facts:
            raise errors.NotFound(what=f"fact {id!r} of this user", where="`adk-graph-memory facts`")
        readings, memory = await self._derive_memory(connection, scope)
        key = id.removeprefix("fact:")
        entries = consolidation.trace_fact(readings, memory, key) if key in memory.facts else ()
        return FactHistory(facts[0], entries)

    @telemetry.trace_operation("get_memory")
    async def entity(self, name: str, *, app_name: str, user_id: str) -> EntityHistory:
        """Return an entity by name, alias or key, with where each name comes from and the facts that hold.

        Raises:
            errors.NotFound: this user's memory knows nobody and nothing of this name; the error names the nearest.
            errors.InvalidArgument: several have this name.
        """
        check_text("the name", name)
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        now = datetime.now(UTC)
        entity = await graph.knowledge.find_entity(connection, scope, name, now=now)
        readings, memory = await self._derive_memory(connection, scope)
        facts = await graph.knowledge.fetch_facts(connection, scope, now=now, about=[entity.key], limit=50)
        entries = consolidation.trace_entity(readings, memory, entity.key)
        return EntityHistory(entity, tuple(facts), entries)

    async def _derive_memory(self, connection: graph.Connection, scope: Scope) -> tuple[list[Reading], DerivedMemory]:
        snapshot = await graph.derivation.fetch_snapshot(connection, scope)
        readings, difference = await asyncio.to_thread(derive_memory, snapshot, Erasure())
        return select_current_readings(snapshot, readings), difference.derived


class Undoing:
    """What takes an ingest back; :class:`adk_graph_memory.GraphMemory` does."""

    connection: graph.Connection
    vectors: GraphVectors

    @telemetry.trace_operation("delete_memory")
    async def undo(self, ingest_id: str, *, app_name: str, user_id: str) -> Receipt:
        """Take back all that one ingest wrote, also if later ones built on it; adding its turns again reads them anew.

        Turns that :meth:`~adk_graph_memory.GraphMemory.reextract` read again count as they were read before.

        Args:
            ingest_id: as in ``HistoryEntry.ingest_id``.
            app_name, user_id: whose memory it is.

        Raises:
            errors.NotFound: nothing of this ingest is in this user's memory.
        """
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        rewriter = Rewriter(connection, self.vectors)
        receipt = await rewriter.erase_memories(scope, lambda snapshot: Erasure.select_ingest(snapshot, ingest_id))
        if not receipt.ids:
            where = "`adk-graph-memory history`, which names the ingests of a fact"
            raise errors.NotFound(what=f"ingest {ingest_id!r} of this user", where=where)
        return receipt

    async def preview_undo(self, ingest_id: str, *, app_name: str, user_id: str) -> MemoryChange:
        """Return what of the facts and names would change if :meth:`undo` took this ingest back; nothing is written.

        Raises:
            errors.DatabaseError: the graph could not be read.
        """
        check_text("the ingest", ingest_id)
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        rewriter = Rewriter(connection, self.vectors)
        rewrite = await rewriter.preview_erasure(scope, lambda snapshot: Erasure.select_ingest(snapshot, ingest_id))
        return replace(describe_change(ingest_id, rewrite.difference), turns=len(rewrite.erasure.turn_ids))
