"""Write and read the lines of an export without losing a type, a nanosecond or a bit."""

from __future__ import annotations

import base64
import json
import math
import operator
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any, get_args

import pytz
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from adk_graph_memory import errors
from adk_graph_memory.graph.ingest_queue import read_shown
from adk_graph_memory.graph.json_map import parse_json_map
from adk_graph_memory.graph.statements import SLOT_NAMES
from adk_graph_memory.language.dates import Precision
from adk_graph_memory.records.extractions import Modality
from adk_graph_memory.records.facts import FactState
from adk_graph_memory.records.history import ProposalAction
from adk_graph_memory.records.portable import (
    EDGE_PATTERNS,
    EDGE_TYPES,
    LOCAL_PROPERTIES,
    MEMORY_LABELS,
    NODE_KEYS,
    SECOND_LABELS,
    ExportHeader,
    NodePlace,
    PortableEdge,
    PortableNode,
)
from adk_graph_memory.records.scopes import check_id
from adk_graph_memory.records.turns import MemoryKind, Origin, ShownPart

CONTENT_BYTES = 1 << 20
"""Bytes of an artifact's content on one line, at most."""
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
        zone = getattr(value.tzinfo, "key", None) or getattr(value.tzinfo, "zone", None)  # a fixed offset has no name
        return {"datetime": f"{value.iso_format()}[{zone}]" if zone else value.iso_format()}
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


def _decode_point(parts: Sequence[Any]) -> Point:
    srid, *coordinates = parts
    point = Point(coordinates)
    point.srid = srid
    return point


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "bytes": partial(base64.b64decode, validate=True),
    "floats": _decode_floats,
    "datetime": _decode_datetime,
    "date": Date.from_iso_format,
    "time": Time.from_iso_format,
    "duration": lambda parts: Duration(**dict(zip(("months", "days", "seconds", "nanoseconds"), parts, strict=True))),
    "point": _decode_point,
}
_NAMES: Mapping[str, str] = {
    "a text": """
        about app_name author branch by display_name embedding_error extracted extractor fact_id id ingest
        invocation_id key manner memory_id mime_type model n name op own_text owner predicate proposal_by proposal_id
        proposal_reason proposal_text quote reading reason role ruling_reason session_id session_uid signature store
        text topic type uid unread user_id was words writer
    """,
    "a JSON object": "body part report",
    "a time in seconds since 1970": """
        closed_at create_time expires_at heard_at last_update_time revisions_expire_at state_time timestamp
    """,
    "seconds east of UTC": "offset",
    "a whole number from 0 on": "attempts end held revision seq start support version versions writes written",
    "true or false": "correction direct is_ruling open pinned reviewed single stale unembedded verified",
    "a date with a time and a zone": """
        at created_at done_at owner_retracted_at proposal_at recorded_at requested_at reread_at retired_at said_to
        upheld_until valid_from valid_to
    """,
    "a list of texts": "aliases authors foreign_names labels own_names topics",
    "a list of a JSON object's members": "metadata state",
    "a list of what a turn shows": "shown",
    "bytes": "content",
    "an origin": "origin",
    "a kind of memory": "kind",
    "a modality": "modality",
    "a precision": "said_to_precision valid_from_precision valid_to_precision",
    "an action": "proposal_action",
}
_CHOICES: Mapping[str, Sequence[str]] = {
    "an origin": get_args(Origin),
    "a kind of memory": get_args(MemoryKind),
    "a modality": get_args(Modality),
    "a precision": get_args(Precision),
    "an action": get_args(ProposalAction),
    "a fact's state": get_args(FactState),
    "a request's state": ("pending", "claimed", "done", "superseded"),
}
"""The texts that a type has."""
TYPES = {name: type for type, names in _NAMES.items() for name in names.split()} | {
    "ArtifactVersion.metadata": "a JSON object",
    "Fact.state": "a fact's state",
    "Revision.state": "a fact's state",
    "Ingest.state": "a request's state",
}
"""The type of each property that this release writes, by its name; where labels differ, by label and name."""
_MAX_SECONDS, _MAX_OFFSET = 253_370_764_800, 86_400


def _is_json_object(value: Any) -> bool:
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_json_map(value: Any) -> bool:
    try:
        return _is_text_list(value) and all(len(parse_json_map([member])) == 1 for member in value)
    except (ValueError, RecursionError):
        return False


def _is_shown(value: Any) -> bool:
    try:
        return _is_text_list(value) and all(map(_is_shown_part, read_shown(value)))
    except (ValueError, TypeError, RecursionError):
        return False


def _is_shown_part(part: ShownPart) -> bool:
    texts = (part.key, part.mime_type, part.name, part.uri, part.description, part.described_by)
    return all(isinstance(text, str) for text in texts) and (part.version is None or _is_whole_number(part.version))


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "a JSON object": _is_json_object,
    "a time in seconds since 1970": lambda value: (
        (_is_whole_number(value) or isinstance(value, float)) and abs(value) < _MAX_SECONDS
    ),
    "seconds east of UTC": lambda value: _is_whole_number(value) and abs(value) < _MAX_OFFSET,
    "a whole number from 0 on": lambda value: _is_whole_number(value) and value >= 0,
    "true or false": lambda value: isinstance(value, bool),
    "a date with a time and a zone": lambda value: (
        isinstance(value, DateTime) and value.tzinfo is not None and 1 < value.year < 9999
    ),
    "a list of texts": _is_text_list,
    "a list of a JSON object's members": _is_json_map,
    "a list of what a turn shows": _is_shown,
    "bytes": lambda value: isinstance(value, bytes),
    **{type: partial(operator.contains, choices) for type, choices in _CHOICES.items()},
}
REQUIRED: Mapping[str, frozenset[str]] = {
    "App": frozenset(("app_name",)),
    "User": frozenset(("app_name", "user_id")),
    "Session": frozenset(("id", "uid")),
    "Event": frozenset(("id", "session_id", "session_uid", "author", "timestamp", "seq")),
    "Memory": frozenset(("kind", "memory_id")),
    "Fact": frozenset(("id", "kind", "memory_id", "modality", "predicate", "state")),
    "Entity": frozenset(("key", "name", "type", "aliases")),
    "Artifact": frozenset(("name", "session_id", "versions")),
    "ArtifactVersion": frozenset(("id", "part", "create_time")),
    "Ingest": frozenset(("id", "state")),
    "SUPPORTED_BY": frozenset(("key", "quote")),
}
"""What no node of a label, and no relationship of a type, is without."""
_REQUIRED_IN_MEMORY = frozenset(("origin", "text", "timestamp"))
"""What nothing that memory holds, or was asked to hold, is without."""


def check_properties(owners: Sequence[str], properties: Mapping[str, Any]) -> None:
    """Check the properties of a node with these labels, or of a relationship of this type, that comes from a file.

    Raises:
        errors.InvalidArgument: one is missing, or of another type than this release writes.
    """
    present = {name for name, value in properties.items() if value is not None}
    required = frozenset().union(*(REQUIRED.get(owner, ()) for owner in owners))
    if "memory_id" in present:
        required |= _REQUIRED_IN_MEMORY
    for name in sorted(required - present):
        raise errors.InvalidArgument(reason=f"it has no {name!r}")
    for name in sorted(present):
        type, value = TYPES.get(f"{owners[0]}.{name}") or TYPES.get(name), properties[name]
        if type and not _CHECKS[type](value):
            choices = f" ({', '.join(_CHOICES[type])})" if type in _CHOICES else ""
            raise errors.InvalidArgument(reason=f"its {name!r} is {str(value)[:40]!r}, and should be {type}{choices}")


FORMAT = "adk-graph-memory export"
FORMAT_VERSION = 1
"""The version of the lines themselves; what stands in nodes is told by the version of the schema."""
TURN_REFUSALS = frozenset(("turn", "facts"))
"""The kinds of tombstones of a turn: it is forgotten, or a fact of it is and nothing more is read in it."""
SLOT_PROPERTIES = frozenset(f"{what}_{slot}" for what in ("embedding", "tokens") for slot in SLOT_NAMES)
"""Properties with vectors, which go by the live slot and not by name."""

_TYPE = re.compile(r"[A-Z][A-Z_]*")
_DIRECTIONS = {">": True, "<": False}


def format_line(value: Mapping[str, Any]) -> str:
    """Format an object as a line, with its end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def parse_line(line: str | bytes) -> dict[str, Any]:
    """Parse a line.

    Raises:
        errors.InvalidArgument: it is no JSON object.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgument(reason=f"it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise errors.InvalidArgument(reason="it is no JSON object")
    return value


def encode_header(header: ExportHeader) -> dict[str, Any]:
    """Make the object of the first line."""
    return {"format": FORMAT, "version": FORMAT_VERSION} | asdict(header)


def decode_header(line: Mapping[str, Any]) -> ExportHeader | None:
    """Read the object of the first line; None if it is another one."""
    known: dict[str, Any] = {field.name: line.get(field.name) for field in fields(ExportHeader)}
    is_numbered = isinstance(line.get("version"), int) and isinstance(known["schema"], int)
    return ExportHeader(**known) if line.get("format") == FORMAT and is_numbered and known["id"] else None


def encode_app(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Make the object of an app's line."""
    return {"app": encode_properties(properties)}


def decode_app(line: Mapping[str, Any]) -> dict[str, Any]:
    """Read the object of an app's line.

    Raises:
        errors.InvalidArgument: it is no app.
    """
    properties = _decode_map(line["app"])
    check_properties(["App"], properties)
    return properties


def encode_node(node: PortableNode, user_number: int, content: bytes | None = None) -> Iterator[dict[str, Any]]:
    """Make the objects of a node's lines; ``user_number`` says which of the file's users has the node.

    The content of an artifact's version that lies in a store comes before the version, which then names no store.
    """
    for start in range(0, len(content or b""), CONTENT_BYTES):
        encoded = base64.b64encode((content or b"")[start : start + CONTENT_BYTES]).decode()
        yield {"of": user_number, "content": encoded}
    properties = encode_properties(node.properties)
    if content is not None:
        del properties["store"]
    line: dict[str, Any] = {"of": user_number, "node": list(node.labels), "properties": properties}
    if content is not None:
        line["content_bytes"] = len(content)
    if node.edges:
        line["edges"] = [
            [
                edge.type,
                ">" if edge.is_outgoing else "<",
                edge.other.label,
                list(edge.other.key),
                encode_properties(edge.properties),
            ]
            for edge in node.edges
        ]
    if node.vector is not None:
        line["vector"] = pack_floats(node.vector) or node.vector
    if node.tokens is not None:
        line["tokens"] = base64.b64encode(node.tokens).decode()
    if node.refusals:
        line["forgotten"] = {kind: encode_value(at) for kind, at in node.refusals.items()}
    yield line


def decode_content(line: Mapping[str, Any]) -> bytes:
    """Read the object of a line with a part of the content of an artifact's version.

    Raises:
        errors.InvalidArgument: it is no such line.
    """
    content: bytes = decode_value({"bytes": line["content"]}, "content")
    return content


def decode_node(line: Mapping[str, Any]) -> PortableNode:
    """Read the object of a node's line.

    Raises:
        errors.InvalidArgument: something is missing, or is nothing that an export of this version has.
    """
    labels = line.get("node")
    if not isinstance(labels, list) or not labels or labels[0] not in NODE_KEYS:
        raise errors.InvalidArgument(reason=f"its labels {labels!r} are none of an export")
    if not (SECOND_LABELS if labels[0] in MEMORY_LABELS else frozenset()).issuperset(labels[1:]):
        raise errors.InvalidArgument(reason=f"its labels {labels!r} are none of an export")
    properties = _decode_map(line.get("properties"))
    check_properties(labels, properties)
    edges, vector, tokens = line.get("edges", []), line.get("vector"), line.get("tokens")
    refusals = _decode_map(line.get("forgotten", {}))
    if not isinstance(edges, list) or not TURN_REFUSALS.issuperset(refusals):
        raise errors.InvalidArgument(reason='its "edges" or its "forgotten" are none of an export')
    return PortableNode(
        _parse_place(labels[0], [properties.get(name) for name in NODE_KEYS[labels[0]]]),
        tuple(labels),
        properties,
        tuple(_decode_edge(edge, labels[0]) for edge in edges),
        _decode_vector(vector),
        decode_value(tokens and {"bytes": tokens}, "tokens"),
        refusals,
    )


def _decode_vector(vector: Any) -> list[float] | None:
    numbers = decode_value({"floats": vector} if isinstance(vector, str) else vector, "vector")
    if numbers is None:
        return None
    if not isinstance(numbers, list) or not all(
        isinstance(number, float) and math.isfinite(number) for number in numbers
    ):
        raise errors.InvalidArgument(reason='its "vector" is no list of numbers')
    if not any(numbers):
        raise errors.InvalidArgument(reason='its "vector" has no direction: each number is 0')
    return numbers


def _decode_map(value: Any) -> dict[str, Any]:
    """Decode properties, but for those that belong to one graph alone, whatever a file says."""
    if not isinstance(value, dict):
        raise errors.InvalidArgument(reason=f"where properties should be stands {str(value)[:40]!r}")
    local = LOCAL_PROPERTIES | SLOT_PROPERTIES
    return decode_properties({name: encoded for name, encoded in value.items() if name not in local})


def _decode_edge(edge: Any, own_label: str) -> PortableEdge:
    try:
        type, direction, label, key, encoded = edge
        is_outgoing = _DIRECTIONS[direction]
    except (ValueError, TypeError, KeyError) as error:
        raise errors.InvalidArgument(reason=f"{str(edge)[:60]!r} is no relationship of an export") from error
    if not isinstance(type, str) or not _TYPE.fullmatch(type) or label not in NODE_KEYS or not isinstance(key, list):
        raise errors.InvalidArgument(reason=f"{str(edge)[:60]!r} is no relationship of an export")
    start, end = (own_label, label) if is_outgoing else (label, own_label)
    if type in EDGE_TYPES and (start, type, end) not in EDGE_PATTERNS:
        raise errors.InvalidArgument(reason=f"no relationship {type} leads from a node {start} to a node {end}")
    properties = _decode_map(encoded)
    check_properties([type], properties)
    return PortableEdge(type, is_outgoing, _parse_place(label, key), properties)


def _parse_place(label: str, key: Sequence[Any]) -> NodePlace:
    names = NODE_KEYS[label]
    is_complete = len(key) == len(names) and all(
        type(value) is (int if name == "version" else str) for name, value in zip(names, key, strict=False)
    )
    if not is_complete:
        raise errors.InvalidArgument(reason=f"the key of a node {label} is {list(names)}, and not {list(key)!r}")
    check_id(f"the key of a node {label}", "", *(value for value in key if isinstance(value, str)))
    return NodePlace(label, tuple(key))
