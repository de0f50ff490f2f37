"""Extractions to compare, plans to apply and statements to add go in; candidates come out, and the graph is changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from adk_graph_memory import telemetry
from adk_graph_memory.graph import forgetting, rows, words
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.ingests import Claim
from adk_graph_memory.graph.queries import CHUNK, scoped
from adk_graph_memory.graph.slots import Embedded
from adk_graph_memory.records import (
    IngestReport,
    Plan,
    PlannedFact,
    Scope,
)

Outcome = Literal["written", "taken", "outdated"]
_Changes = dict[str, list[Any]]


# -- remembering ------------------------------------------------------------------------------------------------


async def apply(
    connection: Connection,
    scope: Scope,
    claimed: Claim,
    plan: Plan,
    embedded: Embedded,
    report: IngestReport,
    *,
    writes: int,
) -> Outcome:
    """Writes the plan and ends the ingest, in one transaction, unless the plan was made of what is no longer so.

    Returns:
        ``written``; ``taken`` if another worker had taken the claim over; ``outdated`` if this user was written to
        since the candidates were looked up (``writes`` was the count then): look again.
    """
    slot = embedded.parameters()
    changes = await asyncio.to_thread(_changes, claimed, plan, embedded, report)

    async def work(transaction: Transaction) -> Outcome:
        standing = await transaction.run(
            "finish_ingest",
            scope=scope.key,
            ingest=claimed.ingest,
            lease=claimed.lease,
            writes=writes,
            report=json.dumps(asdict(report)),
            extractor=report.extractor,
            authors=sorted({turn.author for turn in claimed.turns}),
        )
        if not standing:
            return "taken"
        if not standing[0]["is_current"]:
            return "outdated"
        await _write(transaction, "write_entities", changes["entities"], scope=scope.key, **slot)
        await _write(transaction, "write_events", changes["events"], scope=scope.key, **slot)
        await _write(transaction, "write_facts", changes["facts"], scope=scope.key, extractor=report.extractor, **slot)
        await _write_changes(transaction, scope, claimed.ingest, changes)
        await _write(transaction, "retract_support", changes["still_said"], scope=scope.key)
        await _write(transaction, "embed_memories", changes["late"], scope=scope.key, **slot)
        await forgetting.forget_memories(transaction, scope, changes["forget"])
        return "written"

    return await connection.transact(work)


async def _write_changes(transaction: Transaction, scope: Scope, ingest: str, changes: _Changes) -> None:
    """What ended, what rests on what, and the revisions, in chunks; which facts went stale is asked with the last."""
    names = ("links", "dependencies", "revisions")
    longest = max(len(changes[name]) for name in names)
    for start in range(0, longest or len(changes["touched"][:1]), CHUNK):
        chunk = {name: changes[name][start : start + CHUNK] for name in names}
        touched = changes["touched"] if start + CHUNK >= longest else []
        await transaction.run("write_changes", chunk, scope=scope.key, ingest=ingest, touched=touched)


async def add(connection: Connection, scope: Scope, facts: Sequence[PlannedFact], embedded: Embedded) -> None:
    """Writes facts that were told to memory itself, in one transaction."""
    written = [rows.fact(fact, embedded, {}) | {"ingest": None} for fact in facts]

    async def work(transaction: Transaction) -> None:
        await transaction.run("know_user", scoped(scope))
        slot = embedded.parameters()
        await _write(transaction, "write_facts", written, scope=scope.key, extractor="direct", **slot)

    await connection.transact(work)
    telemetry.written({"ADD": len(facts)})


async def changed(connection: Connection, scope: Scope) -> list[dict[str, Any]]:
    """Facts that ended, were corrected, reworded or heard again: text, state, quotes, ended_by, revisions."""
    found = await connection.run("changed_facts", scope=scope.key)
    return [{**row, "valid_to": rows.moment(row["valid_to"])} for row in found]


async def counts(connection: Connection, scope: Scope) -> dict[str, int]:
    """How many sessions, turns, entities and facts the graph holds of a user."""
    [row] = await connection.run("counts", scope=scope.key)
    return dict(row)


async def _write(transaction: Transaction, name: str, given: Sequence[Mapping[str, Any]], **more: Any) -> None:
    for start in range(0, len(given), CHUNK):
        await transaction.run(name, rows=given[start : start + CHUNK], **more)


def _changes(claimed: Claim, plan: Plan, embedded: Embedded, report: IngestReport) -> _Changes:
    """What the writing statements take."""
    memory_ids = claimed.memory_ids
    touched = {fact.id for fact in plan.facts if fact.standing.state != "current" or not fact.is_new}
    touched |= {id for pair in plan.dependencies for id in pair}
    return {
        "entities": _entities(plan, embedded, report.judge),
        "events": _events(claimed, plan, embedded, report.extractor),
        "facts": [rows.fact(fact, embedded, memory_ids) | {"ingest": claimed.ingest} for fact in plan.facts],
        "links": [asdict(link) for link in plan.links],
        "dependencies": [list(pair) for pair in plan.dependencies],
        "revisions": [rows.revision(revision, memory_ids, report.judge) for revision in plan.revisions],
        "touched": sorted(touched),
        "still_said": _still_said(claimed, plan),
        "late": [
            {"memory_id": id, **embedded.columns(passage)}
            for id, passage in claimed.unembedded.items()
            if passage in embedded.embeddings
        ],
        "forget": _to_forget(claimed, plan),
    }


def _events(claimed: Claim, plan: Plan, embedded: Embedded, extractor: str) -> list[dict[str, Any]]:
    memory_ids, passages = claimed.memory_ids, claimed.passages(plan.forget)
    remarks = {remark.turn_id: remark for remark in plan.remarks}
    mentioned: dict[str, list[str]] = {}
    for turn_id, key in plan.mentions:
        mentioned.setdefault(turn_id, []).append(key)
    return [
        {
            "memory_id": memory_ids[turn.id],
            "words": words.parts(turn.text),
            "extracted": f"{extractor}:{turn.text_key}",
            "mentions": mentioned.get(turn.id, []),
            **embedded.columns(passages[turn.id]),
            "manner": remarks[turn.id].manner if turn.id in remarks else None,
            "origin": remarks[turn.id].origin or None if turn.id in remarks else None,
        }
        for turn in claimed.turns
        if turn.id not in plan.forget
    ]


def _to_forget(claimed: Claim, plan: Plan) -> list[str]:
    """Memory ids of what is not to be remembered, of turns that were read before too."""
    turns = (*claimed.context, *claimed.turns)
    return sorted({turn.memory_id(claimed.session_id) for turn in turns if turn.id in plan.forget})


def _entities(plan: Plan, embedded: Embedded, judge: str) -> list[dict[str, Any]]:
    return [
        {
            "key": entity.key,
            "name": entity.name,
            "type": entity.type,
            "aliases": list(entity.aliases),
            "about": entity.about,
            "absorbs": list(entity.absorbs),
            "parts": bool(entity.parts_from),
            "by": judge,
            "vector": embedded.vector(entity.name) if entity.is_new else None,
        }
        for entity in plan.entities
    ]


def _still_said(claimed: Claim, plan: Plan) -> list[dict[str, Any]]:
    """For each edited turn the keys of the quotes that facts of this plan take from it."""
    memory_ids = claimed.memory_ids
    said: dict[str, list[str]] = {id: [] for id in sorted(claimed.edited.intersection(memory_ids))}
    for source in (source for fact in plan.facts for source in fact.sources):
        if source.turn_id in said:
            said[source.turn_id].append(source.quote_key)
    return [{"event": memory_ids[id], "keys": keys} for id, keys in said.items()]
