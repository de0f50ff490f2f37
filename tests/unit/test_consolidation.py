"""Consolidation is pure: an extraction and candidates go in, a plan comes out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.consolidation import fact_rules, judge
from adk_graph_memory.consolidation.comparison import GraphLookup, compare_extraction
from adk_graph_memory.consolidation.entity_resolution import digest_entity_name
from adk_graph_memory.consolidation.fact_rules import plan_statement
from adk_graph_memory.consolidation.reconciliation import reconcile_claims
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Candidates, Delta, Fact, KnownEntity, Ruling
from adk_graph_memory.records.turns import Statement

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
ADA = ExtractedEntity(1, "Ada", "person")
NOTHING_KNOWN = Candidates()
TOWNS = {2: "Rome", 3: "Oslo"}


def fact(text: str = "Ada keeps bees", *turns: str, at: datetime = NOON, **more: Any) -> ExtractedFact:
    sources = tuple(Source(id, text, 0, len(text), at) for id in turns or ("t0",))
    given_values = {"subject": 1, "predicate": "keeps", "object": None, "speaker": "ada", "sources": sources}
    return ExtractedFact(**{**given_values, "text": text, "at": at, **more})


def planned(extraction: Extraction, candidates: Candidates = NOTHING_KNOWN) -> Delta:
    draft = compare_extraction(extraction, candidates, functional_predicates={"lives_in"})
    return reconcile_claims(draft)


def resolved(*facts: ExtractedFact, entities: tuple[ExtractedEntity, ...] = (ADA,), **known: Any) -> Delta:
    return planned(Extraction(entities, facts), Candidates(**known))


# --- facts --------------------------------------------------------------------------------------------------


def test_a_new_fact_is_added_about_its_subject() -> None:
    plan = resolved(fact())
    [added] = [write.fact for write in plan.facts]
    proposition = added.proposition
    assert (plan.operation_counts, proposition.subject, proposition.text) == (
        {"ADD": 1},
        digest_entity_name("Ada"),
        "Ada keeps bees",
    )


def test_facts_that_say_the_same_are_one_with_the_sources_of_all() -> None:
    [planned_fact] = resolved(fact("Ada keeps bees", "t0"), fact("ada  keeps BEES.", "t1")).facts
    assert {source.turn_id for source in planned_fact.fact.sources} == {"t0", "t1"}


@pytest.mark.parametrize(
    "other",
    [
        fact("Ada keeps 4 bees"),
        fact(predicate="sells"),
        fact(modality="planned"),
        fact(valid_from=NOON),
        fact(valid_to=NOON),
        fact(subject=2),
        fact(object=2),
    ],
)
def test_facts_that_differ_in_anything_they_say_are_two(other: ExtractedFact) -> None:
    entities = (ADA, ExtractedEntity(2, "Inés"))
    assert len(resolved(fact(), other, entities=entities).facts) == 2


def test_who_says_it_makes_no_other_fact() -> None:
    assert len(resolved(fact("x y", "t0"), fact("x y", "t1", speaker="bob", topic="z")).facts) == 1


def test_a_fact_that_the_graph_holds_is_reinforced() -> None:
    before = resolved(fact()).facts[0].fact
    known = Fact("f1", before.proposition, before.sources)
    plan = planned(Extraction((ADA,), (fact("ada keeps BEES!", "t1"),)), Candidates(facts=(known,)))
    [after] = plan.facts
    assert (plan.operation_counts, after.fact.id, after.is_new) == ({"REINFORCE": 1}, "f1", False)
    assert [source.turn_id for source in after.added_sources] == ["t1"]


@pytest.mark.parametrize(("days", "until"), [(3, 5), (9, 9)])
def test_what_is_said_again_after_its_end_ends_when_it_was_said_last(days: int, until: int) -> None:
    dates = {"valid_to": NOON + timedelta(days=5)}
    before = resolved(fact(**dates)).facts[0].fact
    known = Fact("f1", before.proposition, before.sources, before.standing)
    again = fact("Ada keeps bees", "t1", at=NOON + timedelta(days=days), **dates)
    [after] = planned(Extraction((ADA,), (again,)), Candidates(facts=(known,))).facts
    assert (after.fact.id, after.fact.standing.valid_to) == ("f1", NOON + timedelta(days=until))


def test_a_fact_whose_words_were_all_edited_decides_nothing() -> None:
    before = resolved(fact("Ada kept bees", valid_to=NOON - timedelta(days=400))).facts[0].fact
    edited = Candidates(facts=(Fact("f1", before.proposition, ()),))
    draft = compare_extraction(Extraction((ADA,), (fact("Ada sells honey"),)), edited)
    ids = {tenet.claim.proposition.text: id for id, tenet in draft.claim_groups.items()}
    plan = reconcile_claims(replace(draft, dependencies=((ids["Ada sells honey"], ids["Ada kept bees"]),)))
    assert [write.fact.proposition.text for write in plan.facts] == ["Ada sells honey"]
    assert plan.dependencies == ()


def live_in(ref: int, town: str) -> ExtractedFact:
    text, at = f"Ada lives in {town}", NOON + timedelta(days=ref)
    return fact(text, f"t{ref}", at=at, predicate="lives_in", object=ref)


def move_to_oslo(known_sources: bool, ruling: Ruling) -> dict[str, str]:
    """The states of what a plan writes when Ada, known to live in Rome, says that she lives in Oslo."""
    rome, oslo = (live_in(ref, town) for ref, town in TOWNS.items())
    entities = (ADA, *(ExtractedEntity(ref, town, "place") for ref, town in TOWNS.items()))
    before = resolved(rome, entities=entities).facts[0].fact
    known = Fact("f1", before.proposition, before.sources if known_sources else (), ruling=ruling)
    facts = [write.fact for write in resolved(oslo, entities=entities, facts=(known,)).facts]
    return {one.proposition.text: one.standing.state for one in facts}


def test_a_new_value_ends_no_pinned_fact() -> None:
    oslo = {"Ada lives in Oslo": "current"}
    assert move_to_oslo(True, Ruling()) == oslo | {"Ada lives in Rome": "superseded"}
    assert move_to_oslo(True, Ruling(is_pinned=True)) == oslo


def test_a_pinned_fact_whose_words_are_gone_is_passed_over() -> None:
    assert move_to_oslo(False, Ruling(is_pinned=True)) == {"Ada lives in Oslo": "current"}


def test_why_a_fact_ended_is_said_by_the_rule_that_ended_it() -> None:
    rome, oslo = (live_in(ref, town) for ref, town in TOWNS.items())
    never = replace(rome, text="Ada never lived in Rome", modality="negated", is_correction=True)
    entities = (ADA, *(ExtractedEntity(ref, town, "place") for ref, town in TOWNS.items()))
    home, other_home, denial = (
        resolved(one, entities=entities).facts[0].fact.proposition for one in (rome, oslo, never)
    )
    assert fact_rules.explain_ending(denial, home) == "it was denied: it was never so"
    assert fact_rules.explain_ending(other_home, home) == "one 'lives_in' at a time"
    assert fact_rules.explain_ending(replace(other_home, predicate="likes"), home) == ""


def test_turns_of_a_forgotten_fact_make_no_fact() -> None:
    plan = resolved(fact(), forgotten_turn_ids=frozenset({"t0"}))
    assert (plan.facts, plan.drop_counts) == ((), {"forgotten on request": 1})


def test_turns_of_a_forgotten_fact_leave_a_fact_its_other_sources() -> None:
    [planned_fact] = resolved(fact("Ada keeps bees", "t0", "t1"), forgotten_turn_ids=frozenset({"t0"})).facts
    assert [source.turn_id for source in planned_fact.fact.sources] == ["t1"]


def test_what_extraction_dropped_stays_counted() -> None:
    assert planned(Extraction(drop_counts={"a question": 3})).drop_counts == {"a question": 3}


FACTS = st.lists(
    st.builds(
        lambda text, turn, minute, speaker: fact(text, turn, at=NOON + timedelta(minutes=minute), speaker=speaker),
        st.sampled_from(["Ada keeps bees", "ada keeps  bees.", "ADA KEEPS BEES", "Ada keeps geese"]),
        st.sampled_from(["t0", "t1", "t2"]),
        st.integers(0, 2),
        st.sampled_from(["ada", "bob"]),
    ),
    max_size=8,
)


@given(facts=FACTS, data=st.data())
def test_the_order_of_facts_makes_no_difference(facts: list[ExtractedFact], data: st.DataObject) -> None:
    assert resolved(*facts) == resolved(*data.draw(st.permutations(facts)))


@given(facts=FACTS)
def test_planning_twice_gives_the_same_plan(facts: list[ExtractedFact]) -> None:
    assert resolved(*facts) == resolved(*facts)


# --- entities -----------------------------------------------------------------------------------------------


def named(*entities: ExtractedEntity, known: tuple[KnownEntity, ...] = ()) -> Delta:
    return planned(Extraction(entities), Candidates(entities=known))


@pytest.mark.parametrize("other", ["ada", "ADA", " Ada ", "Ａｄａ"])
def test_names_that_differ_in_case_width_or_spacing_are_one(other: str) -> None:
    assert len(named(ADA, ExtractedEntity(2, other)).entities) == 1


@pytest.mark.parametrize(("one", "other"), [("Иван", "Anna"), ("王", "李"), ("Zoë", "Zoé"), ("Müller", "Muller")])
def test_names_in_any_script_stay_apart(one: str, other: str) -> None:
    assert len(named(ExtractedEntity(1, one), ExtractedEntity(2, other)).entities) == 2


def test_a_known_entity_is_extended_not_created() -> None:
    [planned] = named(
        replace(ADA, aliases=("Countess",)), known=(KnownEntity(digest_entity_name("Ada"), "Ada", "person"),)
    ).entities
    assert (planned.is_new, planned.aliases, planned.name) == (False, ("Countess",), "Ada")


def test_a_name_is_known_by_an_alias() -> None:
    known = KnownEntity(digest_entity_name("Franziska"), "Franziska", "person", ("Franzi",))
    [planned] = named(ExtractedEntity(1, "FRANZI"), known=(known,)).entities
    assert (planned.key, planned.is_new) == (known.key, False)


def test_an_alias_that_two_entities_bear_decides_nothing() -> None:
    known = tuple(
        KnownEntity(digest_entity_name(name), name, "person", ("Anton",)) for name in ("Anton Reiß", "Anton Vogt")
    )
    [planned] = named(ExtractedEntity(1, "Anton"), known=known).entities
    assert (planned.key, planned.is_new) == (digest_entity_name("Anton"), True)


def test_whom_the_number_of_a_known_entity_means_is_open_where_the_name_does_not_say_it() -> None:
    known = KnownEntity("k1", "Inés", "person")
    sister = ExtractedEntity(1, "my sister", "person", known_key="k1", quotes=("my sister called",))
    draft = compare_extraction(Extraction((sister,)), Candidates(entities=(known,)))
    assert [(doubt.candidate_keys, doubt.quotes) for doubt in draft.resolution.doubts] == [
        (("k1",), ("my sister called",))
    ]
    comparison = compare_extraction(Extraction((sister,)), Candidates(entities=(known,)), doubt_answers={1: "k1"})
    [planned] = comparison.resolution.planned_entities
    assert (planned.key, planned.name, planned.aliases, dict(comparison.drop_counts)) == (
        "k1",
        "Inés",
        ("my sister",),
        {},
    )


def test_a_number_that_means_somebody_else_is_counted() -> None:
    known = KnownEntity("k1", "Tetris", "object")
    plan = named(ExtractedEntity(1, "John", "person", known_key="k1", quotes=("John is here",)), known=(known,))
    assert ([entity.name for entity in plan.entities], plan.drop_counts) == (["John"], {"known_id of somebody else": 1})


def test_a_known_key_that_is_not_known_is_ignored() -> None:
    [planned] = named(ExtractedEntity(1, "Inés", known_key="somebody else's")).entities
    assert planned.key == digest_entity_name("Inés")


def test_an_entitys_own_name_is_not_among_its_aliases() -> None:
    [planned] = named(replace(ADA, aliases=("Ada", "Countess"))).entities
    assert planned.aliases == ("Countess",)


def test_a_fact_goes_back_to_whom_it_was_told_of_once_they_are_told_apart() -> None:
    vogt, toad, ada = map(digest_entity_name, ("Franziska Vogt", "Kröte", "Ada"))
    before = resolved(fact("Kröte knows Ada")).facts[0].fact
    merged = KnownEntity(vogt, "Franziska Vogt", "person", merged_keys=(toad,))
    proposition = replace(before.proposition, subject=vogt, object=ada)
    known = Fact("f1", proposition, before.sources, former_entity_keys=(toad, None))
    entities = (ExtractedEntity(1, "Franziska Vogt", "person"), ExtractedEntity(2, "Kröte", "person"))
    draft = compare_extraction(Extraction(entities, ()), Candidates(entities=(merged,), facts=(known,)))
    [group] = draft.claim_groups.values()
    assert (group.claim.proposition.subject, group.claim.proposition.object) == (toad, ada)


def test_mentions_go_to_the_keys() -> None:
    plan = planned(Extraction((ADA,), (), (("t0", 1), ("t0", 1))))
    assert plan.mentions == {("t0", digest_entity_name("Ada")): None}


def test_every_key_under_which_an_entity_may_be_known_is_looked_up() -> None:
    extraction = Extraction((replace(ADA, aliases=("Countess",)),))
    assert set(GraphLookup(extraction).entity_keys) == {
        digest_entity_name("Ada"),
        digest_entity_name("Countess"),
    }


# --- direct statements --------------------------------------------------------------------------------------


def test_a_statement_is_its_own_source() -> None:
    write = plan_statement(Statement("Ada keeps bees", NOON, author="nurse", metadata={"a": 1}))
    proposition = write.fact.proposition
    assert write.direct and write.fact.sources == ()
    assert (proposition.text, proposition.speaker, proposition.at, write.direct.metadata) == (
        "Ada keeps bees",
        "nurse",
        NOON,
        {"a": 1},
    )


def test_the_same_statement_is_the_same_fact() -> None:
    statement, other = Statement("Ada keeps bees", NOON), Statement("ada  KEEPS bees", NOON + timedelta(days=1))
    assert plan_statement(statement).fact.id == plan_statement(other).fact.id


def test_statements_with_ids_are_told_apart_by_them() -> None:
    ids = {plan_statement(Statement("Ada keeps bees", NOON, id=id)).fact.id for id in ("a", "b", None)}
    assert len(ids) == 3


@given(st.lists(st.text()), st.lists(st.text()))
def test_a_digest_stands_for_the_strings_and_their_borders(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


# --- size ---------------------------------------------------------------------------------------------------


def many(kind: str, count: int) -> tuple[Extraction, Candidates]:
    """A reply of so many facts, of a kind in which each has to do with all others."""
    named = [ExtractedEntity(n, f"Person{n}", "person") for n in range(count)]
    known = tuple(KnownEntity(digest_entity_name(entity.name), entity.name, "person") for entity in named)
    texts = [f"Ada keeps {n} bees" for n in range(count)]
    if kind == "said again":
        return Extraction((ADA,), tuple(fact("Ada keeps bees", f"t{n}") for n in range(count))), NOTHING_KNOWN
    if kind == "denied":
        denied = (fact(text, is_correction=True, modality="negated") for text in texts)
        return Extraction((ADA,), tuple(denied)), NOTHING_KNOWN
    if kind == "wrong numbers":
        quoted = [replace(entity, known_key=known[0].key, quotes=(entity.name,)) for entity in named]
        named = [replace(entity, name=f"{entity.name}x") for entity in quoted]
    facts = tuple(fact(text, subject=n) for n, text in enumerate(texts))
    return Extraction(tuple(named), facts), Candidates(entities=known)


def count_calls(work: Callable[[], object]) -> int:
    """Functions that are called on the way, for time is no measure."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", ["said again", "denied", "known", "wrong numbers"])
def test_what_is_decided_of_many_facts_grows_with_their_number(kind: str) -> None:
    def decide(count: int) -> Delta:
        draft = compare_extraction(*many(kind, count))
        ids, keys = judge._list_prompt_ids(draft)
        judge._format_question_fields(draft, ids, keys)
        return reconcile_claims(draft)

    decide(5)  # what is computed once
    few, more = count_calls(lambda: decide(50)), count_calls(lambda: decide(500))
    assert more < 14 * few
