"""Extractions to compare, plans to apply and statements to add go in; candidates come out, and the graph is changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from adk_graph_memory import telemetry
from adk_graph_memory.graph import fact_rows, forgetting, word_parts
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.ingest_queue import Lease
from adk_graph_memory.graph.queries import ROWS_PER_STATEMENT, make_scope_parameters
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.records import (
    IngestReport,
    PlannedFact,
    Scope,
    WritePlan,
)

WriteOutcome = Literal["written", "taken", "outdated"]
_ChangeRows = dict[str, list[Any]]


# -- remembering ------------------------------------------------------------------------------------------------


async def apply_plan(
    connection: Connection,
    scope: Scope,
    claimed: Lease,
    plan: WritePlan,
    embedded: EmbeddingBatch,
    report: IngestReport,
    *,
    writes: int,
) -> WriteOutcome:
    """Writes the plan and ends the ingest, in one transaction, unless the plan was made of what is no longer so.

    Returns:
        ``written``; ``taken`` if another worker had taken the claim over; ``outdated`` if this user was written to
        since the candidates were looked up (``writes`` was the count then): look again.
    """
    slot = embedded.to_parameters()
    changes = await asyncio.to_thread(_make_change_rows, claimed, plan, embedded, report)

    async def work(transaction: Transaction) -> WriteOutcome:
        standing = await transaction.run_statement(
            "finish_ingest",
            scope=scope.key,
            ingest=claimed.ingest_id,
            lease=claimed.lease_id,
            writes=writes,
            report=json.dumps(asdict(report)),
            extractor=report.extractor,
            authors=sorted({turn.author for turn in claimed.turns}),
        )
        if not standing:
            return "taken"
        if not standing[0]["is_current"]:
            return "outdated"
        await _write_rows(transaction, "write_entities", changes["entities"], scope=scope.key, **slot)
        await _write_rows(transaction, "write_events", changes["events"], scope=scope.key, **slot)
        await _write_rows(
            transaction, "write_facts", changes["facts"], scope=scope.key, extractor=report.extractor, **slot
        )
        await _write_changes(transaction, scope, claimed.ingest_id, changes)
        await _write_rows(transaction, "retract_support", changes["still_said"], scope=scope.key)
        await _write_rows(transaction, "embed_memories", changes["late"], scope=scope.key, **slot)
        await forgetting.delete_memories(transaction, scope, changes["forget"])
        return "written"

    return await connection.transact(work)


async def _write_changes(transaction: Transaction, scope: Scope, ingest: str, changes: _ChangeRows) -> None:
    """What ended, what rests on what, and the revisions, in chunks; which facts went stale is asked with the last."""
    names = ("links", "dependencies", "revisions")
    longest = max(len(changes[name]) for name in names)
    for start in range(0, longest or len(changes["touched"][:1]), ROWS_PER_STATEMENT):
        chunk = {name: changes[name][start : start + ROWS_PER_STATEMENT] for name in names}
        touched = changes["touched"] if start + ROWS_PER_STATEMENT >= longest else []
        await transaction.run_statement("write_changes", chunk, scope=scope.key, ingest=ingest, touched=touched)


async def add_facts(
    connection: Connection, scope: Scope, facts: Sequence[PlannedFact], embedded: EmbeddingBatch
) -> None:
    """Writes facts that were told to memory itself, in one transaction."""
    written = [fact_rows.make_fact_row(fact, embedded, {}) | {"ingest": None} for fact in facts]

    async def work(transaction: Transaction) -> None:
        await transaction.run_statement("know_user", make_scope_parameters(scope))
        slot = embedded.to_parameters()
        await _write_rows(transaction, "write_facts", written, scope=scope.key, extractor="direct", **slot)

    await connection.transact(work)
    telemetry.record_facts({"ADD": len(facts)})


async def fetch_changed_facts(connection: Connection, scope: Scope) -> list[dict[str, Any]]:
    """Facts that ended, were corrected, reworded or heard again: text, state, quotes, ended_by, revisions."""
    found = await connection.run_statement("changed_facts", scope=scope.key)
    return [{**row, "valid_to": fact_rows.convert_datetime(row["valid_to"])} for row in found]


async def count_memories(connection: Connection, scope: Scope) -> dict[str, int]:
    """How many sessions, turns, entities and facts the graph holds of a user."""
    [row] = await connection.run_statement("counts", scope=scope.key)
    return dict(row)


async def _write_rows(transaction: Transaction, name: str, given: Sequence[Mapping[str, Any]], **more: Any) -> None:
    for start in range(0, len(given), ROWS_PER_STATEMENT):
        await transaction.run_statement(name, rows=given[start : start + ROWS_PER_STATEMENT], **more)


def _make_change_rows(claimed: Lease, plan: WritePlan, embedded: EmbeddingBatch, report: IngestReport) -> _ChangeRows:
    """What the writing statements take."""
    memory_ids = claimed.memory_ids
    touched = {fact.id for fact in plan.facts if fact.standing.state != "current" or not fact.is_new}
    touched |= {id for pair in plan.dependencies for id in pair}
    return {
        "entities": _make_entity_rows(plan, embedded, report.judge),
        "events": _make_event_rows(claimed, plan, embedded, report.extractor),
        "facts": [
            fact_rows.make_fact_row(fact, embedded, memory_ids) | {"ingest": claimed.ingest_id} for fact in plan.facts
        ],
        "links": [asdict(link) for link in plan.links],
        "dependencies": [list(pair) for pair in plan.dependencies],
        "revisions": [fact_rows.make_revision_row(revision, memory_ids, report.judge) for revision in plan.revisions],
        "touched": sorted(touched),
        "still_said": _list_kept_quotes(claimed, plan),
        "late": [
            {"memory_id": id, **embedded.make_vector_columns(passage)}
            for id, passage in claimed.unembedded_passages.items()
            if passage in embedded.embeddings
        ],
        "forget": _list_forgotten_ids(claimed, plan),
    }


def _make_event_rows(claimed: Lease, plan: WritePlan, embedded: EmbeddingBatch, extractor: str) -> list[dict[str, Any]]:
    memory_ids, passages = claimed.memory_ids, claimed.make_passages(plan.forget_turn_ids)
    remarks = {remark.turn_id: remark for remark in plan.remarks}
    mentioned: dict[str, list[str]] = {}
    for turn_id, key in plan.mentions:
        mentioned.setdefault(turn_id, []).append(key)
    return [
        {
            "memory_id": memory_ids[turn.id],
            "words": word_parts.extract_word_parts(turn.text),
            "extracted": f"{extractor}:{turn.text_key}",
            "mentions": mentioned.get(turn.id, []),
            **embedded.make_vector_columns(passages[turn.id]),
            "manner": remarks[turn.id].manner if turn.id in remarks else None,
            "origin": remarks[turn.id].origin or None if turn.id in remarks else None,
        }
        for turn in claimed.turns
        if turn.id not in plan.forget_turn_ids
    ]


def _list_forgotten_ids(claimed: Lease, plan: WritePlan) -> list[str]:
    """Memory ids of what is not to be remembered, of turns that were read before too."""
    turns = (*claimed.context, *claimed.turns)
    return sorted({turn.make_memory_id(claimed.session_id) for turn in turns if turn.id in plan.forget_turn_ids})


def _make_entity_rows(plan: WritePlan, embedded: EmbeddingBatch, judge: str) -> list[dict[str, Any]]:
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
            "vector": embedded.find_vector(entity.name) if entity.is_new else None,
        }
        for entity in plan.entities
    ]


def _list_kept_quotes(claimed: Lease, plan: WritePlan) -> list[dict[str, Any]]:
    """For each edited turn the keys of the quotes that facts of this plan take from it."""
    memory_ids = claimed.memory_ids
    said: dict[str, list[str]] = {id: [] for id in sorted(claimed.edited_turn_ids.intersection(memory_ids))}
    for source in (source for fact in plan.facts for source in fact.sources):
        if source.turn_id in said:
            said[source.turn_id].append(source.quote_key)
    return [{"event": memory_ids[id], "keys": keys} for id, keys in said.items()]
