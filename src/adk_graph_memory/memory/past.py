"""Derive what memory knew at a time in the past, and what it knew to hold at another."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.graph import fact_rows, snapshots
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.language.dates import restore_datetime
from adk_graph_memory.language.spelling import match_names
from adk_graph_memory.language.text import find_proof
from adk_graph_memory.memory.rewriting import Erasure, derive_memory, list_remaining_readings, select_current_readings
from adk_graph_memory.records.facts import AsOf, Fact, Proposition
from adk_graph_memory.records.memory import DerivedMemory, MemorySnapshot, RecordedMemory
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.results import Recollection, StoredFact

MAX_DEPENDENCY_DEPTH = 4
"""How many dependencies in a row make a fact stale."""


def list_past_facts(memory: DerivedMemory, valid: datetime) -> Iterator[StoredFact]:
    """Yield the facts that had begun at ``valid``, each as it stood then; a fact's last end counts."""
    facts = [fact for fact in memory.facts.values() if _find_beginning(memory, fact) <= valid]
    others: dict[tuple[str | None, str], list[Proposition]] = {}
    for fact in facts:
        if fact.proposition.is_functional and _is_held(memory, fact, valid):
            others.setdefault((fact.proposition.subject, fact.proposition.predicate), []).append(fact.proposition)
    for fact in facts:
        proposition, is_stale = fact.proposition, _is_stale(memory, fact.id)
        names = _get_name(memory, proposition.subject), _get_name(memory, proposition.object)
        rivals = others.get((proposition.subject, proposition.predicate), ())
        yield StoredFact.describe(fact, *names, valid, is_stale=is_stale, others=rivals)


def _is_held(memory: DerivedMemory, fact: Fact, valid: datetime) -> bool:
    """Whether a fact that had begun was neither over nor stale nor never true."""
    state, until = fact.standing.state, fact.standing.valid_to
    is_open = state == "current" if until is None else until > valid
    return is_open and state != "retracted" and not _is_stale(memory, fact.id)


def _find_beginning(memory: DerivedMemory, fact: Fact) -> datetime:
    """When a fact began: on its first day or, without one, when it was first said; a plan when it was said.

    What the owner put in the place of a fact began with that fact.
    """
    proposition = fact.proposition
    if proposition.valid_from is not None and proposition.modality != "planned":
        return proposition.valid_from
    corrected_at = {source.at for source in fact.sources if source.is_owner}
    facts = memory.facts.values() if corrected_at else ()
    replaced = (other.proposition for other in facts if other.ruling.retracted_at in corrected_at)
    return min([proposition.at, *(other.at for other in replaced if other.predicate == proposition.predicate)])


def _get_name(memory: DerivedMemory, key: str | None) -> str | None:
    return memory.entities[key].name if key else None


def _is_stale(memory: DerivedMemory, id: str) -> bool:
    """Whether a fact rests on one that was unmade, or that ended after the fact was last said."""
    said_at = max(source.at for source in memory.facts[id].sources)
    bases, pending = set[str](), {id}
    for _ in range(MAX_DEPENDENCY_DEPTH):
        pending = {base for later, base in memory.dependencies if later in pending}
        bases |= pending
    return any(_is_unmade(memory, base, said_at) for base in bases)


def _is_unmade(memory: DerivedMemory, id: str, said_at: datetime) -> bool:
    fact = memory.facts[id]
    if fact.standing.state == "retracted":
        return True
    until = fact.standing.valid_to
    if fact.standing.state != "superseded" or until is None or until <= said_at:
        return False
    return fact.proposition.modality != "planned" or any(
        earlier == id and not link.is_void and memory.facts[later].proposition.modality != "asserted"
        for (later, earlier), link in memory.links.items()
    )


_STATUSES = ("holds", "planned", "lapsed", "happened")
"""What a listing shows; the rest is over."""


@dataclass(frozen=True, slots=True)
class PastMemory:
    """All facts that memory had recorded and that had begun, newest first, by id; and the turns that it had read.

    ``replaced_ids`` maps the id of each fact that memory holds today to those of the facts that it ended.
    """

    valid: datetime
    facts: Mapping[str, StoredFact]
    turn_ids: frozenset[str]
    replaced_ids: Mapping[str, Sequence[str]]

    def list_facts(self, *, about: str | None, past: bool) -> list[StoredFact]:
        """List the facts; without ``past`` only what held, happened or was planned, given a name only about that."""
        facts = [fact for fact in self.facts.values() if past or fact.status in _STATUSES]
        if about is None:
            return facts
        names = match_names((name for fact in facts for name in (fact.subject, fact.object) if name), about)
        return [fact for fact in facts if not names.isdisjoint((fact.subject, fact.object))]

    def restate_recollections(self, recollections: Iterable[Recollection]) -> Iterator[Recollection]:
        """Yield what of the recollections memory knew: each fact in its wording of then, or what it ended since."""
        seen = set[str]()
        for memory in recollections:
            for restated in self._restate(memory):
                if restated.id not in seen:
                    seen.add(restated.id)
                    yield restated

    def _restate(self, memory: Recollection) -> Iterator[Recollection]:
        if memory.kind == "event":
            if memory.id in self.turn_ids and (memory.at is None or memory.at <= self.valid):
                then = replace(memory, is_current=True, is_stale=False, ending=None, superseded_by=(), previously=())
                disputed = (fact for fact in self.facts.values() if fact.is_disputed)
                places = {(source.session_id, source.turn_id) for fact in disputed for source in fact.sources}
                own_places = ((memory.session_id, id) for id in memory.source_event_ids)
                yield replace(then, is_disputed=not places.isdisjoint(own_places))
            return
        pending, visited = [memory.id], set[str]()
        while pending:
            id = pending.pop(0)
            fact = self.facts.get(id)
            if fact is not None and fact.status in _STATUSES:
                yield _restate_fact(memory, fact, self.valid)
            elif id not in visited:
                pending += self.replaced_ids.get(id, ())
            visited.add(id)


def _restate_fact(memory: Recollection, fact: StoredFact, valid: datetime) -> Recollection:
    """Restate a recollection as the fact was then, by what had been said until then if anything had."""
    ordered = sorted(fact.sources, key=lambda source: source.at)
    sources = [source for source in ordered if source.at <= valid] or ordered
    quotes = [source.quote for source in sources]
    return replace(
        memory,
        id=fact.id,
        text=fact.text,
        at=fact.at,
        author=fact.author,
        origin=fact.origin,
        source_event_ids=tuple(source.turn_id for source in sources),
        quote=quotes[find_proof(fact.text, quotes)] if quotes else None,
        session_id=sources[0].session_id if sources else None,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        valid_from_precision=fact.valid_from_precision,
        valid_to_precision=fact.valid_to_precision,
        modality=fact.modality,
        plan=None,
        is_stale=fact.is_stale,
        is_disputed=fact.is_disputed,
        is_current=True,
        ending=None,
        superseded_by=(),
        previously=(),
    )


async def derive_past_memory(graph: UserGraph, as_of: AsOf) -> PastMemory:
    """Derive what memory knew as of a point in time.

    What was forgotten, undone or has expired since was never there.

    Raises:
        errors.DatabaseError: the graph could not be read.
    """
    snapshot = await snapshots.fetch_snapshot(graph)
    return await asyncio.to_thread(_derive_past_memory, snapshot, as_of)


def _derive_past_memory(snapshot: MemorySnapshot, as_of: AsOf) -> PastMemory:
    now = datetime.now(UTC)
    valid, recorded = as_of.valid or as_of.recorded or now, as_of.recorded or now
    rewrite = derive_memory(snapshot, _select_expired(snapshot))
    memory = _select_recorded_memory(snapshot, rewrite.readings, recorded)
    derived = replay_readings(select_current_readings(snapshot, memory.readings))
    facts = [*list_past_facts(derived, valid)]
    facts += _list_statements(snapshot.statements, valid, memory.statement_ids)
    facts.sort(key=lambda fact: fact.id)
    facts.sort(key=lambda fact: fact.at, reverse=True)
    replaced_ids: dict[str, list[str]] = {}
    for (later, earlier), link in sorted(rewrite.derived.links.items()):
        if not link.is_void:
            replaced_ids.setdefault(f"fact:{later}", []).append(f"fact:{earlier}")
    event_ids = {id: turn["id"] for id, turn in snapshot.turns.items()}
    return PastMemory(
        valid,
        {fact.id: _name_events(fact, event_ids) for fact in facts},
        memory.heard_turn_ids,
        replaced_ids,
    )


def select_recorded_memory(snapshot: MemorySnapshot, recorded: datetime) -> RecordedMemory:
    """Select what memory had recorded at a time."""
    return _select_recorded_memory(snapshot, list_remaining_readings(snapshot, _select_expired(snapshot)), recorded)


def _select_expired(snapshot: MemorySnapshot) -> Erasure:
    expired_ids = (id for id, turn in snapshot.turns.items() if not turn["stands"])
    return Erasure(frozenset(expired_ids), takes_words=False)


def _select_recorded_memory(
    snapshot: MemorySnapshot, readings: Iterable[Reading], recorded: datetime
) -> RecordedMemory:
    known = tuple(
        replace(reading, reread_at={id: time for id, time in reading.reread_at.items() if time <= recorded})
        for reading in readings
        if reading.at is not None and reading.at <= recorded
    )
    statements = snapshot.statements.items()
    statement_ids = (id for id, row in statements if row["stands"] and row["recorded_at"].to_native() <= recorded)
    return RecordedMemory(recorded, known, frozenset(statement_ids))


def _name_events(fact: StoredFact, event_ids: Mapping[str, str]) -> StoredFact:
    sources = (replace(source, turn_id=event_ids.get(source.turn_id, source.turn_id)) for source in fact.sources)
    return replace(fact, sources=tuple(sources))


def _list_statements(
    statements: Mapping[str, Mapping[str, Any]], valid: datetime, recorded_ids: Collection[str]
) -> Iterator[StoredFact]:
    """Yield the statements that had been added and made; they hold until they are forgotten."""
    for id, row in statements.items():
        at = restore_datetime(row["timestamp"], row["offset"])
        if id in recorded_ids and at <= valid:
            yield fact_rows.read_stored_fact({**row, "id": id, "state": "current"}, valid)
