"""An extraction and candidates go in; what rules can tell of them comes out, and what only a model could."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adk_graph_memory.consolidation import claims, entities, facts, tenets
from adk_graph_memory.consolidation.lookup import perhaps
from adk_graph_memory.consolidation.strands import Ending, Exclusion, Strand
from adk_graph_memory.consolidation.tenets import Support, Tenet
from adk_graph_memory.records import Candidates, Doubt, ExtractedFact, Extraction, Proposition, Remark, Resolution
from adk_graph_memory.records.plan import STATES

MOST_ALIKE = 8
"""Facts of the graph that one new fact is held against."""


@dataclass(frozen=True, slots=True)
class Question:
    """A new tenet, and those of the graph that it may repeat, end or correct: ids, the likeliest first."""

    new: str
    alike: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What is settled before any model is asked, and the questions that are open.

    Where one is, it is asked of all that is new, in sight of all that is ``around``: what ends a fact need not be
    like it.
    """

    tenets: Mapping[str, Tenet]
    exclusions: Mapping[tuple[str, str], Exclusion]
    dependencies: tuple[tuple[str, str], ...]
    open: tuple[Question, ...]
    around: tuple[str, ...]
    resolution: Resolution
    candidates: Candidates
    mentions: tuple[tuple[str, str], ...] = ()
    remarks: tuple[Remark, ...] = ()
    forget: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """what the reading itself says that a tenet ended"""

    @property
    def questions(self) -> tuple[tuple[Question, ...], tuple[str, ...], tuple[Doubt, ...]]:
        """All that a model may be asked: what facts have to do with each other, in sight of which, and who is who."""
        return self.open, self.around, self.resolution.doubts

    @property
    def is_open(self) -> bool:
        """Whether there is anything to ask."""
        return any(question.alike for question in self.open) or bool(self.resolution.doubts)


def resolve(
    extraction: Extraction,
    candidates: Candidates,
    *,
    functional: Collection[str] = (),
    same: Mapping[int, str | None] | None = None,
) -> Draft:
    """What the extraction and the graph say together; the same in whatever order any of it came.

    Args:
        extraction: what was read.
        candidates: what the graph holds of the same.
        functional: predicates that have one value at a time.
        same: the keys of entities that were in doubt, by reference, as a model decided; None for somebody new.
    """
    resolution = entities.resolved(extraction.entities, candidates.entities, extraction.authors)
    if same:
        resolution = entities.decided(resolution, same, candidates.entities)
    refused = claims.count_refused(extraction.entities, resolution, candidates.entities)
    candidates = _as_they_are(candidates, resolution)
    resolution = entities.with_authors(resolution, extraction.authors, candidates.entities)
    keys = resolution.keys
    dropped = Counter(extraction.dropped) + Counter({"known_id of somebody else": refused})
    read = [(fact, facts.proposition_of(fact, keys, functional)) for fact in sorted(extraction.facts, key=_order)]
    found = tenets.known(candidates)
    by_ref = _added(found, read, candidates, dropped)
    exclusions = _exclusions(found, candidates)
    replaced = _replaced(read, by_ref, found, exclusions)
    pairs = {(by_ref.get(fact.ref), by_ref.get(ref)) for fact, _ in read for ref in fact.depends_on}
    return Draft(
        tenets=found,
        exclusions=exclusions,
        dependencies=tuple(sorted((a, b) for a, b in pairs if a and b and a != b)),
        open=tuple(_questions(found, exclusions, candidates.near, perhaps(resolution))),
        around=_around(found, candidates),
        resolution=resolution,
        candidates=candidates,
        mentions=tuple(sorted({(turn_id, keys[ref]) for turn_id, ref in extraction.mentions})),
        remarks=extraction.remarks,
        forget=extraction.forget,
        dropped=dict(dropped),
        replaced=replaced,
    )


def _as_they_are(candidates: Candidates, resolution: Resolution) -> Candidates:
    """The same where somebody known turned out to be another, or two who were taken for one to be two."""
    absorbed, parted = resolution.absorbed, {one.key for one in resolution.planned if one.parts_from}
    if not absorbed and not parted:
        return candidates

    def now(key: str | None, was: str | None) -> str | None:
        return was if was in parted else absorbed.get(key or "", key)

    found = []
    for fact in candidates.facts:
        said, was = fact.proposition, fact.was
        subject, object = now(said.subject, was[0]), now(said.object, was[1])
        found.append(replace(fact, proposition=replace(said, subject=subject, object=object)))
    return replace(candidates, facts=tuple(found))


def _added(
    found: dict[str, Tenet],
    read: Sequence[tuple[ExtractedFact, Proposition]],
    candidates: Candidates,
    dropped: Counter[str],
) -> dict[int, str]:
    """Puts what was read beside what is known; the tenet of each fact, by its reference."""
    home = {absorbed: id for id, tenet in found.items() for fact in tenet.facts for absorbed in fact.absorbed}
    by_ref: dict[int, str] = {}
    added: dict[str, list[Support]] = {}
    for fact, said in read:
        kept = tuple(source for source in fact.sources if source.key not in candidates.forgotten)
        if not kept:
            dropped["forgotten on request"] += 1
            continue
        signature = said.signature
        id = signature if signature in found else home.get(signature, signature)
        by_ref[fact.ref] = id
        added.setdefault(id, []).append((said, kept))
    for id, told in added.items():
        found[id] = tenets.supported(found.get(id, Tenet(id, (), ())), told)
    return by_ref


def _replaced(
    read: Sequence[tuple[ExtractedFact, Proposition]],
    by_ref: Mapping[int, str],
    found: Mapping[str, Tenet],
    exclusions: dict[tuple[str, str], Exclusion],
) -> dict[str, tuple[str, ...]]:
    """What each tenet replaces by the reading's own word, which is noted among the exclusions."""
    replaced: dict[str, tuple[str, ...]] = {}
    for fact, said in read:
        for later, earlier in ((by_ref.get(fact.ref), by_ref.get(ref)) for ref in fact.replaces):
            if later and earlier and later != earlier:
                how: Ending = "RETRACT" if said.correction else "SUPERSEDE"
                exclude(exclusions, found[later].strand, found[earlier].strand, how)
                replaced[later] = (*replaced.get(later, ()), earlier)
    return replaced


def exclude(exclusions: dict[tuple[str, str], Exclusion], later: Strand, earlier: Strand, how: Ending) -> None:
    """Notes that two cannot both hold; where each of them is a state of the world, either may have come after.

    Whoever says that each came after the other has said nothing: then time decides.
    """
    opposite = exclusions.get((earlier.id, later.id))
    if opposite == Exclusion("SUPERSEDE") and how == "SUPERSEDE":
        exclusions.setdefault((later.id, earlier.id), Exclusion("SUPERSEDE", is_reverse=True))
        return
    exclusions[later.id, earlier.id] = Exclusion(how)
    if {later.proposition.modality, earlier.proposition.modality} <= {"asserted", "negated"}:
        exclusions.setdefault((earlier.id, later.id), Exclusion("SUPERSEDE", is_reverse=True))


def _exclusions(found: Mapping[str, Tenet], candidates: Candidates) -> dict[tuple[str, str], Exclusion]:
    """What ends what, by rule and by what the graph remembers of earlier decisions."""
    strands = {id: tenet.strand for id, tenet in found.items()}
    ruled = _ruled(strands.values())
    home = {fact.id: id for id, tenet in found.items() for fact in tenet.facts}
    decided: dict[tuple[str, str], Exclusion] = {}
    for link in candidates.links:
        later, earlier = home.get(link.later), home.get(link.earlier)
        if later is None or earlier is None or later == earlier:
            continue
        if link.reason or not ((later, earlier) in ruled or (earlier, later) in ruled):
            exclude(decided, strands[later], strands[earlier], "RETRACT" if link.op == "RETRACT" else "SUPERSEDE")
    return ruled | decided


def _ruled(strands: Collection[Strand]) -> dict[tuple[str, str], Exclusion]:
    """What ends what by rule: within a slot, and of a plan what carries it out, which its day tells."""
    slots: dict[tuple[str | None, ...], list[Strand]] = defaultdict(list)
    plans: dict[tuple[str | None, ...], list[Strand]] = defaultdict(list)
    for strand in strands:
        said, same = strand.proposition, plans if strand.proposition.modality == "planned" else slots
        same[said.subject, said.predicate].append(strand)
        same[said.subject, said.predicate, said.value].append(strand)
    ruled = {}
    for one in strands:
        said = one.proposition
        slot = (said.subject, said.predicate, said.value)[: 2 if said.is_single else 3]
        for other in (*plans[slot], *(slots[slot] if facts.may_end(said) else ())):
            if one is not other and (rule := facts.ending(said, other.proposition)):
                ruled[one.id, other.id] = Exclusion(rule, is_ruled=not facts.carries_out(said, other.proposition))
    return ruled


def _questions(
    found: Mapping[str, Tenet],
    exclusions: Mapping[tuple[str, str], Exclusion],
    near: Mapping[str, tuple[str, ...]],
    perhaps: Mapping[str, tuple[str, ...]],
) -> Iterator[Question]:
    """Each new tenet, in the order they were said, with the graph's that it may touch and no rule compared it with."""
    home = {fact.id: id for id, tenet in found.items() for fact in tenet.facts}
    heard = {id: max((s.at.timestamp() for s in tenet.sources), default=0.0) for id, tenet in found.items()}
    slots: dict[tuple[str | None, str], list[str]] = {}
    for id, tenet in sorted(found.items()):
        if tenet.facts and tenet.wordings[0].predicate != STATES:
            slots.setdefault((tenet.wordings[0].subject, tenet.wordings[0].predicate), []).append(id)
    for id, tenet in sorted(((id, tenet) for id, tenet in found.items() if not tenet.facts), key=_first_said):
        mine = tenet.strand.proposition
        alike = [home[fact] for one in tenet.wordings for fact in near.get(one.text, ()) if fact in home]
        subjects = (mine.subject, *perhaps.get(mine.subject or "", ())) if mine.subject else ()
        same = {other for subject in subjects for other in slots.get((subject, mine.predicate), ())}
        latest = sorted(same, key=lambda other: (-heard[other], other))
        likely = dict.fromkeys((*alike, *latest))
        open = [one for one in likely if one != id and not {(id, one), (one, id)} & exclusions.keys()]
        yield Question(id, tuple(open[:MOST_ALIKE]))


def _around(found: Mapping[str, Tenet], candidates: Candidates) -> tuple[str, ...]:
    """The tenets of what the graph last heard of those whom the extraction speaks of."""
    home = {fact.id: id for id, tenet in found.items() for fact in tenet.facts}
    return tuple(dict.fromkeys(home[id] for id in candidates.around if id in home))


def _first_said(new: tuple[str, Tenet]) -> tuple[Any, ...]:
    first = new[1].sources[0]
    return first.at, first.seq, first.turn_id, first.start, new[0]


def _order(fact: ExtractedFact) -> tuple[Any, ...]:
    """Of facts that say the same, the one said first comes first, however the reply was ordered."""
    places = [(source.turn_id, source.start, source.end) for source in fact.sources]
    return fact.at, places, fact.text, fact.speaker, fact.topic
