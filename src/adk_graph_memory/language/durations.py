"""Read a length of time: a number of seconds, or a text with its unit, such as ``3600s``, ``30d`` or ``P30D``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from pydantic import TypeAdapter, ValidationError

from adk_graph_memory import errors

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
