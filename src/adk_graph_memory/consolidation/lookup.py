"""List what to look up in the graph for an extraction: the entities it names and the facts it states."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import entity_resolution, fact_rules
from adk_graph_memory.records import EntityResolution, Extraction, KnownEntity, Proposition


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
        author_keys = {entity_resolution.make_entity_key(name) for name, _ in self._extraction.authors}
        return sorted(
            author_keys.union(*(entity_resolution.list_entity_keys(entity) for entity in self._extraction.entities))
        )

    @property
    def entity_names(self) -> list[str]:
        """One text per entity with its name and aliases."""
        return sorted({" ".join((entity.name, *entity.aliases)) for entity in self._extraction.entities})

    @property
    def quote_keys(self) -> list[tuple[str, str]]:
        """Turn id and quote key of every source of a fact."""
        return sorted({source.key for fact in self._extraction.facts for source in fact.sources})

    def make_propositions(self, known_entities: Sequence[KnownEntity]) -> list[Proposition]:
        """Make the propositions of the facts; a subject in doubt yields one more for each known entity it may be."""
        resolution = entity_resolution.resolve_entities(
            self._extraction.entities, known_entities, self._extraction.authors
        )
        possible_keys = list_possible_keys(resolution)
        propositions = [
            fact_rules.make_proposition(fact, resolution.keys_by_ref, self._functional_predicates)
            for fact in self._extraction.facts
        ]
        for proposition in tuple(propositions):
            keys = possible_keys.get(proposition.subject or "", ())
            propositions += [replace(proposition, subject=key) for key in keys]
        return sorted(propositions, key=lambda proposition: (proposition.signature, proposition.text))


def list_possible_keys(resolution: EntityResolution) -> dict[str, tuple[str, ...]]:
    """Map the key of each entity in doubt to its candidates, and of each split entity to the one it was part of."""
    candidate_keys = {resolution.keys_by_ref[doubt.ref]: doubt.candidate_keys for doubt in resolution.doubts}
    split_keys = {entity.key: (entity.split_from,) for entity in resolution.planned_entities if entity.split_from}
    return candidate_keys | split_keys
