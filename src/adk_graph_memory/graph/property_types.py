"""Tell which type each property has: one of another type, from a damaged file, would break searches or erasure."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from neo4j.time import DateTime

from adk_graph_memory import errors
from adk_graph_memory.graph.json_map import parse_json_map
from adk_graph_memory.records.dates import Precision
from adk_graph_memory.records.extraction_result import Modality
from adk_graph_memory.records.proposals import ProposalAction
from adk_graph_memory.records.turns import MemoryKind, Origin
from adk_graph_memory.records.write_plan import FactState

_NAMES: Mapping[str, str] = {
    "a text": """
        about app_name author branch by display_name embedding_error extracted extractor fact_id id ingest
        invocation_id key manner memory_id mime_type model n name op owner predicate proposal_by proposal_id
        proposal_reason proposal_text quote reading reason role ruling_reason session_id session_uid signature store
        text topic type uid unread user_id was words writer
    """,
    "a JSON object": "body part report",
    "a time in seconds since 1970": """
        closed_at create_time expires_at heard_at last_update_time revisions_expire_at state_time timestamp
    """,
    "seconds east of UTC": "offset",
    "a whole number from 0 on": "attempts end held revision seq start support version versions writes written",
    "true or false": "correction direct is_ruling open pinned reviewed single stale unembedded verified",
    "a date with a time and a zone": """
        at created_at done_at owner_retracted_at proposal_at recorded_at requested_at reread_at retired_at said_to
        upheld_until valid_from valid_to
    """,
    "a list of texts": "aliases authors foreign_names labels own_names topics",
    "a list of a JSON object's members": "metadata state",
    "bytes": "content",
    "an origin": "origin",
    "a kind of memory": "kind",
    "a modality": "modality",
    "a precision": "said_to_precision valid_from_precision valid_to_precision",
    "an action": "proposal_action",
}
_CHOICES: Mapping[str, Sequence[str]] = {
    "an origin": get_args(Origin),
    "a kind of memory": get_args(MemoryKind),
    "a modality": get_args(Modality),
    "a precision": get_args(Precision),
    "an action": get_args(ProposalAction),
    "a fact's state": get_args(FactState),
    "a request's state": ("pending", "claimed", "done", "superseded"),
}
"""The texts that a type has."""
TYPES = {name: type for type, names in _NAMES.items() for name in names.split()} | {
    "ArtifactVersion.metadata": "a JSON object",
    "Fact.state": "a fact's state",
    "Revision.state": "a fact's state",
    "Ingest.state": "a request's state",
}
"""The type of each property that this release writes, by its name; where labels differ, by label and name."""
_MAX_SECONDS, _MAX_OFFSET = 253_370_764_800, 86_400


def _is_json_object(value: Any) -> bool:
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_json_map(value: Any) -> bool:
    try:
        return _is_text_list(value) and all(len(parse_json_map([member])) == 1 for member in value)
    except (ValueError, RecursionError):
        return False


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_moment(value: Any) -> bool:
    return isinstance(value, DateTime) and value.tzinfo is not None and 1 < value.year < 9999


def _is_time(value: Any) -> bool:
    return (_is_whole_number(value) or isinstance(value, float)) and abs(value) < _MAX_SECONDS


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "a JSON object": _is_json_object,
    "a time in seconds since 1970": _is_time,
    "seconds east of UTC": lambda value: _is_whole_number(value) and abs(value) < _MAX_OFFSET,
    "a whole number from 0 on": lambda value: _is_whole_number(value) and value >= 0,
    "true or false": lambda value: isinstance(value, bool),
    "a date with a time and a zone": _is_moment,
    "a list of texts": _is_text_list,
    "a list of a JSON object's members": _is_json_map,
    "bytes": lambda value: isinstance(value, bytes),
    **{type: partial(operator.contains, choices) for type, choices in _CHOICES.items()},
}
REQUIRED: Mapping[str, frozenset[str]] = {
    "App": frozenset(("app_name",)),
    "User": frozenset(("app_name", "user_id")),
    "Session": frozenset(("id", "uid")),
    "Event": frozenset(("id", "session_id", "session_uid", "author", "timestamp", "seq")),
    "Memory": frozenset(("kind", "memory_id")),
    "Fact": frozenset(("id", "kind", "memory_id", "modality", "predicate", "state")),
    "Entity": frozenset(("key", "name", "type", "aliases")),
    "Artifact": frozenset(("name", "session_id", "versions")),
    "ArtifactVersion": frozenset(("id", "part", "create_time")),
    "Ingest": frozenset(("id", "state")),
    "SUPPORTED_BY": frozenset(("key", "quote")),
}
"""What no node of a label, and no relationship of a type, is without."""
_REQUIRED_IN_MEMORY = frozenset(("origin", "text", "timestamp"))
"""What nothing that memory holds, or was asked to hold, is without."""


def get_property_type(owner: str, name: str) -> str | None:
    """Return the type, in words, of a property of nodes of a label or of relationships of a type; None if unknown."""
    return TYPES.get(f"{owner}.{name}") or TYPES.get(name)


def check_properties(owners: Sequence[str], properties: Mapping[str, Any]) -> None:
    """Check the properties of a node with these labels, or of a relationship of this type, that comes from a file.

    Raises:
        errors.InvalidArgument: one is missing, or of another type than this release writes.
    """
    present = {name for name, value in properties.items() if value is not None}
    required = frozenset().union(*(REQUIRED.get(owner, ()) for owner in owners))
    if "memory_id" in present:
        required |= _REQUIRED_IN_MEMORY
    for name in sorted(required - present):
        raise errors.InvalidArgument(reason=f"it has no {name!r}")
    for name in sorted(present):
        type, value = get_property_type(owners[0], name), properties[name]
        if type and not _CHECKS[type](value):
            choices = f" ({', '.join(_CHOICES[type])})" if type in _CHOICES else ""
            raise errors.InvalidArgument(reason=f"its {name!r} is {str(value)[:40]!r}, and should be {type}{choices}")
