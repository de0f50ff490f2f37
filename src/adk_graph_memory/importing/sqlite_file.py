"""Read a SQLite file that another program may be using: read-only, a page at a time, never locked for long."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import unquote

from adk_graph_memory import errors
from adk_graph_memory.importing.source_records import make_format_error

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
