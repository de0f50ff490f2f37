"""What to look up in the graph before anything is decided, and what to make of an extraction with the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adk_graph_memory.consolidation import entities, facts
from adk_graph_memory.records import Candidates, ExtractedFact, Extraction, KnownEntity, Plan, PlannedFact


def entity_keys(extraction: Extraction) -> list[str]:
    """Every key under which one of the extraction's entities may already be known."""
    return sorted({key for entity in extraction.entities for key in entities.keys_of(entity)})


def signatures(extraction: Extraction, known: Sequence[KnownEntity]) -> list[str]:
    """What the extraction's facts say, as the graph would have it on a fact that says the same."""
    keys = entities.resolved(extraction.entities, known).keys
    return sorted({facts.signature_of(fact, keys) for fact in extraction.facts})


def resolve(extraction: Extraction, candidates: Candidates) -> Plan:
    """What the extraction changes in the graph: the same input gives the same plan, in whatever order it came.

    Facts of one signature become one with the sources of all; sources that the user had forgotten count for
    nothing, and a fact with no other source is left out.
    """
    resolution = entities.resolved(extraction.entities, candidates.entities)
    keys = resolution.keys
    dropped = Counter(extraction.dropped)
    merged: dict[str, PlannedFact] = {}
    for fact in sorted(extraction.facts, key=_order):
        kept = tuple(
            source for source in fact.sources if (source.turn_id, source.quote_key) not in candidates.forgotten
        )
        if not kept:
            dropped["forgotten on request"] += 1
            continue
        planned = facts.planned(replace(fact, sources=kept), keys, candidates.facts)
        before = merged.get(planned.signature)
        merged[planned.signature] = (
            replace(before, sources=tuple(dict.fromkeys((*before.sources, *kept)))) if before else planned
        )
    return Plan(
        entities=resolution.planned,
        facts=tuple(sorted(merged.values(), key=lambda fact: fact.id)),
        mentions=tuple(sorted({(turn_id, keys[ref]) for turn_id, ref in extraction.mentions})),
        dropped=dict(dropped),
    )


def _order(fact: ExtractedFact) -> tuple[Any, ...]:
    """Of facts that say the same, the one said first gives its words to all, however the reply was ordered."""
    places = [(source.turn_id, source.start, source.end) for source in fact.sources]
    return fact.at, places, fact.text, fact.speaker, fact.topic
