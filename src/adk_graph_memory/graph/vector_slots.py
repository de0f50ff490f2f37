"""Which vectors are live: every memory's vector is kept in one of two slots, and the Meta node says which is searched.

A new embedder fills the other slot while searches read this one; then one statement switches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.queries import fill_identifiers
from adk_graph_memory.records import Embedding, Passage

logger = logging.getLogger(__name__)

INDEX_WAIT_SECONDS = 300
"""Seconds that a new index may take to come ONLINE on a store that holds much already."""


@dataclass(frozen=True, slots=True)
class VectorSlot:
    """One of the two places where every vector is kept: ``embedding_a`` or ``embedding_b``."""

    name: str
    embedder: str
    dimensions: int

    @property
    def token_property(self) -> str:
        """The node property that holds the packed token vectors which belong to this slot's vectors."""
        return f"tokens_{self.name}"

    @property
    def vector_property(self) -> str:
        """The node property that holds this slot's vectors."""
        return f"embedding_{self.name}"


@dataclass(frozen=True, slots=True)
class EmbeddingBatch:
    """Embeddings by what they were made of, and the slot they go into; without an embedder there is neither."""

    slot: VectorSlot | None = None
    embeddings: Mapping[Passage, Embedding] = field(default_factory=dict)
    has_embedder: bool = False
    """whether a text without vector is to get one later"""

    def to_parameters(self) -> dict[str, Any]:
        """What the writing statements take."""
        slot = self.slot
        return {
            "slot": slot.vector_property if slot else None,
            "tokens": slot.token_property if slot else None,
            "embeds": self.has_embedder,
        }

    def make_vector_columns(self, passage: Passage | None) -> dict[str, Any]:
        """What a row of them takes for a passage; None for what keeps the embedding it has."""
        embedding = self.embeddings.get(passage) if passage else None
        return {"vector": embedding and embedding.vector, "tokens": embedding and embedding.tokens}

    def find_vector(self, text: str) -> Sequence[float] | None:
        """The vector of a text that was embedded by itself."""
        embedding = self.embeddings.get(Passage(text))
        return embedding and embedding.vector


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What the Meta node says of the database."""

    version: int = 0
    live_slot_name: str | None = None
    slots: tuple[VectorSlot, ...] = ()
    analyzers: tuple[str, ...] = ()

    @property
    def live_slot(self) -> VectorSlot | None:
        """The slot that searches read, once an embedder has written its first vector."""
        return next((slot for slot in self.slots if slot.name == self.live_slot_name), None)


async def fetch_schema_state(connection: Connection) -> SchemaState:
    """What the database says of itself; ``State()`` for one that was never migrated."""
    records = await connection.run_statement("schema_state")
    return read_schema_state(records[0]["m"]) if records else SchemaState()


def read_schema_state(meta: Mapping[str, Any]) -> SchemaState:
    """What a Meta node says."""
    slots = tuple(
        VectorSlot(name, meta[f"embedder_{name}"], meta[f"dimensions_{name}"])
        for name in "ab"
        if meta.get(f"embedder_{name}")
    )
    return SchemaState(meta["version"], meta.get("live"), slots, tuple(meta.get("analyzers", ())))


async def open_slot(connection: Connection, name: str, embedder: str, dimensions: int) -> VectorSlot:
    """Makes a slot ready for an embedder's vectors: its indexes, then its entry on the Meta node.

    Raises:
        errors.SchemaMissing: an index is missing and the settings forbid making it.
    """
    mode = connection.settings.schema_mode
    if connection.server_line == "2026" and mode == "auto":
        for nodes in ("memory", "entity"):
            index = f"{nodes}_vectors_{name}"
            await connection.run_cypher(
                connection.statements[index], {"options": make_index_options(dimensions)}, index
            )
    if connection.server_line == "2026" and mode != "off":
        await await_indexes(connection, [f"memory_vector_{name}", f"entity_vector_{name}"])
    await connection.run_statement("fill_slot", slot=name, embedder=embedder, dimensions=dimensions)
    return VectorSlot(name, embedder, dimensions)


async def await_indexes(connection: Connection, names: Sequence[str]) -> None:
    """Waits until these indexes of ours are ONLINE; what others do in the same database is no matter of ours.

    Raises:
        errors.SchemaMissing: one is not there, has failed, or is still filling after :data:`INDEX_WAIT_SECONDS`.
    """
    wanted = {fill_identifiers(f"@{name}", connection.settings) for name in names}
    deadline = time.monotonic() + INDEX_WAIT_SECONDS
    while True:
        states = {row["name"]: row["state"] for row in await connection.run_statement("indexes", names=sorted(wanted))}
        missing = sorted(name for name in wanted if states.get(name) != "ONLINE")
        if not missing:
            return
        if wanted - states.keys() or "FAILED" in states.values() or time.monotonic() > deadline:
            raise errors.SchemaMissing(database=connection.settings.database, missing=", ".join(missing))
        await asyncio.sleep(0.1)


def make_index_options(dimensions: int) -> dict[str, Any]:
    """How our vector indexes are made; quantization costs recall and saves no time where it was measured."""
    return {
        "indexConfig": {
            "vector.dimensions": dimensions,
            "vector.similarity_function": "cosine",
            "vector.quantization.type": "none",
        }
    }


class LiveSlotTracker:
    """The slot that this process's vectors belong to, looked up once and checked against every answer.

    Args:
        connection: a prepared connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._slot: VectorSlot | None = None
        self._is_outdated = False

    @property
    def slot(self) -> VectorSlot | None:
        """The live slot, if it was found."""
        return self._slot

    async def check_owner(self, embedder: str) -> None:
        """Sees, once, that the live slot's vectors are this embedder's; a slot that nobody opened yet is anybody's.

        Raises:
            errors.EmbedderMismatch: they are another embedder's.
        """
        if self._slot or self._is_outdated:
            return
        found = (await fetch_schema_state(self._connection)).live_slot
        if found and found.embedder != embedder:
            raise _make_mismatch_error(found, embedder, "size not asked yet")

    async def find_slot(self, embedder: str, dimensions: int, *, may_open: bool) -> VectorSlot | None:
        """The live slot if this embedder's vectors are in it; None while nothing is embedded, or once it is outdated.

        Args:
            embedder: its name.
            dimensions: numbers a vector.
            may_open: where there is no live slot yet, make one.

        Raises:
            errors.EmbedderMismatch: the vectors are another embedder's, and were so from the start.
        """
        if self._slot or self._is_outdated:
            return self._slot
        found = (await fetch_schema_state(self._connection)).live_slot
        if found is None and may_open:
            await open_slot(self._connection, "a", embedder, dimensions)
            found = (await fetch_schema_state(self._connection)).live_slot  # another process may have been first
        if found and (found.embedder, found.dimensions) != (embedder, dimensions):
            raise _make_mismatch_error(found, embedder, f"{dimensions} numbers each")
        self._slot = found
        return found

    async def follow_switch(self, live: str | None) -> None:
        """Takes in which slot an answer called live: after a switch this process goes on with it, if it can."""
        if self._slot is None or live in (None, self._slot.name):
            return
        found = (await fetch_schema_state(self._connection)).live_slot
        before, self._slot = self._slot, None
        if found and (found.embedder, found.dimensions) == (before.embedder, before.dimensions):
            self._slot = found
        elif found:
            self._is_outdated = True
            logger.warning(
                "The memories now carry vectors of %s, this process has %s: it searches by full text alone, and "
                "what it remembers is embedded later, until it is restarted with the new embedder.",
                found.embedder,
                before.embedder,
            )

    async def refresh_slot(self) -> None:
        """Asks which slot is live, where no other answer tells."""
        await self.follow_switch((await fetch_schema_state(self._connection)).live_slot_name)

    @property
    def is_outdated(self) -> bool:
        """Whether the memories were re-embedded by another embedder while this process ran."""
        return self._is_outdated


def _make_mismatch_error(stored: VectorSlot, configured: str, configured_size: str) -> errors.EmbedderMismatch:
    return errors.EmbedderMismatch(
        stored=stored.embedder,
        stored_dimensions=stored.dimensions,
        configured=configured,
        configured_size=configured_size,
    )
