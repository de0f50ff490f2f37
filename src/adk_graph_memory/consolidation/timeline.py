"""Who said what when goes in; from when until when each of it held comes out, whatever order it was learned in.

A strand is one proposition with every word that supports it. Its words are observations: at that moment it was so.
Where strands exclude each other, an observation of one ends the other, and a strand that is observed again after it
was ended holds a second time: each such period is a run, and a run is what the graph keeps as a fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from adk_graph_memory.consolidation.claims import (
    Claim,
    Effect,
    EndCause,
    Exclusion,
    Exclusions,
    TimelinePoint,
    split_observations,
)
from adk_graph_memory.consolidation.plan_outcomes import PlanOutcomes
from adk_graph_memory.records import Precision, Source, Standing
from adk_graph_memory.records.write_plan import FactState

SIMULTANEITY_GAP = timedelta(hours=12)
"""How far apart words of one session may be to count as one telling."""
MAX_DEPENDENCY_DEPTH = 4
"""How many facts may rest on each other in a row for the end of the one to end the last."""
PeriodEnd = tuple[datetime, Precision | None]


@dataclass(frozen=True, slots=True)
class Period:
    """A period in which a strand held without a break.

    ``called_off`` are plans that were to end it and came to nothing.
    """

    claim_id: str
    sources: tuple[Source, ...]
    standing: Standing
    end_causes: tuple[EndCause, ...] = ()
    void_causes: tuple[EndCause, ...] = ()


def make_periods(
    strands: Iterable[Claim], exclusions: Exclusions, rests: Iterable[tuple[str, str]] = ()
) -> dict[str, list[Period]]:
    """The runs of every strand, earliest first; a pure function of what was said.

    Args:
        strands: all that was said.
        exclusions: what ends what.
        rests: ids of a strand, and of one without which it would not hold.
    """
    by_id = {strand.id: strand for strand in strands}
    effects: dict[str, list[Effect]] = {id: [] for id in by_id}
    for (ending, ended), exclusion in exclusions.items():
        if ending in by_id and ended in by_id and not (exclusion.is_by_rule and by_id[ending].is_past):
            effects[ended] += _derive_effects(by_id[ending], by_id[ended], exclusion)
    for id, found in effects.items():
        found.sort(key=_make_effect_sort_key)
        if by_id[id].is_past:  # it ended by itself, but it may turn out never to have been
            effects[id] = [effect for effect in found if effect.cause.op == "RETRACT"]
    outcomes = PlanOutcomes(by_id, effects)
    timed = {}
    for id, strand in by_id.items():
        came = sorted(
            (one for effect in effects[id] for one in outcomes.follow_effect(effect, strand)), key=_make_effect_sort_key
        )
        timed[id] = _split_periods(strand, came, by_id)
    return _apply_dependencies(timed, by_id, rests)


def _derive_effects(ending: Claim, ended: Claim, exclusion: Exclusion) -> Iterator[Effect]:
    """The moments at which the words of the one end the other; what nobody is known to have said ends nothing.

    One plan takes the place of another when it is spoken of, whatever its own day.
    """
    is_at_once = ended.is_intent and ending.is_intent
    said = ending.proposition
    begins = (None, None) if is_at_once else (said.valid_from, said.valid_from_precision)
    for moment, source in ending.list_ending_points(ended):
        if not source.is_verified:
            continue
        together = (
            [] if exclusion.is_by_rule else [at for at, said in ended.observations if _is_simultaneous(said, source)]
        )
        if together and exclusion.is_reverse:
            continue
        if together:
            at, told, seq, turn, start = together[-1]
            moment = max(moment, (at, told, seq, turn, start + 0.5))  # right after the last words of what it ends
        yield Effect(moment, EndCause(ending.id, source, exclusion.op), *begins)


def _is_simultaneous(one: Source, other: Source) -> bool:
    """Whether both were said in one session and so close together that their order says nothing."""
    return bool(one.session_id) and one.session_id == other.session_id and abs(one.at - other.at) <= SIMULTANEITY_GAP


def _split_periods(strand: Claim, effects: Sequence[Effect], strands: Mapping[str, Claim]) -> list[Period]:
    real, void = ([one for one in effects if one.is_void is is_void] for is_void in (False, True))
    return [_make_period(strand, period, real, void, strands) for period in split_observations(strand, real)]


def _make_period(
    strand: Claim,
    period: Sequence[tuple[TimelinePoint, Source]],
    effects: Sequence[Effect],
    void: Sequence[Effect],
    strands: Mapping[str, Claim],
) -> Period:
    last = period[-1][0]
    after = [effect for effect in effects if effect.point > last]
    ends = [_compute_period_end(last, effect) for effect in after[:1]]
    until = min([*_find_stated_end(strand, period), *ends], default=None, key=lambda end: end[0])
    # Every strand that excludes this one leaves its mark, by the first of its words that came after. A correction
    # unmakes what stood when it was made, not what had ended before.
    first = {effect.cause.claim_id: effect.cause for effect in reversed(after)}
    if after and strands[after[0].cause.claim_id].proposition.is_correction:
        first[after[0].cause.claim_id] = replace(after[0].cause, op="RETRACT")
    ended = tuple(first[id] for id in sorted(first))
    state: FactState = "current"
    if ended:
        state = "retracted" if any(one.op == "RETRACT" for one in ended) else "superseded"
    return Period(
        strand.id,
        tuple(source for _, source in period),
        Standing(state, *(until or ())),
        ended,
        tuple(effect.cause for effect in void if effect.point > period[0][0]),
    )


def _find_stated_end(strand: Claim, period: Sequence[tuple[TimelinePoint, Source]]) -> Iterator[PeriodEnd]:
    """The end that its own words name; what was said to be so after that ended no earlier than it was said."""
    said = strand.proposition
    if said.valid_to is None or (said.valid_from is not None and said.valid_to < said.valid_from):
        return
    last = max(source.at for _, source in period)
    if last > said.valid_to and not (strand.is_past or strand.is_intent):
        yield last, "time"
    else:
        yield said.valid_to, said.valid_to_precision


def _compute_period_end(last: TimelinePoint, effect: Effect) -> PeriodEnd:
    """When what came next began: since when it is said to hold, unless that contradicts the words that it ends."""
    if effect.effective_from is not None and effect.effective_from > last[0]:
        return effect.effective_from, effect.precision
    return effect.point[0], "time"


def _make_effect_sort_key(effect: Effect) -> tuple[TimelinePoint, str]:
    return effect.point, effect.cause.claim_id


# -- what rests on what -----------------------------------------------------------------------------------------


def find_period_at(found: Sequence[Period], at: datetime) -> Period:
    """Which of a strand's runs held then: the last that had begun, or else the last of all."""
    return ([run for run in found if run.sources[0].at <= at] or found)[-1]


def _apply_dependencies(
    timed: Mapping[str, list[Period]], strands: Mapping[str, Claim], rests: Iterable[tuple[str, str]]
) -> dict[str, list[Period]]:
    """The same, where what has ended ended no later than what it rested on."""
    bases: dict[str, list[str]] = {}
    for id, base in sorted(set(rests)):
        if id in timed and id != base and not strands[id].is_intent and _is_assertion(strands.get(base)):
            bases.setdefault(id, []).append(base)
    ended = dict(timed)
    for _ in range(MAX_DEPENDENCY_DEPTH if bases else 0):
        before = dict(ended)
        for id, on in bases.items():
            ended[id] = [
                _shorten_period(
                    run, strands[id], [find_period_at(before[base], run.sources[0].at).standing for base in on]
                )
                for run in timed[id]
            ]
    return ended


def _is_assertion(strand: Claim | None) -> bool:
    return strand is not None and strand.proposition.modality == "asserted" and bool(strand.sources)


def _shorten_period(run: Period, strand: Claim, bases: Sequence[Standing]) -> Period:
    """The run up to the end of what it rested on, unless it was heard after that, or began later."""
    until = run.standing.valid_to
    if run.standing.state != "superseded" or until is None:
        return run
    last = max(moment[0] for moment, source in strand.observations if source in run.sources)
    ends = [
        (base.valid_to, base.valid_to_precision)
        for base in bases
        if base.state != "retracted" and base.valid_to is not None and last < base.valid_to < until
    ]
    earliest = min(ends, default=None, key=lambda end: end[0])
    return run if earliest is None else replace(run, standing=Standing("superseded", *earliest))
