"""Compute from when until when each claim held, whatever order its sources came in, and what came of plans.

A claim is one proposition with all its sources. Each source is an observation: at that moment the claim held. Where
claims exclude each other, an observation of one ends the other. A claim observed again after its end holds a second
time. Each such stretch is a period, and the graph keeps each period as one fact.
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
    compute_retraction_point,
    compute_timeline_point,
    split_observations,
)
from adk_graph_memory.language.dates import (
    Precision,
    compute_date_end,
    compute_day_range,
    compute_latest_end,
    is_day_range_within,
)
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.facts import STATES_PREDICATE, FactState, Standing


@dataclass(frozen=True, slots=True)
class PlanOutcomes:
    """Replace the effects of plans by what came of them.

    A plan replaced by another of the same kind hands its effect on to that one. A plan that was carried out takes
    effect on the day this is said to have happened, if a day is named. A plan that was denied, withdrawn or given up
    for something else before its day was over has no effect.

    Args:
        claims: all claims by id.
        effects: claim id → what ends the claim, earliest first.
    """

    claims: Mapping[str, Claim]
    effects: Mapping[str, Sequence[Effect]]

    def follow_effect(self, effect: Effect, target: Claim) -> Iterator[Effect]:
        """Yield what an effect on the target comes to; only effects of plans on facts of the world can change.

        What withstands a plan withstands what comes of it; the words that tell of that have an effect of their own.
        """
        plan = self.claims[effect.cause.claim_id]
        if target.is_intent or not plan.is_intent or effect.is_void:
            yield effect
        else:
            yield from self._follow_plan(effect, plan, effect.cause.source, target, since=None)

    def _follow_plan(
        self, effect: Effect, plan: Claim, source: Source, target: Claim, since: TimelinePoint | None
    ) -> Iterator[Effect]:
        end = self._find_plan_end(plan, source, since)
        if end is None:
            yield effect
            return
        ending, outcome = self.claims[end.cause.claim_id], end.cause.source
        effect_with_outcome = effect._replace(cause=replace(effect.cause, outcome=outcome))
        if _is_plan_outcome(ending, plan) and not ending.has_same_meaning(target):
            yield from _apply_fulfillment(effect_with_outcome, source, ending, end.point)
        elif _is_plan_kept(effect, end, ending, target):
            yield effect
        elif ending.is_intent and _is_same_attribute(ending, plan) and not ending.has_same_meaning(target):
            start = ending.proposition.valid_from, ending.proposition.valid_from_precision
            day, precision = start if start[0] else (effect.effective_from, effect.precision)
            new_effect = Effect(compute_timeline_point(outcome, day), effect_with_outcome.cause, day, precision)
            yield from self._follow_plan(new_effect, ending, outcome, target, since=end.point)
        else:
            yield effect_with_outcome._replace(is_void=True)

    def _find_plan_end(self, plan: Claim, source: Source, since: TimelinePoint | None) -> Effect | None:
        """Find what first ended the plan after the period of this source, and after ``since``."""
        ends = [effect for effect in self.effects[plan.id] if not effect.is_void]
        periods = split_observations(plan, [end.point for end in ends])
        period = next(period for period in periods if any(other == source for _, other in period))
        last = period[-1][0] if since is None else max(period[-1][0], since)
        return next((end for end in ends if end.point > last), None)


def _is_plan_kept(effect: Effect, end: Effect, ending: Claim, target: Claim) -> bool:
    """Whether the plan ended after its day was over, or once its day had come, by a claim that does not deny it."""
    if end.cause.op == "RETRACT" or ending.proposition.is_correction:
        return False
    day = effect.effective_from
    if day is not None:
        day_end = compute_date_end(day, effect.precision)
        if end.point[0] >= compute_latest_end(day_end, effect.precision):
            return True
    is_denial = ending.is_intent or ending.proposition.modality == "negated" or ending.has_same_meaning(target)
    return end.point >= effect.point and not is_denial


def _is_same_attribute(claim: Claim, other: Claim) -> bool:
    mine, theirs = claim.proposition, other.proposition
    return mine.predicate != STATES_PREDICATE and (mine.subject, mine.predicate) == (theirs.subject, theirs.predicate)


def _is_plan_outcome(claim: Claim, plan: Claim) -> bool:
    objects = claim.proposition.object, plan.proposition.object
    is_related = _is_same_attribute(claim, plan) or (objects[0] is not None and objects[0] == objects[1])
    return is_related and claim.proposition.modality == "asserted"


def _apply_fulfillment(effect: Effect, source: Source, outcome: Claim, point: TimelinePoint) -> Iterator[Effect]:
    """Date the effect by the day the outcome names; otherwise by the plan's day, or when the outcome was said."""
    start, precision = outcome.proposition.valid_from, outcome.proposition.valid_from_precision
    if start is None:
        yield effect if point >= effect.point else Effect(point, effect.cause)
    elif effect.effective_from and is_day_range_within(
        compute_day_range(effect.effective_from, effect.precision), compute_day_range(start, precision)
    ):
        yield effect
    else:
        yield Effect(compute_timeline_point(source, start), effect.cause, start, precision)
        yield Effect(point, effect.cause, start, precision)


SIMULTANEITY_GAP = timedelta(hours=12)
"""How far apart two sources of one session may be to count as said together."""
MAX_DEPENDENCY_DEPTH = 4
"""How many dependencies in a row pass on the end of a fact."""
PeriodEnd = tuple[datetime, Precision | None]


@dataclass(frozen=True, slots=True)
class Period:
    """A period in which a claim held without a break.

    ``void_causes`` would have ended it, but they are plans that were called off, or the claim withstands them.
    """

    claim_id: str
    sources: tuple[Source, ...]
    standing: Standing
    end_causes: tuple[EndCause, ...] = ()
    void_causes: tuple[EndCause, ...] = ()
    is_retracted: bool = False
    """whether the owner said that it was never true"""


def compute_periods(
    claims: Iterable[Claim], exclusions: Exclusions, dependencies: Iterable[tuple[str, str]] = ()
) -> dict[str, list[Period]]:
    """Return the periods of every claim by id, earliest first.

    Args:
        claims: all claims.
        exclusions: which claim ends which.
        dependencies: pairs of a claim id and the id of a claim without which it would not hold.
    """
    by_id = {claim.id: claim for claim in claims}
    effects_by_id: dict[str, list[Effect]] = {id: [] for id in by_id}
    for (ending, ended), exclusion in exclusions.items():
        if ending in by_id and ended in by_id and not (exclusion.is_by_rule and by_id[ending].is_past):
            effects_by_id[ended] += _derive_effects(by_id[ending], by_id[ended], exclusion)
    for id, effects in effects_by_id.items():
        effects.sort(key=_compute_effect_sort_key)
        if by_id[id].is_past:  # it ended by itself, but it may turn out never to have been
            effects_by_id[id] = [effect for effect in effects if effect.cause.op == "RETRACT"]
    outcomes = PlanOutcomes(by_id, effects_by_id)
    periods = {}
    for id, claim in by_id.items():
        final_effects = sorted(
            (outcome for effect in effects_by_id[id] for outcome in outcomes.follow_effect(effect, claim)),
            key=_compute_effect_sort_key,
        )
        periods[id] = _split_periods(claim, final_effects, by_id)
    return _apply_dependencies(periods, by_id, dependencies)


def _derive_effects(ending: Claim, ended_claim: Claim, exclusion: Exclusion) -> Iterator[Effect]:
    """Yield when the sources of one claim end the other; unverified sources end nothing.

    A plan replaces another as soon as it is said, whatever its own day.
    """
    is_at_once = ended_claim.is_intent and ending.is_intent
    proposition = ending.proposition
    start = (None, None) if is_at_once else (proposition.valid_from, proposition.valid_from_precision)
    for point, source in ending.list_ending_points(ended_claim):
        if not source.is_verified:
            continue
        simultaneous = (
            []
            if exclusion.is_by_rule
            else [at for at, other in ended_claim.observations if _is_simultaneous(other, source)]
        )
        if simultaneous and exclusion.is_reverse:
            continue
        if simultaneous:
            at, said_at, seq, turn_id, offset = simultaneous[-1]
            point = max(point, (at, said_at, seq, turn_id, offset + 0.5))  # right after the last words of what it ends
        yield Effect(point, EndCause(ending.id, source, exclusion.op), *start, is_void=ended_claim.withstands(source))


def _is_simultaneous(source: Source, other: Source) -> bool:
    """Whether both were said in one session, so close together that their order says nothing.

    The owner's words are no conversation: their order counts.
    """
    is_same_session = bool(source.session_id) and source.session_id == other.session_id and not source.is_owner
    return is_same_session and abs(source.at - other.at) <= SIMULTANEITY_GAP


def _split_periods(claim: Claim, effects: Sequence[Effect], claims: Mapping[str, Claim]) -> list[Period]:
    real, void = ([effect for effect in effects if effect.is_void is is_void] for is_void in (False, True))
    retraction_points = (compute_retraction_point(retraction.at) for retraction in claim.retractions)
    breaks = [*(effect.point for effect in real), *retraction_points]
    return [
        _retract_period(_compute_period(claim, observations, real, void, claims), claim)
        for observations in split_observations(claim, breaks)
    ]


def _retract_period(period: Period, claim: Claim) -> Period:
    """Retract the period if the owner said so of a fact that it holds; what is said afterwards is another period."""
    keys = {source.key for source in period.sources}
    moments = [retraction.at for retraction in claim.retractions if not keys.isdisjoint(retraction.source_keys)]
    if not moments:
        return period
    until, precision = period.standing.valid_to, period.standing.valid_to_precision
    end: PeriodEnd = (min(moments), "time") if until is None or until > min(moments) else (until, precision)
    return replace(period, standing=Standing("retracted", *end), is_retracted=True)


def _compute_period(
    claim: Claim,
    observations: Sequence[tuple[TimelinePoint, Source]],
    effects: Sequence[Effect],
    void_effects: Sequence[Effect],
    claims: Mapping[str, Claim],
) -> Period:
    last = observations[-1][0]
    later_effects = [effect for effect in effects if effect.point > last]
    ends = [_compute_period_end(last, effect) for effect in later_effects[:1]]
    end = min([*_find_stated_end(claim, observations), *ends], default=None, key=lambda end: end[0])
    # Every claim that excludes this one is a cause, by its first later source. A correction retracts the period that
    # stood when it was made, not one that had ended before.
    causes = {effect.cause.claim_id: effect.cause for effect in reversed(later_effects)}
    if later_effects and claims[later_effects[0].cause.claim_id].proposition.is_correction:
        causes[later_effects[0].cause.claim_id] = replace(later_effects[0].cause, op="RETRACT")
    end_causes = tuple(causes[id] for id in sorted(causes))
    state: FactState = "current"
    if end_causes:
        state = "retracted" if any(cause.op == "RETRACT" for cause in end_causes) else "superseded"
    return Period(
        claim.id,
        tuple(source for _, source in observations),
        Standing(state, *(end or ())),
        end_causes,
        tuple(effect.cause for effect in void_effects if effect.point > observations[0][0]),
    )


def _find_stated_end(claim: Claim, observations: Sequence[tuple[TimelinePoint, Source]]) -> Iterator[PeriodEnd]:
    """Yield the end that the claim itself states, or when it was last said if that was later."""
    proposition = claim.proposition
    since, until = proposition.valid_from, proposition.valid_to
    if until is None or (since is not None and until < since):
        return
    last = max(source.at for _, source in observations)
    if last > until and not (claim.is_past or claim.is_intent):
        yield last, "time"
    else:
        yield until, proposition.valid_to_precision


def _compute_period_end(last: TimelinePoint, effect: Effect) -> PeriodEnd:
    """Return the effective date of the effect, or when it was said if that date precedes the last observation."""
    if effect.effective_from is not None and effect.effective_from > last[0]:
        return effect.effective_from, effect.precision
    return effect.point[0], "time"


def _compute_effect_sort_key(effect: Effect) -> tuple[TimelinePoint, str]:
    return effect.point, effect.cause.claim_id


def find_period_at(periods: Sequence[Period], at: datetime) -> Period:
    """Return the last of a claim's periods that had begun by then, or the last of all if none had."""
    return ([period for period in periods if period.sources[0].at <= at] or periods)[-1]


def _apply_dependencies(
    periods_by_id: Mapping[str, list[Period]], claims: Mapping[str, Claim], dependencies: Iterable[tuple[str, str]]
) -> dict[str, list[Period]]:
    """Let periods that have ended end no later than what they rested on."""
    bases: dict[str, list[str]] = {}
    for id, base in sorted(set(dependencies)):
        claim = claims.get(base)
        is_assertion = claim is not None and claim.proposition.modality == "asserted" and claim.sources
        if id in periods_by_id and id != base and not claims[id].is_intent and is_assertion:
            bases.setdefault(id, []).append(base)
    new_periods = dict(periods_by_id)
    for _ in range(MAX_DEPENDENCY_DEPTH if bases else 0):
        before = dict(new_periods)
        for id, base_ids in bases.items():
            new_periods[id] = [
                _shorten_period(
                    period,
                    claims[id],
                    [find_period_at(before[base], period.sources[0].at).standing for base in base_ids],
                )
                for period in periods_by_id[id]
            ]
    return new_periods


def _shorten_period(period: Period, claim: Claim, bases: Sequence[Standing]) -> Period:
    """End the period with the first of its bases to end, unless it was observed after that."""
    until = period.standing.valid_to
    if period.standing.state != "superseded" or until is None:
        return period
    last = max(point[0] for point, source in claim.observations if source in period.sources)
    ends = [
        (base.valid_to, base.valid_to_precision)
        for base in bases
        if base.state != "retracted" and base.valid_to is not None and last < base.valid_to < until
    ]
    earliest = min(ends, default=None, key=lambda end: end[0])
    return period if earliest is None else replace(period, standing=Standing("superseded", *earliest))
