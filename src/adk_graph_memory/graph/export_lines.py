"""Write and read the lines of an export, a JSON object each: a header, apps, users with their nodes, and a footer."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.graph.property_codec import (
    decode_properties,
    decode_value,
    encode_properties,
    encode_value,
    pack_floats,
)
from adk_graph_memory.graph.property_types import check_properties
from adk_graph_memory.graph.queries import SLOT_NAMES
from adk_graph_memory.records.portable_rows import (
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


def encode_node(node: PortableNode, user_number: int) -> dict[str, Any]:
    """Make the object of a node's line; ``user_number`` says which of the file's users has the node."""
    line: dict[str, Any] = {
        "of": user_number,
        "node": list(node.labels),
        "properties": encode_properties(node.properties),
    }
    if node.edges:
        line["edges"] = [_encode_edge(edge) for edge in node.edges]
    if node.vector is not None:
        line["vector"] = pack_floats(node.vector) or node.vector
    if node.tokens is not None:
        line["tokens"] = base64.b64encode(node.tokens).decode()
    if node.refusals:
        line["forgotten"] = {kind: encode_value(at) for kind, at in node.refusals.items()}
    return line


def _encode_edge(edge: PortableEdge) -> list[Any]:
    direction = ">" if edge.is_outgoing else "<"
    return [edge.type, direction, edge.other.label, list(edge.other.key), encode_properties(edge.properties)]


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
        _make_place(labels[0], [properties.get(name) for name in NODE_KEYS[labels[0]]]),
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
    return PortableEdge(type, is_outgoing, _make_place(label, key), properties)


def _make_place(label: str, key: Sequence[Any]) -> NodePlace:
    names = NODE_KEYS[label]
    is_complete = len(key) == len(names) and all(
        type(value) is (int if name == "version" else str) for name, value in zip(names, key, strict=False)
    )
    if not is_complete:
        raise errors.InvalidArgument(reason=f"the key of a node {label} is {list(names)}, and not {list(key)!r}")
    check_id(f"the key of a node {label}", "", *(value for value in key if isinstance(value, str)))
    return NodePlace(label, tuple(key))
