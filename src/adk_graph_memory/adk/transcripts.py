"""The text of a file goes in: sessions as ADK writes them come out, and what is wrong with those that are none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from pydantic import ValidationError

from adk_graph_memory import errors
from adk_graph_memory.adk import memory_codec, session_codec

_KEY_SPELLINGS = {"id": "id", "appName": "app_name", "userId": "user_id"}


class TranscriptItem(NamedTuple):
    """A part of the file: where it stands, and what it holds or what is wrong with it."""

    place: str
    value: Any = None
    problem: str = ""


def parse_transcript(
    text: str, name: str, *, app_name: str | None = None, user_id: str | None = None
) -> list[Session | errors.UnreadableTranscript]:
    """The sessions of a file, in its order; in place of one that cannot be read, the error that says why.

    Events that name their ``session_id``, as ``adk run --jsonl`` prints them, are put together to sessions. Of the
    state only the user's time zone is read: what is remembered is what was said.

    Args:
        text: JSON, or JSON Lines.
        name: what errors call the file.
        app_name: instead of the app that the file names.
        user_id: instead of the user that the file names.

    Raises:
        errors.UnreadableTranscript: it is neither JSON nor JSON Lines, or holds nothing.
    """
    owner = {"appName": app_name, "userId": user_id}
    found: list[Session | errors.UnreadableTranscript] = []
    for piece in _group_events(_split_items(text, name)):
        try:
            found.append(_parse_session(piece, {key: value for key, value in owner.items() if value is not None}))
        except errors.UnreadableTranscript as error:
            found.append(error)
    if not found:
        raise errors.UnreadableTranscript(place=name, reason="it holds nothing")
    return found


def _split_items(text: str, name: str) -> list[TranscriptItem]:
    whole = _parse_item(name, text)
    if whole.problem:
        # Not splitlines(): a text may hold other characters that end a line.
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or _parse_item(name, lines[0][1]).problem:
            raise errors.UnreadableTranscript(place=name, reason=whole.problem)
        return [_parse_item(f"{name}, line {number}", line) for number, line in lines]
    if isinstance(whole.value, list):
        return [TranscriptItem(f"{name}, session {number}", value) for number, value in enumerate(whole.value, 1)]
    return [whole]


def _parse_item(place: str, text: str) -> TranscriptItem:
    try:
        return TranscriptItem(place, json.loads(text))
    except (ValueError, RecursionError) as error:
        return TranscriptItem(place, problem=f"it is no JSON ({error})")


def _group_events(pieces: Iterable[TranscriptItem]) -> Iterator[TranscriptItem]:
    """Sessions as they stand, and events put together to the sessions that they name."""
    told: dict[str, TranscriptItem] = {}
    for piece in pieces:
        value = piece.value
        if not isinstance(value, dict) or "events" in value or "author" not in value:
            yield piece
        elif isinstance(id := value.get("session_id"), str):
            told.setdefault(id, TranscriptItem(piece.place, {"id": id, "events": []})).value["events"].append(value)
        else:
            yield TranscriptItem(piece.place, problem='it is an event that names no "session_id"')
    yield from told.values()


def _parse_session(piece: TranscriptItem, owner: dict[str, str]) -> Session:
    value = piece.value
    if piece.problem:
        raise errors.UnreadableTranscript(place=piece.place, reason=piece.problem)
    if not isinstance(value, dict):
        raise errors.UnreadableTranscript(place=piece.place, reason="it is no JSON object")
    named = {**_read_ids(value), **owner}
    for key, option in {"id": "", "appName": " (or --app)", "userId": " (or --user)"}.items():
        if not isinstance(named.get(key), str) or not named[key].strip():
            raise errors.UnreadableTranscript(place=piece.place, reason=f'it names no "{key}"{option}')
    events = [] if value.get("events") is None else value["events"]
    if not isinstance(events, list):
        raise errors.UnreadableTranscript(place=piece.place, reason='its "events" are no list')
    return Session(
        id=named["id"],
        app_name=named["appName"],
        user_id=named["userId"],
        state=_filter_state(value),
        events=[_parse_event(event, f"{piece.place}, event {number}") for number, event in enumerate(events, 1)],
    )


def _read_ids(value: dict[str, Any]) -> dict[str, Any]:
    """Whose session it is; ADK reads the names in either spelling."""
    return {key: value.get(key, value.get(other)) for key, other in _KEY_SPELLINGS.items()}


def _filter_state(value: dict[str, Any]) -> dict[str, Any]:
    """The one value of its state that tells when something was said."""
    state = value.get("state")
    named = state.get(memory_codec.TIMEZONE_KEY) if isinstance(state, dict) else None
    return {} if named is None else {memory_codec.TIMEZONE_KEY: named}


def _parse_event(value: Any, place: str) -> Event:
    """An event with an id and a time of its own: without them it would be another one, and later, every time."""
    if not isinstance(value, dict):
        raise errors.UnreadableTranscript(place=place, reason="it is no JSON object")
    if missing := [key for key in ("id", "author", "timestamp") if not value.get(key)]:
        raise errors.UnreadableTranscript(place=place, reason=f"it has no {' and no '.join(missing)}")
    try:
        return session_codec.decode_event(json.dumps(value))
    except ValidationError as error:
        first = error.errors()[0]
        told = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise errors.UnreadableTranscript(place=place, reason=f"ADK refuses it ({told})") from error
