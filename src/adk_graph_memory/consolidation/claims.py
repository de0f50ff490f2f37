"""Claims: what several facts and wordings say alike, when it was observed, and what ends it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.fact_rules import EndOperation
from adk_graph_memory.language.dates import Precision
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.facts import Candidates, Fact, Proposition

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


class Shield(NamedTuple):
    """From the first words of a fact on, nothing that is said until then ends it; if pinned, nothing but the owner."""

    since: datetime
    until: datetime | None
    is_pinned: bool

    def stops(self, source: Source) -> bool:
        """Whether these words do not end the fact."""
        is_stopped = (self.is_pinned and not source.is_owner) or (self.until is not None and source.at <= self.until)
        return is_stopped and self.since <= source.at


class Retraction(NamedTuple):
    """When the owner said that what these sources support was never true."""

    at: datetime
    source_keys: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Claim:
    """One proposition with the sources that support it."""

    id: str
    proposition: Proposition
    sources: tuple[Source, ...]
    shields: tuple[Shield, ...] = ()
    retractions: tuple[Retraction, ...] = ()

    def withstands(self, source: Source) -> bool:
        """Whether these words do not end it: the owner of the memory decided so, or they are somebody else's."""
        return any(shield.stops(source) for shield in self.shields) or self._is_of_others(source)

    def _is_of_others(self, source: Source) -> bool:
        """Whether only others said it.

        Agents and tools end what no person said. In a group, a person ends what that person stated too.
        """
        if source.is_machine:
            return any(not own.is_machine for own in self.sources)
        if source.origin != "user" or all(own.origin != "user" for own in self.sources):
            return False
        return all(own.author != source.author for own in self.sources)

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
        points = [(compute_timeline_point(source, start), source) for source in self.sources]
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


def compute_timeline_point(source: Source, start: datetime | None) -> TimelinePoint:
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
    """whether the cause is a plan that was called off before its day, or the claim withstands it"""


def compute_retraction_point(at: datetime) -> TimelinePoint:
    """Return when the owner's retraction counts: after all that was said until then."""
    return at, at, sys.maxsize, "", 0.0


def split_observations(claim: Claim, breaks: Sequence[TimelinePoint]) -> list[list[tuple[TimelinePoint, Source]]]:
    """Split a claim's observations wherever a break lies between two. A past claim held once and stays whole."""
    if claim.is_past:
        return [claim.observations]
    periods: list[list[tuple[TimelinePoint, Source]]] = []
    for point, source in claim.observations:
        if periods and not any(periods[-1][-1][0] < at < point for at in breaks):
            periods[-1].append((point, source))
        else:
            periods.append([(point, source)])
    return periods


SupportedWording = tuple[Proposition, tuple[Source, ...]]
"""A proposition and the sources that support it."""


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """One claim in all its wordings, with every source that supports it and the graph's facts that state it."""

    id: str
    wordings: tuple[Proposition, ...]
    sources: tuple[Source, ...]
    new_sources: tuple[Source, ...] = ()
    facts: tuple[Fact, ...] = ()
    machine_texts: frozenset[str] = frozenset()
    """the texts of wordings that only agents and tools chose"""

    @property
    def claim(self) -> Claim:
        """The group as one claim, in the wording that stands for it."""
        return self.build_claim()

    def build_claim(self, refinements: Collection[tuple[str, str]] = ()) -> Claim:
        """Build one claim of the group, given pairs of an exact text and the vaguer text that it replaces.

        An agent's wording never stands for what a person said: it would pass for the person's own.
        """
        said = [wording for wording in self.wordings if wording.text not in self.machine_texts] or self.wordings
        wording = self._owner_wording or fact_rules.select_wording(said, refinements)
        retractions = (
            Retraction(fact.ruling.retracted_at, frozenset(source.key for source in fact.sources))
            for fact in self.facts
            if fact.ruling.retracted_at and fact.sources
        )
        return Claim(self.id, wording, self.sources, tuple(self._list_shields()), tuple(retractions))

    def list_machine_texts(self, wordings: Iterable[SupportedWording]) -> frozenset[str]:
        """List the texts that only agents and tools chose, of these wordings and the group's."""
        texts = {is_machine: set[str]() for is_machine in (True, False)}
        for wording, sources in wordings:
            texts[fact_rules.is_machine_said(sources)].add(wording.text)
        return (self.machine_texts | texts[True]) - self.person_texts - texts[False]

    @property
    def person_texts(self) -> frozenset[str]:
        """The texts of wordings that a person chose."""
        return frozenset(wording.text for wording in self.wordings) - self.machine_texts

    @property
    def _owner_wording(self) -> Proposition | None:
        """The wording of a fact that was pinned, or that the owner said."""
        facts = (
            fact for fact in self.facts if fact.ruling.is_pinned or any(source.is_owner for source in fact.sources)
        )
        return next((fact.proposition for fact in facts), None)

    def _list_shields(self) -> Iterator[Shield]:
        for fact in self.facts:
            ruling = fact.ruling
            if fact.sources and (ruling.is_pinned or ruling.upheld_until):
                since = min(source.at for source in fact.sources)
                yield Shield(since, ruling.upheld_until, ruling.is_pinned)


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
            machine_texts=group.list_machine_texts([(fact.proposition, fact.sources)]),
        )
    return groups


def add_support(group: ClaimGroup, wordings: Sequence[SupportedWording]) -> ClaimGroup:
    """Return the group with further wordings and the sources of each."""
    known_keys = {source.key for source in group.sources}
    new: dict[tuple[str, str], Source] = {}
    for _, sources in wordings:
        new |= {key: source for source in sources if (key := source.key) not in known_keys and key not in new}
    return ClaimGroup(
        group.id,
        tuple(dict.fromkeys((*group.wordings, *(wording for wording, _ in wordings)))),
        _merge_sources(group.sources, new.values()),
        _merge_sources(group.new_sources, new.values()),
        group.facts,
        group.list_machine_texts(wordings),
    )


def _merge_sources(*groups: Iterable[Source]) -> tuple[Source, ...]:
    """Merge sources in the order they were said, each quote of a turn once."""
    by_key = {source.key: source for sources in groups for source in sources}
    items = sorted(by_key.items(), key=lambda item: (item[1].at, item[1].seq, item[1].turn_id, item[1].start, item[0]))
    return tuple(source for _, source in items)
