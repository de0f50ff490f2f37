"""Consolidation is pure: an extraction and candidates go in, a plan comes out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory import consolidation
from adk_graph_memory.consolidation.entities import key_of
from adk_graph_memory.records import (
    Candidates,
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    KnownEntity,
    KnownFact,
    Plan,
    Source,
    Statement,
    digest,
)

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
ADA = ExtractedEntity(1, "Ada", "person")
NOTHING_KNOWN = Candidates()


def fact(text: str = "Ada keeps bees", *turns: str, at: datetime = NOON, **more: Any) -> ExtractedFact:
    sources = tuple(Source(id, text, 0, len(text), at) for id in turns or ("t0",))
    given_values = {"subject": 1, "predicate": "keeps", "object": None, "speaker": "ada", "sources": sources}
    return ExtractedFact(**{**given_values, "text": text, "at": at, **more})


def planned(extraction: Extraction, candidates: Candidates = NOTHING_KNOWN) -> Plan:
    return consolidation.reconcile(consolidation.resolve(extraction, candidates))


def resolved(*facts: ExtractedFact, entities: tuple[ExtractedEntity, ...] = (ADA,), **known: Any) -> Plan:
    return planned(Extraction(entities, facts), Candidates(**known))


# --- facts --------------------------------------------------------------------------------------------------


def test_a_new_fact_is_added_about_its_subject() -> None:
    plan = resolved(fact())
    [added] = plan.facts
    said = added.proposition
    assert (plan.ops, said.subject, said.text) == ({"ADD": 1}, key_of("Ada"), "Ada keeps bees")


def test_facts_that_say_the_same_are_one_with_the_sources_of_all() -> None:
    [one] = resolved(fact("Ada keeps bees", "t0"), fact("ada  keeps BEES.", "t1")).facts
    assert {source.turn_id for source in one.sources} == {"t0", "t1"}


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
    [before] = resolved(fact()).facts
    known = KnownFact("f1", before.proposition, before.sources)
    plan = planned(Extraction((ADA,), (fact("ada keeps BEES!", "t1"),)), Candidates(facts=(known,)))
    [after] = plan.facts
    assert (plan.ops, after.id, after.is_new) == ({"REINFORCE": 1}, "f1", False)
    assert [source.turn_id for source in after.sources] == ["t1"]


def test_forgotten_words_make_no_fact() -> None:
    told = fact()
    forgotten = frozenset({("t0", told.sources[0].quote_key)})
    plan = resolved(told, forgotten=forgotten)
    assert (plan.facts, plan.dropped) == ((), {"forgotten on request": 1})


def test_forgotten_words_leave_a_fact_its_other_sources() -> None:
    told = fact("Ada keeps bees", "t0", "t1")
    [kept] = resolved(told, forgotten=frozenset({("t0", told.sources[0].quote_key)})).facts
    assert [source.turn_id for source in kept.sources] == ["t1"]


def test_what_extraction_dropped_stays_counted() -> None:
    assert planned(Extraction(dropped={"a question": 3})).dropped == {"a question": 3}


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


def named(*entities: ExtractedEntity, known: tuple[KnownEntity, ...] = ()) -> Plan:
    return planned(Extraction(entities), Candidates(entities=known))


@pytest.mark.parametrize("other", ["ada", "ADA", " Ada ", "Ａｄａ"])
def test_names_that_differ_in_case_width_or_spacing_are_one(other: str) -> None:
    assert len(named(ADA, ExtractedEntity(2, other)).entities) == 1


@pytest.mark.parametrize(("one", "other"), [("Иван", "Anna"), ("王", "李"), ("Zoë", "Zoé"), ("Müller", "Muller")])
def test_names_in_any_script_stay_apart(one: str, other: str) -> None:
    assert len(named(ExtractedEntity(1, one), ExtractedEntity(2, other)).entities) == 2


def test_a_known_entity_is_extended_not_created() -> None:
    [planned] = named(
        replace(ADA, aliases=("Countess",)), known=(KnownEntity(key_of("Ada"), "Ada", "person"),)
    ).entities
    assert (planned.is_new, planned.aliases, planned.name) == (False, ("Countess",), "Ada")


def test_a_name_is_known_by_an_alias() -> None:
    known = KnownEntity(key_of("Franziska"), "Franziska", "person", ("Franzi",))
    [planned] = named(ExtractedEntity(1, "FRANZI"), known=(known,)).entities
    assert (planned.key, planned.is_new) == (known.key, False)


def test_an_alias_that_two_entities_bear_decides_nothing() -> None:
    known = tuple(KnownEntity(key_of(name), name, "person", ("Anton",)) for name in ("Anton Reiß", "Anton Vogt"))
    [planned] = named(ExtractedEntity(1, "Anton"), known=known).entities
    assert (planned.key, planned.is_new) == (key_of("Anton"), True)


def test_what_the_extractor_recognised_goes_before_names() -> None:
    known = KnownEntity("k1", "Inés", "person")
    [planned] = named(ExtractedEntity(1, "my sister", known_key="k1"), known=(known,)).entities
    assert (planned.key, planned.name, planned.aliases) == ("k1", "Inés", ("my sister",))


def test_a_known_key_that_is_not_known_is_ignored() -> None:
    [planned] = named(ExtractedEntity(1, "Inés", known_key="somebody else's")).entities
    assert planned.key == key_of("Inés")


def test_an_entitys_own_name_is_not_among_its_aliases() -> None:
    [planned] = named(replace(ADA, aliases=("Ada", "Countess"))).entities
    assert planned.aliases == ("Countess",)


def test_mentions_go_to_the_keys() -> None:
    plan = planned(Extraction((ADA,), (), (("t0", 1), ("t0", 1))))
    assert plan.mentions == (("t0", key_of("Ada")),)


def test_every_key_under_which_an_entity_may_be_known_is_looked_up() -> None:
    extraction = Extraction((replace(ADA, aliases=("Countess",)),))
    assert set(consolidation.Lookup(extraction).entity_keys) == {key_of("Ada"), key_of("Countess")}


# --- direct statements --------------------------------------------------------------------------------------


def test_a_statement_is_its_own_source() -> None:
    told = consolidation.direct(Statement("Ada keeps bees", NOON, author="nurse", metadata={"a": 1}))
    said = told.proposition
    assert told.is_direct
    assert (said.text, said.speaker, said.at, told.metadata) == ("Ada keeps bees", "nurse", NOON, {"a": 1})


def test_the_same_statement_is_the_same_fact() -> None:
    one, other = Statement("Ada keeps bees", NOON), Statement("ada  KEEPS bees", NOON + timedelta(days=1))
    assert consolidation.direct(one).id == consolidation.direct(other).id


def test_statements_with_ids_are_told_apart_by_them() -> None:
    ids = {consolidation.direct(Statement("Ada keeps bees", NOON, id=id)).id for id in ("a", "b", None)}
    assert len(ids) == 3


@given(st.lists(st.text()), st.lists(st.text()))
def test_a_digest_stands_for_the_strings_and_their_borders(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)
