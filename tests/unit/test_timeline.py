"""When facts end: whatever was said in whatever order, no fact ends before it was last said to be so, and a plan that
was called off ends nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.consolidation.claims import Claim, Exclusion, Exclusions
from adk_graph_memory.consolidation.timeline import Period, compute_periods, find_period_at
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.facts import Proposition

START = datetime(2024, 1, 1, 12, tzinfo=UTC)
days = st.integers(0, 40)
modalities = st.sampled_from(["asserted", "asserted", "negated", "planned", "reported", "hypothetical"])


def day(number: int) -> datetime:
    return START + timedelta(days=number)


@st.composite
def strands(draw: st.DrawFn, id: str) -> Claim:
    since, until = draw(st.none() | days), draw(st.none() | days)
    sources = tuple(
        Source(f"{id}{n}", f"{id} {n}", 0, 3, day(at), n, draw(st.sampled_from(["s1", "s2"])))
        for n, at in enumerate(draw(st.lists(days, max_size=4)))
    )
    proposition = Proposition(
        text=id,
        predicate="lives_in",
        subject="ada",
        object=id,
        at=min((source.at for source in sources), default=START),
        modality=draw(modalities),
        valid_from=None if since is None else day(since),
        valid_to=None if until is None else day(until),
        is_correction=draw(st.booleans()),
    )
    return Claim(id, proposition, sources)


History = tuple[list[Claim], Exclusions, set[tuple[str, str]]]


@st.composite
def draw_history(draw: st.DrawFn) -> History:
    known = [draw(strands(id)) for id in "abc"]
    pairs = draw(st.lists(st.permutations("abc").map(lambda ids: (ids[0], ids[1])), max_size=4))
    exclusions = {
        pair: Exclusion(draw(st.sampled_from(["SUPERSEDE", "RETRACT"])), draw(st.booleans()), draw(st.booleans()))
        for pair in pairs
    }
    rests = draw(st.sets(st.permutations("abc").map(lambda ids: (ids[0], ids[1])), max_size=3))
    return known, exclusions, rests


def timed(known: History) -> dict[str, tuple[Claim, list[Period]]]:
    periods_by_claim = compute_periods(*known)
    return {strand.id: (strand, periods_by_claim[strand.id]) for strand in known[0]}


histories = draw_history().map(timed)


@given(histories)
def test_no_fact_ends_before_it_was_last_said(history: dict[str, tuple[Claim, list[Period]]]) -> None:
    for strand, periods in history.values():
        for run in periods:
            until = run.standing.valid_to
            if until is not None and not (strand.is_past or strand.is_intent):
                assert until >= max(source.at for source in run.sources)


@given(histories)
def test_no_interval_is_inverted(history: dict[str, tuple[Claim, list[Period]]]) -> None:
    for strand, periods in history.values():
        since = strand.proposition.valid_from
        for run in periods:
            until = run.standing.valid_to
            if since is not None and until is not None and not strand.is_intent:
                assert since <= until


@given(histories)
def test_an_end_has_a_precision_and_nothing_else_does(history: dict[str, tuple[Claim, list[Period]]]) -> None:
    for _, periods in history.values():
        for run in periods:
            assert run.standing.valid_to is not None or run.standing.valid_to_precision is None


@given(draw_history(), st.randoms(use_true_random=False))
def test_it_makes_no_difference_in_which_order_it_was_learned(known: History, chance: random.Random) -> None:
    said, exclusions, rests = known
    turned = [replace(strand, sources=strand.sources[::-1]) for strand in chance.sample(said, len(said))]
    again = compute_periods(turned, dict(chance.sample(sorted(exclusions.items()), len(exclusions))), rests)
    assert again == compute_periods(said, exclusions, rests)


@given(histories)
def test_what_nothing_ended_is_open_and_what_a_plan_ended_it_was_not_called_off_for(
    history: dict[str, tuple[Claim, list[Period]]],
) -> None:
    for strand, periods in history.values():
        for run in periods:
            assert (run.standing.state == "current") == (not run.end_causes)
            assert not set(run.end_causes) & set(run.void_causes)
            assert not (strand.is_intent and run.void_causes)
            assert all(history[off.claim_id][0].is_intent for off in run.void_causes)


@given(draw_history())
def test_what_has_ended_ended_no_later_than_what_it_rested_on(known: History) -> None:
    history = timed(known)
    for id, base in known[2]:
        (strand, periods), (other, bases) = history[id], history[base]
        decides = bases and other.proposition.modality == "asserted" and not strand.is_intent
        for run in periods if decides else ():
            on, since = find_period_at(bases, run.sources[0].at).standing, strand.proposition.valid_from
            last = max([source.at for source in run.sources] + ([since] if since else []))
            if run.standing.state == "superseded" and on.state != "retracted" and on.valid_to and on.valid_to > last:
                assert run.standing.valid_to is not None
                assert run.standing.valid_to <= on.valid_to


def source(number: int) -> Source:
    return Source(f"t{number}", "at Tom's", 0, 8, day(number), number, f"s{number}")


def test_what_is_said_again_after_its_end_was_so_until_then() -> None:
    proposition = Proposition(
        text="Ada stays at Tom's", predicate="stays_with", subject="ada", object="tom", at=day(1), valid_to=day(5)
    )
    [run] = compute_periods([Claim("a", proposition, (source(1), source(8)))], {})["a"]
    assert (run.standing.valid_to, run.standing.valid_to_precision) == (day(8), "time")
    [run] = compute_periods([Claim("a", proposition, (source(1), source(4)))], {})["a"]
    assert run.standing.valid_to == day(5)
    [run] = compute_periods([Claim("a", proposition, (source(8), source(9)))], {})["a"]
    assert run.standing.valid_to == day(5)


def test_words_that_were_said_at_once_part_no_period() -> None:
    rome, oslo = (
        Claim(id, Proposition(text=id, predicate="lives_in", subject="ada", object=id, at=day(1)), sources)
        for id, sources in (("rome", (source(1), source(5))), ("oslo", (source(1),)))
    )
    [run] = compute_periods([rome, oslo], {("oslo", "rome"): Exclusion("SUPERSEDE", is_by_rule=True)})["rome"]
    assert (run.standing.state, run.sources) == ("current", rome.sources)


# -- what came of plans -----------------------------------------------------------------------------------------

MOVE = {"object": "rome", "modality": "planned", "valid_from": day(60), "valid_from_precision": "day"}


def make_strand(id: str, at: int, **more: Any) -> Claim:
    given = {"predicate": "lives_in", "subject": "ada", "object": id, **more}
    return Claim(id, Proposition(text=id, at=day(at), **given), (source(at),))


def home(*after: Claim, plan: Mapping[str, Any] = MOVE, **ends: str) -> tuple[str, int | None, str | None]:
    """State and end of where Ada lived once she plans to move, and of each plan by what ended it."""
    known = [make_strand("porto", 1), make_strand("plan", 10, **plan), *after]
    exclusions = {("plan", "porto"): Exclusion("SUPERSEDE")}
    exclusions |= {(by, ended): Exclusion("SUPERSEDE") for by, ended in ends.items()}
    [run] = compute_periods(known, exclusions)["porto"]
    until = run.standing.valid_to
    return run.standing.state, (until - START).days if until else None, run.standing.valid_to_precision


OPEN = ("current", None, None)


def test_a_plan_ends_what_is_so_on_its_day() -> None:
    assert home() == ("superseded", 60, "day")


@pytest.mark.parametrize(
    "off",
    [
        {"object": "rome", "modality": "negated"},
        {"object": "porto"},
        {"object": "tom", "predicate": "married_to"},
        {"object": "cello", "predicate": "plans_to", "modality": "planned"},
        {"object": "porto", "modality": "planned"},
    ],
)
def test_a_plan_that_was_called_off_before_its_day_ends_nothing(off: dict[str, Any]) -> None:
    assert home(make_strand("off", 30, **off), off="plan") == OPEN


def test_a_plan_without_a_day_is_called_off_at_any_time() -> None:
    undated = {"object": "rome", "modality": "planned"}
    assert home(plan=undated) == ("superseded", 10, "time")
    assert home(make_strand("off", 90, object="rome", modality="negated"), plan=undated, off="plan") == OPEN
    assert home(make_strand("off", 90, object="tom", predicate="likes"), plan=undated, off="plan") == (
        "superseded",
        10,
        "time",
    )


def test_a_plan_for_a_month_is_called_off_until_the_month_is_over() -> None:
    month = {**MOVE, "valid_from": datetime(2024, 3, 1, tzinfo=UTC), "valid_from_precision": "month"}
    assert home(plan=month) == ("superseded", 59, "month")
    for at, standing in ((70, OPEN), (95, ("superseded", 59, "month"))):
        assert home(make_strand("off", at, object="rome", modality="negated"), plan=month, off="plan") == standing


def test_a_plan_for_an_estimated_day_is_called_off_until_that_day_is_surely_over() -> None:
    about = {**MOVE, "valid_from_precision": "about"}
    for at, standing in ((63, OPEN), (70, ("superseded", 60, "about"))):
        assert home(make_strand("off", at, object="rome", modality="negated"), plan=about, off="plan") == standing


def test_what_denies_a_plan_after_its_day_leaves_what_it_ended() -> None:
    assert home(make_strand("off", 90, object="rome", modality="negated"), off="plan") == ("superseded", 60, "day")


def test_who_never_had_a_plan_did_not_end_anything_by_it() -> None:
    never = make_strand("never", 90, object="rome", modality="negated", is_correction=True)
    assert home(never, never="plan") == OPEN


def test_another_plan_of_the_same_kind_takes_the_place_of_a_plan() -> None:
    athens = make_strand("athens", 30, **{**MOVE, "object": "athens", "valid_from": day(80)})
    assert home(athens, athens="plan") == ("superseded", 80, "day")
    undated = make_strand("athens", 30, object="athens", modality="planned")
    assert home(undated, athens="plan") == ("superseded", 60, "day")
    off = make_strand("off", 40, object="athens", modality="negated")
    assert home(athens, off, athens="plan", off="athens") == OPEN


@pytest.mark.parametrize(
    ("news", "found"),
    [
        ({"valid_from": day(67), "valid_from_precision": "day"}, ("superseded", 67, "day")),
        ({"valid_from": day(31), "valid_from_precision": "month"}, ("superseded", 31, "month")),
        ({"valid_from": datetime(2024, 3, 1, tzinfo=UTC), "valid_from_precision": "month"}, ("superseded", 60, "day")),
        ({}, ("superseded", 60, "day")),
        ({"object": "rome", "predicate": "moved_to", "valid_from": day(67)}, ("superseded", 67, "time")),
    ],
)
def test_what_came_of_a_plan_tells_the_day(news: dict[str, Any], found: tuple[str, int, str]) -> None:
    assert home(make_strand("rome", 100, **news), rome="plan") == found


def test_what_came_of_a_plan_before_its_day_ends_things_when_it_was_heard() -> None:
    assert home(make_strand("rome", 40), rome="plan") == ("superseded", 40, "time")


def test_a_plan_that_is_taken_up_again_ends_what_it_was_to_end() -> None:
    porto, off = make_strand("porto", 1), make_strand("off", 30, object="rome", modality="negated")
    plan = replace(make_strand("plan", 10, **MOVE), sources=(source(10), source(40)))
    ends = {("plan", "porto"): Exclusion("SUPERSEDE"), ("off", "plan"): Exclusion("SUPERSEDE")}
    [run] = compute_periods([porto, plan, off], ends)["porto"]
    assert (run.standing.state, run.standing.valid_to) == ("superseded", day(60))
    assert [cause.source.at for cause in (*run.end_causes, *run.void_causes)] == [day(40), day(10)]


# -- what rests on what -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "until"),
    [
        ({"valid_to": day(40), "valid_to_precision": "day"}, 40),
        ({"valid_to": day(80)}, 60),
        ({"valid_to": day(20)}, 60),
        ({"valid_to": day(40), "modality": "planned"}, 60),
        ({"valid_to": day(40), "modality": "reported"}, 60),
        ({}, 60),
    ],
)
def test_what_was_superseded_ended_with_what_it_rested_on(base: dict[str, Any], until: int) -> None:
    office, job, next_job = make_strand("office", 30), make_strand("job", 1, **base), make_strand("next", 60)
    known = [office, job, next_job]
    [run] = compute_periods(known, {("next", "office"): Exclusion("SUPERSEDE")}, {("office", "job")})["office"]
    assert (run.standing.state, run.standing.valid_to) == ("superseded", day(until))
    [alone] = compute_periods(known, {}, {("office", "job")})["office"]
    assert alone.standing.state == "current"


def test_what_was_superseded_ended_with_the_period_it_rested_on() -> None:
    job = replace(make_strand("job", 1), sources=(source(1), source(70)))
    known = [make_strand("office", 30), job, make_strand("quit", 40), make_strand("next", 60)]
    ends = {("next", "office"): Exclusion("SUPERSEDE"), ("quit", "job"): Exclusion("SUPERSEDE")}
    [run] = compute_periods(known, ends, {("office", "job")})["office"]
    assert (run.standing.state, run.standing.valid_to) == ("superseded", day(40))


def state_residence(id: str, at: int, author: str, origin: Any = "user") -> Claim:
    source = replace(Source(id, id, 0, 3, day(at), session_id=id), author=author, origin=origin)
    return Claim(
        id,
        Proposition(text=id, predicate="lives_in", subject="ana", object=id, at=day(at), is_functional=True),
        (source,),
    )


@pytest.mark.parametrize(
    ("ended", "ending", "state"),
    [
        (("ana", "user"), ("ana", "user"), "superseded"),
        (("ana", "user"), ("ben", "user"), "current"),
        (("ana", "user"), ("", "owner"), "superseded"),
        (("ana", "user"), ("companion", "agent"), "current"),
        (("ana", "user"), ("calendar", "tool"), "current"),
        (("", "owner"), ("companion", "agent"), "current"),
        (("", "import"), ("companion", "agent"), "current"),
        (("ana", "user"), ("", "import"), "superseded"),
        (("companion", "agent"), ("ben", "user"), "superseded"),
        (("companion", "agent"), ("calendar", "tool"), "superseded"),
        (("", "owner"), ("ben", "user"), "superseded"),
    ],
)
def test_a_person_s_words_end_what_the_same_person_or_no_person_stated_and_an_agent_s_what_agents_did(
    ended: tuple[str, str], ending: tuple[str, str], state: str
) -> None:
    claims = [state_residence("porto", 0, *ended), state_residence("faro", 5, *ending)]
    [period] = compute_periods(claims, {("faro", "porto"): Exclusion("SUPERSEDE", is_by_rule=True)})["porto"]
    assert period.standing.state == state
    assert len(period.void_causes) == (state == "current")


def test_another_s_plan_ends_nothing_either_once_it_is_carried_out() -> None:
    plan = state_residence("plan", 2, "ben")
    plan = replace(plan, proposition=replace(plan.proposition, modality="planned", valid_from=day(4), object="faro"))
    claims = [state_residence("porto", 0, "ana"), plan, state_residence("faro", 5, "ben")]
    exclusions = {
        ("plan", "porto"): Exclusion("SUPERSEDE"),
        ("faro", "plan"): Exclusion("SUPERSEDE", is_by_rule=True),
    }
    [period] = compute_periods(claims, exclusions)["porto"]
    assert period.standing.state == "current"
