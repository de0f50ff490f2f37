"""Parse the dates of a reply into the interval in which a fact holds, with their precision."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, datetime
from typing import NamedTuple

from adk_graph_memory.language.zones import apply_fixed_offset
from adk_graph_memory.records.dates import Precision, compute_date_end

_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?")


class DateWithPrecision(NamedTuple):
    """A moment, and whether it stands for a year, month, day or time."""

    at: datetime
    precision: Precision


class ValidityInterval(NamedTuple):
    """When a fact begins and ends to hold; ``is_inverted`` if the reply gave an end before the start."""

    start: DateWithPrecision | None = None
    end: DateWithPrecision | None = None
    is_inverted: bool = False


def parse_validity_interval(
    valid_from: str | None, valid_to: str | None, said_at: datetime, *, is_ahead: bool
) -> ValidityInterval:
    """Parse two ISO 8601 years, months, dates or times; one that cannot be parsed is None.

    An end before the start is dropped.

    Args:
        valid_from: the first year, month, day or time.
        valid_to: the last one.
        said_at: when the fact was said; a date without an offset is in its time zone.
        is_ahead: whether the fact is planned. If not, an end on the day it was said is at ``said_at``.
    """
    start, end = _parse_iso_date(valid_from, said_at), _parse_iso_date(valid_to, said_at)
    starts_at = start.at if start else None
    if end is not None:
        ends_at = compute_date_end(*end)
        is_same_day = end.precision == "day" and end.at.date() == said_at.date()
        if is_same_day and said_at > end.at and not is_ahead and (starts_at is None or starts_at < said_at):
            ends_at = said_at
        end = DateWithPrecision(ends_at, end.precision) if _is_in_range(ends_at) else None
    if end and starts_at and (end.at < starts_at or (end.at == starts_at and end.precision != "time")):
        return ValidityInterval(start, None, is_inverted=True)
    return ValidityInterval(start, end)


def _parse_iso_date(text: str | None, said_at: datetime) -> DateWithPrecision | None:
    """The first moment of the year, month, day or time that the text names."""
    text = (text or "").strip()
    precision: Precision = "time" if ":" in text or "T" in text else "day"
    if match := _YEAR_OR_MONTH.fullmatch(text):
        precision = "month" if match[2] else "year"
        text = f"{match[1]}-{match[2] or '01'}-01"
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = parsed if parsed.tzinfo else parsed.replace(tzinfo=said_at.tzinfo)
    return DateWithPrecision(apply_fixed_offset(moment), precision) if _is_in_range(moment) else None


def _is_in_range(moment: datetime) -> bool:
    """Whether the moment exists in every time zone, and a year later too."""
    return MINYEAR < moment.year < MAXYEAR
