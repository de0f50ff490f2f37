"""Convert ADK's sessions, events and states to what the graph stores, and back."""

from __future__ import annotations

import json
import logging
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.genai import types
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from adk_graph_memory import errors
from adk_graph_memory.adk import _compat
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.sessions import StoredSession
from adk_graph_memory.language.dates import parse_duration
from adk_graph_memory.records import scopes

logger = logging.getLogger(__name__)
_LENIENT_OPTIONS: dict[str, Any] = {"bytes_mode": "base64", "serialize_unknown": True}
"""Options for values that ADK's own conversion rejects, such as bytes that are not UTF-8."""

_MAX_DEPTH = 100
"""Levels of JSON that can certainly be read again; pydantic fails beyond about two hundred."""

_MAX_TIMESTAMP = 253_370_764_800.0


def check_id(name: str, value: str, *others: str) -> str:
    """Return the id, or raise an error that calls it, and the others that are indexed with it, ``name``.

    Raises:
        InputValidationError: it is too long to be stored.
    """
    try:
        return scopes.check_id(name, value, *others)
    except errors.InvalidArgument as error:
        raise InputValidationError(f"{error.reason}.") from error


def check_timestamp(event: Event) -> float:
    """Return the event's timestamp, or raise if it is out of range.

    Raises:
        InputValidationError: it does not lie between 1970 and the year 9998.
    """
    if not 0 <= event.timestamp < _MAX_TIMESTAMP:
        raise InputValidationError(
            f"Event {event.id} has the timestamp {event.timestamp}; seconds since 1970 are wanted, up to the year 9998."
        )
    return event.timestamp


# -- events -----------------------------------------------------------------------------------------------------


def encode_event(event: Event) -> dict[str, Any]:
    """Encode the event as node properties: its JSON, and the properties that queries use.

    Raises:
        InputValidationError: the id is too long, the timestamp is out of range, or the event is not valid JSON.
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
    """Reject an event that could be written but not read: it would make the whole session unreadable."""
    try:
        decode_event(body)
    except ValidationError as error:
        messages = {detail["msg"] for detail in error.errors(include_input=False, include_url=False)}
        if any("recursion" in message for message in messages):
            raise InputValidationError(f"Event {event.id} is nested too deep to be read again.") from error
        raise InputValidationError(f"Event {event.id} holds text that is no Unicode (a lone surrogate).") from error


def decode_event(body: str) -> Event:
    """Decode an event's JSON; fields that only a newer ADK knows are dropped with a warning."""
    try:
        return Event.model_validate_json(body)
    except ValidationError as error:
        unknown_fields = [detail["loc"] for detail in error.errors() if detail["type"] == "extra_forbidden"]
        if len(unknown_fields) < error.error_count():
            raise
        logger.warning("Fields of a stored event that this ADK does not know were left out: %s", unknown_fields)
        return Event.model_validate(_delete_paths(json.loads(body), unknown_fields))


def _delete_paths(data: dict[str, Any], paths: Iterable[tuple[int | str, ...]]) -> dict[str, Any]:
    for *parents, last in paths:
        container: Any = data
        for key in parents:
            container = container[key]
        del container[last]
    return data


def get_event_text(event: Event) -> str:
    """The text of an event: what its content says, or in a live session the transcript of what was spoken.

    A transcript that is not finished comes again, whole.
    """
    transcripts = (event.input_transcription, event.output_transcription)
    spoken = [one.text for one in transcripts if one and one.text and one.finished is not False]
    return get_content_text(event.content) or unicodedata.normalize("NFC", "\n".join(spoken)).strip()


def get_content_text(content: types.Content | None) -> str:
    """Join the content's text parts, without thoughts, in Unicode's NFC."""
    parts = (content.parts if content else None) or []
    texts = [part.text for part in parts if part.text and not part.thought]
    return unicodedata.normalize("NFC", "\n".join(texts)).strip()


# -- states -----------------------------------------------------------------------------------------------------


_NO_DELTAS = dict.fromkeys(("app", "user", "session"), JsonMapDelta())


def split_state(state: Mapping[str, Any], drop: Sequence[str] = ()) -> dict[str, JsonMapDelta]:
    """Split a state or state delta by prefix into deltas for the levels "app", "user" and "session".

    Values are converted to JSON as by ADK's own services; ``temp:`` keys are left out, and ``drop`` keys deleted.
    """
    if not state and not drop:  # so it is for most events
        return dict(_NO_DELTAS)
    values = convert_to_jsonable(_compat.extract_state_delta(dict(state)))
    dropped = _compat.extract_state_delta(dict.fromkeys(drop))
    return {level: JsonMapDelta.from_values(values[level], dropped[level]) for level in _NO_DELTAS}


def convert_to_jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """Convert values to JSON as ADK's own services do; what those reject is converted leniently.

    Raises:
        InputValidationError: a value contains itself, or is nested too deep.
    """
    try:
        return _compat.make_json_safe_state(values)
    except (ValueError, RecursionError):  # pydantic's own errors are ValueErrors
        pass
    try:
        return dict(to_jsonable_python(values, **_LENIENT_OPTIONS))
    except (ValueError, RecursionError) as error:
        raise InputValidationError(f"A value cannot be kept as JSON: {error}.") from error


def decode_session(record: StoredSession, app_name: str) -> Session:
    """Make ADK's session with the merged state, and mark it with the revision that the next append checks."""
    state = record.session_state
    if record.app_state:
        state.update({State.APP_PREFIX + key: value for key, value in record.app_state.items()})
    if record.user_state:
        state.update({State.USER_PREFIX + key: value for key, value in record.user_state.items()})
    session = Session.model_validate(  # a listing makes hundreds; keyword arguments take a third longer
        {
            "id": record.id,
            "app_name": app_name,
            "user_id": record.user_id,
            "state": state,
            "events": [decode_event(body) for body in record.event_bodies],
            "last_update_time": record.last_update_time,
        }
    )
    set_revision_marker(session, record.uid, record.revision)
    return session


def set_revision_marker(session: Session, uid: str, revision: int) -> None:
    """Mark the session object with the stored session's uid and revision."""
    _compat.set_update_marker(session, f"{uid}@{revision}")


def get_revision_marker(session: Session) -> tuple[str | None, int | None]:
    """Return the uid and revision that the object was loaded with; (None, None) if it was built elsewhere."""
    uid, _, revision = (_compat.get_update_marker(session) or "").rpartition("@")
    return (uid, int(revision)) if uid else (None, None)


# -- expiry -----------------------------------------------------------------------------------------------------


def parse_expiry(
    now: float, ttl: float | str | timedelta | None, expire_time: float | str | datetime | None
) -> float | None:
    """Return the expiry time in epoch seconds, ``now`` plus ``ttl`` or ``expire_time``; None if neither is given.

    Raises:
        InputValidationError: both are given, or one cannot be parsed.
    """
    if ttl is not None and expire_time is not None:
        raise InputValidationError("Give ttl or expire_time, not both.")
    try:
        if isinstance(expire_time, bool) or not isinstance(expire_time, int | float | str | datetime | None):
            raise ValueError("no time")
        if ttl is not None:
            expires_at: float | None = now + parse_duration(ttl)
        elif expire_time is None or isinstance(expire_time, int | float):
            expires_at = expire_time
        else:
            moment = datetime.fromisoformat(expire_time) if isinstance(expire_time, str) else expire_time
            expires_at = moment.timestamp()
        if expires_at is not None and not math.isfinite(expires_at):
            raise ValueError("not finite")
        return expires_at
    except (ValueError, OverflowError) as error:
        raise InputValidationError(
            f"ttl={ttl!r}, expire_time={expire_time!r}: give seconds (3600 or '3600s'), a text like 30d, or an ISO "
            "8601 time."
        ) from error
