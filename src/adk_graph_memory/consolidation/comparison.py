"""Compare an extraction with the graph: what to look up in it, what rules settle, and what to ask a model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adk_graph_memory.consolidation import entity_groups, entity_resolution, fact_rules
from adk_graph_memory.consolidation.claims import (
    Claim,
    ClaimGroup,
    Exclusion,
    SupportedWording,
    add_support,
    compute_timeline_point,
    group_known_facts,
)
from adk_graph_memory.consolidation.fact_rules import EndOperation
from adk_graph_memory.consolidation.restriction import refuse_turns
from adk_graph_memory.records.extractions import ExtractedFact, Extraction, Remark
from adk_graph_memory.records.facts import (
    STATES_PREDICATE,
    Candidates,
    EntityDoubt,
    EntityResolution,
    KnownEntity,
    Proposition,
)

MAX_SIMILAR_CLAIMS = 8
"""How many of the graph's claims one new claim is compared with."""


class GraphLookup:
    """The keys, names and propositions of an extraction to look up in the graph.

    Args:
        extraction: the extracted facts and entities.
        functional_predicates: predicates that have one value at a time.
    """

    def __init__(self, extraction: Extraction, functional_predicates: Collection[str] = ()) -> None:
        self._extraction, self._functional_predicates = extraction, functional_predicates

    @property
    def entity_keys(self) -> list[str]:
        """Every key under which the graph may know an author or an entity of the extraction."""
        author_keys = {entity_resolution.digest_entity_name(name) for name, _ in self._extraction.authors}
        return sorted(
            author_keys.union(*(entity_resolution.list_entity_keys(entity) for entity in self._extraction.entities))
        )

    @property
    def entity_names(self) -> list[str]:
        """One text per entity with its name and aliases."""
        return sorted({" ".join((entity.name, *entity.aliases)) for entity in self._extraction.entities})

    @property
    def turn_ids(self) -> list[str]:
        """The ids of the turns that facts rest on, and those that mention an entity."""
        supports = {source.turn_id for fact in self._extraction.facts for source in fact.sources}
        return sorted(supports.union(turn_id for turn_id, _ in self._extraction.mentions))

    def resolve_entities(self, known_entities: Sequence[KnownEntity]) -> EntityResolution:
        """Resolve the entities of the extraction, as far as these known entities tell."""
        extraction = self._extraction
        return entity_resolution.resolve_entities(extraction.entities, known_entities, extraction.authors)

    def resolve_propositions(self, known_entities: Sequence[KnownEntity]) -> list[Proposition]:
        """Resolve the propositions of the facts, as far as these known entities tell whom they are about."""
        propositions = self.list_propositions(self.resolve_entities(known_entities))
        return sorted(propositions, key=lambda proposition: (proposition.signature, proposition.text))

    def list_propositions(self, resolution: EntityResolution) -> list[Proposition]:
        """List the propositions of the facts; a subject in doubt yields one more for each known entity it may be."""
        possible_keys = _list_possible_keys(resolution)
        propositions = [
            fact_rules.resolve_proposition(fact, resolution.keys_by_ref, self._functional_predicates)
            for fact in self._extraction.facts
        ]
        for proposition in tuple(propositions):
            keys = possible_keys.get(proposition.subject or "", ())
            propositions += [replace(proposition, subject=key) for key in keys]
        return propositions


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A new claim and the ids of known claims that it may repeat, end or correct, likeliest first."""

    claim_id: str
    similar_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What rules decided before any model is asked, and the questions left open.

    If any question is open, the model sees every new claim together with the claims of ``recent_ids``: a fact may be
    ended by one that is not similar to it.
    """

    claim_groups: Mapping[str, ClaimGroup]
    claims: Mapping[str, Claim]
    """each group as one claim"""
    exclusions: Mapping[tuple[str, str], Exclusion]
    dependencies: tuple[tuple[str, str], ...]
    open_questions: tuple[OpenQuestion, ...]
    recent_ids: tuple[str, ...]
    resolution: EntityResolution
    candidates: Candidates
    mentions: tuple[tuple[str, str], ...] = ()
    remarks: tuple[Remark, ...] = ()
    forget_turn_ids: tuple[str, ...] = ()
    drop_counts: Mapping[str, int] = field(default_factory=dict)
    replacements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """claim id → ids of the claims that it ended according to the extraction itself"""

    @property
    def questions(self) -> tuple[tuple[OpenQuestion, ...], tuple[str, ...], tuple[EntityDoubt, ...]]:
        """Everything a model may be asked: open questions, ids of recent claims as context, and entity doubts."""
        return self.open_questions, self.recent_ids, self.resolution.doubts

    @property
    def has_open_questions(self) -> bool:
        """Whether there is anything to ask a model."""
        return any(question.similar_ids for question in self.open_questions) or bool(self.resolution.doubts)


def compare_extraction(
    extraction: Extraction,
    candidates: Candidates,
    *,
    functional_predicates: Collection[str] = (),
    doubt_answers: Mapping[int, str | None] | None = None,
    resolution: EntityResolution | None = None,
) -> Comparison:
    """Compare an extraction with the graph. The result does not depend on the order of the input.

    Args:
        extraction: the facts and entities that were extracted.
        candidates: what the graph holds about the same entities.
        functional_predicates: predicates that have one value at a time.
        doubt_answers: a model's answers to entity doubts: reference → entity key, or None for a new entity.
        resolution: who the entities are, if they were resolved with these candidates before.
    """
    extraction = refuse_turns(extraction, candidates.forgotten_turn_ids)
    resolution = resolution or GraphLookup(extraction).resolve_entities(candidates.entities)
    if doubt_answers:
        resolution = entity_resolution.answer_doubts(resolution, doubt_answers, candidates.entities)
    refused = entity_groups.count_refused_numbers(extraction.entities, resolution, candidates.entities)
    candidates = _apply_resolution(candidates, resolution)
    resolution = entity_resolution.add_authors(resolution, extraction.authors, candidates.entities)
    keys = resolution.keys_by_ref
    drop_counts = Counter(extraction.drop_counts) + Counter({"known_id of somebody else": refused})
    facts = [
        (fact, fact_rules.resolve_proposition(fact, keys, functional_predicates))
        for fact in sorted(extraction.facts, key=_compute_fact_sort_key)
    ]
    groups = group_known_facts(candidates)
    claim_ids = _add_extracted_facts(groups, facts)
    claims = {id: group.claim for id, group in groups.items()}
    exclusions = _find_exclusions(claims, groups, candidates)
    replacements = _find_replacements(facts, claim_ids, claims, exclusions)
    pairs = {(claim_ids.get(fact.ref), claim_ids.get(ref)) for fact, _ in facts for ref in fact.depends_on}
    ids_by_fact = {fact.id: id for id, group in groups.items() for fact in group.facts}
    similar_ids = {
        text: [ids_by_fact[id] for id in ids if id in ids_by_fact] for text, ids in candidates.similar_ids.items()
    }
    return Comparison(
        claim_groups=groups,
        claims=claims,
        exclusions=exclusions,
        dependencies=tuple(sorted((id, base) for id, base in pairs if id and base and id != base)),
        open_questions=tuple(
            _find_open_questions(claims, groups, exclusions, similar_ids, _list_possible_keys(resolution))
        ),
        recent_ids=tuple(dict.fromkeys(ids_by_fact[id] for id in candidates.recent_ids if id in ids_by_fact)),
        resolution=resolution,
        candidates=candidates,
        mentions=tuple(sorted({(turn_id, keys[ref]) for turn_id, ref in extraction.mentions})),
        remarks=extraction.remarks,
        forget_turn_ids=extraction.forget_turn_ids,
        drop_counts=dict(drop_counts),
        replacements=replacements,
    )


def _list_possible_keys(resolution: EntityResolution) -> dict[str, tuple[str, ...]]:
    """Map the key of each entity in doubt to its candidates, and of each split entity to the one it was part of."""
    candidate_keys = {resolution.keys_by_ref[doubt.ref]: doubt.candidate_keys for doubt in resolution.doubts}
    split_keys = {entity.key: (entity.split_from,) for entity in resolution.planned_entities if entity.split_from}
    return candidate_keys | split_keys


def _apply_resolution(candidates: Candidates, resolution: EntityResolution) -> Candidates:
    """Point the known facts at the entities as resolved: merged ones at their target, split ones at themselves."""
    merge_targets = resolution.merge_targets
    split_keys = {entity.key for entity in resolution.planned_entities if entity.split_from}
    if not merge_targets and not split_keys:
        return candidates

    def resolve_keys(key: str | None, former_key: str | None) -> tuple[str | None, str | None]:
        if former_key in split_keys:
            return former_key, None
        target = merge_targets.get(key or "")
        return (target, former_key or key) if target else (key, former_key)

    facts = []
    for fact in candidates.facts:
        keys = fact.proposition.subject, fact.proposition.object
        (subject, former_subject), (object, former_object) = map(resolve_keys, keys, fact.former_entity_keys)
        proposition = replace(fact.proposition, subject=subject, object=object)
        facts.append(replace(fact, proposition=proposition, former_entity_keys=(former_subject, former_object)))
    return replace(candidates, facts=tuple(facts))


def _add_extracted_facts(
    groups: dict[str, ClaimGroup],
    facts: Sequence[tuple[ExtractedFact, Proposition]],
) -> dict[int, str]:
    """Add the extracted facts to the groups; return the claim id of each fact by its reference."""
    known_ids = {key: id for id, group in groups.items() for fact in group.facts for key in fact.equivalent_signatures}
    claim_ids: dict[int, str] = {}
    wordings_by_id: dict[str, list[SupportedWording]] = {}
    # What people said comes first: an agent may repeat it in the same window.
    for fact, proposition in sorted(facts, key=lambda item: fact_rules.is_machine_said(item[0].sources)):
        signature = proposition.signature
        id = signature if signature in groups else known_ids.get(signature, signature)
        if fact_rules.is_machine_said(fact.sources) and id not in groups and id not in wordings_by_id:
            id = _find_repeated_claim(proposition, groups, wordings_by_id) or id
            if id in groups or id in wordings_by_id:
                claim_ids[fact.ref] = id  # it says what is known already, and adds no second fact
                continue
        claim_ids[fact.ref] = id
        wordings_by_id.setdefault(id, []).append((proposition, fact.sources))
    for id, wordings in wordings_by_id.items():
        groups[id] = add_support(groups.get(id) or ClaimGroup(id, (), ()), wordings)
    return claim_ids


def _find_repeated_claim(
    proposition: Proposition, groups: Mapping[str, ClaimGroup], new_wordings: Mapping[str, Sequence[SupportedWording]]
) -> str | None:
    """Find the claim of the same subject and predicate that has all words of this proposition, if there is one."""
    if proposition.predicate == STATES_PREDICATE:
        return None
    wordings = [(id, wording) for id, group in groups.items() for wording in group.wordings]
    wordings += [(id, wording) for id, supported in new_wordings.items() for wording, _ in supported]
    ids = (id for id, wording in wordings if fact_rules.is_repetition(proposition, wording))
    return min(ids, default=None)


def _find_replacements(
    facts: Sequence[tuple[ExtractedFact, Proposition]],
    claim_ids: Mapping[int, str],
    claims: Mapping[str, Claim],
    exclusions: dict[tuple[str, str], Exclusion],
) -> dict[str, tuple[str, ...]]:
    """Find what each claim replaces according to the extraction, and add it to the exclusions."""
    replacements: dict[str, tuple[str, ...]] = {}
    for fact, proposition in facts:
        for later, earlier in ((claim_ids.get(fact.ref), claim_ids.get(ref)) for ref in fact.replaces):
            if later and earlier and later != earlier:
                op: EndOperation = "RETRACT" if proposition.is_correction else "SUPERSEDE"
                add_exclusion(exclusions, claims[later], claims[earlier], op)
                replacements[later] = (*replacements.get(later, ()), earlier)
    return replacements


def add_exclusion(exclusions: dict[tuple[str, str], Exclusion], later: Claim, earlier: Claim, op: EndOperation) -> None:
    """Record that two claims cannot both hold; of two states of the world, either may turn out to be the later one.

    If each is said to supersede the other, neither counts and time decides.
    """
    opposite = exclusions.get((earlier.id, later.id))
    if opposite == Exclusion("SUPERSEDE") and op == "SUPERSEDE":
        exclusions.setdefault((later.id, earlier.id), Exclusion("SUPERSEDE", is_reverse=True))
        return
    exclusions[later.id, earlier.id] = Exclusion(op)
    if {later.proposition.modality, earlier.proposition.modality} <= {"asserted", "negated"}:
        exclusions.setdefault((earlier.id, later.id), Exclusion("SUPERSEDE", is_reverse=True))


def _find_exclusions(
    claims: Mapping[str, Claim], groups: Mapping[str, ClaimGroup], candidates: Candidates
) -> dict[tuple[str, str], Exclusion]:
    """Find what ends what, by rule and by the earlier decisions that the graph holds."""
    by_rule = _find_rule_exclusions(claims.values())
    claim_ids = {fact.id: id for id, group in groups.items() for fact in group.facts}
    by_decision: dict[tuple[str, str], Exclusion] = {}
    for link in candidates.links:
        later, earlier = claim_ids.get(link.later), claim_ids.get(link.earlier)
        if later is None or earlier is None or later == earlier:
            continue
        if link.reason or not ((later, earlier) in by_rule or (earlier, later) in by_rule):
            op: EndOperation = "RETRACT" if link.op == "RETRACT" else "SUPERSEDE"
            add_exclusion(by_decision, claims[later], claims[earlier], op)
    return by_rule | by_decision


def _find_rule_exclusions(claims: Collection[Claim]) -> dict[tuple[str, str], Exclusion]:
    """Find what ends what by rule: claims about the same subject and predicate, and plans that were carried out."""
    slots: dict[tuple[str | None, ...], list[Claim]] = defaultdict(list)
    plans: dict[tuple[str | None, ...], list[Claim]] = defaultdict(list)
    for claim in claims:
        proposition = claim.proposition
        index = plans if proposition.modality == "planned" else slots
        index[proposition.subject, proposition.predicate].append(claim)
        index[proposition.subject, proposition.predicate, proposition.value].append(claim)
    exclusions = {}
    for claim in claims:
        proposition = claim.proposition
        slot = (proposition.subject, proposition.predicate, proposition.value)[: 2 if proposition.is_functional else 3]
        others = (*plans[slot], *slots[slot]) if proposition.is_functional or proposition.is_correction else plans[slot]
        for other in others:
            if claim is not other and (op := fact_rules.find_ending_operation(proposition, other.proposition)):
                is_by_rule = not fact_rules.is_fulfillment(proposition, other.proposition)
                exclusions[claim.id, other.id] = Exclusion(op, is_by_rule)
    return exclusions


def _find_open_questions(
    claims: Mapping[str, Claim],
    groups: Mapping[str, ClaimGroup],
    exclusions: Mapping[tuple[str, str], Exclusion],
    similar_ids: Mapping[str, Sequence[str]],
    possible_keys: Mapping[str, tuple[str, ...]],
) -> Iterator[OpenQuestion]:
    """Pair each new claim, in the order of speech, with the known claims it may touch and that no rule compared."""
    last_said = {
        id: max((source.at.timestamp() for source in group.sources), default=0.0)
        for id, group in groups.items()
        if group.facts
    }
    slots: dict[tuple[str | None, str], list[str]] = {}
    for id, group in sorted(groups.items()):
        if group.facts and group.wordings[0].predicate != STATES_PREDICATE:
            slots.setdefault((group.wordings[0].subject, group.wordings[0].predicate), []).append(id)
    new_groups = [(id, group) for id, group in groups.items() if not group.facts]
    for id, group in sorted(new_groups, key=lambda pair: (compute_timeline_point(pair[1].sources[0], None), pair[0])):
        subject, predicate = claims[id].proposition.subject, claims[id].proposition.predicate
        similar = [other for wording in group.wordings for other in similar_ids.get(wording.text, ())]
        subjects = (subject, *possible_keys.get(subject or "", ())) if subject else ()
        same_slot = {other for key in subjects for other in slots.get((key, predicate), ())}
        latest = sorted(same_slot, key=lambda other: (-last_said[other], other))
        likely = dict.fromkeys((*similar, *latest))
        undecided = [other for other in likely if other != id and not {(id, other), (other, id)} & exclusions.keys()]
        yield OpenQuestion(id, tuple(undecided[:MAX_SIMILAR_CLAIMS]))


def _compute_fact_sort_key(fact: ExtractedFact) -> tuple[Any, ...]:
    """Order facts by when they were said, however the reply was ordered."""
    places = [(source.turn_id, source.start, source.end) for source in fact.sources]
    return fact.at, places, fact.text, fact.speaker, fact.topic
