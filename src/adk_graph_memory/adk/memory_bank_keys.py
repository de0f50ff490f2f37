"""Read the keys of Memory Bank in a caller's ``custom_metadata``: each acts, is refused, or is kept with a warning."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.platform import time as platform_time

from adk_graph_memory import errors
from adk_graph_memory.adk import session_codec
from adk_graph_memory.records import check_timezone_aware

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
        metadata=session_codec.make_jsonable({**_read_metadata(given.get("metadata")), **loose_values}),
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
