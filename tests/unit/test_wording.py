"""The quote that proves a text is found among those that it rests on."""

from __future__ import annotations

import pytest

from adk_graph_memory.language.text import find_proof


@pytest.mark.parametrize(
    ("quotes", "proof"),
    [
        (["I live in Porto", "Still there"], 0),
        (["Yes", "I live in Porto now"], 1),
        (["I live in Porto", "I live in Porto"], 0),
        (["Yes"], 0),
    ],
)
def test_the_first_quote_with_most_of_the_words_proves_a_text(quotes: list[str], proof: int) -> None:
    assert find_proof("The user lives in Porto.", quotes) == proof
