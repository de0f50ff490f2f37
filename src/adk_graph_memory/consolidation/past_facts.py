"""List a derived memory's facts as of a point in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from adk_graph_memory.records import StoredFact
from adk_graph_memory.records.derived_memory import DerivedFact, DerivedMemory
from adk_graph_memory.records.fact_validity import FactValidity

MAX_DEPENDENCY_DEPTH = 4
"""How many dependencies in a row make a fact stale."""


def list_past_facts(memory: DerivedMemory, valid: datetime) -> Iterator[StoredFact]:
    """Yield the facts that had begun at ``valid``, each as it stood then; a fact's last end counts."""
    for fact in memory.facts.values():
        if _find_beginning(memory, fact) <= valid:
            yield _make_stored_fact(memory, fact, valid)


def _find_beginning(memory: DerivedMemory, fact: DerivedFact) -> datetime:
    """When a fact began: on its first day or, without one, when it was first said; a plan when it was said.

    What the owner put in the place of a fact began with that fact.
    """
    proposition = fact.known.proposition
    if proposition.valid_from is not None and proposition.modality != "planned":
        return proposition.valid_from
    corrected_at = {source.at for source in fact.known.sources if source.is_owner}
    facts = memory.facts.values() if corrected_at else ()
    replaced = (other.known.proposition for other in facts if other.known.ruling.retracted_at in corrected_at)
    return min([proposition.at, *(other.at for other in replaced if other.predicate == proposition.predicate)])


def find_stale_facts(memory: DerivedMemory) -> frozenset[str]:
    """Find the facts, by their ids, that rest on one which no longer holds."""
    return frozenset(id for id in memory.facts if _is_stale(memory, id))


def _make_stored_fact(memory: DerivedMemory, fact: DerivedFact, valid: datetime) -> StoredFact:
    known = fact.known
    proposition, standing = known.proposition, known.standing
    until, precision = standing.valid_to, standing.valid_to_precision
    is_stale = _is_stale(memory, known.id)
    validity = FactValidity(
        proposition.modality,
        standing.state,
        proposition.valid_from,
        until,
        proposition.valid_from_precision,
        precision,
        is_stale,
    )
    status = validity.compute_status(valid)
    return StoredFact(
        id=f"fact:{known.id}",
        text=proposition.text,
        subject=_get_name(memory, proposition.subject),
        predicate=proposition.predicate,
        object=_get_name(memory, proposition.object),
        modality=proposition.modality,
        topic=proposition.topic or None,
        author=proposition.speaker,
        at=proposition.at,
        valid_from=proposition.valid_from,
        valid_to=until,
        state=standing.state,
        is_stale=is_stale,
        holds=status == "holds",
        status=status,
        valid_from_precision=proposition.valid_from_precision,
        valid_to_precision=precision,
        sources=known.sources,
        is_pinned=known.ruling.is_pinned,
        origin=known.origin,
        subject_key=proposition.subject,
        object_key=proposition.object,
    )


def _get_name(memory: DerivedMemory, key: str | None) -> str | None:
    return memory.entities[key].name if key else None


def _is_stale(memory: DerivedMemory, id: str) -> bool:
    """Whether a fact rests on one that was unmade, or that ended after the fact was last said."""
    said_at = max(source.at for source in memory.facts[id].known.sources)
    bases, pending = set[str](), {id}
    for _ in range(MAX_DEPENDENCY_DEPTH):
        pending = {base for later, base in memory.dependencies if later in pending}
        bases |= pending
    return any(_is_unmade(memory, base, said_at) for base in bases)


def _is_unmade(memory: DerivedMemory, id: str, said_at: datetime) -> bool:
    fact = memory.facts[id].known
    if fact.standing.state == "retracted":
        return True
    until = fact.standing.valid_to
    if fact.standing.state != "superseded" or until is None or until <= said_at:
        return False
    return fact.proposition.modality != "planned" or any(
        earlier == id and not link.link.is_void and memory.facts[later].known.proposition.modality != "asserted"
        for (later, earlier), link in memory.links.items()
    )
