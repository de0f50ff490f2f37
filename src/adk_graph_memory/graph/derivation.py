"""Fetch what the graph holds of a user beside their words, and write what differs from what these words make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from neo4j import Record

from adk_graph_memory.graph import fact_rows
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.records import FactLink, KnownFact, Scope
from adk_graph_memory.records.derived_memory import DerivedEntity, DerivedMemory, FactPair


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """What the graph holds beside words; as in :class:`DerivedMemory`, with the keys of revisions alone."""

    entities: dict[str, DerivedEntity] = field(default_factory=dict)
    facts: dict[str, KnownFact] = field(default_factory=dict)
    revision_keys: dict[str, frozenset[str]] = field(default_factory=dict)
    links: dict[FactPair, FactLink] = field(default_factory=dict)
    dependencies: frozenset[FactPair] = frozenset()
    mentions: dict[tuple[str, str], str | None] = field(default_factory=dict)


def make_stored_form(memory: DerivedMemory) -> StoredMemory:
    """Return a derived memory in the form in which the graph's is fetched, so that the two can be compared."""
    return StoredMemory(
        {key: replace(entity, merged_by="") for key, entity in memory.entities.items()},
        {id: _sort_parts(fact.known) for id, fact in memory.facts.items()},
        {
            id: frozenset(revision.revision.key for revision in fact.revisions)
            for id, fact in memory.facts.items()
        },
        {pair: link.link for pair, link in memory.links.items()},
        frozenset(memory.dependencies),
        memory.mentions,
    )


async def fetch_stored_memory(connection: Connection | Transaction, scope: Scope) -> StoredMemory:
    """Fetch the user's entities, and the facts that were extracted."""
    entity_rows = await connection.run_statement("derived_entities", scope=scope.key)
    fact_rows = await connection.run_statement("derived_facts", scope=scope.key)
    return await asyncio.to_thread(_read_stored_memory, entity_rows, fact_rows)


def _read_stored_memory(entity_rows: Sequence[Record], rows: Sequence[Record]) -> StoredMemory:
    facts = [row["fact"] for row in rows]
    return StoredMemory(
        {
            row["key"]: DerivedEntity(
                row["key"], row["name"], row["type"], tuple(row["aliases"]), row["about"], row["merged_into"]
            )
            for row in entity_rows
        },
        {fact["id"]: _sort_parts(fact_rows.read_known_fact(fact, {}, (), is_complete=True)) for fact in facts},
        {fact["id"]: frozenset(fact["revisions"]) for fact in facts},
        {(link["later"], link["earlier"]): FactLink(**link) for fact in facts for link in fact["links"]},
        frozenset((fact["id"], base) for fact in facts for base in fact["bases"]),
        {(turn_id, row["key"]): was for row in entity_rows for turn_id, was in row["mentions"]},
    )


def _sort_parts(fact: KnownFact) -> KnownFact:
    """Return the fact with sources and signatures in an order of their own, whatever order they came in."""
    sources = tuple(sorted(fact.sources, key=lambda source: source.key))
    return replace(fact, sources=sources, equivalent_signatures=tuple(sorted(set(fact.equivalent_signatures))))
