"""Read a user's nodes as of a time: what came later is left out, and what is derived is made anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from adk_graph_memory.graph import derivation, proposals, user_export
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.derivation import MemorySnapshot
from adk_graph_memory.graph.past_nodes import PastNodes
from adk_graph_memory.graph.past_places import PastPlaces, fetch_past_places
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.records import Scope
from adk_graph_memory.records.derived_memory import RecordedMemory
from adk_graph_memory.records.portable_rows import NodePlace, PortableEdge, PortableNode
from adk_graph_memory.records.readings import encode_reading

_MEMORY_PROPERTIES = frozenset(("memory_id", "ingest", "kind", "open", "words", "extracted", "unembedded", "metadata"))
_MEMORY_PROPERTIES |= {"manner", "writer", "origin"}
"""What an event has only as a turn of memory."""
_MEMORY_EDGES = frozenset(("READS", "SUPPORTED_BY", "BECAUSE_OF"))
"""Relationships that lead to turns of memory alone."""


async def iterate_past_nodes(
    connection: Connection, scope: Scope, live: VectorSlot | None, snapshot: MemorySnapshot, memory: RecordedMemory
) -> AsyncIterator[PortableNode]:
    """Yield the nodes of a user as of then, the user's own first; none if nothing was there of the user.

    What the graph has no node of today comes last.
    """
    places = await fetch_past_places(connection, scope, memory)
    past = await asyncio.to_thread(_PastUser, snapshot, memory, places, is_embedded=live is not None)
    owner: PortableNode | None = None
    async for node in user_export.iterate_nodes(connection, scope, live):
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
        difference = derivation.compare_memory(snapshot.stored, memory.derived)
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
        """Whether memory knew somebody or something of which the graph has no node today."""
        return bool(self._missing_entities or self._missing_facts)

    def restore_node(self, node: PortableNode) -> PortableNode | None:
        """Return a node as it was then; None if it was not there. What an agent proposes is asked of today's owner."""
        kept = {name: value for name, value in node.properties.items() if not name.startswith(proposals.PREFIX)}
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
        return replace(node, edges=user_export.sort_edges(edges))

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
