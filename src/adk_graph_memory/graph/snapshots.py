"""Fetch all that the graph holds of a user at one time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from neo4j import Record

from adk_graph_memory.graph import fact_rows
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.records.facts import FactLink
from adk_graph_memory.records.memory import DerivedEntity, MemorySnapshot, RevisionContent, StoredMemory
from adk_graph_memory.records.readings import (
    LostReading,
    Reading,
    attribute_words,
    decode_reading,
    is_readable,
)


async def fetch_snapshot(graph: UserGraph) -> MemorySnapshot:
    """Fetch all of a user in one transaction, and again if others wrote to them during the first look.

    Neo4j reads what is committed: without a second look, a node could be half gone in what was read. A commit is not
    seen all at once either, so the count of writes before the first look is read once nobody commits to the user.
    """
    [before] = await graph.run_statement("confirm_snapshot")

    async def read_whole(transaction: Transaction) -> MemorySnapshot:
        rows = await _read_rows(transaction)
        [user] = await transaction.run_statement("confirm_snapshot")
        if user["writes"] != before["writes"]:
            rows = await _read_rows(transaction)
        return await asyncio.to_thread(_read_snapshot, *rows)

    return await graph.transact(read_whole)


async def read_snapshot(transaction: Transaction) -> MemorySnapshot:
    """Read all of a user within an open transaction, which has locked them."""
    return await asyncio.to_thread(_read_snapshot, *await _read_rows(transaction))


async def read_damaged_snapshot(transaction: Transaction) -> tuple[MemorySnapshot, list[LostReading]]:
    """Read all of a user, as :func:`read_snapshot`, apart from the readings that cannot be decoded."""
    words, reading_rows, *rows = await _read_rows(transaction)

    def part_rows() -> tuple[MemorySnapshot, list[LostReading]]:
        readable, lost = list[Record](), list[LostReading]()
        for row in reading_rows:
            if is_readable(row["reading"]):
                readable.append(row)
            else:
                lost.append(_read_lost_reading(row))
        return _read_snapshot(words, readable, *rows), lost

    return await asyncio.to_thread(part_rows)


async def _read_rows(transaction: Transaction) -> tuple[Record, Sequence[Record], Sequence[Record], Sequence[Record]]:
    [words] = await transaction.run_statement("user_words")
    reading_rows = await transaction.run_statement("readings")
    entity_rows = await transaction.run_statement("derived_entities")
    return words, reading_rows, entity_rows, await transaction.run_statement("derived_facts")


async def lock_user(transaction: Transaction) -> None:
    """Let nobody else write to the user until the transaction ends."""
    await transaction.run_statement("begin_mending")


def _read_snapshot(
    words: Record, reading_rows: Sequence[Record], entity_rows: Sequence[Record], rows: Sequence[Record]
) -> MemorySnapshot:
    turns = {turn["memory_id"]: turn for turn in words["turns"]}
    return MemorySnapshot(
        words["writes"],
        turns,
        {statement["memory_id"]: statement for statement in words["statements"]},
        tuple(_read_reading(row, turns) for row in reading_rows),
        _read_stored_memory(entity_rows, rows),
    )


def _read_reading(row: Record, turns: Mapping[str, Mapping[str, Any]]) -> Reading:
    times = {turn["id"]: fact_rows.convert_datetime(turn["reread_at"]) for turn in row["turns"]}
    reread_at = {id: time for id, time in times.items() if time is not None}
    reading = decode_reading(row["reading"], fact_rows.convert_datetime(row["at"]), times.keys(), reread_at)
    return attribute_words(reading, turns)


def _read_lost_reading(row: Record) -> LostReading:
    turn_ids = frozenset(turn["id"] for turn in row["turns"] if turn["id"] and turn["reread_at"] is None)
    at = fact_rows.convert_datetime(row["at"])
    return LostReading(row["id"], row["session_id"], row["extractor"] or "", at, turn_ids)


def _read_stored_memory(entity_rows: Sequence[Record], rows: Sequence[Record]) -> StoredMemory:
    facts = [row["fact"] for row in rows]
    return StoredMemory(
        {row["key"]: _read_entity(row) for row in entity_rows},
        {fact["id"]: fact_rows.read_fact(fact) for fact in facts},
        {
            (fact["id"], key): RevisionContent(reason or "", frozenset(map(tuple, evidence)))
            for fact in facts
            for key, reason, evidence in fact["revisions"]
        },
        {(link["later"], link["earlier"]): FactLink(**link) for fact in facts for link in fact["links"]},
        frozenset((fact["id"], base) for fact in facts for base in fact["bases"]),
        {fact["id"]: fact["origin"] for fact in facts},
        {(turn_id, row["key"]): was for row in entity_rows for turn_id, was in row["mentions"]},
    )


def _read_entity(row: Record) -> DerivedEntity:
    merged_into, merged_by, merge_reason = row["merger"] or (None, "", "")
    return DerivedEntity(
        row["key"],
        row["name"],
        row["type"],
        tuple(row["aliases"]),
        row["about"],
        merged_into,
        merged_by,
        merge_reason,
        own_names=tuple(row["own_names"]),
        foreign_names=tuple(row["foreign_names"]),
    )
