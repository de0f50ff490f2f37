"""Who said what when goes in; from when until when each of it held comes out, whatever order it was learned in.

A strand is one proposition with every word that supports it. Its words are observations: at that moment it was so.
Where strands exclude each other, an observation of one ends the other, and a strand that is observed again after it
was ended holds a second time: each such period is a run, and a run is what the graph keeps as a fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from adk_graph_memory.records import Proposition, Source, Standing
from adk_graph_memory.records.plan import State

Ending = Literal["SUPERSEDE", "RETRACT"]
BREATH = timedelta(hours=12)
"""How far apart words of one session may be to count as one telling."""
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
        return over is not None and all(over <= source.at for source in self.sources)

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
        told = [(max(source.at, begins) if begins else source.at, source) for source in self.sources]
        seen = [((at, s.at, s.seq, s.turn_id, s.start), s) for at, s in told]
        return sorted(seen, key=lambda one: (one[0], one[1].quote_key))

    def effects_on(self, other: Strand) -> list[tuple[Moment, Source]]:
        """When its words tell on another: another plan changes at once, the world on the day that was named."""
        return self.observations if other.is_intent else self._told(self.proposition.valid_from)


@dataclass(frozen=True, slots=True)
class Ended:
    """What ended a run: a strand, by these words."""

    strand: str
    source: Source
    how: Ending


@dataclass(frozen=True, slots=True)
class Run:
    """A period in which a strand held without a break."""

    strand: str
    sources: tuple[Source, ...]
    standing: Standing
    ended: tuple[Ended, ...] = ()


def runs(strands: Iterable[Strand], exclusions: Exclusions) -> dict[str, list[Run]]:
    """The runs of every strand, earliest first; a pure function of what was said."""
    by_id = {strand.id: strand for strand in strands}
    endings: dict[str, list[tuple[Moment, Ended]]] = {id: [] for id in by_id}
    for (ending, ended), exclusion in exclusions.items():
        if ending in by_id and ended in by_id and not (exclusion.is_ruled and by_id[ending].is_past):
            endings[ended] += _endings(by_id[ending], by_id[ended], exclusion)
    return {id: _runs(strand, sorted(endings[id], key=_when), by_id) for id, strand in by_id.items()}


def _endings(ending: Strand, ended: Strand, exclusion: Exclusion) -> Iterator[tuple[Moment, Ended]]:
    """The moments at which the words of the one end the other; what nobody is known to have said ends nothing."""
    for moment, source in ending.effects_on(ended):
        if not source.is_verified:
            continue
        together = [] if exclusion.is_ruled else [at for at, said in ended.observations if _in_one_breath(said, source)]
        if together and exclusion.is_reverse:
            continue
        if together:
            at, told, seq, turn, start = together[-1]
            moment = max(moment, (at, told, seq, turn, start + 0.5))  # right after the last words of what it ends
        yield moment, Ended(ending.id, source, exclusion.how)


def _in_one_breath(one: Source, other: Source) -> bool:
    """Whether both were said in one session and so close together that their order says nothing."""
    return bool(one.session_id) and one.session_id == other.session_id and abs(one.at - other.at) <= BREATH


def _runs(strand: Strand, endings: Sequence[tuple[Moment, Ended]], strands: Mapping[str, Strand]) -> list[Run]:
    if strand.is_past:  # it ended by itself, but it may turn out never to have been
        unmade = [(moment, ended) for moment, ended in endings if ended.how == "RETRACT"]
        return [_run(strand, strand.observations, unmade, strands)]
    found: list[list[tuple[Moment, Source]]] = []
    for moment, source in strand.observations:
        if found and not any(found[-1][-1][0] < at < moment for at, _ in endings):
            found[-1].append((moment, source))
        else:
            found.append([(moment, source)])
    return [_run(strand, run, endings, strands) for run in found]


def _run(
    strand: Strand,
    run: Sequence[tuple[Moment, Source]],
    endings: Sequence[tuple[Moment, Ended]],
    strands: Mapping[str, Strand],
) -> Run:
    last = run[-1][0]
    after = [(moment, ended) for moment, ended in endings if moment > last]
    told = strand.proposition.valid_to
    ends = [_end(strand, last, ending, strands) for ending in after[:1]]
    until = min([moment for moment in (told, *ends) if moment], default=None)
    # Every strand that excludes this one leaves its mark, by the first of its words that came after. A correction
    # unmakes what stood when it was made, not what had ended before.
    first = {ended.strand: ended for _, ended in reversed(after)}
    if after and strands[after[0][1].strand].proposition.correction:
        first[after[0][1].strand] = replace(after[0][1], how="RETRACT")
    ended = tuple(first[id] for id in sorted(first))
    state: State = "current"
    if ended:
        state = "retracted" if any(one.how == "RETRACT" for one in ended) else "superseded"
    return Run(strand.id, tuple(source for _, source in run), Standing(state, until), ended)


def _end(strand: Strand, last: Moment, ending: tuple[Moment, Ended], strands: Mapping[str, Strand]) -> datetime:
    """When what came next began: since when it is said to hold, unless that contradicts the words that it ends.

    One plan takes the place of another when it is spoken of, whatever its own day.
    """
    moment, ended = ending
    other = strands[ended.strand]
    begins = None if strand.is_intent and other.is_intent else other.proposition.valid_from
    return begins if begins is not None and begins > last[0] else moment[0]


def _when(ending: tuple[Moment, Ended]) -> tuple[Moment, str]:
    return ending[0], ending[1].strand
