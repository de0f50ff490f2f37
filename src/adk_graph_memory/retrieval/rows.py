"""A row of a retrieval query goes in, a recollection comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import members
from adk_graph_memory.graph.rows import moment
from adk_graph_memory.records import Recollection

_COLUMNS = frozenset(
    ("text", "score", "id", "kind", "author", "timestamp", "valid_from", "valid_to", "metadata", "session_id", "quote")
) | {"source_event_ids", "asked", "stale", "verified", "state", "previously"}
"""What a row of a retrieval query is made of; anything further is a caller's own."""
_LONGEST_QUESTION = 200
"""Characters of a question that stands beside its answer."""
_LATEST = datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp()


def recollection(record: Record, degraded: str | None, now: datetime) -> Recollection:
    """A row of a retrieval query as a recollection; columns that we do not know go to its metadata."""
    row: dict[str, Any] = dict(zip(record.keys(), record.values(), strict=True))
    valid_from, valid_to = moment(row.get("valid_from")), moment(row.get("valid_to"))
    if not isinstance(row["text"], str) or not isinstance(row["score"], int | float):
        raise errors.ConfigurationError(
            reason=f"the retrieval_query returned text {row['text']!r} and score {row['score']!r}; leave such rows out"
        )
    said = datetime.fromtimestamp(min(row["timestamp"], _LATEST), UTC) if row.get("timestamp") is not None else None
    further = {key: _plain(value) for key, value in row.items() if key not in _COLUMNS and value is not None}
    return Recollection(
        id=row.get("id") or "",
        kind=row.get("kind") or ("event" if str(row.get("id")).startswith("event:") else "fact"),
        text=row["text"],
        score=row["score"],
        at=valid_from or said,
        author=row.get("author"),
        session_id=row.get("session_id"),
        source_event_ids=tuple(row.get("source_event_ids") or ()),
        quote=row.get("quote"),
        valid_from=valid_from,
        valid_to=valid_to,
        is_stale=bool(row.get("stale")),
        is_verified=row.get("verified") is not False,
        is_current=row.get("state") in (None, "current") or (valid_to is not None and valid_to > now),
        asked=_question(row["asked"]) if row.get("asked") else None,
        previously=tuple(row.get("previously") or ()),
        metadata={**further, **metadata(row.get("metadata"))},
        degraded=degraded,
    )


def _question(text: str) -> str:
    """The question with which a turn ends, of a long one its end."""
    return re.split(r"(?<=[.!?。！？؟…])\s*(?=\S)", text.strip())[-1][-_LONGEST_QUESTION:]


def metadata(value: Any) -> dict[str, Any]:
    """Ours are members; a caller's own column of that name may be a map, or anything else."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return members.read(value)
    return {"metadata": _plain(value)}


def _plain(value: Any) -> Any:
    """A value of a caller's own column as JSON knows it: a moment in its ISO 8601 form."""
    return value.iso_format() if hasattr(value, "iso_format") else value
