"""Requests to remember, plans and ids to forget go in; claims, candidates and receipts come out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from adk_graph_memory.graph import words
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.members import Delta
from adk_graph_memory.graph.queries import scoped
from adk_graph_memory.graph.slots import Slot
from adk_graph_memory.records import (
    Candidates,
    IngestReport,
    KnownEntity,
    Plan,
    PlannedFact,
    Scope,
    Turn,
    digest,
)

CHUNK = 1_000
"""Rows one statement takes."""
MOST_KNOWN_ENTITIES = 300
"""Entities that are offered to an extractor; more would crowd out the conversation."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What this worker may read: the turns that memory has not, and what it needs to know to read them."""

    ingest: str
    lease: str
    session_id: str
    turns: tuple[Turn, ...] = ()
    edited: frozenset[str] = frozenset()
    busy: int = 0
    known: tuple[KnownEntity, ...] = ()
    unembedded: Mapping[str, str] = field(default_factory=dict)
    live: str | None = None


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors by text, and the slot they go into; without an embedder there is neither."""

    slot: Slot | None = None
    vectors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    wanted: bool = False
    """whether a text without vector is to get one later"""

    def parameters(self) -> dict[str, Any]:
        """What the writing statements take."""
        return {"slot": self.slot.property if self.slot else None, "embeds": self.wanted}


# -- remembering ------------------------------------------------------------------------------------------------


async def claim(
    connection: Connection,
    scope: Scope,
    session_id: str,
    turns: Sequence[Turn],
    *,
    lease: str,
    now: float,
    lease_seconds: float,
    metadata: Delta,
) -> Claim:
    """Stores the request with its turns and takes it for this worker; a claim without turns leaves nothing to do."""

    foreign_uid = f"elsewhere:{digest(session_id)}"

    async def work(transaction: Transaction) -> Claim:
        rows = await transaction.run(
            "unread_turns",
            scoped(scope),
            session_id=session_id,
            foreign_uid=foreign_uid,
            turns=[{**_turn(turn, session_id), "text_key": turn.text_key} for turn in turns],
            now=now,
            lease=lease,
        )
        unread = {row["id"]: row for row in rows if not row["is_busy"]}
        mine = tuple(turn for turn in turns if turn.id in unread)
        claimed = Claim("", lease, session_id, busy=len(rows) - len(unread))
        if mine:
            first = unread[mine[0].id]
            missing = [turn.id for turn in mine if unread[turn.id]["is_missing"]]
            places = {"session_id": session_id, "uid": first["uid"], "foreign_uid": foreign_uid}
            claimed = replace(
                claimed,
                ingest=digest(session_id, *(part for turn in mine for part in (turn.id, turn.text_key))),
                turns=mine,
                edited=frozenset(turn.id for turn in mine if unread[turn.id]["is_edited"]),
                live=first["live"],
            )
            seqs = {id: first["last_seq"] + n for n, id in enumerate(missing, start=1)}
            await transaction.run(
                "claim_turns",
                places,
                scope=scope.key,
                ingest=claimed.ingest,
                lease=lease,
                lease_until=now + lease_seconds,
                turns=[{**_turn(turn, session_id), "seq": seqs.get(turn.id)} for turn in mine],
            )
            if missing:
                await transaction.run("chain_turns", places, scope=scope.key, last_seq=first["last_seq"])
            [row] = await transaction.run("known", scope=scope.key, entities=MOST_KNOWN_ENTITIES, texts=CHUNK)
            known = tuple(map(_known_entity, row["entities"]))
            claimed = replace(claimed, known=known, unembedded=dict(row["unembedded"]))
        if metadata.keys:
            ids = [turn.memory_id(session_id) for turn in turns]
            await transaction.run("merge_metadata", scope=scope.key, ids=ids, metadata=metadata.parameter())
        return claimed

    return await connection.transact(work)


async def candidates(
    connection: Connection,
    scope: Scope,
    claimed: Claim,
    *,
    entity_keys: Sequence[str],
    signatures: Callable[[Sequence[KnownEntity]], Sequence[str]],
    quotes: Sequence[tuple[str, str]],
) -> Candidates:
    """What the graph holds of these entities and facts, and which of these words (turn id, quote key) are forgotten."""
    memory_ids = {turn.id: turn.memory_id(claimed.session_id) for turn in claimed.turns}
    graves = {f"{memory_ids[turn_id]}:{quote_key}": (turn_id, quote_key) for turn_id, quote_key in quotes}

    async def work(transaction: Transaction) -> Candidates:
        [named] = await transaction.run("entities_by_key", scope=scope.key, keys=entity_keys)
        found = {entity.key: entity for entity in (*claimed.known, *map(_known_entity, named["entities"]))}
        entities = tuple(found.values())
        [same] = await transaction.run(
            "same_facts", scope=scope.key, signatures=signatures(entities), quotes=list(graves)
        )
        return Candidates(
            entities,
            dict(same["facts"]),
            frozenset(graves[key] for key in same["forgotten"]),
        )

    return await connection.transact(work)


async def apply(
    connection: Connection,
    scope: Scope,
    claimed: Claim,
    plan: Plan,
    embedded: Embedded,
    report: IngestReport,
) -> bool:
    """Writes the plan and ends the ingest, in one transaction; False if another worker had taken the claim over."""
    memory_ids = {turn.id: turn.memory_id(claimed.session_id) for turn in claimed.turns}
    slot = embedded.parameters()

    async def work(transaction: Transaction) -> bool:
        standing = await transaction.run(
            "finish_ingest",
            scope=scope.key,
            ingest=claimed.ingest,
            lease=claimed.lease,
            report=json.dumps(asdict(report)),
            extractor=report.extractor,
        )
        if not standing:
            return False
        events = [
            {
                "memory_id": memory_ids[turn.id],
                "words": words.parts(turn.text),
                "extracted": f"{report.extractor}:{turn.text_key}",
                "vector": embedded.vectors.get(turn.text),
            }
            for turn in claimed.turns
        ]
        await _write(transaction, "write_events", events, scope=scope.key, **slot)
        await write_plan(transaction, scope, plan, embedded, memory_ids, report.extractor, claimed.ingest)
        await _write(transaction, "retract_support", _still_said(claimed, plan, memory_ids), scope=scope.key)
        late = [
            {"memory_id": id, "vector": embedded.vectors[text]}
            for id, text in claimed.unembedded.items()
            if text in embedded.vectors
        ]
        await _write(transaction, "embed_memories", late, scope=scope.key, **slot)
        return True

    return await connection.transact(work)


async def write_plan(
    transaction: Transaction,
    scope: Scope,
    plan: Plan,
    embedded: Embedded,
    memory_ids: Mapping[str, str],
    extractor: str,
    ingest: str | None,
) -> None:
    """Writes entities, facts, support and mentions, each sorted by key so that writers cannot deadlock."""
    slot = embedded.parameters()
    entities = [
        {
            "key": entity.key,
            "name": entity.name,
            "type": entity.type,
            "aliases": list(entity.aliases),
            "vector": embedded.vectors.get(entity.name) if entity.is_new else None,
        }
        for entity in plan.entities
    ]
    await _write(transaction, "write_entities", entities, scope=scope.key, **slot)
    facts = [_fact(fact, embedded, memory_ids) | {"ingest": ingest} for fact in plan.facts]
    await _write(transaction, "write_facts", facts, scope=scope.key, extractor=extractor, **slot)
    support = [
        {
            "fact": fact.id,
            "event": memory_ids[source.turn_id],
            "key": source.quote_key,
            "quote": source.quote,
            "start": source.start,
            "end": source.end,
        }
        for fact in plan.facts
        for source in fact.sources
    ]
    await _write(transaction, "write_support", support, scope=scope.key)
    mentions = [{"event": memory_ids[turn_id], "entity": key} for turn_id, key in plan.mentions]
    await _write(transaction, "write_mentions", mentions, scope=scope.key)


async def add(connection: Connection, scope: Scope, plan: Plan, embedded: Embedded) -> None:
    """Writes facts that were told to memory itself, in one transaction."""

    async def work(transaction: Transaction) -> None:
        await transaction.run("know_user", scoped(scope))
        await write_plan(transaction, scope, plan, embedded, {}, extractor="direct", ingest=None)

    await connection.transact(work)


async def release(connection: Connection, scope: Scope, lease: str, reason: str) -> None:
    """Leaves what was claimed under this lease pending, with the reason, for the next call with these turns."""
    reason = reason.encode("utf-8", "replace").decode()
    await connection.run("fail_ingest", scope=scope.key, lease=lease, reason=reason)


async def ingests(connection: Connection, scope: Scope) -> list[dict[str, Any]]:
    """The user's requests to remember, oldest first: id, session_id, state, reason, report."""
    return [dict(row) for row in await connection.run("ingests", scope=scope.key)]


async def counts(connection: Connection, scope: Scope) -> dict[str, int]:
    """How many sessions, turns, entities and facts the graph holds of a user."""
    [row] = await connection.run("counts", scope=scope.key)
    return dict(row)


# -- rows -------------------------------------------------------------------------------------------------------


async def _write(transaction: Transaction, name: str, rows: Sequence[Mapping[str, Any]], **more: Any) -> None:
    for chunk in _chunks(rows):
        await transaction.run(name, rows=chunk, **more)


def _chunks(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    for start in range(0, len(rows), CHUNK):
        yield list(rows[start : start + CHUNK])


def _turn(turn: Turn, session_id: str) -> dict[str, Any]:
    return {
        "id": turn.id,
        "memory_id": turn.memory_id(session_id),
        "author": turn.author,
        "role": turn.role,
        "text": turn.text,
        "timestamp": turn.at.timestamp(),
    }


def _still_said(claimed: Claim, plan: Plan, memory_ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """For each edited turn the keys of the quotes that facts of this plan take from it."""
    said: dict[str, list[str]] = {id: [] for id in sorted(claimed.edited)}
    for source in (source for fact in plan.facts for source in fact.sources):
        if source.turn_id in said:
            said[source.turn_id].append(source.quote_key)
    return [{"event": memory_ids[id], "keys": keys} for id, keys in said.items()]


def _fact(fact: PlannedFact, embedded: Embedded, memory_ids: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": fact.id,
        "signature": fact.signature,
        "text": fact.text,
        "words": words.parts(fact.text),
        "predicate": fact.predicate,
        "modality": fact.modality,
        "topic": fact.topic,
        "author": fact.speaker,
        "timestamp": fact.at.timestamp(),
        "valid_from": fact.valid_from,
        "valid_to": fact.valid_to,
        "subject": fact.subject,
        "object": fact.object,
        "direct": fact.is_direct,
        "events": [memory_ids[source.turn_id] for source in fact.sources],
        "metadata": Delta.of(fact.metadata).parameter(),
        "vector": embedded.vectors.get(fact.text) if fact.op == "ADD" else None,
    }


def _known_entity(row: tuple[str, str, str, list[str]]) -> KnownEntity:
    key, name, type_, aliases = row
    return KnownEntity(key, name, type_, tuple(aliases))
