"""What is said over time, and what ends it: the vocabulary of a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from adk_graph_memory.records import Precision, Proposition, Source

Ending = Literal["SUPERSEDE", "RETRACT"]
Moment = tuple[datetime, datetime, int, str, float]


class Exclusion(NamedTuple):
    """That one strand ends another, and how.

    A rule looks at nothing but time. Who understood the words also says which of two came after: that counts where
    both were told in one breath, in whatever order; otherwise time decides, and either may end the other
    (``is_reverse`` is the direction that was not the one decided).
    """

    how: Ending
    is_ruled: bool = False
    is_reverse: bool = False


Exclusions = Mapping[tuple[str, str], Exclusion]
"""(ids of a strand that ends another, and of that other) → what the one does to the other."""


@dataclass(frozen=True, slots=True)
class Strand:
    """One proposition with the words that support it."""

    id: str
    proposition: Proposition
    sources: tuple[Source, ...]

    @property
    def is_past(self) -> bool:
        """Whether it speaks of what was over when it was said: to a rule it says nothing of what came after."""
        over = self.proposition.valid_to
        return over is not None and bool(self.sources) and all(over <= source.at for source in self.sources)

    @property
    def is_intent(self) -> bool:
        """Whether it speaks of what somebody has in mind, and not of the world."""
        return self.proposition.modality in ("planned", "hypothetical")

    @property
    def observations(self) -> list[tuple[Moment, Source]]:
        """When it was so for certain: when it was said, or from when on if that lay ahead; earliest first.

        A plan is one from the moment it is spoken of, however far ahead its day lies.
        """
        return self._told(None if self.is_intent else self.proposition.valid_from)

    def _told(self, begins: datetime | None) -> list[tuple[Moment, Source]]:
        seen = [(moment_of(source, begins), source) for source in self.sources]
        return sorted(seen, key=lambda one: (one[0], one[1].quote_key))

    def effects_on(self, other: Strand) -> list[tuple[Moment, Source]]:
        """When its words tell on another: another plan changes at once, the world on the day that was named."""
        return self.observations if other.is_intent else self._told(self.proposition.valid_from)

    def says_same(self, other: Strand) -> bool:
        """Whether both say one thing of the world, or would once they are carried out, at whatever time."""
        mine, theirs = self.proposition, other.proposition
        return ((mine.subject, mine.predicate, mine.value) == (theirs.subject, theirs.predicate, theirs.value)) and (
            mine.modality == "negated"
        ) == (theirs.modality == "negated")


def moment_of(source: Source, begins: datetime | None) -> Moment:
    """When words count that were said then of what begins then: the later of the two, in the order of what was said."""
    at = max(source.at, begins) if begins else source.at
    return at, source.at, source.seq, source.turn_id, source.start


@dataclass(frozen=True, slots=True)
class Ended:
    """What ended a run: a strand, by these words; and of a plan the words that say what came of it, if any do."""

    strand: str
    source: Source
    how: Ending
    outcome: Source | None = None


class Effect(NamedTuple):
    """That words end a strand at a moment, as of a date where one is known."""

    moment: Moment
    ended: Ended
    begins: datetime | None = None
    precision: Precision | None = None
    is_void: bool = False
    """whether it was a plan that was called off before its day"""


def periods(strand: Strand, effects: Sequence[Effect]) -> list[list[tuple[Moment, Source]]]:
    """The observations of a strand, cut where one of these effects lies between two; what was over was so once."""
    if strand.is_past:
        return [strand.observations]
    found: list[list[tuple[Moment, Source]]] = []
    for moment, source in strand.observations:
        if found and not any(found[-1][-1][0] < effect.moment < moment for effect in effects):
            found[-1].append((moment, source))
        else:
            found.append([(moment, source)])
    return found
