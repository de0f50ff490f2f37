"""Encode properties of nodes as JSON and decode them, without losing a type, a nanosecond or a bit."""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any

import pytz
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from adk_graph_memory import errors

MAX_INTEGER = 2**63
"""Integers of the database lie below this number, and not below its negative."""
MIN_PACKED_FLOATS = 8
"""Numbers in a list from which on it is packed, if none of them has more than 32 bits."""

_ZONED = re.compile(r"(?P<moment>[^\[]+)\[(?P<zone>[\w/+-]+)\]")


def encode_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Encode the properties of a node or a relationship, sorted by name.

    Raises:
        errors.ConfigurationError: a value is of a type that this release does not know.
    """
    return {name: encode_value(properties[name], name) for name in sorted(properties)}


def encode_value(value: Any, name: str = "") -> Any:
    """Encode a value: as itself where JSON has its type, else as an object with one key, the name of its type."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        packed = pack_floats(value) if len(value) >= MIN_PACKED_FLOATS else None
        return {"floats": packed} if packed else [encode_value(item, name) for item in value]
    if isinstance(value, DateTime):
        return {"datetime": f"{value.iso_format()}{_format_zone(value.tzinfo)}"}
    if isinstance(value, Date | Time):
        return {type(value).__name__.lower(): value.iso_format()}
    if isinstance(value, Duration):
        return {"duration": [value.months, value.days, value.seconds, value.nanoseconds]}
    if isinstance(value, Point):
        return {"point": [value.srid, *value]}
    reason = f"the property {name!r} is a {type(value).__name__}, which this release cannot write to a file"
    raise errors.ConfigurationError(reason=reason)


def pack_floats(values: Sequence[Any]) -> str | None:
    """Pack numbers of 32 bits, as vectors consist of, into a third of the space; None if there are others."""
    if not all(type(value) is float and math.isfinite(value) for value in values):
        return None
    try:
        packed = struct.pack(f"<{len(values)}f", *values)
    except OverflowError:
        return None
    is_exact = list(struct.unpack(f"<{len(values)}f", packed)) == list(values)
    return base64.b64encode(packed).decode() if is_exact else None


def decode_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Decode what :func:`encode_properties` returned.

    Raises:
        errors.InvalidArgument: a value is nothing that it returns.
    """
    return {name: decode_value(value, name) for name, value in properties.items()}


def decode_value(value: Any, name: str) -> Any:
    """Decode a value; ``name`` is its property's, for the error."""
    if isinstance(value, list):
        return [decode_value(item, name) for item in value]
    try:
        if isinstance(value, dict):
            [(kind, encoded)] = value.items()
            return _DECODERS[kind](encoded)
        if isinstance(value, str):
            value.encode()
    except (ValueError, TypeError, KeyError, OverflowError, struct.error) as error:
        raise errors.InvalidArgument(reason=f"its property {name!r} cannot be read ({error})") from error
    if isinstance(value, int) and not -MAX_INTEGER <= value < MAX_INTEGER:
        raise errors.InvalidArgument(reason=f"its property {name!r} is a number too large for the database")
    return value


def _format_zone(zone: tzinfo | None) -> str:
    """The name of a zone that has one; a fixed offset stands in the time."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    return f"[{name}]" if name else ""


def _decode_datetime(text: str) -> DateTime:
    zoned = _ZONED.fullmatch(text)
    if zoned is None:
        return DateTime.from_iso_format(text)
    moment: DateTime = DateTime.from_iso_format(zoned["moment"])
    # The driver's own zones: Python's read what is no datetime of theirs beyond its end.
    return moment.as_timezone(pytz.timezone(zoned["zone"]))


def _decode_floats(text: str) -> list[float]:
    packed = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def _decode_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decode_point(parts: Sequence[Any]) -> Point:
    srid, *coordinates = parts
    point = Point(coordinates)
    point.srid = srid
    return point


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "bytes": _decode_bytes,
    "floats": _decode_floats,
    "datetime": _decode_datetime,
    "date": Date.from_iso_format,
    "time": Time.from_iso_format,
    "duration": lambda parts: Duration(**dict(zip(("months", "days", "seconds", "nanoseconds"), parts, strict=True))),
    "point": _decode_point,
}
