"""An extraction goes in; what it wants to know of the graph comes out: whom it names, and what it says of whom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import entities, facts
from adk_graph_memory.records import Extraction, KnownEntity, Proposition, Resolution


class Lookup:
    """What an extraction wants to know of the graph.

    Args:
        extraction: what was read.
        functional: predicates that have one value at a time.
    """

    def __init__(self, extraction: Extraction, functional: Collection[str] = ()) -> None:
        self._extraction, self._functional = extraction, functional

    @property
    def entity_keys(self) -> list[str]:
        """Every key under which one of the extraction's entities may already be known."""
        authors = {entities.key_of(name) for name, _ in self._extraction.authors}
        return sorted(authors.union(*(entities.keys_of(entity) for entity in self._extraction.entities)))

    @property
    def names(self) -> list[str]:
        """All names of each of the extraction's entities, in one text."""
        return sorted({" ".join((entity.name, *entity.aliases)) for entity in self._extraction.entities})

    @property
    def quotes(self) -> list[tuple[str, str]]:
        """Turn id and quote key of all words that a fact is made of."""
        return sorted({source.key for fact in self._extraction.facts for source in fact.sources})

    def propositions(self, known: Sequence[KnownEntity]) -> list[Proposition]:
        """What its facts say, of these entities; one whose subject is in doubt is told of each whom it may mean."""
        resolution = entities.resolved(self._extraction.entities, known, self._extraction.authors)
        others = perhaps(resolution)
        said = [facts.proposition_of(fact, resolution.keys, self._functional) for fact in self._extraction.facts]
        said += [replace(one, subject=key) for one in said for key in others.get(one.subject or "", ())]
        return sorted(said, key=lambda one: (one.signature, one.text))


def perhaps(resolution: Resolution) -> dict[str, tuple[str, ...]]:
    """The key of somebody in doubt → keys of those whom it may be, or of whom they were taken for until now."""
    found = {resolution.keys[doubt.ref]: doubt.keys for doubt in resolution.doubts}
    return found | {one.key: (one.parts_from,) for one in resolution.planned if one.parts_from}
