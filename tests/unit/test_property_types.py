"""An import knows the type of every property that statements and codecs write, of nodes and of relationships."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_framework import Message
from google.adk.events.event import Event

from adk_graph_memory import errors
from adk_graph_memory.adk import session_codec
from adk_graph_memory.consolidation.fact_rules import plan_statement
from adk_graph_memory.graph import artifacts, fact_rows
from adk_graph_memory.graph.export_lines import REQUIRED, SLOT_PROPERTIES, TYPES, decode_node
from adk_graph_memory.graph.statements import LABELS, CypherStatements
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.maf.history_provider import encode_message
from adk_graph_memory.records.facts import Revision, Standing
from adk_graph_memory.records.portable import EDGE_PATTERNS, EDGE_TYPES, LOCAL_PROPERTIES
from adk_graph_memory.records.turns import Statement
from adk_graph_memory.runtime.settings import Settings

STATEMENTS = CypherStatements(Settings(), "2026")
OF_THE_GRAPH = {"Meta", "Migration"}
"""Labels of nodes that are never exported."""

EVENT = session_codec.encode_event(Event(author="user", timestamp=1.0))
MESSAGE = encode_message(Message("user", ["hello"]), id="m", run_id="r", timestamp=1.0)
FACT = plan_statement(Statement("text", datetime.now(UTC), "user"))
REVISION = Revision("f", "REFINE", "text", "signature", Standing("current", None), "reason")
MAPS: Mapping[str, Mapping[str, Any]] = {
    "append.event": EVENT | dict.fromkeys(("memory_id",)),
    "event.properties": MESSAGE,
    "revision.properties": fact_rows.encode_revision_row(REVISION, {})["properties"],
    "row.columns": fact_rows.encode_fact_row(FACT, EmbeddingBatch(), {})["columns"],
    "$given.version": dict.fromkeys(artifacts.StoredVersion._fields),
    "row.properties": {},
    "$given.properties": {},
}
"""Properties that are written as a map, by its name in statements; those of an import come from a file."""

SET = re.compile(r"(?:\bSET\s+|,\s*)(\w+)\.(\w+) =\s")
ADDED = re.compile(r"\bSET (\w+) \+= ([\w.$]+)")
CREATED = re.compile(r"\b(?:CREATE|MERGE)\b[^{}]*?[(\[](\w*):([A-Z]\w*) \{([^{}]*)\}")


def list_written() -> Iterator[tuple[str, str]]:
    """Label or type, as far as the statement tells it, and name of each property that a statement writes."""
    for name in STATEMENTS:
        text = re.sub(r"//.*", "", STATEMENTS[name])
        owners = dict(re.findall(r"[(\[](\w+):(\w+)", text))
        for variable, property in SET.findall(text):
            yield owners.get(variable, ""), property
        for variable, map in ADDED.findall(text):
            yield from ((owners.get(variable, ""), property) for property in MAPS[map])
        for _, owner, map in CREATED.findall(text):
            yield from ((owner, property) for property in re.findall(r"(\w+):", map))


WRITTEN = {
    (owner, property)
    for owner, property in list_written()
    if owner not in OF_THE_GRAPH and property not in LOCAL_PROPERTIES | SLOT_PROPERTIES
}
STATED = {name.rpartition(".")[2] for name in TYPES}


def test_the_type_of_every_property_that_a_statement_writes_is_stated() -> None:
    assert len(WRITTEN) > 150
    assert [(owner, name) for owner, name in WRITTEN if not TYPES.keys() & {name, f"{owner}.{name}"}] == []


def test_no_type_is_stated_of_a_property_that_nothing_writes() -> None:
    assert STATED - {property for _, property in WRITTEN} == set()


def test_every_relationship_of_ours_has_its_ends() -> None:
    assert set(STATEMENTS.list_names()["types"]) == EDGE_TYPES
    assert {label for start, _, end in EDGE_PATTERNS for label in (start, end)} <= LABELS


def test_what_is_required_is_written() -> None:
    assert REQUIRED.keys() <= LABELS | EDGE_TYPES
    assert {name for names in REQUIRED.values() for name in names} <= STATED


EVENT_LINE: dict[str, Any] = {
    "node": ["Event", "Memory"],
    "properties": {
        "id": "e1",
        "session_id": "s1",
        "session_uid": "u1",
        "author": "user",
        "origin": "user",
        "timestamp": 1.5e9,
        "seq": 1,
        "memory_id": "event:e1",
        "kind": "event",
        "text": "I moved to Bergen",
    },
}
FACT_LINE: dict[str, Any] = {
    "node": ["Fact", "Memory"],
    "properties": {
        "id": "f1",
        "memory_id": "fact:f1",
        "kind": "fact",
        "origin": "user",
        "timestamp": 1.5e9,
        "text": "The user lives in Bergen",
        "predicate": "lives in",
        "modality": "asserted",
        "state": "current",
    },
    "edges": [["SUPPORTED_BY", ">", "Event", ["u1", "e1"], {"key": "k", "quote": "Bergen", "start": 11, "end": 17}]],
}
BEGINNING, END = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"


def test_what_an_export_writes_is_read() -> None:
    assert [decode_node(line).properties["id"] for line in (EVENT_LINE, FACT_LINE)] == ["e1", "f1"]


@pytest.mark.parametrize("line", [EVENT_LINE, FACT_LINE], ids=["event", "fact"])
def test_nothing_that_a_search_needs_is_missing(line: dict[str, Any]) -> None:
    for name in line["properties"]:
        with pytest.raises(errors.InvalidArgument, match=name):
            decode_node(line | {"properties": line["properties"] | {name: None}})


@pytest.mark.parametrize(
    ("line", "properties"),
    [
        (EVENT_LINE, {"proposal_text": 5}),
        (EVENT_LINE, {"proposal_at": "yesterday"}),
        (EVENT_LINE, {"proposal_at": {"datetime": BEGINNING}}),
        (EVENT_LINE, {"offset": 86_400}),
        (EVENT_LINE, {"timestamp": {"float": "nan"}}),
        (EVENT_LINE, {"timestamp": 1e15}),
        (EVENT_LINE, {"metadata": ["no member"]}),
        (EVENT_LINE, {"body": "no JSON"}),
        (EVENT_LINE, {"body": "[" * 100_000}),
        (EVENT_LINE, {"origin": "nobody"}),
        (FACT_LINE, {"valid_from": {"datetime": BEGINNING}}),
        (FACT_LINE, {"valid_to": {"datetime": END}}),
        (FACT_LINE, {"valid_to": {"datetime": "2026-05-04T12:00:00"}}),
        (FACT_LINE, {"support": -1}),
        (FACT_LINE, {"state": "undone"}),
        (FACT_LINE, {"modality": 1}),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(line: dict[str, Any], properties: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument, match=f"its '{next(iter(properties))}'"):
        decode_node(line | {"properties": line["properties"] | properties})


@pytest.mark.parametrize(
    "edge",
    [
        ["SUPPORTED_BY", ">", "Event", ["u1", "e1"], {"key": "k"}],
        ["SUPPORTED_BY", ">", "Event", ["u1", "e1"], {"key": "k", "quote": 5}],
        ["SUPPORTED_BY", ">", "Session", ["s1"], {"key": "k", "quote": "Bergen"}],
        ["SUPPORTED_BY", "<", "Event", ["u1", "e1"], {"key": "k", "quote": "Bergen"}],
        ["SUPERSEDES", ">", "Fact", ["f0"], {"recorded_at": "yesterday"}],
    ],
    ids=str,
)
def test_a_relationship_of_ours_has_its_ends_and_types(edge: list[Any]) -> None:
    with pytest.raises(errors.InvalidArgument):
        decode_node(FACT_LINE | {"edges": [edge]})


@pytest.mark.parametrize("label", ["Session", "Entity", "User"])
def test_only_events_and_facts_are_memories(label: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="none of an export"):
        decode_node(EVENT_LINE | {"node": [label, "Memory"]})
