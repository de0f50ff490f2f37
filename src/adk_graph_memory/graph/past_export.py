"""Read a user's nodes as of a time: what was said, read and added until then, and nothing that is derived from it.

Whoever imports the nodes derives the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from neo4j import Record

from adk_graph_memory.graph import reviews, transfer
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.records.memory import MemorySnapshot, RecordedMemory
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


_MEMORY_PROPERTIES = frozenset(("memory_id", "ingest", "kind", "open", "words", "extracted", "unembedded", "metadata"))
_MEMORY_PROPERTIES |= {"manner", "writer", "origin", "own_text", "shown"}
"""What an event has only as a turn of memory."""
_MEMORY_EDGES = frozenset(("READS", "SUPPORTED_BY", "BECAUSE_OF"))
"""Relationships that lead to turns of memory alone."""


async def iterate_past_nodes(
    graph: UserGraph, live: VectorSlot | None, snapshot: MemorySnapshot, memory: RecordedMemory
) -> AsyncIterator[PortableNode]:
    """Yield the nodes of a user as of then, the user's own first; none if nothing was there of the user."""
    places = await fetch_past_places(graph, memory)
    past = _PastUser(snapshot, memory, places)
    owner: PortableNode | None = None
    async for node in transfer.iterate_nodes(graph, live, without=("Entity", "Revision")):
        then = past.restore_node(node)
        if node.place.label == "User":
            owner = then
        elif then is not None and (owner is None or node.place.label != "Tombstone"):
            if owner is not None:
                yield owner
                owner = None
            yield then
    if owner is not None and owner.properties.get("state"):
        yield owner


class _PastUser:
    """What there was of a user at a time."""

    def __init__(self, snapshot: MemorySnapshot, memory: RecordedMemory, places: PastPlaces) -> None:
        self._snapshot, self._memory, self._places = snapshot, memory, places
        self._at = memory.at.timestamp()
        self._readings = {reading.id: reading for reading in memory.readings}
        self._stored_readings = {reading.id: reading for reading in snapshot.readings}
        self._reading_ids = {
            id: reading.id
            for reading in memory.readings
            for id in reading.heard_turn_ids
            if id not in reading.reread_at
        }
        self._session_ids = set[str]()

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
            case "Fact":
                then = node if node.properties["memory_id"] in self._memory.statement_ids else None
            case "Ingest":
                then = self._restore_ingest(node)
            case "Artifact":
                count = self._places.version_counts.get(node.place.key)
                then = None if count is None else replace(node, properties={**kept, "versions": count})
            case "ArtifactVersion":
                then = node if node.properties["create_time"] <= self._at else None
        # A relationship goes if the node at its other end was not there.
        return then and replace(then, edges=transfer.sort_edges(edge for edge in then.edges if self._is_kept(edge)))

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
            return replace(node, properties=properties, edges=tuple(edges))
        if "own_text" in properties:
            properties["text"] = properties["own_text"] or None
        properties = {name: value for name, value in properties.items() if name not in _MEMORY_PROPERTIES}
        labels = tuple(label for label in node.labels if label != "Memory")
        return replace(node, labels=labels, properties=properties, edges=tuple(edges), vector=None, tokens=None)

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

    def _is_kept(self, edge: PortableEdge) -> bool:
        label, key = edge.other.label, edge.other.key
        if label == "Event":
            is_heard = key in self._places.heard_keys
            return is_heard or (key in self._places.session_keys and edge.type not in _MEMORY_EDGES)
        if label == "Artifact":
            return key in self._places.version_counts
        if label == "Fact":
            return f"fact:{key[0]}" in self._memory.statement_ids
        return label not in ("Entity", "Revision") and (label != "Session" or key[0] in self._session_ids)
