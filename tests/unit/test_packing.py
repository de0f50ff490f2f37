"""What comes back from a search is scored on one scale, fits its budget, and says each thing once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.records import Recollection, token_count
from adk_graph_memory.retrieval import packed
from adk_graph_memory.retrieval.scoring import Candidate, Weights, fused, normalised


def memory(id: str, text: str = "some words", **more: Any) -> Recollection:
    return Recollection(id=id, kind="event", text=text, score=1.0, at=None, **more)


def ids(found: list[Recollection]) -> list[str]:
    return [recollection.id for recollection in found]


# --- packing ------------------------------------------------------------------------------------------------


def test_no_more_than_the_limit_is_kept() -> None:
    assert ids(packed([memory("a"), memory("b"), memory("c")], {}, limit=2, token_budget=100)) == ["a", "b"]


def test_the_budget_is_kept() -> None:
    found = [memory(id, "word " * 10) for id in "abc"]
    assert ids(packed(found, {}, limit=9, token_budget=26)) == ["a", "b"]


def test_the_first_comes_back_however_long_it_is() -> None:
    assert ids(packed([memory("a", "word " * 500), memory("b")], {}, limit=9, token_budget=10)) == ["a"]


def test_a_shorter_one_may_fit_where_a_longer_did_not() -> None:
    found = [memory("a"), memory("b", "word " * 500), memory("c")]
    assert ids(packed(found, {}, limit=9, token_budget=20)) == ["a", "c"]


@pytest.mark.parametrize("order", [["fact", "event"], ["event", "fact"]])
def test_a_fact_and_the_turn_it_rests_on_count_once(order: list[str]) -> None:
    found = [memory(id) for id in order]
    assert ids(packed(found, {"fact": ["event"]}, limit=9, token_budget=100)) == order[:1]


def test_two_facts_of_one_turn_are_two() -> None:
    found = [memory("f1"), memory("e"), memory("f2"), memory("other")]
    kept = packed(found, {"f1": ["e"], "f2": ["e"], "e": ["e"]}, limit=9, token_budget=100)
    assert ids(kept) == ["f1", "f2", "other"]


def test_a_long_text_is_cut_to_the_passage_that_was_asked_for() -> None:
    long = "Nothing of interest. " * 2_000 + "Only the bees were out. " + "Nothing of interest. " * 2_000
    [kept] = packed([memory("a", long)], {}, query="bees", limit=9, token_budget=400)
    assert "Only the bees were out." in kept.text
    assert token_count(kept.text) <= 110
    assert (kept.text[0], kept.text[-1]) == ("\u2026", "\u2026")


def test_a_text_without_spaces_is_cut_as_well() -> None:
    [kept] = packed([memory("a", "x" * 200_000)], {}, query="y", limit=9, token_budget=400)
    assert len(kept.text) < 20_000


def test_memories_without_ids_are_all_kept() -> None:
    assert len(packed([memory("", "one"), memory("", "two")], {"": []}, limit=9, token_budget=100)) == 2


def test_nothing_packs_to_nothing() -> None:
    assert packed([], {}, limit=9, token_budget=100) == []


# --- scoring ------------------------------------------------------------------------------------------------

RAW = st.floats(0, 50, allow_nan=False)
COSINES = st.floats(0, 1, allow_nan=False)


@given(RAW)
def test_a_leg_scores_between_nought_and_one(raw: float) -> None:
    assert 0 <= normalised("text", raw) < 1


@given(COSINES)
def test_a_cosine_stays_what_it_is(raw: float) -> None:
    assert normalised("vector", raw) == pytest.approx(max(0.0, 2 * raw - 1))


@given(RAW, RAW)
def test_a_better_raw_score_never_scores_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert normalised("text", low) <= normalised("text", high)


def test_what_leads_both_legs_leads() -> None:
    rows = [Candidate("a", "text", 9.0), Candidate("a", "vector", 0.9), Candidate("b", "text", 8.0)]
    rows += [Candidate("c", "vector", 0.89)]
    [(best, score), *rest] = fused(rows, Weights())
    assert best == "a"
    assert score > sum(other for _, other in rest) / 2


def test_the_best_of_a_leg_counts_not_the_sum() -> None:
    once = fused([Candidate("a", "entity", 3.0)], Weights())
    assert fused([Candidate("a", "entity", 3.0)] * 4 + [Candidate("a", "entity", 1.0)], Weights()) == once


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["text", "vector", "entity"]), COSINES)))
def test_the_order_of_the_legs_makes_no_difference(rows: list[tuple[str, str, float]]) -> None:
    candidates = [Candidate(*row) for row in rows]
    forwards, backwards = dict(fused(candidates, Weights())), dict(fused(candidates[::-1], Weights()))
    assert forwards == pytest.approx(backwards)


def test_a_score_does_not_depend_on_who_else_was_found() -> None:
    alone = dict(fused([Candidate("a", "text", 5.0)], Weights()))
    together = dict(fused([Candidate("a", "text", 5.0), Candidate("b", "text", 50.0)], Weights()))
    assert alone["a"] == together["a"]


def test_equal_scores_are_ordered_by_id() -> None:
    found = fused([Candidate("b", "text", 5.0), Candidate("a", "text", 5.0)], Weights())
    assert [id for id, _ in found] == ["a", "b"]


def test_the_turn_after_a_question_gets_most_of_its_score() -> None:
    asked = Candidate("q", "text", 5.0, asks=True, follower="answer")
    stated = Candidate("s", "text", 5.0, follower="next")
    scores = dict(fused([asked, stated], Weights()))
    assert scores["answer"] > scores["next"]


# --- tokens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("word", 1),
        ("ten words of English make about thirteen tokens or so", 13),
        ("我在花园里养蜜蜂", 8),
        ("ミツバチ", 4),
        ("꿀벌", 2),
        ("ผึ้ง", 4),
        ("我 keep 蜜蜂 bees", 6),
    ],
)
def test_tokens_are_counted_by_words_or_by_characters(text: str, count: int) -> None:
    assert token_count(text) == pytest.approx(count, abs=1)


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    assert token_count(f"{one} {other}") >= max(token_count(one), token_count(other)) - 1
