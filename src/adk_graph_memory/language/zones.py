"""The name of a time zone goes in; the zone comes out, and moments with the offset that holds there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from adk_graph_memory import errors


def parse_timezone(name: object) -> ZoneInfo:
    """The zone of an IANA name, or the zone itself.

    Raises:
        errors.UnknownTimezone: there is none of this name.
    """
    try:
        return name if isinstance(name, ZoneInfo) else ZoneInfo(name)  # type: ignore[arg-type]  # a state holds anything
    except (LookupError, ValueError, TypeError, AttributeError, OSError) as error:
        raise errors.UnknownTimezone(name=name) from error


def localize_timestamp(zone: tzinfo, timestamp: float) -> datetime:
    """The moment so many seconds after 1970, with the zone's offset at that time."""
    moment = datetime.fromtimestamp(timestamp, UTC)
    try:
        return apply_fixed_offset(moment.astimezone(zone))
    except OverflowError:  # the last hours of the last year that there is
        return moment


def restore_datetime(timestamp: float, offset: int | None) -> datetime:
    """The moment so many seconds after 1970, with an offset in seconds as the graph keeps it; in UTC without one."""
    return localize_timestamp(timezone(timedelta(seconds=offset or 0)), timestamp)


def get_utc_offset(moment: datetime) -> int:
    """Seconds east of UTC."""
    return int((moment.utcoffset() or timedelta()).total_seconds())


def apply_fixed_offset(moment: datetime) -> datetime:
    """The aware moment with its offset alone, in UTC where that has odd seconds, which Neo4j does not know.

    A zone's own rules would count the hours of a day, and compare two of its times, by the clock on the wall.
    """
    offset = moment.utcoffset() or timedelta()
    if offset % timedelta(minutes=1):
        return moment.astimezone(UTC)
    return moment.replace(tzinfo=timezone(offset) if offset else UTC, fold=0)
