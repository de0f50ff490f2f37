"""Dates as exactly as they were said: a year, a month, a day or a time, and how they are written."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

Precision = Literal["year", "month", "day", "time"]

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # whatever the process's locale calls them
_ISO_LENGTHS = {"year": 4, "month": 7, "day": 10, "time": 16}
"""Characters of an ISO 8601 time that say so much."""


def infer_precision(moment: datetime | None) -> Precision | None:
    """How exact a date is of which nothing else tells: midnight is a day."""
    if moment is None:
        return None
    return "time" if moment.hour or moment.minute or moment.second or moment.microsecond else "day"


def compute_date_end(start: datetime, precision: Precision | None) -> datetime:
    """The first moment after the year, month or day that begins then; a time is over at once.

    Raises:
        OverflowError: it is the last year that there is.
    """
    if precision == "year":
        return (start.replace(month=1, day=1) + timedelta(days=366)).replace(month=1, day=1)
    if precision == "month":
        return (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    return start + timedelta(days=precision == "day")


def compute_day_range(moment: datetime, precision: Precision | None, *, is_end: bool = False) -> tuple[date, date]:
    """The first and the last day of the year, month or day that a date names; a day is the same in every zone."""
    day, precision = _shift_end_inside(moment, is_end=is_end).date(), precision or infer_precision(moment)
    if precision == "year":
        return date(day.year, 1, 1), date(day.year, 12, 31)
    if precision == "month":
        return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])
    return day, day


def is_day_range_within(exact: tuple[date, date], vague: tuple[date, date]) -> bool:
    """Whether the days from the first to the last are days of the other period, or all of them."""
    return vague[0] <= exact[0] and exact[1] <= vague[1]


def make_date_key(when: datetime) -> str:
    """A date as it is compared: a day is the same in every zone, and what names only its month or year is its first."""
    is_day = when.time() == time()
    return (when.replace(tzinfo=UTC) if is_day else when.astimezone(UTC)).isoformat()


def format_iso_date(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> str | None:
    """The date in ISO 8601, no more exact than it was said; an end is written as the last day, month or year within."""
    if moment is None:
        return None
    if (precision or infer_precision(moment)) == "time":
        return moment.isoformat()
    return _shift_end_inside(moment, is_end=is_end).isoformat()[: _ISO_LENGTHS[precision or "day"]]


def format_short_date(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> str | None:
    """The same with a time as its local day and hour."""
    is_time = moment is not None and (precision or infer_precision(moment)) == "time"
    return format_date_minute(moment) if moment and is_time else format_iso_date(moment, precision, is_end=is_end)


def format_english_date(moment: datetime, precision: Precision | None, *, is_end: bool = False) -> str:
    """The date as an English sentence holds it: "24 October 2024", "October 2024", "2024"."""
    precision = precision or infer_precision(moment)
    if precision == "time":
        return f"{format_english_date(moment, 'day')}, {moment:%H:%M}"
    moment = _shift_end_inside(moment, is_end=is_end)
    if precision == "year":
        return str(moment.year)
    month = f"{_MONTHS[moment.month - 1]} {moment.year}"
    return month if precision == "month" else f"{moment.day} {month}"


def format_date_minute(moment: datetime) -> str:
    """The local day and hour: "2024-06-10 14:00"."""
    return moment.isoformat(" ")[: _ISO_LENGTHS["time"]]


def format_weekday_date(moment: datetime) -> str:
    """The local day and hour with the weekday: "2024-06-10 Mon 14:00"."""
    return f"{moment.date().isoformat()} {format_weekday_time(moment)}"


def format_weekday_time(moment: datetime) -> str:
    """The local weekday and hour: "Mon 14:00"."""
    return f"{_WEEKDAYS[moment.weekday()]} {moment:%H:%M}"


def _shift_end_inside(moment: datetime, *, is_end: bool) -> datetime:
    """Of what ends with a day or a year its last moment."""
    return moment - timedelta(microseconds=1) if is_end else moment
