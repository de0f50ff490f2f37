"""Whatever a property may hold comes back from JSON as it was, and every label of a user has its place in an export."""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import timedelta, timezone
from typing import Any

import pytest
import pytz
from hypothesis import given
from hypothesis import strategies as st
from neo4j.spatial import CartesianPoint
from neo4j.time import Date, DateTime, Duration, Time

from adk_graph_memory import errors
from adk_graph_memory.graph import export_lines, transfer
from adk_graph_memory.graph.statements import LABELS, CypherStatements, load_cypher_files
from adk_graph_memory.records.portable import NODE_KEYS, SECOND_LABELS
from adk_graph_memory.runtime.settings import Settings

INTEGERS = st.integers(-(2**63), 2**63 - 1)
SECONDS = st.integers(-(2**62), 2**62)
"""With the days of a duration they must not exceed what its driver takes."""
FLOATS = st.floats(allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
OFFSETS = st.one_of(st.none(), st.integers(-1079, 1079).map(lambda minutes: timezone(timedelta(minutes=minutes))))
DATETIMES = st.builds(
    DateTime,
    st.integers(1, 9999),
    st.integers(1, 12),
    st.integers(1, 28),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 59),
    st.integers(0, 999_999_999),
    tzinfo=OFFSETS,
)
NARROW = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=8, max_size=40)
VALUES = st.one_of(
    st.booleans(),
    INTEGERS,
    FLOATS,
    TEXTS,
    st.binary(),
    DATETIMES,
    st.builds(Date, st.integers(1, 9999), st.integers(1, 12), st.integers(1, 28)),
    st.builds(Duration, months=st.integers(-99, 99), days=st.integers(-99, 99), seconds=SECONDS),
    NARROW,
    st.lists(FLOATS),
    st.lists(INTEGERS),
    st.lists(TEXTS),
)


def pass_through(value: Any) -> Any:
    text = json.dumps(export_lines.encode_properties({"a": value}), allow_nan=False)
    return export_lines.decode_properties(json.loads(text))["a"]


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    decoded = pass_through(value)
    assert (decoded, type(decoded)) == (value, type(value))
    if isinstance(value, list):
        assert list(map(type, decoded)) == list(map(type, value))
    if isinstance(value, DateTime):
        assert decoded.iso_format() == value.iso_format()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0])
def test_floats_that_json_lacks(value: float) -> None:
    assert struct.pack("d", pass_through(value)) == struct.pack("d", value)
    assert repr(pass_through([value] * 9)) == repr([value] * 9)


def test_zones_points_and_times() -> None:
    lisbon = pytz.timezone("Europe/Lisbon").localize(DateTime(2026, 7, 2, 12, 0, 1, 5))
    decoded = pass_through(lisbon)
    assert (decoded, decoded.tzinfo.zone) == (lisbon, "Europe/Lisbon")
    point = pass_through(CartesianPoint((1.5, 2.0)))
    assert (tuple(point), point.srid) == ((1.5, 2.0), 7203)
    moment = Time(12, 0, 1, 5, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert pass_through(moment) == moment


def test_vectors_take_a_third_of_the_space_only_if_nothing_is_lost() -> None:
    narrow = [struct.unpack("f", struct.pack("f", n / 7))[0] for n in range(384)]
    assert len(json.dumps(export_lines.encode_value(narrow))) < len(json.dumps(narrow)) / 3
    assert export_lines.encode_value([n / 7 for n in range(384)]) == [n / 7 for n in range(384)]


def test_a_type_that_nobody_knows_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="the property 'a' is a complex"):
        export_lines.encode_properties({"a": 1j})


@pytest.mark.parametrize(
    "value", [{"date": 1}, {"bytes": "?"}, {"floats": "AAA="}, {}, {"a": 1, "b": 2}, 2**63, "\ud800"]
)
def test_what_is_no_value_is_refused(value: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="its property 'a'"):
        export_lines.decode_properties({"a": value})


def test_every_label_of_a_user_is_exported_and_imported_by_its_key() -> None:
    assert NODE_KEYS.keys() | SECOND_LABELS == LABELS - {"App", "Meta", "Migration"}
    texts = [block.text for blocks in load_cypher_files("migrations").values() for block in blocks]
    keys: dict[str, list[tuple[str, ...]]] = {}
    for label, names in re.findall(r"FOR \(n:@(\w+)\) REQUIRE \(?([^()]+)\)? IS UNIQUE", "\n".join(texts)):
        keys.setdefault(label, []).append(tuple(re.findall(r"n\.(\w+)", names))[1:])
    assert {label: key for label, key in NODE_KEYS.items() if key not in keys[label]} == {}
    statements = CypherStatements(Settings(), "2026")
    for label, key in NODE_KEYS.items():
        values = "".join(f", {name}: place.key[{number}]" for number, name in enumerate(key))
        assert f"MATCH (node:{label} {{scope: $given.scope{values}}})" in statements["import_nodes"]
    exported = [text for name in statements if name.startswith("exported_") for text in [statements[name]]]
    for label in NODE_KEYS.keys() - {"User"}:
        assert any(f"MATCH (n:{label} {{scope: $given.scope}})" in text for text in exported), label
    assert transfer.NODES_PER_PAGE * 65_536 < 10_000_000
