"""Tell a conversation to ADK's memory services, session by session, as a Runner would."""

from __future__ import annotations

from collections.abc import AsyncIterator

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types

from benchmarks.quality.dialogue import Conversation, Turn


async def store_sessions(
    conversation: Conversation, sessions: BaseSessionService, *, app_name: str
) -> AsyncIterator[Session]:
    """The conversation's sessions, oldest first, each stored; the conversation is the user."""
    for dialogue in conversation.sessions:
        session = await sessions.create_session(app_name=app_name, user_id=conversation.id, session_id=dialogue.id)
        for turn in dialogue.turns:
            await sessions.append_event(session, _make_event(turn))
        yield session


async def remember(
    conversation: Conversation, sessions: BaseSessionService, memory: BaseMemoryService, *, app_name: str
) -> list[Session]:
    """Stores the conversation and adds every session to memory when it is complete."""
    added = []
    async for session in store_sessions(conversation, sessions, app_name=app_name):
        await memory.add_session_to_memory(session)
        added.append(session)
    return added


def _make_event(turn: Turn) -> Event:
    return Event(
        id=turn.id,
        author=turn.author,
        invocation_id=turn.id,
        timestamp=turn.at.timestamp(),
        content=types.Content(role=turn.role, parts=[types.Part(text=turn.text)]),
    )
