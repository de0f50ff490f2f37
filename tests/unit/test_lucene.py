"""Whatever is typed, the Lucene query holds nothing of it but words between quotation marks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.graph import lucene


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("Where are my bees?", ["Where", "are", "my", "bees"]),
        ("bees Bees BEES", ["BEES"]),
        ("bees AND (", ["bees", "AND"]),
        ("text:bees", ["text:bees", "text", "bees"]),
        ("hello! 10/12", ["hello", "10/12", "10", "12"]),
        ("", []),
        (" \n\t", []),
        ("?!*~^", []),
        ("_ __ ___", []),
        ("Zoe\u0308", ["Zo\u00eb"]),
        ("Python\u3067", ["\u3067", "Python"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
    ],
)
def test_a_question_is_its_words(question: str, terms: list[str]) -> None:
    assert lucene.extract_terms(question) == terms


def test_of_very_many_words_the_longest_are_kept() -> None:
    terms = lucene.extract_terms(" ".join(f"w{n}" for n in range(5_000)) + " extraordinary")
    assert len(terms) == lucene.MAX_TERMS
    assert "extraordinary" in terms


def test_few_words_keep_their_order() -> None:
    assert lucene.extract_terms("one two three") == ["one", "two", "three"]


def test_the_scope_is_required() -> None:
    assert lucene.format_lucene_query("abc", ["bees"], ("text",)).startswith('+scope:"abc"^0 +(')


def test_every_word_is_looked_for_in_every_field() -> None:
    query = lucene.format_lucene_query("abc", ["bees", "hive"], ("text", "words"))
    assert all(f'{field}:"{word}"' in query for field in ("text", "words") for word in ("bees", "hive"))


@given(st.text())
def test_no_operator_comes_through(question: str) -> None:
    query = lucene.format_lucene_query("abc", lucene.extract_terms(question), ("text",))
    inside = re.fullmatch(r'\+scope:"abc"\^0 \+\((.*)\)\^1\.0', query, re.DOTALL)
    assert inside is not None
    assert re.fullmatch(r'(?:\w+:"[^"\\]*" ?)*', inside[1])


@given(st.text())
def test_a_term_is_found_in_the_question_whatever_it_is(question: str) -> None:
    assert len(lucene.extract_terms(question)) <= lucene.MAX_TERMS
    assert all(term.strip("_") for term in lucene.extract_terms(question))


@given(st.text())
def test_what_is_indexed_beside_a_text_are_parts_of_its_words(text: str) -> None:
    beside = lucene.extract_word_parts(text)
    assert beside is None or beside.strip()


def test_half_a_character_parts_two_words() -> None:
    assert lucene.extract_terms("bees\ud83dhive") == ["bees", "hive"]


def test_of_a_pasted_page_the_words_stay_rather_than_its_addresses() -> None:
    page = " ".join(f"https://host{n}.example.org/a/long/path/to/page{n}" for n in range(3_000))
    assert not [term for term in lucene.extract_terms(f"{page} cellar") if not term.isalnum()]
