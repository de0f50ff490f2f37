"""An extraction and candidates go in; what rules can tell of them comes out, and what only a model could."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

from adk_graph_memory.consolidation import entities, facts
from adk_graph_memory.consolidation.timeline import Ending, Strand
from adk_graph_memory.records import (
    Candidates,
    ExtractedFact,
    Extraction,
    KnownEntity,
    KnownFact,
    PlannedEntity,
    Proposition,
    Source,
)

MOST_TARGETS = 8
"""Facts of the graph that one new fact is held against; those of the same predicate come first."""


@dataclass(frozen=True, slots=True)
class Tenet:
    """All that says one thing: its wordings, every word that supports them, and the graph's facts of it."""

    id: str
    wordings: tuple[Proposition, ...]
    sources: tuple[Source, ...]
    new: tuple[Source, ...] = ()
    facts: tuple[KnownFact, ...] = ()

    @property
    def strand(self) -> Strand:
        """The same with one wording, as a timeline takes it."""
        return Strand(self.id, facts.wording(self.wordings), self.sources)


@dataclass(frozen=True, slots=True)
class Question:
    """A new tenet, and those of the graph that it may repeat, end or correct: ids."""

    new: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What is settled before any model is asked, and the questions that are open."""

    tenets: Mapping[str, Tenet]
    exclusions: Mapping[tuple[str, str], Ending]
    dependencies: tuple[tuple[str, str], ...]
    open: tuple[Question, ...]
    entities: tuple[PlannedEntity, ...]
    candidates: Candidates
    mentions: tuple[tuple[str, str], ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


class Lookup:
    """What an extraction wants to know of the graph.

    Args:
        extraction: what was read.
    """

    def __init__(self, extraction: Extraction) -> None:
        self._extraction = extraction

    @property
    def entity_keys(self) -> list[str]:
        """Every key under which one of the extraction's entities may already be known."""
        return sorted({key for entity in self._extraction.entities for key in entities.keys_of(entity)})

    @property
    def quotes(self) -> list[tuple[str, str]]:
        """Turn id and quote key of all words that a fact is made of."""
        return sorted({(s.turn_id, s.quote_key) for fact in self._extraction.facts for s in fact.sources})

    def slots(self, known: Sequence[KnownEntity]) -> list[tuple[str, str, str, str]]:
        """Subject, predicate, signature and text of every fact, with the subject as one of these entities."""
        keys = entities.resolved(self._extraction.entities, known).keys
        said = (facts.proposition_of(fact, keys) for fact in self._extraction.facts)
        return sorted({(one.subject or "", one.predicate, one.signature, one.text) for one in said})


def resolve(extraction: Extraction, candidates: Candidates, *, functional: Collection[str] = ()) -> Draft:
    """What the extraction and the graph say together; the same in whatever order any of it came.

    Args:
        extraction: what was read.
        candidates: what the graph holds of the same.
        functional: predicates that have one value at a time.
    """
    resolution = entities.resolved(extraction.entities, candidates.entities)
    keys = resolution.keys
    dropped = Counter(extraction.dropped)
    read = [(fact, facts.proposition_of(fact, keys)) for fact in sorted(extraction.facts, key=_order)]
    tenets = _known(candidates)
    home = {absorbed: id for id, tenet in tenets.items() for fact in tenet.facts for absorbed in fact.absorbed}
    by_ref: dict[int, str] = {}
    for fact, said in read:
        kept = tuple(s for s in fact.sources if (s.turn_id, s.quote_key) not in candidates.forgotten)
        if not kept:
            dropped["forgotten on request"] += 1
            continue
        id = said.signature if said.signature in tenets else home.get(said.signature, said.signature)
        by_ref[fact.ref] = id
        tenets[id] = _with(tenets.get(id, Tenet(id, (), ())), said, kept)
    exclusions = _exclusions(tenets, candidates, functional)
    for fact, said in read:
        for later, earlier in ((by_ref.get(fact.ref), by_ref.get(ref)) for ref in fact.replaces):
            if later and earlier and later != earlier:
                how: Ending = "RETRACT" if said.correction else "SUPERSEDE"
                exclude(exclusions, tenets[later].strand, tenets[earlier].strand, how)
    pairs = {(by_ref.get(fact.ref), by_ref.get(ref)) for fact, _ in read for ref in fact.depends_on}
    return Draft(
        tenets=tenets,
        exclusions=exclusions,
        dependencies=tuple(sorted((a, b) for a, b in pairs if a and b and a != b)),
        open=tuple(_questions(tenets, exclusions, candidates.near)),
        entities=resolution.planned,
        candidates=candidates,
        mentions=tuple(sorted({(turn_id, keys[ref]) for turn_id, ref in extraction.mentions})),
        dropped=dict(dropped),
    )


def exclude(exclusions: dict[tuple[str, str], Ending], later: Strand, earlier: Strand, how: Ending) -> None:
    """Notes that two cannot both hold; where each of them is a state of the world, either may have come after."""
    exclusions[later.id, earlier.id] = how
    if {later.proposition.modality, earlier.proposition.modality} <= {"asserted", "negated"}:
        exclusions.setdefault((earlier.id, later.id), "SUPERSEDE")


def _known(candidates: Candidates) -> dict[str, Tenet]:
    tenets: dict[str, Tenet] = {}
    for fact in sorted(candidates.facts, key=lambda fact: fact.id):
        id = fact.proposition.signature
        before = tenets.get(id, Tenet(id, (), ()))
        tenets[id] = replace(
            before,
            wordings=(*before.wordings, fact.proposition),
            sources=_united(before.sources, fact.sources),
            facts=(*before.facts, fact),
        )
    return tenets


def _with(tenet: Tenet, said: Proposition, sources: tuple[Source, ...]) -> Tenet:
    known = {(source.turn_id, source.quote_key) for source in tenet.sources}
    new = tuple(source for source in sources if (source.turn_id, source.quote_key) not in known)
    return replace(
        tenet,
        wordings=tuple(dict.fromkeys((*tenet.wordings, said))),
        sources=_united(tenet.sources, new),
        new=_united(tenet.new, new),
    )


def _united(*many: Sequence[Source]) -> tuple[Source, ...]:
    """All of them, each words of a turn once, in the order they were said."""
    once = {(source.turn_id, source.quote_key): source for sources in many for source in sources}
    return tuple(sorted(once.values(), key=lambda s: (s.at, s.seq, s.turn_id, s.start, s.quote_key)))


def _exclusions(
    tenets: Mapping[str, Tenet], candidates: Candidates, functional: Collection[str]
) -> dict[tuple[str, str], Ending]:
    """What ends what, by rule and by what the graph remembers of earlier decisions."""
    strands = {id: tenet.strand for id, tenet in tenets.items()}
    slots: dict[tuple[str | None, str], list[Strand]] = {}
    for strand in strands.values():
        slots.setdefault((strand.proposition.subject, strand.proposition.predicate), []).append(strand)
    ruled = {
        (one.id, other.id): rule
        for slot in slots.values()
        for one, other in permutations(slot, 2)
        if (rule := facts.ending(one.proposition, other.proposition, functional))
    }
    home = {fact.id: id for id, tenet in tenets.items() for fact in tenet.facts}
    decided: dict[tuple[str, str], Ending] = {}
    for link in candidates.links:
        later, earlier = home.get(link.later), home.get(link.earlier)
        how: Ending = "RETRACT" if link.op == "RETRACT" else "SUPERSEDE"
        if later is None or earlier is None or later == earlier:
            continue
        if (later, earlier) in ruled or (earlier, later) in ruled:
            decided[later, earlier] = how
        else:
            exclude(decided, strands[later], strands[earlier], how)
    return ruled | decided


def _questions(
    tenets: Mapping[str, Tenet], exclusions: Mapping[tuple[str, str], Ending], near: Mapping[str, tuple[str, ...]]
) -> Iterator[Question]:
    """Each new tenet with the graph's that it may touch and that no rule has compared it with."""
    home = {fact.id: id for id, tenet in tenets.items() for fact in tenet.facts}
    for id, tenet in sorted(tenets.items()):
        if tenet.facts:
            continue
        mine = tenet.strand.proposition
        alike = [home[fact] for one in tenet.wordings for fact in near.get(one.text, ()) if fact in home]
        same = [other for other, theirs in sorted(tenets.items()) if theirs.facts and _one_slot(mine, theirs)]
        targets = [
            other
            for other in dict.fromkeys((*same, *alike))
            if other != id and (id, other) not in exclusions and (other, id) not in exclusions
        ]
        if targets:
            yield Question(id, tuple(targets[:MOST_TARGETS]))


def _one_slot(mine: Proposition, theirs: Tenet) -> bool:
    other = theirs.wordings[0]
    return mine.subject is not None and (mine.subject, mine.predicate) == (other.subject, other.predicate)


def _order(fact: ExtractedFact) -> tuple[Any, ...]:
    """Of facts that say the same, the one said first comes first, however the reply was ordered."""
    places = [(source.turn_id, source.start, source.end) for source in fact.sources]
    return fact.at, places, fact.text, fact.speaker, fact.topic
