"""Perturbations change what they say, the same way each time, and the comparison finds what they broke."""

from __future__ import annotations

import random
from typing import Any

import pytest
from benchmarks.quality.harm import Graph, Harm, measure_harm
from benchmarks.quality.perturbations import PERTURBATIONS, NumberedItems, Perturbation

KNOWN = {0: ("user", "person"), 1: ("Tom", "person"), 2: ("Faro", "place")}
QUOTES = {
    "apostrophes left out": "I don't eat fish",
    "tatweel": "أحب القهوة بلا سكر",
    "harakat": "أحب القهوة بلا سكر",
    "spaces between CJK and Latin": "我用Python写后端",
    "A … B": "my brother Tom starts at the dry dock on Monday",
    "curly quotes": "it's the 'Faro' that we know",
}
READING = {
    "entities": [
        {"ref": 1, "name": "user", "known_id": 0},
        {"ref": 2, "name": "Tom", "known_id": 1},
        {"ref": 3, "name": "Lagos", "known_id": None},
    ],
    "facts": [{"ref": 1, "subject": 1, "object": 3, "text": "t", "quote": "we live in Lagos now", "turns": [1]}],
}
DECISIONS = {
    "ops": [{"fact": 0, "op": "SUPERSEDE", "targets": [4], "quotes": ["we live in Lagos now", "home is Faro"]}],
    "depends": [{"fact": 0, "on": [4]}],
    "same": [{"name": 0, "known": 1}],
}
SHOWN = NumberedItems(KNOWN, {4: "home is Faro", 5: "my brother Tom"}, {0: "we live in Lagos now", 1: "tram 9"})
NAMED = {perturbation.name: perturbation for perturbation in PERTURBATIONS}


@pytest.mark.parametrize("perturbation", PERTURBATIONS, ids=lambda one: one.name)
def test_a_perturbation_changes_a_reply_the_same_way_each_time(perturbation: Perturbation) -> None:
    [fact] = READING["facts"]
    reading = {**READING, "facts": [{**fact, "quote": QUOTES.get(perturbation.name, fact["quote"])}]}
    read = [perturbation.read(reading, SHOWN, random.Random(7)) for _ in range(2)]
    judged = [perturbation.judge(DECISIONS, SHOWN, random.Random(7)) for _ in range(2)]
    assert read[0] == read[1] and judged[0] == judged[1]
    assert read[0] != reading or judged[0] != DECISIONS
    assert [fact["ref"] for fact in reading["facts"]] == [1]  # the reply that went in is as it was


def test_numbers_of_two_are_swapped() -> None:
    read = NAMED["known_id swapped, two by two"].read(READING, SHOWN, random.Random(1))
    assert [entity["known_id"] for entity in read["entities"]] == [1, 0, None]


def test_a_wrong_number_keeps_the_words_of_the_right_target() -> None:
    judged = NAMED["SUPERSEDE onto a random known fact"].judge(DECISIONS, SHOWN, random.Random(1))
    assert [op["quotes"] for op in judged["ops"]] == [["we live in Lagos now", "home is Faro"], ["tram 9"]]
    quoted = NAMED["SUPERSEDE onto a random known fact, both quoted"].judge(DECISIONS, SHOWN, random.Random(1))
    assert all(op["quotes"][1] == SHOWN.facts[op["targets"][0]] for op in quoted["ops"])


@pytest.mark.parametrize(
    ("name", "quote", "copy"),
    [
        ("apostrophes left out", "I don’t, I can't", "I dont, I cant"),
        ("spaces between CJK and Latin", "我用 Python写后端", "我用Python 写后端"),
        ("A … B", "on Monday", "on Monday"),
    ],
)
def test_near_copies(name: str, quote: str, copy: str) -> None:
    read = NAMED[name].read({"facts": [{"quote": quote}]}, SHOWN, random.Random(1))
    assert read["facts"] == [{"quote": copy}]


def fact(text: str, subject: str, **changed: Any) -> dict[str, Any]:
    given = {"id": text, "text": text, "state": "current", "subjects": [subject], "said": [1.0], "enders": []}
    return {**given, "former": [], "correction": False, **changed}


NAMES = {"u": frozenset({"user", "callum"}), "t": frozenset({"tom"})}
RIGHT = Graph(
    [fact("Callum lives in Lagos.", "u"), fact("Tom welds.", "t"), fact("Tom lived in Faro.", "t", state="superseded")],
    {"u": "user", "t": "tom"},
    NAMES,
)
TEXTS = {fact["text"] for fact in RIGHT.facts}


def compared(*facts: dict[str, Any], names: dict[str, frozenset[str]] = NAMES, is_quoted: bool = False) -> Harm:
    return measure_harm(RIGHT, Graph(facts, RIGHT.name, names), [], TEXTS, is_quoted=is_quoted)


def test_the_same_graph_is_unharmed() -> None:
    assert compared(*RIGHT.facts) == Harm(facts=3)


def test_what_is_not_there_is_lost() -> None:
    assert compared(*RIGHT.facts[1:]) == Harm(facts=3, lost=1)
    assert measure_harm(RIGHT, Graph((), {}, {}), [], {"Tom welds."}) == Harm(facts=1, lost=1)


def test_a_fact_of_somebody_else_has_a_wrong_subject() -> None:
    assert compared(*RIGHT.facts[:2], fact("Tom lived in Faro.", "u", state="superseded")).subjects == 1


def test_a_name_that_nobody_bears_beside_the_others_is_a_wrong_alias() -> None:
    assert compared(*RIGHT.facts, names={**NAMES, "t": frozenset({"tom", "callum"})}).aliases == 1


def test_a_name_of_ones_own_is_no_alias() -> None:
    assert compared(*RIGHT.facts, names={**NAMES, "m": frozenset({"mrs. alderton"})}).aliases == 0


def test_what_is_over_is_over_in_each_wording_it_has_had() -> None:
    over = fact("Tom lived in Faro until 2025.", "t", state="superseded", former=["Tom lives in Faro."])
    right = Graph([over], RIGHT.name, NAMES)
    earlier, unknown = (fact(text, "t", state="superseded") for text in ("Tom lives in Faro.", "Tom lives in Lagos."))
    assert measure_harm(right, Graph([earlier], RIGHT.name, NAMES), [], set()).endings == 0
    assert measure_harm(right, Graph([unknown], RIGHT.name, NAMES), [], set()).endings == 1


def test_an_ending_is_wrong_unless_the_reply_quotes_both_and_time_and_words_agree() -> None:
    def ended(state: str, ender: dict[str, Any], *, is_quoted: bool) -> tuple[int, int]:
        over = fact("Tom welds.", "t", state=state, enders=[ender["id"]])
        outcome = compared(RIGHT.facts[0], RIGHT.facts[2], over, ender, is_quoted=is_quoted)
        return outcome.endings, outcome.believed

    later, earlier = fact("Tom retired.", "t", said=[2.0]), fact("Tom retired.", "t", said=[0.0])
    assert ended("superseded", later, is_quoted=False) == (1, 0)
    assert ended("superseded", later, is_quoted=True) == (0, 1)
    assert ended("superseded", earlier, is_quoted=True) == (1, 0)
    assert ended("retracted", later, is_quoted=True) == (1, 0)
    assert ended("retracted", {**later, "correction": True}, is_quoted=True) == (0, 1)
