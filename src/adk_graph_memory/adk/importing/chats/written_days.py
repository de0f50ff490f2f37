"""Read days and times as people and their phones write them, in the order that a whole file tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise

from adk_graph_memory import errors
from adk_graph_memory.memory.imports import make_format_error

MARKS = "\u200e\u200f"
"""Invisible marks of a text's direction."""
_DATE_ORDERS = ("dmy", "mdy")
"""How a day may be written whose first number has less than three digits; with dashes, the year may come first."""
_MORNINGS = ("am", "上午", "凌晨", "清晨", "早上", "午前", "오전", "ص", "πμ")
_AFTERNOONS = ("pm", "下午", "中午", "傍晚", "晚上", "午後", "오후", "م", "μμ")
_HALF = rf"[AaPp]\.?\s?[Mm]\.?|[πμ]\.?μ\.?|{'|'.join(_MORNINGS[1:-1] + _AFTERNOONS[1:-1])}"
DATE = rf"(?P<date>\d{{1,4}}[{MARKS}]?[./-]\s?\d{{1,2}}[{MARKS}]?[./-]\s?\d{{1,4}})\.?"
CLOCK = (
    rf"(?:(?P<before>{_HALF})\s*)?(?P<hour>\d{{1,2}})(?:[:.]|\s?h\s?)(?P<minute>\d{{2}})(?:[:.](?P<second>\d{{2}}))?"
    rf"(?:\s*(?P<after>{_HALF}))?"
)
GAP = r"[,،]?\s+(?:à\s+)?"
"""What may stand between a day and a time."""


def choose_date_order(
    matches: Sequence[re.Match[str]], given: str | None, place: str, *, may_fall: bool = False
) -> str:
    """Choose how days are written: as given, or as the only way in which each is one and none is before the last.

    With ``may_fall`` the latest may also come first.

    Raises:
        errors.InvalidArgument: several ways are possible.
        errors.UnreadableTranscript: no way is, or all days are of another calendar.
    """
    calendars = [_name_calendar(_parse_date(match)) for match in matches]
    if calendars and all(calendars):
        expected = "days of the Gregorian calendar: choose it where the chat comes from and export the chat again"
        raise make_format_error(place, expected, f"{matches[0]['date']!r} is of the {calendars[0]} calendar")
    matches = [
        match
        for match, calendar in zip(matches, calendars, strict=True)
        if not calendar and _parse_date(match)[0] < 1000  # of others the year comes first
    ]
    if not matches:
        return "ymd"
    parts, clocks = [*map(_parse_date, matches)], [*map(_parse_clock, matches)]
    has_dashes = any("-" in match["date"] for match in matches)
    orders = [given] if given else [*_DATE_ORDERS, "ymd"] if has_dashes else [*_DATE_ORDERS]
    possible = [order for order in orders if all(_is_day(part, order) for part in parts)]
    if not possible:
        order = max(orders, key=lambda order: sum(_is_day(part, order) for part in parts))
        bad = next(match["date"] for match, part in zip(matches, parts, strict=True) if not _is_day(part, order))
        expected = "days that are all written alike, or their order as --date-order"
        raise make_format_error(place, expected, f"{bad!r} is no day in the order {order}")
    if len(possible) > 1:
        inversions = {order: _count_inversions(parts, clocks, order, may_fall=may_fall) for order in possible}
        least = min(inversions.values())
        possible = [order for order in possible if inversions[order] == least]
    if len({tuple(_order_parts(part, order) for part in parts) for order in possible}) > 1:
        example = next(match["date"] for match, part in zip(matches, parts, strict=True) if len({*part[:2]}) > 1)
        raise errors.InvalidArgument(
            reason=f"{example!r} in {place} may be two days, and no other line tells: "
            f"give --date-order {' or '.join(possible)}"
        )
    return possible[0]


def parse_local_time(match: re.Match[str], order: str, zone: tzinfo) -> datetime:
    """Parse what ``DATE`` and ``CLOCK`` matched.

    Raises:
        ValueError: there is no such day or time.
    """
    parts = _parse_date(match)
    if calendar := _name_calendar(parts):
        raise ValueError(f"it may be of the {calendar} calendar")
    return datetime(*_order_parts(parts, order), *_parse_clock(match), tzinfo=zone)


def _parse_date(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", match["date"])))


def _parse_clock(match: re.Match[str]) -> tuple[int, int, int]:
    half = re.sub(r"[.\s]", "", match["before"] or match["after"] or "").lower()
    hour = int(match["hour"] or 0)
    if half:
        hour = hour % 12 + (12 if half in _AFTERNOONS else 0)
    return hour, int(match["minute"] or 0), int(match["second"] or 0)


def _name_calendar(parts: Sequence[int]) -> str | None:
    """Name the calendar other than ours that has this year."""
    year = max(parts)
    return "Buddhist" if 2400 < year < 2700 else "Persian or the Islamic" if 1300 < year < 1500 else None


def _order_parts(parts: Sequence[int], order: str) -> tuple[int, int, int]:
    order = "ymd" if parts[0] > 999 else order
    year, month, day = (parts[order.index(part)] for part in "ymd")
    return year + 2000 if year < 100 else year, month, day


def _is_day(parts: Sequence[int], order: str) -> bool:
    year, month, day = _order_parts(parts, order)
    return 1990 < year <= datetime.now(UTC).year + 1 and 1 <= month <= 12 and 1 <= day <= 31


def _count_inversions(
    parts: Sequence[tuple[int, ...]], clocks: Sequence[tuple[int, int, int]], order: str, *, may_fall: bool
) -> int:
    days = [(*_order_parts(part, order), *clock) for part, clock in zip(parts, clocks, strict=True)]
    falls, rises = sum(b < a for a, b in pairwise(days)), sum(b > a for a, b in pairwise(days))
    return min(falls, rises) if may_fall else falls
