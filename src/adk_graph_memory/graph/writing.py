"""Write memories: what an ingest plans, what a rewrite changes, and what is added directly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from adk_graph_memory.graph import fact_rows, ingest_queue, lucene
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.graph.ingest_queue import Lease
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.facts import Fact, PlannedFact, WritePlan
from adk_graph_memory.records.memory import MemoryDifference, MemorySnapshot
from adk_graph_memory.records.readings import OwnerWord, Reading, encode_reading
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.turns import OWNER_SESSION
from adk_graph_memory.runtime import telemetry

WriteOutcome = Literal["written", "taken", "outdated"]
_ChangeRows = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What is to be written of a window, and the user's count of writes when its candidates were fetched."""

    plan: WritePlan
    reading: Reading
    report: IngestReport
    writes: int


async def apply_plan(
    graph: UserGraph,
    window: Lease,
    planned: WindowPlan,
    batch: EmbeddingBatch,
    rewrite: Callable[[Transaction], Awaitable[None]] | None = None,
) -> WriteOutcome:
    """Write the plan of a window and finish its ingest, with the report and what was read, in one transaction.

    Args:
        graph: the user's graph.
        window: the window.
        planned: what is written of it.
        batch: the vectors of new texts.
        rewrite: writes entities and facts instead of the plan.

    Returns:
        ``written``; ``taken`` if another worker has taken over the lease; ``outdated`` if the user's memory was
        written to since the candidates were fetched: fetch them again.
    """
    plan, reading, report, slot = planned.plan, planned.reading, planned.report, batch.to_parameters()
    if rewrite is not None:
        plan = WritePlan(remarks=plan.remarks, forget_turn_ids=plan.forget_turn_ids)
    changes = await asyncio.to_thread(_encode_change_rows, window, plan, batch, report)
    encoded_reading = await asyncio.to_thread(encode_reading, reading)

    async def work(transaction: Transaction) -> WriteOutcome:
        rows = await transaction.run_statement(
            "finish_ingest",
            ingest=window.ingest_id,
            lease=window.lease_id,
            writes=planned.writes,
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
        if rewrite is not None:
            await rewrite(transaction)
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
    rows = [fact_rows.encode_fact_row(fact, batch, {}, "direct") for fact in facts]

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


def _encode_change_rows(window: Lease, plan: WritePlan, batch: EmbeddingBatch, report: IngestReport) -> _ChangeRows:
    memory_ids = window.memory_ids
    touched_ids = {fact.id for fact in plan.facts if fact.standing.state != "current" or not fact.is_new}
    touched_ids |= {id for pair in plan.dependencies for id in pair}
    return {
        "entities": _encode_entity_rows(plan, batch, report.judge),
        "events": _encode_event_rows(window, plan, batch, report.extractor),
        "facts": [fact_rows.encode_fact_row(fact, batch, memory_ids, report.extractor) for fact in plan.facts],
        "links": [asdict(link) for link in plan.links],
        "dependencies": [list(pair) for pair in plan.dependencies],
        "revisions": [fact_rows.encode_revision_row(revision, memory_ids, report.judge) for revision in plan.revisions],
        "touched": sorted(touched_ids),
        "late": [
            {"memory_id": id, **batch.make_vector_columns(passage)}
            for id, passage in window.unembedded_passages.items()
            if passage in batch.embeddings
        ],
    }


def _encode_event_rows(window: Lease, plan: WritePlan, batch: EmbeddingBatch, extractor: str) -> list[dict[str, Any]]:
    memory_ids, passages = window.memory_ids, window.list_passages(plan.forget_turn_ids)
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


def _encode_entity_rows(plan: WritePlan, batch: EmbeddingBatch, judge: str) -> list[dict[str, Any]]:
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


# -- what a rewrite changes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rereading:
    """A window of turns that was read again: what was read, and the columns of the turns' and the ingest's nodes."""

    reading: Reading
    report: str
    model: str
    topics: tuple[str, ...]
    turns: Sequence[Mapping[str, Any]]
    """memory_id, ingest (that read it before), extracted, manner and writer of each"""


async def write_difference(transaction: Transaction, difference: MemoryDifference, batch: EmbeddingBatch) -> None:
    """Erase and write what differs, within an open transaction."""
    slot = batch.to_parameters()
    await transaction.run_rows("erase_facts", difference.erased_facts)
    await transaction.run_rows("erase_vectors", difference.reworded_facts)
    await transaction.run_statement("erase_changes", difference.erased_changes)
    await transaction.run_rows("erase_entities", difference.erased_entities)
    entity_rows = [asdict(entity) | {"vector": batch.find_vector(entity.name)} for entity in difference.entities]
    await transaction.run_rows("rewrite_entities", entity_rows, **slot)
    rows = [encode_derived_row(fact, difference, batch) for fact in difference.facts]
    await transaction.run_rows("write_facts", rows, **slot)
    rulings = [{"id": f.id, **fact_rows.encode_ruling_columns(f.ruling)} for f in difference.facts]
    await transaction.run_rows("write_rulings", rulings)
    await transaction.run_rows("rewrite_fact_entities", rows)
    mention_rows = [
        {"event": turn_id, "key": entity_key, "was": difference.derived.mentions[turn_id, entity_key]}
        for turn_id, entity_key in difference.mentions
    ]
    await transaction.run_rows("rewrite_mentions", mention_rows)
    await write_changes(transaction, encode_difference_rows(difference))


def encode_derived_row(fact: Fact, difference: MemoryDifference, batch: EmbeddingBatch) -> dict[str, Any]:
    """Encode a derived fact as a row of ``write_facts``."""
    stored = difference.stored.facts.get(fact.id)
    kept_keys = {source.key for source in fact.sources}
    planned = PlannedFact(
        fact.id,
        fact.proposition,
        is_new=stored is None,
        is_reworded=stored is not None and stored.proposition.text != fact.proposition.text,
        sources=fact.sources,
        moved_sources=tuple(source for source in stored.sources if source.key not in kept_keys) if stored else (),
        standing=fact.standing,
    )
    return fact_rows.encode_fact_row(planned, batch, {}, fact.extractor) | {
        "recorded_at": fact.recorded_at,
        "retired_at": fact.retired_at,
        "subject_was": fact.former_entity_keys[0],
        "object_was": fact.former_entity_keys[1],
    }


def encode_difference_rows(difference: MemoryDifference) -> dict[str, list[Any]]:
    """Encode what changed as rows of ``write_changes``."""
    derived = difference.derived
    revision_rows = []
    for id, key in difference.revisions:
        [revision] = [item for item in derived.facts[id].revisions if item.revision.key == key]
        row = fact_rows.encode_revision_row(revision.revision, {}, revision.judge)
        revision_rows.append(row | {"recorded_at": revision.recorded_at})
    links = [derived.links[pair] for pair in difference.links]
    touched = {fact.id for fact in difference.facts}.union(*derived.dependencies, *difference.links)
    return {
        "links": [asdict(link.link) | {"recorded_at": link.recorded_at} for link in links],
        "dependencies": [list(pair) for pair in difference.dependencies],
        "revisions": revision_rows,
        "touched": sorted(touched),
    }


async def write_owner_word(transaction: Transaction, snapshot: MemorySnapshot, word: OwnerWord) -> None:
    """Store what the owner said, within a transaction that began a rewrite."""
    await transaction.run_statement(
        "write_owner_word",
        id=word.reading.id,
        session_id=OWNER_SESSION,
        session_uid=f"elsewhere:{digest(OWNER_SESSION)}",
        at=word.reading.at,
        writes=snapshot.writes + 1,
        reading=encode_reading(word.reading),
        by=word.reading.extractor,
        turns=[ingest_queue.encode_turn_row(turn, OWNER_SESSION) for turn in word.turns],
    )


async def begin_rewrite(
    transaction: Transaction,
    snapshot: MemorySnapshot,
    readings: Sequence[Reading],
    undone_ids: Sequence[str] = (),
) -> bool:
    """Lock the user and store the readings that are left; return False if the user was written to meanwhile.

    Turns that the undone ingests had read again count as they were read before.
    """
    rows = await transaction.run_statement("begin_rewrite", writes=snapshot.writes)
    if not rows or not rows[0]["is_current"]:
        return False
    await transaction.run_rows("restore_former_readings", undone_ids)
    await store_kept_readings(transaction, snapshot, readings)
    return True


async def store_kept_readings(transaction: Transaction, snapshot: MemorySnapshot, readings: Sequence[Reading]) -> None:
    """Store what is left of the snapshot's readings, within an open transaction."""
    kept = {reading.id: replace(reading, reread_at={}) for reading in readings}
    changed = {
        reading.id: kept.get(reading.id)
        for reading in snapshot.readings
        if kept.get(reading.id) != replace(reading, reread_at={})
    }
    await replace_readings(transaction, changed)


async def replace_readings(transaction: Transaction, readings: Mapping[str, Reading | None]) -> None:
    """Store readings in their requests, within an open transaction, and delete requests that are now empty."""
    rows = [_encode_reading_row(id, reading) for id, reading in readings.items()]
    await transaction.run_rows("rewrite_readings", rows)


def _encode_reading_row(id: str, reading: Reading | None) -> dict[str, Any]:
    if reading is None:
        return {"id": id, "reading": None, "held": None, "reviewed": None}
    held, reviewed = len(reading.held) or None, reading.is_reviewed or None
    return {"id": id, "reading": encode_reading(reading), "held": held, "reviewed": reviewed}


async def are_turns_as_read(transaction: Transaction, rereading: Rereading) -> bool:
    """Whether nobody has edited, forgotten or claimed any of the turns meanwhile; the user has to be locked."""
    rows = [{"memory_id": turn["memory_id"], "ingest": turn["ingest"]} for turn in rereading.turns]
    [row] = await transaction.run_statement("turns_as_read", turns=rows)
    return bool(row["turns"] == len(rows))


async def write_rereading(transaction: Transaction, snapshot: MemorySnapshot, rereading: Rereading) -> None:
    """Store what was read again, within a transaction that began a rewrite; what was read before stays for history."""
    reading = rereading.reading
    await transaction.run_statement(
        "write_rereading",
        id=reading.id,
        session_id=reading.session_id,
        at=reading.at,
        writes=snapshot.writes + 1,
        report=rereading.report,
        extractor=reading.extractor,
        model=rereading.model,
        topics=list(rereading.topics),
        reading=encode_reading(reading),
        held=len(reading.held) or None,
        turns=list(rereading.turns),
    )
    await mark_unread_turns(transaction, reading)
