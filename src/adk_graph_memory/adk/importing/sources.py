"""Open a source by its kind and its path or URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from adk_graph_memory import errors
from adk_graph_memory.adk.importing import databases, json_exports
from adk_graph_memory.adk.importing.chats.forms import FORMS
from adk_graph_memory.adk.importing.chats.messages import ChatOptions
from adk_graph_memory.adk.importing.chats.source import ChatSource
from adk_graph_memory.adk.importing.databases import (
    MemoryEvents,
    QueryRunner,
    SessionTables,
    SqlDatabase,
    SqliteFile,
    parse_sqlite_path,
)
from adk_graph_memory.adk.importing.json_exports import MemoryExport
from adk_graph_memory.memory.imports import ExportFile
from adk_graph_memory.records.scopes import Scope

ADK_SQLITE, ADK_DATABASE, ADK_SQLITE_MEMORY = "adk-sqlite", "adk-database", "adk-sqlite-memory"
MEM0, MEMORY_BANK, EXPORT = "mem0", "memory-bank", "export"
Source = SessionTables | MemoryEvents | MemoryExport | ExportFile | ChatSource


@asynccontextmanager
async def open_source(kind: str, location: str, owner: Scope | None, chat: ChatOptions) -> AsyncIterator[Source]:
    """Open a source, check that it is of this kind, and close it at the end.

    Args:
        kind: one of the names of this module.
        location: a path; for ADK's databases also a URL, as ADK's services take it.
        owner: whose an exported chat becomes.
        chat: how to read it.

    Raises:
        errors.NotFound: there is no such file.
        errors.InvalidArgument: a chat's owner, its user or how it writes days is not clear.
        errors.UnreadableTranscript: it is of another kind, or of a release that this one does not know.
        errors.ConfigurationError: it is locked, the URL cannot be used, or a package is missing.
    """
    if kind in FORMS:
        if owner is None:
            raise errors.InvalidArgument(reason="a chat names no app and no user: give --app and --user")
        if owner.is_shared:
            reason = "a chat becomes a user's sessions, and a memory that users share has none: give --user with a user"
            raise errors.InvalidArgument(reason=reason)
        chat_source = ChatSource(Path(location), kind, owner.app_name, owner.user_id, chat)
        await chat_source.read_chat()
        yield chat_source
        return
    if kind == MEM0:
        yield MemoryExport(Path(location), json_exports.MEM0)
        return
    if kind == EXPORT:
        yield ExportFile(Path(location))
        return
    if kind == MEMORY_BANK:
        yield MemoryExport(Path(location), json_exports.MEMORY_BANK)
        return
    database = _open_database(kind, location)
    try:
        if isinstance(database, SqliteFile):
            await database.open()
        source: SessionTables | MemoryEvents = (
            MemoryEvents(database)
            if kind == ADK_SQLITE_MEMORY
            else SessionTables(database, has_version=kind == ADK_DATABASE)
        )
        await source.check_schema()
        yield source
    finally:
        await database.close()


def _open_database(kind: str, location: str) -> QueryRunner:
    expected = {
        ADK_SQLITE: "a file of ADK's SqliteSessionService",
        ADK_DATABASE: "a database of ADK's DatabaseSessionService",
        ADK_SQLITE_MEMORY: databases.EXPECTED,
    }[kind]
    path = parse_sqlite_path(location)
    if path is None and not (kind == ADK_DATABASE and "://" in location):
        path = Path(location)
    return SqliteFile(path, expected) if path else SqlDatabase(location)
