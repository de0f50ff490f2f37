"""Read sessions and memories from the databases of ADK's own services, a page at a time.

ADK's own services cannot list their apps, load a session with all its events at once, and write to a database when
they open it. So these are statements of our own, once the tables are known to be those of ADK's present schema.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import unquote

from adk_graph_memory import errors
from adk_graph_memory.adk.importing import records
from adk_graph_memory.adk.importing.records import (
    SourceEvent,
    SourceMemory,
    SourceSession,
    SourceState,
    check_text,
    parse_moment,
)
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import SkippedRow

LOCK_WAIT = 5.0
"""Seconds to wait for another process's lock."""
_MAGIC = b"SQLite format 3\0"
_URL_STARTS = ("sqlite:///", "sqlite+aiosqlite:///")


class QueryRunner(Protocol):
    """A database of ADK's sessions, whatever it is."""

    name: str
    """how messages call it, without a password"""

    async def fetch_rows(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Run a statement and return its rows."""

    async def fetch_columns(self) -> dict[str, set[str]]:
        """Fetch the names of all tables with those of their columns."""

    async def close(self) -> None:
        """Close the connections."""


def parse_sqlite_path(text: str) -> Path | None:
    """Return the path in a ``sqlite:///`` URL as ADK reads it (absolute after a fourth slash), or None for others."""
    for start in _URL_STARTS:
        if text.startswith(start):
            return Path(unquote(text.removeprefix(start).partition("?")[0]))
    return None


class SqliteFile:
    """A SQLite file that is only read.

    Args:
        path: the file.
        expected: what it should be, for the error if it is not.
    """

    def __init__(self, path: Path, expected: str) -> None:
        self.name, self._path, self._expected = str(path), path, expected
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> Self:
        """Open the file.

        Raises:
            errors.NotFound: there is no such file.
            errors.UnreadableTranscript: it is no SQLite database, or it cannot be read.
        """
        if not self._path.is_file():
            message = f"There is no file {self.name}."
            raise errors.NotFound(message, what=f"file {self.name}", where="the path")
        try:
            with self._path.open("rb") as file:
                start = file.read(len(_MAGIC))
        except OSError as error:
            raise make_format_error(self.name, self._expected, error.strerror or str(error)) from error
        if start != _MAGIC[: len(start)]:
            raise make_format_error(self.name, self._expected, f"it is no SQLite database (it starts with {start!r})")
        await self.fetch_rows("SELECT name FROM sqlite_master LIMIT 1", {})
        return self

    async def fetch_rows(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Run a statement and return its rows; text that is no UTF-8 holds surrogates.

        Raises:
            errors.ConfigurationError: another process has locked the file.
            errors.UnreadableTranscript: the file cannot be read.
        """
        try:
            return await asyncio.to_thread(self._fetch_rows, statement, parameters)
        except sqlite3.Error as error:
            if "locked" in str(error) or "busy" in str(error):
                raise errors.ConfigurationError(
                    f"{self.name} is locked by another process ({error}): stop what writes to it, or import a copy "
                    "made while nothing did. What was imported so far stays, and the same import goes on from there.",
                    reason=str(error),
                ) from error
            raise make_format_error(self.name, self._expected, f"SQLite cannot read it ({error})") from error
        except UnicodeEncodeError as error:
            raise make_format_error(self.name, self._expected, "one of its ids is no UTF-8") from error

    def _fetch_rows(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        if self._connection is None:
            address = f"{self._path.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(address, uri=True, timeout=LOCK_WAIT, check_same_thread=False)
            self._connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        cursor = self._connection.execute(statement, parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    async def fetch_columns(self) -> dict[str, set[str]]:
        """Fetch the names of all tables with those of their columns."""
        rows = await self.fetch_rows(
            "SELECT m.name AS table_name, c.name AS column_name FROM sqlite_master m, pragma_table_info(m.name) c "
            "WHERE m.type = 'table'",
            {},
        )
        columns: dict[str, set[str]] = {}
        for row in rows:
            columns.setdefault(row["table_name"], set()).add(row["column_name"])
        return columns

    async def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


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


_DRIVERS = {"postgresql": "asyncpg", "mysql": "aiomysql", "mariadb": "asyncmy", "sqlite": "aiosqlite"}
"""The databases whose SQL our statements are, and an async driver for each."""


class SqlDatabase:
    """A database that SQLAlchemy opens.

    Args:
        url: as for DatabaseSessionService, with an async driver: ``postgresql+asyncpg://user:password@host/name``.

    Raises:
        errors.ConfigurationError: the URL cannot be used, or SQLAlchemy or its driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self._engine, self.name = _open_engine(url)

    async def fetch_rows(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Run a statement and return its rows.

        Raises:
            errors.ConfigurationError: the database cannot be reached, or refuses the statement.
        """
        from sqlalchemy import text
        from sqlalchemy.exc import SQLAlchemyError

        try:
            async with self._engine.connect() as connection:
                result = await connection.execute(text(statement), dict(parameters))
                return [dict(row) for row in result.mappings()]
        except (SQLAlchemyError, OSError) as error:
            raise self._translate_error(error) from error

    async def fetch_columns(self) -> dict[str, set[str]]:
        """Fetch the names of all tables with those of their columns."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import SQLAlchemyError

        def read_columns(connection: Any) -> dict[str, set[str]]:
            tables = inspect(connection)
            return {name: {one["name"] for one in tables.get_columns(name)} for name in tables.get_table_names()}

        try:
            async with self._engine.connect() as connection:
                columns: dict[str, set[str]] = await connection.run_sync(read_columns)
                return columns
        except (SQLAlchemyError, OSError) as error:
            raise self._translate_error(error) from error

    def _translate_error(self, error: Exception) -> errors.ConfigurationError:
        # SQLAlchemy's own message goes on with the statement and its parameters, which are users' ids.
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
        return errors.ConfigurationError(f"{self.name} cannot be read: {reason}", reason=reason)

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()


def _open_engine(url: str) -> tuple[Any, str]:
    """Make an engine, and the name that messages may call it by."""
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError, InvalidRequestError
        from sqlalchemy.ext.asyncio import create_async_engine
    except ImportError as error:
        raise errors.ConfigurationError(
            f"Sessions in such a database are read with SQLAlchemy, which is not installed ({error}): `pip install "
            '"google-adk[db]"`, and an async driver such as asyncpg. SQLite files need neither.',
            reason=str(error),
        ) from error
    try:
        address = make_url(url)
    except ArgumentError as error:  # its message would quote the password
        reason = "it is no SQLAlchemy URL such as postgresql+asyncpg://user:password@host/name"
        raise errors.ConfigurationError(f"The URL cannot be used: {reason}.", reason=reason) from error
    name, kind = address.render_as_string(hide_password=True), address.get_backend_name()
    if kind not in _DRIVERS:
        reason = f"it is of {kind}; sessions are read from {', '.join(_DRIVERS)}"
        raise errors.ConfigurationError(f"{name} cannot be used: {reason}.", reason=reason)
    advice = f"use {kind}+{_DRIVERS[kind]}:// and `pip install {_DRIVERS[kind]}`"
    try:
        return create_async_engine(address), name
    except (ImportError, ArgumentError, InvalidRequestError) as error:
        raise errors.ConfigurationError(
            f"{name} cannot be opened by an async driver ({error}): {advice}.", reason=str(error)
        ) from error


EXPECTED = "the tables of ADK's SqliteMemoryService"
KNOWN_MEMORY_VERSION = "1"
UNKNOWN_SESSION = "__unknown_session_id__"
"""What SqliteMemoryService calls the session of events that came without one."""
_PAGE_SIZE = 100
_EVENT_COLUMNS = {"id", "app_name", "user_id", "session_id", "event_id", "author", "timestamp", "content_json"}
_VERSION = "SELECT value FROM adk_memory_metadata WHERE key = 'schema_version'"
_EVENTS = """
SELECT id, app_name, user_id, session_id, event_id, author, timestamp, content_json FROM memory_events
WHERE id > :id ORDER BY id LIMIT :size"""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """The memories in a file of SqliteMemoryService."""

    database: QueryRunner

    async def check_schema(self) -> None:
        """Make sure that the tables are those that this release knows.

        Raises:
            errors.UnreadableTranscript: they are not; the error says what stands there.
        """
        tables = await self.database.fetch_columns()
        if "adk_memory_metadata" not in tables or not tables.get("memory_events", set()) >= _EVENT_COLUMNS:
            stood = f"it lacks them (its tables: {', '.join(sorted(tables)) or 'none'})"
            raise make_format_error(self.database.name, EXPECTED, stood)
        rows = await self.database.fetch_rows(_VERSION, {})
        version = rows[0]["value"] if rows else "unknown"
        if version != KNOWN_MEMORY_VERSION:
            stood = f"its schema has the version {version}, and this release knows {KNOWN_MEMORY_VERSION}"
            raise make_format_error(self.database.name, EXPECTED, stood)

    async def iterate_memories(self) -> AsyncIterator[SourceMemory | SkippedRow]:
        """Iterate over the memories in the order in which they were added."""
        last = -1
        while rows := await self.database.fetch_rows(_EVENTS, {"id": last, "size": _PAGE_SIZE}):
            for row in rows:
                place = f"{self.database.name}, row {row['id']}"
                try:
                    yield _read_memory(row, place)
                except errors.InvalidArgument as error:
                    yield SkippedRow(place, "unreadable", error.reason)
            last = rows[-1]["id"]


def _read_memory(row: Mapping[str, Any], place: str) -> SourceMemory:
    session_id, event_id = check_text(row["session_id"], "session_id"), check_text(row["event_id"], "event_id")
    metadata = {"source_event_id": event_id}
    if session_id != UNKNOWN_SESSION:
        metadata["source_session_id"] = session_id
    return SourceMemory(
        place,
        json.dumps([session_id, event_id], ensure_ascii=False),
        check_text(records.read_content_text(row["content_json"]), "text"),
        check_text(row["app_name"], "app_name"),
        check_text(row["user_id"], "user_id"),
        parse_moment(row["timestamp"], UTC, "timestamp"),
        row["author"] or None,
        metadata,
    )
