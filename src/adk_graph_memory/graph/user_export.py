"""Read a user's nodes and relationships page by page, apart from what belongs to this graph alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from neo4j import Record

from adk_graph_memory.graph import forgetting
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.export_lines import SLOT_PROPERTIES
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.records import Scope
from adk_graph_memory.records.portable_rows import (
    LOCAL_PROPERTIES,
    NODE_KEYS,
    SECOND_LABELS,
    NodeKey,
    NodePlace,
    PortableEdge,
    PortableNode,
)
from adk_graph_memory.records.turns import make_memory_id

NODES_PER_PAGE = 100
"""Nodes that one statement returns; a page of artifacts has 100 times 64 KiB at most."""
APPS_PER_PAGE = 100

_BLOCKS = {
    "Session": "sessions",
    "Event": "events",
    "Entity": "entities",
    "Fact": "facts",
    "Revision": "revisions",
    "Ingest": "ingests",
    "Artifact": "artifacts",
    "ArtifactVersion": "artifact_versions",
    "Tombstone": "tombstones",
}


async def iterate_apps(connection: Connection, app_name: str | None) -> AsyncIterator[dict[str, Any]]:
    """Yield the properties of an app, or of all, by name."""
    after = ""
    while rows := await connection.run_statement("exported_apps", app_name=app_name, after=after, limit=APPS_PER_PAGE):
        for row in rows:
            yield _drop_local(row["properties"])
        after = rows[-1]["properties"]["app_name"]


async def fetch_marks(connection: Connection, scope: Scope) -> tuple[int, int]:
    """Fetch numbers that differ as soon as somebody wrote to the user."""
    [row] = await connection.run_statement("exported_marks", scope=scope.key)
    return row["writes"], row["events"]


async def iterate_nodes(connection: Connection, scope: Scope, live: VectorSlot | None) -> AsyncIterator[PortableNode]:
    """Yield all nodes of a user: label by label, in the order of their keys; the user's own node comes first.

    A node carries the relationships that begin at it, but for those that say what has it: these end at it. So no node
    carries many, however many sessions a user has and events a session.
    """
    for row in await connection.run_statement("exported_user", scope=scope.key):
        yield _read_node(connection, row, "User", live, {})
    for label, block in _BLOCKS.items():
        after: Sequence[Any] = [-1 if name == "version" else "" for name in NODE_KEYS[label]]
        while rows := await connection.run_statement(
            f"exported_{block}", scope=scope.key, after=after, limit=NODES_PER_PAGE
        ):
            refusals = await _fetch_refusals(connection, scope, rows) if label == "Event" else {}
            for row in rows:
                yield _read_node(connection, row, label, live, refusals)
            after = [rows[-1]["properties"][name] for name in NODE_KEYS[label]]


async def _fetch_refusals(
    connection: Connection, scope: Scope, rows: Sequence[Record]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Fetch what was forgotten of these events, by session and id: in another graph tombstones have other keys."""
    kinds: dict[str, tuple[tuple[str, str], str]] = {}
    for row in rows:
        event = row["properties"]["session_id"], row["properties"]["id"]
        memory_id = make_memory_id(*event)
        kinds[forgetting.make_turn_tombstone(connection, memory_id)] = event, "turn"
        kinds[forgetting.make_fact_tombstone(connection, memory_id)] = event, "facts"
    refusals: dict[tuple[str, str], dict[str, Any]] = {}
    for row in await connection.run_statement("tombstones", scope=scope.key, keys=list(kinds)):
        event, kind = kinds[row["key"]]
        refusals.setdefault(event, {})[kind] = row["at"]
    return refusals


def _read_node(
    connection: Connection,
    row: Record,
    label: str,
    live: VectorSlot | None,
    refusals: Mapping[tuple[str, str], Mapping[str, Any]],
) -> PortableNode:
    properties = row["properties"]
    edges = filter(None, (_read_edge(connection, edge) for edge in row["edges"]))
    return PortableNode(
        NodePlace(label, _read_key(label, properties)),
        tuple(name for name in (label, *sorted(SECOND_LABELS)) if name in _list_labels(connection, row["labels"])),
        _free_ingest(_drop_local(properties)) if label == "Ingest" else _drop_local(properties),
        sort_edges(edges),
        properties.get(live.vector_property) if live else None,
        properties.get(live.token_property) if live else None,
        refusals.get((properties.get("session_id", ""), properties.get("id", "")), {}) if label == "Event" else {},
    )


def sort_edges(edges: Iterable[PortableEdge]) -> tuple[PortableEdge, ...]:
    """Sort the relationships of a node, so that the same node makes the same line."""
    return tuple(sorted(edges, key=lambda edge: (edge.type, repr(edge.other.key), str(edge.properties.get("key")))))


def _read_edge(connection: Connection, edge: Mapping[str, Any]) -> PortableEdge | None:
    """Read a relationship; None if the other node is nothing of ours."""
    labels = [label for label in _list_labels(connection, edge["labels"]) if label in NODE_KEYS]
    if len(labels) != 1:
        return None
    place = NodePlace(labels[0], _read_key(labels[0], edge["other"]))
    return PortableEdge(edge["type"], edge["is_outgoing"], place, edge["properties"])


def _list_labels(connection: Connection, labels: Sequence[str]) -> list[str]:
    prefix = connection.settings.label_prefix
    return [label.removeprefix(prefix) for label in labels if label.startswith(prefix)]


def _read_key(label: str, properties: Mapping[str, Any]) -> NodeKey:
    return tuple(properties[name] for name in NODE_KEYS[label])


def _drop_local(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what belongs to this graph alone; vectors go beside the properties."""
    return {name: value for name, value in properties.items() if name not in LOCAL_PROPERTIES | SLOT_PROPERTIES}


def _free_ingest(properties: dict[str, Any]) -> dict[str, Any]:
    """What somebody reads at the moment waits elsewhere."""
    return properties | ({"state": "pending"} if properties.get("state") == "claimed" else {})
