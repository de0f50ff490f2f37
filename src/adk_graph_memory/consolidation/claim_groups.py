"""Facts of the graph go in, and what was read beside them; what says the same is one tenet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.claims import Claim
from adk_graph_memory.records import Candidates, KnownFact, Proposition, Source

SupportedWording = tuple[Proposition, tuple[Source, ...]]
"""What was said, and the words that it rests on."""


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """All that says one thing: its wordings, every word that supports them, and the graph's facts of it."""

    id: str
    wordings: tuple[Proposition, ...]
    sources: tuple[Source, ...]
    new_sources: tuple[Source, ...] = ()
    facts: tuple[KnownFact, ...] = ()

    @property
    def claim(self) -> Claim:
        """The same with one wording, as a timeline takes it."""
        return Claim(self.id, fact_rules.select_wording(self.wordings), self.sources)


def group_known_facts(candidates: Candidates) -> dict[str, ClaimGroup]:
    """What the graph's facts say, one tenet for all that say the same."""
    tenets: dict[str, ClaimGroup] = {}
    for fact in sorted(candidates.facts, key=lambda fact: fact.id):
        id = fact.proposition.signature
        before = tenets.get(id, ClaimGroup(id, (), ()))
        tenets[id] = replace(
            before,
            wordings=(*before.wordings, fact.proposition),
            sources=_merge_sources(before.sources, fact.sources),
            facts=(*before.facts, fact),
        )
    return tenets


def add_support(tenet: ClaimGroup, said: Sequence[SupportedWording]) -> ClaimGroup:
    """The tenet with further wordings and the words that support each."""
    once = {source.key: source for source in tenet.sources}
    new: dict[tuple[str, str], Source] = {}
    for _, sources in said:
        new |= {key: source for source in sources if (key := source.key) not in once and key not in new}
    return replace(
        tenet,
        wordings=tuple(dict.fromkeys((*tenet.wordings, *(wording for wording, _ in said)))),
        sources=_merge_sources(tenet.sources, new.values()),
        new_sources=_merge_sources(tenet.new_sources, new.values()),
    )


def _merge_sources(*many: Iterable[Source]) -> tuple[Source, ...]:
    """All of them, each words of a turn once, in the order they were said."""
    once = {source.key: source for sources in many for source in sources}
    ordered = sorted(once.items(), key=lambda one: (one[1].at, one[1].seq, one[1].turn_id, one[1].start, one[0]))
    return tuple(source for _, source in ordered)
