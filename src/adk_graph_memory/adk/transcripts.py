"""The text of a file goes in: sessions as ADK writes them come out, and what is wrong with those that are none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from pydantic import ValidationError

from adk_graph_memory import errors
from adk_graph_memory.adk import codec, entries

_SPELLINGS = {"id": "id", "appName": "app_name", "userId": "user_id"}


class Piece(NamedTuple):
    """A part of the file: where it stands, and what it holds or what is wrong with it."""

    place: str
    value: Any = None
    wrong: str = ""


def read(
    text: str, name: str, *, app_name: str | None = None, user_id: str | None = None
) -> list[Session | errors.Unreadable]:
    """The sessions of a file, in its order; in place of one that cannot be read, the error that says why.

    Events that name their ``session_id``, as ``adk run --jsonl`` prints them, are put together to sessions. Of the
    state only the user's time zone is read: what is remembered is what was said.

    Args:
        text: JSON, or JSON Lines.
        name: what errors call the file.
        app_name: instead of the app that the file names.
        user_id: instead of the user that the file names.

    Raises:
        errors.Unreadable: it is neither JSON nor JSON Lines, or holds nothing.
    """
    owner = {"appName": app_name, "userId": user_id}
    found: list[Session | errors.Unreadable] = []
    for piece in _gathered(_pieces(text, name)):
        try:
            found.append(_session(piece, {key: value for key, value in owner.items() if value is not None}))
        except errors.Unreadable as error:
            found.append(error)
    if not found:
        raise errors.Unreadable(place=name, reason="it holds nothing")
    return found


def _pieces(text: str, name: str) -> list[Piece]:
    whole = _piece(name, text)
    if whole.wrong:
        # Not splitlines(): a text may hold other characters that end a line.
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or _piece(name, lines[0][1]).wrong:
            raise errors.Unreadable(place=name, reason=whole.wrong)
        return [_piece(f"{name}, line {number}", line) for number, line in lines]
    if isinstance(whole.value, list):
        return [Piece(f"{name}, session {number}", value) for number, value in enumerate(whole.value, 1)]
    return [whole]


def _piece(place: str, text: str) -> Piece:
    try:
        return Piece(place, json.loads(text))
    except (ValueError, RecursionError) as error:
        return Piece(place, wrong=f"it is no JSON ({error})")


def _gathered(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Sessions as they stand, and events put together to the sessions that they name."""
    told: dict[str, Piece] = {}
    for piece in pieces:
        value = piece.value
        if not isinstance(value, dict) or "events" in value or "author" not in value:
            yield piece
        elif isinstance(id := value.get("session_id"), str):
            told.setdefault(id, Piece(piece.place, {"id": id, "events": []})).value["events"].append(value)
        else:
            yield Piece(piece.place, wrong='it is an event that names no "session_id"')
    yield from told.values()


def _session(piece: Piece, owner: dict[str, str]) -> Session:
    value = piece.value
    if piece.wrong:
        raise errors.Unreadable(place=piece.place, reason=piece.wrong)
    if not isinstance(value, dict):
        raise errors.Unreadable(place=piece.place, reason="it is no JSON object")
    named = {**_named(value), **owner}
    for key, option in {"id": "", "appName": " (or --app)", "userId": " (or --user)"}.items():
        if not isinstance(named.get(key), str) or not named[key].strip():
            raise errors.Unreadable(place=piece.place, reason=f'it names no "{key}"{option}')
    events = [] if value.get("events") is None else value["events"]
    if not isinstance(events, list):
        raise errors.Unreadable(place=piece.place, reason='its "events" are no list')
    return Session(
        id=named["id"],
        app_name=named["appName"],
        user_id=named["userId"],
        state=_zone(value),
        events=[_event(event, f"{piece.place}, event {number}") for number, event in enumerate(events, 1)],
    )


def _named(value: dict[str, Any]) -> dict[str, Any]:
    """Whose session it is; ADK reads the names in either spelling."""
    return {key: value.get(key, value.get(other)) for key, other in _SPELLINGS.items()}


def _zone(value: dict[str, Any]) -> dict[str, Any]:
    """The one value of its state that tells when something was said."""
    state = value.get("state")
    named = state.get(entries.TIMEZONE) if isinstance(state, dict) else None
    return {} if named is None else {entries.TIMEZONE: named}


def _event(value: Any, place: str) -> Event:
    """An event with an id and a time of its own: without them it would be another one, and later, every time."""
    if not isinstance(value, dict):
        raise errors.Unreadable(place=place, reason="it is no JSON object")
    if missing := [key for key in ("id", "author", "timestamp") if not value.get(key)]:
        raise errors.Unreadable(place=place, reason=f"it has no {' and no '.join(missing)}")
    try:
        return codec.event_from(json.dumps(value))
    except ValidationError as error:
        first = error.errors()[0]
        told = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise errors.Unreadable(place=place, reason=f"ADK refuses it ({told})") from error
