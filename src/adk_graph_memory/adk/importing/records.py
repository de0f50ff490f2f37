"""The records that a source yields one at a time, and the checks on JSON that ADK's own services stored."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Protocol

from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from pydantic import ValidationError

from adk_graph_memory import errors
from adk_graph_memory.adk import memory_codec, session_codec
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.sessions import StoredSession
from adk_graph_memory.language.dates import read_state_zone
from adk_graph_memory.records.reports import SkippedRow
from adk_graph_memory.records.turns import Origin, Turn, check_timezone_aware


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of an app, or of one of its users; its keys have no prefix."""

    place: str
    app_name: str
    user_id: str | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session without its events; its state has neither the app's keys nor the user's.

    One whose id is not the source's own has an ``id_prefix``: it may be any session of the graph whose id begins so.
    What it has in common with them tells; ``authors`` has its events' ids in order, with who said them.
    """

    place: str
    app_name: str
    user_id: str
    id: str
    state: Mapping[str, Any]
    create_time: float
    update_time: float
    id_prefix: str | None = None
    authors: Mapping[str, str] = field(default_factory=dict)


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
    """A source of sessions; each iteration starts from the beginning."""

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
    """Parse an ISO 8601 time or epoch seconds or milliseconds; ``zone`` completes a time without an offset.

    Raises:
        errors.InvalidArgument: it is neither, or out of range.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str) and re.fullmatch(r"(?:\d{9,10}|\d{13})(?:\.\d+)?", value.strip()):
            value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, zone)
        else:
            moment = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError) as error:
        raise errors.InvalidArgument(reason=f'its "{name}" {value!r} is no ISO 8601 time') from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    check_timezone_aware(moment)
    return moment


def encode_event(body: str) -> dict[str, Any]:
    """Encode an event's JSON as the properties of a node.

    Raises:
        errors.InvalidArgument: ADK refuses the event, or it cannot be stored.
    """
    try:
        return session_codec.encode_event(session_codec.decode_event(body))
    except (ValidationError, InputValidationError) as error:
        raise _translate_refusal(error) from error


def encode_state(values: Mapping[str, Any]) -> JsonMapDelta:
    """Encode the state of one level, whose keys have no prefix.

    Raises:
        errors.InvalidArgument: a value cannot be kept as JSON.
    """
    try:
        return JsonMapDelta.from_values(session_codec.convert_to_jsonable(dict(values)))
    except InputValidationError as error:
        raise _translate_refusal(error) from error


def read_content_text(content_json: str) -> str:
    """Read the text of a content, without thoughts; empty if it has none.

    Raises:
        errors.InvalidArgument: it is no content.
    """
    try:
        return session_codec.get_content_text(types.Content.model_validate_json(content_json))
    except ValidationError as error:
        raise _translate_refusal(error) from error


def decode_stored_turns(record: StoredSession, app_name: str, zone: tzinfo) -> Sequence[Turn]:
    """Decode the turns of a stored session, without what a rewind took back; ``zone`` is for states that name none."""
    session = session_codec.decode_session(record, app_name)
    zone = read_state_zone(session.state) or zone
    return memory_codec.split_rewound(session.events, zone=zone, lenient=True)[0]


def _translate_refusal(error: ValidationError | InputValidationError) -> errors.InvalidArgument:
    if not isinstance(error, ValidationError):
        return errors.InvalidArgument(reason=str(error))
    first = error.errors(include_input=False, include_url=False)[0]
    problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return errors.InvalidArgument(reason=f"ADK refuses it ({problem})")
