"""Convert ADK's events, memory entries and Memory Bank's metadata to turns and statements, and recollections back."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.genai import types

from adk_graph_memory import errors
from adk_graph_memory.adk import session_codec, shown_parts
from adk_graph_memory.language.dates import format_iso_date, localize_timestamp
from adk_graph_memory.language.text import join_lines
from adk_graph_memory.records.results import Recollection
from adk_graph_memory.records.scopes import is_blank
from adk_graph_memory.records.turns import Origin, Role, ShownPart, Statement, Turn, check_timezone_aware

logger = logging.getLogger(__name__)

ACTING_KEYS = frozenset(
    {
        "ttl",
        "expire_time",
        "revision_ttl",
        "revision_expire_time",
        "memory_id",
        "metadata",
        "metadata_merge_strategy",
        "topics",
        "allowed_topics",
        "disable_consolidation",
        "enable_consolidation",
    }
)
"""Keys that act here as they do in Memory Bank, or are refused."""
INERT_KEYS = frozenset(
    {
        "description",
        "disable_memory_revisions",
        "display_name",
        "force_flush",
        "generation_trigger_config",
        "http_options",
        "revision_labels",
        "stream_id",
        "wait_for_completion",
    }
)
"""Memory Bank's other keys: they are kept as metadata, and one warning says so."""
REPLACES_BY_STRATEGY = {
    "MERGE": False,
    "METADATA_MERGE_STRATEGY_UNSPECIFIED": False,
    "OVERWRITE": True,
    "REPLACE": True,
}
"""Whether new metadata replaces all that a memory has."""
_TYPED_VALUES = frozenset({"bool_value", "double_value", "string_value", "timestamp_value"})
"""What Memory Bank calls a value by its type."""


@dataclass(frozen=True, slots=True)
class MemoryBankOptions:
    """What a caller's ``custom_metadata`` asks for; ``metadata`` is what is stored of it."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    replaces_metadata: bool = False
    expires_at: datetime | None = None
    revisions_expire_at: datetime | None = None
    memory_id: str | None = None
    topics: tuple[str, ...] = ()
    """labels of the topics of the memory, or of those that a request may extract"""
    is_consolidated: bool | None = None
    """whether to compare with what memory holds; None if the caller does not say"""


def read_options(custom_metadata: Mapping[str, object] | None) -> MemoryBankOptions:
    """Read what ``custom_metadata`` asks for.

    Raises:
        InputValidationError: a key has a value that it cannot have.
    """
    if not isinstance(custom_metadata, Mapping | None):
        raise InputValidationError(f"custom_metadata {custom_metadata!r} is no mapping.")
    given = {key: value for key, value in (custom_metadata or {}).items() if value is not None}
    for key in sorted(INERT_KEYS.intersection(given)):
        _warn_inert_key(key)
    loose_values = {key: value for key, value in (custom_metadata or {}).items() if key not in ACTING_KEYS}
    return MemoryBankOptions(
        metadata=session_codec.convert_to_jsonable({**_read_metadata(given.get("metadata")), **loose_values}),
        replaces_metadata=_read_strategy(given.get("metadata_merge_strategy")),
        expires_at=_read_expiry(given.get("ttl"), given.get("expire_time")),
        revisions_expire_at=_read_expiry(given.get("revision_ttl"), given.get("revision_expire_time")),
        memory_id=_read_memory_id(given.get("memory_id")),
        topics=_read_labels("allowed_topics", given) or _read_labels("topics", given),
        is_consolidated=_read_consolidation(given),
    )


@cache
def _warn_inert_key(key: str) -> None:
    logger.warning("custom_metadata[%r] configures Memory Bank; here it is only kept as metadata.", key)


def _read_metadata(value: Any) -> dict[str, Any]:
    """Return the values of ``metadata``, each also out of Memory Bank's form ``{"string_value": "x"}``."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputValidationError(f"metadata {value!r} is no mapping.")
    return {
        key: next(iter(item.values()))
        if isinstance(item, Mapping) and len(item) == 1 and _TYPED_VALUES.issuperset(item)
        else item
        for key, item in value.items()
    }


def _read_strategy(value: Any) -> bool:
    name = str(getattr(value, "value", value)).upper()
    if value is None or name in REPLACES_BY_STRATEGY:
        return value is not None and REPLACES_BY_STRATEGY[name]
    raise InputValidationError(f"metadata_merge_strategy {value!r} is none of {', '.join(REPLACES_BY_STRATEGY)}.")


def _read_expiry(ttl: Any, expire_time: Any) -> datetime | None:
    expires_at = session_codec.parse_expiry(platform_time.get_time(), ttl, expire_time)
    if expires_at is None:
        return None
    try:
        moment = datetime.fromtimestamp(expires_at, UTC)
        check_timezone_aware(moment)
    except (ValueError, OverflowError, OSError, errors.ConfigurationError) as error:
        raise InputValidationError(
            f"ttl={ttl!r}, expire_time={expire_time!r}: no memory can be kept so long."
        ) from error
    return moment


def _read_memory_id(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value and session_codec.check_id("memory_id", value)
    raise InputValidationError(f"memory_id {value!r} is no id.")


def _read_labels(key: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    labels = given.get(key, ())
    if isinstance(labels, str):
        return (labels,)
    if not isinstance(labels, Iterable) or isinstance(labels, Mapping):
        raise InputValidationError(f"{key} {labels!r} is no list of labels.")
    return tuple(map(_read_label, labels))


def _read_label(topic: Any) -> str:
    """Return a topic's label: of a text, an enum, or Memory Bank's form ``{"managed_memory_topic": …}``."""
    if isinstance(topic, Mapping) and len(topic) == 1:
        [topic] = topic.values()
    label = getattr(topic, "value", topic)
    if not isinstance(label, str):
        raise InputValidationError(f"{topic!r} is no topic's label.")
    return label


def _read_consolidation(given: Mapping[str, Any]) -> bool | None:
    for key, meaning in (("enable_consolidation", True), ("disable_consolidation", False)):
        if key in given:
            if not isinstance(given[key], bool):
                raise InputValidationError(f"{key} {given[key]!r} is neither True nor False.")
            return meaning is given[key]
    return None


def make_turns(
    events: Sequence[Event], *, zone: tzinfo = UTC, lenient: bool = False, session: Sequence[Event] = ()
) -> list[Turn]:
    """Make turns of what people and agents said and showed, without tool traffic, thoughts, errors and system text.

    Nor is there one of what ADK's workflows hand to a node in the user's name: that output has an event of its own.

    Args:
        events: a session's events.
        zone: the speakers' time zone; the timestamps of ADK's events have no offset.
        lenient: log an event that cannot be stored and go on, instead of raising.
        session: further events, which tell who is an agent.

    Raises:
        InputValidationError: an id is too long, or a timestamp is invalid.
    """
    agents = {
        event.author
        for event in (*session, *events)
        if event.author != "user" and ((event.content and event.content.role == "model") or event.node_info.path)
    }
    versions = shown_parts.collect_artifact_versions((*session, *events))
    turns = []
    for event in events:
        is_node_input = event.author == "user" and event.node_info.path and not event.input_transcription
        is_technical = event.partial or event.error_code or event.author == "system" or event.actions.compaction
        if is_node_input or is_technical:
            continue
        text, parts = shown_parts.split_shown_parts(event, versions)
        if not (text or parts):
            continue
        text = text.encode("utf-8", "replace").decode() if lenient else text
        try:
            turns.append(_make_turn(event, text, zone, agents).show_parts(parts))
        except InputValidationError as error:
            if not lenient:
                raise
            logger.error("An event cannot be remembered: %s", error)
    return turns


def _make_turn(event: Event, text: str, zone: tzinfo, agents: Set[str]) -> Turn:
    origin = _find_origin(event, agents)
    role: Role = "user" if origin == "user" else "model"
    return Turn(
        id=session_codec.check_id("The event's id", event.id),
        author=role if is_blank(event.author) else event.author,
        text=text,
        at=localize_timestamp(zone, session_codec.check_timestamp(event)),
        role=role,
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
    an agent's own words. People other than "user" are known by that role, by a name, and by not being an agent.
    """
    if event.get_function_responses():
        return "tool"
    is_named = event.author not in agents and not is_blank(event.author)
    is_person = event.content is not None and event.content.role == "user" and is_named
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
    call_metadata = read_options(custom_metadata).metadata
    return [_make_statement(entry, text, custom_metadata or {}, call_metadata, zone) for entry, text in spoken]


def _make_statement(
    entry: MemoryEntry,
    text: str,
    custom_metadata: Mapping[str, object],
    call_metadata: Mapping[str, Any],
    zone: tzinfo,
) -> tuple[Statement, bool]:
    options = read_options({**custom_metadata, **(entry.custom_metadata or {})})
    if len(options.topics) > 1:
        raise InputValidationError(f"A memory has one topic, not {', '.join(options.topics)}.")
    id = options.memory_id or entry.id
    if id and options.is_consolidated:
        raise InputValidationError(f"The memory {id!r} has an id of its own and is not consolidated: leave one out.")
    # An author counts before the role, which many set without a thought.
    is_user = entry.author == "user" or (not entry.author and entry.content.role == "user")
    statement = Statement(
        text=text,
        at=_parse_timestamp(entry.timestamp, zone),
        author=entry.author or None,
        id=id,
        metadata={**options.metadata, **call_metadata},
        replaces_metadata=options.replaces_metadata,
        topic=options.topics[0] if options.topics else "",
        expires_at=options.expires_at,
        origin="user" if is_user else "agent" if entry.content.role == "model" else "import",
    )
    return statement, not id and options.is_consolidated is not False


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


def _describe_part(part: ShownPart) -> dict[str, Any]:
    """Describe what a memory shows, so that an agent can load it: an artifact by name and version, or a file by URI."""
    place = {"name": part.name, "version": part.version, "uri": part.uri, "described_by": part.described_by}
    return {"mime_type": part.mime_type, **{key: value for key, value in place.items() if value not in ("", None)}}


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
        "disputed": memory.is_disputed or None,
        "modality": memory.modality,
        "manner": memory.manner,
        "writer": memory.writer,
        "origin": memory.origin,
        "shown": [_describe_part(part) for part in memory.shown],
        "verified": None if memory.is_verified else False,
        "doubtful": memory.is_doubtful or None,
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
