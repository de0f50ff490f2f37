"""What a search found becomes records, with what an answer shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from adk_graph_memory.retrieval.recollections import convert_to_records

QUOTES = {"f1": "It rained", "f2": "we keep bees"}
TEXT = "It rained, and we keep bees."


def make_turn_row(text: str, more: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
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
    ("subject", "text", "is_disputed"),
    [
        ("ada", "My weight is 80 kg", True),
        ("bob", "My weight is 80 kg", None),
        ("ada", "I weigh 90 kg", None),  # no rule would leave both
        ("ada", "I weigh 80 kg.", None),
    ],
)
def test_what_may_be_the_same_value_or_another_is_disputed(subject: str, text: str, is_disputed: bool | None) -> None:
    values = [{"subject": "ada", "text": "I weigh 80 kg"}, {"subject": subject, "text": text}]
    rows = [make_turn_row(one["text"], {"value": {**one, "predicate": "weight"}}) for one in values]
    for number, row in enumerate(rows):
        row["facts"] = [{**row["facts"][0], "memory_id": f"fact:{number}"}]
    assert [record["disputed"] for record in convert_to_records(rows, (), len(TEXT))] == [is_disputed] * 2
