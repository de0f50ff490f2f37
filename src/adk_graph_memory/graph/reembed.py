"""Re-embed every text of every user into the slot that searches do not read yet.

The database holds a run's whole state, so that the next run goes on where it stopped. Nodes without a vector are what
is left; the Meta node names the slot being filled (``filling``) and the run that fills it (``reembedding``). Only the
run that started last may write; in an earlier one that is still alive, writing raises ``GraphMemoryError``.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from adk_graph_memory import errors
from adk_graph_memory.graph import listings, vector_slots
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.records.turns import Embedding, Passage

NodeKind = Literal["memory", "entity"]
NODE_KINDS: tuple[NodeKind, ...] = ("memory", "entity")
Key = tuple[str, str]
"""A scope's key and the id of a node in it."""
LAST_ID = chr(sys.maxunicode)
"""Behind every key and id."""
PAGES_PER_PLAN = 32
"""Pages that one statement plans."""
_NO_EMBEDDING: dict[str, Any] = {"vector": None, "tokens": None}


@dataclass(frozen=True, slots=True)
class UnembeddedText:
    """A stored text without a vector; ``owner`` (a scope's key) and ``id`` identify its node."""

    owner: str
    id: str
    text: str
    before: str = ""

    @property
    def passage(self) -> Passage:
        """The passage to embed."""
        return Passage(self.text, self.before)


@dataclass(frozen=True, slots=True)
class TextPage:
    """Texts without a vector to embed together: those behind the key ``after`` up to ``until``."""

    nodes: NodeKind
    after: Key
    until: Key
    texts: int
    characters: int
    since: float | None = None


@dataclass(frozen=True, slots=True)
class TextSelection:
    """The texts to embed: of an app, of an id's users, said since a time in epoch seconds (which names have not)."""

    app_name: str | None = None
    user_id: str | None = None
    since: float | None = None

    async def iterate_scope_ranges(self, connection: Connection) -> AsyncIterator[tuple[str, str]]:
        """Yield the first and the last scope's key of each range of scopes; a single range if all are selected."""
        if self.app_name is None and self.user_id is None:
            yield "", LAST_ID
            return
        async for scope in listings.iterate_owners(connection, self.app_name, self.user_id):
            yield scope.key, scope.key


ALL_TEXTS = TextSelection()


@dataclass(frozen=True, slots=True)
class TextCount:
    """Texts of one kind (event, fact or entity): all, those still without a vector, and those that failed."""

    kind: str
    texts: int
    left: int
    failed: int

    def add(self, texts: int, left: int, failed: int) -> TextCount:
        """The count with further texts."""
        return TextCount(self.kind, self.texts + texts, self.left + left, self.failed + failed)


@dataclass(frozen=True, slots=True)
class ReembedTarget:
    """The slot that a new embedder's vectors go into."""

    live: VectorSlot | None
    slot: VectorSlot
    is_begun: bool
    """whether an earlier run has filled part of it"""
    kept: VectorSlot | None = None
    """the slot as it is, if it holds what was live before and nobody is filling it"""

    @property
    def other_slot_name(self) -> str:
        """The name of the slot that is empty once the run is done."""
        return "b" if self.slot.name == "a" else "a"


@dataclass(frozen=True, slots=True)
class ReembedRun:
    """The right to fill a slot, until another run takes it."""

    id: str
    target: ReembedTarget


async def find_reembed_target(connection: Connection, embedder: str, dimensions: int) -> ReembedTarget:
    """Find the slot for this embedder's vectors: the one that an earlier run began, or else the one not live."""
    await connection.prepare()
    rows = await connection.run_statement("schema_state")
    state = vector_slots.read_schema_state(rows[0]["m"]) if rows else vector_slots.SchemaState()
    filling = rows[0]["m"].get("filling") if rows else None
    for slot in state.slots:
        if slot.name == filling and (slot.embedder, slot.dimensions) == (embedder, dimensions):
            return ReembedTarget(state.live_slot, slot, is_begun=True)
    name = "b" if state.live_slot_name == "a" else "a"
    kept = next((slot for slot in state.slots if slot.name == name != filling), None)
    return ReembedTarget(state.live_slot, VectorSlot(name, embedder, dimensions), is_begun=False, kept=kept)


async def begin_reembedding(connection: Connection, target: ReembedTarget) -> ReembedRun:
    """Start a run that owns the target slot; unless the run resumes an earlier one, empty the slot first."""
    run, slot = ReembedRun(uuid.uuid4().hex, target), target.slot
    await connection.run_statement("reembed_take", run=run.id, filling=slot.name if target.is_begun else None)
    if not target.is_begun:
        await empty_slot(connection, slot.name)
        await vector_slots.open_slot(connection, slot.name, slot.embedder, slot.dimensions)
        _require_current_run(await connection.run_statement("reembed_filling", run=run.id, filling=slot.name))
    await connection.run_statement("reembed_unmark")
    return run


async def count_texts(
    connection: Connection, slot: VectorSlot, selection: TextSelection = ALL_TEXTS
) -> list[TextCount]:
    """Count texts, and texts without this slot's vector, by kind; reads each of their nodes once."""
    counts: dict[str, TextCount] = {}
    async for first, last in selection.iterate_scope_ranges(connection):
        given = {"first_scope": first, "last_scope": last, "since": selection.since}
        for row in await connection.run_statement("reembed_counts", given, slot=slot.vector_property):
            count = counts.get(row["kind"], TextCount(row["kind"], 0, 0, 0))
            counts[row["kind"]] = count.add(row["texts"], row["left"], row["failed"])
    return list(counts.values())


async def iterate_pages(
    connection: Connection, slot: VectorSlot, size: int, selection: TextSelection = ALL_TEXTS
) -> AsyncIterator[TextPage]:
    """Plan pages of so many texts without a vector, in the order of their nodes' keys; no text is fetched."""
    for nodes in NODE_KINDS if selection.since is None else NODE_KINDS[:1]:
        async for first, last in selection.iterate_scope_ranges(connection):
            after, until = (first, ""), (last, LAST_ID)
            while rows := await connection.run_statement(
                f"reembed_{nodes}_pages",
                _bind_key_range(after, until) | {"limit": size * PAGES_PER_PLAN, "page": size},
                slot=slot.vector_property,
                since=selection.since,
            ):
                for row in rows:
                    end = row["owner"], row["id"]
                    yield TextPage(nodes, after, end, row["texts"], row["characters"], selection.since)
                    after = end


async def fetch_unembedded_texts(connection: Connection, page: TextPage, slot: VectorSlot) -> list[UnembeddedText]:
    """Fetch the texts of a page that have no vector yet, in the order of their nodes' keys."""
    rows = await connection.run_statement(
        "reembed_memories" if page.nodes == "memory" else "reembed_entities",
        _bind_key_range(page.after, page.until),
        slot=slot.vector_property,
        limit=page.texts,
        since=page.since,
    )
    return [UnembeddedText(row["owner"], row["id"], row["text"], row["before"]) for row in rows]


def _bind_key_range(after: Key, until: Key) -> dict[str, str]:
    return {"after_scope": after[0], "after_id": after[1], "until_scope": until[0], "until_id": until[1]}


async def write_embeddings(
    connection: Connection,
    run: ReembedRun,
    nodes: NodeKind,
    texts: Sequence[UnembeddedText],
    embeddings: Sequence[Embedding | str],
) -> None:
    """Write an embedding on each text's node, or the reason (a string) why it has none."""
    rows: list[dict[str, Any]] = [
        asdict(text)
        | (_NO_EMBEDDING | {"error": result} if isinstance(result, str) else result._asdict() | {"error": None})
        for text, result in zip(texts, embeddings, strict=True)
    ]
    slot = run.target.slot
    _require_current_run(
        await connection.run_statement(
            f"reembed_{nodes}_vectors", run=run.id, slot=slot.vector_property, tokens=slot.token_property, rows=rows
        )
    )


async def switch_live_slot(connection: Connection, run: ReembedRun) -> None:
    """Make this run's slot the live one, which searches read."""

    async def work(transaction: Transaction) -> None:
        _require_current_run(await transaction.run_statement("reembed_hold", run=run.id))
        await transaction.run_statement("switch_slot", slot=run.target.slot.name)

    await connection.transact(work)


async def fetch_running_ingests(connection: Connection) -> dict[str, float]:
    """The leases of running ingests, with the seconds until each expires."""
    now = time.time()
    rows = await connection.run_statement("reembed_running_ingests", now=now)
    return {row["lease"]: row["until"] - now for row in rows}


async def clear_stale_vectors(connection: Connection, run: ReembedRun) -> int:
    """Delete the slot's vectors of texts ingested since it was opened, which may have been edited; return how many."""
    slot = run.target.slot
    [row] = await connection.run_statement("reembed_reopen", slot=slot.vector_property, tokens=slot.token_property)
    return int(row["reopened"])


async def empty_slot(connection: Connection, name: str) -> None:
    """Delete a slot's indexes, its vectors and its entry on the Meta node."""
    if connection.server_line == "2026":
        for nodes in NODE_KINDS:
            await connection.run_statement(f"drop_{nodes}_vectors_{name}")
    slot = VectorSlot(name, "", 0)
    await connection.run_statement("reembed_empty", slot=slot.vector_property, tokens=slot.token_property)
    await connection.run_statement("reembed_close", name=name)


async def delete_kept_vectors(connection: Connection, target: ReembedTarget) -> None:
    """Empty the slot that an earlier run kept; a run that is filling it by now raises ``GraphMemoryError``."""
    run = ReembedRun(uuid.uuid4().hex, target)
    await connection.run_statement("reembed_take", run=run.id, filling=None)
    await empty_slot(connection, target.slot.name)
    await finish_reembedding(connection, run, is_done=True)


async def finish_reembedding(connection: Connection, run: ReembedRun, *, is_done: bool) -> None:
    """End the run; unless ``is_done``, this embedder's next run goes on with the slot."""
    await connection.run_statement("reembed_finish", run=run.id, filling=None if is_done else run.target.slot.name)


async def fetch_embedding_failures(connection: Connection, limit: int) -> list[dict[str, str]]:
    """List texts that could not be embedded: owner (a scope's key), id, text and error."""
    return [dict(row) for row in await connection.run_statement("reembed_failures", limit=limit)]


def _require_current_run(rows: Sequence[Any]) -> None:
    if not rows:
        raise errors.GraphMemoryError("Another re-embedding of this database was started and has taken over.")
