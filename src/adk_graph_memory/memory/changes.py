"""Describe what a rewrite changes of a user's memory, fact by fact and entity by entity."""

from __future__ import annotations

from adk_graph_memory.memory.rewriting import Rewrite
from adk_graph_memory.records.facts import Fact
from adk_graph_memory.records.history import EntityChange, FactChange, FactVersion, MemoryChange
from adk_graph_memory.records.memory import DerivedEntity


def describe_change(ingest_id: str, rewrite: Rewrite) -> MemoryChange:
    """Describe what a rewrite changes, as a change that this ingest makes."""
    stored, derived, delta = rewrite.snapshot.stored, rewrite.derived, rewrite.delta
    ids = sorted({write.fact.id for write in delta.facts} | set(delta.erased.facts))
    before, after = stored.facts.get, derived.facts.get
    facts = (FactChange(f"fact:{id}", _describe_fact(before(id)), _describe_fact(after(id))) for id in ids)
    keys = sorted({entity.key for entity in delta.entities} | set(delta.erased.entities))
    entities = (
        EntityChange(key, _list_names(stored.entities.get(key)), _list_names(derived.entities.get(key))) for key in keys
    )
    return MemoryChange(
        ingest_id,
        tuple(change for change in facts if change.before != change.after),
        tuple(change for change in entities if change.before != change.after),
    )


def _describe_fact(fact: Fact | None) -> FactVersion | None:
    if fact is None:
        return None
    proposition, standing = fact.proposition, fact.standing
    until = standing.valid_to or proposition.valid_to
    return FactVersion(proposition.text, standing.state, proposition.valid_from, until, fact.ruling.is_pinned)


def _list_names(entity: DerivedEntity | None) -> tuple[str, ...]:
    return () if entity is None or entity.merged_into else (entity.name, *entity.aliases)
