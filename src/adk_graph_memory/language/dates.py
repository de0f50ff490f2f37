"""Read, compare and format dates of different precision, time zones and lengths of time."""

from __future__ import annotations

import logging
import math
import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from adk_graph_memory import errors

Precision = Literal["year", "month", "day", "time", "about"]
"""What a date names; ``about`` is a day that its speaker, or who read the words, only estimated ("last week")."""
_ESTIMATE_MARGIN = timedelta(days=6)
"""How far an estimated day may be off: "last week" is within it, and never reaches the day that says so."""

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # strftime's names depend on the locale
_ISO_LENGTHS = {"year": 4, "month": 7, "day": 10, "about": 10}
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
    return start + timedelta(days=precision in ("day", "about"))


def compute_latest_end(end: datetime, precision: Precision | None) -> datetime:
    """The last moment that an exclusive end may mean: an estimated day may lie some days later."""
    return end + _ESTIMATE_MARGIN if precision == "about" else end


def compute_day_range(moment: datetime, precision: Precision | None, *, is_end: bool = False) -> tuple[date, date]:
    """The first and last day of the year, month or day that a date names, in the date's own time zone.

    Of an estimated day, the first and last that it may be.
    """
    day, precision = _shift_end_inside(moment, is_end=is_end).date(), precision or infer_precision(moment)
    if precision == "year":
        return date(day.year, 1, 1), date(day.year, 12, 31)
    if precision == "month":
        return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])
    if precision == "about":
        return day - _ESTIMATE_MARGIN, day + _ESTIMATE_MARGIN
    return day, day


def is_day_range_within(exact: tuple[date, date], vague: tuple[date, date]) -> bool:
    """Whether the exact range may lie within the vague one: it is no longer, and they overlap.

    Both are first and last days, inclusive. Days, months and years that overlap contain each other; estimates need not.
    """
    is_overlap = exact[0] <= vague[1] and vague[0] <= exact[1]
    return is_overlap and exact[1] - exact[0] <= vague[1] - vague[0]


def make_date_key(moment: datetime) -> str:
    """A string by which dates are compared: midnight counts as a day, whatever its zone; other times are in UTC."""
    is_day = moment.time() == time()
    return (moment.replace(tzinfo=UTC) if is_day else moment.astimezone(UTC)).isoformat()


def format_iso_date(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> str | None:
    """Format the date in ISO 8601, cut to its precision; an exclusive end as the last day, month or year before it.

    An estimated day has the "~" of ISO 8601-2: "2023-06-02~".
    """
    if moment is None:
        return None
    if (precision or infer_precision(moment)) == "time":
        return moment.isoformat()
    date_text = _shift_end_inside(moment, is_end=is_end).isoformat()[: _ISO_LENGTHS[precision or "day"]]
    return f"{date_text}~" if precision == "about" else date_text


def format_short_date(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> str | None:
    """Like :func:`format_iso_date`, but a time as its local date and time of day, without seconds and zone."""
    if moment is not None and (precision or infer_precision(moment)) == "time":
        return moment.isoformat(" ")[:16]
    return format_iso_date(moment, precision, is_end=is_end)


def format_english_date(moment: datetime, precision: Precision | None, *, is_end: bool = False) -> str:
    """Format the date for an English sentence: "24 October 2024", "about 24 October 2024", "2024"."""
    precision = precision or infer_precision(moment)
    if precision == "time":
        return f"{format_english_date(moment, 'day')}, {moment:%H:%M}"
    moment = _shift_end_inside(moment, is_end=is_end)
    if precision == "year":
        return str(moment.year)
    month = f"{_MONTHS[moment.month - 1]} {moment.year}"
    day = f"{moment.day} {month}"
    return month if precision == "month" else f"about {day}" if precision == "about" else day


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
        preposition = {"day": "on ", "time": "on ", "about": ""}.get(precision or "day", "in ")
        return f"{preposition}{first}"
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


logger = logging.getLogger(__name__)


def parse_timezone(name: object) -> ZoneInfo:
    """The time zone of an IANA name; a ZoneInfo is returned as it is.

    Raises:
        errors.UnknownTimezone: no zone has this name.
    """
    try:
        return name if isinstance(name, ZoneInfo) else ZoneInfo(name)  # type: ignore[arg-type]  # state is untyped
    except (LookupError, ValueError, TypeError, AttributeError, OSError) as error:
        raise errors.UnknownTimezone(name=name) from error


TIMEZONE_KEY = "user:timezone"
"""The key of a session's state that names its user's time zone."""


def read_state_zone(state: Mapping[str, Any]) -> tzinfo | None:
    """Return the time zone that a session's state names; None if it names none, or (with a warning) an unknown one."""
    if (name := state.get(TIMEZONE_KEY)) is None:
        return None
    try:
        return parse_timezone(name)
    except errors.UnknownTimezone as error:
        _warn_unknown_zone(str(error))
        return None


@lru_cache(maxsize=1_000)
def _warn_unknown_zone(reason: str) -> None:
    logger.warning("A session's state has an invalid %s; another time zone is used: %s", TIMEZONE_KEY, reason)


def localize_timestamp(zone: tzinfo, timestamp: float) -> datetime:
    """The datetime of a Unix timestamp, with the offset that the zone has at that time."""
    moment = datetime.fromtimestamp(timestamp, UTC)
    try:
        return apply_fixed_offset(moment.astimezone(zone))
    except OverflowError:  # the last hours of the year 9999
        return moment


def restore_datetime(timestamp: float, offset: int | None) -> datetime:
    """The datetime of a Unix timestamp, with the offset in seconds that the graph stores; in UTC without one."""
    return localize_timestamp(timezone(timedelta(seconds=offset or 0)), timestamp)


def get_utc_offset(moment: datetime) -> int:
    """The UTC offset in seconds, positive east; 0 for a naive datetime."""
    return int((moment.utcoffset() or timedelta()).total_seconds())


def apply_fixed_offset(moment: datetime) -> datetime:
    """Replace the zone of an aware datetime by its current offset.

    With a ZoneInfo, Python subtracts and compares two datetimes by wall clock, which is wrong across a DST change.
    An offset with odd seconds becomes UTC, because Neo4j supports whole minutes only.
    """
    offset = moment.utcoffset() or timedelta()
    if offset % timedelta(minutes=1):
        return moment.astimezone(UTC)
    return moment.replace(tzinfo=timezone(offset) if offset else UTC, fold=0)


UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Seconds of each unit."""
_DURATION_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([smhdw]?)\s*", re.ASCII)
_ISO_DURATION = TypeAdapter(timedelta)


def parse_duration(value: float | str | timedelta) -> float:
    """Return the seconds of a duration.

    A number is in seconds, as Memory Bank's are. A text names its unit, for who writes ``90`` may mean days.

    Raises:
        errors.InvalidArgument: it cannot be parsed, has no unit, or is not above 0.
    """
    seconds = math.nan
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _parse_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < math.inf:
        raise errors.InvalidArgument(reason=f"{value!r} is no length of time; give one such as 12h, 30d or P30D")
    return seconds


def _parse_text(text: str) -> float:
    if match := _DURATION_PATTERN.fullmatch(text):
        number, unit = match.groups()
        if not unit:
            reason = f"{text!r} has no unit: give {number}s for seconds, or {number}d for days"
            raise errors.InvalidArgument(reason=reason)
        return float(number) * UNIT_SECONDS[unit]
    if not text.strip().startswith("P"):
        return math.nan
    try:
        return _ISO_DURATION.validate_python(text.strip()).total_seconds()
    except ValidationError:
        return math.nan
