"""An extraction and candidates go in; what rules can tell of them comes out, and what only a model could."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adk_graph_memory.consolidation import claim_groups, entity_numbers, entity_resolution, fact_rules
from adk_graph_memory.consolidation.claim_groups import ClaimGroup, SupportedWording
from adk_graph_memory.consolidation.claims import Claim, EndOperation, Exclusion
from adk_graph_memory.consolidation.lookup import list_possible_keys
from adk_graph_memory.records import (
    Candidates,
    EntityDoubt,
    EntityResolution,
    ExtractedFact,
    Extraction,
    Proposition,
    Remark,
)
from adk_graph_memory.records.write_plan import STATES_PREDICATE

MAX_SIMILAR_CLAIMS = 8
"""Facts of the graph that one new fact is held against."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A new tenet, and those of the graph that it may repeat, end or correct: ids, the likeliest first."""

    claim_id: str
    similar_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is settled before any model is asked, and the questions that are open.

    Where one is, it is asked of all that is new, in sight of all that is ``around``: what ends a fact need not be
    like it.
    """

    claim_groups: Mapping[str, ClaimGroup]
    exclusions: Mapping[tuple[str, str], Exclusion]
    dependencies: tuple[tuple[str, str], ...]
    open_questions: tuple[OpenQuestion, ...]
    recent_ids: tuple[str, ...]
    resolution: EntityResolution
    candidates: Candidates
    mentions: tuple[tuple[str, str], ...] = ()
    remarks: tuple[Remark, ...] = ()
    forget_turn_ids: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    replacements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """what the reading itself says that a tenet ended"""

    @property
    def questions(self) -> tuple[tuple[OpenQuestion, ...], tuple[str, ...], tuple[EntityDoubt, ...]]:
        """All that a model may be asked: what facts have to do with each other, in sight of which, and who is who."""
        return self.open_questions, self.recent_ids, self.resolution.doubts

    @property
    def has_open_questions(self) -> bool:
        """Whether there is anything to ask."""
        return any(question.similar_ids for question in self.open_questions) or bool(self.resolution.doubts)


def compare_extraction(
    extraction: Extraction,
    candidates: Candidates,
    *,
    functional: Collection[str] = (),
    same: Mapping[int, str | None] | None = None,
) -> Comparison:
    """What the extraction and the graph say together; the same in whatever order any of it came.

    Args:
        extraction: what was read.
        candidates: what the graph holds of the same.
        functional: predicates that have one value at a time.
        same: the keys of entities that were in doubt, by reference, as a model decided; None for somebody new.
    """
    resolution = entity_resolution.resolve_entities(extraction.entities, candidates.entities, extraction.authors)
    if same:
        resolution = entity_resolution.answer_doubts(resolution, same, candidates.entities)
    refused = entity_numbers.count_refused_numbers(extraction.entities, resolution, candidates.entities)
    candidates = _apply_resolution(candidates, resolution)
    resolution = entity_resolution.add_authors(resolution, extraction.authors, candidates.entities)
    keys = resolution.keys_by_ref
    dropped = Counter(extraction.drop_counts) + Counter({"known_id of somebody else": refused})
    read = [
        (fact, fact_rules.make_proposition(fact, keys, functional))
        for fact in sorted(extraction.facts, key=_make_fact_sort_key)
    ]
    found = claim_groups.group_known_facts(candidates)
    by_ref = _add_extracted_facts(found, read, candidates, dropped)
    exclusions = _find_exclusions(found, candidates)
    replaced = _find_replacements(read, by_ref, found, exclusions)
    pairs = {(by_ref.get(fact.ref), by_ref.get(ref)) for fact, _ in read for ref in fact.depends_on}
    return Comparison(
        claim_groups=found,
        exclusions=exclusions,
        dependencies=tuple(sorted((a, b) for a, b in pairs if a and b and a != b)),
        open_questions=tuple(
            _make_questions(found, exclusions, candidates.similar_ids, list_possible_keys(resolution))
        ),
        recent_ids=_list_recent_ids(found, candidates),
        resolution=resolution,
        candidates=candidates,
        mentions=tuple(sorted({(turn_id, keys[ref]) for turn_id, ref in extraction.mentions})),
        remarks=extraction.remarks,
        forget_turn_ids=extraction.forget_turn_ids,
        dropped=dict(dropped),
        replacements=replaced,
    )


def _apply_resolution(candidates: Candidates, resolution: EntityResolution) -> Candidates:
    """The same where somebody known turned out to be another, or two who were taken for one to be two."""
    absorbed, parted = resolution.merge_targets, {one.key for one in resolution.planned_entities if one.split_from}
    if not absorbed and not parted:
        return candidates

    def now(key: str | None, was: str | None) -> str | None:
        return was if was in parted else absorbed.get(key or "", key)

    found = []
    for fact in candidates.facts:
        said, was = fact.proposition, fact.former_entity_keys
        subject, object = now(said.subject, was[0]), now(said.object, was[1])
        found.append(replace(fact, proposition=replace(said, subject=subject, object=object)))
    return replace(candidates, facts=tuple(found))


def _add_extracted_facts(
    found: dict[str, ClaimGroup],
    read: Sequence[tuple[ExtractedFact, Proposition]],
    candidates: Candidates,
    dropped: Counter[str],
) -> dict[int, str]:
    """Puts what was read beside what is known; the tenet of each fact, by its reference."""
    home = {
        absorbed: id for id, tenet in found.items() for fact in tenet.facts for absorbed in fact.equivalent_signatures
    }
    by_ref: dict[int, str] = {}
    added: dict[str, list[SupportedWording]] = {}
    for fact, said in read:
        kept = tuple(source for source in fact.sources if source.key not in candidates.forgotten_quotes)
        if not kept:
            dropped["forgotten on request"] += 1
            continue
        signature = said.signature
        id = signature if signature in found else home.get(signature, signature)
        by_ref[fact.ref] = id
        added.setdefault(id, []).append((said, kept))
    for id, told in added.items():
        found[id] = claim_groups.add_support(found.get(id, ClaimGroup(id, (), ())), told)
    return by_ref


def _find_replacements(
    read: Sequence[tuple[ExtractedFact, Proposition]],
    by_ref: Mapping[int, str],
    found: Mapping[str, ClaimGroup],
    exclusions: dict[tuple[str, str], Exclusion],
) -> dict[str, tuple[str, ...]]:
    """What each tenet replaces by the reading's own word, which is noted among the exclusions."""
    replaced: dict[str, tuple[str, ...]] = {}
    for fact, said in read:
        for later, earlier in ((by_ref.get(fact.ref), by_ref.get(ref)) for ref in fact.replaces):
            if later and earlier and later != earlier:
                how: EndOperation = "RETRACT" if said.is_correction else "SUPERSEDE"
                add_exclusion(exclusions, found[later].claim, found[earlier].claim, how)
                replaced[later] = (*replaced.get(later, ()), earlier)
    return replaced


def add_exclusion(
    exclusions: dict[tuple[str, str], Exclusion], later: Claim, earlier: Claim, how: EndOperation
) -> None:
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


def _find_exclusions(found: Mapping[str, ClaimGroup], candidates: Candidates) -> dict[tuple[str, str], Exclusion]:
    """What ends what, by rule and by what the graph remembers of earlier decisions."""
    strands = {id: tenet.claim for id, tenet in found.items()}
    ruled = _find_rule_exclusions(strands.values())
    home = {fact.id: id for id, tenet in found.items() for fact in tenet.facts}
    decided: dict[tuple[str, str], Exclusion] = {}
    for link in candidates.links:
        later, earlier = home.get(link.later), home.get(link.earlier)
        if later is None or earlier is None or later == earlier:
            continue
        if link.reason or not ((later, earlier) in ruled or (earlier, later) in ruled):
            add_exclusion(decided, strands[later], strands[earlier], "RETRACT" if link.op == "RETRACT" else "SUPERSEDE")
    return ruled | decided


def _find_rule_exclusions(strands: Collection[Claim]) -> dict[tuple[str, str], Exclusion]:
    """What ends what by rule: within a slot, and of a plan what carries it out, which its day tells."""
    slots: dict[tuple[str | None, ...], list[Claim]] = defaultdict(list)
    plans: dict[tuple[str | None, ...], list[Claim]] = defaultdict(list)
    for strand in strands:
        said, same = strand.proposition, plans if strand.proposition.modality == "planned" else slots
        same[said.subject, said.predicate].append(strand)
        same[said.subject, said.predicate, said.value].append(strand)
    ruled = {}
    for one in strands:
        said = one.proposition
        slot = (said.subject, said.predicate, said.value)[: 2 if said.is_functional else 3]
        for other in (*plans[slot], *(slots[slot] if fact_rules.has_ending_rule(said) else ())):
            if one is not other and (rule := fact_rules.find_ending_operation(said, other.proposition)):
                ruled[one.id, other.id] = Exclusion(
                    rule, is_by_rule=not fact_rules.is_fulfillment(said, other.proposition)
                )
    return ruled


def _make_questions(
    found: Mapping[str, ClaimGroup],
    exclusions: Mapping[tuple[str, str], Exclusion],
    near: Mapping[str, tuple[str, ...]],
    perhaps: Mapping[str, tuple[str, ...]],
) -> Iterator[OpenQuestion]:
    """Each new tenet, in the order they were said, with the graph's that it may touch and no rule compared it with."""
    home = {fact.id: id for id, tenet in found.items() for fact in tenet.facts}
    heard = {id: max((s.at.timestamp() for s in tenet.sources), default=0.0) for id, tenet in found.items()}
    slots: dict[tuple[str | None, str], list[str]] = {}
    for id, tenet in sorted(found.items()):
        if tenet.facts and tenet.wordings[0].predicate != STATES_PREDICATE:
            slots.setdefault((tenet.wordings[0].subject, tenet.wordings[0].predicate), []).append(id)
    for id, tenet in sorted(((id, tenet) for id, tenet in found.items() if not tenet.facts), key=_make_claim_sort_key):
        mine = tenet.claim.proposition
        alike = [home[fact] for one in tenet.wordings for fact in near.get(one.text, ()) if fact in home]
        subjects = (mine.subject, *perhaps.get(mine.subject or "", ())) if mine.subject else ()
        same = {other for subject in subjects for other in slots.get((subject, mine.predicate), ())}
        latest = sorted(same, key=lambda other: (-heard[other], other))
        likely = dict.fromkeys((*alike, *latest))
        open = [one for one in likely if one != id and not {(id, one), (one, id)} & exclusions.keys()]
        yield OpenQuestion(id, tuple(open[:MAX_SIMILAR_CLAIMS]))


def _list_recent_ids(found: Mapping[str, ClaimGroup], candidates: Candidates) -> tuple[str, ...]:
    """The tenets of what the graph last heard of those whom the extraction speaks of."""
    home = {fact.id: id for id, tenet in found.items() for fact in tenet.facts}
    return tuple(dict.fromkeys(home[id] for id in candidates.recent_ids if id in home))


def _make_claim_sort_key(new: tuple[str, ClaimGroup]) -> tuple[Any, ...]:
    first = new[1].sources[0]
    return first.at, first.seq, first.turn_id, first.start, new[0]


def _make_fact_sort_key(fact: ExtractedFact) -> tuple[Any, ...]:
    """Of facts that say the same, the one said first comes first, however the reply was ordered."""
    places = [(source.turn_id, source.start, source.end) for source in fact.sources]
    return fact.at, places, fact.text, fact.speaker, fact.topic
