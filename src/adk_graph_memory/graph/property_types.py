"""Tell which type each property has: one of another type, from a damaged file, would break searches or erasure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from neo4j.time import DateTime

from adk_graph_memory import errors

_TEXTS = [
    "about",
    "app_name",
    "author",
    "body",
    "by",
    "content_type",
    "extracted",
    "extractor",
    "fact_id",
    "id",
    "ingest",
    "invocation_id",
    "key",
    "kind",
    "manner",
    "memory_id",
    "mime_type",
    "modality",
    "model",
    "n",
    "name",
    "op",
    "origin",
    "part",
    "predicate",
    "proposal_by",
    "proposal_id",
    "reading",
    "reason",
    "report",
    "role",
    "ruling_reason",
    "said_to_precision",
    "session_id",
    "session_uid",
    "signature",
    "store",
    "text",
    "topic",
    "type",
    "uid",
    "user_id",
    "valid_from_precision",
    "valid_to_precision",
    "words",
    "writer",
]
_NUMBERS = [
    "create_time",
    "expires_at",
    "heard_at",
    "last_update_time",
    "revisions_expire_at",
    "state_time",
    "timestamp",
]
_INTEGERS = ["attempts", "offset", "revision", "seq", "support", "version", "versions", "writes", "written"]
_FLAGS = ["correction", "direct", "is_ruling", "open", "pinned", "reviewed", "single", "stale", "unembedded"]
_MOMENTS = [
    "created_at",
    "done_at",
    "owner_retracted_at",
    "recorded_at",
    "requested_at",
    "retired_at",
    "said_to",
    "upheld_until",
    "valid_from",
    "valid_to",
    "when",
]
_TEXT_LISTS = ["aliases", "authors", "foreign_names", "labels", "metadata", "own_names", "topics"]
_BY_LABEL: Mapping[tuple[str, str], str] = {
    ("ArtifactVersion", "metadata"): "a text",
    ("App", "state"): "a list of texts",
    ("User", "state"): "a list of texts",
    ("Session", "state"): "a list of texts",
    ("Fact", "state"): "a text",
    ("Revision", "state"): "a text",
    ("Ingest", "state"): "a text",
}
"""What differs from label to label."""
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(_TEXTS, "a text"),
    **dict.fromkeys(_NUMBERS, "a number"),
    **dict.fromkeys(_INTEGERS, "a whole number"),
    **dict.fromkeys(_FLAGS, "true or false"),
    **dict.fromkeys(_MOMENTS, "a date with a time"),
    **dict.fromkeys(_TEXT_LISTS, "a list of texts"),
}
_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "a number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "a whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "a date with a time": lambda value: isinstance(value, DateTime),
    "a list of texts": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
}
REQUIRED: Mapping[str, frozenset[str]] = {
    "Session": frozenset(("id", "uid")),
    "Event": frozenset(("id", "session_id", "session_uid", "author", "timestamp", "seq")),
    "Fact": frozenset(("id", "memory_id", "text", "timestamp", "state")),
    "Entity": frozenset(("key", "name", "type", "aliases")),
    "Artifact": frozenset(("name", "session_id", "versions")),
    "ArtifactVersion": frozenset(("id", "part", "create_time")),
    "Ingest": frozenset(("id", "state")),
}
"""What no node of a label is without."""


def check_property_types(label: str, properties: Mapping[str, Any]) -> None:
    """Check the properties of a node that comes from a file.

    Raises:
        errors.InvalidArgument: one is missing, or of another type than this release writes.
    """
    present = {name for name, value in properties.items() if value is not None}
    for name in sorted(REQUIRED.get(label, frozenset()) - present):
        raise errors.InvalidArgument(reason=f"it has no {name!r}")
    for name, value in properties.items():
        kind = _BY_LABEL.get((label, name)) or _KINDS.get(name)
        if kind and value is not None and not _CHECKS[kind](value):
            raise errors.InvalidArgument(reason=f"its {name!r} is {str(value)[:40]!r}, and should be {kind}")
