"""Open our session service and ADK's two, each warm."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from adk_graph_memory import Neo4jSessionService
from adk_graph_memory.runtime.settings import Settings
from benchmarks.latency.speech import copy_events

GRAPH, DATABASE, SQLITE = "graph", "DatabaseSessionService", "SqliteSessionService"
USER = "ada"


@dataclass(frozen=True, slots=True)
class Services:
    """One fresh app on each of the services."""

    by_name: dict[str, BaseSessionService]
    app_name: str = field(default_factory=lambda: f"bench-{uuid.uuid4().hex[:12]}")
    _filled: dict[tuple[str, int], Session] = field(default_factory=dict)

    def __getitem__(self, name: str) -> BaseSessionService:
        return self.by_name[name]

    async def create_session(self, name: str, user_id: str = USER, **options: Any) -> Session:
        """A new, empty session."""
        return await self[name].create_session(app_name=self.app_name, user_id=user_id, **options)

    async def fill(self, name: str, events: list[Event]) -> Session:
        """A new session that holds copies of these events."""
        session = await self.create_session(name)
        for event in copy_events(events):
            await self[name].append_event(session, event)
        return session

    async def fill_once(self, name: str, events: list[Event]) -> Session:
        """A session that was filled once with that many events and is shared by all who ask for such a one."""
        key = name, len(events)
        if key not in self._filled:
            self._filled[key] = await self.fill(name, events)
        return self._filled[key]


@asynccontextmanager
async def open_services(settings: Settings, folder: Path) -> AsyncIterator[Services]:
    """The services, ADK's on SQLite files in the folder."""
    database = DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'database.db'}")
    sqlite = SqliteSessionService(str(folder / "sqlite.db"))
    async with Neo4jSessionService(settings=settings) as graph:
        try:
            await graph.prepare()
            yield Services({GRAPH: graph, DATABASE: database, SQLITE: sqlite})
        finally:
            await database.close()
            await sqlite.close()
