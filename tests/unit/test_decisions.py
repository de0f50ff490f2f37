"""What a judge's reply may change: nothing is lost or ended by a number that is one off."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.genai import types

from adk_graph_memory.consolidation import judge
from adk_graph_memory.consolidation.comparison import Comparison, compare_extraction
from adk_graph_memory.consolidation.decisions import Decision, JudgeDecisions
from adk_graph_memory.consolidation.judge import ConsolidationReply
from adk_graph_memory.consolidation.reconciliation import reconcile_claims
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Candidates, Delta, Fact, FactLink, KnownEntity, Ruling
from adk_graph_memory.runtime.settings import Limits
from adk_graph_memory.testing import ScriptedLlm, make_text_response

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PEOPLE = tuple(ExtractedEntity(ref, name, "person") for ref, name in ((1, "Ada"), (2, "Tom"), (3, "Ben"), (4, "Eve")))


def fact(text: str, at: datetime = NOON, **more: Any) -> ExtractedFact:
    sources = (Source(f"t{at.day}", text, 0, len(text), at, session_id=f"s{at.day}"),)
    values = {"subject": 1, "predicate": "keeps", "object": None, "speaker": "ada", "ref": at.day}
    return ExtractedFact(**{**values, "text": text, "sources": sources, "at": at, **more})


def judged(known: ExtractedFact, new: ExtractedFact, **op: Any) -> Delta:
    """What becomes of a new fact and a known one once a model has said this of them: 0 is the new one, 1 the known."""
    before = reconcile_claims(compare_extraction(Extraction(PEOPLE, (known,)), Candidates())).facts[0].fact
    held = Fact(before.id, before.proposition, before.sources)
    draft = compare_extraction(
        Extraction(PEOPLE, (new,)), Candidates(facts=(held,), similar_ids={new.text: (held.id,)}, recent_ids=(held.id,))
    )
    question_ids = [*(question.claim_id for question in draft.open_questions), before.proposition.signature]
    reply = ConsolidationReply.model_validate({"ops": [{"fact": 0, "targets": [1], **op}]})
    return reconcile_claims(draft, judge.parse_decisions(reply, draft, question_ids, []))


BEES = fact("Ada keeps bees")
HIVES = fact("Ada keeps bees in 3 hives", NOON + DAY)


def test_what_is_already_known_supports_what_says_more() -> None:
    plan = judged(HIVES, fact("Ada has bees", NOON + 2 * DAY), op="ALREADY_KNOWN")
    [planned_fact] = plan.facts
    assert (planned_fact.is_new, planned_fact.is_reworded, len(planned_fact.added_sources), plan.operation_counts) == (
        False,
        False,
        1,
        {"ALREADY_KNOWN": 1},
    )


def test_one_amount_in_two_spellings_is_one(subtests: pytest.Subtests) -> None:
    for known, new in [
        ("Ada keeps 1,500 euros", "Ada keeps €1.500 there"),
        ("Ada keeps two cats", "Ada still keeps 2 cats"),
        ("Ada keeps shop from 9:00", "Ada keeps shop from 9 on"),
        ("Ada keeps +43 664 555 0127", "Ada keeps 0664/5550127, still"),
        ("Ada keeps 5.0/5", "Ada keeps 5/5 stars"),
    ]:
        with subtests.test(known=known, new=new):
            plan = judged(fact(known), fact(new, NOON + DAY), op="REINFORCE")
            assert (plan.operation_counts, plan.drop_counts) == ({"REINFORCE": 1}, {})


def compare_values(known: str, new: str, predicate: str) -> list[str]:
    """The states of two facts of a predicate that has one value at a time, without a judge."""
    facts = fact(known, predicate=predicate), fact(new, NOON + DAY, predicate=predicate)
    compared = compare_extraction(Extraction(PEOPLE, facts), Candidates(), functional_predicates={predicate})
    return sorted(one.fact.standing.state for one in reconcile_claims(compared).facts)


def test_a_telephone_number_is_a_value_whatever_the_words_where_a_predicate_names_one() -> None:
    for known, new, states in [
        ("Ada's is +43 664 555 0127", "Call Ada at 0664 5550127", ["current"]),
        ("Ada's is (212) 555-0123", "Ada's is (312) 555-0123", ["current", "superseded"]),
        ("Ada's is 0800 5550199", "Ada's is 0900 5550199", ["current", "superseded"]),
        ("Ada's is 1-212-555-0123", "Ada's is +1 212 555 0123 now", ["current"]),
    ]:
        assert compare_values(known, new, "phone_number") == states
    both = compare_values("Ada's is Oak Street, tel. 030 1234567", "Ada's is Elm Street, tel. 030 1234567", "lives_at")
    assert both == ["current", "current"]


def test_with_one_value_at_a_time_only_another_value_ends_what_was_so(subtests: pytest.Subtests) -> None:
    """In other words with the same amounts, both stand until a judge has looked at them."""
    for known, new, expected in [
        ("Ada's is Oak Street, San Francisco 94110", "Ada's is Pine Street, San Francisco 94110", "both stand"),
        ("Ada's is with the dentist on 2026-03-05", "Ada's is at the eye clinic on 2026-03-05", "both stand"),
        ("Ada earns 52,000 euros", "Ada's salary is 52.000 €", "both stand"),
        ("Ada weighs 80 kg", "Ada's weight is 176 pounds", "both stand"),
        ("Ada is 1.75 m tall", "Ada is 175 cm tall", "both stand"),
        ("Ada likes it at 20 °C", "Ada likes it at 68 °F", "both stand"),
        ("Ada weighs 80 kg", "Ada's weight is 150 pounds", "ended"),
        ("Ada weighs 80 kg", "Ada weighs 80.4 kg", "ended"),
        ("Ada earns 52,000 euros", "Ada earns 52.000 €", "one"),
        ("Ada's is open from 9:00", "Ada's is open from 9", "one"),
        ("Ada earns 52,000 euros", "Ada earns 52,000 francs", "ended"),
        ("Ada's is 1500000 USD", "Ada's is 1500000 EUR", "ended"),
        ("Ada's balance is -125000.50", "Ada's balance is 125000.50", "ended"),
        ("Ada's is 555 0127", "Ada's is 555 0172", "ended"),
        ("Ada is tired", "Ada is awake", "ended"),
    ]:
        with subtests.test(known=known, new=new):
            states = compare_values(known, new, "keeps")
            assert (
                states
                == {
                    "both stand": ["current", "current"],
                    "one": ["current"],
                    "ended": ["current", "superseded"],
                }[expected]
            )


def test_what_is_already_known_by_no_fact_is_added(subtests: pytest.Subtests) -> None:
    for targets in [[], [7], [0], [-1]]:
        with subtests.test(targets=targets):
            plan = judged(BEES, HIVES, op="ALREADY_KNOWN", targets=targets)
            assert plan.operation_counts == {"ADD": 1}
            assert plan.drop_counts["already known, but no fact that says it"] == 1


def test_facts_that_differ_stay_two(subtests: pytest.Subtests) -> None:
    for op in ["ALREADY_KNOWN", "REINFORCE", "REFINE"]:
        for known, new in [
            ({"object": 2}, {"object": 3}),
            ({"text": "Ada keeps 3 hives"}, {"text": "Ada keeps 4 hives"}),
            ({"text": "Ada has 3 hives"}, {"text": "Ada has hives", "subject": 2}),
            ({"valid_from": NOON}, {"valid_from": NOON + DAY}),
            ({"valid_to": NOON}, {"valid_to": NOON + DAY}),
            ({}, {"modality": "negated"}),
            ({"text": "Ada keeps 20 kg"}, {"text": "Ada has 20 lb"}),
            ({"text": "Ada keeps it at -18 °C"}, {"text": "Ada has it at 18 °C"}),
            ({"text": "Ada keeps 52,000 euros"}, {"text": "Ada has 52,000 francs"}),
            (
                {"text": "Ada likes Tom a lot", "predicate": "likes", "object": 2},
                {"text": "Ada hates Tom a lot", "predicate": "hates", "object": 2},
            ),
            (
                {"text": "Ada bought a car on Monday", "predicate": "bought", "object": 2},
                {"text": "Ada sold a car on Monday", "predicate": "sold", "object": 2},
            ),
            (
                {"text": "Ada likes Tom", "predicate": "likes", "object": 2},
                {"text": "Ada teaches Tom", "predicate": "teaches", "object": 2},
            ),
        ]:
            with subtests.test(known=known, new=new, op=op):
                plan = judged(
                    fact(**{"text": "Ada keeps hives", **known}),
                    fact(**{"text": "Ada has hives", "at": NOON + DAY, **new}),
                    op=op,
                )
                assert plan.operation_counts == {"ADD": 1}
                assert sum(plan.drop_counts.values()) == 1


def test_a_fact_is_no_more_exact_than_one_that_says_more() -> None:
    assert judged(HIVES, fact("Ada has bees", NOON + 2 * DAY), op="REFINE").operation_counts == {"ADD": 1}


def test_of_two_that_say_the_same_the_words_with_more_numbers_stand() -> None:
    plan = judged(BEES, HIVES, op="REINFORCE")
    assert [(one.fact.proposition.text, one.is_new) for one in plan.facts] == [("Ada keeps bees in 3 hives", False)]


def test_words_that_nobody_is_known_to_have_said_refine_nothing() -> None:
    guess = replace(HIVES, sources=(replace(HIVES.sources[0], is_verified=False),))
    [kept] = judged(BEES, guess, op="REFINE").facts
    assert (kept.is_new, kept.fact.proposition.text) == (False, "Ada keeps bees")
    [exact] = judged(BEES, HIVES, op="REFINE").facts
    assert exact.fact.proposition.text == "Ada keeps bees in 3 hives"


def test_what_is_known_learns_its_end_from_what_is_more_exact() -> None:
    until = fact("Ada keeps bees until 31 July", NOON + DAY, valid_to=NOON + 80 * DAY)
    [planned_fact] = judged(BEES, until, op="REFINE").facts
    assert (planned_fact.is_new, planned_fact.fact.standing.state, planned_fact.fact.standing.valid_to) == (
        False,
        "current",
        NOON + 80 * DAY,
    )


YEAR = {"valid_from": datetime(2024, 1, 1, tzinfo=UTC), "valid_from_precision": "year"}
MONTH = {"valid_from": datetime(2024, 5, 1, tzinfo=UTC), "valid_from_precision": "month"}
THIRD = {"valid_from": datetime(2024, 5, 3, tzinfo=UTC), "valid_from_precision": "day"}
ABOUT = {"valid_from": datetime(2024, 5, 7, tzinfo=UTC), "valid_from_precision": "about"}
NEXT_YEAR = {"valid_to": datetime(2025, 1, 1, tzinfo=UTC), "valid_to_precision": "year"}
IN_MAY = {"valid_to": datetime(2024, 5, 4, tzinfo=UTC), "valid_to_precision": "day"}


def test_a_day_within_what_was_said_less_exactly_is_a_refinement(subtests: pytest.Subtests) -> None:
    for vague, exact in [
        (YEAR, THIRD),
        (YEAR, MONTH),
        (MONTH, THIRD),
        (NEXT_YEAR, IN_MAY),
        (ABOUT, THIRD),
        (MONTH, ABOUT),
        ({}, THIRD),
    ]:
        with subtests.test(vague=vague, exact=exact):
            first, other = fact("Ada keeps bees", **vague), fact("Ada keeps bees, exactly", NOON + DAY, **exact)
            [planned_fact] = judged(first, other, op="REFINE").facts
            proposition = planned_fact.fact.proposition
            assert (planned_fact.is_new, proposition.valid_from, proposition.valid_to) == (
                False,
                exact.get("valid_from"),
                exact.get("valid_to"),
            )
            assert judged(replace(other, at=NOON), replace(first, at=NOON + DAY), op="REFINE").operation_counts == {
                "ADD": 1
            }


def test_a_day_outside_of_what_was_said_less_exactly_is_another(subtests: pytest.Subtests) -> None:
    for one, other in [
        (YEAR, {**MONTH, "valid_from": NOON}),
        (MONTH, {"valid_from": NOON}),
        (ABOUT, {**THIRD, "valid_from": NOON}),
    ]:
        with subtests.test(one=one, other=other):
            for op in ("REFINE", "REINFORCE", "ALREADY_KNOWN"):
                plan = judged(fact("Ada keeps bees", **one), fact("Ada keeps bees", NOON + DAY, **other), op=op)
                assert (plan.operation_counts, plan.drop_counts) == ({"ADD": 1}, {"merger of facts that differ": 1})


def test_two_estimates_of_one_day_may_be_one_fact() -> None:
    later = {**ABOUT, "valid_from": datetime(2024, 5, 9, tzinfo=UTC)}
    plan = judged(fact("Ada keeps bees", **ABOUT), fact("Ada keeps bees now", NOON + DAY, **later), op="REINFORCE")
    assert plan.operation_counts == {"REINFORCE": 1}


def test_facts_that_share_no_words_beside_the_name_stay_two(subtests: pytest.Subtests) -> None:
    for op in ["ALREADY_KNOWN", "REINFORCE", "REFINE"]:
        for known, new in [
            ({"text": "Ada lives in Whitby", "predicate": "lives_in", "object": 2}, {"text": "Ada's sugar was high"}),
            ({"text": "Ada likes short answers", "predicate": "likes"}, {"text": "Ada likes a room at the back"}),
            (
                {"text": "Ada is a joiner", "predicate": "works_as"},
                {"text": "Ada is away in June", "predicate": "away"},
            ),
            ({"text": "Ada是素食者"}, {"text": "Ada住在三楼"}),
        ]:
            with subtests.test(known=known, new=new, op=op):
                plan = judged(
                    fact(**known),
                    fact(**{"at": NOON + DAY, "predicate": known.get("predicate", "keeps"), **new}),
                    op=op,
                )
                assert (plan.operation_counts, plan.drop_counts) == (
                    {"ADD": 1},
                    {"merger of facts that have little in common": 1},
                )


def test_facts_that_share_words_or_somebody_may_be_one(subtests: pytest.Subtests) -> None:
    for known, new in [
        ({"text": "Ada lives on the third floor"}, {"text": "Ada's flat in Moabit is on the third floor"}),
        ({"text": "The part of Ada's tool that reads is called scraper"}, {"text": "Ada calls the part scraper"}),
        ({"text": "Ada has a heart doctor", "object": 2}, {"text": "Ada sees Tom twice", "object": 2}),
        (
            {"text": "Ada has listened on port 8080 since May"},
            {"text": "Ada still listens on port 8080 after the move"},
        ),
        ({"text": "第一版定于四月上线"}, {"text": "第一版在四月上线"}),
    ]:
        with subtests.test(known=known, new=new):
            plan = judged(fact(**known), fact(**{"at": NOON + DAY, **new}), op="REINFORCE")
            assert plan.operation_counts == {"REINFORCE": 1}


def test_facts_that_have_nothing_but_the_subject_in_common_stay_two() -> None:
    before = reconcile_claims(compare_extraction(Extraction(PEOPLE, (BEES,)), Candidates())).facts[0].fact
    held = Fact(before.id, before.proposition, before.sources)
    tea = fact("Ada likes tea", NOON + DAY, predicate="likes")
    draft = compare_extraction(Extraction(PEOPLE, (tea,)), Candidates(facts=(held,)))
    decision = Decision(draft.open_questions[0].claim_id, "REINFORCE", (before.proposition.signature,))
    plan = reconcile_claims(draft, JudgeDecisions((decision,)))
    assert (plan.operation_counts, plan.drop_counts) == ({"ADD": 1}, {"merger of facts that have little in common": 1})


def hold(*facts: ExtractedFact) -> tuple[Fact, ...]:
    """The facts as a graph holds them."""
    plan = reconcile_claims(compare_extraction(Extraction(PEOPLE, facts), Candidates()))
    return tuple(Fact(one.fact.id, one.fact.proposition, one.fact.sources) for one in plan.facts)


def decide(known: tuple[Fact, ...], new: ExtractedFact, *, links: tuple[FactLink, ...] = (), **reply: Any) -> Delta:
    """What becomes of facts once a model has said this of them: 0 is the new one, from 1 on the known ones."""
    candidates = Candidates(facts=known, links=links, recent_ids=tuple(held.id for held in known))
    draft = compare_extraction(Extraction(PEOPLE, (new,)), candidates)
    asked = [question.claim_id for question in draft.open_questions]
    asked += [held.proposition.signature for held in known]
    parsed = ConsolidationReply.model_validate(reply)
    return reconcile_claims(draft, judge.parse_decisions(parsed, draft, asked, []))


TEA = fact("Ada drinks tea", NOON + 2 * DAY, predicate="drinks")


def test_words_that_say_the_same_twice_are_one_source() -> None:
    [bees] = hold(BEES)
    twice = [replace(HIVES, ref=9, text=text) for text in ("Ada keeps her bees", "Ada keeps bees there")]
    candidates = Candidates(facts=(bees,), recent_ids=(bees.id,))
    draft = compare_extraction(Extraction(PEOPLE, tuple(twice)), candidates)
    decisions = [
        Decision(question.claim_id, "REINFORCE", (bees.proposition.signature,)) for question in draft.open_questions
    ]
    [write] = reconcile_claims(draft, JudgeDecisions(tuple(decisions))).facts
    assert len(decisions) == 2
    assert (write.fact.sources, write.added_sources) == ((*BEES.sources, *HIVES.sources), HIVES.sources)


def test_a_fact_whose_wording_names_both_the_other_way_round_keeps_who_was_who() -> None:
    [married] = hold(fact("Ada married Tom", predicate="married", object=2))
    married = replace(married, former_entity_keys=("countess", None))
    again = fact("Tom married Ada in May", NOON + DAY, predicate="married", subject=2, object=1)
    [write] = decide((married,), again, ops=[{"fact": 0, "op": "REFINE", "targets": [1]}]).facts
    assert (write.is_reworded, write.fact.former_entity_keys) == (True, (None, "countess"))


def test_a_new_fact_takes_no_id_that_a_known_one_has() -> None:
    [bees] = hold(BEES)
    reworded = replace(bees, proposition=replace(bees.proposition, text="Ada breeds bees"), ruling=Ruling(True))
    plan = reconcile_claims(compare_extraction(Extraction(PEOPLE, (BEES,)), Candidates(facts=(reworded,))))
    assert [write.is_new for write in plan.facts] == [True]
    assert bees.id not in {write.fact.id for write in plan.facts}


def test_two_facts_that_the_graph_holds_are_never_made_one() -> None:
    bees, hives = hold(BEES, HIVES)
    ops = [{"fact": 0, "op": "REINFORCE", "targets": [target]} for target in (1, 2)]
    plan = decide((bees, hives), fact("Ada has bees", NOON + 2 * DAY), ops=ops)
    assert plan.drop_counts["merger of two known facts"] == 1
    assert [one.fact.id for one in plan.facts if not one.is_new] in ([bees.id], [hives.id])
    assert all(one.fact.standing.state == "current" for one in plan.facts)


def test_what_a_judge_says_of_known_facts_alone_changes_nothing(subtests: pytest.Subtests) -> None:
    for op in ["REINFORCE", "REFINE", "SUPERSEDE", "RETRACT", "ALREADY_KNOWN"]:
        with subtests.test(op=op):
            bees, hives = hold(BEES, HIVES)
            quotes = [BEES.text, HIVES.text]
            plan = decide((bees, hives), TEA, ops=[{"fact": 2, "op": op, "targets": [1], "quotes": quotes}])
            assert [(one.fact.proposition.text, one.is_new) for one in plan.facts] == [(TEA.text, True)]
            assert (plan.links, plan.revisions) == ((), ())
            assert plan.drop_counts["decision about facts that were not asked about"] == 1


def test_only_what_is_new_comes_to_rest_on_something() -> None:
    bees, hives = hold(BEES, HIVES)
    [tea] = hold(TEA)
    plan = decide((bees, hives), TEA, depends=[{"fact": 2, "on": [1]}, {"fact": 0, "on": [1]}, {"fact": 0, "on": [0]}])
    assert plan.dependencies == ((tea.id, bees.id),)


def test_what_its_speaker_corrects_in_one_breath_was_never_so(subtests: pytest.Subtests) -> None:
    for correction, state in [(True, "retracted"), (False, "superseded")]:
        with subtests.test(correction=correction, state=state):
            slip = fact("Ada keeps bees", ref=1)
            news = fact(
                "Ada drives a van", NOON + DAY, predicate="drives", ref=2, replaces=(1,), is_correction=correction
            )
            extraction = Extraction(PEOPLE, (slip, news))
            plan = reconcile_claims(compare_extraction(extraction, Candidates()))
            assert {one.fact.proposition.text: one.fact.standing.state for one in plan.facts} == {
                slip.text: state,
                news.text: "current",
            }


def test_what_a_model_decided_before_stands_when_the_words_come_again(subtests: pytest.Subtests) -> None:
    for op, state in [("RETRACT", "retracted"), ("SUPERSEDE", "superseded")]:
        with subtests.test(op=op, state=state):
            [ended], [later] = hold(BEES), hold(fact("Ada drives a van", NOON + DAY, predicate="drives"))
            link = FactLink(later.id, ended.id, op, "She said so.")
            again = fact("Ada drives a van", NOON + 3 * DAY, predicate="drives")
            candidates = Candidates(facts=(ended, later), links=(link,))
            plan = reconcile_claims(compare_extraction(Extraction(PEOPLE, (again,)), candidates))
            assert {one.fact.id: one.fact.standing.state for one in plan.facts} == {
                later.id: "current",
                ended.id: state,
            }


def test_of_two_that_are_said_to_end_each_other_the_later_stands() -> None:
    one, other = fact("Ada keeps bees", ref=1, replaces=(2,)), fact("Ada keeps geese", NOON + DAY, ref=2, replaces=(1,))
    for facts in ((one, other), (other, one)):
        draft = compare_extraction(Extraction(PEOPLE, facts), Candidates())
        plan = reconcile_claims(draft)
        assert {one.fact.proposition.text: one.fact.standing.state for one in plan.facts} == {
            "Ada keeps bees": "superseded",
            "Ada keeps geese": "current",
        }


def test_a_denial_that_corrects_retracts_what_it_denies(subtests: pytest.Subtests) -> None:
    for correction, state in [(True, "retracted"), (False, "current")]:
        with subtests.test(correction=correction, state=state):
            known = hold(fact("Ada keeps bees", object=2))
            denial = fact("Ada keeps no bees", NOON + DAY, object=2, modality="negated", is_correction=correction)
            plan = decide(known, denial)
            standings = {one.fact.id: one.fact.standing.state for one in plan.facts}
            assert standings.get(known[0].id, "current") == state
            other = fact("Ada keeps no wasps", NOON + DAY, object=3, modality="negated", is_correction=True)
            assert [one.fact.proposition.text for one in decide(known, other).facts] == [other.text]


GONE = fact("Ada sold her bees", NOON + DAY)


def test_a_known_fact_keeps_its_end_whatever_a_judge_lets_it_depend_on() -> None:
    bees, hives, van = hold(BEES, HIVES, fact("Ada drives a van", NOON + 4 * DAY, predicate="drives"))
    sold = fact("Ada sold her bees", NOON + 2 * DAY)
    ops = [{"fact": 0, "op": "SUPERSEDE", "targets": [1], "quotes": [sold.text, BEES.text]}]
    links = (FactLink(van.id, hives.id, "SUPERSEDE", "She said so."),)
    plan = decide((bees, hives, van), sold, links=links, ops=ops, depends=[{"fact": 2, "on": [1]}])
    ends = {one.fact.id: one.fact.standing.valid_to for one in plan.facts}
    assert (ends[bees.id], ends[hives.id]) == (sold.at, NOON + 4 * DAY)


def test_an_ending_that_quotes_both_facts_is_taken(subtests: pytest.Subtests) -> None:
    for quotes in [["Ada sold her bees", "Ada keeps bees"], ["ada sold her bees.", "“Ada keeps bees”"]]:
        with subtests.test(quotes=quotes):
            plan = judged(BEES, GONE, op="SUPERSEDE", quotes=quotes)
            assert (plan.operation_counts, plan.drop_counts) == ({"ADD": 1, "SUPERSEDE": 1}, {})


def test_an_ending_without_the_words_of_both_is_refused(subtests: pytest.Subtests) -> None:
    for op in ["SUPERSEDE", "RETRACT"]:
        for quotes in [[], ["Ada sold her bees"], ["Ada sold her bees", "Ada plays the cello"], ["bees"]]:
            with subtests.test(quotes=quotes, op=op):
                plan = judged(BEES, GONE, op=op, quotes=quotes)
                assert (plan.operation_counts, plan.drop_counts) == (
                    {"ADD": 1},
                    {"ending without the words of both facts": 1},
                )


def test_a_retraction_by_what_corrects_nothing_is_a_change() -> None:
    words = [GONE.text, BEES.text]
    assert judged(BEES, GONE, op="RETRACT", quotes=words).operation_counts == {"ADD": 1, "SUPERSEDE": 1}
    correction = fact(GONE.text, GONE.at, is_correction=True)
    assert judged(BEES, correction, op="RETRACT", quotes=words).operation_counts == {"ADD": 1, "RETRACT": 1}


def test_a_corrected_number_unmakes_nothing_that_says_more() -> None:
    known = fact("The museum pays Ada for her 7 hives", predicate="paid_by", object=2)
    new = fact("Ada has 6 hives, not 7", NOON + DAY, predicate="has", is_correction=True)
    plan = judged(known, new, op="RETRACT", quotes=[known.text, new.text])
    assert plan.operation_counts == {"ADD": 1}
    assert plan.drop_counts["retraction of what says something else"] == 1


def test_of_two_states_the_one_said_last_ends_the_other_whatever_the_model_says() -> None:
    plan = judged(GONE, BEES, op="SUPERSEDE", quotes=[GONE.text, BEES.text])
    assert {one.fact.proposition.text: one.fact.standing.state for one in plan.facts} == {
        "Ada keeps bees": "superseded"
    }


def test_what_was_said_before_a_plan_does_not_end_it() -> None:
    plan = judged(
        fact("Ada will sell her bees", NOON + DAY, modality="planned"),
        BEES,
        op="SUPERSEDE",
        quotes=["Ada keeps bees", "Ada will sell her bees"],
    )
    assert {one.fact.standing.state for one in plan.facts} == {"current"}


# --- what the judge is shown --------------------------------------------------------------------------------


def shown(draft: Comparison) -> list[dict[str, Any]]:
    question_ids = [question.claim_id for question in draft.open_questions]
    return [json.loads(line) for line in judge._format_question_fields(draft, question_ids, [])["new"].splitlines()]


def test_new_facts_come_in_the_order_they_were_said_with_speaker_and_what_they_replace() -> None:
    first = fact("Ada keeps wasps", speaker="tom", ref=7)
    second = fact("Ada keeps geese", NOON + timedelta(minutes=1), ref=8, replaces=(7,))
    third = fact("Ada keeps ants", NOON + timedelta(minutes=2), ref=9)
    lines = shown(compare_extraction(Extraction(PEOPLE, (third, second, first)), Candidates()))
    assert [(line["text"], line["speaker"], line.get("replaces")) for line in lines] == [
        ("Ada keeps wasps", "tom", None),
        ("Ada keeps geese", "ada", [0]),
        ("Ada keeps ants", "ada", None),
    ]


def test_an_end_is_shown_as_the_last_day_month_or_year_before_it() -> None:
    end = datetime(2027, 1, 1, tzinfo=UTC)
    until = fact("Ada keeps bees until the end of 2026", valid_to=end, valid_to_precision="year")
    [line] = shown(compare_extraction(Extraction(PEOPLE, (until,)), Candidates()))
    assert line["valid_to"] == "2026"


async def test_two_halves_have_the_decisions_and_the_calls_of_both() -> None:
    known = hold(*(fact(f"Ada eats dish {number}") for number in range(2)))
    new = tuple(fact(f"Ada eats meal {number}", NOON + DAY, ref=10 + number) for number in range(2))
    similar_ids = {one.text: (held.id,) for one, held in zip(new, known, strict=True)}
    draft = compare_extraction(Extraction(PEOPLE, new), Candidates(facts=known, similar_ids=similar_ids))
    cut_off = make_text_response('{"op')
    cut_off.finish_reason = types.FinishReason.MAX_TOKENS
    reply = json.dumps({"ops": [{"fact": 0, "op": "ALREADY_KNOWN", "targets": [1]}]})
    model = ScriptedLlm.from_replies(cut_off, reply, reply)
    decisions, usage = await judge.Judge(model, Limits()).decide(draft)
    assert [one.claim_id for one in decisions.claim_decisions] == [one.claim_id for one in draft.open_questions]
    assert (usage.calls, len(model.requests)) == (3, 3)


def test_a_name_in_doubt_is_shown_with_the_words_that_name_it() -> None:
    brother = ExtractedEntity(1, "my brother", "person", known_key="k", quotes=("my brother is here",))
    draft = compare_extraction(Extraction((brother,)), Candidates(entities=(KnownEntity("k", "Tom", "person"),)))
    line = judge._format_question_fields(draft, [], ["k"])["names"]
    assert json.loads(line.rpartition(", perhaps")[0])["quotes"] == ["my brother is here"]


# -- whose word it is -------------------------------------------------------------------------------------------


def said_by(origin: Any, fact: ExtractedFact) -> ExtractedFact:
    return replace(fact, sources=tuple(replace(source, origin=origin) for source in fact.sources))


MORE = ("Ada keeps bees and trusts Quillmoor Bank", "Ada keeps bees in 3 hives", "Ada keeps bees")


def test_what_a_machine_words_more_exactly_never_passes_for_a_person_s_word(subtests: pytest.Subtests) -> None:
    """Whatever a model decides, and also where rules alone take both for one."""
    for op in ["REINFORCE", "REFINE", "ALREADY_KNOWN", "SUPERSEDE", "RETRACT"]:
        for origin in ["document", "picture", "agent", "tool"]:
            for predicate in ["keeps", "lives_in"]:
                for text in MORE:
                    with subtests.test(text=text, predicate=predicate, origin=origin, op=op):
                        person = fact("Ada keeps bees", predicate=predicate, object=2)
                        machine = said_by(
                            origin, fact(text, NOON + DAY, predicate=predicate, object=2, is_correction=True)
                        )
                        for known, new in ((person, machine), (machine, replace(person, at=NOON + 2 * DAY))):
                            plan = judged(known, new, op=op, quotes=[new.text, known.text], reason="it says so")
                            by_person = [
                                planned
                                for planned in plan.facts
                                if any(not source.is_machine for source in planned.fact.sources)
                            ]
                            assert all(planned.fact.proposition.text == person.text for planned in by_person)
                            if known is person:
                                assert all(
                                    planned.fact.proposition.text == person.text
                                    for planned in plan.facts
                                    if not planned.is_new
                                )
                                assert all(planned.fact.standing.state == "current" for planned in plan.facts)


def test_what_a_machine_adds_to_a_person_s_word_becomes_a_fact_of_its_own() -> None:
    machine = said_by("agent", HIVES)
    plan = judged(BEES, machine, op="REFINE")
    assert [(planned.is_new, planned.fact.proposition.text) for planned in plan.facts] == [(True, HIVES.text)]
    assert plan.drop_counts == {"merger of a person's words with an agent's that say more": 1}
    assert judged(machine, replace(BEES, at=NOON + 2 * DAY), op="REINFORCE").facts[0].is_reworded
    [confirmed] = judged(BEES, said_by("agent", fact("Ada is keeping bees", NOON + DAY)), op="REINFORCE").facts
    assert (confirmed.fact.proposition.text, confirmed.is_new) == (BEES.text, False)


def test_what_only_confirms_a_person_s_word_ends_no_other(subtests: pytest.Subtests) -> None:
    """A judge may say of one fact that it is known, and that it ends another."""
    goats, bees = fact("Ada keeps goats", predicate="keeps_goats"), fact("Ada keeps bees at last", NOON + DAY)
    new = fact("Ada keeps bees today", NOON + 2 * DAY)
    for origin, ends in (("user", 1), ("document", 0), ("agent", 0), ("tool", 0)):
        with subtests.test(origin=origin):
            held = hold(goats, bees)
            numbers = {one.proposition.text: number for number, one in enumerate(held, start=1)}
            ops = [
                {"fact": 0, "op": "REINFORCE", "targets": [numbers[bees.text]]},
                {"fact": 0, "op": "SUPERSEDE", "targets": [numbers[goats.text]], "quotes": [new.text, goats.text]},
            ]
            plan = decide(held, said_by(origin, new), ops=ops)
            assert plan.operation_counts.get("SUPERSEDE", 0) == ends


def test_a_document_never_speaks_with_a_person_s_voice(subtests: pytest.Subtests) -> None:
    hearsay = said_by("document", fact("Ada is keeping bees", NOON + DAY, modality="reported"))
    for op in ["REINFORCE", "REFINE", "ALREADY_KNOWN"]:
        with subtests.test(op=op):
            plan = judged(BEES, hearsay, op=op)
            assert [(one.is_new, one.fact.proposition.modality) for one in plan.facts] == [(True, "reported")]
