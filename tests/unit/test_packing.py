"""What comes back from a search fits its budget, and says each thing once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.language.text import count_tokens
from adk_graph_memory.records.results import Recollection
from adk_graph_memory.retrieval.packing import pack_recollections


def memory(id: str, text: str = "", **more: Any) -> Recollection:
    return Recollection(id=id, kind="event", text=text or f"words {id}", score=1.0, at=None, **more)


def ids(found: list[Recollection]) -> list[str]:
    return [recollection.id for recollection in found]


# --- packing ------------------------------------------------------------------------------------------------


def test_no_more_than_the_limit_is_kept() -> None:
    assert ids(pack_recollections([memory("a"), memory("b"), memory("c")], limit=2, token_budget=100)) == ["a", "b"]


def test_the_budget_is_kept() -> None:
    memories = [memory(id, f"{id} " + "word " * 9) for id in "abc"]
    assert ids(pack_recollections(memories, limit=9, token_budget=26)) == ["a", "b"]


def test_the_first_comes_back_however_long_it_is() -> None:
    assert ids(pack_recollections([memory("a", "word " * 500), memory("b")], limit=9, token_budget=10)) == ["a"]


def test_a_shorter_one_may_fit_where_a_longer_did_not() -> None:
    memories = [memory("a"), memory("b", "word " * 500), memory("c")]
    assert ids(pack_recollections(memories, limit=9, token_budget=20)) == ["a", "c"]


def test_a_long_text_is_cut_to_the_passage_that_was_asked_for() -> None:
    long = "Nothing of interest. " * 2_000 + "Only the bees were out. " + "Nothing of interest. " * 2_000
    [packed_memory] = pack_recollections([memory("a", long)], query="bees", limit=9, token_budget=400)
    assert "Only the bees were out." in packed_memory.text
    assert count_tokens(packed_memory.text) <= 110
    assert (packed_memory.text[0], packed_memory.text[-1]) == ("\u2026", "\u2026")


def test_a_text_without_spaces_is_cut_as_well() -> None:
    [packed_memory] = pack_recollections([memory("a", "x" * 200_000)], query="y", limit=9, token_budget=400)
    assert len(packed_memory.text) < 20_000


def test_memories_without_ids_are_all_kept() -> None:
    assert len(pack_recollections([memory("", "one"), memory("", "two")], limit=9, token_budget=100)) == 2


def test_nothing_packs_to_nothing() -> None:
    assert pack_recollections([], limit=9, token_budget=100) == []


def test_what_says_the_same_counts_once_with_the_events_of_both() -> None:
    memories = [memory("a", "See you!", source_event_ids=("1",)), memory("b", "See you", source_event_ids=("2", "1"))]
    [packed_memory] = pack_recollections(memories, limit=5, token_budget=100)
    assert (packed_memory.id, packed_memory.source_event_ids) == ("a", ("1", "2"))


def test_ten_long_texts_fit() -> None:
    long = [memory(str(number), f"{number} " + "word " * 400) for number in range(10)]
    packed_memories = pack_recollections(long, query="word", limit=50, token_budget=1_200)
    assert len(packed_memories) == 10


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"text": "I love pizza.", "author": "ana"}, {"text": "I love pizza!", "author": "ben"}),
        ({"text": "I live in Vigo"}, {"text": "I live in Vigo", "is_current": False}),
        ({"text": "My favourite is 🍕"}, {"text": "My favourite is 🍣"}),
        ({"text": "-5 degrees"}, {"text": "5 degrees"}),
        ({"text": "I write C++"}, {"text": "I write C"}),
        ({"text": "मेरी बेटी"}, {"text": "मेरा बेटा"}),
        ({"text": "Is it Monday?"}, {"text": "Is it Monday."}),
    ],
)
def test_what_is_not_the_same_counts_twice(one: dict[str, Any], other: dict[str, Any]) -> None:
    memories = [memory("a", **one), memory("b", **other)]
    assert ids(pack_recollections(memories, limit=5, token_budget=100)) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "filler", "told"),
    [
        (
            "What is the name of the beagle?",
            "The days of the week are the days of the year. ",
            "Our beagle is called Rex. ",
        ),
        ("猎犬叫什么名字？", "今天的天气非常好我们去了公园。", "我们的猎犬叫雷克斯。"),
    ],
)
def test_ordinary_words_do_not_choose_the_passage(query: str, filler: str, told: str) -> None:
    [packed_memory] = pack_recollections(
        [memory("a", filler * 200 + told + filler * 200)], query=query, limit=9, token_budget=1_000
    )
    assert told.strip() in packed_memory.text
    assert count_tokens(packed_memory.text) <= 110


@pytest.mark.parametrize("filler", ["It rained on the bees and the goats. ", "下雨了。"])
def test_a_passage_holds_the_quote_of_the_fact_that_it_stands_for(filler: str) -> None:
    text = filler * 100 + "We take the ferry at nine." + filler * 100
    long = replace(memory("a", text), quote="the ferry at nine")
    [packed_memory] = pack_recollections(
        [long], query="What about the bees and the goats?", limit=9, token_budget=1_000
    )
    assert "the ferry at nine" in packed_memory.text
    assert count_tokens(packed_memory.text) <= 120


# --- tokens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("word", 1),
        ("ten words of English make about eleven tokens or so", 10),
        ("我在花园里养蜜蜂", 8),
        ("ミツバチ", 4),
        ("꿀벌", 2),
        ("ผึ้ง", 4),
        ("我 keep 蜜蜂 bees", 6),
    ],
)
def test_tokens_are_counted_by_words_or_by_characters(text: str, count: int) -> None:
    assert count_tokens(text) == pytest.approx(count, abs=1)


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    assert count_tokens(f"{one} {other}") >= max(count_tokens(one), count_tokens(other)) - 1
