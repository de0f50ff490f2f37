"""Write memories: what an ingest plans, what a rewrite changes, and what is added directly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from adk_graph_memory.graph import fact_rows, ingest_queue, lucene
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.graph.ingest_queue import Lease
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.extractions import Remark
from adk_graph_memory.records.facts import Delta, FactWrite
from adk_graph_memory.records.memory import MemorySnapshot
from adk_graph_memory.records.readings import OwnerWord, Reading, encode_reading
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.turns import OWNER_SESSION
from adk_graph_memory.runtime import telemetry

WriteOutcome = Literal["written", "taken", "outdated"]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What is to be written of a window, and the user's count of writes when its candidates were fetched.

    ``remarks`` are what was noticed of its turns, ``forget_turn_ids`` those that their author asked to forget.
    """

    delta: Delta
    reading: Reading
    report: IngestReport
    writes: int
    remarks: tuple[Remark, ...] = ()
    forget_turn_ids: tuple[str, ...] = ()


async def apply_plan(
    graph: UserGraph,
    window: Lease,
    planned: WindowPlan,
    batch: EmbeddingBatch,
    kept_readings: Mapping[str, Reading | None] | None = None,
) -> WriteOutcome:
    """Write the plan of a window and finish its ingest, with the report and what was read, in one transaction.

    Args:
        graph: the user's graph.
        window: the window.
        planned: what is written of it.
        batch: the vectors of new texts.
        kept_readings: if turns of the window were edited, what is left of their former readings, by the ids of their
            requests; the plan's delta is a rewrite's then.

    Returns:
        ``written``; ``taken`` if another worker has taken over the lease; ``outdated`` if the user's memory was
        written to since the candidates were fetched: fetch them again.
    """
    reading, report = planned.reading, planned.report
    turn_rows = await asyncio.to_thread(_encode_turn_rows, window, planned, batch)
    memory_ids = window.memory_ids if kept_readings is None else {}
    delta_rows = await asyncio.to_thread(encode_delta, planned.delta, batch, memory_ids)
    late_rows = [
        {"memory_id": id, **batch.make_vector_columns(passage)}
        for id, passage in window.unembedded_passages.items()
        if passage in batch.embeddings
    ]
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
        await transaction.run_rows("write_events", turn_rows, **batch.to_parameters())
        await mark_unread_turns(transaction, reading)
        await replace_readings(transaction, kept_readings or {})
        await write_delta(transaction, delta_rows, batch)
        await transaction.run_rows("embed_memories", late_rows, **batch.to_parameters())
        if planned.forget_turn_ids:
            await transaction.run_statement("erase_idle_ingests")
        return "written"

    return await graph.transact(work)


async def mark_unread_turns(transaction: Transaction, reading: Reading) -> None:
    """Mark the turns that a model could not read: they are found by their words, and may be read again."""
    rows = [{"memory_id": id, "reason": reason} for id, reason in reading.extraction.unread.items()]
    await transaction.run_rows("mark_unread", rows, ingest=reading.id)


async def write_delta(transaction: Transaction, rows: Mapping[str, Any], batch: EmbeddingBatch) -> None:
    """Erase and write what differs (:func:`encode_delta`), within an open transaction; what is empty sends nothing."""
    slot = batch.to_parameters()
    await transaction.run_rows("erase_facts", rows["erased_facts"])
    if any(rows["erased_pairs"].values()):
        await transaction.run_statement("erase_changes", rows["erased_pairs"])
    await transaction.run_rows("erase_entities", rows["erased_entities"])
    for chunk in _chunk_rows(rows, ("entities", "mentions")):
        await transaction.run_statement("write_entities", chunk, **slot)
    await transaction.run_rows("write_facts", rows["facts"], **slot)
    chunks = _chunk_rows(rows, ("links", "dependencies", "revisions"), at_least=1 if rows["touched"] else 0)
    for number, chunk in enumerate(chunks, start=1):
        # The last chunk marks the stale facts among those touched.
        touched = rows["touched"] if number == len(chunks) else []
        await transaction.run_statement("write_changes", chunk, touched=touched)


def encode_delta(delta: Delta, batch: EmbeddingBatch, memory_ids: Mapping[str, str]) -> dict[str, Any]:
    """Encode a delta as rows of the statements that write it.

    Args:
        delta: what differs.
        batch: the vectors of new texts.
        memory_ids: those of the turns of an ingest, by turn id; a rewrite names turns by their memory ids.
    """
    erased = delta.erased
    touched_ids = {write.fact.id for write in delta.facts if not write.is_new or write.fact.standing.state != "current"}
    links = (*erased.links, *((link.later, link.earlier) for link in delta.links))
    return {
        "erased_facts": erased.facts,
        "erased_pairs": erased.pairs,
        "erased_entities": erased.entities,
        "entities": [
            asdict(entity) | {"vector": batch.find_vector(entity.name) if entity.is_new else None}
            for entity in delta.entities
        ],
        "facts": [fact_rows.encode_fact_row(write, batch, memory_ids) for write in delta.facts],
        "mentions": [
            {"event": memory_ids.get(turn_id, turn_id), "key": key, "was": was}
            for (turn_id, key), was in delta.mentions.items()
        ],
        "links": [asdict(link) for link in delta.links],
        "dependencies": [list(pair) for pair in delta.dependencies],
        "revisions": [fact_rows.encode_revision_row(revision, memory_ids) for revision in delta.revisions],
        "touched": sorted(touched_ids.union(*links, *delta.dependencies, *erased.dependencies)),
    }


def _chunk_rows(rows: Mapping[str, Any], names: Sequence[str], *, at_least: int = 0) -> list[dict[str, Any]]:
    """Part rows of several kinds into chunks, each of as many of a kind as one statement takes."""
    starts = range(0, max(at_least, *(len(rows[name]) for name in names)), ROWS_PER_STATEMENT)
    return [{name: rows[name][start : start + ROWS_PER_STATEMENT] for name in names} for start in starts]


async def add_facts(graph: UserGraph, facts: Sequence[FactWrite], batch: EmbeddingBatch) -> None:
    """Write facts that were added directly, not extracted from a session, in one transaction."""
    rows = [fact_rows.encode_fact_row(fact, batch, {}) for fact in facts]

    async def work(transaction: Transaction) -> None:
        await transaction.run_statement("know_user")
        await transaction.run_rows("write_facts", rows, **batch.to_parameters())

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


def _encode_turn_rows(window: Lease, planned: WindowPlan, batch: EmbeddingBatch) -> list[dict[str, Any]]:
    memory_ids, passages = window.memory_ids, window.list_passages(planned.forget_turn_ids)
    remarks = {remark.turn_id: remark for remark in planned.remarks}
    return [
        {
            "memory_id": memory_ids[turn.id],
            "is_evidence": window.is_evidence,
            "words": lucene.extract_word_parts(turn.text),
            "text": turn.text if turn.shown else None,  # of other turns, the claim has stored it
            **ingest_queue.encode_shown_columns(turn),
            "extracted": f"{planned.report.extractor}:{turn.text_key}",
            **batch.make_vector_columns(passages.get(turn.id)),
            "manner": remarks[turn.id].manner if turn.id in remarks else None,
            "writer": remarks[turn.id].writer or None if turn.id in remarks else None,
        }
        for turn in window.turns
        if turn.id not in planned.forget_turn_ids
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
    """memory_id, ingest (that read it before), text, words, own_text, shown, extracted, manner and writer of each"""


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
    await replace_readings(transaction, list_changed_readings(snapshot, readings))
    return True


def list_changed_readings(snapshot: MemorySnapshot, readings: Sequence[Reading]) -> dict[str, Reading | None]:
    """List what is left of those of the snapshot's readings that are no longer as they were, None of what is gone."""
    kept = {reading.id: replace(reading, reread_at={}) for reading in readings}
    return {
        reading.id: kept.get(reading.id)
        for reading in snapshot.readings
        if kept.get(reading.id) != replace(reading, reread_at={})
    }


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
