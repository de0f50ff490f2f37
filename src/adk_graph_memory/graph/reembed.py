"""Vectors for every text of every user go in, into the slot that no search reads yet; pages of what lacks one come out.

All that a run knows is kept in the database, so that the next one goes on wherever it stopped: nodes without a vector
are what is left, and the Meta node says which slot is being filled (``filling``) and by which run (``reembedding``).
Only the run that was started last may write: an earlier one that is still alive is refused.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from adk_graph_memory import errors
from adk_graph_memory.graph import vector_slots
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.records import Embedding, Passage

NodeKind = Literal["memory", "entity"]
NODE_KINDS: tuple[NodeKind, ...] = ("memory", "entity")
_NO_EMBEDDING: dict[str, Any] = {"vector": None, "tokens": None}


@dataclass(frozen=True, slots=True)
class UnembeddedText:
    """A stored text that lacks its vector; ``owner`` and ``id`` are its node's key."""

    owner: str
    id: str
    text: str
    before: str = ""

    @property
    def passage(self) -> Passage:
        """What is embedded of it."""
        return Passage(self.text, self.before)


@dataclass(frozen=True, slots=True)
class TextCount:
    """Texts of one kind (event, fact or entity): all, those without a vector, those that cannot have one."""

    kind: str
    texts: int
    left: int
    failed: int


@dataclass(frozen=True, slots=True)
class ReembedTarget:
    """The slot that an embedder's vectors are to go into."""

    live: VectorSlot | None
    slot: VectorSlot
    is_begun: bool
    """whether a run before this one has filled part of it"""

    @property
    def other_slot_name(self) -> str:
        """The name of the slot that is empty in the end."""
        return "b" if self.slot.name == "a" else "a"


@dataclass(frozen=True, slots=True)
class ReembedRun:
    """The right to fill a slot, until another run takes it."""

    id: str
    target: ReembedTarget


async def find_reembed_target(connection: Connection, embedder: str, dimensions: int) -> ReembedTarget:
    """Where this embedder's vectors would go: into the slot that it has begun, or else the one that is not live."""
    state = await vector_slots.fetch_schema_state(connection)
    meta = await connection.run_statement("schema_state")
    filling = meta[0]["m"].get("filling") if meta else None
    for slot in state.slots:
        if slot.name == filling and (slot.embedder, slot.dimensions) == (embedder, dimensions):
            return ReembedTarget(state.live_slot, slot, is_begun=True)
    return ReembedTarget(
        state.live_slot, VectorSlot("b" if state.live_slot_name == "a" else "a", embedder, dimensions), is_begun=False
    )


async def begin_reembedding(connection: Connection, found: ReembedTarget) -> ReembedRun:
    """Takes the slot for this run; one that another embedder (or an earlier job) has left something in is emptied."""
    run, slot = ReembedRun(uuid.uuid4().hex, found), found.slot
    await connection.run_statement("reembed_take", run=run.id, filling=slot.name if found.is_begun else None)
    if not found.is_begun:
        await empty_slot(connection, slot.name)
        await vector_slots.open_slot(connection, slot.name, slot.embedder, slot.dimensions)
        _require_current_run(await connection.run_statement("reembed_filling", run=run.id, filling=slot.name))
    await connection.run_statement("reembed_unmark")
    return run


async def count_texts(connection: Connection, slot: VectorSlot) -> list[TextCount]:
    """How many texts there are, by kind, and how many of them lack this slot's vector; reads every node once."""
    rows = await connection.run_statement("reembed_counts", slot=slot.vector_property)
    return [TextCount(row["kind"], row["texts"], row["left"], row["failed"]) for row in rows]


async def fetch_unembedded_texts(
    connection: Connection, nodes: NodeKind, slot: VectorSlot, after: UnembeddedText | None, limit: int
) -> list[UnembeddedText]:
    """The next texts without a vector, in the order of their nodes' keys."""
    names: dict[NodeKind, str] = {"memory": "reembed_memories", "entity": "reembed_entities"}
    rows = await connection.run_statement(
        names[nodes],
        slot=slot.vector_property,
        after_scope=after.owner if after else "",
        after_id=after.id if after else "",
        limit=limit,
    )
    return [UnembeddedText(row["owner"], row["id"], row["text"], row["before"]) for row in rows]


async def write_embeddings(
    connection: Connection,
    run: ReembedRun,
    nodes: NodeKind,
    texts: Sequence[UnembeddedText],
    made: Sequence[Embedding | str],
) -> None:
    """Writes an embedding on each text's node, or the reason (a string) why it has none."""
    rows: list[dict[str, Any]] = [
        asdict(text) | (_NO_EMBEDDING | {"error": one} if isinstance(one, str) else one._asdict() | {"error": None})
        for text, one in zip(texts, made, strict=True)
    ]
    slot = run.target.slot
    _require_current_run(
        await connection.run_statement(
            f"reembed_{nodes}_vectors", run=run.id, slot=slot.vector_property, tokens=slot.token_property, rows=rows
        )
    )


async def switch_live_slot(connection: Connection, run: ReembedRun) -> None:
    """From now on searches read the vectors that this run has written."""

    async def work(transaction: Transaction) -> None:
        _require_current_run(await transaction.run_statement("reembed_hold", run=run.id))
        await transaction.run_statement("switch_slot", slot=run.target.slot.name)

    await connection.transact(work)


async def fetch_running_ingests(connection: Connection) -> dict[str, float]:
    """The ingests that somebody works on, by lease, with the seconds that each of them may still take."""
    now = time.time()
    rows = await connection.run_statement("reembed_running_ingests", now=now)
    return {row["lease"]: row["until"] - now for row in rows}


async def clear_stale_vectors(connection: Connection, run: ReembedRun) -> int:
    """Takes away the vectors of what was ingested since the slot was opened: the words may have been edited since."""
    slot = run.target.slot
    [row] = await connection.run_statement("reembed_reopen", slot=slot.vector_property, tokens=slot.token_property)
    return int(row["reopened"])


async def empty_slot(connection: Connection, name: str) -> None:
    """Leaves nothing of a slot: neither index nor vector, nor an embedder that it belongs to."""
    if connection.server_line == "2026":
        for nodes in NODE_KINDS:
            await connection.run_statement(f"drop_{nodes}_vectors_{name}")
    slot = VectorSlot(name, "", 0)
    await connection.run_statement("reembed_empty", slot=slot.vector_property, tokens=slot.token_property)
    await connection.run_statement("reembed_close", name=name)


async def finish_reembedding(connection: Connection, run: ReembedRun, *, is_done: bool) -> None:
    """Ends the run; if texts are left over, the next one of this embedder goes on with its slot."""
    await connection.run_statement("reembed_finish", run=run.id, filling=None if is_done else run.target.slot.name)


async def fetch_embedding_failures(connection: Connection, limit: int) -> list[dict[str, str]]:
    """Texts that could not be embedded: owner (the user's scope), id, text and error."""
    return [dict(row) for row in await connection.run_statement("reembed_failures", limit=limit)]


def _require_current_run(rows: Sequence[Any]) -> None:
    if not rows:
        raise errors.GraphMemoryError("Another re-embedding of this database was started and has taken over.")
