"""Turn the rows of a retrieval query, ours or a caller's own, into recollections."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import neo4j
from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import json_map
from adk_graph_memory.graph.fact_rows import read_validity
from adk_graph_memory.graph.ingest_queue import read_shown
from adk_graph_memory.language.dates import restore_datetime
from adk_graph_memory.language.text import find_proof
from adk_graph_memory.records.facts import FactValidity, Proposition
from adk_graph_memory.records.results import Ending, Recollection

Row = Mapping[str, Any]

COLUMNS = (
    *("text", "score", "id", "kind", "author", "timestamp", "offset", "valid_from", "valid_to"),
    *("valid_from_precision", "valid_to_precision", "modality", "metadata", "source_event_ids", "session_id", "quote"),
    *("subject", "predicate", "object", "topic", "question", "previously", "facts", "endings", "stale", "verified"),
    *("manner", "origin", "writer", "disputed", "shown"),
)
"""The columns of a record, in their order."""
_EPOCH = datetime.fromtimestamp(0, UTC)
ENDING = ("state", "modality", "valid_to", "successors")
"""What is returned of a fact that ended."""


def convert_to_records(
    rows: Iterable[Row], fact_ids: Collection[str | None], passage_length: int
) -> list[neo4j.Record]:
    """Convert each row of the statement ``results`` to a record.

    Args:
        rows: the rows, best first.
        fact_ids: the facts that turns were found for.
        passage_length: a turn with more characters also gets the quote it was found for.
    """
    rows, records = list(rows), []
    disputed_ids = _find_disputed(rows)
    for row in rows:
        facts = row["facts"]
        columns: dict[str, Any] = {**row, "facts": len(facts), "stale": any(fact["stale"] for fact in facts) or None}
        columns["disputed"] = any(fact["memory_id"] in disputed_ids for fact in facts) or None
        endings = [{name: fact[name] for name in ENDING} for fact in facts if fact["state"] not in (None, "current")]
        columns["endings"] = endings or None
        if row["kind"] == "fact":
            columns |= _summarize_sources(row)
        else:
            columns["source_event_ids"] = [row["event_id"]]
            if len(row["text"]) > passage_length:
                columns["quote"] = next((fact["quote"] for fact in facts if fact["memory_id"] in fact_ids), None)
        records.append(neo4j.Record([(name, columns.get(name)) for name in COLUMNS]))  # type: ignore[no-untyped-call]
    return records


def _summarize_sources(row: Row) -> Row:
    """Summarize what a fact's sources say of it; it is only reported, or only quoted, if all of them are."""
    sources: Sequence[Row] = row["sources"]
    indirect = [source for source in sources if source["manner"] is not None]
    is_indirect = len(indirect) == len(sources)
    quotes = [source["quote"] for source in sources if source["quote"] is not None]
    return {
        "topic": row["topic"] or None,
        "metadata": row["metadata"] or next((source["metadata"] for source in sources if source["metadata"]), None),
        "source_event_ids": [source["id"] for source in sources],
        "session_id": sources[0]["session_id"] if sources else None,
        "quote": quotes[find_proof(row["text"], quotes)] if quotes else None,
        "shown": [part for source in sources for part in _select_quoted_parts(source)] or None,
        "verified": False if sources and all(source["verified"] is False for source in sources) else None,
        "manner": indirect[0]["manner"] if indirect and is_indirect else None,
        "writer": next((source["writer"] for source in indirect if is_indirect and source["writer"]), None),
    }


def _select_quoted_parts(source: Row) -> list[str]:
    """Select those of the parts that a source's turn shows whose line holds its quote, or all if none does."""
    shown: Sequence[str] = source["shown"] or ()
    quoted = [text for text in shown if source["quote"] in read_shown([text])[0].line]
    return list(dict.fromkeys(quoted or shown))


def _find_disputed(rows: Iterable[Row]) -> set[str]:
    """Find the facts whose value may be another's of these or not, where their predicate has one value at a time."""
    values = {
        fact["memory_id"]: Proposition(**fact["value"], object=None, at=_EPOCH, is_functional=True)
        for row in rows
        for fact in row["facts"]
        if fact.get("value")
    }
    return {id for id, value in values.items() if any(map(value.disputes, values.values()))}


_KNOWN_COLUMNS = frozenset(
    ("text", "score", "id", "kind", "author", "timestamp", "valid_from", "valid_to", "metadata", "session_id", "quote")
) | {
    *("source_event_ids", "question", "stale", "verified", "state", "endings", "facts", "previously"),
    *("offset", "modality", "valid_from_precision", "valid_to_precision", "manner", "writer", "origin", "disputed"),
    "shown",
}
"""Columns of a retrieval query that have a meaning here; all others are a caller's own."""
_MAX_QUESTION_CHARACTERS = 200
"""Length to which the question before an answer is cut."""
_MAX_SUCCESSORS = 2
"""Successors that are returned with a memory."""
_MAX_TIMESTAMP = datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp()


def read_recollection(record: Record, degraded: str | None, now: datetime) -> Recollection:
    """Read a recollection from a row; a caller's own columns go into its metadata.

    Raises:
        errors.InvalidArgument: a column of the retrieval query does not hold what its name means here.
    """
    try:
        return _convert_record(record, degraded, now)
    except (TypeError, ValueError, AttributeError) as error:
        reason = (
            f"a column of the retrieval_query is not what its name means here ({error}); these names have a meaning: "
        )
        raise errors.InvalidArgument(reason=reason + ", ".join(sorted(_KNOWN_COLUMNS))) from error


def _convert_record(record: Record, degraded: str | None, now: datetime) -> Recollection:
    values = tuple.__iter__(record)  # the driver's own iterator takes half as long as all that follows
    row = dict(zip(record.keys(), values, strict=True))
    if not isinstance(row["text"], str) or not isinstance(row["score"], int | float):
        raise errors.InvalidArgument(
            reason=f"the retrieval_query returned text {row['text']!r} and score {row['score']!r}; leave such rows out"
        )
    timestamp = row.get("timestamp")
    said_at = None if timestamp is None else restore_datetime(min(timestamp, _MAX_TIMESTAMP), row.get("offset"))
    question = row.get("question") or None
    if question:  # as the last sentence of its turn; the end of a long one
        question = re.split(r"(?<=[.!?。！？؟…])\s*(?=\S)", question.strip())[-1][-_MAX_QUESTION_CHARACTERS:]
    validity = read_validity(row)
    endings = [ending for columns in row.get("endings") or () if (ending := _FactEnding(**columns)).has_come(now)]
    is_current = _is_current(row, validity, said_at, now) and not 0 < (row.get("facts") or 0) == len(endings)
    return Recollection(
        id=row.get("id") or "",
        kind=row.get("kind") or ("event" if str(row.get("id")).startswith("event:") else "fact"),
        text=row["text"],
        score=row["score"],
        at=said_at,
        author=row.get("author"),
        session_id=row.get("session_id"),
        source_event_ids=tuple(row.get("source_event_ids") or ()),
        quote=row.get("quote"),
        valid_from=validity.valid_from,
        valid_to=validity.valid_to,
        valid_from_precision=validity.valid_from_precision,
        valid_to_precision=validity.valid_to_precision,
        modality=validity.modality,
        plan=validity.describe_plan(row["text"], said_at, now) if is_current else None,
        is_stale=validity.is_stale,
        is_disputed=bool(row.get("disputed")) and is_current,
        is_verified=row.get("verified") is not False,
        is_current=is_current,
        ending=_classify_endings(endings),
        superseded_by=_list_successors(endings),
        manner=row.get("manner"),
        writer=row.get("writer") or None,
        origin=row.get("origin"),
        shown=read_shown(row.get("shown")),
        question=question,
        previously=tuple(row.get("previously") or ()),
        metadata={**parse_metadata(row.get("metadata")), **_collect_custom_columns(row)},
        degraded=degraded,
    )


def _collect_custom_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's own columns; the predicate of a negated fact gets a "not"."""
    columns = {
        key: _convert_value(value) for key, value in row.items() if key not in _KNOWN_COLUMNS and value is not None
    }
    if row.get("modality") == "negated" and "predicate" in columns:
        columns["predicate"] = f"not {columns['predicate']}"
    return columns


class _FactEnding(NamedTuple):
    """How a fact ended; ``successors`` are the text and state of each fact that replaced it."""

    state: str
    modality: str
    valid_to: Any
    successors: Sequence[Mapping[str, str]]

    def has_come(self, now: datetime) -> bool:
        """Whether the fact had ended by then."""
        return self.state == "retracted" or self.valid_to is None or self.valid_to.to_native() <= now


def _is_current(row: Mapping[str, Any], validity: FactValidity, said_at: datetime | None, now: datetime) -> bool:
    """Whether a memory still holds; a caller's own row need not say what ended.

    A fact that nothing replaced is over after its last day, unless its text says so itself: because it was over when it
    was said, or because it names a first day too.
    """
    if row.get("state") not in (None, "current"):
        return validity.valid_to is not None and validity.valid_to > now
    if validity.is_stale or validity.valid_from is not None or validity.compute_status(now) != "over":
        return True
    return said_at is not None and validity.valid_to is not None and validity.valid_to <= said_at


def _classify_endings(endings: Sequence[_FactEnding]) -> Ending | None:
    """Return the gravest of the ways in which a memory's facts ended."""
    if not endings:
        return None
    if any(ending.state == "retracted" for ending in endings):
        return "retracted"
    return "plan" if all(ending.modality in ("planned", "hypothetical") for ending in endings) else "replaced"


def _list_successors(endings: Sequence[_FactEnding]) -> tuple[str, ...]:
    """List the successors of each ended fact that still hold, or else its latest."""
    texts: dict[str, None] = {}
    for ending in endings:
        successors = [successor for successor in ending.successors if successor["state"] == "current"]
        texts.update(dict.fromkeys(successor["text"] for successor in successors or ending.successors[:1]))
    return tuple(texts)[:_MAX_SUCCESSORS]


def parse_metadata(value: Any) -> dict[str, Any]:
    """Parse a row's metadata: ours is a stored JSON map; a caller's own column may be a map or anything else."""
    if isinstance(value, Mapping):
        return {str(key): _convert_value(item) for key, item in value.items()}
    if value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return json_map.parse_json_map(value)
    return {"metadata": _convert_value(value)}


def _convert_value(value: Any) -> Any:
    """Convert a value of a caller's own column for JSON: dates and times become ISO 8601 text."""
    return value.iso_format() if hasattr(value, "iso_format") else value
