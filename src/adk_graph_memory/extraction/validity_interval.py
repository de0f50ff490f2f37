"""Dates of a reply go in, and when it was said; when that was so comes out, as exactly as it was said."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import NamedTuple

from adk_graph_memory.language.zones import apply_fixed_offset
from adk_graph_memory.records.dates import Precision, compute_date_end

_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?")


class DateWithPrecision(NamedTuple):
    """A moment, and how exactly it was said."""

    at: datetime
    precision: Precision


class ValidityInterval(NamedTuple):
    """Since when and until when something is so; ``is_inverted`` says that an end was given before its beginning."""

    start: DateWithPrecision | None = None
    end: DateWithPrecision | None = None
    is_inverted: bool = False


def parse_validity_interval(
    begins: str | None, ends: str | None, said: datetime, *, is_ahead: bool
) -> ValidityInterval:
    """The interval that two ISO 8601 years, months, dates or times name; what cannot be read is None.

    An end before the beginning is dropped.

    Args:
        begins: its first moment, or year, month or day.
        ends: its last one.
        said: when it was said; what names no offset is local there, so that a day begins at its midnight.
        is_ahead: whether it is something planned; else what ended on the day that it was told was over by then.
    """
    start, end = _parse_iso_date(begins, said), _parse_iso_date(ends, said)
    first = start.at if start else None
    if end is not None:
        over = _compute_end(end)
        is_of_the_day = end.precision == "day" and end.at.date() == said.date()
        if is_of_the_day and said > end.at and not is_ahead and (first is None or first < said):
            over = said
        end = DateWithPrecision(over, end.precision) if over else None
    if end and first and (end.at < first or (end.at == first and end.precision != "time")):
        return ValidityInterval(start, None, is_inverted=True)
    return ValidityInterval(start, end)


def _compute_end(date: DateWithPrecision) -> datetime | None:
    try:
        return _validate_datetime(compute_date_end(*date))
    except (OverflowError, ValueError):
        return None


def _parse_iso_date(text: str | None, said: datetime) -> DateWithPrecision | None:
    """The first moment of what the text names."""
    given = (text or "").strip()
    precision: Precision = "time" if ":" in given or "T" in given else "day"
    if coarse := _YEAR_OR_MONTH.fullmatch(given):
        precision = "month" if coarse[2] else "year"
        given = f"{coarse[1]}-{coarse[2] or '01'}-01"
    try:
        moment = datetime.fromisoformat(given)
        known = _validate_datetime(moment if moment.tzinfo else moment.replace(tzinfo=said.tzinfo))
    except (ValueError, OverflowError):
        return None
    return DateWithPrecision(known, precision) if known else None


def _validate_datetime(moment: datetime) -> datetime | None:
    """The moment, if calendars hold it in every zone."""
    return None if moment.astimezone(UTC).year in (MINYEAR, MAXYEAR) else apply_fixed_offset(moment)
