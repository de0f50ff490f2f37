"""Make a reading of what a release before readings left in the graph: its facts stand for what was said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.records import ExtractedEntity, ExtractedFact, Extraction, KnownFact, Role
from adk_graph_memory.records.derived_memory import FactPair, StoredMemory
from adk_graph_memory.records.readings import ClaimDecision, ClaimRef, Reading

UNRECORDED_ID = "unrecorded"
"""The id of such a reading; it is made anew whenever it is needed, and never stored."""


def make_unrecorded_reading(
    stored: StoredMemory, turn_ids: Collection[str], authors: Mapping[str, tuple[str, Role]]
) -> Reading | None:
    """Make a reading of the stored facts that rest on these turns; None without turns.

    Former wordings and mergers of entities are not known any more: a fact stands in its last wording, and merged
    entities are one.
    """
    if not turn_ids:
        return None
    refs = {key: ref for ref, key in enumerate(sorted(stored.entities)) if not stored.entities[key].merged_into}
    kept = {id: _keep_sources(fact, turn_ids) for id, fact in sorted(stored.facts.items())}
    facts = {id: fact for id, fact in kept.items() if fact.sources and fact.proposition.subject in refs}
    numbers = {id: number for number, id in enumerate(facts)}
    entities = (stored.entities[key] for key in refs)
    return Reading(
        id=UNRECORDED_ID,
        session_id="",
        extraction=Extraction(
            entities=tuple(
                ExtractedEntity(refs[entity.key], entity.name, entity.type, entity.aliases, about=entity.about)
                for entity in entities
            ),
            facts=tuple(_make_extracted_fact(fact, numbers, refs, stored.dependencies) for fact in facts.values()),
            mentions=tuple(
                (turn_id, refs[key]) for turn_id, key in sorted(stored.mentions) if turn_id in turn_ids and key in refs
            ),
            authors=tuple(sorted({authors[id] for id in turn_ids if id in authors})),
        ),
        entity_keys={ref: key for key, ref in refs.items()},
        claim_decisions=tuple(_list_decisions(facts, stored)),
        functional_predicates=tuple(
            sorted({fact.proposition.predicate for fact in facts.values() if fact.proposition.is_functional})
        ),
        heard_turn_ids=tuple(sorted(turn_ids)),
    )


def _keep_sources(fact: KnownFact, turn_ids: Collection[str]) -> KnownFact:
    return replace(fact, sources=tuple(source for source in fact.sources if source.turn_id in turn_ids))


def _make_extracted_fact(
    fact: KnownFact, numbers: Mapping[str, int], refs: Mapping[str, int], dependencies: Iterable[FactPair]
) -> ExtractedFact:
    proposition = fact.proposition
    return ExtractedFact(
        subject=refs[proposition.subject or ""],
        predicate=proposition.predicate,
        object=refs.get(proposition.object or ""),
        text=proposition.text,
        sources=fact.sources,
        speaker=proposition.speaker or "",
        at=proposition.at,
        modality=proposition.modality,
        valid_from=proposition.valid_from,
        valid_to=proposition.valid_to,
        topic=proposition.topic,
        ref=numbers[fact.id],
        depends_on=tuple(sorted(numbers[base] for id, base in dependencies if id == fact.id and base in numbers)),
        is_correction=proposition.is_correction,
        valid_from_precision=proposition.valid_from_precision,
        valid_to_precision=proposition.valid_to_precision,
    )


def _list_decisions(facts: Mapping[str, KnownFact], stored: StoredMemory) -> Iterable[ClaimDecision]:
    """List what ended what, but for what rules find out again."""
    for (later, earlier), link in sorted(stored.links.items()):
        if later in facts and earlier in facts:
            pair = facts[later].proposition, facts[earlier].proposition
            if link.reason or fact_rules.find_ending_operation(*pair) is None:
                yield ClaimDecision(link.op, _make_ref(facts[later]), (_make_ref(facts[earlier]),), link.reason)


def _make_ref(fact: KnownFact) -> ClaimRef:
    return ClaimRef(fact.proposition.wording_key, tuple(sorted(source.key for source in fact.sources)))
