"""Show why memory holds a fact or a name."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from adk_graph_memory import errors
from adk_graph_memory.consolidation.provenance import trace_entity, trace_fact
from adk_graph_memory.graph import listings, snapshots
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.memory.rewriting import derive_memory, select_current_readings
from adk_graph_memory.records.history import EntityHistory, FactHistory
from adk_graph_memory.records.memory import DerivedMemory
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.scopes import check_text
from adk_graph_memory.runtime import telemetry


@telemetry.trace_operation("get_memory")
async def find_fact_history(graph: UserGraph, id: str) -> FactHistory:
    """Find a fact with every quote that supports it and every decision about it.

    Raises:
        errors.NotFound: this user has no such fact.
    """
    check_text("the id", id)
    facts = await listings.fetch_facts(graph, now=datetime.now(UTC), past=True, id=id, limit=1)
    if not facts:
        raise errors.NotFound(what=f"fact {id!r} of this user", where="`adk-graph-memory facts`")
    readings, memory = await _derive_memory(graph)
    key = id.removeprefix("fact:")
    entries = trace_fact(readings, memory, key) if key in memory.facts else ()
    return FactHistory(facts[0], entries)


@telemetry.trace_operation("get_memory")
async def find_entity_history(graph: UserGraph, name: str) -> EntityHistory:
    """Find an entity by name, alias or key, with the source of each name and the facts that hold.

    Raises:
        errors.NotFound: this user has no entity with this name; the error lists the closest names.
        errors.InvalidArgument: several entities have this name.
    """
    check_text("the name", name)
    now = datetime.now(UTC)
    entity = await listings.find_entity(graph, name, now=now)
    readings, memory = await _derive_memory(graph)
    facts = await listings.fetch_facts(graph, now=now, about=[entity.key], limit=50)
    entries = trace_entity(readings, memory, entity.key)
    return EntityHistory(entity, tuple(facts), entries)


async def _derive_memory(graph: UserGraph) -> tuple[list[Reading], DerivedMemory]:
    snapshot = await snapshots.fetch_snapshot(graph)
    rewrite = await asyncio.to_thread(derive_memory, snapshot)
    return select_current_readings(snapshot, rewrite.readings), rewrite.derived
