"""Compare and format dates of different precision: a year, a month, a day or a time."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

Precision = Literal["year", "month", "day", "time"]

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # strftime's names depend on the locale
_ISO_LENGTHS = {"year": 4, "month": 7, "day": 10}
"""Length of the ISO 8601 prefix for each precision."""


def infer_precision(moment: datetime | None) -> Precision | None:
    """The precision of a date that was stored without one: midnight means a day."""
    if moment is None:
        return None
    return "time" if moment.hour or moment.minute or moment.second or moment.microsecond else "day"


def compute_date_end(start: datetime, precision: Precision | None) -> datetime:
    """The first moment after the year, month or day that starts at ``start``; a time ends at once."""
    if precision == "year":
        return (start.replace(month=1, day=1) + timedelta(days=366)).replace(month=1, day=1)
    if precision == "month":
        return (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    return start + timedelta(days=precision == "day")


def compute_day_range(moment: datetime, precision: Precision | None, *, is_end: bool = False) -> tuple[date, date]:
    """The first and last day of the year, month or day that a date names, in the date's own time zone."""
    day, precision = _shift_end_inside(moment, is_end=is_end).date(), precision or infer_precision(moment)
    if precision == "year":
        return date(day.year, 1, 1), date(day.year, 12, 31)
    if precision == "month":
        return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])
    return day, day


def is_day_range_within(exact: tuple[date, date], vague: tuple[date, date]) -> bool:
    """Whether the exact range lies within the vague one; both are first and last days, inclusive."""
    return vague[0] <= exact[0] and exact[1] <= vague[1]


def make_date_key(moment: datetime) -> str:
    """A string by which dates are compared: midnight counts as a day, whatever its zone; other times are in UTC."""
    is_day = moment.time() == time()
    return (moment.replace(tzinfo=UTC) if is_day else moment.astimezone(UTC)).isoformat()


def format_iso_date(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> str | None:
    """Format the date in ISO 8601, cut to its precision; an exclusive end as the last day, month or year before it."""
    if moment is None:
        return None
    if (precision or infer_precision(moment)) == "time":
        return moment.isoformat()
    return _shift_end_inside(moment, is_end=is_end).isoformat()[: _ISO_LENGTHS[precision or "day"]]


def format_short_date(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> str | None:
    """Like :func:`format_iso_date`, but a time as its local date and time of day, without seconds and zone."""
    if moment is not None and (precision or infer_precision(moment)) == "time":
        return moment.isoformat(" ")[:16]
    return format_iso_date(moment, precision, is_end=is_end)


def format_english_date(moment: datetime, precision: Precision | None, *, is_end: bool = False) -> str:
    """Format the date for an English sentence: "24 October 2024", "October 2024", "2024"."""
    precision = precision or infer_precision(moment)
    if precision == "time":
        return f"{format_english_date(moment, 'day')}, {moment:%H:%M}"
    moment = _shift_end_inside(moment, is_end=is_end)
    if precision == "year":
        return str(moment.year)
    month = f"{_MONTHS[moment.month - 1]} {moment.year}"
    return month if precision == "month" else f"{moment.day} {month}"


def format_english_period(
    start: datetime | None, start_precision: Precision | None, end: datetime | None, end_precision: Precision | None
) -> str:
    """Format when something is so: "on 21 July 2023", "in 2022", "since May 2024", "until 2024"; empty without dates.

    An end is exclusive, as facts have it.
    """
    first = format_english_date(start, start_precision) if start else ""
    last = format_english_date(end, end_precision, is_end=True) if end else ""
    if first and first == last:
        precision = start_precision or infer_precision(start)
        return f"{'on' if precision in ('day', 'time') else 'in'} {first}"
    if first and last:
        return f"from {first} to {last}"
    return f"since {first}" if first else f"until {last}" if last else ""


def format_weekday_date(moment: datetime) -> str:
    """Format the local date, weekday and time of day: "2024-06-10 Mon 14:00"."""
    return f"{moment.date().isoformat()} {format_weekday_time(moment)}"


def format_weekday_time(moment: datetime) -> str:
    """Format the local weekday and time of day: "Mon 14:00"."""
    return f"{_WEEKDAYS[moment.weekday()]} {moment:%H:%M}"


def _shift_end_inside(moment: datetime, *, is_end: bool) -> datetime:
    """Move an exclusive end back into the period that it ends."""
    return moment - timedelta(microseconds=1) if is_end else moment
