"""Write what the graph holds of a user, an app or everybody into a file, for another graph to import.

A line is a node with all its properties but those that belong to one graph alone, and with its relationships. Those
named ``HAS_…`` are on the line of the node at their end, so that no line grows with the number of sessions or events.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from adk_graph_memory import errors
from adk_graph_memory.graph import export_lines, listings, past_export, snapshots, transfer, vector_slots
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.vector_slots import SchemaState, VectorSlot
from adk_graph_memory.memory import past
from adk_graph_memory.memory.engine import Engine
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.portable import ExportHeader, ExportReport, PortableNode
from adk_graph_memory.records.scopes import Scope, SharedMemory
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.private_files import write_private_file

_HALF_A_HISTORY = (
    "an export cannot be limited to what was so at a time: half a history could not be derived again. Give "
    "AsOf(recorded=…) alone; `adk-graph-memory facts --valid-at TIME --json` lists what was so then"
)
CHANGED_USERS_KEPT = 100
"""Users whose names a report tells if somebody wrote to them meanwhile."""


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
    export = _Export(engine.connection, app_name, user_id, recorded_at)
    if not isinstance(target, str | Path):
        return await export.write_lines(target)
    with write_private_file(Path(target)) as file:
        return await export.write_lines(file)


class _Export:
    """An export as it is written.

    Args:
        connection: a connection.
        app_name, user_id: whose rows are exported; everybody's if both are None.
        recorded_at: as of when; None for now, with what waits to be read.
    """

    def __init__(
        self, connection: Connection, app_name: str | None, user_id: str | None, recorded_at: datetime | None
    ) -> None:
        self._connection, self._app_name, self._user_id = connection, app_name, user_id
        self._recorded_at = recorded_at
        self._lines = self._apps = self._users = self._bytes = 0
        self._nodes: Counter[str] = Counter()
        self._relationships: Counter[str] = Counter()
        self._outside_contents: Counter[str] = Counter()
        self._changed_users: list[tuple[str, str]] = []

    async def write_lines(self, file: TextIO) -> ExportReport:
        """Write the file from its first line to its last."""
        state = await vector_slots.fetch_schema_state(self._connection)
        header = self._describe_export(state)
        self._write_line(file, export_lines.encode_header(header))
        if self._user_id is None:  # an app's state is not one user's
            async for properties in transfer.iterate_apps(self._connection, self._app_name):
                self._apps += 1
                if self._recorded_at is not None:
                    properties["state"] = []  # nothing tells since when it is as it is
                self._write_line(file, export_lines.encode_app(properties))
        async for scope in listings.iterate_owners(self._connection, self._app_name, self._user_id):
            await self._write_user(file, scope, state.live_slot)
        report = self._summarize_export()
        footer = {"lines": self._lines, "apps": self._apps, "users": self._users}
        self._write_line(file, {"end": footer | {"nodes": report.nodes, "relationships": report.relationships}})
        file.flush()
        return self._summarize_export()

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
        )

    async def _write_user(self, file: TextIO, scope: Scope, live: VectorSlot | None) -> None:
        marks = await transfer.fetch_marks(self._connection.user(scope))
        async for node in await self._open_nodes(scope, live):
            self._users += node.place.label == "User"
            self._count(node)
            self._write_line(file, export_lines.encode_node(node, self._users))
        if marks != await transfer.fetch_marks(self._connection.user(scope)):
            self._changed_users.append((scope.app_name, scope.user_id))
            del self._changed_users[CHANGED_USERS_KEPT:]

    async def _open_nodes(self, scope: Scope, live: VectorSlot | None) -> AsyncIterator[PortableNode]:
        if self._recorded_at is None:
            return transfer.iterate_nodes(self._connection.user(scope), live)
        snapshot = await snapshots.fetch_snapshot(self._connection.user(scope))
        memory = await asyncio.to_thread(past.select_recorded_memory, snapshot, self._recorded_at)
        return past_export.iterate_past_nodes(self._connection.user(scope), live, snapshot, memory)

    def _count(self, node: PortableNode) -> None:
        self._nodes[node.place.label] += 1
        self._relationships.update(edge.type for edge in node.edges)
        if node.place.label == "ArtifactVersion" and (store := node.properties.get("store")):
            self._outside_contents[store] += 1

    def _write_line(self, file: TextIO, value: Mapping[str, Any]) -> None:
        line = export_lines.format_line(value)
        file.write(line)
        self._lines += 1
        self._bytes += len(line.encode())

    def _summarize_export(self) -> ExportReport:
        return ExportReport(
            self._apps,
            self._users,
            dict(sorted(self._nodes.items())),
            dict(sorted(self._relationships.items())),
            self._bytes,
            dict(sorted(self._outside_contents.items())),
            tuple(self._changed_users),
        )
