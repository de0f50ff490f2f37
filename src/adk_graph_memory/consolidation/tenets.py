"""Facts of the graph go in, and what was read beside them; what says the same is one tenet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from adk_graph_memory.consolidation import facts
from adk_graph_memory.consolidation.strands import Strand
from adk_graph_memory.records import Candidates, KnownFact, Proposition, Source

Support = tuple[Proposition, tuple[Source, ...]]
"""What was said, and the words that it rests on."""


@dataclass(frozen=True, slots=True)
class Tenet:
    """All that says one thing: its wordings, every word that supports them, and the graph's facts of it."""

    id: str
    wordings: tuple[Proposition, ...]
    sources: tuple[Source, ...]
    new: tuple[Source, ...] = ()
    facts: tuple[KnownFact, ...] = ()

    @property
    def strand(self) -> Strand:
        """The same with one wording, as a timeline takes it."""
        return Strand(self.id, facts.wording(self.wordings), self.sources)


def known(candidates: Candidates) -> dict[str, Tenet]:
    """What the graph's facts say, one tenet for all that say the same."""
    tenets: dict[str, Tenet] = {}
    for fact in sorted(candidates.facts, key=lambda fact: fact.id):
        id = fact.proposition.signature
        before = tenets.get(id, Tenet(id, (), ()))
        tenets[id] = replace(
            before,
            wordings=(*before.wordings, fact.proposition),
            sources=_united(before.sources, fact.sources),
            facts=(*before.facts, fact),
        )
    return tenets


def supported(tenet: Tenet, said: Sequence[Support]) -> Tenet:
    """The tenet with further wordings and the words that support each."""
    once = {source.key: source for source in tenet.sources}
    new: dict[tuple[str, str], Source] = {}
    for _, sources in said:
        new |= {key: source for source in sources if (key := source.key) not in once and key not in new}
    return replace(
        tenet,
        wordings=tuple(dict.fromkeys((*tenet.wordings, *(wording for wording, _ in said)))),
        sources=_united(tenet.sources, new.values()),
        new=_united(tenet.new, new.values()),
    )


def _united(*many: Iterable[Source]) -> tuple[Source, ...]:
    """All of them, each words of a turn once, in the order they were said."""
    once = {source.key: source for sources in many for source in sources}
    ordered = sorted(once.items(), key=lambda one: (one[1].at, one[1].seq, one[1].turn_id, one[1].start, one[0]))
    return tuple(source for _, source in ordered)
