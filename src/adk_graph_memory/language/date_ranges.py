"""Find the days, weeks, months and years that a question asks about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from adk_graph_memory.language import date_finder


@dataclass(frozen=True, slots=True)
class DateRange:
    """A day, week, month or year that a text names, with its words; a date without a year recurs yearly."""

    start: datetime
    end: datetime
    is_yearly: bool = False
    words: str = field(default="", compare=False)

    def contains(self, moment: datetime) -> bool:
        """Whether the moment lies in the range, or in that of its year."""
        return (self.measure_time_since(moment) or timedelta()) < timedelta()

    def measure_time_since(self, moment: datetime) -> timedelta | None:
        """The time from the end of the range to the moment: negative inside the range, None before it."""
        start, moment = self.start, moment.astimezone(self.start.tzinfo)
        if self.is_yearly:
            this_year = _replace_year(start, moment.year)
            start = this_year if this_year <= moment else _replace_year(start, moment.year - 1)
        return moment - start - (self.end - self.start) if start <= moment else None

    def overlaps(self, start: datetime, end: datetime) -> bool:
        """Whether the range overlaps start to end; False for a yearly range, which is too vague."""
        return not self.is_yearly and self.start < end and start < self.end


def find_date_ranges(text: str, now: datetime, language: str) -> tuple[DateRange, ...]:
    """The date ranges that a text in one language names, relative to ``now`` and in its time zone."""
    return _find_ranges_cached(text, now.replace(tzinfo=None), now.tzinfo, language)


@lru_cache(maxsize=256)
def _find_ranges_cached(text: str, base: datetime, zone: tzinfo | None, language: str) -> tuple[DateRange, ...]:
    if len(text) > date_finder.MAX_SENTENCE_LENGTH or not date_finder.has_date_hint(text, language):
        return ()
    with date_finder.DATEPARSER_LOCK:
        ranges = list(_iterate_date_ranges(text, base, zone, language))
    years = [span for span in ranges if span.end - span.start >= timedelta(days=365)]
    shorter = [span for span in ranges if span.end - span.start < timedelta(days=365)]
    if len(years) == 1:  # "11 August" and "2023" may stand apart
        shorter = [_set_range_year(span, years[0]) for span in shorter]
    return tuple(shorter or ranges)


def _iterate_date_ranges(text: str, base: datetime, zone: tzinfo | None, language: str) -> Iterator[DateRange]:
    for start, end in date_finder.locate_dates(text, base, language):
        words = text[start:end]
        past, future = date_finder.parse_past_and_future(words, base, language)
        has_name = date_finder.has_calendar_word(words, language) or date_finder.YEAR_PATTERN.search(words) is not None
        if past is None or (past != future and not has_name) or not 1900 <= past.year <= 2200:
            continue
        first = past.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=zone)
        span = _make_date_range(first, date_finder.detect_date_unit(words, base, language), is_yearly=past != future)
        yield replace(span, words=words)


def _make_date_range(day: datetime, period: str, *, is_yearly: bool) -> DateRange:
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        return DateRange(monday, monday + timedelta(days=7))
    if period == "month":
        first = day.replace(day=1)
        return DateRange(first, (first + timedelta(days=32)).replace(day=1), is_yearly)
    if period == "year":
        first = day.replace(month=1, day=1)
        return DateRange(first, first.replace(year=day.year + 1))
    return DateRange(day, day + timedelta(days=1), is_yearly)


def _set_range_year(span: DateRange, year: DateRange) -> DateRange:
    start = _replace_year(span.start, year.start.year) if span.is_yearly else span.start
    return DateRange(start, start + (span.end - span.start), words=f"{span.words} {year.words}")


def _replace_year(moment: datetime, year: int) -> datetime:
    is_leap_day = (moment.month, moment.day) == (2, 29)
    return moment.replace(year=year, day=28) if is_leap_day else moment.replace(year=year)
