"""Group the facts and wordings that say the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.claims import Claim
from adk_graph_memory.records import Candidates, KnownFact, Proposition, Source

SupportedWording = tuple[Proposition, tuple[Source, ...]]
"""A proposition and the sources that support it."""


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """One claim in all its wordings, with every source that supports it and the graph's facts that state it."""

    id: str
    wordings: tuple[Proposition, ...]
    sources: tuple[Source, ...]
    new_sources: tuple[Source, ...] = ()
    facts: tuple[KnownFact, ...] = ()

    @property
    def claim(self) -> Claim:
        """The group as one claim, in the wording that stands for it."""
        return Claim(self.id, fact_rules.select_wording(self.wordings), self.sources)


def group_known_facts(candidates: Candidates) -> dict[str, ClaimGroup]:
    """Group the graph's facts by the signature of their propositions."""
    groups: dict[str, ClaimGroup] = {}
    for fact in sorted(candidates.facts, key=lambda fact: fact.id):
        id = fact.proposition.signature
        group = groups.get(id, ClaimGroup(id, (), ()))
        groups[id] = replace(
            group,
            wordings=(*group.wordings, fact.proposition),
            sources=_merge_sources(group.sources, fact.sources),
            facts=(*group.facts, fact),
        )
    return groups


def add_support(group: ClaimGroup, wordings: Sequence[SupportedWording]) -> ClaimGroup:
    """Return the group with further wordings and the sources of each."""
    known_keys = {source.key for source in group.sources}
    new: dict[tuple[str, str], Source] = {}
    for _, sources in wordings:
        new |= {key: source for source in sources if (key := source.key) not in known_keys and key not in new}
    return replace(
        group,
        wordings=tuple(dict.fromkeys((*group.wordings, *(wording for wording, _ in wordings)))),
        sources=_merge_sources(group.sources, new.values()),
        new_sources=_merge_sources(group.new_sources, new.values()),
    )


def _merge_sources(*groups: Iterable[Source]) -> tuple[Source, ...]:
    """Merge sources in the order they were said, each quote of a turn once."""
    by_key = {source.key: source for sources in groups for source in sources}
    items = sorted(by_key.items(), key=lambda item: (item[1].at, item[1].seq, item[1].turn_id, item[1].start, item[0]))
    return tuple(source for _, source in items)
