"""What is planned goes in and rows for statements come out; rows of the graph come back as what is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from adk_graph_memory.graph import word_parts
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.language.zones import apply_fixed_offset, get_utc_offset, restore_datetime
from adk_graph_memory.records import (
    KnownFact,
    Passage,
    PlannedFact,
    PlannedRevision,
    Proposition,
    Source,
    Standing,
    digest,
)
from adk_graph_memory.records.dates import infer_precision
from adk_graph_memory.records.fact_validity import FactValidity


def make_fact_row(fact: PlannedFact, embedded: EmbeddingBatch, memory_ids: Mapping[str, str]) -> dict[str, Any]:
    """A planned fact as the writing statement takes it."""
    said = fact.proposition
    return {
        "id": fact.id,
        "signature": said.signature,
        "is_new": fact.is_new,
        "text": said.text,
        "words": word_parts.extract_word_parts(said.text),
        "predicate": said.predicate,
        "modality": said.modality,
        "topic": said.topic,
        "author": said.speaker,
        "timestamp": said.at.timestamp(),
        "offset": get_utc_offset(said.at),
        "valid_from": said.valid_from,
        "valid_from_precision": said.valid_from_precision,
        "said_to": said.valid_to,
        "said_to_precision": said.valid_to_precision,
        "valid_to": fact.standing.valid_to,
        "valid_to_precision": fact.standing.valid_to_precision,
        "state": fact.standing.state,
        "correction": said.is_correction or None,
        "single": said.is_functional or None,
        "subject": said.subject,
        "object": said.object,
        "direct": fact.is_direct,
        "events": [memory_ids.get(source.turn_id, source.turn_id) for source in fact.sources],
        "sources": [_make_source_row(source, memory_ids) for source in fact.sources],
        "moved": [_make_source_row(source, memory_ids) for source in fact.moved_sources],
        "metadata": JsonMapDelta.from_values(fact.metadata).to_parameter(),
        **embedded.make_vector_columns(Passage(said.text) if fact.is_new or fact.is_reworded else None),
    }


def _make_source_row(source: Source, memory_ids: Mapping[str, str]) -> dict[str, Any]:
    return {
        "event": memory_ids.get(source.turn_id, source.turn_id),
        "key": source.quote_key,
        "quote": source.quote,
        "start": source.start,
        "end": source.end,
        "verified": None if source.is_verified else False,
    }


def make_revision_row(revision: PlannedRevision, memory_ids: Mapping[str, str], judge: str) -> dict[str, Any]:
    """A revision's row; the same change, made again, is the same revision."""
    evidence = [_make_source_row(source, memory_ids) for source in revision.evidence]
    until = revision.standing.valid_to
    what = (revision.op, revision.text, revision.standing.state, until.isoformat() if until else "")
    return {
        "fact_id": revision.fact_id,
        "n": digest(*what, *(said["key"] for said in evidence)),
        "evidence": evidence,
        "properties": {
            "op": revision.op,
            "reason": revision.reason,
            "text": revision.text,
            "signature": revision.signature,
            "state": revision.standing.state,
            "valid_to": until,
            "by": judge if revision.is_by_model else "rules",
        },
    }


def read_known_fact(
    row: Mapping[str, Any], turn_ids: Mapping[str, str], edited: Collection[str], is_complete: bool
) -> KnownFact:
    """A fact of the graph; what it rests on in turns that were edited since is left out, for these are read anew."""
    said = Proposition(
        row["text"],
        row["predicate"],
        row["subject"],
        row["object"],
        restore_datetime(row["timestamp"], row["offset"]),
        row["author"],
        row["modality"],
        convert_datetime(row["valid_from"]),
        convert_datetime(row["said_to"]),
        row["topic"] or "",
        bool(row["correction"]),
        bool(row["single"]),
        row["valid_from_precision"] or infer_precision(convert_datetime(row["valid_from"])),
        row["said_to_precision"] or infer_precision(convert_datetime(row["said_to"])),
    )
    sources = (read_source((turn_ids.get(event, event), *said)) for event, *said in row["sources"])
    kept = tuple(one for one in sources if one.turn_id not in edited)
    standing = Standing(row["state"], convert_datetime(row["valid_to"]), row["valid_to_precision"])
    was = row["subject_was"], row["object_was"]
    return KnownFact(row["id"], said, kept, standing, tuple(row["absorbed"]), is_complete, was)


def read_validity(row: Mapping[str, Any]) -> FactValidity:
    """When a memory is so and how it was said, as far as a statement returned any of it."""
    since, until = convert_datetime(row.get("valid_from")), convert_datetime(row.get("valid_to"))
    return FactValidity(
        row.get("modality"),
        row.get("state"),
        since,
        until,
        row.get("valid_from_precision") or infer_precision(since),
        row.get("valid_to_precision") or infer_precision(until),
        bool(row.get("stale")),
    )


def read_source(row: Sequence[Any]) -> Source:
    """Words that a fact rests on, as statements return them."""
    id, quote, start, end, timestamp, offset, seq, session, verified = row
    return Source(id, quote, start, end, restore_datetime(timestamp, offset), seq or 0, session, verified is None)


def convert_datetime(value: Any) -> datetime | None:
    """A datetime of Neo4j's as Python's, with its offset alone: a named zone would be written back as one."""
    return None if value is None else apply_fixed_offset(value.to_native())
