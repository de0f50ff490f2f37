"""Record what was read and decided, so that it can be replayed, and find again in a replay what a decision is about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from adk_graph_memory.consolidation.claims import ClaimGroup
from adk_graph_memory.consolidation.comparison import Comparison
from adk_graph_memory.consolidation.decisions import Decision, JudgeDecisions
from adk_graph_memory.consolidation.restriction import refuse_turns
from adk_graph_memory.records.extractions import Extraction
from adk_graph_memory.records.readings import ClaimDecision, ClaimRef, Reading, WithheldFact, rename_turns


def record_reading(
    extraction: Extraction,
    comparison: Comparison,
    decisions: JudgeDecisions,
    *,
    ingest_id: str,
    session_id: str,
    memory_ids: Mapping[str, str],
    functional_predicates: Collection[str],
    versions: tuple[str, str],
    withheld: tuple[WithheldFact, ...] = (),
) -> Reading:
    """Record what the plan of a window is made from.

    Args:
        extraction: what was extracted.
        comparison: the comparison that the plan was made from.
        decisions: the model's decisions about it; ``doubt_answers`` are those that the comparison was made with.
        ingest_id, session_id: the window's ingest and session.
        memory_ids: the memory ids of the window's turns, by turn id.
        functional_predicates: predicates that have one value at a time.
        versions: of the extractor and the judge.
        withheld: facts of the extraction that the comparison was made without.
    """
    groups = comparison.claim_groups
    refs = {id: _refer_to_claim(group, memory_ids) for id, group in groups.items()}
    predicates = {fact.predicate for fact in extraction.facts}
    return Reading(
        id=ingest_id,
        session_id=session_id,
        extraction=rename_turns(refuse_turns(extraction, comparison.candidates.forgotten_turn_ids), memory_ids),
        entity_keys=dict(comparison.resolution.keys_by_ref),
        claim_decisions=tuple(
            ClaimDecision(
                decision.op,
                refs[decision.claim_id],
                tuple(refs[target] for target in decision.targets if target in refs),
                decision.reason,
            )
            for decision in decisions.claim_decisions
            if decision.claim_id in refs
        ),
        dependencies=tuple((refs[a], refs[b]) for a, b in decisions.dependencies if {a, b} <= refs.keys()),
        doubt_answers=dict(decisions.doubt_answers),
        functional_predicates=tuple(sorted(predicates.intersection(functional_predicates))),
        extractor=versions[0],
        judge=versions[1],
        heard_turn_ids=tuple(memory_ids.values()),
        held=withheld,
    )


def _refer_to_claim(group: ClaimGroup, memory_ids: Mapping[str, str]) -> ClaimRef:
    keys = ((memory_ids.get(source.turn_id, source.turn_id), source.quote_key) for source in group.sources)
    return ClaimRef(group.claim.proposition.wording_key, tuple(sorted(set(keys))))


def recall_decisions(reading: Reading, comparison: Comparison) -> JudgeDecisions:
    """Return the decisions of a reading whose claims the comparison holds; the others are dropped."""
    if not (reading.claim_decisions or reading.dependencies):
        return JudgeDecisions()
    index = _index_claims(comparison.claim_groups.values())

    def find_claim(ref: ClaimRef) -> str | None:
        ids = (index.get((ref.wording_key, key)) for key in ref.source_keys)
        return next(filter(None, ids), None)

    decisions = []
    for decision in reading.claim_decisions:
        claim_id = find_claim(decision.claim)
        targets = tuple(id for id in map(find_claim, decision.targets) if id and id != claim_id)
        if claim_id and targets:
            decisions.append(Decision(claim_id, decision.op, targets, decision.reason))
    pairs = ((find_claim(ref), find_claim(base)) for ref, base in reading.dependencies)
    dependencies = sorted({(id, base) for id, base in pairs if id and base and id != base})
    return JudgeDecisions(tuple(decisions), tuple(dependencies))


def _index_claims(groups: Iterable[ClaimGroup]) -> dict[tuple[str, tuple[str, str]], str]:
    """Map wording key and source key to the claim; of several, the one whose id comes first."""
    index: dict[tuple[str, tuple[str, str]], str] = {}
    for group in sorted(groups, key=lambda group: group.id):
        for wording_key in {wording.wording_key for wording in group.wordings}:
            for source in group.sources:
                index.setdefault((wording_key, source.key), group.id)
    return index


def adopt_entity_keys(extraction: Extraction, new_keys: Mapping[str, str]) -> Extraction:
    """Replace the keys of known entities by those that these entities have in a replay; unknown ones are dropped."""
    return replace(
        extraction,
        entities=tuple(
            replace(entity, known_key=new_keys.get(entity.known_key)) if entity.known_key else entity
            for entity in extraction.entities
        ),
    )
