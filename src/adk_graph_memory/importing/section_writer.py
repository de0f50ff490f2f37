"""Write the lines of one user into the graph in batches: nodes first, then their relationships."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from adk_graph_memory import errors, graph
from adk_graph_memory.blobs import list_trusted_stores
from adk_graph_memory.erasure import Erasure
from adk_graph_memory.graph.derivation import MemorySnapshot
from adk_graph_memory.graph.user_import import VectorTarget
from adk_graph_memory.importing.export_file import ExportedNode, UserSection
from adk_graph_memory.importing.source_records import SkippedRow
from adk_graph_memory.importing.tally import LOOSE, Tally
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope
from adk_graph_memory.records.portable_rows import NodePlace, PortableEdge
from adk_graph_memory.rewriting import Rewriter

T = TypeVar("T")

ROWS_PER_BATCH = 250
BYTES_PER_BATCH = 1_000_000
"""Bytes of lines from which on a batch is written, however few they are."""
REFUSED = "refused by the database"
REFUSALS = (errors.QueryFailed, errors.ConstraintViolated, errors.InvalidUnicode)
"""What the database says to a line that it does not take."""
REFUSED_LINE = "not of this graph's vectors or artifact store"


@dataclass(frozen=True, slots=True)
class ExportedEdge:
    """A relationship, the place of its line, and the node that carries it."""

    place: str
    node: NodePlace
    edge: PortableEdge


@dataclass(slots=True)
class SectionWriter:
    """Writes one user.

    ``checks_tombstones`` says that something of the user was forgotten here: it stays forgotten.
    """

    memory: GraphMemory
    scope: Scope
    tally: Tally
    target: VectorTarget
    checks_tombstones: bool
    refused_turns: set[str] = field(default_factory=set)
    refused_readings: set[str] = field(default_factory=set)
    is_complete: bool = True

    async def write_section(self, section: UserSection, on_progress: Callable[[str], None]) -> bool:
        """Write all of the user; return whether no line was left out that somebody may mend."""
        self.tally.count("nodes")
        for nodes in _batch_nodes(self._iterate_nodes(section)):
            await self._write_by_halves(nodes, self._write_nodes)
            on_progress(self.tally.describe_progress())
        for edges in _batch_edges(_iterate_edges(section)):
            await self._write_by_halves(edges, self._write_edges)
        await self._erase_refused()
        return self.is_complete

    def _iterate_nodes(self, section: UserSection) -> Iterator[ExportedNode]:
        for row in section.iterate_nodes():
            if isinstance(row, ExportedNode) and (objection := self._find_objection(row)):
                row = SkippedRow(row.place, REFUSED_LINE, objection)
            if isinstance(row, SkippedRow):
                self.is_complete = False
                self.tally.skip_row(row)
            else:
                self._count_node(row)
                yield row

    def _find_objection(self, row: ExportedNode) -> str:
        """Why a line must not be imported, if so: whoever may write files must not point at others'."""
        vector, slot = row.node.vector, self.target.slot
        if vector is not None and slot is not None and len(vector) != slot.dimensions:
            return f"its vector has {len(vector)} numbers, and those of this graph have {slot.dimensions}"
        store = row.node.properties.get("store")
        if row.node.place.label != "ArtifactVersion" or store is None:
            return ""
        settings = self.memory.connection.settings
        trusted_stores = list_trusted_stores(settings.artifact_store, settings.former_artifact_stores)
        if any(trusted.contains(store) for trusted in trusted_stores):
            return ""
        return (
            f"its content is in the store {store}, which no setting names: add it to "
            "ADK_GRAPH_MEMORY_FORMER_ARTIFACT_STORES if you trust it"
        )

    def _count_node(self, row: ExportedNode) -> None:
        node, count = row.node, self.tally.count
        count("nodes")
        if node.place.label == "ArtifactVersion" and node.properties.get("store"):
            count("contents", "outside")
        if node.place.label == "Tombstone":
            count("tombstones", "foreign")
        count("tombstones", "foreign", -len(node.refusals))
        if self.target.slot is None and node.vector is not None and "Memory" in node.labels:
            count("vectors", "dropped")

    async def _write_by_halves(self, rows: Sequence[T], write: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        """Write a batch; if the database refuses it, write its halves, until only the refused rows are left out."""
        try:
            await write(rows)
        except REFUSALS as error:
            half = len(rows) // 2
            if half:
                await self._write_by_halves(rows[:half], write)
                await self._write_by_halves(rows[half:], write)
                return
            self.is_complete = False
            self.tally.skip(getattr(rows[0], "place", ""), REFUSED, error.reason)

    async def _write_nodes(self, rows: Sequence[ExportedNode]) -> None:
        counts = await graph.user_import.import_nodes(
            self.memory.connection,
            self.scope,
            list({row.node.place: row.node for row in rows}.values()),
            self.target,
            checks_tombstones=self.checks_tombstones,
        )
        self.refused_turns |= counts.refused_turns
        self.refused_readings |= counts.refused_readings
        self.tally.count("nodes", "new", counts.new)
        self.tally.count("nodes", "known", len(rows) - counts.new)

    async def _write_edges(self, rows: Sequence[ExportedEdge]) -> None:
        edges = [(row.node, row.edge) for row in rows]
        new, loose = await graph.user_import.import_edges(self.memory.connection, self.scope, edges)
        self.tally.count("relationships", number=len(rows))
        self.tally.count("relationships", "new", new)
        self.tally.count("relationships", "known", len(rows) - len(loose) - new)
        for number in loose:
            row = rows[number]
            self.tally.skip(row.place, LOOSE, f"the graph has no {row.edge.other.label} {list(row.edge.other.key)}")

    async def _erase_refused(self) -> None:
        """Forget once more what was forgotten here, with all that was derived from it."""
        if not self.refused_turns and not self.refused_readings:
            return
        receipt = await Rewriter(self.memory.connection, self.memory.vectors).erase_memories(self.scope, self._select)
        self.tally.count("turns", "refused", receipt.events)

    def _select(self, snapshot: MemorySnapshot) -> Erasure:
        facts = (
            f"fact:{id}"
            for id, fact in snapshot.stored.facts.items()
            if any(source.turn_id in self.refused_readings for source in fact.sources)
        )
        return Erasure(frozenset(self.refused_turns) & snapshot.turns.keys(), fact_ids=frozenset(facts))


def _iterate_edges(section: UserSection) -> Iterator[ExportedEdge]:
    for edge in section.node.edges:
        yield ExportedEdge(section.place, section.node.place, edge)
    for row in section.iterate_nodes():
        if isinstance(row, ExportedNode):
            for edge in row.node.edges:
                yield ExportedEdge(row.place, row.node.place, edge)


def _batch_nodes(rows: Iterator[ExportedNode]) -> Iterator[list[ExportedNode]]:
    batch, size = list[ExportedNode](), 0
    for row in rows:
        batch.append(row)
        size += row.size
        if len(batch) == ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _batch_edges(rows: Iterator[ExportedEdge]) -> Iterator[list[ExportedEdge]]:
    batch = list[ExportedEdge]()
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS_PER_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
