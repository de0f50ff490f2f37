"""Load a conversation with its questions from a JSON file and convert it to ADK events."""

from __future__ import annotations

from datetime import tzinfo
from importlib import resources
from pathlib import Path
from typing import Literal

from google.adk.events.event import Event
from google.genai import types
from pydantic import AwareDatetime, BaseModel, ValidationError

from adk_graph_memory import errors
from adk_graph_memory.language.dates import parse_timezone


class ConversationTurn(BaseModel):
    """What a speaker said, and when."""

    author: str
    at: AwareDatetime
    text: str
    role: Literal["user", "model"] | None = None

    def make_event(self, id: str) -> Event:
        """Make the event that ADK's Runner would have stored for this turn."""
        role = self.role or ("user" if self.author == "user" else "model")
        return Event(
            id=id,
            invocation_id=id,
            author=self.author,
            timestamp=self.at.timestamp(),
            content=types.Content(role=role, parts=[types.Part(text=self.text)]),
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


def load_conversation(path: Path | None = None) -> Conversation:
    """Load the conversation in a file, by default the one that ships with the package.

    Raises:
        errors.InvalidArgument: the file cannot be read, or does not fit the schema.
    """
    try:
        source = path or resources.files(__package__) / "conversation.json"
        return Conversation.model_validate_json(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.InvalidArgument(reason=f"{path} cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise errors.InvalidArgument(
            reason=f"{path} is not a conversation as the demo reads it ({place}: {first['msg']})"
        ) from error
