"""Import an export of this package: user by user, and only users of whom the graph has nothing else.

A user's lines are read twice, first for the nodes and then for their relationships, in batches of one transaction each.
The user's node notes the import (``import_id``): nothing else would tell a user who is half imported from one who lives
here. What was forgotten here is imported and forgotten again, with all that rests on it, before the user counts as
imported. A user whose memory cannot be derived is withdrawn again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

from adk_graph_memory import errors
from adk_graph_memory.graph import artifacts, export_lines, schema, transfer, vector_slots
from adk_graph_memory.graph.blobs import list_trusted_stores
from adk_graph_memory.graph.transfer import VectorTarget
from adk_graph_memory.language.text import shorten_text
from adk_graph_memory.memory.engine import Engine, UserContext
from adk_graph_memory.memory.maintenance import embed_missing_nodes
from adk_graph_memory.memory.rewriting import Erasure
from adk_graph_memory.memory.vectors import NOT_EMBEDDED
from adk_graph_memory.records.memory import MemorySnapshot
from adk_graph_memory.records.portable import ExportHeader, NodePlace, PortableEdge, PortableNode
from adk_graph_memory.records.reports import LOOSE, ImportReceipt, SkippedRow, Tally
from adk_graph_memory.records.scopes import Scope


def make_format_error(place: str, expected: str, stood: str) -> errors.UnreadableTranscript:
    """Make the error for a source that is no such thing: what was expected, and what stood there."""
    message = f"{place} cannot be imported: {stood}. Expected {expected}."
    return errors.UnreadableTranscript(message, place=place, reason=stood)


MEND = "Put back the line as the {kind} wrote it, or make another {kind}, and {verb} the file once more"
"""What to do about a line that cannot be read."""
EARLY_END = "it says that the file ends here, and more lines follow"


@dataclass(frozen=True, slots=True)
class ExportedApp:
    """An app's line."""

    place: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StrayTombstone:
    """A backup's line with a tombstone of a user who has gone."""

    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExportedNode:
    """A node's line, how long it is, and the content of an artifact's version that stands before it."""

    place: str
    node: PortableNode
    size: int
    content: bytes | None = None


def _read_node(value: Mapping[str, Any], place: str, size: int, content: bytes) -> ExportedNode:
    """Read the object of a node's line, with the content that stands before it."""
    node, wanted = export_lines.decode_node(value), value.get("content_bytes")
    if len(content) != (wanted or 0):
        raise errors.InvalidArgument(reason=f"{len(content)} bytes of content stand before it, not {wanted or 0}")
    return ExportedNode(place, node, size + len(content), content if wanted is not None else None)


@dataclass(slots=True)
class UserSection:
    """The lines of one user; each iteration over them starts from the beginning.

    Args:
        file: the file, open.
        path: its name, for the places of what cannot be read.
        place: that of the user's own line.
        node: the user's own node.
        user_number: the number that the user's lines carry.
        start: where the lines behind the user's own begin.
        first_line: the number of the first of them.
    """

    file: BinaryIO
    path: Path
    place: str
    node: PortableNode
    user_number: int
    start: int
    first_line: int
    mend: str
    """what to do about a line that cannot be read"""
    end: tuple[int, int] = field(default=(0, 0))
    """where the next section begins, and the number of its line, once this one was read"""

    def iterate_nodes(self) -> Iterator[ExportedNode | SkippedRow]:
        """Yield the user's nodes but the user's own, and what cannot be read."""
        self.file.seek(self.start)
        position, number = self.start, self.first_line
        content = bytearray()
        while line := self.file.readline():
            place = f"{self.path}, line {number}"
            try:
                value = export_lines.parse_line(line)
                labels = value.get("node")
                is_next_user = not {"app", "tombstone"}.isdisjoint(value) or (
                    isinstance(labels, list) and labels[:1] == ["User"]
                )
                if is_next_user or ("end" in value and not self.file.readline()):
                    break
                if "end" in value:
                    raise errors.InvalidArgument(reason=EARLY_END)
                if value.get("of") != self.user_number:
                    reason = "it is of a user whose own line cannot be read"
                    raise errors.InvalidArgument(reason=reason)
                row: ExportedNode | SkippedRow | None = None
                if "content" in value:
                    content += export_lines.decode_content(value)
                else:
                    before, content = bytes(content), bytearray()
                    row = _read_node(value, place, len(line), before)
            except errors.InvalidArgument as error:
                row = SkippedRow(place, "unreadable", f"{error.reason}. {self.mend}")
            position, number = position + len(line), number + 1
            if row is not None:
                yield row
            self.file.seek(position)
        self.end = position, number


class CheckedFile(NamedTuple):
    """A whole file: its first line, the digest of those between, and what the last one says of them."""

    header: ExportHeader
    sha256: str
    footer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file that an export wrote, or a backup."""

    path: Path
    kind: Literal["export", "backup"] = "export"

    @property
    def mend(self) -> str:
        """What to do about a line that cannot be read."""
        return MEND.format(kind=self.kind, verb="import" if self.kind == "export" else "restore")

    @property
    def _done(self) -> str:
        return "imported" if self.kind == "export" else "restored"

    def _make_error(self, place: str, stood: str) -> errors.UnreadableTranscript:
        message = f"{place} cannot be {self._done}: {stood}. Expected a file that `adk-graph-memory {self.kind}` wrote."
        return errors.UnreadableTranscript(message, place=place, reason=stood)

    async def check(self) -> CheckedFile:
        """Check that the file is whole and of a schema that we know, and return what it says of itself.

        Raises:
            errors.NotFound: there is no such file.
            errors.UnreadableTranscript: it is no export, it is cut off, or it has a schema that we do not know.
        """
        if not self.path.is_file():
            raise errors.NotFound(f"There is no file {self.path}.", what=f"file {self.path}", where="the path")
        try:
            return await asyncio.to_thread(self._check)
        except OSError as error:
            raise self._make_error(str(self.path), error.strerror or str(error)) from error

    def _check(self) -> CheckedFile:
        with self.path.open("rb") as file:
            last, lines = b"", 1
            header = self._read_header(file.readline())
            digest = hashlib.sha256((header.tombstone_key or "").encode())
            for line in file:
                digest.update(last)
                last, lines = line, lines + 1
        place = f"{self.path}, line {lines}"
        try:
            footer = export_lines.parse_line(last).get("end")
        except errors.InvalidArgument:
            footer = None
        again = f"Nothing was {self._done}: get the whole file, or make another {self.kind}."
        if not isinstance(footer, dict) or not last.endswith(b"\n"):
            reason = f"the file ends here, and its {self.kind} wrote more"
            raise errors.UnreadableTranscript(f"{place}: {reason}. {again}", place=place, reason=reason)
        if footer.get("lines") != lines - 1:
            reason = f"{footer.get('lines')} lines should stand before this one, and {lines - 1} do"
            raise errors.UnreadableTranscript(f"{place}: {reason}. {again}", place=place, reason=reason)
        return CheckedFile(header, digest.hexdigest(), footer)

    def _read_header(self, line: bytes) -> ExportHeader:
        place = f"{self.path}, line 1"
        try:
            value = export_lines.parse_line(line)
        except errors.InvalidArgument as error:
            raise self._make_error(place, error.reason) from error
        header = export_lines.decode_header(value)
        if header is None:
            raise self._make_error(place, f"it has the keys {', '.join(list(value)[:8])}")
        if value["version"] > export_lines.FORMAT_VERSION or header.schema > schema.get_schema_version():
            reason = (
                f"adk-graph-memory {header.package} wrote it, in schema {header.schema} and format {value['version']}; "
                f"this release knows up to {schema.get_schema_version()} and {export_lines.FORMAT_VERSION}"
            )
            message = f"{place}: {reason}. Upgrade adk-graph-memory here to {header.package} or later."
            raise errors.UnreadableTranscript(message, place=place, reason=reason)
        if not schema.knows_schema(header.schema, header.checksum):
            reason = f"another development version of adk-graph-memory wrote it (schema {header.schema})"
            message = f"{place}: {reason}, and this one does not know it. Use the version that wrote it."
            raise errors.UnreadableTranscript(message, place=place, reason=reason)
        return header

    def iterate_sections(self) -> Iterator[ExportedApp | UserSection | StrayTombstone | SkippedRow]:
        """Yield apps and users in the order of the file, and what cannot be read between them."""
        with self.path.open("rb") as file:
            position, number = len(file.readline()), 2
            while True:
                file.seek(position)
                line, place = file.readline(), f"{self.path}, line {number}"
                position, number = position + len(line), number + 1
                try:
                    value = export_lines.parse_line(line)
                    if "end" in value:
                        if not file.readline():
                            return
                        raise errors.InvalidArgument(reason=EARLY_END)
                    if "tombstone" in value:
                        yield StrayTombstone(export_lines.decode_properties(value["tombstone"]))
                        continue
                    if "app" in value:
                        properties = export_lines.decode_app(value)
                        Scope(properties["app_name"], "")
                        yield ExportedApp(place, properties)
                        continue
                    section = self._open_section(file, value, place, position, number)
                except errors.InvalidArgument as error:
                    yield SkippedRow(place, "unreadable", f"{error.reason}. {self.mend}")
                    continue
                yield section
                if section.end == (0, 0):
                    for _ in section.iterate_nodes():
                        pass
                position, number = section.end

    def _open_section(
        self, file: BinaryIO, value: Mapping[str, Any], place: str, position: int, number: int
    ) -> UserSection:
        node = export_lines.decode_node(value)
        if node.place.label != "User":
            raise errors.InvalidArgument(reason="it is of a user whose own line cannot be read")
        Scope.from_graph(node.properties["app_name"], node.properties["user_id"])
        return UserSection(file, self.path, place, node, value.get("of", 0), position, number, self.mend)


T = TypeVar("T")

ROWS_PER_BATCH = 250
BYTES_PER_BATCH = 1_000_000
"""Bytes of lines from which on a batch is written, however few they are."""
REFUSED = "refused by the database"
REFUSALS = (errors.QueryFailed, errors.ConstraintViolated, errors.InvalidUnicode)
"""What the database says to a line that it does not take."""
REFUSED_LINE = "not of this graph's vectors or artifact store"
UNDERIVABLE = "whose memory could not be derived"
"""The kind of users that are left out because their readings lead to an error."""
LED_TO = (errors.GraphMemoryError, LookupError, TypeError, ValueError, ArithmeticError)
"""What readings lead to that no release wrote."""


@dataclass(frozen=True, slots=True)
class ExportedEdge:
    """A relationship, the place of its line, and the node that carries it."""

    place: str
    node: NodePlace
    edge: PortableEdge


@dataclass(slots=True)
class SectionWriter:
    """Writes one user.

    ``checks_tombstones`` says that something of the user was forgotten here: it stays forgotten. ``is_derived`` says
    that the file holds what follows from the readings; one as of a time does not. ``counts_before`` is what the tally
    had counted before the user.
    """

    user: UserContext
    tally: Tally
    target: VectorTarget
    import_id: str
    checks_tombstones: bool
    is_derived: bool
    counts_before: Counter[tuple[str, str]]
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
        try:
            await self._derive()
        except REFUSALS as error:
            await self._withdraw(section, error)
        except errors.DatabaseError:
            raise
        except LED_TO as error:
            await self._withdraw(section, error)
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
        if row.content is not None and Path(id := row.node.properties["id"]).name != id:
            return f"its id {id!r} is no name under which content can be stored"
        store = row.node.properties.get("store")
        if row.node.place.label != "ArtifactVersion" or store is None:
            return ""
        settings = self.user.connection.settings
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
        nodes = {row.node.place: await self._store_content(row) for row in rows}
        counts = await transfer.import_nodes(
            self.user.graph,
            list(nodes.values()),
            self.target,
            checks_tombstones=self.checks_tombstones,
        )
        self.refused_turns |= counts.refused_turns
        self.refused_readings |= counts.refused_readings
        self.tally.count("nodes", "new", counts.new)
        self.tally.count("nodes", "known", len(rows) - counts.new)

    async def _store_content(self, row: ExportedNode) -> PortableNode:
        """Put content that the file holds into this graph's own store, before the version that names it."""
        if row.content is None:
            return row.node
        store = await artifacts.open_own_store(self.user.connection)
        await store.put_blob(self.user.scope.key, row.node.properties["id"], row.content)
        return replace(row.node, properties={**row.node.properties, "store": store.url})

    async def _write_edges(self, rows: Sequence[ExportedEdge]) -> None:
        edges = [(row.node, row.edge) for row in rows]
        new, loose = await transfer.import_edges(self.user.graph, edges)
        self.tally.count("relationships", number=len(rows))
        self.tally.count("relationships", "new", new)
        self.tally.count("relationships", "known", len(rows) - len(loose) - new)
        for number in loose:
            row = rows[number]
            self.tally.skip(row.place, LOOSE, f"the graph has no {row.edge.other.label} {list(row.edge.other.key)}")

    async def _derive(self) -> None:
        """Forget what was forgotten here, and derive what the file does not hold."""
        await self._erase_refused()
        if not self.is_derived:
            await self.user.rewriter.restore_derivation()
            if self.refused_readings:
                await self._erase_refused()  # the facts of readings that are refused here

    async def _withdraw(self, section: UserSection, error: Exception) -> None:
        """Take a user back: nothing could be forgotten singly of a memory that cannot be derived."""
        for nodes in _batch_nodes(row for row in section.iterate_nodes() if isinstance(row, ExportedNode)):
            await transfer.withdraw_nodes(self.user.graph, [row.node.place for row in nodes])
        await self.user.rewriter.restore_derivation()  # nothing stays that was derived before the error
        await transfer.forsake_user(self.user.graph, self.import_id)
        self.tally.restore_counts(self.counts_before)
        self.tally.skip(section.place, UNDERIVABLE, _describe_underivable(self.user.scope, error))
        self.is_complete = False

    async def _erase_refused(self) -> None:
        """Forget once more what was forgotten here, with all that was derived from it."""
        if not self.refused_turns and not self.refused_readings:
            return
        receipt = await self.user.rewriter.erase_memories(self._select)
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


TAKEN = "of a user who is here already"
"""The kind of users that are left out because the graph has something of them that is not of this file."""


class ExportImporter:
    """Imports one export once.

    Args:
        engine: the memory to write to; None only reads the file.
        app_name, user_id: the names under which a file of one app, or of one user, is imported.
        on_progress: called now and then with what was read so far, in words.
        restores: the file is a backup of the graph that is made again, so its vectors are this graph's.
    """

    def __init__(
        self,
        engine: Engine | None,
        app_name: str | None = None,
        user_id: str | None = None,
        on_progress: Callable[[str], None] | None = None,
        *,
        restores: bool = False,
    ) -> None:
        self._engine, self._app_name, self._user_id, self._restores = engine, app_name, user_id, restores
        self._on_progress = on_progress or (lambda text: None)
        self.tally, self._target = Tally(), VectorTarget()

    async def import_file(self, source: ExportFile, checked: CheckedFile | None = None) -> ImportReceipt:
        """Import the file, which is checked before unless it was.

        Raises:
            errors.UnreadableTranscript: it is no whole export, or one of a later release; nothing is imported.
            errors.InvalidArgument: it holds several apps or users, and is to be imported as one; likewise.
            errors.DatabaseError: the graph could not be written; the same import goes on from there.
        """
        header = (checked or await source.check()).header
        self._check_names(header)
        if self._engine is not None:
            self._target = await choose_vector_target(self._engine, header, restores=self._restores)
        strays = list[Mapping[str, Any]]()
        for entry in source.iterate_sections():
            if isinstance(entry, SkippedRow):
                self.tally.skip_row(entry)
            elif isinstance(entry, ExportedApp):
                await self._import_app(entry)
            elif isinstance(entry, StrayTombstone):
                strays.append(entry.properties)
                if len(strays) == ROWS_PER_BATCH:
                    await self._import_strays(strays)
            else:
                await self._import_user(entry, header)
        await self._import_strays(strays)
        return self.tally.make_receipt("export", is_dry_run=self._engine is None)

    def _check_names(self, header: ExportHeader) -> None:
        has_one_app = header.app_name is not None
        if self._app_name is not None and not has_one_app:
            raise errors.InvalidArgument(reason="--app renames the app of a file that holds one: export it with --app")
        if self._user_id is not None and not (has_one_app and header.user_id is not None):
            reason = "--user renames the user of a file that holds one: export it with --app and --user"
            raise errors.InvalidArgument(reason=reason)
        Scope.from_graph(self._app_name or "app", self._user_id or "user")

    async def _import_strays(self, tombstones: list[Mapping[str, Any]]) -> None:
        """Write tombstones of users who have gone; in another graph than the backup's they have no effect."""
        if self._restores and self._engine is not None:
            await transfer.restore_stray_tombstones(self._engine.connection, tombstones)
        else:
            self.tally.count("tombstones", "foreign", len(tombstones))
        tombstones.clear()

    async def _import_app(self, app: ExportedApp) -> None:
        self.tally.count("apps")
        if self._engine is not None:
            properties = {**app.properties, "app_name": self._app_name or app.properties["app_name"]}
            try:
                is_new = await transfer.import_app(self._engine.connection, properties)
            except REFUSALS as error:
                self.tally.skip(app.place, REFUSED, error.reason)
            else:
                self.tally.count("apps", "new" if is_new else "known")

    async def _import_user(self, section: UserSection, header: ExportHeader) -> None:
        properties, count = section.node.properties, self.tally.count
        count("users")
        if self._engine is None:
            self._count_section(section)
            return
        owner = self._app_name or properties["app_name"], self._user_id or properties["user_id"]
        scope = Scope.from_graph(*owner)
        if scope.is_shared and not Scope.from_graph(*owner[:1], properties["user_id"]).is_shared:
            reason = "what a user's memory holds does not go into a shared one as a whole: promote facts of it"
            raise errors.InvalidArgument(reason=reason)
        user = UserContext(self._engine, scope)
        try:
            outcome, has_tombstones = await transfer.begin_user(user.graph, header.id, properties)
        except REFUSALS as error:
            self.tally.skip(section.place, REFUSED, error.reason)
            return
        if outcome == "taken":
            self.tally.skip(section.place, TAKEN, _describe_taken(scope))
            return
        if outcome == "done":
            count("users", "known")
            self._count_section(section)
            return
        before = self.tally.copy_counts()
        count("users", "new" if outcome == "new" else "continued")
        count("nodes", "new" if outcome == "new" else "known")
        is_derived = header.recorded_at is None
        writer = SectionWriter(
            user,
            self.tally,
            self._target,
            import_id=header.id,
            checks_tombstones=has_tombstones,
            is_derived=is_derived,
            counts_before=before,
        )
        if await writer.write_section(section, self._on_progress):
            if not is_derived and user.engine.vectors.embedder is not None:
                await embed_missing_nodes(user)
            await transfer.finish_user(user.graph, header.id)

    def _count_section(self, section: UserSection) -> None:
        """Count what is in a user's lines, and write nothing."""
        how = "read" if self._engine is None else "known"
        edges = len(section.node.edges)
        nodes = 1
        for row in section.iterate_nodes():
            if isinstance(row, SkippedRow):
                self.tally.skip_row(row)
            else:
                nodes, edges = nodes + 1, edges + len(row.node.edges)
        for how_counted in {"read", how}:
            self.tally.count("nodes", how_counted, nodes)
            self.tally.count("relationships", how_counted, edges)
        self._on_progress(self.tally.describe_progress())


async def choose_vector_target(engine: Engine, header: ExportHeader, *, restores: bool = False) -> VectorTarget:
    """Choose where the vectors of an export go: into the live slot if it is the same embedder's.

    If no slot is live yet, and the memory has that embedder or ``restores`` the graph, one is opened. Else the vectors
    are dropped, and so they are while the embedder cannot be loaded: the next ingest makes them, or ``reembed``.
    """
    embedder = engine.vectors.embedder
    live = (await vector_slots.fetch_schema_state(engine.connection)).live_slot
    if header.embedder is None or header.dimensions is None:
        return VectorTarget(live)
    if live is None and restores:
        live = await vector_slots.open_slot(engine.connection, "a", header.embedder, header.dimensions)
    elif live is None and embedder is not None and embedder.name == header.embedder:
        # A file may claim any number of dimensions, and the slot would refuse whatever is embedded later.
        try:
            vector = (await embedder.aembed_question("dimensions")).vector
        except (errors.EmbeddingError, errors.ConfigurationError) as error:
            engine.problems.report_problem(NOT_EMBEDDED, error)
            return VectorTarget(marks_missing=True)
        if len(vector) != header.dimensions:
            return VectorTarget(marks_missing=True)
        live = await vector_slots.open_slot(engine.connection, "a", header.embedder, header.dimensions)
    if live and (live.embedder, live.dimensions) == (header.embedder, header.dimensions):
        return VectorTarget(live)
    return VectorTarget(marks_missing=embedder is not None)


def _describe_underivable(scope: Scope, error: Exception) -> str:
    cause = error.__cause__ or error if isinstance(error, errors.GraphMemoryError) else error
    told = shorten_text(" ".join(f"{type(cause).__name__}: {cause}".split()), 200)
    return (
        f"what was read of user {scope.user_id!r} of app {scope.app_name!r} leads to an error ({told}), so nothing of "
        "the user was imported. Put back the user's lines as the export wrote them, or run `adk-graph-memory doctor "
        "--mend` where they come from and export again; then import once more"
    )


def _describe_taken(scope: Scope) -> str:
    return (
        f"the graph has something of user {scope.user_id!r} of app {scope.app_name!r} that is not of this file, and "
        "two memories cannot become one. Import a file of this user alone under another name (--user), or delete what "
        "is here first: adk-graph-memory forget-user USER --app APP --sessions --artifacts"
    )
