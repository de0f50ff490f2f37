"""What a search found becomes records, with what an answer shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from adk_graph_memory.retrieval.recollections import convert_to_records

QUOTES = {"f1": "It rained", "f2": "we keep bees"}
TEXT = "It rained, and we keep bees."


def make_turn_row(text: str, more: Mapping[str, Any] = {"text": None, "rivals": []}) -> dict[str, Any]:
    fact = {"state": "current", "stale": False, **more}
    facts = [{"memory_id": id, "quote": quote, **fact} for id, quote in QUOTES.items()]
    return {"id": "event:1", "kind": "event", "event_id": "1", "text": text, "score": 1.0, "facts": facts}


@pytest.mark.parametrize(
    ("passage_length", "quote"), [(len(TEXT) - 1, "we keep bees"), (len(TEXT), None), (len(TEXT) + 1, None)]
)
def test_a_turn_that_is_too_long_for_a_passage_has_the_quote_that_it_was_found_for(
    passage_length: int, quote: str | None
) -> None:
    [record] = convert_to_records([make_turn_row(TEXT)], {"f2"}, passage_length)
    assert (record["text"], record["quote"], record["facts"]) == (TEXT, quote, 2)


@pytest.mark.parametrize(
    ("text", "rivals", "is_disputed"),
    [
        ("I weigh 80 kg", ["My weight is 80 kg"], True),
        ("I weigh 80 kg", ["I weigh 90 kg"], None),  # no rule would leave both
        ("I weigh 80 kg", ["I weigh 80 kg."], None),
        (None, [], None),
    ],
)
def test_a_turn_is_disputed_if_a_fact_of_it_is(text: str | None, rivals: list[str], is_disputed: bool | None) -> None:
    [record] = convert_to_records([make_turn_row(TEXT, {"text": text, "rivals": rivals})], {"f2"}, len(TEXT))
    assert record["disputed"] is is_disputed
