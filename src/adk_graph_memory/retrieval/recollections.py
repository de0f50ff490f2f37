"""A row of a retrieval query goes in, a recollection comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import json_map
from adk_graph_memory.graph.fact_rows import read_validity
from adk_graph_memory.language.zones import restore_datetime
from adk_graph_memory.records import Ending, Recollection
from adk_graph_memory.records.fact_validity import FactValidity

_KNOWN_COLUMNS = frozenset(
    ("text", "score", "id", "kind", "author", "timestamp", "valid_from", "valid_to", "metadata", "session_id", "quote")
) | {
    *("source_event_ids", "asked", "stale", "verified", "state", "ended", "facts", "previously"),
    *("offset", "modality", "valid_from_precision", "valid_to_precision", "manner", "origin"),
}
"""What a row of a retrieval query is made of; anything further is a caller's own."""
_MAX_QUESTION_CHARACTERS = 200
"""Characters of a question that stands beside its answer."""
_MAX_SUCCESSORS = 2
"""Memories that are named as what took the place of another."""
_MAX_TIMESTAMP = datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp()


def make_recollection(record: Record, degraded: str | None, now: datetime) -> Recollection:
    """A row of a retrieval query as a recollection; columns that we do not know go to its metadata.

    Raises:
        errors.ConfigurationError: a column of the retrieval query is not what it is here.
    """
    try:
        return _convert_record(record, degraded, now)
    except (TypeError, ValueError, AttributeError) as error:
        reason = (
            f"a column of the retrieval_query is not what its name means here ({error}); these names have a meaning: "
        )
        raise errors.ConfigurationError(reason=reason + ", ".join(sorted(_KNOWN_COLUMNS))) from error


def _convert_record(record: Record, degraded: str | None, now: datetime) -> Recollection:
    values = tuple.__iter__(record)  # the driver's own iterator takes half as long as all that follows
    row: dict[str, Any] = dict(zip(record.keys(), values, strict=True))
    if not isinstance(row["text"], str) or not isinstance(row["score"], int | float):
        raise errors.ConfigurationError(
            reason=f"the retrieval_query returned text {row['text']!r} and score {row['score']!r}; leave such rows out"
        )
    timestamp, offset = row.get("timestamp"), row.get("offset")
    said = restore_datetime(min(timestamp, _MAX_TIMESTAMP), offset) if timestamp is not None else None
    when = read_validity(row)
    ended = [one for one in map(_EndedFact._make, row.get("ended") or ()) if one.has_ended(now)]
    is_current = _is_current(row, when, said, now) and not 0 < (row.get("facts") or 0) == len(ended)
    return Recollection(
        id=row.get("id") or "",
        kind=row.get("kind") or ("event" if str(row.get("id")).startswith("event:") else "fact"),
        text=row["text"],
        score=row["score"],
        at=when.valid_from or said,
        author=row.get("author"),
        session_id=row.get("session_id"),
        source_event_ids=tuple(row.get("source_event_ids") or ()),
        quote=row.get("quote"),
        valid_from=when.valid_from,
        valid_to=when.valid_to,
        valid_from_precision=when.valid_from_precision,
        valid_to_precision=when.valid_to_precision,
        modality=when.modality,
        plan=when.describe_plan(row["text"], said, now) if is_current else None,
        is_stale=when.is_stale,
        is_verified=row.get("verified") is not False,
        is_current=is_current,
        ending=_classify_ending(ended),
        superseded_by=_list_successors(ended),
        manner=row.get("manner"),
        origin=row.get("origin"),
        asked=_extract_question(row["asked"]) if row.get("asked") else None,
        previously=tuple(row.get("previously") or ()),
        metadata={**parse_metadata(row.get("metadata")), **_collect_custom_columns(row)},
        degraded=degraded,
    )


def _collect_custom_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """A caller's own columns; what a fact denies is not told as if it were so."""
    further = {
        key: _convert_value(value) for key, value in row.items() if key not in _KNOWN_COLUMNS and value is not None
    }
    if row.get("modality") == "negated" and "predicate" in further:
        further["predicate"] = f"not {further['predicate']}"
    return further


class _EndedFact(NamedTuple):
    """A fact that ended; ``successors`` are texts and states of what took its place."""

    state: str
    modality: str
    valid_to: Any
    successors: Sequence[tuple[str, str]]

    def has_ended(self, now: datetime) -> bool:
        """Whether it had ended by then."""
        return self.state == "retracted" or self.valid_to is None or self.valid_to.to_native() <= now


def _is_current(row: Mapping[str, Any], when: FactValidity, said: datetime | None, now: datetime) -> bool:
    """Whether it still holds; a caller's own row need not say what ended.

    What nothing took the place of is over on the last day that was named for it; what was over when it was said, and
    what has a first day, too, says so itself.
    """
    if row.get("state") not in (None, "current"):
        return when.valid_to is not None and when.valid_to > now
    if when.is_stale or when.valid_from is not None or when.compute_status(now) != "over":
        return True
    return said is not None and when.valid_to is not None and when.valid_to <= said


def _classify_ending(ended: Sequence[_EndedFact]) -> Ending | None:
    """How the facts of a memory ended, in the gravest way."""
    if not ended:
        return None
    if any(one.state == "retracted" for one in ended):
        return "retracted"
    return "plan" if all(one.modality in ("planned", "hypothetical") for one in ended) else "replaced"


def _list_successors(ended: Sequence[_EndedFact]) -> tuple[str, ...]:
    """What took the place of the facts that ended: what of it still holds, or else what came last."""
    named: dict[str, None] = {}
    for one in ended:
        holding = [text for text, state in one.successors if state == "current"]
        named.update(dict.fromkeys(holding or [text for text, _ in one.successors[:1]]))
    return tuple(named)[:_MAX_SUCCESSORS]


def _extract_question(text: str) -> str:
    """The question with which a turn ends, of a long one its end."""
    return re.split(r"(?<=[.!?。！？؟…])\s*(?=\S)", text.strip())[-1][-_MAX_QUESTION_CHARACTERS:]


def parse_metadata(value: Any) -> dict[str, Any]:
    """Ours are members; a caller's own column of that name may be a map, or anything else."""
    if isinstance(value, Mapping):
        return {str(key): _convert_value(one) for key, one in value.items()}
    if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return json_map.parse_json_map(value)
    return {"metadata": _convert_value(value)}


def _convert_value(value: Any) -> Any:
    """A value of a caller's own column as JSON knows it: a moment in its ISO 8601 form."""
    return value.iso_format() if hasattr(value, "iso_format") else value
