"""What came of plans: an ending by a plan counts only where the plan still stood when its day came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from adk_graph_memory.consolidation.claims import Claim, Effect, TimelinePoint, make_timeline_point, split_observations
from adk_graph_memory.records import Precision, Source
from adk_graph_memory.records.dates import compute_date_end, compute_day_range, is_day_range_within
from adk_graph_memory.records.write_plan import STATES_PREDICATE


@dataclass(frozen=True, slots=True)
class PlanOutcomes:
    """What came of each plan, told from the words that ended it.

    A plan that another of the same kind replaced leaves that one its place. One that was carried out ends things on
    the day that this is said to have been, if that is said. One that was denied, taken back or given up for something
    else before its day was over ends nothing.

    Args:
        strands: all that was said.
        effects: what ends each of them, earliest first.
    """

    claims: Mapping[str, Claim]
    effects: Mapping[str, Sequence[Effect]]

    def follow_effect(self, effect: Effect, on: Claim) -> Iterator[Effect]:
        """What an effect on a strand comes to; of whatever is no plan for the world it is what it is."""
        plan = self.claims[effect.cause.claim_id]
        if on.is_intent or not plan.is_intent:
            yield effect
        else:
            yield from self._follow_plan(effect, plan, effect.cause.source, on, since=None)

    def _follow_plan(
        self, effect: Effect, plan: Claim, said: Source, on: Claim, since: TimelinePoint | None
    ) -> Iterator[Effect]:
        end = self._find_plan_end(plan, said, since)
        if end is None:
            yield effect
            return
        by, outcome = self.claims[end.cause.claim_id], end.cause.source
        known = effect._replace(cause=replace(effect.cause, outcome=outcome))
        if _is_plan_outcome(by, plan) and not by.has_same_meaning(on):
            yield from _apply_fulfillment(known, said, by, end.point)
        elif _is_plan_kept(effect, end, by, on):
            yield effect
        elif by.is_intent and _is_same_attribute(by, plan) and not by.has_same_meaning(on):
            begins = by.proposition.valid_from, by.proposition.valid_from_precision
            day, precision = begins if begins[0] else (effect.effective_from, effect.precision)
            instead = Effect(make_timeline_point(outcome, day), known.cause, day, precision)
            yield from self._follow_plan(instead, by, outcome, on, since=end.point)
        else:
            yield known._replace(is_void=True)

    def _find_plan_end(self, plan: Claim, said: Source, since: TimelinePoint | None) -> Effect | None:
        """What ended the plan first after it was spoken of in these words, and after a moment."""
        ends = self.effects[plan.id]
        period = next(one for one in split_observations(plan, ends) if any(source == said for _, source in one))
        last = period[-1][0] if since is None else max(period[-1][0], since)
        return next((end for end in ends if end.point > last), None)


def _is_plan_kept(effect: Effect, end: Effect, by: Claim, on: Claim) -> bool:
    """Whether the plan's day was over when it ended, or had come and what ended it does not deny that it was kept."""
    if end.cause.op == "RETRACT" or by.proposition.is_correction:
        return False
    if effect.effective_from is not None and end.point[0] >= _compute_day_after(
        effect.effective_from, effect.precision
    ):
        return True
    is_denial = by.is_intent or by.proposition.modality == "negated" or by.has_same_meaning(on)
    return end.point >= effect.point and not is_denial


def _compute_day_after(begins: datetime, precision: Precision | None) -> datetime:
    try:
        return compute_date_end(begins, precision)
    except OverflowError:
        return begins


def _is_same_attribute(one: Claim, other: Claim) -> bool:
    mine, theirs = one.proposition, other.proposition
    return mine.predicate != STATES_PREDICATE and (mine.subject, mine.predicate) == (theirs.subject, theirs.predicate)


def _is_plan_outcome(by: Claim, plan: Claim) -> bool:
    objects = by.proposition.object, plan.proposition.object
    is_of_it = _is_same_attribute(by, plan) or (objects[0] is not None and objects[0] == objects[1])
    return is_of_it and by.proposition.modality == "asserted"


def _apply_fulfillment(effect: Effect, said: Source, by: Claim, heard: TimelinePoint) -> Iterator[Effect]:
    """The day tells itself where what came of the plan names another; else it is the plan's, or that of the news."""
    begins, precision = by.proposition.valid_from, by.proposition.valid_from_precision
    if begins is None:
        yield effect if heard >= effect.point else Effect(heard, effect.cause)
    elif effect.effective_from and is_day_range_within(
        compute_day_range(effect.effective_from, effect.precision), compute_day_range(begins, precision)
    ):
        yield effect
    else:
        yield Effect(make_timeline_point(said, begins), effect.cause, begins, precision)
        yield Effect(heard, effect.cause, begins, precision)
