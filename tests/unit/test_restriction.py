"""What is left of readings when words are taken away."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from adk_graph_memory.consolidation.restriction import Removal, find_lost_words, restrict_readings, withhold_facts
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.readings import ClaimDecision, ClaimRef, OwnerRuling, Reading
from adk_graph_memory.records.turns import Role

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
TEXTS = {"t0": "She visits Ada in Faro", "t1": "Grace comes on Mondays", "t2": "Has anything changed?"}


def make_fact(ref: int, text: str, turn_id: str, object: int | None = None) -> ExtractedFact:
    source = Source(turn_id, TEXTS[turn_id], 0, len(TEXTS[turn_id]), NOON)
    return ExtractedFact(
        subject=1, predicate="visits", object=object, text=text, sources=(source,), speaker="user", at=NOON, ref=ref
    )


def make_claim(fact: ExtractedFact) -> ClaimRef:
    return ClaimRef(fact.text, tuple(source.key for source in fact.sources))


FACTS = (make_fact(0, "Grace visits Ada", "t0", 2), make_fact(1, "Grace comes on Mondays", "t1"))
NAMES = {1: "Grace", 2: "Ada", 3: "Faro", 4: "Porto"}
READING = Reading(
    "r",
    "s",
    Extraction(
        tuple(ExtractedEntity(ref, name, about="a word about it") for ref, name in NAMES.items()),
        FACTS,
        (("t0", 1), ("t0", 2), ("t1", 1)),
    ),
    claim_decisions=(ClaimDecision("SUPERSEDE", make_claim(FACTS[1]), (make_claim(FACTS[0]),), "It changed."),),
    heard_turn_ids=tuple(TEXTS),
)


def forget(*turn_ids: str, reading: Reading = READING) -> Reading:
    kept = {id: text for id, text in TEXTS.items() if id not in turn_ids}
    words = find_lost_words([TEXTS[id] for id in turn_ids], kept.values())
    authors: dict[str, tuple[str, Role]] = dict.fromkeys(kept, ("user", "user"))
    removal = Removal(frozenset(turn_ids), authors, kept, takes_words=True, words=words)
    [restricted] = restrict_readings([reading], removal)
    return restricted


def list_names(reading: Reading) -> set[str]:
    return {entity.name for entity in reading.extraction.entities}


def test_a_decision_outlives_its_reason_while_both_facts_are_said() -> None:
    [decision] = forget("t2").claim_decisions
    assert (decision.op, decision.reason) == ("SUPERSEDE", "")
    assert forget("t1").claim_decisions == ()


def test_an_owner_s_ruling_outlives_its_reason_but_not_what_it_is_about() -> None:
    ruling = OwnerRuling("pin", make_claim(FACTS[1]), reason="That changed.")
    ruled = replace(READING, ruling=ruling)
    left = forget("t2", reading=ruled).ruling
    assert left and (left.op, left.claim, left.reason) == ("pin", ruling.claim, "pinned by the owner")
    assert forget("t1", reading=ruled).ruling is None


@pytest.mark.parametrize(("takes_words", "aliases"), [(True, ()), (False, ("Faro",))])
def test_an_alias_that_a_later_turn_says_outlives_the_turn_that_tied_it_only_if_that_expired(
    takes_words: bool, aliases: tuple[str, ...]
) -> None:
    entity = replace(READING.extraction.entities[1], aliases=("Faro", "Grace"))
    reading = replace(READING, extraction=replace(READING.extraction, entities=(entity,), facts=()))
    kept = {id: TEXTS[id] for id in ("t0", "t2")}
    authors: dict[str, tuple[str, Role]] = dict.fromkeys(kept, ("user", "user"))
    texts = kept | {"t0": "She visits Faro"}
    removal = Removal(frozenset({"t1"}), authors, texts, takes_words=takes_words)
    reading = replace(reading, extraction=replace(reading.extraction, mentions=(("t0", 2),)))
    [restricted] = restrict_readings([reading], removal)
    assert [one.aliases for one in restricted.extraction.entities] == [aliases]


def test_who_is_named_by_a_fact_alone_goes_with_the_fact_wherever_its_words_stand() -> None:
    worded = replace(FACTS[0], text="Grace, who comes on Mondays, visits Ada")
    reading = replace(READING, extraction=replace(READING.extraction, facts=(worded, FACTS[1])))
    left = forget("t1", reading=reading)
    assert (left.extraction.facts, left.extraction.mentions) == ((), ())
    assert list_names(left) == {"Faro"}


def test_who_is_named_by_no_fact_stays_while_a_turn_says_the_name_but_what_tells_them_apart_goes() -> None:
    assert list_names(READING) == set(NAMES.values())
    left = forget("t2")
    assert list_names(left) == {"Grace", "Ada", "Faro"}
    assert {entity.name: entity.about for entity in left.extraction.entities if entity.about} == {
        "Grace": "a word about it",
        "Ada": "a word about it",
    }
    assert list_names(forget("t0")) == {"Grace"}


def test_what_two_said_is_the_word_of_whoever_is_left() -> None:
    later = replace(FACTS[1].sources[0], author="Bea", at=NOON + timedelta(minutes=1))
    sources = (replace(FACTS[0].sources[0], author="Ada"), later)
    both = replace(FACTS[0], object=None, sources=sources, text="All agree", speaker="Ada")
    reading = replace(READING, extraction=Extraction((ExtractedEntity(1, "all"),), (both,)))
    for gone, speaker, at in (("t0", "Bea", later.at), ("t1", "Ada", NOON)):
        [left] = forget(gone, reading=reading).extraction.facts
        assert (left.speaker, left.at) == (speaker, at)


@pytest.mark.parametrize(
    ("quotes", "gone", "keeps_date"),
    [
        (("I moved on 3 May", "I moved"), "t0", False),
        (("I moved", "I moved on 3 May"), "t1", False),
        (("I moved on 3 May", "I moved"), "t1", True),
        (("I moved on 3 May", "It was in May"), "t0", True),
        (("I moved", "So I did"), "t1", True),
    ],
)
def test_a_date_that_only_a_forgotten_quote_tells_goes(quotes: tuple[str, str], gone: str, keeps_date: bool) -> None:
    sources = tuple(Source(f"t{n}", quote, 0, len(quote), NOON, n) for n, quote in enumerate(quotes))
    fact = replace(FACTS[0], object=None, text="moved", sources=sources, valid_from=NOON, valid_from_precision="day")
    reading = replace(READING, extraction=Extraction((ExtractedEntity(1, "all"),), (fact,)))
    [left] = restrict_readings([reading], Removal(frozenset([gone]), {}, {}, takes_words=True))
    [fact] = left.extraction.facts
    assert (fact.valid_from, fact.valid_from_precision) == ((NOON, "day") if keeps_date else (None, None))


def test_a_name_is_not_said_by_a_longer_word() -> None:
    texts = {"t0": "Ana came", "t1": "I ate a banana"}
    reading = Reading("r", "s", Extraction((ExtractedEntity(1, "Ana"), ExtractedEntity(2, "banana"))))
    reading = replace(reading, heard_turn_ids=tuple(texts))
    removal = Removal(frozenset(["t0"]), {"t1": ("user", "user")}, {"t1": texts["t1"]}, takes_words=True)
    [left] = restrict_readings([reading], removal)
    assert list_names(left) == {"banana"}


def test_katakana_writes_words_and_hiragana_grammar() -> None:
    assert find_lost_words(["トムはインスリンを打つ"], ["トムも打つ"]) == {"イン", "ンス", "スリ", "リン"}
    assert find_lost_words(["それはです"], ["トムも打つ"]) == set()


def test_a_fact_that_is_withheld_takes_the_mentions_and_names_that_nothing_else_has() -> None:
    extraction = READING.extraction
    assert withhold_facts(extraction, ()) is extraction
    rest = withhold_facts(extraction, {0})
    assert [fact.ref for fact in rest.facts] == [1]
    assert {entity.name for entity in rest.entities} == {"Grace", "Faro", "Porto"}
    assert set(rest.mentions) == {("t1", 1)}
