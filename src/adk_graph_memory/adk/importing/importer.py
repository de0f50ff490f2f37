"""Import sessions and memories from a source; importing it again adds only what is missing.

A source yields one record at a time, and what the graph has already is left as it is. So an import needs little memory,
may be repeated, and goes on where it was interrupted.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.adk.importing import records
from adk_graph_memory.adk.importing.chats.messages import ChatOptions
from adk_graph_memory.adk.importing.chats.source import ChatSource
from adk_graph_memory.adk.importing.databases import SessionTables
from adk_graph_memory.adk.importing.records import MemorySource, SessionSource, SourceMemory, SourceSession, SourceState
from adk_graph_memory.adk.importing.sources import open_source
from adk_graph_memory.consolidation.fact_rules import compute_statement_memory_id
from adk_graph_memory.graph import sessions, transfer
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.transfer import ToldMemory
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.imports import ExportFile, ExportImporter
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.records.reports import ImportReceipt, SkippedRow, Tally
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.scopes import OWNER_NAME, Scope, check_id
from adk_graph_memory.records.turns import Statement

BATCH_SIZE = 100
"""Memories that are embedded and written together."""
REFUSED = "refused by the guard"
"""The kind of a memory that the guard keeps out."""


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """Writes memories of one source, whose name is part of their ids."""

    memory: GraphMemory
    tally: Tally
    source: str

    async def write_memories(self, rows: Sequence[SourceMemory]) -> None:
        """Write what the graph lacks of these memories; each names its app and user."""
        scopes: dict[Scope, dict[str, SourceMemory]] = {}
        for row in rows:
            # The later of two rows with one id is what counts, as if they came in different batches.
            scopes.setdefault(Scope(row.app_name or "", row.user_id or ""), {})[row.id] = row
        for scope, by_id in scopes.items():
            await self._write_user(self.memory.user(scope.app_name, scope.user_id), list(by_id.values()))

    async def _write_user(self, user: UserMemory, rows: Sequence[SourceMemory]) -> None:
        now, redactor = datetime.now(UTC), user.engine.redactor
        statements = await redactor.redact_statements([_convert_source_memory(row, self.source, now) for row in rows])
        ids = [compute_statement_memory_id(statement.id or "") for statement in statements]
        before = await transfer.fetch_told_memories(user.graph, ids)

        def is_told(told: Mapping[str, ToldMemory], number: int) -> bool:
            one = told.get(ids[number])
            return one is not None and one.says(statements[number], is_timed=rows[number].at is not None)

        wanted = [number for number in range(len(rows)) if not is_told(before, number)]
        self.tally.count("memories", "known", len(rows) - len(wanted))
        report = await user.add_statements([statements[number] for number in wanted]) if wanted else IngestReport()
        after = await transfer.fetch_told_memories(user.graph, ids) if report.dropped else None
        for number in wanted:
            if after is not None and not is_told(after, number):
                self.tally.skip(rows[number].place, REFUSED, ", ".join(report.dropped))
            else:
                self.tally.count("memories", "changed" if ids[number] in before else "new")


def _is_same_day(known: Mapping[str, str], day: Mapping[str, str]) -> bool:
    """Whether two versions of a chat's day, events' ids with their authors, share half of the shorter one.

    The same greeting to two people makes no day of one chat out of those of two: nobody else then speaks in both.
    """
    others = [{*authors.values()} - {OWNER_NAME} for authors in (known, day)]
    are_strangers = all(others) and not others[0] & others[1]
    shared = len(known.keys() & day.keys())
    return shared > 0 and 2 * shared >= min(len(known), len(day)) and not are_strangers


def _convert_source_memory(row: SourceMemory, source: str, now: datetime) -> Statement:
    return Statement(
        text=row.text,
        at=row.at or now,
        author=row.author,
        id=f"{source}:{row.id}",
        metadata={**row.metadata, "imported_from": source},
        origin=row.origin,
    )


EventPages = AsyncIterator[Sequence[Mapping[str, Any]]]
"""A session's events as properties of nodes, some at a time."""
CONFLICT = "in conflict with the graph"
"""The kind of a session that is left out because the graph has something else under its id."""


@dataclass(frozen=True, slots=True)
class SessionWriter:
    """Writes sessions; with ``remembers`` it also queues what was said in them for memory."""

    memory: GraphMemory
    tally: Tally
    remembers: bool

    async def write_state(self, state: SourceState) -> None:
        """Add what the app's or the user's state lacks; keys that it has keep their values."""
        connection, delta = self.memory.connection, records.encode_state(state.values)
        if state.user_id is None:
            added = await transfer.add_app_state(connection, state.app_name, delta)
        else:
            scope = Scope(state.app_name, state.user_id)
            added = await transfer.add_user_state(connection.user(scope), delta)
        self.tally.count("state_keys", "added", added)

    async def write_session(self, session: SourceSession, pages: EventPages) -> None:
        """Write what the graph lacks of a session.

        Its state is the source's final one. So events are appended without applying their state deltas again: sessions
        come in the order of their ids, and an old one would overwrite the state of the app and of the user.

        Raises:
            errors.InvalidArgument: its id or state cannot be stored.
        """
        scope = Scope(session.app_name, session.user_id)
        id = check_id("session_id", session.id).strip()
        state = records.encode_state(session.state)
        try:
            if session.id_prefix:
                id = await self._choose_id(scope, id, session)
            uid, known_ids, is_new = await self._open_session(scope, id, session, state)
            if session.id_prefix:
                pages = self._drop_changed_events(session, known_ids, pages)
            count = await self._append_events(scope, id, uid, known_ids, pages)
        except errors.ConstraintViolated:
            reason = "the graph has a session with this id that has expired; delete it first"
            self.tally.skip(session.place, CONFLICT, reason)
            return
        except (errors.SessionClosed, errors.InvalidArgument) as error:
            self.tally.skip(session.place, CONFLICT, error.reason or str(error))
            return
        if count > len(known_ids) or (count == len(known_ids) and not session.id_prefix):
            await transfer.finish_session(
                self.memory.connection.user(scope),
                id=id,
                uid=uid,
                revision=count,
                state=state,
                update_time=session.update_time,
            )
        self.tally.count("sessions", "new" if is_new else "extended" if count > len(known_ids) else "known")
        if self.remembers:
            await self._queue_session(scope, id)

    async def _choose_id(self, scope: Scope, id: str, session: SourceSession) -> str:
        """Choose the id of the session in the graph that is this one, or else an id that is free."""
        graph = self.memory.connection.user(scope)
        known = await sessions.fetch_event_authors(graph, prefix=session.id_prefix or id, now=time.time())
        shared = {id: len(authors.keys() & session.authors.keys()) for id, authors in known.items()}
        for same_id in sorted(shared, key=lambda id: -shared[id]):
            if _is_same_day(known[same_id], session.authors):
                return same_id
        ids = (id if number == 1 else f"{id}-{number}" for number in itertools.count(1))
        return next(id for id in ids if not known.get(id))  # an import that was killed leaves a session empty

    async def _drop_changed_events(
        self, session: SourceSession, known_ids: Sequence[str], pages: EventPages
    ) -> EventPages:
        """Yield the session's events as the graph has them, and then those that came since.

        Where the source lost or changed an event, the graph keeps what it has, and its place for all that follows.
        """
        known, order = frozenset(known_ids), list(session.authors)
        last = max((place for place, id in enumerate(order) if id in known), default=-1)
        changed = frozenset(order[: last + 1]) - known
        self.tally.count("events", "known", -len(known.difference(order)))  # of these the source has lost
        yield [{"id": id} for id in known_ids]
        async for page in pages:
            for event in page:
                if event["id"] in changed:
                    said = str(event["text"])[:40]
                    reason = f"the graph has what follows it, but not “{said}”: was it edited or forgotten since?"
                    self.tally.skip(session.place, CONFLICT, reason)
            yield [event for event in page if event["id"] not in known and event["id"] not in changed]

    async def _open_session(
        self, scope: Scope, id: str, session: SourceSession, state: JsonMapDelta
    ) -> tuple[str, Sequence[str], bool]:
        """Find the session in the graph or create it; return its uid, its events' ids, and whether it is new."""
        connection = self.memory.connection
        known = await sessions.fetch_event_ids(connection.user(scope), id=id, now=time.time())
        if known is not None:
            return known[0], known[2], False
        created = await sessions.store_session(
            connection.user(scope),
            id=id,
            uid=uuid.uuid4().hex,
            now=session.create_time,
            app=JsonMapDelta(),
            user=JsonMapDelta(),
            session=state,
        )
        return created.uid, (), True

    async def _append_events(self, scope: Scope, id: str, uid: str, known_ids: Sequence[str], pages: EventPages) -> int:
        """Append the events behind those that the graph has; return how many the source has."""
        count = 0
        async for page in pages:
            known_here = known_ids[count : count + len(page)]
            if [event["id"] for event in page[: len(known_here)]] != list(known_here):
                raise errors.InvalidArgument(reason="the graph's session has other events under this id")
            if new := page[len(known_here) :]:
                is_appended = await sessions.append_messages(
                    self.memory.connection.user(scope),
                    session_id=id,
                    uid=uid,
                    revision=count + len(known_here),
                    events=new,
                )
                if not is_appended:
                    raise errors.InvalidArgument(reason="somebody else appends to it in the graph; import it again")
            self.tally.count("events", "known", len(known_here))
            self.tally.count("events", "new", len(new))
            count += len(page)
        return count

    async def _queue_session(self, scope: Scope, id: str) -> None:
        connection = self.memory.connection
        record = await sessions.fetch_session(connection.user(scope), id=id, now=time.time())
        if record is None:
            return
        turns = records.decode_stored_turns(record, scope.app_name, connection.settings.timezone)
        waiting = await self.memory.user(scope.app_name, scope.user_id).enqueue(turns, session_id=id)
        self.tally.count("turns", "waiting", waiting)


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
    chat: ChatOptions = field(default_factory=partial(ChatOptions, UTC, sets_zone=False))
    """how to read an exported chat; by default as its file says"""


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
        memory = self._memory
        writer = None if memory is None else SessionWriter(memory, self.tally, self._options.remembers)
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
                    encoded.append(records.encode_event(event.body))
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
            Scope(owned.app_name or "", owned.user_id or "").check_authors([owned.author])
            _convert_source_memory(owned, self._options.source, datetime.now(UTC))
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


GOES_ON = "What was imported so far stays, and the same import goes on from there."


async def import_source(
    memory: GraphMemory | None,
    location: str,
    options: ImportOptions,
    on_progress: Callable[[str], None] | None = None,
) -> ImportReceipt:
    """Import the source at a path or URL; without a memory it is only read.

    Raises:
        errors.GraphMemoryError: as :func:`open_source` and the methods of :class:`Importer` do.
    """
    importer = Importer(memory, options, on_progress)
    owner = None if options.app_name is None or options.user_id is None else Scope(options.app_name, options.user_id)
    async with open_source(options.source, location, owner, options.chat) as source:
        try:
            if isinstance(source, ExportFile):
                engine = memory.engine if memory else None
                return await ExportImporter(engine, options.app_name, options.user_id, on_progress).import_file(source)
            if isinstance(source, ChatSource):
                receipt = await importer.import_sessions(source)
                return replace(receipt, speakers=dict(source.speakers.most_common()), period=source.period)
            if isinstance(source, SessionTables):
                return await importer.import_sessions(source)
            return await importer.import_memories(source)
        except (errors.DatabaseUnavailable, errors.EmbeddingError) as error:
            raise error.add_sentence(GOES_ON) from error.__cause__
