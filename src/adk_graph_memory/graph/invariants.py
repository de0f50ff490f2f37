"""Count what must never be so in a graph, user by user and in its schema, and mend it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from adk_graph_memory import errors
from adk_graph_memory.graph import schema
from adk_graph_memory.graph.connection import Connection, Transaction, UserGraph
from adk_graph_memory.graph.vector_slots import (
    EmbeddingBatch,
    SchemaState,
    await_indexes,
    fetch_index_states,
    fetch_schema_state,
)
from adk_graph_memory.records.readings import is_readable
from adk_graph_memory.records.reports import Invariant
from adk_graph_memory.records.turns import Passage

MENDED_FIRST: tuple[Invariant, ...] = (
    "edges_across_users",
    "unheard_quotes",
    "overdue_leases",
    "foreign_vectors",
    "malformed_memories",
)
"""Mended before the memory is derived again, which puts back what it needs."""
MENDED_LAST: tuple[Invariant, ...] = ("malformed_intervals", "wrong_flags")
"""Mended of what is not derived, or differs from it in no word."""
_USER_INVARIANTS: tuple[Invariant, ...] = (*MENDED_FIRST, *MENDED_LAST, "unsupported_facts")


@dataclass(frozen=True, slots=True)
class InvariantCounts:
    """How many facts were read for a user, how many vectors are missing, and how often each invariant is broken."""

    facts: int
    unembedded: int
    broken: Mapping[Invariant, int]


@dataclass(frozen=True, slots=True)
class SchemaFaults:
    """Indexes and constraints that are missing, and those that are not ONLINE, by name.

    ``failed`` maps those that will never be ONLINE to the statements that drop them.
    """

    missing: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnembeddedNode:
    """A memory, or an entity (``is_name``), that lacks its vector."""

    id: str
    passage: Passage
    is_name: bool


async def count_broken_invariants(graph: UserGraph) -> InvariantCounts:
    """Count for a user, and again if anything is broken: what somebody is just writing may look so."""
    counts = await _count_once(graph)
    if counts.broken:
        again = await _count_once(graph)
        broken = {kind: min(counts.broken[kind], again.broken[kind]) for kind in counts.broken if kind in again.broken}
        return InvariantCounts(again.facts, again.unembedded, broken)
    return counts


async def _count_once(graph: UserGraph) -> InvariantCounts:
    [row] = await graph.run_statement("broken_invariants", _make_lease_parameters(graph.connection))
    return InvariantCounts(row["facts"], row["unembedded"], {kind: row[kind] for kind in _USER_INVARIANTS if row[kind]})


def _make_lease_parameters(connection: Connection) -> dict[str, float]:
    return {"now": time.time(), "lease": connection.settings.limits.lease}


async def find_unreadable_readings(graph: UserGraph) -> list[str]:
    """Find the ids of a user's finished requests whose reading cannot be read."""
    rows = await graph.run_statement("readings")

    return await asyncio.to_thread(lambda: [row["id"] for row in rows if not is_readable(row["reading"])])


async def mend_user(graph: UserGraph, kinds: Iterable[Invariant]) -> None:
    """Mend some invariants of a user, in one transaction."""
    parameters = _make_lease_parameters(graph.connection)

    async def work(transaction: Transaction) -> None:
        await transaction.run_statement("begin_mending")
        for kind in kinds:
            await transaction.run_statement(f"mend_{kind}", parameters)

    await graph.transact(work)


async def mark_unembedded_memories(graph: UserGraph) -> None:
    """Let the next ingest embed what lacks its vector."""
    await graph.run_statement("mark_unembedded")


async def fetch_unembedded_nodes(graph: UserGraph, limit: int) -> list[UnembeddedNode]:
    """Fetch some of the user's memories and names that lack the vector that searches read."""
    rows = await graph.run_statement("unembedded_nodes", limit=limit)
    return [UnembeddedNode(row["id"], Passage(row["text"], row["before"]), row["is_name"]) for row in rows]


async def write_missing_vectors(graph: UserGraph, nodes: Sequence[UnembeddedNode], batch: EmbeddingBatch) -> int:
    """Write the vectors of these nodes, those that there are; return how many."""
    embedded = [node for node in nodes if node.passage in batch.embeddings]
    columns = {node.id: batch.make_vector_columns(node.passage) for node in embedded}
    memories = [{"memory_id": node.id, **columns[node.id]} for node in embedded if not node.is_name]
    names = [{"id": node.id, "text": node.passage.text, **columns[node.id]} for node in embedded if node.is_name]

    async def work(transaction: Transaction) -> None:
        slot = batch.to_parameters()
        await transaction.run_rows("embed_memories", memories, **slot)
        await transaction.run_rows("embed_names", names, **slot)

    await graph.transact(work)
    return len(embedded)


# -- the schema ---------------------------------------------------------------------------------------------------


async def find_schema_faults(connection: Connection, state: SchemaState | None = None) -> SchemaFaults:
    """Find what the schema lacks for our labels, whatever other labels' indexes are called.

    Args:
        connection: the connection.
        state: the schema's state; by default it is fetched, and migrated first if the settings say so.
    """
    definitions = _map_definitions(connection, state or await fetch_schema_state(connection))
    rows = await connection.run_statement("indexes", names=sorted(definitions))
    rows = [row for row in rows if schema.IndexShape.read(row) == definitions[row["name"]].shape]
    missing = definitions.keys() - {row["name"] for row in rows}
    states = {row["name"]: row["state"] for row in rows if row["state"] != "ONLINE"}
    failed = {row["name"]: row["drop_statement"] for row in rows if row["state"] == "FAILED"}
    return SchemaFaults(tuple(sorted(missing)), tuple(sorted(states)), failed)


def _map_definitions(connection: Connection, state: SchemaState) -> dict[str, schema.IndexDefinition]:
    return {definition.name: definition for definition in schema.list_definitions(connection, state)}


async def mend_schema(connection: Connection, faults: SchemaFaults) -> str | None:
    """Create what is missing, and again what failed, and wait for it; return why that was not possible, or None."""
    definitions = _map_definitions(connection, await fetch_schema_state(connection))
    try:
        await fetch_index_states(connection, faults.missing)  # raises if another graph has a name
        for statement in faults.failed.values():
            await connection.run_cypher(statement, name="drop_index")
        for definition in (definitions[name] for name in (*faults.missing, *faults.failed)):
            await schema.create_definition(connection, "create_index", definition.statement, definition.parameters)
        await await_indexes(connection, [*faults.missing, *faults.offline])
    except (errors.DatabaseError, errors.SchemaError) as error:
        return str(error)
    return None


async def count_ownerless_nodes(connection: Connection) -> int:
    """Count the nodes of users whom the graph does not know."""
    [row] = await connection.run_statement("ownerless_nodes")
    return cast(int, row["nodes"])
