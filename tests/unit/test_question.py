"""Whom a question asks about, and how memory is best searched for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.retrieval.question import Asked, understood
from adk_graph_memory.retrieval.scoring import Candidate, Weights, fused

SPEAKERS = (("user", "Franziska Vogt", "Franzi"), ("ana",), ("山田",), ("companion",))


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("When did Ana move to Porto?", Asked("When did move to Porto?", "When did I move to Porto?", "ana")),
        ("What is ana's job?", Asked("What is job?", "What is my job?", "ana")),
        ("What is the user’s number?", Asked("What is the number?", "What is the my number?", "user")),
        ("Where does Franziska work?", Asked("Where does work?", "Where does I work?", "user")),
        ("Is Franziska Vogt a vet?", Asked("Is a vet?", "Is I a vet?", "user")),
        ("Did Ana and Franzi meet?", Asked("Did and meet?", "Did and meet?")),
        ("山田の仕事は？", Asked("の仕事は？", "の仕事は？", "山田")),
        ("¿Dónde vive Ana?", Asked("¿Dónde vive ?", "¿Dónde vive ?", "ana")),
        ("Where is the banana?", Asked("Where is the banana?", "Where is the banana?")),
        ("Ana?", Asked("Ana?", "Ana?", "ana")),
        ("", Asked("", "")),
    ],
)
def test_who_is_asked_about_is_taken_out_of_the_question(question: str, asked: Asked) -> None:
    assert understood(question, SPEAKERS) == asked


def test_where_nobody_speaks_a_question_stays_as_it_is() -> None:
    assert understood("When did Ana move?", ()) == Asked("When did Ana move?", "When did Ana move?")


@given(st.text(max_size=60), st.lists(st.lists(st.text(max_size=12), min_size=1, max_size=3), max_size=4))
def test_any_question_and_any_names_are_understood(question: str, speakers: list[list[str]]) -> None:
    asked = understood(question, speakers)
    assert len(asked.words) <= len(question)
    assert asked.author is None or asked.author in {names[0] for names in speakers}


# -- what it adds to a score ------------------------------------------------------------------------------------


def test_what_the_one_asked_about_said_themselves_comes_first() -> None:
    rows = [Candidate("a", "text", 3.0, "user", "ben"), Candidate("b", "text", 3.0, "user", "ana")]
    assert [id for id, _ in fused(rows, Weights(), "ana")] == ["b", "a"]
    assert [id for id, _ in fused(rows, Weights())] == ["a", "b"]


def test_a_turn_before_a_hit_gets_a_share_of_it() -> None:
    rows = [Candidate("a", "text", 2.0, follower="b"), Candidate("b", "text", 9.0), Candidate("c", "text", 2.0)]
    assert [id for id, _ in fused(rows, Weights(next=0.0, answer=0.0))] == ["b", "a", "c"]
