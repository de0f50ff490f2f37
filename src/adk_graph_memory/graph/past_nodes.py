"""Make the nodes of names, facts and revisions as they were derived from what had been read at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pytz
from neo4j import Record
from neo4j.time import DateTime

from adk_graph_memory.graph import derivation, fact_rows
from adk_graph_memory.graph.derivation import MemoryDifference
from adk_graph_memory.graph.past_places import PastPlaces, read_event_key
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.records.derived_memory import RecordedMemory
from adk_graph_memory.records.portable_rows import NodePlace, PortableEdge, PortableNode

_FACT_COLUMNS: tuple[str, ...] = ("text", "words", "signature", "predicate", "modality", "topic", "author", "timestamp")
_FACT_COLUMNS += ("offset", "valid_from", "said_to", "valid_to", "valid_from_precision", "said_to_precision")
_FACT_COLUMNS += ("valid_to_precision", "correction", "single", "state", "direct")
"""Columns of a fact's row that are its properties."""
_FACT_EDGES = frozenset(("SUBJECT", "OBJECT", "SUPPORTED_BY", "SUPERSEDES", "WOULD_SUPERSEDE", "DEPENDS_ON"))


class PastNodes:
    """Makes nodes of a memory as it was recorded.

    What memory holds today under the same key lends what is not derived, and its vector if its text is the same.

    Args:
        memory: what had been recorded.
        difference: how it differs from what the graph holds today.
        places: where its turns are.
        is_embedded: whether texts of the graph have vectors.
    """

    def __init__(
        self, memory: RecordedMemory, difference: MemoryDifference, places: PastPlaces, *, is_embedded: bool
    ) -> None:
        self._memory, self._difference, self._places, self._is_embedded = memory, difference, places, is_embedded
        self._links = _index_links(memory)

    def make_entity(self, key: str, today: PortableNode | None) -> PortableNode:
        """Make the node of an entity."""
        entity = self._memory.derived.entities[key]
        properties = {"created_at": self._memory.at} | (dict(today.properties) if today else {})
        has_same_name = today is not None and properties.get("name") == entity.name
        properties |= {
            "key": key,
            "name": entity.name,
            "type": entity.type,
            "aliases": list(entity.aliases),
            "about": entity.about,
            "own_names": list(entity.own_names) or None,
            "foreign_names": list(entity.foreign_names) or None,
        }
        if not has_same_name:
            properties["embedding_error"] = None
        edges = []
        if entity.merged_into:
            merger = {"at": self._memory.at, "by": entity.merged_by, "reason": entity.merge_reason}
            edge = _make_edge("MERGED_INTO", NodePlace("Entity", (entity.merged_into,)), merger)
            edges.append(_find_edge(today, edge) or edge)
        edges += _list_edges(today, without=frozenset(("MERGED_INTO",)))
        return _make_node(NodePlace("Entity", (key,)), ("Entity",), properties, edges, today if has_same_name else None)

    def make_fact(self, id: str, today: PortableNode | None) -> PortableNode:
        """Make the node of a fact, with all that leads from it."""
        fact = self._memory.derived.facts[id]
        row = derivation.make_fact_row(fact, self._difference, EmbeddingBatch())
        before = dict(today.properties) if today else {}
        quotes = self._find_turns(row["sources"])
        expiries = [turn["expires_at"] for _, turn in quotes]
        has_same_text = before.get("text") == row["text"]
        properties: dict[str, Any] = {"recorded_at": row["recorded_at"], "metadata": []} | before
        properties |= {name: row[name] for name in _FACT_COLUMNS} | fact_rows.make_ruling_columns(fact.known.ruling)
        properties |= {
            "id": id,
            "kind": "fact",
            "memory_id": f"fact:{id}",
            "open": row["state"] == "current",
            "support": len(quotes),
            "heard_at": max((turn["timestamp"] for _, turn in quotes), default=None),
            "expires_at": None if None in expiries else max(expiries, default=None),
            "origin": fact.known.origin,
            "stale": True if id in self._memory.stale_ids else None,
            "extractor": row["extractor"] or before.get("extractor"),
            "retired_at": None,
        }
        if row["state"] == "retracted":
            properties["retired_at"] = before.get("retired_at") or row["retired_at"]
        if not has_same_text:
            properties |= {"unembedded": self._is_embedded or None, "embedding_error": None}
        edges = [_find_edge(today, edge) or edge for edge in (*self._list_supports(row), *self._links.get(id, ()))]
        edges += _list_edges(today, without=_FACT_EDGES)
        place, labels = NodePlace("Fact", (id,)), ("Fact", "Memory")
        return _make_node(place, labels, properties, edges, today if has_same_text else None)

    def _list_supports(self, row: Mapping[str, Any]) -> Iterator[PortableEdge]:
        """List of whom a fact speaks, and the quotes that it rests on."""
        for type in ("subject", "object"):
            if row[type]:
                yield _make_edge(type.upper(), NodePlace("Entity", (row[type],)), {"was": row[f"{type}_was"]})
        for said, turn in self._find_turns(row["sources"]):
            quote = {name: said[name] for name in ("key", "quote", "start", "end", "verified")}
            yield _make_edge("SUPPORTED_BY", NodePlace("Event", read_event_key(turn)), quote)

    def _find_turns(self, quotes: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Record]]:
        """Find the turn of each quote; without its turn a quote supports nothing."""
        return [(said, turn) for said in quotes if (turn := self._places.turns.get(said["event"]))]

    def iterate_revisions(self) -> Iterator[PortableNode]:
        """Make the nodes of the revisions that the graph does not hold today."""
        for row in derivation.make_change_rows(self._difference)["revisions"]:
            place = NodePlace("Revision", (row["fact_id"], row["n"]))
            quotes = self._find_turns(row["evidence"])
            expiries = [turn["revisions_expire_at"] for _, turn in quotes if turn["revisions_expire_at"]]
            properties = {**row["properties"], "fact_id": row["fact_id"], "n": row["n"]}
            properties |= {
                "recorded_at": row["recorded_at"],
                "expires_at": max(expiries, default=None),
            }
            edges = [PortableEdge("HAS_REVISION", False, NodePlace("Fact", (row["fact_id"],)))]
            for said, turn in quotes:
                quote = {name: said[name] for name in ("key", "start", "end")}
                edges.append(_make_edge("BECAUSE_OF", NodePlace("Event", read_event_key(turn)), quote))
            yield _make_node(place, ("Revision",), properties, edges, None)


def _index_links(memory: RecordedMemory) -> dict[str, list[PortableEdge]]:
    """Map each fact to what it ended and what it rests on."""
    links: dict[str, list[PortableEdge]] = {}
    for (later, earlier), link in memory.derived.links.items():
        type = "WOULD_SUPERSEDE" if link.link.is_void else "SUPERSEDES"
        properties = {"op": link.link.op, "reason": link.link.reason, "recorded_at": link.recorded_at}
        links.setdefault(later, []).append(_make_edge(type, NodePlace("Fact", (earlier,)), properties))
    for later, base in memory.derived.dependencies:
        links.setdefault(later, []).append(_make_edge("DEPENDS_ON", NodePlace("Fact", (base,)), {}))
    return links


def _make_edge(type: str, other: NodePlace, properties: Mapping[str, Any]) -> PortableEdge:
    return PortableEdge(type, True, other, _store_values(properties))


def _find_edge(today: PortableNode | None, edge: PortableEdge) -> PortableEdge | None:
    """Find the same relationship as it is today, if it says the same; it may tell more exactly since when."""
    for known in today.edges if today else ():
        if (known.type, known.other) == (edge.type, edge.other):
            names = edge.properties.keys() - {"recorded_at", "at", "by"}
            if all(
                (known.properties.get(name) or None) == (edge.properties.get(name) or None)
                for name in names | {"was", "key"}
            ):
                return known
    return None


def _list_edges(today: PortableNode | None, without: frozenset[str]) -> list[PortableEdge]:
    return [edge for edge in today.edges if edge.type not in without] if today else []


def _make_node(
    place: NodePlace,
    labels: tuple[str, ...],
    properties: Mapping[str, Any],
    edges: Iterable[PortableEdge],
    lender: PortableNode | None,
) -> PortableNode:
    """Make a node; ``lender`` has its vectors."""
    vector, tokens = (lender.vector, lender.tokens) if lender else (None, None)
    return PortableNode(place, labels, _store_values(properties), tuple(edges), vector, tokens)


def _store_values(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties as the database would: without those that are missing, and times of its own type."""
    return {name: _store_value(value) for name, value in properties.items() if value is not None}


def _store_value(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    offset = value.utcoffset()
    zone = pytz.FixedOffset(round(offset.total_seconds() / 60) if offset else 0)
    return DateTime.from_native(value.astimezone(zone))
