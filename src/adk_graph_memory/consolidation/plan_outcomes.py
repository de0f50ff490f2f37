"""Work out what came of plans: a plan ends a fact only if it still stood when its day came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from adk_graph_memory.consolidation.claims import Claim, Effect, TimelinePoint, make_timeline_point, split_observations
from adk_graph_memory.records import Source
from adk_graph_memory.records.dates import compute_date_end, compute_day_range, is_day_range_within
from adk_graph_memory.records.write_plan import STATES_PREDICATE


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
            new_effect = Effect(make_timeline_point(outcome, day), effect_with_outcome.cause, day, precision)
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
    if day is not None and end.point[0] >= compute_date_end(day, effect.precision):
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
        yield Effect(make_timeline_point(source, start), effect.cause, start, precision)
        yield Effect(point, effect.cause, start, precision)
