"""A date is read where it was said, keeps its precision, and is written no more exactly than it was said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from adk_graph_memory.extraction.reply import parse_validity_interval
from adk_graph_memory.language.date_finder import find_dates
from adk_graph_memory.language.dates import (
    Precision,
    format_english_date,
    format_english_period,
    format_iso_date,
    infer_precision,
)
from adk_graph_memory.records.facts import FactStatus, FactValidity, Proposition

SAO_PAULO = timezone(timedelta(hours=-3))
SAID = datetime(2024, 6, 10, 23, 30, tzinfo=SAO_PAULO)
NOW = datetime(2024, 11, 2, 9, tzinfo=SAO_PAULO)


@pytest.mark.parametrize(
    ("text", "moment", "precision"),
    [
        ("2024", "2024-01-01T00:00:00-03:00", "year"),
        ("2024-05", "2024-05-01T00:00:00-03:00", "month"),
        ("2024-05-07", "2024-05-07T00:00:00-03:00", "day"),
        ("20240507", "2024-05-07T00:00:00-03:00", "day"),
        ("2024-05-07~", "2024-05-07T00:00:00-03:00", "about"),
        ("2024-05~", "2024-05-01T00:00:00-03:00", "month"),
        ("2024-05-07T15:00", "2024-05-07T15:00:00-03:00", "time"),
        ("2024-05-07 15:00", "2024-05-07T15:00:00-03:00", "time"),
        ("2024-05-07T15:00+09:00", "2024-05-07T15:00:00+09:00", "time"),
    ],
)
def test_a_date_begins_where_it_was_said(text: str, moment: str, precision: Precision) -> None:
    begins = parse_validity_interval(text, None, SAID, is_ahead=False).start
    assert begins is not None
    assert (begins.at.isoformat(), begins.precision) == (moment, precision)
    forms = {"year": moment[:4], "month": moment[:7], "day": moment[:10], "about": f"{moment[:10]}~", "time": moment}
    shown = forms[precision]
    assert format_iso_date(begins.at, begins.precision) == shown


@pytest.mark.parametrize(
    ("text", "moment", "precision", "shown"),
    [
        ("2023", "2024-01-01T00:00:00-03:00", "year", "2023"),
        ("2024-05", "2024-06-01T00:00:00-03:00", "month", "2024-05"),
        ("2024-12", "2025-01-01T00:00:00-03:00", "month", "2024-12"),
        ("2024-02-28", "2024-02-29T00:00:00-03:00", "day", "2024-02-28"),
        ("2024-02-28~", "2024-02-29T00:00:00-03:00", "about", "2024-02-28~"),
        ("2024-06-10", "2024-06-10T23:30:00-03:00", "day", "2024-06-10"),
        ("2024-06-09T18:00", "2024-06-09T18:00:00-03:00", "time", "2024-06-09T18:00:00-03:00"),
    ],
)
def test_a_date_ends_with_its_last_moment(text: str, moment: str, precision: Precision, shown: str) -> None:
    ends = parse_validity_interval(None, text, SAID, is_ahead=False).end
    assert ends is not None
    assert (ends.at.isoformat(), ends.precision) == (moment, precision)
    assert format_iso_date(ends.at, ends.precision, is_end=True) == shown


def test_an_end_before_its_beginning_is_dropped_and_said_so() -> None:
    interval = parse_validity_interval("2024-06", "2024-05", SAID, is_ahead=False)
    assert (interval.start is not None, interval.end, interval.is_inverted) == (True, None, True)
    for since, until in (("2024-06-10", "2024-06-10"), ("2024", "2024-03"), ("2024-06-10T23:45", "2024-06-10")):
        interval = parse_validity_interval(since, until, SAID, is_ahead=False)
        assert interval.start is not None
        assert interval.end is not None
        assert interval.start.at <= interval.end.at
        assert not interval.is_inverted


def test_of_two_days_in_the_wrong_order_an_estimate_is_dropped() -> None:
    interval = parse_validity_interval("2024-06-03~", "2024-05-31", SAID, is_ahead=False)
    assert interval.start is None
    assert interval.end == (datetime(2024, 6, 1, tzinfo=SAO_PAULO), "day")
    interval = parse_validity_interval("2024-06-03", "2024-05-31~", SAID, is_ahead=False)
    assert interval.start == (datetime(2024, 6, 3, tzinfo=SAO_PAULO), "day")
    assert interval.end is None


@pytest.mark.parametrize("text", ["yesterday", "~", "", None, "2024-13", "9999-12", "9999", "0001", "-1", "2024-02-30"])
def test_what_is_no_date_is_none(text: str | None) -> None:
    assert parse_validity_interval(text, text, SAID, is_ahead=False) == (None, None, False)


def test_yesterday_late_in_the_evening_is_the_speaker_s() -> None:
    [date] = find_dates("I saw a heron yesterday.", SAID, "en")
    assert (date.at.isoformat(), date.precision) == ("2024-06-09T00:00:00-03:00", "day")
    [date] = find_dates("I saw a heron yesterday.", SAID.astimezone(UTC), "en")
    assert date.at.isoformat() == "2024-06-10T00:00:00+00:00"


@pytest.mark.parametrize(
    ("words", "precision"), [("in 2019", "year"), ("in May 2019", "month"), ("on 3 May 2019", "day")]
)
def test_a_day_that_a_sentence_names_has_its_precision(words: str, precision: str) -> None:
    [date] = find_dates(f"I moved to Vigo {words}.", SAID, "en")
    assert date.precision == precision


def said(since: datetime, precision: Precision = "day") -> Proposition:
    return Proposition(
        text="Ada moved",
        predicate="moved",
        subject="a",
        object=None,
        at=SAID,
        valid_from=since,
        valid_from_precision=precision,
    )


def test_a_day_is_the_same_day_in_every_zone_and_precision() -> None:
    proposition = said(datetime(2024, 5, 1, tzinfo=UTC))
    assert proposition.signature == said(datetime(2024, 5, 1, tzinfo=SAO_PAULO)).signature
    assert proposition.signature == said(datetime(2024, 5, 1, tzinfo=UTC), "month").signature
    assert proposition.signature != said(datetime(2024, 5, 2, tzinfo=UTC)).signature
    three = datetime(2024, 5, 1, 15, tzinfo=SAO_PAULO)
    assert said(three).signature == said(three.astimezone(UTC)).signature
    assert said(three).signature != said(three.replace(tzinfo=UTC)).signature


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("year", "2024"),
        ("month", "October 2024"),
        ("day", "24 October 2024"),
        ("about", "about 24 October 2024"),
        ("time", "24 October 2024, 00:00"),
    ],
)
def test_words_say_no_more_than_was_said(precision: Precision, words: str) -> None:
    assert format_english_date(datetime(2024, 10, 24, tzinfo=UTC), precision) == words


def test_of_a_date_that_is_older_than_precisions_midnight_is_a_day() -> None:
    assert infer_precision(None) is None
    assert infer_precision(datetime(2024, 10, 24, tzinfo=SAO_PAULO)) == "day"
    assert infer_precision(SAID) == "time"


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=SAO_PAULO)


OCTOBER_24 = local("2024-10-24")


@pytest.mark.parametrize(
    ("when", "status", "plan"),
    [
        (
            FactValidity("planned", "current", OCTOBER_24, None, "day"),
            "lapsed",
            "planned for 24 October 2024; nothing was heard of it since",
        ),
        (
            FactValidity("planned", "current", local("2024-11-02"), None, "day"),
            "planned",
            "planned for 2 November 2024",
        ),
        (
            FactValidity("planned", "current", local("2024-11-01"), None, "month"),
            "planned",
            "planned for November 2024",
        ),
        (FactValidity("planned", "current", local("2024-01-01"), None, "year"), "planned", "planned for 2024"),
        (
            FactValidity("planned", "current", local("2023-01-01"), None, "year"),
            "lapsed",
            "planned for 2023; nothing was heard of it since",
        ),
        (
            FactValidity("planned", "current", local("2024-10-30T15:00"), None, "time"),
            "lapsed",
            "planned for 30 October 2024, 15:00; nothing was heard of it since",
        ),
        (
            FactValidity("planned", "current", OCTOBER_24, local("2024-11-09"), "day", "day"),
            "planned",
            "planned for 24 October 2024",
        ),
        (
            FactValidity("planned", "current", None, local("2024-10-25"), None, "day"),
            "lapsed",
            "planned until 24 October 2024; nothing was heard of it since",
        ),
        (
            FactValidity("planned", "current", local("2024-10-30"), None, "about"),
            "planned",
            "planned for about 30 October 2024",
        ),
        (
            FactValidity("planned", "current", None, local("2024-10-31"), None, "about"),
            "planned",
            "planned until about 30 October 2024",
        ),
        (
            FactValidity("planned", "current", OCTOBER_24, None, "about"),
            "lapsed",
            "planned for about 24 October 2024; nothing was heard of it since",
        ),
        (FactValidity("planned", "current", None, None), "planned", "planned; spoken of on 10 June 2024"),
        (FactValidity("planned", "superseded", OCTOBER_24, None, "day"), "over", None),
        (FactValidity("planned", "retracted", OCTOBER_24, None, "day"), "over", None),
        (FactValidity("asserted", "current", local("2024-05-01"), local("2024-05-04")), "happened", None),
        (FactValidity("asserted", "current", local("2024-05-01"), local("2024-12-04")), "holds", None),
        (FactValidity("asserted", "current", local("2024-05-01"), None), "holds", None),
        (FactValidity("asserted", "current", None, local("2024-05-04")), "over", None),
        (FactValidity("asserted", "superseded", local("2024-05-01"), local("2024-05-04")), "over", None),
        (FactValidity("asserted", "current", None, None, is_stale=True), "over", None),
        (FactValidity("negated", "current", local("2024-05-01"), local("2024-05-04")), "over", None),
        (FactValidity(None, None, None, None), "holds", None),
    ],
)
def test_what_of_a_fact_is_so_now(when: FactValidity, status: FactStatus, plan: str | None) -> None:
    assert (when.compute_status(NOW), when.describe_plan("Ada plans to leave", SAID, NOW)) == (status, plan)


def test_a_plan_whose_text_names_its_date_says_it_once() -> None:
    when = FactValidity("planned", "current", local("2024-12-01"), None, "day")
    assert when.describe_plan("Ada leaves on 1 December 2024", SAID, NOW) is None
    assert when.describe_plan("Ada leaves on 1 December", SAID, NOW) == "planned for 1 December 2024"
    lapsed = FactValidity("planned", "current", OCTOBER_24, None, "day")
    assert lapsed.describe_plan("Ada leaves on 24 October 2024", SAID, NOW) == (
        "planned for 24 October 2024; nothing was heard of it since"
    )


def test_what_ended_on_a_day_of_which_no_hour_is_known_did_not_end_the_day_before() -> None:
    midnight = datetime(2024, 5, 7, tzinfo=UTC)
    ends = parse_validity_interval(None, "2024-05-07", midnight, is_ahead=False).end
    assert ends is not None
    assert format_iso_date(*ends, is_end=True) == "2024-05-07"


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (("2023-07-21", "day"), ("2023-07-22", "day"), "on 21 July 2023"),
        (("2022-01-01", "year"), ("2023-01-01", "year"), "in 2022"),
        (("2023-06-02", "about"), ("2023-06-03", "about"), "about 2 June 2023"),
        (None, ("2023-06-03", "about"), "until about 2 June 2023"),
        (("2024-05-01", "month"), None, "since May 2024"),
        (None, ("2025-01-01", "year"), "until 2024"),
        (("2024-05-01", "month"), ("2025-01-01", "year"), "from May 2024 to 2024"),
        (None, None, ""),
    ],
)
def test_a_period_reads_as_it_was_said(
    start: tuple[str, Precision] | None, end: tuple[str, Precision] | None, expected: str
) -> None:
    dates = [
        (datetime.fromisoformat(one[0]).replace(tzinfo=UTC), one[1]) if one else (None, None) for one in (start, end)
    ]
    assert format_english_period(*dates[0], *dates[1]) == expected
