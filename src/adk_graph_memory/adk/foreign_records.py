"""Check and convert what ADK's own services stored elsewhere: every refusal is an ``errors.InvalidArgument``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from pydantic import ValidationError

from adk_graph_memory import errors
from adk_graph_memory.adk import memory_codec, session_codec
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.sessions import StoredSession
from adk_graph_memory.language.zones import read_state_zone
from adk_graph_memory.records import Turn


def encode_event(body: str) -> dict[str, Any]:
    """Encode an event's JSON as the properties of a node.

    Raises:
        errors.InvalidArgument: ADK refuses the event, or it cannot be stored.
    """
    try:
        return session_codec.encode_event(session_codec.decode_event(body))
    except (ValidationError, InputValidationError) as error:
        raise _make_refusal(error) from error


def encode_state(values: Mapping[str, Any]) -> JsonMapDelta:
    """Encode the state of one level, whose keys have no prefix.

    Raises:
        errors.InvalidArgument: a value cannot be kept as JSON.
    """
    try:
        return JsonMapDelta.from_values(session_codec.make_jsonable(dict(values)))
    except InputValidationError as error:
        raise _make_refusal(error) from error


def read_content_text(content_json: str) -> str:
    """Read the text of a content, without thoughts; empty if it has none.

    Raises:
        errors.InvalidArgument: it is no content.
    """
    try:
        return session_codec.get_content_text(types.Content.model_validate_json(content_json))
    except ValidationError as error:
        raise _make_refusal(error) from error


def make_stored_turns(record: StoredSession, app_name: str, zone: tzinfo) -> Sequence[Turn]:
    """Make the turns of a stored session, without what a rewind took back; ``zone`` is used if its state names none."""
    session = session_codec.decode_session(record, app_name)
    zone = read_state_zone(session.state) or zone
    return memory_codec.split_rewound(session.events, zone=zone, lenient=True)[0]


def _make_refusal(error: ValidationError | InputValidationError) -> errors.InvalidArgument:
    if not isinstance(error, ValidationError):
        return errors.InvalidArgument(reason=str(error))
    first = error.errors(include_input=False, include_url=False)[0]
    problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return errors.InvalidArgument(reason=f"ADK refuses it ({problem})")
