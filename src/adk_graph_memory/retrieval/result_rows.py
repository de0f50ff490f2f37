"""Make the records of the default traversal, whose statement returns what lies around each result as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import neo4j

from adk_graph_memory.language.wording import find_proof

Row = Mapping[str, Any]

COLUMNS = (
    *("text", "score", "id", "kind", "author", "timestamp", "offset", "valid_from", "valid_to"),
    *("valid_from_precision", "valid_to_precision", "modality", "metadata", "source_event_ids", "session_id", "quote"),
    *("subject", "predicate", "object", "topic", "question", "previously", "facts", "endings", "stale", "verified"),
    *("manner", "origin", "writer"),
)
"""The columns of a record, in their order."""
ENDING = ("state", "modality", "valid_to", "successors")
"""What is returned of a fact that ended."""


def make_records(rows: Iterable[Row], fact_ids: Collection[str | None], passage_length: int) -> list[neo4j.Record]:
    """Make a record of each row of the statement ``results``.

    Args:
        rows: the rows, best first.
        fact_ids: the facts that turns were found for.
        passage_length: a turn with more characters also gets the quote it was found for.
    """
    records = []
    for row in rows:
        facts = row["facts"]
        columns: dict[str, Any] = {**row, "facts": len(facts), "stale": any(fact["stale"] for fact in facts) or None}
        endings = [{name: fact[name] for name in ENDING} for fact in facts if fact["state"] not in (None, "current")]
        columns["endings"] = endings or None
        if row["kind"] == "fact":
            columns |= _make_fact_columns(row)
        else:
            columns["source_event_ids"] = [row["event_id"]]
            if len(row["text"]) > passage_length:
                columns["quote"] = next((fact["quote"] for fact in facts if fact["memory_id"] in fact_ids), None)
        records.append(neo4j.Record([(name, columns.get(name)) for name in COLUMNS]))  # type: ignore[no-untyped-call]
    return records


def _make_fact_columns(row: Row) -> Row:
    """What a fact's sources say of it; it is only reported, or only quoted, if all of them are."""
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
        "verified": False if sources and all(source["verified"] is False for source in sources) else None,
        "manner": indirect[0]["manner"] if indirect and is_indirect else None,
        "writer": next((source["writer"] for source in indirect if is_indirect and source["writer"]), None),
    }
