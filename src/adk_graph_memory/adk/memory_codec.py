"""ADK's events and memory entries on one side, the turns, statements and recollections of memory on the other."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.genai import types

from adk_graph_memory import errors
from adk_graph_memory.adk import session_codec
from adk_graph_memory.language.zones import localize_timestamp, parse_timezone
from adk_graph_memory.records import Recollection, Role, Statement, Turn, check_timezone_aware
from adk_graph_memory.records.dates import format_iso_date

logger = logging.getLogger(__name__)

IGNORED_KEYS = frozenset(
    {
        "ttl",
        "topics",
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

ALLOWED_TOPICS_KEY = "allowed_topics"
"""The key by which Memory Bank keeps a request to some topics."""

TIMEZONE_KEY = "user:timezone"
"""The key of a session's state that names the time zone of its user."""

_warned_keys: set[str] = set()


def read_state_zone(state: Mapping[str, Any]) -> tzinfo | None:
    """The time zone that a session's state names; None, with a line in the log, where there is no such zone."""
    if (name := state.get(TIMEZONE_KEY)) is None:
        return None
    try:
        return parse_timezone(name)
    except errors.UnknownTimezone as error:
        _warn_unknown_zone(str(error))
        return None


@lru_cache(maxsize=1_000)
def _warn_unknown_zone(reason: str) -> None:
    logger.warning("A session's state has a %s that cannot be used, so another zone is taken: %s", TIMEZONE_KEY, reason)


def make_turns(events: Sequence[Event], *, zone: tzinfo = UTC, lenient: bool = False) -> list[Turn]:
    """What people and agents said in these events; tool traffic, thoughts, errors and system text are no turns.

    Args:
        events: of a session.
        zone: where it was said; ADK's events say when, but no offset.
        lenient: leaves out an event that cannot be stored, with a line in the log, so that it takes no other with it.

    Raises:
        InputValidationError: an id is too long, or a time is none.
    """
    found = []
    for event in events:
        if text := _get_spoken_text(event):
            try:
                found.append(_make_turn(event, text.encode("utf-8", "replace").decode() if lenient else text, zone))
            except InputValidationError as error:
                if not lenient:
                    raise
                logger.error("An event cannot be remembered: %s", error)
    return found


def _get_spoken_text(event: Event) -> str:
    is_traffic = event.partial or event.error_code or event.author == "system" or event.actions.compaction
    return "" if is_traffic else session_codec.get_event_text(event)


def _make_turn(event: Event, text: str, zone: tzinfo) -> Turn:
    return Turn(
        id=session_codec.check_id("The event's id", event.id),
        author=event.author,
        text=text,
        at=localize_timestamp(zone, session_codec.check_timestamp(event)),
        role=_find_role(event),
    )


def split_rewound(
    events: Sequence[Event], start: int = 0, *, zone: tzinfo = UTC, lenient: bool = False
) -> tuple[list[Turn], list[Turn]]:
    """What was said in a session from this event on, and all that a rewind among them has taken back."""
    new = events[start:]
    undone = _find_rewound_ids(events) if any(event.actions.rewind_before_invocation_id for event in new) else set()
    kept = make_turns([event for event in new if event.id not in undone], zone=zone, lenient=lenient)
    return kept, make_turns([event for event in events if event.id in undone], zone=zone, lenient=lenient)


def has_unloaded_rewind(events: Sequence[Event]) -> bool:
    """Whether a rewind names something that was said before all of these events."""
    known = {event.invocation_id for event in events}
    targets = (event.actions.rewind_before_invocation_id for event in events)
    return any(target is not None and target not in known for target in targets)


def _find_rewound_ids(events: Sequence[Event]) -> set[str]:
    """Ids of what ADK, walking back from rewind to rewind, no longer shows to a model."""
    first, found = dict[str, int](), set[str]()
    for place, event in enumerate(events):
        first.setdefault(event.invocation_id, place)
    place = len(events) - 1
    while place >= 0:
        target = events[place].actions.rewind_before_invocation_id
        start = min(first.get(target, place), place) if target else place
        if target:
            found |= {event.id for event in events[start : place + 1]}
        place = start - 1
    return found


def _find_role(event: Event) -> Role:
    """Who speaks; beside a function's response, which ADK gives the role of a user, it may be the function itself."""
    is_user = event.author == "user" or (event.content is not None and event.content.role == "user")
    return "user" if is_user and not event.get_function_responses() else "model"


def read_allowed_topics(given: Mapping[str, object] | None) -> list[str]:
    """The labels of Memory Bank's ``allowed_topics``, of which there may be one alone."""
    named = (given or {}).get(ALLOWED_TOPICS_KEY) or ()
    if isinstance(named, str):
        return [named]
    if not isinstance(named, Iterable):
        raise InputValidationError(f"allowed_topics {named!r} is no list of labels.")
    return [str(getattr(label, "value", label)) for label in named]


def clean_metadata(given: Mapping[str, object] | None) -> dict[str, Any]:
    """A caller's metadata in a form that JSON holds, without Memory Bank's own keys (warned of once each)."""
    for key in sorted(IGNORED_KEYS.intersection(given or ()) - _warned_keys):
        _warned_keys.add(key)
        logger.warning("custom_metadata[%r] steers Memory Bank and has no effect here yet.", key)
    kept = {key: value for key, value in (given or {}).items() if key not in IGNORED_KEYS | {ALLOWED_TOPICS_KEY}}
    return session_codec.make_jsonable(kept)


def make_statements(entries: Iterable[MemoryEntry], further: Mapping[str, Any], zone: tzinfo = UTC) -> list[Statement]:
    """Entries told to memory itself, by somebody in this zone; those without words are passed over."""
    return [
        Statement(
            text=text,
            at=_parse_timestamp(entry.timestamp, zone),
            author=entry.author,
            id=entry.id,
            metadata={**clean_metadata(entry.custom_metadata), **further},
        )
        for entry in entries
        if (text := session_codec.get_content_text(entry.content))
    ]


def _parse_timestamp(timestamp: str | None, zone: tzinfo = UTC) -> datetime:
    """An entry's time, one of this zone unless it names an offset; now where it has none."""
    if timestamp is None:
        return localize_timestamp(zone, platform_time.get_time())
    try:
        moment = datetime.fromisoformat(timestamp)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    except ValueError as error:
        raise InputValidationError(f"timestamp {timestamp!r} is no ISO 8601 time: {error}") from error
    try:
        check_timezone_aware(moment)
    except errors.ConfigurationError as error:
        raise InputValidationError(
            f"timestamp {timestamp!r} cannot be used: it is not between the years 2 and 9998"
        ) from error
    return moment


def make_memory_entry(memory: Recollection) -> MemoryEntry:
    """A recollection as ADK hands it to a model: text first, and in ``custom_metadata`` where it comes from.

    ADK's own tools give a model nothing but the text, so what is over or in doubt has to say so itself, and a short
    answer what was asked. What a caller keeps under a name of ours does not pass for what memory knows.
    """
    about = {
        "kind": memory.kind,
        "score": round(memory.score, 4),
        "session_id": memory.session_id,
        "source_event_ids": list(memory.source_event_ids),
        "quote": memory.quote,
        "valid_from": format_iso_date(memory.valid_from, memory.valid_from_precision),
        "valid_to": format_iso_date(memory.valid_to, memory.valid_to_precision, is_end=True),
        "current": None if memory.is_current else False,
        "ending": memory.ending,
        "superseded_by": list(memory.superseded_by),
        "previously": list(memory.previously),
        "stale": memory.is_stale or None,
        "modality": memory.modality,
        "manner": memory.manner,
        "origin": memory.origin,
        "verified": None if memory.is_verified else False,
        "degraded": memory.degraded,
    }
    known = {key: value for key, value in about.items() if value not in (None, [])}
    further = {key: value for key, value in memory.metadata.items() if key not in about}
    return MemoryEntry(
        id=memory.id,
        content=types.Content(role="user", parts=[types.Part(text=memory.prompt_text)]),
        author=memory.author,
        timestamp=memory.at.isoformat() if memory.at else None,
        custom_metadata={**known, **further},
    )
