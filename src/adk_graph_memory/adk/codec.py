"""ADK's types on one side, plain data of ours on the other: events, states, turns and memory entries."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions import _session_util
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.genai import types
from pydantic import ValidationError

from adk_graph_memory.graph.members import Delta
from adk_graph_memory.graph.sessions import StoredSession
from adk_graph_memory.records import Recollection, Statement, Turn

logger = logging.getLogger(__name__)

MAX_ID = 1_024
"""Characters; Neo4j refuses an index key above about 8 kB."""


def checked_id(name: str, value: str) -> str:
    """An id as it is.

    Raises:
        InputValidationError: it is too long to be a key.
    """
    if len(value) > MAX_ID:
        raise InputValidationError(f"{name} has {len(value)} characters; at most {MAX_ID} are possible.")
    return value


# -- events -----------------------------------------------------------------------------------------------------


def event_row(event: Event) -> dict[str, Any]:
    """The event as node properties: its whole JSON, and what is searched by."""
    return {
        "id": checked_id("The event's id", event.id),
        "author": event.author,
        "timestamp": event.timestamp,
        "invocation_id": event.invocation_id,
        "branch": event.branch,
        "text": text_of(event) or None,
        "body": event.model_dump_json(exclude_none=True),
    }


def event_from(body: str) -> Event:
    """The event that a body spells; fields that only a newer ADK knows are left out, with a warning."""
    try:
        return Event.model_validate_json(body)
    except ValidationError as error:
        unknown = [detail["loc"] for detail in error.errors() if detail["type"] == "extra_forbidden"]
        if len(unknown) < error.error_count():
            raise
        logger.warning("Left out of a stored event, unknown to this ADK: %s", unknown)
        return Event.model_validate(_without(json.loads(body), unknown))


def _without(data: dict[str, Any], places: Iterable[tuple[int | str, ...]]) -> dict[str, Any]:
    for *path, last in places:
        holder: Any = data
        for step in path:
            holder = holder[step]
        del holder[last]
    return data


def text_of(event: Event) -> str:
    """What the event says in words: its text parts without thoughts, in Unicode's NFC."""
    return _words(event.content)


def _words(content: types.Content | None) -> str:
    parts = (content.parts if content else None) or []
    spoken = [part.text for part in parts if part.text and not part.thought]
    return unicodedata.normalize("NFC", "\n".join(spoken)).strip()


# -- states -----------------------------------------------------------------------------------------------------


def deltas(state: Mapping[str, Any], drop: Iterable[str] = ()) -> dict[str, Delta]:
    """A state or state delta, split by prefix into those of the app, the user and the session.

    Values that JSON cannot hold become what ADK's own services make of them; ``temp:`` keys are left out.
    """
    values = _session_util.extract_json_safe_state_delta(dict(state))
    dropped = _session_util.extract_state_delta(dict.fromkeys(drop))
    return {level: Delta.of(values[level], dropped[level]) for level in ("app", "user", "session")}


def session_from(stored: StoredSession, app_name: str) -> Session:
    """The stored session as ADK's, with merged state and the revision that guards the next append."""
    state = stored.session_state
    state.update({State.APP_PREFIX + key: value for key, value in stored.app_state.items()})
    state.update({State.USER_PREFIX + key: value for key, value in stored.user_state.items()})
    session = Session(
        id=stored.id,
        app_name=app_name,
        user_id=stored.user_id,
        state=state,
        events=[event_from(body) for body in stored.bodies],
        last_update_time=stored.last_update_time,
    )
    session._storage_update_marker = str(stored.revision)
    return session


# -- turns ------------------------------------------------------------------------------------------------------


def turns(events: Sequence[Event]) -> list[Turn]:
    """What people and agents said in these events; tool traffic, thoughts, errors and system text are no turns."""
    return [
        Turn(
            id=checked_id("The event's id", event.id),
            author=event.author,
            text=text,
            at=datetime.fromtimestamp(event.timestamp, UTC),
            role="user" if event.author == "user" or _role(event) == "user" else "model",
        )
        for event in events
        if not event.partial
        and not event.error_code
        and event.author != "system"
        and not (event.actions and event.actions.compaction)
        and (text := text_of(event))
    ]


def _role(event: Event) -> str | None:
    return event.content.role if event.content else None


# -- memory -----------------------------------------------------------------------------------------------------

INERT = frozenset(
    {
        "ttl",
        "topics",
        "allowed_topics",
        "metadata",
        "metadata_merge_strategy",
        "memory_id",
        "disable_consolidation",
        "enable_consolidation",
        "disable_memory_revisions",
        "revision_labels",
        "revision_ttl",
        "wait_for_completion",
        "force_flush",
    }
)
"""Keys by which Memory Bank is steered; they are taken, and do nothing here yet."""

_warned: set[str] = set()


def metadata(given: Mapping[str, object] | None) -> dict[str, Any]:
    """A caller's metadata in a form that JSON holds, without Memory Bank's own keys (warned of once each)."""
    for key in sorted(INERT.intersection(given or ()) - _warned):
        _warned.add(key)
        logger.warning("custom_metadata[%r] steers Memory Bank and has no effect here yet.", key)
    kept = {key: value for key, value in (given or {}).items() if key not in INERT}
    return _session_util.make_json_safe_state(kept)


def statements(entries: Iterable[MemoryEntry], further: Mapping[str, Any]) -> list[Statement]:
    """Entries told to memory itself; those without words are passed over."""
    return [
        Statement(
            text=text,
            at=_moment(entry.timestamp),
            author=entry.author,
            id=entry.id,
            metadata={**metadata(entry.custom_metadata), **further},
        )
        for entry in entries
        if (text := _words(entry.content))
    ]


def _moment(timestamp: str | None) -> datetime:
    """An entry's time, in UTC unless it names an offset; now where it has none."""
    if timestamp is None:
        return datetime.fromtimestamp(platform_time.get_time(), UTC)
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError as error:
        raise InputValidationError(f"timestamp {timestamp!r} is no ISO 8601 time.") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def entry(memory: Recollection) -> MemoryEntry:
    """A recollection as ADK hands it to a model: text first, and in ``custom_metadata`` where it comes from."""
    about = {
        "kind": memory.kind,
        "score": round(memory.score, 4),
        "session_id": memory.session_id,
        "source_event_ids": list(memory.source_event_ids),
        "quote": memory.quote,
        "valid_from": memory.valid_from.isoformat() if memory.valid_from else None,
        "valid_to": memory.valid_to.isoformat() if memory.valid_to else None,
        "degraded": memory.degraded,
    }
    known = {key: value for key, value in about.items() if value not in (None, [])}
    return MemoryEntry(
        id=memory.id,
        content=types.Content(role="user", parts=[types.Part(text=memory.text)]),
        author=memory.author,
        timestamp=memory.at.isoformat() if memory.at else None,
        custom_metadata={**known, **memory.metadata},
    )
