"""Track which of the two vector slots is live, open slots, and wait for their indexes.

The Meta node names the live slot, which searches read. A new embedder fills the other one; then one statement switches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.statements import LABELS, SLOT_NAMES, name_index
from adk_graph_memory.records.turns import Embedding, Passage

logger = logging.getLogger(__name__)

FIRST_SLOT = SLOT_NAMES[0]
"""The slot of the first vectors."""
INDEXED = ("memory", "entity")
"""What has a vector index in each slot."""
INDEX_WAIT_SECONDS = 300
"""Seconds that a new index may take to come ONLINE on a large store."""


@dataclass(frozen=True, slots=True)
class VectorSlot:
    """One of the two slots for vectors, ``a`` or ``b``, and the embedder whose vectors it holds."""

    name: str
    embedder: str
    dimensions: int

    @property
    def token_property(self) -> str:
        """The node property with the packed token vectors of this slot."""
        return f"tokens_{self.name}"

    @property
    def vector_property(self) -> str:
        """The node property with the vectors of this slot."""
        return f"embedding_{self.name}"


@dataclass(frozen=True, slots=True)
class EmbeddingBatch:
    """Embeddings by passage, and the slot they go into; without an embedder there are neither."""

    slot: VectorSlot | None = None
    embeddings: Mapping[Passage, Embedding] = field(default_factory=dict)
    has_embedder: bool = False
    """whether texts without a vector get one later"""

    def __add__(self, other: EmbeddingBatch) -> EmbeddingBatch:
        """Return it with the other's embeddings; if those go into another slot, their texts get a vector later."""
        return replace(self, embeddings={**self.embeddings, **other.embeddings}) if other.slot == self.slot else self

    def to_parameters(self) -> dict[str, Any]:
        """Parameters of the statements that write vectors."""
        slot = self.slot
        return {
            "slot": slot.vector_property if slot else None,
            "tokens": slot.token_property if slot else None,
            "embeds": self.has_embedder,
        }

    def make_vector_columns(self, passage: Passage | None) -> dict[str, Any]:
        """The vector columns of a row; None without an embedding, or without a passage: the node then keeps its own."""
        embedding = self.embeddings.get(passage) if passage else None
        return {"vector": embedding and embedding.vector, "tokens": embedding and embedding.tokens}

    def find_vector(self, text: str) -> Sequence[float] | None:
        """The vector of a text that was embedded without a text before it."""
        embedding = self.embeddings.get(Passage(text))
        return embedding and embedding.vector


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema's state, as the Meta node records it."""

    version: int = 0
    live_slot_name: str | None = None
    slots: tuple[VectorSlot, ...] = ()
    analyzers: tuple[str, ...] = ()
    tombstone_key: str = ""
    """makes the keys of this graph's tombstones digests that nobody else can make"""
    checksum: str | None = None
    """of the last migration's statements"""
    is_restoring: bool = False
    """whether a backup is being restored, or such a restore was interrupted"""

    @property
    def live_slot(self) -> VectorSlot | None:
        """The slot that searches read, once an embedder has written its first vector."""
        return next((slot for slot in self.slots if slot.name == self.live_slot_name), None)


async def fetch_schema_state(connection: Connection) -> SchemaState:
    """Fetch the state of the schema, which is checked first."""
    await connection.prepare()
    return await fetch_unchecked_state(connection)


async def fetch_unchecked_state(connection: Connection) -> SchemaState:
    """Fetch the schema's state; ``SchemaState()`` for a database that was never migrated."""
    rows = await connection.run_statement("schema_state")
    return read_schema_state(rows[0]["m"]) if rows else SchemaState()


def read_schema_state(meta: Mapping[str, Any]) -> SchemaState:
    """Read the schema's state from the properties of the Meta node."""
    slots = tuple(
        VectorSlot(name, meta[f"embedder_{name}"], meta[f"dimensions_{name}"])
        for name in SLOT_NAMES
        if meta.get(f"embedder_{name}")
    )
    analyzers, tombstone_key = tuple(meta.get("analyzers", ())), meta.get("tombstone_key", "")
    checksum, is_restoring = meta.get("checksum"), bool(meta.get("restoring"))
    return SchemaState(meta["version"], meta.get("live"), slots, analyzers, tombstone_key, checksum, is_restoring)


async def open_slot(connection: Connection, name: str, embedder: str, dimensions: int) -> VectorSlot:
    """Prepare a slot for an embedder's vectors: create its indexes, then its entry on the Meta node.

    Raises:
        errors.SchemaMissing: an index is missing and the settings forbid creating it.
    """
    mode = connection.settings.schema_mode
    if mode == "auto":
        await create_indexes(connection, name, dimensions)
    if connection.server_line == "2026" and mode != "off":
        await await_indexes(connection, _name_indexes(connection, name))
    await connection.run_statement("fill_slot", slot=name, embedder=embedder, dimensions=dimensions)
    return VectorSlot(name, embedder, dimensions)


async def create_indexes(connection: Connection, name: str, dimensions: int) -> None:
    """Create the indexes of a slot that is not live, unless they fit already, and wait for them.

    The server drops all its plans for an index that is new.
    """
    if connection.server_line != "2026":
        return
    names = _name_indexes(connection, name)
    present = {row["name"]: row["dimensions"] for row in await _fetch_indexes(connection, names)}
    if present == dict.fromkeys(names, dimensions):
        return
    for word, index in zip(INDEXED, names, strict=True):
        if present.get(index) not in (None, dimensions):  # made for another embedder, which has stored nothing
            await connection.run_statement(f"drop_{word}_vectors_{name}")
        options = {"options": make_index_options(dimensions)}
        await connection.run_cypher(connection.statements[f"{word}_vectors_{name}"], options, f"{word}_vectors_{name}")
    await await_indexes(connection, names)
    connection.planner.renew()
    state = await fetch_schema_state(connection)
    if (filled := next((slot for slot in state.slots if slot.name == name), None)) and filled.dimensions != dimensions:
        await create_indexes(connection, name, filled.dimensions)  # another process stored vectors meanwhile


def _name_indexes(connection: Connection, slot: str) -> list[str]:
    return [name_index(f"{word}_vector_{slot}", connection.settings) for word in INDEXED]


async def await_indexes(connection: Connection, names: Sequence[str]) -> None:
    """Wait until these indexes are ONLINE; other indexes of the database do not matter.

    Raises:
        errors.IndexNameTaken: another graph's index has one of these names, so that ours could not be created.
        errors.SchemaMissing: an index is missing, has failed, or is not ONLINE after :data:`INDEX_WAIT_SECONDS`.
    """
    deadline = time.monotonic() + INDEX_WAIT_SECONDS
    while True:
        states = await fetch_index_states(connection, names)
        missing = sorted(name for name in names if states.get(name) != "ONLINE")
        if not missing:
            return
        if set(names) - states.keys() or "FAILED" in states.values() or time.monotonic() > deadline:
            raise errors.SchemaMissing(database=connection.settings.database, missing=", ".join(missing))
        await asyncio.sleep(0.1)


async def fetch_index_states(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """Fetch the states of those of these indexes that the database has, by name.

    Raises:
        errors.IndexNameTaken: an index of one of these names is for a label that is not ours.
    """
    return {row["name"]: row["state"] for row in await _fetch_indexes(connection, names)}


async def _fetch_indexes(connection: Connection, names: Sequence[str]) -> list[Record]:
    settings = connection.settings
    labels = {f"{settings.label_prefix}{label}" for label in LABELS}
    rows = await connection.run_statement("indexes", names=sorted(names))
    for row in rows:
        if row["label"] not in labels:
            raise errors.IndexNameTaken(database=settings.database, name=row["name"], label=row["label"])
    return rows


def make_index_options(dimensions: int) -> dict[str, Any]:
    """Options of our vector indexes. No quantization: where measured, it cost recall and saved no time."""
    return {
        "indexConfig": {
            "vector.dimensions": dimensions,
            "vector.similarity_function": "cosine",
            "vector.quantization.type": "none",
        }
    }


class LiveSlotTracker:
    """The live slot as this process knows it: looked up once, then checked against every search's answer.

    Args:
        connection: where the slots are.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.slot: VectorSlot | None = None
        """The slot to search: the live one, once :meth:`find_slot` has found it; in an outdated process the one that
        was live before, while its vectors are kept."""
        self.is_outdated = False
        """Whether the memories were re-embedded by another embedder while this process ran: it writes no vectors."""

    async def check_owner(self, embedder: str) -> None:
        """Check, until a slot was found, that the live slot's vectors (if any) are this embedder's.

        Raises:
            errors.EmbedderMismatch: they are another embedder's.
        """
        if self.slot or self.is_outdated:
            return
        check_slot_owner((await fetch_schema_state(self._connection)).live_slot, embedder)

    async def find_slot(self, embedder: str, dimensions: int, *, may_open: bool) -> VectorSlot | None:
        """Find the live slot of this embedder; None if there is no live slot, or this process is outdated.

        Args:
            embedder: the embedder's name.
            dimensions: its numbers per vector.
            may_open: whether to open a slot if none is live yet.

        Raises:
            errors.EmbedderMismatch: the live slot was another embedder's when this process first looked.
        """
        if self.slot or self.is_outdated:
            return self.slot
        slot = (await fetch_schema_state(self._connection)).live_slot
        if slot is None and may_open:
            await open_slot(self._connection, FIRST_SLOT, embedder, dimensions)
            slot = (await fetch_schema_state(self._connection)).live_slot  # another process may have been first
        if slot and (slot.embedder, slot.dimensions) != (embedder, dimensions):
            raise _make_mismatch_error(slot, embedder, f"{dimensions} numbers each")
        self.slot = slot
        return slot

    async def follow_switch(self, live: str | None) -> None:
        """Follow a switch to the slot ``live``, as a statement has just returned it, if the embedder is the same."""
        if self.slot is None or live in (None, self.slot.name):
            return
        state, previous = await fetch_schema_state(self._connection), self.slot
        slot = state.live_slot
        if slot and (slot.embedder, slot.dimensions) == (previous.embedder, previous.dimensions):
            self.slot, self.is_outdated = slot, False
            return
        if slot and not self.is_outdated:
            self.is_outdated = True
            logger.warning(
                "The memories were re-embedded with %s, but this process uses %s. Until it is restarted with the new "
                "embedder, it stores memories without vectors, and searches by full text alone once the old vectors "
                "are deleted.",
                *map(errors.shorten_embedder_names, (slot.embedder, previous.embedder)),
            )
        if previous not in state.slots:
            self.slot = None

    async def refresh_slot(self) -> None:
        """Look up which slot is live, where no statement's answer tells."""
        await self.follow_switch((await fetch_schema_state(self._connection)).live_slot_name)


def check_slot_owner(slot: VectorSlot | None, embedder: str) -> None:
    """Check that a slot's vectors, if there is a slot, are this embedder's.

    Raises:
        errors.EmbedderMismatch: they are another embedder's.
    """
    if slot and slot.embedder != embedder:
        raise _make_mismatch_error(slot, embedder, "not loaded yet")


def _make_mismatch_error(stored_slot: VectorSlot, configured: str, configured_size: str) -> errors.EmbedderMismatch:
    return errors.EmbedderMismatch(
        stored=stored_slot.embedder,
        stored_dimensions=stored_slot.dimensions,
        configured=configured,
        configured_size=configured_size,
    )
