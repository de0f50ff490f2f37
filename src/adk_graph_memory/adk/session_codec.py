"""ADK's sessions, events and states on one side, what the graph stores of them on the other."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.sessions import _session_util
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.genai import types
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.sessions import StoredSession

logger = logging.getLogger(__name__)

_LENIENT_OPTIONS: dict[str, Any] = {"bytes_mode": "base64", "serialize_unknown": True}
"""How to write what ADK's own conversion gives up on: bytes that are no text."""

_MAX_DEPTH = 100
"""Levels of JSON that can be read again for sure; pydantic gives up behind some two hundred."""

_MAX_TIMESTAMP = 253_370_764_800.0

MAX_ID_LENGTH = 1_024
"""Characters; Neo4j refuses an index key above about 8 kB."""


def check_id(name: str, value: str) -> str:
    """An id as it is.

    Raises:
        InputValidationError: it is too long to be a key.
    """
    if len(value) > MAX_ID_LENGTH:
        raise InputValidationError(f"{name} has {len(value)} characters; at most {MAX_ID_LENGTH} are possible.")
    return value


def check_timestamp(event: Event) -> float:
    """The event's time as it is.

    Raises:
        InputValidationError: it is no time in seconds.
    """
    if not 0 <= event.timestamp < _MAX_TIMESTAMP:
        raise InputValidationError(
            f"Event {event.id} has the timestamp {event.timestamp}; seconds since 1970 are wanted, up to the year 9998."
        )
    return event.timestamp


# -- events -----------------------------------------------------------------------------------------------------


def encode_event(event: Event) -> dict[str, Any]:
    """The event as node properties: its whole JSON, and what is searched by.

    Raises:
        InputValidationError: the id is too long, the time is no number, or a text is no Unicode.
    """
    return {
        "id": check_id("The event's id", event.id),
        "author": event.author,
        "timestamp": check_timestamp(event),
        "invocation_id": event.invocation_id,
        "branch": event.branch,
        "text": get_event_text(event) or None,
        "body": _encode_body(event),
    }


def _encode_body(event: Event) -> str:
    try:
        body, is_checked = event.model_dump_json(exclude_none=True, by_alias=True), False
    except RecursionError as error:
        raise InputValidationError(f"Event {event.id} is nested too deep to be kept as JSON.") from error
    except (ValueError, UnicodeError):  # pydantic's own errors are ValueErrors
        body, is_checked = _encode_leniently(event), True
    if is_checked or body.count("{") + body.count("[") > _MAX_DEPTH:
        _check_readable(event, body)
    return body


def _encode_leniently(event: Event) -> str:
    try:
        return json.dumps(to_jsonable_python(event.model_dump(exclude_none=True, by_alias=True), **_LENIENT_OPTIONS))
    except (ValueError, RecursionError) as error:
        raise InputValidationError(f"Event {event.id} cannot be kept as JSON: {error}.") from error


def _check_readable(event: Event, body: str) -> None:
    """A session that holds an event which cannot be read again is lost as a whole."""
    try:
        decode_event(body)
    except ValidationError as error:
        kinds = {detail["msg"] for detail in error.errors(include_input=False, include_url=False)}
        if any("recursion" in kind for kind in kinds):
            raise InputValidationError(f"Event {event.id} is nested too deep to be read again.") from error
        raise InputValidationError(f"Event {event.id} holds text that is no Unicode (a lone surrogate).") from error


def decode_event(body: str) -> Event:
    """The event that a body spells; fields that only a newer ADK knows are left out, with a warning."""
    try:
        return Event.model_validate_json(body)
    except ValidationError as error:
        unknown = [detail["loc"] for detail in error.errors() if detail["type"] == "extra_forbidden"]
        if len(unknown) < error.error_count():
            raise
        logger.warning("Left out of a stored event, unknown to this ADK: %s", unknown)
        return Event.model_validate(_delete_paths(json.loads(body), unknown))


def _delete_paths(data: dict[str, Any], places: Iterable[tuple[int | str, ...]]) -> dict[str, Any]:
    for *path, last in places:
        holder: Any = data
        for step in path:
            holder = holder[step]
        del holder[last]
    return data


def get_event_text(event: Event) -> str:
    """What the event says in words: its text parts without thoughts, in Unicode's NFC."""
    return get_content_text(event.content)


def get_content_text(content: types.Content | None) -> str:
    """The text parts without thoughts, in Unicode's NFC."""
    parts = (content.parts if content else None) or []
    spoken = [part.text for part in parts if part.text and not part.thought]
    return unicodedata.normalize("NFC", "\n".join(spoken)).strip()


# -- states -----------------------------------------------------------------------------------------------------


def split_state(state: Mapping[str, Any], drop: Iterable[str] = ()) -> dict[str, JsonMapDelta]:
    """A state or state delta, split by prefix into those of the app, the user and the session.

    Values that JSON cannot hold become what ADK's own services make of them; ``temp:`` keys are left out.
    """
    values = make_jsonable(_session_util.extract_state_delta(dict(state)))
    dropped = _session_util.extract_state_delta(dict.fromkeys(drop))
    return {level: JsonMapDelta.from_values(values[level], dropped[level]) for level in ("app", "user", "session")}


def make_jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """The values as ADK's own services would make JSON of them, whatever they are.

    Raises:
        InputValidationError: one contains itself, or is nested too deep.
    """
    try:
        return _session_util.make_json_safe_state(values)
    except (ValueError, RecursionError):  # pydantic's own errors are ValueErrors
        pass
    try:
        return dict(to_jsonable_python(values, **_LENIENT_OPTIONS))
    except (ValueError, RecursionError) as error:
        raise InputValidationError(f"A value cannot be kept as JSON: {error}.") from error


def decode_session(stored: StoredSession, app_name: str) -> Session:
    """The stored session as ADK's, with merged state and the revision that guards the next append."""
    state = stored.session_state
    if stored.app_state:
        state.update({State.APP_PREFIX + key: value for key, value in stored.app_state.items()})
    if stored.user_state:
        state.update({State.USER_PREFIX + key: value for key, value in stored.user_state.items()})
    session = Session(
        id=stored.id,
        app_name=app_name,
        user_id=stored.user_id,
        state=state,
        events=[decode_event(body) for body in stored.event_bodies],
        last_update_time=stored.last_update_time,
    )
    set_revision_marker(session, stored.uid, stored.revision)
    return session


def set_revision_marker(session: Session, uid: str, revision: int) -> None:
    """Notes on the session object which stored session it is, and at which revision."""
    session._storage_update_marker = f"{uid}@{revision}"


def get_revision_marker(session: Session) -> tuple[str | None, int | None]:
    """The stored session and the revision that the object was loaded at; None for one that was built elsewhere."""
    uid, _, revision = (session._storage_update_marker or "").rpartition("@")
    return (uid, int(revision)) if uid else (None, None)
