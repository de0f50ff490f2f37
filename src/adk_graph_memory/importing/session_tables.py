"""Read sessions from the tables of ADK's SqliteSessionService and DatabaseSessionService, which are nearly the same.

ADK's own services cannot list their apps, load a session with all its events at once, and write to a database when
they open it. So these are statements of our own, once the tables are known to be those of ADK's present schema.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.importing.source_records import (
    SkippedRow,
    SourceEvent,
    SourceSession,
    SourceState,
    check_text,
    make_format_error,
)
from adk_graph_memory.importing.sqlite_file import QueryRunner

PAGE_SIZE = 100
"""Rows that are read, and events that are written, at a time."""
VERSION_TABLE, KNOWN_VERSION = "adk_internal_metadata", "1"
_COLUMNS = {
    "app_states": {"app_name", "state"},
    "user_states": {"app_name", "user_id", "state"},
    "sessions": {"app_name", "user_id", "id", "state", "create_time", "update_time"},
    "events": {"id", "app_name", "user_id", "session_id", "invocation_id", "timestamp", "event_data"},
}
_APP_STATES = """
SELECT app_name, state FROM app_states WHERE app_name > :app_name ORDER BY app_name LIMIT :size"""
_USER_STATES = """
SELECT app_name, user_id, state FROM user_states
WHERE app_name > :app_name OR (app_name = :app_name AND user_id > :user_id)
ORDER BY app_name, user_id LIMIT :size"""
_SESSIONS = """
SELECT app_name, user_id, id, state, create_time, update_time FROM sessions
WHERE app_name > :app_name OR (app_name = :app_name AND (user_id > :user_id OR (user_id = :user_id AND id > :id)))
ORDER BY app_name, user_id, id LIMIT :size"""
# ADK orders events of the same time by rowid in its SQLite service, and by id in the other.
_FIRST_EVENTS_BY_ROWID = """
SELECT id, invocation_id, timestamp, event_data, rowid AS place FROM events
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
ORDER BY timestamp, rowid LIMIT :size"""
_NEXT_EVENTS_BY_ROWID = """
SELECT id, invocation_id, timestamp, event_data, rowid AS place FROM events
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
AND (timestamp > :timestamp OR (timestamp = :timestamp AND rowid > :place))
ORDER BY timestamp, rowid LIMIT :size"""
_FIRST_EVENTS_BY_ID = """
SELECT id, invocation_id, timestamp, event_data, id AS place FROM events
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
ORDER BY timestamp, id LIMIT :size"""
_NEXT_EVENTS_BY_ID = """
SELECT id, invocation_id, timestamp, event_data, id AS place FROM events
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
AND (timestamp > :timestamp OR (timestamp = :timestamp AND id > :place))
ORDER BY timestamp, id LIMIT :size"""


@dataclass(frozen=True, slots=True)
class SessionTables:
    """The sessions in a database; ``has_version`` if it is DatabaseSessionService's, which names its schema."""

    database: QueryRunner
    has_version: bool = False

    async def check_schema(self) -> None:
        """Make sure that the tables are those that this release knows.

        Raises:
            errors.UnreadableTranscript: they are not; the error says what stands there.
        """
        tables = await self.database.fetch_columns()
        service = "DatabaseSessionService" if self.has_version else "SqliteSessionService"
        expected = f"the tables of ADK's {service}"
        if "events" in tables and "event_data" not in tables["events"] and "actions" in tables["events"]:
            stood = "its events have the old schema, with pickles; run `adk migrate session`, then --from adk-database"
            raise make_format_error(self.database.name, expected, stood)
        for table, columns in _COLUMNS.items():
            if missing := sorted(columns - tables.get(table, set())):
                stood = f"the table {table} lacks {', '.join(missing)}" if table in tables else f"no table {table}"
                listing = ", ".join(sorted(tables)) or "none"
                raise make_format_error(self.database.name, expected, f"{stood} (its tables: {listing})")
        if self.has_version != (VERSION_TABLE in tables):
            other = "adk-sqlite" if self.has_version else "adk-database"
            stood = f"it has {'no' if self.has_version else 'a'} table {VERSION_TABLE}; try --from {other}"
            raise make_format_error(self.database.name, expected, stood)
        if self.has_version:
            await self._check_version(expected)

    async def _check_version(self, expected: str) -> None:
        rows = await self.database.fetch_rows(f"SELECT * FROM {VERSION_TABLE}", {})  # noqa: S608  our own constant
        version = next((row["value"] for row in rows if row["key"] == "schema_version"), "unknown")
        if version != KNOWN_VERSION:
            stood = f"its schema has the version {version}, and this release knows {KNOWN_VERSION}"
            raise make_format_error(self.database.name, expected, stood)

    async def iterate_states(self) -> AsyncIterator[SourceState | SkippedRow]:
        """Iterate over the states of apps, then over those of users."""
        for statement, keys in ((_APP_STATES, ("app_name",)), (_USER_STATES, ("app_name", "user_id"))):
            async for row in self._iterate_rows(statement, keys):
                user_id = row.get("user_id")
                place = f"{self.database.name}, state of {f'user {user_id} of ' if user_id else ''}{row['app_name']}"
                try:
                    app_name = check_text(row["app_name"], "app_name")
                    yield SourceState(place, app_name, user_id, _parse_object(row["state"], "state"))
                except errors.InvalidArgument as error:
                    yield SkippedRow(place, "unreadable", error.reason)

    async def iterate_sessions(self) -> AsyncIterator[SourceSession | SkippedRow]:
        """Iterate over the sessions by app, user and id."""
        async for row in self._iterate_rows(_SESSIONS, ("app_name", "user_id", "id")):
            place = f"{self.database.name}, session {row['id']} of user {row['user_id']} of {row['app_name']}"
            try:
                yield SourceSession(
                    place,
                    check_text(row["app_name"], "app_name"),
                    check_text(row["user_id"], "user_id"),
                    check_text(row["id"], "id"),
                    _parse_object(row["state"], "state"),
                    _parse_time(row["create_time"]),
                    _parse_time(row["update_time"]),
                )
            except errors.InvalidArgument as error:
                yield SkippedRow(place, "unreadable", error.reason)

    async def iterate_event_pages(self, session: SourceSession) -> AsyncIterator[Sequence[SourceEvent | SkippedRow]]:
        """Iterate over a session's events as ADK orders them."""
        by_id = self.has_version
        first, following = (
            (_FIRST_EVENTS_BY_ID, _NEXT_EVENTS_BY_ID) if by_id else (_FIRST_EVENTS_BY_ROWID, _NEXT_EVENTS_BY_ROWID)
        )
        key = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id, "size": PAGE_SIZE}
        rows = await self.database.fetch_rows(first, key)
        while rows:
            yield [_read_event(row, f"{session.place}, event {row['id']}") for row in rows]
            last = {"timestamp": rows[-1]["timestamp"], "place": rows[-1]["place"]}
            rows = await self.database.fetch_rows(following, key | last) if len(rows) == PAGE_SIZE else []

    async def _iterate_rows(self, statement: str, keys: Sequence[str]) -> AsyncIterator[Mapping[str, Any]]:
        """Iterate over the rows by their primary key, a page at a time."""
        last = dict.fromkeys(keys, "")
        while rows := await self.database.fetch_rows(statement, {**last, "size": PAGE_SIZE}):
            for row in rows:
                yield row
            if len(rows) < PAGE_SIZE:
                return
            last = {key: rows[-1][key] for key in keys}


def _read_event(row: Mapping[str, Any], place: str) -> SourceEvent | SkippedRow:
    """Complete an event's JSON from its columns, as DatabaseSessionService does."""
    try:
        data = _parse_object(row["event_data"], "event_data")
        if data.get("timestamp") is None:
            data["timestamp"] = _parse_time(row["timestamp"])
        data |= {"id": check_text(row["id"], "id"), "invocation_id": row["invocation_id"]}
    except errors.InvalidArgument as error:
        return SkippedRow(place, "unreadable", error.reason)
    return SourceEvent(place, json.dumps(data))


def _parse_object(value: object, name: str) -> dict[str, Any]:
    """Parse a JSON object; some databases have parsed it already."""
    try:
        data = json.loads(value) if isinstance(value, str | bytes) else value
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgument(reason=f'its "{name}" is no JSON ({error})') from error
    if not isinstance(data, dict):
        raise errors.InvalidArgument(reason=f'its "{name}" is no JSON object')
    return data


def _parse_time(value: object) -> float:
    """Parse a time: epoch seconds, or UTC without an offset."""
    try:
        if isinstance(value, int | float):
            return float(value)
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as error:
        raise errors.InvalidArgument(reason=f"its time {value!r} cannot be read") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
