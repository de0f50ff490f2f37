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
from adk_graph_memory.graph import slots
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.slots import Slot
from adk_graph_memory.records import Embedding, Passage

Nodes = Literal["memory", "entity"]
NODES: tuple[Nodes, ...] = ("memory", "entity")
_NOTHING: dict[str, Any] = {"vector": None, "tokens": None}


@dataclass(frozen=True, slots=True)
class Text:
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
class Count:
    """Texts of one kind (event, fact or entity): all, those without a vector, those that cannot have one."""

    kind: str
    texts: int
    left: int
    failed: int


@dataclass(frozen=True, slots=True)
class Target:
    """The slot that an embedder's vectors are to go into."""

    live: Slot | None
    slot: Slot
    is_begun: bool
    """whether a run before this one has filled part of it"""

    @property
    def other(self) -> str:
        """The name of the slot that is empty in the end."""
        return "b" if self.slot.name == "a" else "a"


@dataclass(frozen=True, slots=True)
class Run:
    """The right to fill a slot, until another run takes it."""

    id: str
    target: Target


async def target(connection: Connection, embedder: str, dimensions: int) -> Target:
    """Where this embedder's vectors would go: into the slot that it has begun, or else the one that is not live."""
    state = await slots.state(connection)
    meta = await connection.run("schema_state")
    filling = meta[0]["m"].get("filling") if meta else None
    for slot in state.slots:
        if slot.name == filling and (slot.embedder, slot.dimensions) == (embedder, dimensions):
            return Target(state.live_slot, slot, is_begun=True)
    return Target(state.live_slot, Slot("b" if state.live == "a" else "a", embedder, dimensions), is_begun=False)


async def begin(connection: Connection, found: Target) -> Run:
    """Takes the slot for this run; one that another embedder (or an earlier job) has left something in is emptied."""
    run, slot = Run(uuid.uuid4().hex, found), found.slot
    await connection.run("reembed_take", run=run.id, filling=slot.name if found.is_begun else None)
    if not found.is_begun:
        await empty(connection, slot.name)
        await slots.open_slot(connection, slot.name, slot.embedder, slot.dimensions)
        _stand(await connection.run("reembed_filling", run=run.id, filling=slot.name))
    await connection.run("reembed_unmark")
    return run


async def counts(connection: Connection, slot: Slot) -> list[Count]:
    """How many texts there are, by kind, and how many of them lack this slot's vector; reads every node once."""
    rows = await connection.run("reembed_counts", slot=slot.property)
    return [Count(row["kind"], row["texts"], row["left"], row["failed"]) for row in rows]


async def page(connection: Connection, nodes: Nodes, slot: Slot, after: Text | None, limit: int) -> list[Text]:
    """The next texts without a vector, in the order of their nodes' keys."""
    names: dict[Nodes, str] = {"memory": "reembed_memories", "entity": "reembed_entities"}
    rows = await connection.run(
        names[nodes],
        slot=slot.property,
        after_scope=after.owner if after else "",
        after_id=after.id if after else "",
        limit=limit,
    )
    return [Text(row["owner"], row["id"], row["text"], row["before"]) for row in rows]


async def write(
    connection: Connection, run: Run, nodes: Nodes, texts: Sequence[Text], made: Sequence[Embedding | str]
) -> None:
    """Writes an embedding on each text's node, or the reason (a string) why it has none."""
    rows: list[dict[str, Any]] = [
        asdict(text) | (_NOTHING | {"error": one} if isinstance(one, str) else one._asdict() | {"error": None})
        for text, one in zip(texts, made, strict=True)
    ]
    slot = run.target.slot
    _stand(
        await connection.run(
            f"reembed_{nodes}_vectors", run=run.id, slot=slot.property, tokens=slot.token_property, rows=rows
        )
    )


async def switch(connection: Connection, run: Run) -> None:
    """From now on searches read the vectors that this run has written."""

    async def work(transaction: Any) -> None:
        _stand(await transaction.run("reembed_hold", run=run.id))
        await transaction.run("switch_slot", slot=run.target.slot.name)

    await connection.transact(work)


async def running_ingests(connection: Connection) -> dict[str, float]:
    """The ingests that somebody works on, by lease, with the seconds that each of them may still take."""
    now = time.time()
    rows = await connection.run("reembed_running_ingests", now=now)
    return {row["lease"]: row["until"] - now for row in rows}


async def reopen(connection: Connection, run: Run) -> int:
    """Takes away the vectors of what was ingested since the slot was opened: the words may have been edited since."""
    slot = run.target.slot
    [row] = await connection.run("reembed_reopen", slot=slot.property, tokens=slot.token_property)
    return int(row["reopened"])


async def empty(connection: Connection, name: str) -> None:
    """Leaves nothing of a slot: neither index nor vector, nor an embedder that it belongs to."""
    if connection.line == "2026":
        for nodes in NODES:
            await connection.run(f"drop_{nodes}_vectors_{name}")
    slot = Slot(name, "", 0)
    await connection.run("reembed_empty", slot=slot.property, tokens=slot.token_property)
    await connection.run("reembed_close", name=name)


async def finish(connection: Connection, run: Run, *, is_done: bool) -> None:
    """Ends the run; if texts are left over, the next one of this embedder goes on with its slot."""
    await connection.run("reembed_finish", run=run.id, filling=None if is_done else run.target.slot.name)


async def failures(connection: Connection, limit: int) -> list[dict[str, str]]:
    """Texts that could not be embedded: owner (the user's scope), id, text and error."""
    return [dict(row) for row in await connection.run("reembed_failures", limit=limit)]


def _stand(rows: Sequence[Any]) -> None:
    if not rows:
        raise errors.GraphMemoryError("Another re-embedding of this database was started and has taken over.")
