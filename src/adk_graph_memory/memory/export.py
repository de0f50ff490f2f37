"""Write what the graph holds of a user, an app or everybody into a file, for another graph to import.

A line is a node with all its properties but those that belong to one graph alone, and with its relationships. Those
named ``HAS_…`` are on the line of the node at their end, so that no line grows with the number of sessions or events.
A backup also has the content of artifacts, on lines before that of their version, the secret of the tombstones, and
those of users who have gone.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from adk_graph_memory import errors
from adk_graph_memory.graph import export_lines, listings, past_export, snapshots, transfer, vector_slots
from adk_graph_memory.graph.blobs import BlobStore
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.vector_slots import SchemaState, VectorSlot
from adk_graph_memory.memory import past
from adk_graph_memory.memory.engine import Engine
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.portable import ExportHeader, ExportReport, PortableNode
from adk_graph_memory.records.scopes import Scope, SharedMemory
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.private_files import open_private_file

_HALF_A_HISTORY = (
    "an export cannot be limited to what was so at a time: half a history could not be derived again. Give "
    "AsOf(recorded=…) alone; `adk-graph-memory facts --valid-at TIME --json` lists what was so then"
)
CHANGED_USERS_KEPT = 100
"""Users whose names a report tells if somebody wrote to them meanwhile."""
MOST_HELD_BYTES = 8_000_000
"""Size of a user's lines up to which writers may be made to wait while they are read."""
PAUSES = (0.5, 2.0, 5.0)
"""Seconds after which a larger user is read again to whom somebody wrote meanwhile."""


@telemetry.trace_operation("export_memory")
async def export_memory(
    engine: Engine,
    target: str | Path | TextIO,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    as_of: AsOf | None = None,
) -> ExportReport:
    """Write what the graph holds into a file; :meth:`.GraphMemory.export` says what."""
    if as_of is not None and as_of.valid is not None:
        raise errors.InvalidArgument(reason=_HALF_A_HISTORY)
    SharedMemory.check_user_id(user_id)
    owner = {"user": user_id, "app": app_name}
    what = " of ".join(f"{kind} {id!r}" for kind, id in owner.items() if id is not None)
    if what and not await listings.is_known_owner(engine.connection, app_name, user_id):
        raise errors.NotFound(what=what, where="`adk-graph-memory users` and `adk-graph-memory apps`")
    recorded_at = (as_of.recorded or datetime.now(UTC)) if as_of else None
    if not isinstance(target, str | Path):
        return await Export(engine.connection, target, app_name, user_id, recorded_at).write_lines()
    with open_private_file(Path(target)) as file:
        return await Export(engine.connection, file, app_name, user_id, recorded_at).write_lines()


@dataclass(slots=True)
class _Counts:
    """What was written so far."""

    lines: int = 0
    apps: int = 0
    users: int = 0
    bytes: int = 0
    missing_contents: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    relationships: Counter[str] = field(default_factory=Counter)
    outside_contents: Counter[str] = field(default_factory=Counter)
    digest: Any = field(default_factory=hashlib.sha256)  # its type has no public name

    def copy(self) -> _Counts:
        counters = {name: getattr(self, name).copy() for name in ("nodes", "relationships", "outside_contents")}
        return replace(self, **counters, digest=self.digest.copy())


class Export:
    """An export as it is written.

    Args:
        connection: a connection.
        file: where the lines go.
        app_name, user_id: whose rows are exported; everybody's if both are None.
        recorded_at: as of when; None for now, with what waits to be read.
        is_backup: also write the content of artifacts that lies in a store, and the secret of the tombstones.
    """

    def __init__(
        self,
        connection: Connection,
        file: TextIO,
        app_name: str | None = None,
        user_id: str | None = None,
        recorded_at: datetime | None = None,
        *,
        is_backup: bool = False,
    ) -> None:
        self._connection, self._file, self._app_name, self._user_id = connection, file, app_name, user_id
        self._recorded_at, self._is_backup, self._can_rewind = recorded_at, is_backup, file.seekable()
        self._counts = _Counts()
        self._changed_users: list[tuple[str, str]] = []

    async def write_lines(self) -> ExportReport:
        """Write the file from its first line to its last."""
        state = await vector_slots.fetch_schema_state(self._connection)
        header = self._describe_export(state)
        self._write_line(export_lines.encode_header(header))
        self._counts.digest = hashlib.sha256((header.tombstone_key or "").encode())
        if self._user_id is None:  # an app's state is not one user's
            async for properties in transfer.iterate_apps(self._connection, self._app_name):
                self._counts.apps += 1
                if self._recorded_at is not None:
                    properties["state"] = []  # nothing tells since when it is as it is
                self._write_line(export_lines.encode_app(properties))
        async for scope in listings.iterate_owners(self._connection, self._app_name, self._user_id):
            await self._write_user(scope, state.live_slot)
        if self._is_backup:
            async for tombstone in transfer.iterate_stray_tombstones(self._connection):
                self._write_line({"tombstone": export_lines.encode_properties(tombstone)})
        counts = self._counts
        report = self._summarize_export()
        self._write_line(
            {
                "end": {
                    "lines": counts.lines,
                    "apps": counts.apps,
                    "users": counts.users,
                    "nodes": report.nodes,
                    "relationships": report.relationships,
                    "changed_users": len(self._changed_users),
                    "sha256": report.sha256,
                }
            }
        )
        self._file.flush()
        return replace(report, bytes=counts.bytes)

    def _describe_export(self, state: SchemaState) -> ExportHeader:
        live = state.live_slot
        return ExportHeader(
            uuid.uuid4().hex,
            state.version,
            state.checksum,
            metadata.version("adk-graph-memory"),
            datetime.now(UTC).isoformat(timespec="seconds"),
            self._app_name,
            self._user_id,
            live.embedder if live else None,
            live.dimensions if live else None,
            self._recorded_at.isoformat() if self._recorded_at else None,
            state.tombstone_key if self._is_backup else None,
        )

    async def _write_user(self, scope: Scope, live: VectorSlot | None) -> None:
        """Write a user's lines, as at one moment if the file can be rewound.

        If somebody wrote to the user meanwhile, the lines are written again, while writers wait; of a user with so many
        that they would wait for long, a few times in the hope of a quiet moment.
        """
        graph, before = self._connection.user(scope), self._counts.copy()
        start = self._file.tell() if self._can_rewind else 0

        async def write_once(transaction: Transaction | None = None) -> None:
            if self._can_rewind:
                self._counts = before.copy()
                self._file.seek(start)
                self._file.truncate()
            if transaction:
                await transfer.hold_user(transaction)
            await self._write_nodes(scope, live, transaction)

        for pause in (0.0, *PAUSES[: None if self._can_rewind else 0]):
            await asyncio.sleep(pause)
            marks = await transfer.fetch_marks(graph)
            await write_once()
            if marks == await transfer.fetch_marks(graph):
                return
            size = self._counts.bytes - before.bytes
            if self._can_rewind and self._recorded_at is None and size <= MOST_HELD_BYTES:
                await graph.transact(write_once)
                return
        self._changed_users.append((scope.app_name, scope.user_id))

    async def _write_nodes(self, scope: Scope, live: VectorSlot | None, transaction: Transaction | None) -> None:
        start = self._counts.users
        async for node in await self._open_nodes(scope, live, transaction):
            counts = self._counts
            counts.users += node.place.label == "User"
            if counts.users == start:  # the user has gone, and what comes is of somebody who is new, or of nobody
                return
            counts.nodes[node.place.label] += 1
            counts.relationships.update(edge.type for edge in node.edges)
            content = None
            if node.place.label == "ArtifactVersion" and (store := node.properties.get("store")):
                content = await self._fetch_content(scope, node, store) if self._is_backup else None
                counts.outside_contents[store] += content is None
            for line in export_lines.encode_node(node, counts.users, content):
                self._write_line(line)

    async def _open_nodes(
        self, scope: Scope, live: VectorSlot | None, transaction: Transaction | None
    ) -> AsyncIterator[PortableNode]:
        if self._recorded_at is None:
            return transfer.iterate_nodes(self._connection.user(scope), live, transaction=transaction)
        snapshot = await snapshots.fetch_snapshot(self._connection.user(scope))
        memory = await asyncio.to_thread(past.select_recorded_memory, snapshot, self._recorded_at)
        return past_export.iterate_past_nodes(self._connection.user(scope), live, snapshot, memory)

    async def _fetch_content(self, scope: Scope, version: PortableNode, store: str) -> bytes | None:
        """Fetch the content of an artifact's version from its store; None if the store has lost it."""
        try:
            return await BlobStore(store).get_blob(scope.key, version.properties["id"])
        except errors.ContentMissing:
            self._counts.missing_contents += 1
            return None

    def _write_line(self, value: Mapping[str, Any]) -> None:
        line = export_lines.format_line(value)
        self._file.write(line)
        encoded = line.encode()
        self._counts.digest.update(encoded)
        self._counts.lines += 1
        self._counts.bytes += len(encoded)

    def _summarize_export(self) -> ExportReport:
        counts = self._counts
        return ExportReport(
            counts.apps,
            counts.users,
            dict(sorted(counts.nodes.items())),
            dict(sorted(counts.relationships.items())),
            counts.bytes,
            dict(sorted((+counts.outside_contents).items())),
            tuple(self._changed_users[:CHANGED_USERS_KEPT]),
            counts.missing_contents,
            counts.digest.hexdigest(),
        )
