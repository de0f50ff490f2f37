"""An extraction goes in; what it wants to know of the graph comes out: whom it names, and what it says of whom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import entity_resolution, fact_rules
from adk_graph_memory.records import EntityResolution, Extraction, KnownEntity, Proposition


class GraphLookup:
    """What an extraction wants to know of the graph.

    Args:
        extraction: what was read.
        functional: predicates that have one value at a time.
    """

    def __init__(self, extraction: Extraction, functional: Collection[str] = ()) -> None:
        self._extraction, self._functional_predicates = extraction, functional

    @property
    def entity_keys(self) -> list[str]:
        """Every key under which one of the extraction's entities may already be known."""
        authors = {entity_resolution.make_entity_key(name) for name, _ in self._extraction.authors}
        return sorted(
            authors.union(*(entity_resolution.list_entity_keys(entity) for entity in self._extraction.entities))
        )

    @property
    def entity_names(self) -> list[str]:
        """All names of each of the extraction's entities, in one text."""
        return sorted({" ".join((entity.name, *entity.aliases)) for entity in self._extraction.entities})

    @property
    def quote_keys(self) -> list[tuple[str, str]]:
        """Turn id and quote key of all words that a fact is made of."""
        return sorted({source.key for fact in self._extraction.facts for source in fact.sources})

    def make_propositions(self, known: Sequence[KnownEntity]) -> list[Proposition]:
        """What its facts say, of these entities; one whose subject is in doubt is told of each whom it may mean."""
        resolution = entity_resolution.resolve_entities(self._extraction.entities, known, self._extraction.authors)
        others = list_possible_keys(resolution)
        said = [
            fact_rules.make_proposition(fact, resolution.keys_by_ref, self._functional_predicates)
            for fact in self._extraction.facts
        ]
        said += [replace(one, subject=key) for one in said for key in others.get(one.subject or "", ())]
        return sorted(said, key=lambda one: (one.signature, one.text))


def list_possible_keys(resolution: EntityResolution) -> dict[str, tuple[str, ...]]:
    """The key of somebody in doubt → keys of those whom it may be, or of whom they were taken for until now."""
    found = {resolution.keys_by_ref[doubt.ref]: doubt.candidate_keys for doubt in resolution.doubts}
    return found | {one.key: (one.split_from,) for one in resolution.planned_entities if one.split_from}
