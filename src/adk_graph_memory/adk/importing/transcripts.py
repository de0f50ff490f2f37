"""Parse exported ADK sessions from JSON or JSON Lines, with an error for each one that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from pydantic import ValidationError

from adk_graph_memory import errors
from adk_graph_memory.adk import session_codec
from adk_graph_memory.language.dates import TIMEZONE_KEY

_KEY_SPELLINGS = {"id": "id", "appName": "app_name", "userId": "user_id"}
"""Like ADK, the keys of ids may be in camelCase or in snake_case."""


class TranscriptItem(NamedTuple):
    """A part of the file: its place, and either its value or the problem with it."""

    place: str
    value: Any = None
    problem: str = ""


def parse_transcript(
    text: str, name: str, *, app_name: str | None = None, user_id: str | None = None
) -> list[Session | errors.UnreadableTranscript]:
    """Parse the sessions of a file in order; an error takes the place of a session that cannot be read.

    Single events that name their ``session_id``, as ``adk run --jsonl`` prints them, are grouped into sessions. Of a
    session's state only the user's time zone is read, because memory holds only what was said.

    Args:
        text: JSON, or JSON Lines.
        name: the file's name in error messages.
        app_name: replaces the app that the file names.
        user_id: replaces the user that the file names.

    Raises:
        errors.UnreadableTranscript: the text is neither JSON nor JSON Lines, or contains no session.
    """
    overrides = {key: value for key, value in (("appName", app_name), ("userId", user_id)) if value is not None}
    results: list[Session | errors.UnreadableTranscript] = []
    for item in _group_events(_split_items(text, name)):
        try:
            results.append(_parse_session(item, overrides))
        except errors.UnreadableTranscript as error:
            results.append(error)
    if not results:
        raise errors.UnreadableTranscript(place=name, reason="it holds nothing")
    return results


def _split_items(text: str, name: str) -> list[TranscriptItem]:
    document = _parse_item(name, text)
    if document.problem:
        # Not splitlines(): JSON strings may contain other line separators.
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or _parse_item(name, lines[0][1]).problem:
            raise errors.UnreadableTranscript(place=name, reason=document.problem)
        return [_parse_item(f"{name}, line {number}", line) for number, line in lines]
    if isinstance(document.value, list):
        return [TranscriptItem(f"{name}, session {number}", value) for number, value in enumerate(document.value, 1)]
    return [document]


def _parse_item(place: str, text: str) -> TranscriptItem:
    try:
        return TranscriptItem(place, json.loads(text))
    except (ValueError, RecursionError) as error:
        return TranscriptItem(place, problem=f"it is not JSON ({error})")


def _group_events(items: Iterable[TranscriptItem]) -> Iterator[TranscriptItem]:
    """Yield sessions unchanged, then single events grouped by the session that they name."""
    sessions: dict[str, TranscriptItem] = {}
    for item in items:
        value = item.value
        if not isinstance(value, dict) or "events" in value or "author" not in value:
            yield item
        elif isinstance(id := value.get("session_id"), str):
            sessions.setdefault(id, TranscriptItem(item.place, {"id": id, "events": []})).value["events"].append(value)
        else:
            yield TranscriptItem(item.place, problem='it is an event that names no "session_id"')
    yield from sessions.values()


def _parse_session(item: TranscriptItem, overrides: dict[str, str]) -> Session:
    value = item.value
    if item.problem:
        raise errors.UnreadableTranscript(place=item.place, reason=item.problem)
    if not isinstance(value, dict):
        raise errors.UnreadableTranscript(place=item.place, reason="it is not a JSON object")
    ids: dict[str, Any] = {key: value.get(key, value.get(other)) for key, other in _KEY_SPELLINGS.items()}
    ids |= overrides
    for key, option in {"id": "", "appName": " (or --app)", "userId": " (or --user)"}.items():
        if not isinstance(ids.get(key), str) or not ids[key].strip():
            raise errors.UnreadableTranscript(place=item.place, reason=f'it names no "{key}"{option}')
    events = [] if value.get("events") is None else value["events"]
    if not isinstance(events, list):
        raise errors.UnreadableTranscript(place=item.place, reason='its "events" are not a list')
    state = value.get("state")
    timezone = state.get(TIMEZONE_KEY) if isinstance(state, dict) else None
    return Session(
        id=ids["id"],
        app_name=ids["appName"],
        user_id=ids["userId"],
        state={} if timezone is None else {TIMEZONE_KEY: timezone},
        events=[_parse_event(event, f"{item.place}, event {number}") for number, event in enumerate(events, 1)],
    )


def _parse_event(value: Any, place: str) -> Event:
    """Parse an event; ADK would replace a missing id or timestamp by a new one at each import, so both are required."""
    if not isinstance(value, dict):
        raise errors.UnreadableTranscript(place=place, reason="it is not a JSON object")
    if missing := [key for key in ("id", "author", "timestamp") if not str(value.get(key) or "").strip()]:
        raise errors.UnreadableTranscript(place=place, reason=f"it has no {' and no '.join(missing)}")
    try:
        return session_codec.decode_event(json.dumps(value))
    except ValidationError as error:
        first = error.errors()[0]
        problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise errors.UnreadableTranscript(place=place, reason=f"ADK refuses it ({problem})") from error
