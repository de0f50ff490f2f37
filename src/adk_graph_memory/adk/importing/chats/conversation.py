"""The project's own form of a conversation: sessions of turns as JSON, and questions about them for the demo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo
from typing import Literal

from google.adk.events.event import Event
from google.genai import types
from pydantic import AwareDatetime, BaseModel

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.chats.files import ChatFiles, get_id, list_rows, part_objects
from adk_graph_memory.adk.importing.chats.messages import USER_AUTHOR, ChatOptions, Row, make_message
from adk_graph_memory.language.dates import parse_timezone
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import SkippedRow

Role = Literal["user", "model"]


def choose_role(author: object, role: Role | None) -> Role:
    """Choose the role of a turn that may name none: whoever is not called ``user`` is then an agent."""
    return role or ("user" if author == USER_AUTHOR else "model")


class ConversationTurn(BaseModel):
    """What a speaker said, and when."""

    author: str
    at: AwareDatetime
    text: str
    role: Role | None = None

    def make_event(self, id: str) -> Event:
        """Make the event that ADK's Runner would have stored for this turn."""
        return Event(
            id=id,
            invocation_id=id,
            author=self.author,
            timestamp=self.at.timestamp(),
            content=types.Content(role=choose_role(self.author, self.role), parts=[types.Part(text=self.text)]),
        )


class ConversationSession(BaseModel):
    """A session's id and its turns in order."""

    id: str
    turns: list[ConversationTurn]

    def make_events(self) -> list[Event]:
        """Make the events of the session's turns; a question's ``evidence`` names them by these ids."""
        return [turn.make_event(f"{self.id}#{i}") for i, turn in enumerate(self.turns)]


class ConversationQuestion(BaseModel):
    """A question, its answer, and the ids of the events that contain the answer."""

    question: str
    answer: str = ""
    evidence: list[str] = []
    kind: str = ""


class Conversation(BaseModel):
    """A user's sessions with an agent or with other people, and questions about them."""

    title: str
    about: str = ""
    app_name: str
    user_id: str
    timezone: str = "UTC"
    sessions: list[ConversationSession]
    questions: list[ConversationQuestion] = []

    @property
    def zone(self) -> tzinfo:
        """The time zone of the speakers."""
        return parse_timezone(self.timezone)


def read_conversation(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read a conversation; a turn that the demo would refuse is left out, and a time may lack its offset."""
    expected = 'a conversation such as {"sessions": [{"id": "monday", "turns": [{"author": …, "at": …, "text": …}]}]}'
    rows = files.read_rows(files.find_only_name(r"\.json$", expected), expected)
    conversations, others = part_objects(rows, "sessions", list).check(expected)
    yield from others
    for place, conversation in conversations:
        own_options = options
        if not options.sets_zone and (zone := conversation.get("timezone")):
            try:
                own_options = replace(options, zone=parse_timezone(zone))
            except errors.UnknownTimezone as error:
                raise make_format_error(place, expected, str(error)) from error
        sessions, others = part_objects(list_rows(conversation["sessions"], place, "session"), "turns", list)
        yield from others
        for here, session in sessions:
            id = get_id(session, "id")
            turns, others = part_objects(list_rows(session["turns"], here, "turn"))
            yield from others
            for spot, turn in turns:
                author, role = turn.get("author"), turn.get("role")
                if role not in (None, "user", "model"):
                    yield SkippedRow(spot, "unreadable", f"its role is {role!r}, and not user or model"[:80])
                    continue
                is_agent = choose_role(author, role) == "model"
                session_id = f"conversation-{id}" if id else None
                yield make_message(
                    spot,
                    author,
                    turn.get("text"),
                    turn.get("at"),
                    own_options,
                    is_agent=is_agent,
                    session_id=session_id,
                )
