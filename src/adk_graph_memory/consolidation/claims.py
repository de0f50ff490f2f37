"""The types of a timeline: claims, the points at which they were observed, and what ends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from adk_graph_memory.records import Precision, Proposition, Source

EndOperation = Literal["SUPERSEDE", "RETRACT"]
TimelinePoint = tuple[datetime, datetime, int, str, float]


class Exclusion(NamedTuple):
    """How one claim ends another.

    A rule looks only at time. A model also says which of two claims came later. Its word counts where both were said
    together, in whatever order; otherwise time decides, and either may end the other. ``is_reverse`` marks the
    direction that the model did not choose.
    """

    op: EndOperation
    is_by_rule: bool = False
    is_reverse: bool = False


Exclusions = Mapping[tuple[str, str], Exclusion]
"""(id of the ending claim, id of the ended claim) → how it ends."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One proposition with the sources that support it."""

    id: str
    proposition: Proposition
    sources: tuple[Source, ...]

    @property
    def is_past(self) -> bool:
        """Whether it was already over whenever it was said; a rule then learns nothing from it about later facts."""
        end = self.proposition.valid_to
        return end is not None and bool(self.sources) and all(end <= source.at for source in self.sources)

    @property
    def is_intent(self) -> bool:
        """Whether it states a plan or a hypothesis rather than a fact of the world."""
        return self.proposition.modality in ("planned", "hypothetical")

    @property
    def observations(self) -> list[tuple[TimelinePoint, Source]]:
        """When it certainly held, earliest first: when it was said, or from its start if that lay ahead.

        A plan holds from the moment it is said, however far ahead its day is.
        """
        return self._sort_sources(None if self.is_intent else self.proposition.valid_from)

    def _sort_sources(self, start: datetime | None) -> list[tuple[TimelinePoint, Source]]:
        points = [(make_timeline_point(source, start), source) for source in self.sources]
        return sorted(points, key=lambda pair: (pair[0], pair[1].quote_key))

    def list_ending_points(self, other: Claim) -> list[tuple[TimelinePoint, Source]]:
        """When it ends the other claim: a plan as soon as this claim holds, a fact from the day this claim names."""
        return self.observations if other.is_intent else self._sort_sources(self.proposition.valid_from)

    def has_same_meaning(self, other: Claim) -> bool:
        """Whether both state the same subject, predicate and value, or both deny it; plans and dates do not matter."""
        mine, theirs = self.proposition, other.proposition
        return ((mine.subject, mine.predicate, mine.value) == (theirs.subject, theirs.predicate, theirs.value)) and (
            mine.modality == "negated"
        ) == (theirs.modality == "negated")


def make_timeline_point(source: Source, start: datetime | None) -> TimelinePoint:
    """Return when a source counts: the later of when it was said and ``start``; ties follow the order of speech."""
    at = max(source.at, start) if start else source.at
    return at, source.at, source.seq, source.turn_id, source.start


@dataclass(frozen=True, slots=True)
class EndCause:
    """The claim and the source that ended a period; for a plan also the source that tells what came of it, if any."""

    claim_id: str
    source: Source
    op: EndOperation
    outcome: Source | None = None


class Effect(NamedTuple):
    """A source ends a claim at a point in time, effective from a date if one is known."""

    point: TimelinePoint
    cause: EndCause
    effective_from: datetime | None = None
    precision: Precision | None = None
    is_void: bool = False
    """whether the cause is a plan that was called off before its day"""


def split_observations(claim: Claim, effects: Sequence[Effect]) -> list[list[tuple[TimelinePoint, Source]]]:
    """Split a claim's observations wherever an effect lies between two. A past claim held once and stays whole."""
    if claim.is_past:
        return [claim.observations]
    periods: list[list[tuple[TimelinePoint, Source]]] = []
    for point, source in claim.observations:
        if periods and not any(periods[-1][-1][0] < effect.point < point for effect in effects):
            periods[-1].append((point, source))
        else:
            periods.append([(point, source)])
    return periods
