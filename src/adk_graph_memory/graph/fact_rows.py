"""Convert facts and revisions into rows for statements, and rows of the graph into facts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from adk_graph_memory.graph import lucene
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.language.dates import apply_fixed_offset, get_utc_offset, infer_precision, restore_datetime
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.facts import (
    STATES_PREDICATE,
    DirectFact,
    Fact,
    FactValidity,
    FactWrite,
    Proposition,
    Revision,
    Ruling,
    Standing,
)
from adk_graph_memory.records.results import StoredEntity, StoredFact
from adk_graph_memory.records.turns import Passage, Statement


def encode_fact_row(write: FactWrite, batch: EmbeddingBatch, memory_ids: Mapping[str, str]) -> dict[str, Any]:
    """Encode a fact as a row of ``write_facts``; ``memory_ids`` are those of this ingest, by turn id."""
    fact, direct = write.fact, write.direct or DirectFact()
    proposition = fact.proposition
    return {
        "id": fact.id,
        "is_new": write.is_new,
        "is_reworded": write.is_reworded,
        "columns": _encode_columns(fact),
        "recorded_at": fact.recorded_at,
        "retired_at": fact.retired_at,
        "subject": proposition.subject,
        "object": proposition.object,
        "subject_was": fact.former_entity_keys[0],
        "object_was": fact.former_entity_keys[1],
        "sources": [_encode_source_row(source, memory_ids) for source in write.added_sources],
        "moved": [_encode_source_row(source, memory_ids) for source in write.removed_sources],
        "direct": write.direct is not None,
        "metadata": JsonMapDelta.from_values(direct.metadata, replaces=direct.replaces_metadata).to_parameter(),
        "expires_at": direct.expires_at and direct.expires_at.timestamp(),
        "origin": direct.origin,
        **batch.make_vector_columns(Passage(proposition.text) if write.is_new or write.is_reworded else None),
    }


def _encode_columns(fact: Fact) -> dict[str, Any]:
    """Encode what a fact's node says of it; :func:`read_fact` reads it again. None removes a property."""
    proposition, standing, ruling = fact.proposition, fact.standing, fact.ruling
    predicate = proposition.predicate if proposition.predicate != STATES_PREDICATE else ""
    names = f"{proposition.topic or ''} {predicate}".replace("_", " ")  # "turns 38 on Monday" is found by "birthday"
    columns = {
        "signature": proposition.signature,
        "text": proposition.text,
        "words": f"{lucene.extract_word_parts(proposition.text) or ''} {names}".strip() or None,
        "predicate": proposition.predicate,
        "modality": proposition.modality,
        "topic": proposition.topic,
        "author": proposition.speaker,
        "timestamp": proposition.at.timestamp(),
        "offset": get_utc_offset(proposition.at),
        "valid_from": proposition.valid_from,
        "valid_from_precision": proposition.valid_from_precision,
        "said_to": proposition.valid_to,
        "said_to_precision": proposition.valid_to_precision,
        "valid_to": standing.valid_to,
        "valid_to_precision": standing.valid_to_precision,
        "state": standing.state,
        "open": standing.state == "current",
        "correction": proposition.is_correction or None,
        "single": proposition.is_functional or None,
        "pinned": ruling.is_pinned or None,
        "upheld_until": ruling.upheld_until,
        "owner_retracted_at": ruling.retracted_at,
        "ruling_reason": ruling.reason or None,
    }
    return columns | {"extractor": fact.extractor} if fact.extractor else columns


def _encode_source_row(source: Source, memory_ids: Mapping[str, str]) -> dict[str, Any]:
    return {
        "event": memory_ids.get(source.turn_id, source.turn_id),
        "key": source.quote_key,
        "quote": source.quote,
        "start": source.start,
        "end": source.end,
        "verified": None if source.is_verified else False,
        "origin": "picture" if source.origin == "picture" else None,  # of other words, the turn says it
    }


def encode_revision_row(revision: Revision, memory_ids: Mapping[str, str]) -> dict[str, Any]:
    """Encode a revision as a row of ``write_changes``."""
    return {
        "fact_id": revision.fact_id,
        "n": revision.key,
        "recorded_at": revision.recorded_at,
        "evidence": [_encode_source_row(source, memory_ids) for source in revision.evidence],
        "properties": {
            "op": revision.op,
            "reason": revision.reason,
            "text": revision.text,
            "signature": revision.signature,
            "state": revision.standing.state,
            "valid_to": revision.standing.valid_to,
            "by": revision.judge if revision.is_by_model else "rules",
        },
    }


def read_fact(
    row: Mapping[str, Any],
    turn_ids: Mapping[str, str] | None = None,
    edited_ids: Collection[str] = (),
    *,
    is_complete: bool = True,
) -> Fact:
    """Read a fact from its columns, without sources in edited turns: those turns are read again.

    ``turn_ids`` are the ids of turns by their memory ids; other turns keep their memory id.
    """
    names = turn_ids or {}
    sources = (replace(one, turn_id=names.get(one.turn_id, one.turn_id)) for one in map(read_source, row["sources"]))
    return Fact(
        row["id"],
        _read_proposition(row, row["subject"], row["object"], said_to=row["said_to"]),
        tuple(source for source in sources if source.turn_id not in edited_ids),
        _read_standing(row),
        tuple(row["absorbed"]),
        is_complete,
        (row["subject_was"], row["object_was"]),
        Ruling(
            bool(row["pinned"]),
            convert_datetime(row["upheld_until"]),
            convert_datetime(row["owner_retracted_at"]),
            row["ruling_reason"] or "",
        ),
    )


def _read_proposition(
    row: Mapping[str, Any], subject: str | None, object: str | None, *, said_to: Any = None
) -> Proposition:
    return Proposition(
        text=row["text"],
        predicate=row["predicate"],
        subject=subject,
        object=object,
        at=restore_datetime(row["timestamp"], row["offset"]),
        speaker=row["author"],
        modality=row["modality"],
        valid_from=convert_datetime(row.get("valid_from")),
        valid_to=convert_datetime(said_to),
        topic=row["topic"] or "",
        is_correction=bool(row.get("correction")),
        is_functional=bool(row.get("single")),
        valid_from_precision=row.get("valid_from_precision"),
        valid_to_precision=row.get("said_to_precision"),
    )


def _read_standing(row: Mapping[str, Any]) -> Standing:
    valid_to = convert_datetime(row.get("valid_to"))
    return Standing(row["state"], valid_to, row.get("valid_to_precision") or infer_precision(valid_to))


def read_validity(row: Mapping[str, Any]) -> FactValidity:
    """Read a memory's modality, state and validity dates; columns that the statement did not return are None."""
    valid_from, valid_to = convert_datetime(row.get("valid_from")), convert_datetime(row.get("valid_to"))
    return FactValidity(
        modality=row.get("modality"),
        state=row.get("state"),
        valid_from=valid_from,
        valid_to=valid_to,
        valid_from_precision=row.get("valid_from_precision") or infer_precision(valid_from),
        valid_to_precision=row.get("valid_to_precision") or infer_precision(valid_to),
        is_stale=bool(row.get("stale")),
    )


RivalTexts = Mapping[tuple[str | None, str], Sequence[str]]
"""The texts of the facts that hold, by subject and single-valued predicate."""


def read_stored_fact(row: Mapping[str, Any], now: datetime, rivals: RivalTexts | None = None) -> StoredFact:
    """Read a fact as it is listed, with the names of its entities; a statement may leave out what it does not have."""
    subject, object = row.get("subject") or {}, row.get("object") or {}
    fact = Fact(
        row["id"].removeprefix("fact:"),
        _read_proposition(row, subject.get("key"), object.get("key")),
        tuple(map(read_source, row.get("sources", ()))),
        _read_standing(row),
        ruling=Ruling(is_pinned=bool(row.get("pinned"))),
    )
    texts = (rivals or {}).get((fact.proposition.subject, fact.proposition.predicate), ())
    others = (replace(fact.proposition, text=text) for text in texts)
    names = subject.get("name"), object.get("name")
    listed = StoredFact.describe(fact, *names, now, is_stale=bool(row.get("stale")), others=others)
    return replace(listed, origin=row["origin"])


def read_stored_entity(row: Mapping[str, Any]) -> StoredEntity:
    """Read an entity as it is listed."""
    return StoredEntity(row["key"], row["name"], row["type"], tuple(row["aliases"]), row["about"] or "", row["facts"])


def read_statement(row: Mapping[str, Any]) -> Statement:
    """Read a statement that was added directly, from its fact's properties; its id and metadata stay behind."""
    at, expires_at = restore_datetime(row["timestamp"], row["offset"]), read_expiry(row["expires_at"])
    return Statement(
        row["text"], at, row["author"], topic=row["topic"] or "", expires_at=expires_at, origin=row["origin"]
    )


def read_expiry(timestamp: float | None) -> datetime | None:
    """Read when something expires, from epoch seconds; None if it never does."""
    return None if timestamp is None else datetime.fromtimestamp(timestamp, UTC)


def read_source(row: Mapping[str, Any]) -> Source:
    """Read the source of a fact from the map that statements return."""
    return Source(
        turn_id=row["turn_id"],
        quote=row["quote"],
        start=row["start"],
        end=row["end"],
        at=restore_datetime(row["timestamp"], row["offset"]),
        seq=row["seq"] or 0,
        session_id=row["session_id"],
        is_verified=row["verified"] is None,
        author=row["author"] or "",
        origin=row["origin"] or "user",
    )


def convert_datetime(value: Any) -> datetime | None:
    """Convert a Neo4j datetime to Python's, with a fixed offset: a named zone would be written back as one."""
    return None if value is None else apply_fixed_offset(value.to_native())
