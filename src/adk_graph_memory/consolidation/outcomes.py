"""What came of plans: an ending by a plan counts only where the plan still stood when its day came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from adk_graph_memory.consolidation.strands import Effect, Moment, Strand, moment_of, periods
from adk_graph_memory.records import Precision, Source
from adk_graph_memory.records.dates import days_of, end_of, lie_within
from adk_graph_memory.records.plan import STATES


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of each plan, told from the words that ended it.

    A plan that another of the same kind replaced leaves that one its place. One that was carried out ends things on
    the day that this is said to have been, if that is said. One that was denied, taken back or given up for something
    else before its day was over ends nothing.

    Args:
        strands: all that was said.
        effects: what ends each of them, earliest first.
    """

    strands: Mapping[str, Strand]
    effects: Mapping[str, Sequence[Effect]]

    def follow_effect(self, effect: Effect, on: Strand) -> Iterator[Effect]:
        """What an effect on a strand comes to; of whatever is no plan for the world it is what it is."""
        plan = self.strands[effect.ended.strand]
        if on.is_intent or not plan.is_intent:
            yield effect
        else:
            yield from self._follow_plan(effect, plan, effect.ended.source, on, since=None)

    def _follow_plan(
        self, effect: Effect, plan: Strand, said: Source, on: Strand, since: Moment | None
    ) -> Iterator[Effect]:
        end = self._end(plan, said, since)
        if end is None:
            yield effect
            return
        by, outcome = self.strands[end.ended.strand], end.ended.source
        known = effect._replace(ended=replace(effect.ended, outcome=outcome))
        if _is_outcome_of(by, plan) and not by.says_same(on):
            yield from _carried_out(known, said, by, end.moment)
        elif _is_kept(effect, end, by, on):
            yield effect
        elif by.is_intent and _is_of_one_slot(by, plan) and not by.says_same(on):
            begins = by.proposition.valid_from, by.proposition.valid_from_precision
            day, precision = begins if begins[0] else (effect.begins, effect.precision)
            instead = Effect(moment_of(outcome, day), known.ended, day, precision)
            yield from self._follow_plan(instead, by, outcome, on, since=end.moment)
        else:
            yield known._replace(is_void=True)

    def _end(self, plan: Strand, said: Source, since: Moment | None) -> Effect | None:
        """What ended the plan first after it was spoken of in these words, and after a moment."""
        ends = self.effects[plan.id]
        period = next(one for one in periods(plan, ends) if any(source == said for _, source in one))
        last = period[-1][0] if since is None else max(period[-1][0], since)
        return next((end for end in ends if end.moment > last), None)


def _is_kept(effect: Effect, end: Effect, by: Strand, on: Strand) -> bool:
    """Whether the plan's day was over when it ended, or had come and what ended it does not deny that it was kept."""
    if end.ended.how == "RETRACT" or by.proposition.correction:
        return False
    if effect.begins is not None and end.moment[0] >= _day_after(effect.begins, effect.precision):
        return True
    is_denial = by.is_intent or by.proposition.modality == "negated" or by.says_same(on)
    return end.moment >= effect.moment and not is_denial


def _day_after(begins: datetime, precision: Precision | None) -> datetime:
    try:
        return end_of(begins, precision)
    except OverflowError:
        return begins


def _is_of_one_slot(one: Strand, other: Strand) -> bool:
    mine, theirs = one.proposition, other.proposition
    return mine.predicate != STATES and (mine.subject, mine.predicate) == (theirs.subject, theirs.predicate)


def _is_outcome_of(by: Strand, plan: Strand) -> bool:
    objects = by.proposition.object, plan.proposition.object
    is_of_it = _is_of_one_slot(by, plan) or (objects[0] is not None and objects[0] == objects[1])
    return is_of_it and by.proposition.modality == "asserted"


def _carried_out(effect: Effect, said: Source, by: Strand, heard: Moment) -> Iterator[Effect]:
    """The day tells itself where what came of the plan names another; else it is the plan's, or that of the news."""
    begins, precision = by.proposition.valid_from, by.proposition.valid_from_precision
    if begins is None:
        yield effect if heard >= effect.moment else Effect(heard, effect.ended)
    elif effect.begins and lie_within(days_of(effect.begins, effect.precision), days_of(begins, precision)):
        yield effect
    else:
        yield Effect(moment_of(said, begins), effect.ended, begins, precision)
        yield Effect(heard, effect.ended, begins, precision)
