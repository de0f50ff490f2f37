"""Read a user's nodes as of a time: later ones are left out, and derived ones are derived again.

``tests/integration/test_export_as_of.py`` compares the file with the one that was written then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytz
from neo4j import Record
from neo4j.time import DateTime

from adk_graph_memory.graph import fact_rows, reviews, transfer, writing
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.graph.vector_slots import EmbeddingBatch, VectorSlot
from adk_graph_memory.records.memory import MemoryDifference, MemorySnapshot, RecordedMemory, compare_memory
from adk_graph_memory.records.portable import NodeKey, NodePlace, PortableEdge, PortableNode
from adk_graph_memory.records.readings import encode_reading


@dataclass(frozen=True, slots=True)
class PastPlaces:
    """Which turns memory had read, and which events sessions had; by the keys of their nodes.

    ``turns`` are rows by memory id, ``last_events`` the rows of each session's last event by the session's uid,
    ``next_keys`` says which event follows which, ``version_counts`` how many versions an artifact had.
    """

    turns: Mapping[str, Record]
    heard_keys: Collection[NodeKey]
    session_keys: Collection[NodeKey]
    last_events: Mapping[str, Record]
    next_keys: Mapping[NodeKey, NodeKey]
    version_counts: Mapping[NodeKey, int]


async def fetch_past_places(graph: UserGraph, memory: RecordedMemory) -> PastPlaces:
    """Fetch where all events and artifacts of a user are, and choose those that there were.

    Nothing says when an event was stored. So it counts from when it was said, or else from when memory had read it,
    with all that its session has before it.
    """
    rows = await graph.run_statement("exported_event_places")
    versions = await graph.run_statement("exported_version_counts", at=memory.at.timestamp())
    counts: dict[NodeKey, int] = {(row["session_id"], row["name"]): row["versions"] for row in versions}
    return await asyncio.to_thread(_choose_places, rows, memory, counts)


def _choose_places(rows: Sequence[Record], memory: RecordedMemory, counts: Mapping[NodeKey, int]) -> PastPlaces:
    heard_ids, at = memory.heard_turn_ids, memory.at.timestamp()
    turns = {row["memory_id"]: row for row in rows if row["memory_id"] in heard_ids}
    own_rows = [row for row in rows if row["began"] is not None and row["began"] <= at]
    last_events: dict[str, Record] = {}
    for row in own_rows:
        last = last_events.get(row["session_uid"])
        is_past = row["timestamp"] <= at or row["memory_id"] in turns
        if is_past and (last is None or last["seq"] < row["seq"]):
            last_events[row["session_uid"]] = row
    heard_keys = {read_event_key(row) for row in turns.values()}
    session_keys = {
        read_event_key(row)
        for row in own_rows
        if (last := last_events.get(row["session_uid"])) and row["seq"] <= last["seq"]
    }
    next_keys = _link_events(rows, heard_keys | session_keys)
    return PastPlaces(turns, heard_keys, session_keys, last_events, next_keys, counts)


def read_event_key(row: Record) -> NodeKey:
    """Read the key of an event's node."""
    return row["session_uid"], row["id"]


def _link_events(rows: Sequence[Record], kept_keys: Collection[NodeKey]) -> dict[NodeKey, NodeKey]:
    """Map each event that is kept to the next one that is."""
    following = {read_event_key(row): tuple(row["next"]) for row in rows if row["next"]}
    links: dict[NodeKey, NodeKey] = {}
    for key in kept_keys:
        later = following.get(key)
        while later is not None and later not in kept_keys:
            later = following.get(later)
        if later is not None:
            links[key] = later
    return links


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
        row = writing.make_derived_row(fact, self._difference, EmbeddingBatch())
        before = dict(today.properties) if today else {}
        quotes = self._find_turns(row["sources"])
        expiries = [turn["expires_at"] for _, turn in quotes]
        has_same_text = before.get("text") == row["text"]
        properties: dict[str, Any] = {"recorded_at": row["recorded_at"], "metadata": []} | before
        properties |= {name: row[name] for name in _FACT_COLUMNS} | fact_rows.make_ruling_columns(fact.ruling)
        properties |= {
            "id": id,
            "kind": "fact",
            "memory_id": f"fact:{id}",
            "open": row["state"] == "current",
            "support": len(quotes),
            "heard_at": max((turn["timestamp"] for _, turn in quotes), default=None),
            "expires_at": None if None in expiries else max(expiries, default=None),
            "origin": fact.origin,
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
        for row in writing.make_difference_rows(self._difference)["revisions"]:
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


_MEMORY_PROPERTIES = frozenset(("memory_id", "ingest", "kind", "open", "words", "extracted", "unembedded", "metadata"))
_MEMORY_PROPERTIES |= {"manner", "writer", "origin"}
"""What an event has only as a turn of memory."""
_MEMORY_EDGES = frozenset(("READS", "SUPPORTED_BY", "BECAUSE_OF"))
"""Relationships that lead to turns of memory alone."""


async def iterate_past_nodes(
    graph: UserGraph, live: VectorSlot | None, snapshot: MemorySnapshot, memory: RecordedMemory
) -> AsyncIterator[PortableNode]:
    """Yield the nodes of a user as of then, the user's own first; none if nothing was there of the user.

    What the graph has no node of today comes last.
    """
    places = await fetch_past_places(graph, memory)
    past = await asyncio.to_thread(_PastUser, snapshot, memory, places, is_embedded=live is not None)
    owner: PortableNode | None = None
    async for node in transfer.iterate_nodes(graph, live):
        then = past.restore_node(node)
        if node.place.label == "User":
            owner = then
        elif then is not None and (owner is None or node.place.label != "Tombstone"):
            if owner is not None:
                yield owner
                owner = None
            yield then
    if owner is not None and (past.has_missing_nodes or owner.properties.get("state")):
        yield owner
        owner = None
    if owner is None:
        for node in past.iterate_missing_nodes():
            yield node


class _PastUser:
    """What there was of a user at a time."""

    def __init__(
        self, snapshot: MemorySnapshot, memory: RecordedMemory, places: PastPlaces, *, is_embedded: bool
    ) -> None:
        difference = compare_memory(snapshot.stored, memory.derived)
        self._snapshot, self._memory, self._places = snapshot, memory, places
        self._at = memory.at.timestamp()
        self._nodes = PastNodes(memory, difference, places, is_embedded=is_embedded)
        self._readings = {reading.id: reading for reading in memory.readings}
        self._stored_readings = {reading.id: reading for reading in snapshot.readings}
        self._reading_ids = {
            id: reading.id
            for reading in memory.readings
            for id in reading.heard_turn_ids
            if id not in reading.reread_at
        }
        derived = memory.derived
        self._missing_entities, self._missing_facts = set(derived.entities), set(derived.facts)
        self._revision_keys = {
            (id, revision.revision.key) for id, fact in derived.facts.items() for revision in fact.revisions
        }
        self._mentions: dict[str, list[PortableEdge]] = {}
        for (turn_id, key), was in derived.mentions.items():
            edge = PortableEdge("MENTIONS", True, NodePlace("Entity", (key,)), {"was": was} if was else {})
            self._mentions.setdefault(turn_id, []).append(edge)
        self._session_ids = set[str]()

    @property
    def has_missing_nodes(self) -> bool:
        """Whether memory knew somebody or something without a node in today's graph."""
        return bool(self._missing_entities or self._missing_facts)

    def restore_node(self, node: PortableNode) -> PortableNode | None:
        """Return a node as it was then; None if it was not there. What an agent proposes is asked of today's owner."""
        kept = {name: value for name, value in node.properties.items() if not name.startswith(reviews.PREFIX)}
        node = replace(node, properties=kept)
        then: PortableNode | None = node
        match node.place.label:
            case "User":
                then = self._restore_user(node)
            case "Session":
                then = self._restore_session(node)
            case "Event":
                then = self._restore_event(node)
            case "Entity":
                then = self._restore_entity(node)
            case "Fact":
                then = self._restore_fact(node)
            case "Revision":
                then = node if node.place.key in self._revision_keys else None
            case "Ingest":
                then = self._restore_ingest(node)
            case "Artifact":
                then = self._restore_artifact(node)
            case "ArtifactVersion":
                then = node if node.properties["create_time"] <= self._at else None
        return then and self._trim_edges(then)

    def iterate_missing_nodes(self) -> Iterator[PortableNode]:
        """Yield the nodes that the graph does not hold today, once all that it holds were restored."""
        for key in sorted(self._missing_entities):
            yield self._trim_edges(self._nodes.make_entity(key, None))
        for id in sorted(self._missing_facts):
            yield self._trim_edges(self._nodes.make_fact(id, None))
        for node in self._nodes.iterate_revisions():
            yield self._trim_edges(node)

    def _restore_user(self, node: PortableNode) -> PortableNode:
        """Restore the user's own node; a state that was written since is not known as it was."""
        properties, turns = dict(node.properties), self._snapshot.turns
        authors = {turns[id]["author"] for id in self._places.turns if id in turns}
        if "authors" in properties:
            properties["authors"] = [name for name in properties["authors"] if name in authors]
        if properties.get("state") and not properties.get("state_time", self._at + 1) <= self._at:
            properties["state"] = []
            properties.pop("state_time", None)
        return replace(node, properties=properties)

    def _restore_session(self, node: PortableNode) -> PortableNode | None:
        """Restore a session up to its last event; its state is left out if anything was added since."""
        properties = dict(node.properties)
        began = properties["create_time"]
        if began > self._at:
            return None
        self._session_ids.add(properties["id"])
        if properties["last_update_time"] > self._at:
            last = self._places.last_events.get(properties["uid"])
            properties |= {"state": [], "revision": last["seq"] if last else 0}
            properties["last_update_time"] = last["timestamp"] if last else began
        if properties.get("closed_at", self._at) > self._at:
            del properties["closed_at"]
        return replace(node, properties=properties)

    def _restore_event(self, node: PortableNode) -> PortableNode | None:
        """Restore an event of a session, a turn of memory, or both."""
        key, properties = node.place.key, dict(node.properties)
        is_heard, is_in_session = key in self._places.heard_keys, key in self._places.session_keys
        if not is_heard and not is_in_session:
            return None
        edges = [edge for edge in node.edges if edge.type not in ("NEXT", "MENTIONS")]
        if key in self._places.next_keys:
            edges.append(PortableEdge("NEXT", True, NodePlace("Event", self._places.next_keys[key])))
        if not is_in_session:
            properties.pop("body", None)
        if is_heard:
            if id := self._reading_ids.get(properties["memory_id"]):
                properties["ingest"] = id
            edges += self._mentions.get(properties["memory_id"], ())
            return replace(node, properties=properties, edges=tuple(edges))
        properties = {name: value for name, value in properties.items() if name not in _MEMORY_PROPERTIES}
        labels = tuple(label for label in node.labels if label != "Memory")
        return replace(node, labels=labels, properties=properties, edges=tuple(edges), vector=None, tokens=None)

    def _restore_entity(self, node: PortableNode) -> PortableNode | None:
        key = str(node.place.key[0])
        if key not in self._missing_entities:
            return None
        self._missing_entities.remove(key)
        return self._nodes.make_entity(key, node)

    def _restore_fact(self, node: PortableNode) -> PortableNode | None:
        if node.properties.get("direct"):
            return node if node.properties["memory_id"] in self._memory.statement_ids else None
        id = str(node.place.key[0])
        if id not in self._missing_facts:
            return None
        self._missing_facts.remove(id)
        return self._nodes.make_fact(id, node)

    def _restore_ingest(self, node: PortableNode) -> PortableNode | None:
        """Restore a request that memory had read."""
        id, properties = str(node.place.key[0]), node.properties
        reading = self._readings.get(id)
        if reading is None:
            return None
        edges = tuple(self._restore_reads(edge) for edge in node.edges)
        node = replace(node, edges=edges)
        if reading == self._stored_readings.get(id):
            return node
        changes = {"reading": encode_reading(reading)} | ({"held": len(reading.held)} if reading.held else {})
        others = {name: value for name, value in properties.items() if name != "held"}
        return replace(node, properties=others | changes)

    def _restore_reads(self, edge: PortableEdge) -> PortableEdge:
        """Restore what a request read: nothing of it was read again later."""
        time = edge.properties.get("reread_at")
        return edge if time is None or time.to_native() <= self._memory.at else replace(edge, properties={})

    def _restore_artifact(self, node: PortableNode) -> PortableNode | None:
        count = self._places.version_counts.get(node.place.key)
        return None if count is None else replace(node, properties={**node.properties, "versions": count})

    def _trim_edges(self, node: PortableNode) -> PortableNode:
        """Leave out relationships with nodes that were not there."""
        edges = (edge for edge in node.edges if self._is_kept(edge))
        return replace(node, edges=transfer.sort_edges(edges))

    def _is_kept(self, edge: PortableEdge) -> bool:
        label, key = edge.other.label, edge.other.key
        if label == "Event":
            is_heard = key in self._places.heard_keys
            return is_heard or (key in self._places.session_keys and edge.type not in _MEMORY_EDGES)
        if label == "Artifact":
            return key in self._places.version_counts
        if label == "Fact":
            return key[0] in self._memory.derived.facts or f"fact:{key[0]}" in self._memory.statement_ids
        if label == "Revision":
            return key in self._revision_keys
        if label == "Entity":
            return key[0] in self._memory.derived.entities
        return label != "Session" or key[0] in self._session_ids
