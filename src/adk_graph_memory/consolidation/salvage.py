"""Make a reading of what one that cannot be read any more left in the graph: its facts stand for what was read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.owner_words import refer_to_fact
from adk_graph_memory.consolidation.restriction import rest_on
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction
from adk_graph_memory.records.facts import Fact
from adk_graph_memory.records.memory import StoredMemory
from adk_graph_memory.records.readings import (
    ClaimDecision,
    LostReading,
    OwnerRuling,
    Reading,
    RulingOperation,
)
from adk_graph_memory.records.turns import Role


def salvage_reading(
    lost: LostReading, stored: StoredMemory, authors: Mapping[str, tuple[str, Role]], *, is_rereading: bool
) -> Reading | None:
    """Make a reading of the stored facts that rest on the turns of a lost one; None if nothing is left of it.

    Each fact stands in its last wording. What the owner ruled on a fact is known by its time; who is who on the
    owner's word is not, and neither is what a guard held.

    Args:
        lost: what is known of the reading.
        stored: what the graph holds.
        authors: name and role of the author of each turn.
        is_rereading: whether its turns had been read before.
    """
    ruling = _find_ruling(lost, stored.facts.values())
    if not lost.turn_ids and ruling is None:
        return None
    entities = {key: entity for key, entity in stored.entities.items() if not entity.merged_into}
    facts = {
        id: fact
        for id, fact in sorted(stored.facts.items())
        if fact.proposition.subject in entities and any(source.turn_id in lost.turn_ids for source in fact.sources)
    }
    mentions = [pair for pair in sorted(stored.mentions) if pair[0] in lost.turn_ids and pair[1] in entities]
    propositions = [fact.proposition for fact in facts.values()]
    named = {key for _, key in mentions}.union(*((one.subject, one.object) for one in propositions))
    refs = {key: ref for ref, key in enumerate(sorted(entities.keys() & named))}
    extraction = Extraction(
        entities=tuple(
            ExtractedEntity(ref, entity.name, entity.type, entity.aliases, known_key=entity.key, about=entity.about)
            for ref, entity in enumerate(entities[key] for key in refs)
        ),
        facts=tuple(_salvage_fact(fact, ref, refs, lost.turn_ids) for ref, fact in enumerate(facts.values())),
        mentions=tuple((turn_id, refs[key]) for turn_id, key in mentions),
        authors=tuple(sorted({authors[id] for id in lost.turn_ids if id in authors})),
    )
    return Reading(
        id=lost.id,
        session_id=lost.session_id,
        extraction=extraction,
        entity_keys={ref: key for key, ref in refs.items()},
        claim_decisions=tuple(_list_decisions(facts, stored)),
        dependencies=tuple(
            (refer_to_fact(facts[id]), refer_to_fact(stored.facts[base]))
            for id, base in sorted(stored.dependencies)
            if id in facts and base in stored.facts
        ),
        functional_predicates=tuple(sorted({one.predicate for one in propositions if one.is_functional})),
        extractor=lost.extractor,
        heard_turn_ids=tuple(sorted(lost.turn_ids)),
        at=lost.at,
        ruling=ruling,
        is_rereading=is_rereading,
    )


def _find_ruling(lost: LostReading, facts: Iterable[Fact]) -> OwnerRuling | None:
    """Find what the owner ruled on a fact at the time of the lost reading."""
    for fact in facts if lost.at else ():
        op: RulingOperation
        if fact.ruling.retracted_at == lost.at:
            op = "correct" if lost.turn_ids else "retract"
        elif fact.ruling.upheld_until == lost.at:
            op = "pin" if fact.ruling.is_pinned else "rollback"
        else:
            continue
        wording = fact.proposition if op == "rollback" else None
        return OwnerRuling(op, refer_to_fact(fact), wording, reason=fact.ruling.reason)
    return None


def _salvage_fact(fact: Fact, ref: int, refs: Mapping[str, int], turn_ids: Collection[str]) -> ExtractedFact:
    proposition, sources = fact.proposition, tuple(sorted(fact.sources, key=lambda source: (source.at, source.key)))
    extracted = ExtractedFact(
        subject=refs[proposition.subject or ""],
        object=refs.get(proposition.object or ""),
        sources=sources,
        speaker=proposition.speaker or "",
        at=proposition.at,
        ref=ref,
        **proposition.wording,
    )
    return rest_on(extracted, tuple(source for source in sources if source.turn_id in turn_ids))


def _list_decisions(facts: Collection[str], stored: StoredMemory) -> Iterable[ClaimDecision]:
    """List what ended what of these facts or by them, but for what rules find out again."""
    for (later, earlier), link in sorted(stored.links.items()):
        if (later in facts or earlier in facts) and earlier in stored.facts:
            ending, ended = stored.facts[later], stored.facts[earlier]
            rule = fact_rules.find_ending_operation(ending.proposition, ended.proposition)
            if link.reason or rule is None:
                yield ClaimDecision(link.op, refer_to_fact(ending), (refer_to_fact(ended),), link.reason)
