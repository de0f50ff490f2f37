"""Read memories from a file of ADK's SqliteMemoryService: the words of events, each with its session and author."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.adk import foreign_records
from adk_graph_memory.importing.source_records import (
    SkippedRow,
    SourceMemory,
    check_text,
    make_format_error,
    parse_moment,
)
from adk_graph_memory.importing.sqlite_file import QueryRunner

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
        check_text(foreign_records.read_content_text(row["content_json"]), "text"),
        check_text(row["app_name"], "app_name"),
        check_text(row["user_id"], "user_id"),
        parse_moment(row["timestamp"], UTC, "timestamp"),
        row["author"] or None,
        metadata,
    )
