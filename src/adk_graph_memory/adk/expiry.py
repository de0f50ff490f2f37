"""Parse a time to live or an expiry time, in any form that code or HTTP uses, into epoch seconds."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from google.adk.errors.input_validation_error import InputValidationError


def parse_expiry(
    now: float, ttl: float | str | timedelta | None, expire_time: float | str | datetime | None
) -> float | None:
    """Return the expiry time in epoch seconds, ``now`` plus ``ttl`` or ``expire_time``; None if neither is given.

    Raises:
        InputValidationError: both are given, or one cannot be parsed.
    """
    if ttl is not None and expire_time is not None:
        raise InputValidationError("Give ttl or expire_time, not both.")
    try:
        if ttl is not None:
            seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else float(str(ttl).strip().removesuffix("s"))
            expires_at: float | None = now + _check_positive(seconds)
        elif expire_time is None or isinstance(expire_time, int | float):
            expires_at = expire_time
        else:
            moment = datetime.fromisoformat(expire_time) if isinstance(expire_time, str) else expire_time
            expires_at = moment.timestamp()
        return None if expires_at is None else _check_finite(expires_at)
    except (ValueError, OverflowError) as error:
        raise InputValidationError(
            f"ttl={ttl!r}, expire_time={expire_time!r}: give seconds (3600 or '3600s') or an ISO 8601 time."
        ) from error


def _check_positive(seconds: float) -> float:
    if not seconds > 0:
        raise ValueError("not positive")
    return seconds


def _check_finite(timestamp: float) -> float:
    if not math.isfinite(timestamp):
        raise ValueError("not finite")
    return timestamp
