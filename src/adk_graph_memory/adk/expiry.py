"""A time to live or an expiry time goes in, in any form that code or HTTP gives it; epoch seconds come out."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from google.adk.errors.input_validation_error import InputValidationError


def parse_expiry(
    now: float, ttl: float | str | timedelta | None, expire_time: float | str | datetime | None
) -> float | None:
    """The moment (epoch seconds) that a time to live or an expiry time means; None where neither is given.

    Raises:
        InputValidationError: both are given, or one that cannot be read.
    """
    if ttl is not None and expire_time is not None:
        raise InputValidationError("Give ttl or expire_time, not both.")
    try:
        if ttl is not None:
            seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else float(str(ttl).strip().removesuffix("s"))
            found: float | None = now + _check_positive(seconds)
        elif expire_time is None or isinstance(expire_time, int | float):
            found = expire_time
        else:
            read = datetime.fromisoformat(expire_time) if isinstance(expire_time, str) else expire_time
            found = read.timestamp()
        return None if found is None else _check_finite(found)
    except (ValueError, OverflowError) as error:
        raise InputValidationError(
            f"ttl={ttl!r}, expire_time={expire_time!r}: give seconds (3600 or '3600s') or an ISO 8601 time."
        ) from error


def _check_positive(seconds: float) -> float:
    if not seconds > 0:
        raise ValueError("not positive")
    return seconds


def _check_finite(moment: float) -> float:
    if not math.isfinite(moment):
        raise ValueError("not finite")
    return moment
