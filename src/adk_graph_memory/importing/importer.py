"""Import a source: its sessions with their states, or its memories; reading it alone is a dry run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adk_graph_memory import errors, graph
from adk_graph_memory.adk import foreign_records
from adk_graph_memory.importing.memory_writer import BATCH_SIZE, MemoryWriter
from adk_graph_memory.importing.session_writer import SessionWriter
from adk_graph_memory.importing.source_records import (
    MemorySource,
    SessionSource,
    SkippedRow,
    SourceMemory,
    SourceSession,
    SourceState,
)
from adk_graph_memory.importing.tally import ImportReceipt, Tally
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope
from adk_graph_memory.records.scopes import check_id
from adk_graph_memory.statements import check_authors

OTHERS = "of another app or user"
UNNAMED = "without an app or user"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What is imported: ``app_name`` and ``user_id`` choose among those that the source names, and stand in for those
    that it does not name. An export of this package is imported under these names."""

    source: str
    app_name: str | None = None
    user_id: str | None = None
    remembers: bool = False
    """queue what was said in the sessions for memory"""


class Importer:
    """Imports one source once.

    Args:
        memory: the graph to write to; None only reads the source.
        options: what is imported.
        on_progress: called now and then with what was read so far, in words.
    """

    def __init__(
        self, memory: GraphMemory | None, options: ImportOptions, on_progress: Callable[[str], None] | None = None
    ) -> None:
        self._memory, self._options, self._on_progress = memory, options, on_progress or (lambda text: None)
        self.tally = Tally()

    async def import_sessions(self, source: SessionSource) -> ImportReceipt:
        """Import states, sessions and events.

        Raises:
            errors.DatabaseError: the graph could not be written; the same import goes on from there.
            errors.UnreadableTranscript, errors.ConfigurationError: the source could not be read to its end; likewise.
        """
        writer = await self._make_session_writer()
        async for state in source.iterate_states():
            if self._is_wanted(state) and writer and isinstance(state, SourceState):
                try:
                    await writer.write_state(state)
                except (errors.InvalidArgument, errors.InvalidUnicode) as error:
                    self.tally.skip(state.place, "unreadable", error.reason)
        async for session in source.iterate_sessions():
            if not self._is_wanted(session) or not isinstance(session, SourceSession):
                continue
            self.tally.count("sessions")
            try:
                await self._import_session(writer, session, source)
            except (errors.InvalidArgument, errors.InvalidUnicode) as error:
                self.tally.skip(session.place, "unreadable", error.reason)
        return self._finish()

    async def _make_session_writer(self) -> SessionWriter | None:
        if self._memory is None:
            return None
        await graph.prepare_connection(self._memory.connection)
        return SessionWriter(self._memory, self.tally, self._options.remembers)

    async def _import_session(
        self, writer: SessionWriter | None, session: SourceSession, source: SessionSource
    ) -> None:
        pages = self._encode_events(source, session)
        if writer:
            await writer.write_session(session, pages)
            return
        Scope(session.app_name, session.user_id)
        check_id("session_id", session.id)
        async for _ in pages:
            pass

    async def _encode_events(
        self, source: SessionSource, session: SourceSession
    ) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        async for page in source.iterate_event_pages(session):
            encoded = []
            for event in page:
                if isinstance(event, SkippedRow):
                    self.tally.skip_row(event)
                    continue
                try:
                    encoded.append(foreign_records.encode_event(event.body))
                except errors.InvalidArgument as error:
                    self.tally.skip(event.place, "unreadable", error.reason)
            self.tally.count("events", number=len(encoded))
            self._on_progress(self.tally.describe_progress())
            yield encoded

    async def import_memories(self, source: MemorySource) -> ImportReceipt:
        """Import memories.

        Raises:
            errors.InvalidArgument: no memory of the source names its app or user, and the options do not either.
            errors.DatabaseError, errors.EmbeddingError: the graph could not be written; the same import goes on.
            errors.UnreadableTranscript, errors.ConfigurationError: the source could not be read to its end; likewise.
        """
        writer = MemoryWriter(self._memory, self.tally, self._options.source) if self._memory else None
        if self._memory is not None:
            await graph.prepare_connection(self._memory.connection)
        batch = list[SourceMemory]()
        async for row in source.iterate_memories():
            if (owned := self._find_owner(row)) is None:
                continue
            self.tally.count("memories")
            batch.append(owned)
            if len(batch) >= BATCH_SIZE:
                await self._write_batch(writer, batch)
        await self._write_batch(writer, batch)
        receipt = self._finish()
        if not receipt.memories and (unnamed := [row for row in receipt.problems if row.kind == UNNAMED]):
            count = receipt.skipped[UNNAMED]
            raise errors.InvalidArgument(reason=f"{unnamed[0].place}, and {count - 1} more: {unnamed[0].reason}")
        return receipt

    async def _write_batch(self, writer: MemoryWriter | None, batch: list[SourceMemory]) -> None:
        if writer and batch:
            await writer.write_memories(batch)
        batch.clear()
        self._on_progress(self.tally.describe_progress())

    def _find_owner(self, row: SourceMemory | SkippedRow) -> SourceMemory | None:
        """Fill in the app and the user that a memory does not name; None, counted, for one that is left out."""
        if not self._is_wanted(row) or not isinstance(row, SourceMemory):
            return None
        owned = replace(
            row, app_name=row.app_name or self._options.app_name, user_id=row.user_id or self._options.user_id
        )
        owners = (("app (give --app)", owned.app_name), ("user (give --user)", owned.user_id))
        missing = [owner for owner, value in owners if value is None]
        try:
            if missing:
                self.tally.skip(row.place, UNNAMED, f"it names no {' and no '.join(missing)}")
                return None
            check_authors(Scope(owned.app_name or "", owned.user_id or ""), [owned.author])
        except errors.InvalidArgument as error:
            self.tally.skip(row.place, "unreadable", error.reason)
            return None
        return owned

    def _is_wanted(self, row: SourceState | SourceSession | SourceMemory | SkippedRow) -> bool:
        """Whether a row could be read and is of the app and user that are wanted; count it if it is left out."""
        if isinstance(row, SkippedRow):
            self.tally.skip_row(row)
            return False
        wanted_app, wanted_user = self._options.app_name, self._options.user_id
        is_other_app = row.app_name is not None and wanted_app not in (None, row.app_name)
        is_other_user = row.user_id is not None and wanted_user not in (None, row.user_id)
        if (is_other_app or is_other_user) and not isinstance(row, SourceState):
            self.tally.skip(row.place, OTHERS, "")
        return not (is_other_app or is_other_user)

    def _finish(self) -> ImportReceipt:
        return self.tally.make_receipt(self._options.source, is_dry_run=self._memory is None)
