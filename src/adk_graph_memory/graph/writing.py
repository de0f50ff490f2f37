"""Apply write plans and add facts to the graph; count memories and list changed facts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from adk_graph_memory.graph import fact_rows, lucene
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.graph.ingest_queue import Lease
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.records.facts import PlannedFact, WritePlan
from adk_graph_memory.records.readings import Reading, encode_reading
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.runtime import telemetry

WriteOutcome = Literal["written", "taken", "outdated"]
_ChangeRows = dict[str, list[Any]]


async def apply_plan(
    graph: UserGraph,
    window: Lease,
    plan: WritePlan,
    batch: EmbeddingBatch,
    report: IngestReport,
    reading: Reading,
    writes: int,
) -> WriteOutcome:
    """Write the plan of a window and finish its ingest, with the report and what was read, in one transaction.

    Returns:
        ``written``; ``taken`` if another worker has taken over the lease; ``outdated`` if the user's memory was
        written to since the candidates were fetched (``writes`` was the count then): fetch them again.
    """
    slot = batch.to_parameters()
    changes = await asyncio.to_thread(_make_change_rows, window, plan, batch, report)
    encoded_reading = await asyncio.to_thread(encode_reading, reading)

    async def work(transaction: Transaction) -> WriteOutcome:
        rows = await transaction.run_statement(
            "finish_ingest",
            ingest=window.ingest_id,
            lease=window.lease_id,
            writes=writes,
            report=json.dumps(asdict(report)),
            reading=encoded_reading,
            held=len(reading.held) or None,
            extractor=report.extractor,
            authors=sorted({turn.author for turn in window.turns}),
        )
        if not (rows and rows[0]["is_current"]):
            return "outdated" if rows else "taken"
        await transaction.run_rows("write_entities", changes["entities"], **slot)
        await transaction.run_rows("write_events", changes["events"], **slot)
        await transaction.run_rows("write_facts", changes["facts"], **slot)
        await write_changes(transaction, changes)
        await mark_unread_turns(transaction, reading)
        await transaction.run_rows("retract_support", changes["still_said"])
        await transaction.run_rows("embed_memories", changes["late"], **slot)
        if plan.forget_turn_ids:
            await transaction.run_statement("erase_idle_ingests")
        return "written"

    return await graph.transact(work)


async def mark_unread_turns(transaction: Transaction, reading: Reading) -> None:
    """Mark the turns that a model could not read: they are found by their words, and may be read again."""
    rows = [{"memory_id": id, "reason": reason} for id, reason in reading.extraction.unread.items()]
    await transaction.run_rows("mark_unread", rows, ingest=reading.id)


async def write_changes(transaction: Transaction, changes: Mapping[str, Sequence[Any]]) -> None:
    """Write links, dependencies and revisions in chunks; the last one marks the stale facts among those touched."""
    names = ("links", "dependencies", "revisions")
    longest = max(len(changes[name]) for name in names)
    for start in range(0, longest or len(changes["touched"][:1]), ROWS_PER_STATEMENT):
        chunk = {name: changes[name][start : start + ROWS_PER_STATEMENT] for name in names}
        touched = changes["touched"] if start + ROWS_PER_STATEMENT >= longest else []
        await transaction.run_statement("write_changes", chunk, touched=touched)


async def add_facts(graph: UserGraph, facts: Sequence[PlannedFact], batch: EmbeddingBatch) -> None:
    """Write facts that were added directly, not extracted from a session, in one transaction."""
    rows = [fact_rows.make_fact_row(fact, batch, {}, "direct") for fact in facts]

    async def work(transaction: Transaction) -> None:
        await transaction.run_statement("know_user")
        slot = batch.to_parameters()
        await transaction.run_rows("write_facts", rows, **slot)

    await graph.transact(work)
    telemetry.record_facts({"ADD": len(facts)})


async def fetch_changed_facts(graph: UserGraph) -> list[dict[str, Any]]:
    """List facts that ended, were corrected, reworded or heard again: text, state, quotes, ended_by, revisions."""
    rows = await graph.run_statement("changed_facts")
    return [{**row, "valid_to": fact_rows.convert_datetime(row["valid_to"])} for row in rows]


async def count_memories(graph: UserGraph) -> dict[str, int]:
    """Count the user's sessions, turns, entities and facts in the graph."""
    [row] = await graph.run_statement("counts")
    return dict(row)


def _make_change_rows(window: Lease, plan: WritePlan, batch: EmbeddingBatch, report: IngestReport) -> _ChangeRows:
    memory_ids = window.memory_ids
    touched_ids = {fact.id for fact in plan.facts if fact.standing.state != "current" or not fact.is_new}
    touched_ids |= {id for pair in plan.dependencies for id in pair}
    return {
        "entities": _make_entity_rows(plan, batch, report.judge),
        "events": _make_event_rows(window, plan, batch, report.extractor),
        "facts": [fact_rows.make_fact_row(fact, batch, memory_ids, report.extractor) for fact in plan.facts],
        "links": [asdict(link) for link in plan.links],
        "dependencies": [list(pair) for pair in plan.dependencies],
        "revisions": [fact_rows.make_revision_row(revision, memory_ids, report.judge) for revision in plan.revisions],
        "touched": sorted(touched_ids),
        "still_said": _list_kept_quotes(window, plan),
        "late": [
            {"memory_id": id, **batch.make_vector_columns(passage)}
            for id, passage in window.unembedded_passages.items()
            if passage in batch.embeddings
        ],
    }


def _make_event_rows(window: Lease, plan: WritePlan, batch: EmbeddingBatch, extractor: str) -> list[dict[str, Any]]:
    memory_ids, passages = window.memory_ids, window.make_passages(plan.forget_turn_ids)
    remarks = {remark.turn_id: remark for remark in plan.remarks}
    entity_keys: dict[str, list[str]] = {}
    for turn_id, key in plan.mentions:
        entity_keys.setdefault(turn_id, []).append(key)
    return [
        {
            "memory_id": memory_ids[turn.id],
            "is_evidence": window.is_evidence,
            "words": lucene.extract_word_parts(turn.text),
            "extracted": f"{extractor}:{turn.text_key}",
            "mentions": entity_keys.get(turn.id, []),
            **batch.make_vector_columns(passages.get(turn.id)),
            "manner": remarks[turn.id].manner if turn.id in remarks else None,
            "writer": remarks[turn.id].writer or None if turn.id in remarks else None,
        }
        for turn in window.turns
        if turn.id not in plan.forget_turn_ids
    ]


def _make_entity_rows(plan: WritePlan, batch: EmbeddingBatch, judge: str) -> list[dict[str, Any]]:
    return [
        {
            "key": entity.key,
            "name": entity.name,
            "type": entity.type,
            "aliases": list(entity.aliases),
            "about": entity.about,
            "absorbs": list(entity.merged_keys),
            "parts": bool(entity.split_from),
            "by": judge,
            "reason": entity.merge_reason,
            "vector": batch.find_vector(entity.name) if entity.is_new else None,
        }
        for entity in plan.entities
    ]


def _list_kept_quotes(window: Lease, plan: WritePlan) -> list[dict[str, Any]]:
    """For each edited turn, the keys of the quotes that still support facts of this plan."""
    memory_ids = window.memory_ids
    quote_keys: dict[str, list[str]] = {id: [] for id in sorted(window.edited_turn_ids.intersection(memory_ids))}
    for source in (source for fact in plan.facts for source in fact.sources):
        if source.turn_id in quote_keys:
            quote_keys[source.turn_id].append(source.quote_key)
    return [{"event": memory_ids[id], "keys": keys} for id, keys in quote_keys.items()]
