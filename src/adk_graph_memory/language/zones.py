"""Parse time zone names and convert timestamps to datetimes with a fixed offset."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from adk_graph_memory import errors

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
