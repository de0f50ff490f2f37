"""Read a length of time: a number of seconds, or a text such as ``3600s``, ``12h`` or ``30d``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from adk_graph_memory import errors

UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Seconds of each unit; a number without one is in seconds."""
_DURATION_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([smhdw]?)\s*", re.ASCII)


def parse_duration(value: float | str | timedelta) -> float:
    """Return the seconds of a duration.

    Raises:
        errors.InvalidArgument: it cannot be parsed, or is not above 0.
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str) and (match := _DURATION_PATTERN.fullmatch(value)):
        seconds = float(match[1]) * UNIT_SECONDS[match[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise errors.InvalidArgument(reason=f"{value!r} is no length of time; give seconds, or a text like 12h or 30d")
    return seconds
