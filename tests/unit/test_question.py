"""Whom a question asks about, and how memory is best searched for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.language.dates import Precision
from adk_graph_memory.retrieval.candidates import SearchCandidate
from adk_graph_memory.retrieval.question import parse_question

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SPEAKERS = (("user", "Franziska Vogt", "Franzi"), ("ana",), ("山田",), ("companion",))

Expected = tuple[str, str, str | None]


def asked(words: str, spoken: str, author: str | None = None) -> Expected:
    return words, spoken, author


def seen(question: str, speakers: Sequence[Sequence[str]]) -> Expected:
    parsed_question = parse_question(question, speakers, NOW)
    return parsed_question.search_text, parsed_question.first_person_text, parsed_question.author


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When did Ana move to Porto?", asked("When did move to Porto?", "When did I move to Porto?", "ana")),
        ("What is ana's job?", asked("What is job?", "What is my job?", "ana")),
        ("What is the user’s number?", asked("What is the number?", "What is the my number?", "user")),
        ("Where does Franziska work?", asked("Where does work?", "Where does I work?", "user")),
        ("Is Franziska Vogt a vet?", asked("Is a vet?", "Is I a vet?", "user")),
        ("Did Ana and Franzi meet?", asked("Did and meet?", "Did and meet?")),
        ("山田の仕事は？", asked("の仕事は？", "の仕事は？", "山田")),
        ("¿Dónde vive Ana?", asked("¿Dónde vive ?", "¿Dónde vive ?", "ana")),
        ("Where is the banana?", asked("Where is the banana?", "Where is the banana?")),
        ("Ana?", asked("Ana?", "Ana?", "ana")),
        ("", asked("", "")),
    ],
)
def test_who_is_asked_about_is_taken_out_of_the_question(question: str, expected: Expected) -> None:
    assert seen(question, SPEAKERS) == expected


@pytest.mark.parametrize(
    ("question", "is_about_third_party"),
    [
        ("What did Caroline research?", True),
        ("Which museum in Lisbon was closed?", True),
        ("When did Ana move to Porto?", False),
        ("What did Caroline give me?", False),
        ("What is my sister Caroline's job?", False),
        ("Caroline", False),
        ("rowing boat", False),
        ("Where did I leave it?", False),
        ("Was sagte Karoline über das Haus?", False),
        ("卡罗琳做什么工作?", False),
    ],
)
def test_a_question_about_somebody_else_names_them_and_not_its_asker(question: str, is_about_third_party: bool) -> None:
    assert parse_question(question, SPEAKERS, NOW, ("en", "de", "zh")).is_about_third_party is is_about_third_party


def test_where_nobody_speaks_a_question_stays_as_it_is() -> None:
    assert seen("When did Ana move?", ()) == ("When did Ana move?", "When did Ana move?", None)


@given(st.text(max_size=60), st.lists(st.lists(st.text(max_size=12), min_size=1, max_size=3), max_size=4))
def test_any_question_and_any_names_are_understood(question: str, speakers: list[list[str]]) -> None:
    parsed_question = parse_question(question, speakers, NOW)
    assert len(parsed_question.search_text) <= len(question)
    assert parsed_question.author is None or parsed_question.author in {names[0] for names in speakers}


@pytest.mark.parametrize(
    ("question", "is_past", "is_present"),
    [
        ("Where do I live?", False, True),
        ("Where did I live before Porto?", True, False),
        ("What was my old number?", True, False),
        ("Where did I park?", False, False),
        ("¿Dónde vivía antes?", True, False),
        ("我以前住在哪里？", True, False),
        ("What was the first flat I had?", True, False),
        ("What is my first name?", False, True),
        ("Which flat do I have in May 2025?", True, False),
        ("What is on in December 2026?", False, True),
        ("What happens every 3 March?", False, True),
        ("Which pets do I have?", False, False),
        ("What are my hobbies?", False, False),
        ("Where has Ana camped?", False, False),
        ("Has Ana camped?", False, False),
        ("What car does Ana have?", False, True),
        ("Which bus do I take?", False, True),
        ("How old is my daughter?", False, True),
        ("How tall is my 3-year-old?", False, True),
        ("What is my first language?", False, True),
        ("What do I have to pack before the trip?", False, True),
        ("أين كنت أعيش؟", True, False),
        ("أين عشت في مايو 2024؟", True, False),
        ("أين أعيش؟", False, False),
        ("Где я жил в мае 2024?", True, False),
        ("मैं पहले कहाँ रहता था?", True, False),
        ("Waar woonde ik vroeger?", True, False),
        ("2024 yılında nerede yaşıyordum ve ne iş yapıyordum?", True, False),
        ("Until when is the shop open?", False, True),
        ("Who was my boss until May?", True, False),
    ],
)
def test_a_question_is_about_now_or_about_before(question: str, *, is_past: bool, is_present: bool) -> None:
    parsed_question = parse_question(question, (), NOW)
    assert (parsed_question.is_past, parsed_question.is_present) == (is_past, is_present)


@pytest.mark.parametrize(
    ("question", "inside", "told_later", "outside"),
    [
        ("What happened on 16 November, 2023?", "2023-11-16", "2023-11-20", "2023-11-15"),
        ("What deal did he get in December?", "2019-12-20", "2020-01-04", "2019-11-30"),
        ("What did I do last week?", "2026-11-12", "2026-11-18", "2026-11-08"),
        ("Where did we go in 2024?", "2024-08-01", "2025-01-03", "2023-12-31"),
        ("¿Qué hice en marzo de 2024?", "2024-03-31", "2024-04-05", "2024-02-01"),
    ],
)
def test_a_time_in_the_question_is_when_it_was_or_soon_after(
    question: str, inside: str, told_later: str, outside: str
) -> None:
    parsed_question = parse_question(question, (), NOW)
    fits = [
        parsed_question.score_timestamp(datetime.fromisoformat(f"{day}T12:00+00:00").timestamp())
        for day in (inside, told_later, outside)
    ]
    assert fits == [1.0, 0.5, 0.0]


@pytest.mark.parametrize("question", ["How long did it take, two weeks?", "May I ask you five things?", "Who is Ana?"])
def test_what_names_no_time_fits_none(question: str) -> None:
    assert parse_question(question, (), NOW).time_spans == ()


@pytest.mark.parametrize(
    ("question", "of_agent"),
    [
        ("Which book did you recommend?", True),
        ("Do you remember where I live?", False),
        ("Can you tell me my address?", False),
        ("Wo wohnt sie?", False),
        ("Où est la clé du garage ?", False),
        ("Was hast du mir empfohlen?", True),
        ("你推荐了哪本书？", True),
    ],
)
def test_whether_the_agent_itself_is_asked_about(question: str, *, of_agent: bool) -> None:
    assert parse_question(question, (), NOW).is_to_agent == of_agent


@pytest.mark.parametrize(
    ("now", "day"),
    [
        ("2026-03-02T01:00:00+09:00", "2026-03-01T12:00:00+09:00"),
        ("2026-03-01T20:00:00-08:00", "2026-02-28T12:00:00-08:00"),
    ],
)
def test_yesterday_is_the_askers_own(now: str, day: str) -> None:
    parsed_question = parse_question("What did I eat yesterday?", (), datetime.fromisoformat(now))
    assert parsed_question.score_timestamp(datetime.fromisoformat(day).timestamp()) == 1.0


def test_midnight_belongs_to_the_day_that_begins() -> None:
    parsed_question = parse_question("What happened on 16 November 2023?", (), NOW)
    days = [parsed_question.score_timestamp(datetime(2023, 11, day, tzinfo=UTC).timestamp()) for day in (15, 16, 17)]
    assert days == [0.0, 1.0, 0.5]


@pytest.mark.parametrize(
    "question", ["on 31 December 9999?", "on 31.12.9999?", "in 9999?", "in the year 1?", "in December?"]
)
@pytest.mark.parametrize("timestamp", [-62135596800.0, 253402300800.0])
def test_days_beyond_the_calendar_are_none(question: str, timestamp: float) -> None:
    parsed_question = parse_question(f"What happens {question}", (), NOW)
    assert parsed_question.score_timestamp(timestamp) == 0.0
    fact = SearchCandidate("f", "fact", valid_from=timestamp, valid_to=timestamp)
    assert parsed_question.is_valid_then(fact) in (True, False)


@pytest.mark.parametrize(
    ("question", "start", "precision", "end", "is_valid"),
    [
        ("What did I buy on 6 June?", "2026-06-06T00:00+00:00", "day", None, True),
        ("6 June 2026?", "2026-06-06T00:00+00:00", None, None, True),
        ("What did I buy on 6 June?", "2026-06-06T00:00+09:00", "day", None, True),
        ("What did I buy on 6 June?", "2026-06-07T00:00+00:00", "day", None, False),
        ("What did I buy on 6 June 2026?", "2025-06-06T00:00+00:00", "day", None, False),
        ("What did I buy on 6 June 2026?", "2026-06-05T23:30+00:00", "time", None, False),
        ("What did I buy on 1 June?", "2026-06-01T00:00+00:00", "month", None, False),
        ("What did I buy in June?", "2026-06-01T00:00-03:00", "month", None, True),
        ("What did I buy in 2025?", "2025-01-01T00:00+00:00", "year", None, True),
        ("Where was I on 6 June 2026?", "2026-06-01T00:00+00:00", "day", "2026-06-10T00:00+00:00", True),
        ("Where was I on 6 June 2026?", "2026-06-01T00:00+00:00", "day", "2026-06-03T00:00+00:00", False),
    ],
)
def test_a_fact_is_of_the_time_it_began_or_held_until_it_ended(
    question: str, start: str, precision: Precision | None, end: str | None, *, is_valid: bool
) -> None:
    valid_from, valid_to = (day and datetime.fromisoformat(day).timestamp() for day in (start, end))
    fact = SearchCandidate("f", "fact", valid_from=valid_from, valid_to=valid_to, valid_from_precision=precision)
    assert parse_question(question, (), NOW).is_valid_then(fact) == is_valid


def test_the_words_of_a_date_count_if_a_memory_is_of_that_time() -> None:
    parsed_question = parse_question("What did I buy on 11 August in 2023?", (), NOW)
    said = SearchCandidate("e", "event", timestamp=datetime(2023, 8, 12, tzinfo=UTC).timestamp())
    fact = SearchCandidate("f", "fact", valid_from=datetime(2023, 8, 11, tzinfo=UTC).timestamp())
    assert parsed_question.list_date_words([said]) == parsed_question.list_date_words([fact]) != []
    assert parsed_question.list_date_words([said._replace(timestamp=0.0), SearchCandidate("f", "fact")]) == []
    assert {"11", "August", "2023"} <= set(" ".join(parsed_question.list_date_words([fact])).split())


@pytest.mark.parametrize("alias", ["the user", "my husband Tom", "me", "a friend"])
def test_ordinary_words_of_an_alias_name_nobody(alias: str) -> None:
    question = "Can you tell me the name of my dentist?"
    assert parse_question(question, (("user", alias),), NOW).search_text == question
