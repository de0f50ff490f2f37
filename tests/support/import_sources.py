"""What other services leave behind, written by ADK's own services where they are at hand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

NOON = 1_770_000_000.0
SCRIPT: dict[tuple[str, str], list[str]] = {
    ("ana maría", "monday: the 1st"): ["My dog Rex is afraid of thunder.", "Rex is six.", "Rex sleeps on the sofa."],
    ("ana maría", "día/2"): ["I moved to Porto."],
    ("bea:2", "monday: the 1st"): ["I keep bees.", "I sell honey."],
    ("bea:2", "empty"): [],
}
"""Two users with a session of the same id, and one in which nothing was said."""


def make_event(id: str, text: str, at: float, delta: dict[str, Any] | None = None) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    actions = EventActions(state_delta=delta or {})
    return Event(id=id, author="user", invocation_id=f"inv-{id}", timestamp=at, content=content, actions=actions)


async def talk(service: BaseSessionService, app_names: Sequence[str]) -> list[Session]:
    """Hold the conversations of the script in each app, with states of all levels; events come at the same times."""
    sessions = []
    for app_name in app_names:
        for (user_id, id), texts in SCRIPT.items():
            state = {"app:theme": "dark", "user:name": user_id, "topic": id, "mood": None}
            session = await service.create_session(app_name=app_name, user_id=user_id, session_id=id, state=state)
            for number, text in enumerate(texts):
                delta = {"turn": number, "app:last": text, "user:last": text}
                event = make_event(f"e {number} · {id}", text, session.last_update_time + number // 2, delta)
                await service.append_event(session, event)
            sessions.append(session)
    return sessions


async def write_sqlite_sessions(path: Path, *app_names: str) -> list[Session]:
    service = SqliteSessionService(str(path))
    sessions = await talk(service, app_names)
    await service.close()
    return sessions


TABLES = """
CREATE TABLE adk_internal_metadata (key VARCHAR(128) PRIMARY KEY, value VARCHAR(256));
CREATE TABLE sessions (app_name VARCHAR(128), user_id VARCHAR(128), id VARCHAR(128), state TEXT, create_time DATETIME,
  update_time DATETIME, PRIMARY KEY (app_name, user_id, id));
CREATE TABLE app_states (app_name VARCHAR(128) PRIMARY KEY, state TEXT, update_time DATETIME);
CREATE TABLE user_states (app_name VARCHAR(128), user_id VARCHAR(128), state TEXT, update_time DATETIME,
  PRIMARY KEY (app_name, user_id));
CREATE TABLE events (id VARCHAR(128), app_name VARCHAR(128), user_id VARCHAR(128), session_id VARCHAR(128),
  invocation_id VARCHAR(256), timestamp DATETIME, event_data TEXT, PRIMARY KEY (id, app_name, user_id, session_id));
INSERT INTO adk_internal_metadata VALUES ('schema_version', '1');
"""
"""The tables of DatabaseSessionService in SQLite."""


def write_database_sessions(path: Path, sessions: Sequence[Session]) -> None:
    """Write sessions as DatabaseSessionService would, which needs SQLAlchemy: times are texts, in UTC."""

    def moment(timestamp: float) -> str:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(TABLES)
        for one in sessions:
            states: dict[str, dict[str, Any]] = {"": {}, "app": {}, "user": {}}
            for key, value in one.state.items():
                level, _, name = key.rpartition(":")
                states[level][name] = value
            app, user, own = (json.dumps(states[level]) for level in ("app", "user", ""))
            key = one.app_name, one.user_id
            updated = moment(one.last_update_time)
            database.execute("INSERT OR REPLACE INTO app_states VALUES (?, ?, ?)", (one.app_name, app, updated))
            database.execute("INSERT OR REPLACE INTO user_states VALUES (?, ?, ?, ?)", (*key, user, updated))
            database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", (*key, one.id, own, updated, updated))
            for event in one.events:
                data = json.dumps(event.model_dump(exclude_none=True, mode="json"))
                row = event.id, *key, one.id, event.invocation_id, moment(event.timestamp), data
                database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)


async def write_sqlite_memory(path: Path, app_name: str) -> None:
    service = SqliteMemoryService(path)
    for (user_id, id), texts in SCRIPT.items():
        events = [make_event(f"e {number}", text, NOON + number) for number, text in enumerate(texts)]
        await service.add_events_to_memory(app_name=app_name, user_id=user_id, events=events, session_id=id)
    await service.close()


def make_mem0_export() -> dict[str, Any]:
    """What Mem0's get_all() returns."""
    return {
        "results": [
            {
                "id": "0f1c: é",
                "memory": "Rex is afraid of thunder",
                "hash": "d41d8cd9",
                "metadata": {"category": "pets"},
                "created_at": "2026-01-05T09:30:00.123456-08:00",
                "updated_at": None,
                "user_id": "ana",
                "agent_id": "vet",
            },
            {
                "id": "2a",
                "memory": "Lives in Porto",
                "created_at": "2026-01-05T09:30:00Z",
                "updated_at": "2026-02-01T10:00:00Z",
                "user_id": "ana",
                "run_id": "r1",
            },
            {"id": "3b", "memory": "Keeps bees", "created_at": "2026-01-06T09:30:00Z", "user_id": "bea"},
        ]
    }


def make_bank_export(app_name: str) -> dict[str, Any]:
    """What Memory Bank's REST API lists."""
    return {
        "memories": [
            {
                "name": "projects/p/locations/l/reasoningEngines/1/memories/11",
                "fact": "Rex is afraid of thunder.",
                "createTime": "2026-01-05T09:30:00.123456789Z",
                "updateTime": "2026-01-06T09:30:00Z",
                "scope": {"app_name": app_name, "user_id": "ana"},
                "topics": [{"managedMemoryTopic": "USER_PREFERENCES"}, {"customMemoryTopicLabel": "pets"}],
                "metadata": {
                    "source": {"stringValue": "chat"},
                    "sure": {"doubleValue": 0.5},
                    "seen": {"boolValue": False},
                },
                "displayName": "Rex",
            },
            {
                "name": "projects/p/locations/l/reasoningEngines/1/memories/12",
                "fact": "I keep bees.",
                "createTime": "2026-01-05T09:30:00Z",
                "updateTime": "2026-01-05T09:30:00Z",
                "scope": {"app_name": app_name, "user_id": "bea"},
            },
        ]
    }
