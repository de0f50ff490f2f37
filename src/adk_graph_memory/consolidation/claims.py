"""What is said over time, and what ends it: the vocabulary of a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from adk_graph_memory.records import Precision, Proposition, Source

EndOperation = Literal["SUPERSEDE", "RETRACT"]
TimelinePoint = tuple[datetime, datetime, int, str, float]


class Exclusion(NamedTuple):
    """That one strand ends another, and how.

    A rule looks at nothing but time. Who understood the words also says which of two came after: that counts where
    both were told in one breath, in whatever order; otherwise time decides, and either may end the other
    (``is_reverse`` is the direction that was not the one decided).
    """

    op: EndOperation
    is_by_rule: bool = False
    is_reverse: bool = False


Exclusions = Mapping[tuple[str, str], Exclusion]
"""(ids of a strand that ends another, and of that other) → what the one does to the other."""


@dataclass(frozen=True, slots=True)
class Claim:
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
    def observations(self) -> list[tuple[TimelinePoint, Source]]:
        """When it was so for certain: when it was said, or from when on if that lay ahead; earliest first.

        A plan is one from the moment it is spoken of, however far ahead its day lies.
        """
        return self._sort_sources(None if self.is_intent else self.proposition.valid_from)

    def _sort_sources(self, begins: datetime | None) -> list[tuple[TimelinePoint, Source]]:
        seen = [(make_timeline_point(source, begins), source) for source in self.sources]
        return sorted(seen, key=lambda one: (one[0], one[1].quote_key))

    def list_ending_points(self, other: Claim) -> list[tuple[TimelinePoint, Source]]:
        """When its words tell on another: another plan changes at once, the world on the day that was named."""
        return self.observations if other.is_intent else self._sort_sources(self.proposition.valid_from)

    def has_same_meaning(self, other: Claim) -> bool:
        """Whether both say one thing of the world, or would once they are carried out, at whatever time."""
        mine, theirs = self.proposition, other.proposition
        return ((mine.subject, mine.predicate, mine.value) == (theirs.subject, theirs.predicate, theirs.value)) and (
            mine.modality == "negated"
        ) == (theirs.modality == "negated")


def make_timeline_point(source: Source, begins: datetime | None) -> TimelinePoint:
    """When words count that were said then of what begins then: the later of the two, in the order of what was said."""
    at = max(source.at, begins) if begins else source.at
    return at, source.at, source.seq, source.turn_id, source.start


@dataclass(frozen=True, slots=True)
class EndCause:
    """What ended a run: a strand, by these words; and of a plan the words that say what came of it, if any do."""

    claim_id: str
    source: Source
    op: EndOperation
    outcome: Source | None = None


class Effect(NamedTuple):
    """That words end a strand at a moment, as of a date where one is known."""

    point: TimelinePoint
    cause: EndCause
    effective_from: datetime | None = None
    precision: Precision | None = None
    is_void: bool = False
    """whether it was a plan that was called off before its day"""


def split_observations(strand: Claim, effects: Sequence[Effect]) -> list[list[tuple[TimelinePoint, Source]]]:
    """The observations of a strand, cut where one of these effects lies between two; what was over was so once."""
    if strand.is_past:
        return [strand.observations]
    found: list[list[tuple[TimelinePoint, Source]]] = []
    for moment, source in strand.observations:
        if found and not any(found[-1][-1][0] < effect.point < moment for effect in effects):
            found[-1].append((moment, source))
        else:
            found.append([(moment, source)])
    return found
