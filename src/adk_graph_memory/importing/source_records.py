"""What a source yields, one record at a time: sessions, their states, memories, and rows that cannot be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from adk_graph_memory import errors
from adk_graph_memory.records import Origin, check_timezone_aware


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that is left out: its place in the source, what kind of problem it has, and which exactly."""

    place: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of an app, or of one of its users; its keys have no prefix."""

    place: str
    app_name: str
    user_id: str | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session without its events; its state has neither the app's keys nor the user's."""

    place: str
    app_name: str
    user_id: str
    id: str
    state: Mapping[str, Any]
    create_time: float
    update_time: float


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """An event as ADK's JSON."""

    place: str
    body: str


@dataclass(frozen=True, slots=True)
class SourceMemory:
    """A memory: what it says, when, about whom as far as the source tells, and the id that it has there.

    ``origin`` is ``import`` if the source's own model worded it; without, the author tells.
    """

    place: str
    id: str
    text: str
    app_name: str | None = None
    user_id: str | None = None
    at: datetime | None = None
    author: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None


class SessionSource(Protocol):
    """A source of sessions; each iteration starts anew."""

    def iterate_states(self) -> AsyncIterator[SourceState | SkippedRow]:
        """Iterate over the states of apps and users."""

    def iterate_sessions(self) -> AsyncIterator[SourceSession | SkippedRow]:
        """Iterate over the sessions of all apps and users."""

    def iterate_event_pages(self, session: SourceSession) -> AsyncIterator[Sequence[SourceEvent | SkippedRow]]:
        """Iterate over a session's events in ADK's order, some at a time."""


class MemorySource(Protocol):
    """A source of memories."""

    def iterate_memories(self) -> AsyncIterator[SourceMemory | SkippedRow]:
        """Iterate over the memories of all users."""


def make_format_error(place: str, expected: str, stood: str) -> errors.UnreadableTranscript:
    """Make the error for a source that is no such thing: what was expected, and what stood there."""
    message = f"{place} cannot be imported: {stood}. Expected {expected}."
    return errors.UnreadableTranscript(message, place=place, reason=stood)


def check_text(value: object, name: str) -> str:
    """Return a text that Neo4j can keep.

    Raises:
        errors.InvalidArgument: it is no text, it is blank, or it holds what is no Unicode.
    """
    if not isinstance(value, str) or not value.strip():
        raise errors.InvalidArgument(reason=f'it has no "{name}"')
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgument(reason=f'its "{name}" holds what is no Unicode') from error
    return value


def parse_moment(value: object, zone: Any, name: str) -> datetime | None:
    """Parse an ISO 8601 time or epoch seconds; ``zone`` completes a time without an offset.

    Raises:
        errors.InvalidArgument: it is neither, or out of range.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value, zone)
        else:
            moment = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError) as error:
        raise errors.InvalidArgument(reason=f'its "{name}" {value!r} is no ISO 8601 time') from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    check_timezone_aware(moment)
    return moment
