"""Numbers and codes are found however they are spelled, and other questions are searched for as before."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from adk_graph_memory.graph import lucene
from adk_graph_memory.graph.lucene import extract_word_parts
from adk_graph_memory.language.quantities import find_identifiers
from adk_graph_memory.retrieval.question import ParsedQuestion, format_part_queries, parse_question

FIELDS = ("text", "words")


def parse(text: str) -> ParsedQuestion:
    return parse_question(text, (), datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("+436645550127", ["6645550127"]),
        ("Whose number is 0664/555 01 27?", ["6645550127"]),
        ("AT611904300234573201", ["at611904300234573201", "at61 1904 3002 3457 3201"]),
        ("Do I sit in E07?", ["e07", "e 07"]),
        ("Do I sit in E 07?", ["e07", "e 07"]),
        ("e-07", ["e07", "e 07"]),
        ("When does OS 87 land?", ["os87", "os 87"]),
        ("A 07", ["a07"]),
        ("Was ist für mich jetzt in der Halle A 12?", ["a12"]),
    ],
)
def test_an_identifier_is_also_searched_for_in_other_spellings(question: str, terms: list[str]) -> None:
    assert parse(question).terms == [*lucene.extract_terms(question), *terms]


@pytest.mark.parametrize(
    "question",
    [
        "Where does Franzi live and work now?",
        "What did I do in May 2024, or on 2024-05-06 at 10:30?",
        "Do I owe EUR 500 or 1,500 USD?",
        "Am I 38 years old, and who is the 3rd?",
        "Do I use Python 3.10 on node-1.example.org, or ana@example.org?",
        "Bin ich in Zimmer 12b?",
        "What did I see at CES 2024?",
    ],
)
def test_a_question_without_identifiers_is_searched_for_by_its_words_alone(question: str) -> None:
    parsed = parse(question)
    expected = lucene.format_lucene_query("scope", lucene.extract_terms(question, parsed.stop_word_language), FIELDS)
    assert format_part_queries(parsed.query_parts, "scope", FIELDS) == [expected]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Call me on +43 (664) 555-0127.", "06645550127"),
        ("My seat is E 07.", "e07"),
        ("My seat is e-07.", "E 07"),
        ("AT61 1904 3002 3457 3201", "AT611904300234573201"),
    ],
)
def test_a_text_is_read_in_the_spelling_of_the_question(text: str, question: str) -> None:
    identifiers = find_identifiers(question)
    assert identifiers.unify_spellings(question) in identifiers.unify_spellings(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Call me on +43 664 555 0127.", "6645550127"),
        ("Call me on 6645550127.", None),
        ("Call me on +43\u00a0664\u00a0555\u00a00127.", "6645550127"),
        ("In 2024 it was 1 500 000 euros.", None),
    ],
)
def test_a_number_is_indexed_in_its_normal_form_too(text: str, words: str | None) -> None:
    assert extract_word_parts(text) == words


def test_a_message_has_no_identifiers_and_a_question_a_few() -> None:
    assert not parse(" ".join(f"E{number}" for number in range(200))).identifiers
    assert len(parse(" ".join(f"E{number}" for number in range(20))).identifiers.codes) == 16
