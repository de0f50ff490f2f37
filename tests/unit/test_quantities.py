"""Quantities in other spellings compare as equal; those that differ in number, unit or sign do not."""

from __future__ import annotations

import pytest

from adk_graph_memory.language.quantities import normalize_quantities
from adk_graph_memory.language.text import fold_text


def normalize(text: str) -> str:
    return normalize_quantities(fold_text(text)).text


@pytest.mark.parametrize(
    "texts",
    [
        ("1,500", "1500", "1.500", "1 500", "1'500"),
        ("€1,500", "1500 euros", "1.500 EUR", "EUR 1500", "1.5k €", "1,5 тыс. евро"),
        ("5.0", "5", "5,00", "five", "cinco"),
        ("5.0/5", "5/5"),
        ("at 9:00", "at 9", "at 9 am", "at 9 a.m"),
        ("at 21:30", "at 9:30 pm", "at 21h30"),
        ("+43 664 555 0127", "0664/555 01 27", "+43 (664) 5550127", "0043 664 5550127", "6645550127"),
        ("AT61 1904 3002 3457 3201", "at611904300234573201"),
        ("2026-03-05", "5.3.2026", "05. 03. 2026"),
        ("1990-05-06", "May 6, 1990", "6 May 1990", "the 6th of May 1990", "1990/5/6", "6. Mai 1990"),
        ("1990-05-06", "6 de mayo de 1990", "6 mai 1990", "6 мая 1990", "1990年5月6日", "1990년 5월 6일"),
        ("2025-03-01", "1st March, 2025", "1er mars 2025", "1º de março de 2025", "Mar. 1 2025"),
        ("2025-12-24", "24/12/2025", "12/24/2025", "24-12-2025"),
        ("2025-06-06", "06/06/2025"),
        ("2025-06-06出生", "2025年6月6日出生"),
        ("她2025年06月06日出生", "她2025年6月6日出生"),
        ("−18 °C", "-18°C", "minus 18 Celsius"),
        ("1.5 million dollars", "$1,500,000", "1500000 USD", "$1.5m"),
        ("1½ km", "1.5 km"),
        ("9:15", "9.15 Uhr"),
        ("1-212-555-0123", "+1 212 555 0123", "(212) 555-0123"),
    ],
)
def test_what_is_equal_has_one_normal_form(texts: tuple[str, ...], subtests: pytest.Subtests) -> None:
    for text in texts[1:]:
        with subtests.test(text=text):
            assert normalize(text) == normalize(texts[0])


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("52,000 euros", "52,000 francs"),
        ("1500000 USD", "1500000 EUR"),
        ("-125000.50", "125000.50"),
        ("20 kg", "20 lb"),
        ("-18 °C", "18 °C"),
        ("20 minutes", "20 hours"),
        ("9:30", "21:30"),
        ("9 am", "9 pm"),
        ("555 0172", "555 0127"),
        ("+43 664 555 0127", "+43 664 555 0128"),
        ("1,500", "1.5"),
        ("5-7 days", "5-8 days"),
        ("version 1.2.3", "version 12.3"),
        ("python 3.10", "python 3.1"),
        ("am 1.10. um neun", "am 1.1. um neun"),
        ("2.125 ml of it", "2125 km of it"),
        ("3.250 kg", "3250 kg"),
        ("$5m", "$5"),
        ("5 billion dollars", "5 dollars"),
        ("(212) 555-0123", "(312) 555-0123"),
        ("0800 5550199", "0900 5550199"),
        ("06/05/1990", "1990-05-06"),
        ("06/05/1990", "05/06/1990"),
        ("6 May 1990", "6 May 1991"),
        ("6 May 1990", "6 June 1990"),
    ],
)
def test_what_differs_in_number_unit_or_sign_is_not_the_same(text: str, other: str) -> None:
    mine, theirs = (normalize_quantities(fold_text(one)) for one in (text, other))
    assert not mine.has_quantities_of(theirs)
    assert mine.text != theirs.text


def test_a_unit_that_only_one_of_two_names_does_not_tell_them_apart() -> None:
    bare, pounds, sterling = (normalize_quantities(text) for text in ("20", "20 pounds", "20 gbp"))
    assert bare.has_quantities_of(pounds)
    assert pounds.has_quantities_of(sterling)


@pytest.mark.parametrize("vague", ["in 1990", "on 6 may", "am 6.5."])
@pytest.mark.parametrize("exact", ["1990-05-06", "6 may 1990"])
def test_a_date_has_its_day_and_its_year(vague: str, exact: str) -> None:
    mine, theirs = normalize_quantities(exact), normalize_quantities(vague)
    assert mine.has_quantities_of(theirs)
    assert not theirs.has_quantities_of(mine)


@pytest.mark.parametrize(
    ("text", "is_identified"),
    [
        ("call 555 0172", True),
        ("call +43 664 555 0127", True),
        ("the account is AT61 1904 3002 3457 3201", True),
        ("write to ana@example.org", True),
        ("see https://example.org/ana", True),
        ("San Francisco 94110", False),
        ("1500000 USD", False),
        ("1 500 000 euros", False),
        ("from 2024 to 2026", False),
        ("2024-2026", False),
        ("in 2024 1500 people", False),
        ("on 2026-03-05", False),
        ("on 12/05/2026", False),
        ("12:30-14:00", False),
        ("125000.50", False),
    ],
)
def test_only_a_number_that_somebody_was_given_identifies(text: str, is_identified: bool) -> None:
    assert normalize_quantities(fold_text(text)).has_identifier == is_identified


def test_other_words_stay_as_they_are() -> None:
    for text in (
        "covid-19 in room 12b, the 5th of may; tel aviv won 3 to 1",
        "anna - my sister - and otto, whose rent is due on 5 sept",
        "2 - 4 hours – 18 may",
    ):
        assert normalize(text).replace("hour ", "hours ") == text


def test_a_long_number_is_read_as_fast_as_a_long_word() -> None:
    assert normalize("1" * 100_000) == "1" * 100_000


@pytest.mark.slow
def test_no_text_has_too_many_numbers() -> None:
    assert normalize("5 a " * 140_000).count("5") == 140_000
