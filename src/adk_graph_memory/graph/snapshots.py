"""Fetch all that the graph holds of a user, and write what differs from what their words make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from neo4j import Record

from adk_graph_memory.graph import fact_rows, ingest_queue, writing
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.facts import Fact, FactLink, PlannedFact
from adk_graph_memory.records.memory import (
    DerivedEntity,
    DerivedMemory,
    FactPair,
    RevisionContent,
    StoredMemory,
)
from adk_graph_memory.records.readings import (
    LostReading,
    OwnerWord,
    Reading,
    attribute_words,
    decode_reading,
    encode_reading,
    is_readable,
)
from adk_graph_memory.records.turns import OWNER_SESSION, Passage


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """All of a user at one time: what they said, what was read of it, and what the graph holds.

    ``turns`` and ``statements`` are maps of properties by memory id; ``writes`` counts the writes until then.
    """

    writes: int
    turns: Mapping[str, Mapping[str, Any]]
    statements: Mapping[str, Mapping[str, Any]]
    readings: tuple[Reading, ...]
    stored: StoredMemory


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """What has to be erased and written so that the graph holds a derived memory."""

    derived: DerivedMemory
    erased_facts: tuple[str, ...]
    erased_entities: tuple[str, ...]
    erased_changes: Mapping[str, list[list[str]]]
    facts: tuple[Fact, ...]
    entities: tuple[DerivedEntity, ...]
    links: tuple[FactPair, ...]
    dependencies: tuple[FactPair, ...]
    mentions: tuple[tuple[str, str], ...]
    revisions: tuple[tuple[str, str], ...]
    stored: StoredMemory

    @property
    def is_empty(self) -> bool:
        """Whether the graph holds the derived memory already."""
        return self.count == 0

    @property
    def count(self) -> int:
        """How many nodes and edges have to be erased or written."""
        erased = (self.erased_facts, self.erased_entities, *self.erased_changes.values())
        written = (self.facts, self.entities, self.links, self.dependencies, self.mentions, self.revisions)
        return sum(map(len, (*erased, *written)))

    @property
    def passages(self) -> list[Passage]:
        """The texts that need a vector: new wordings and new names."""
        texts = [fact.proposition.text for fact in self.facts if self._is_reworded(fact)]
        texts += [entity.name for entity in self.entities if entity.key not in self.stored.entities]
        return [Passage(text) for text in dict.fromkeys(texts)]

    @property
    def reworded_facts(self) -> list[str]:
        """The ids of stored facts that get another wording."""
        return [fact.id for fact in self.facts if fact.id in self.stored.facts and self._is_reworded(fact)]

    def _is_reworded(self, fact: Fact) -> bool:
        stored = self.stored.facts.get(fact.id)
        return stored is None or stored.proposition.text != fact.proposition.text


async def fetch_snapshot(graph: UserGraph) -> MemorySnapshot:
    """Fetch all of a user in one transaction, and again if others wrote to them during the first look.

    Neo4j reads what is committed: without a second look, a node could be half gone in what was read.
    """

    async def read_whole(transaction: Transaction) -> MemorySnapshot:
        rows = await _read_rows(transaction)
        [user] = await transaction.run_statement("confirm_snapshot")
        if user["writes"] != rows[0]["writes"]:
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
    return attribute_words(reading, {id: (turn["author"], turn["origin"]) for id, turn in turns.items()})


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


def _make_comparable(fact: Fact) -> Fact:
    """Return the fact with its sources in an order of their own."""
    return replace(fact, sources=tuple(sorted(fact.sources, key=lambda source: source.key)))


def compare_memory(stored: StoredMemory, derived: DerivedMemory) -> MemoryDifference:
    """Find what of the stored memory is not as derived."""
    facts = {id: (_make_comparable(fact), fact.origin) for id, fact in derived.facts.items()}
    stored_facts = {id: (_make_comparable(fact), stored.origins.get(id)) for id, fact in stored.facts.items()}
    changed_ids = {id for id, fact in facts.items() if stored_facts.get(id) != fact}
    entities = derived.entities
    links = {pair: link.link for pair, link in derived.links.items()}
    erased_facts = stored.facts.keys() - facts.keys()
    revisions = _list_revisions(derived)
    stored_revisions = {pair: content for pair, content in stored.revisions.items() if pair[0] in facts}
    erased_revisions = {pair for pair, content in stored_revisions.items() if revisions.get(pair) != content}
    # A link that differs is erased and written again: an old reason would stay otherwise.
    erased_links = {pair for pair, link in stored.links.items() if links.get(pair) != link}
    erased_bases = set(stored.dependencies - derived.dependencies)
    erased_keys = stored.entities.keys() - entities.keys()
    erased_mentions = {pair for pair in stored.mentions if pair not in derived.mentions and pair[1] not in erased_keys}
    return MemoryDifference(
        derived,
        tuple(sorted(erased_facts)),
        tuple(sorted(erased_keys)),
        {
            "links": _list_pairs(erased_links),
            "dependencies": _list_pairs(erased_bases),
            "mentions": _list_pairs(erased_mentions),
            "revisions": _list_pairs(erased_revisions),
        },
        tuple(derived.facts[id] for id in sorted(changed_ids)),
        tuple(derived.entities[key] for key, entity in sorted(entities.items()) if stored.entities.get(key) != entity),
        tuple(sorted(pair for pair, link in links.items() if stored.links.get(pair) != link)),
        tuple(sorted(derived.dependencies - stored.dependencies)),
        tuple(sorted(pair for pair, was in derived.mentions.items() if stored.mentions.get(pair, ...) != was)),
        tuple(
            sorted(
                pair
                for pair, content in revisions.items()
                # One that is missing of a fact that is as it was may have expired.
                if stored_revisions.get(pair, content) != content
                or (pair[0] in changed_ids and pair not in stored_revisions)
            )
        ),
        stored,
    )


def _list_revisions(derived: DerivedMemory) -> dict[tuple[str, str], RevisionContent]:
    return {
        (id, item.revision.key): RevisionContent(
            item.revision.reason, frozenset(source.key for source in item.revision.evidence)
        )
        for id, fact in derived.facts.items()
        for item in fact.revisions
    }


def _list_pairs(pairs: set[tuple[str, str]]) -> list[list[str]]:
    return [list(pair) for pair in sorted(pairs)]


async def write_difference(transaction: Transaction, difference: MemoryDifference, batch: EmbeddingBatch) -> None:
    """Erase and write what differs, within an open transaction."""
    slot = batch.to_parameters()
    await transaction.run_rows("erase_facts", difference.erased_facts)
    await transaction.run_rows("erase_vectors", difference.reworded_facts)
    await transaction.run_statement("erase_changes", difference.erased_changes)
    await transaction.run_rows("erase_entities", difference.erased_entities)
    entity_rows = [asdict(entity) | {"vector": batch.find_vector(entity.name)} for entity in difference.entities]
    await transaction.run_rows("rewrite_entities", entity_rows, **slot)
    rows = [make_fact_row(fact, difference, batch) for fact in difference.facts]
    await transaction.run_rows("write_facts", rows, **slot)
    rulings = [{"id": f.id, **fact_rows.make_ruling_columns(f.ruling)} for f in difference.facts]
    await transaction.run_rows("write_rulings", rulings)
    await transaction.run_rows("rewrite_fact_entities", rows)
    mention_rows = [
        {"event": turn_id, "key": entity_key, "was": difference.derived.mentions[turn_id, entity_key]}
        for turn_id, entity_key in difference.mentions
    ]
    await transaction.run_rows("rewrite_mentions", mention_rows)
    await writing.write_changes(transaction, make_change_rows(difference))


def make_fact_row(fact: Fact, difference: MemoryDifference, batch: EmbeddingBatch) -> dict[str, Any]:
    """Make a derived fact's row for ``write_facts``."""
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
    return fact_rows.make_fact_row(planned, batch, {}, fact.extractor) | {
        "recorded_at": fact.recorded_at,
        "retired_at": fact.retired_at,
        "subject_was": fact.former_entity_keys[0],
        "object_was": fact.former_entity_keys[1],
    }


def make_change_rows(difference: MemoryDifference) -> dict[str, list[Any]]:
    """Make the rows of what changed for ``write_changes``."""
    derived = difference.derived
    revision_rows = []
    for id, key in difference.revisions:
        [revision] = [item for item in derived.facts[id].revisions if item.revision.key == key]
        row = fact_rows.make_revision_row(revision.revision, {}, revision.judge)
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
        turns=[ingest_queue.make_turn_row(turn, OWNER_SESSION) for turn in word.turns],
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
    kept = {reading.id: replace(reading, reread_at={}) for reading in readings}
    changed = {
        reading.id: kept.get(reading.id)
        for reading in snapshot.readings
        if kept.get(reading.id) != replace(reading, reread_at={})
    }
    await replace_readings(transaction, changed)
    return True


async def replace_readings(transaction: Transaction, readings: Mapping[str, Reading | None]) -> None:
    """Store readings in their requests, within an open transaction; a request of which nothing is left goes."""
    rows = [_make_reading_row(id, reading) for id, reading in readings.items()]
    await transaction.run_rows("rewrite_readings", rows)


def _make_reading_row(id: str, reading: Reading | None) -> dict[str, Any]:
    if reading is None:
        return {"id": id, "reading": None, "held": None, "reviewed": None}
    held, reviewed = len(reading.held) or None, reading.is_reviewed or None
    return {"id": id, "reading": encode_reading(reading), "held": held, "reviewed": reviewed}
