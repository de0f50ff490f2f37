"""Convert ADK's events and memory entries to turns and statements, and recollections to memory entries."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.genai import types

from adk_graph_memory import errors
from adk_graph_memory.adk import memory_bank_keys, session_codec
from adk_graph_memory.adk.memory_bank_keys import MemoryBankOptions
from adk_graph_memory.language.wording import join_lines
from adk_graph_memory.language.zones import localize_timestamp
from adk_graph_memory.records import Origin, Recollection, Statement, Turn, check_timezone_aware
from adk_graph_memory.records.dates import format_iso_date

logger = logging.getLogger(__name__)


def make_turns(
    events: Sequence[Event], *, zone: tzinfo = UTC, lenient: bool = False, session: Sequence[Event] = ()
) -> list[Turn]:
    """Make turns of what people and agents said; tool traffic, thoughts, errors and system text are left out.

    So is what ADK's workflows hand to a node in the user's name: another node's output, which has an event of its own.

    Args:
        events: a session's events.
        zone: the speakers' time zone; the timestamps of ADK's events have no offset.
        lenient: log an event that cannot be stored and go on, instead of raising.
        session: further events, which tell who is an agent.

    Raises:
        InputValidationError: an id is too long, or a timestamp is invalid.
    """
    turns, agents = [], {event.author for event in (*session, *events) if _is_from_agent(event)}
    for event in events:
        if text := _get_spoken_text(event):
            text = text.encode("utf-8", "replace").decode() if lenient else text
            try:
                turns.append(_make_turn(event, text, zone, agents))
            except InputValidationError as error:
                if not lenient:
                    raise
                logger.error("An event cannot be remembered: %s", error)
    return turns


def _get_spoken_text(event: Event) -> str:
    is_node_input = event.author == "user" and event.node_info.path and not event.input_transcription
    is_technical = event.partial or event.error_code or event.author == "system" or event.actions.compaction
    return "" if is_technical or is_node_input else session_codec.get_event_text(event)


def _is_from_agent(event: Event) -> bool:
    is_from_model = event.content is not None and event.content.role == "model"
    return event.author != "user" and (is_from_model or bool(event.node_info.path))


def _make_turn(event: Event, text: str, zone: tzinfo, agents: Set[str]) -> Turn:
    origin = _find_origin(event, agents)
    return Turn(
        id=session_codec.check_id("The event's id", event.id),
        author=event.author,
        text=text,
        at=localize_timestamp(zone, session_codec.check_timestamp(event)),
        role="user" if origin == "user" else "model",
        origin=origin,
    )


def split_rewound(
    events: Sequence[Event], start: int = 0, *, zone: tzinfo = UTC, lenient: bool = False
) -> tuple[list[Turn], list[Turn]]:
    """Return a session's turns from ``events[start]`` on, and all turns that a rewind among these events has undone."""
    new = events[start:]
    rewound_ids = (
        _find_rewound_ids(events) if any(event.actions.rewind_before_invocation_id for event in new) else set()
    )
    kept = [event for event in new if event.id not in rewound_ids]
    undone = [event for event in events if event.id in rewound_ids]
    turns, undone_turns = (make_turns(some, zone=zone, lenient=lenient, session=events) for some in (kept, undone))
    return turns, undone_turns


def has_unloaded_rewind(events: Sequence[Event]) -> bool:
    """Whether a rewind targets an invocation that is not among these events."""
    invocation_ids = {event.invocation_id for event in events}
    targets = (event.actions.rewind_before_invocation_id for event in events)
    return any(target is not None and target not in invocation_ids for target in targets)


def _find_rewound_ids(events: Sequence[Event]) -> set[str]:
    """Find the events that ADK no longer shows to a model; like ADK, walk back from rewind to rewind."""
    first_indexes, rewound_ids = dict[str, int](), set[str]()
    for index, event in enumerate(events):
        first_indexes.setdefault(event.invocation_id, index)
    index = len(events) - 1
    while index >= 0:
        target = events[index].actions.rewind_before_invocation_id
        start = min(first_indexes.get(target, index), index) if target else index
        if target:
            rewound_ids |= {event.id for event in events[start : index + 1]}
        index = start - 1
    return rewound_ids


def apply_expiry(turns: Iterable[Turn], options: MemoryBankOptions) -> list[Turn]:
    """Let turns, and what is read from them, expire as a caller asks."""
    return [
        replace(turn, expires_at=options.expires_at, revisions_expire_at=options.revisions_expire_at) for turn in turns
    ]


def _find_origin(event: Event, agents: Set[str]) -> Origin:
    """Find whose words they are.

    The role does not tell: function responses have the role "user", though text beside one is a tool's, and so may have
    an agent's own words. People other than "user" are known by that role and by not being one of the agents.
    """
    if event.get_function_responses():
        return "tool"
    is_person = event.content is not None and event.content.role == "user" and event.author not in agents
    return "user" if event.author == "user" or is_person else "agent"


def make_statements(
    entries: Sequence[MemoryEntry], custom_metadata: Mapping[str, object] | None, zone: tzinfo = UTC
) -> list[tuple[Statement, bool]]:
    """Make statements of the entries with text, and whether each is to be consolidated; ``zone`` completes timestamps.

    The call's metadata wins over an entry's; of Memory Bank's keys the entry's own win, as they do there.

    Raises:
        InputValidationError: a key cannot have its value, or one id is to be that of several entries.
    """
    if not isinstance(entries, Iterable) or not all(isinstance(entry, MemoryEntry) for entry in entries):
        raise InputValidationError(f"{entries!r} are no memories: give a list of MemoryEntry.")
    spoken = [(entry, text) for entry in entries if (text := session_codec.get_content_text(entry.content))]
    if len(spoken) > 1 and (custom_metadata or {}).get("memory_id") is not None:
        raise InputValidationError("memory_id is the id of one entry; give each its own as MemoryEntry(id=…).")
    call_metadata = memory_bank_keys.read_options(custom_metadata).metadata
    return [_make_statement(entry, text, custom_metadata or {}, call_metadata, zone) for entry, text in spoken]


def _make_statement(
    entry: MemoryEntry,
    text: str,
    custom_metadata: Mapping[str, object],
    call_metadata: Mapping[str, Any],
    zone: tzinfo,
) -> tuple[Statement, bool]:
    options = memory_bank_keys.read_options({**custom_metadata, **(entry.custom_metadata or {})})
    if len(options.topics) > 1:
        raise InputValidationError(f"A memory has one topic, not {', '.join(options.topics)}.")
    id = options.memory_id or entry.id
    if id and options.is_consolidated:
        raise InputValidationError(f"The memory {id!r} has an id of its own and is not consolidated: leave one out.")
    statement = Statement(
        text=text,
        at=_parse_timestamp(entry.timestamp, zone),
        author=entry.author,
        id=id,
        metadata={**options.metadata, **call_metadata},
        replaces_metadata=options.replaces_metadata,
        topic=options.topics[0] if options.topics else "",
        expires_at=options.expires_at,
        origin=_find_entry_origin(entry),
    )
    return statement, not id and options.is_consolidated is not False


def _find_entry_origin(entry: MemoryEntry) -> Origin:
    """Find whose word an entry is: an author counts before the role, which many set without a thought."""
    is_user = entry.author == "user" or (not entry.author and entry.content.role == "user")
    return "user" if is_user else "agent" if entry.content.role == "model" else "import"


def _parse_timestamp(timestamp: str | None, zone: tzinfo) -> datetime:
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
    """Make an ADK memory entry: the text for the model, and its provenance in ``custom_metadata``.

    ADK's own tools show a model only the text. So the text itself says if a fact is over or uncertain, and adds the
    question to a short answer. Text and author have no line breaks, because ADK lists memories line by line. Our keys
    override a caller's metadata keys of the same name.
    """
    provenance = {
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
        "writer": memory.writer,
        "origin": memory.origin,
        "verified": None if memory.is_verified else False,
        "degraded": memory.degraded,
        "shared": str(memory.shared) if memory.shared else None,
    }
    metadata = {key: value for key, value in provenance.items() if value not in (None, [])}
    metadata |= {key: value for key, value in memory.metadata.items() if key not in provenance}
    return MemoryEntry(
        id=memory.id,
        content=types.Content(role="user", parts=[types.Part(text=memory.prompt_text)]),
        author=memory.author and join_lines(memory.author),
        timestamp=memory.at.isoformat() if memory.at else None,
        custom_metadata=metadata,
    )
