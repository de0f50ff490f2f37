"""Change what a user's memory rests on, and write in one transaction how the derived graph differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from adk_graph_memory import errors
from adk_graph_memory.consolidation import restriction
from adk_graph_memory.consolidation.fact_rules import plan_statement
from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.consolidation.restriction import (
    Removal,
    collect_label_words,
    collect_words,
    find_lost_words,
    find_read_facts,
    list_labels,
    restrict_readings,
)
from adk_graph_memory.consolidation.salvage import salvage_reading
from adk_graph_memory.graph import erasing, fact_rows, reviews, snapshots, writing
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.graph.ingest_queue import Lease
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.graph.writing import Rereading, WindowPlan
from adk_graph_memory.records.facts import Delta
from adk_graph_memory.records.memory import DerivedMemory, MemorySnapshot, compare_memory
from adk_graph_memory.records.readings import LostReading, OwnerWord, Reading
from adk_graph_memory.records.results import Receipt
from adk_graph_memory.records.turns import Passage, Role, is_evidence

if TYPE_CHECKING:
    from adk_graph_memory.memory.vectors import GraphVectors


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is to be erased, by memory id: turns, statements that were added directly, and extracted facts."""

    turn_ids: frozenset[str] = frozenset()
    statement_ids: frozenset[str] = frozenset()
    fact_ids: frozenset[str] = frozenset()
    is_final: bool = True
    """whether the turns are refused from now on"""
    takes_words: bool = True
    """whether facts and names of other turns go too if they tell a word that only these turns said"""
    reading_ids: frozenset[str] = frozenset()
    """rulings of the owner, by the ids of their readings"""

    @classmethod
    def select_ids(cls, snapshot: MemorySnapshot, ids: Iterable[str], *, with_turns: bool = False) -> Erasure:
        """Select those of the ids that the user's memory has, and on request the turns that these facts rest on."""
        wanted = frozenset(ids)
        facts = frozenset(f"fact:{id}" for id in snapshot.stored.facts)
        turns = (wanted & snapshot.turns.keys()) | _find_idle_evidence(snapshot, wanted)
        erasure = cls(turns, wanted & snapshot.statements.keys(), wanted & facts)
        return replace(erasure, turn_ids=turns | erasure.find_staying_turns(snapshot).keys()) if with_turns else erasure

    @classmethod
    def select_session(cls, snapshot: MemorySnapshot, session_id: str) -> Erasure:
        """Select the turns of a session."""
        turns = (id for id, turn in snapshot.turns.items() if turn["session_id"] == session_id)
        return cls(turn_ids=frozenset(turns))

    @classmethod
    def select_idle_evidence(cls, snapshot: MemorySnapshot) -> Erasure:
        """Select what was added directly and read, and of which nothing is kept; it may be added again."""
        heard = {id for reading in snapshot.readings for id in reading.heard_turn_ids}
        facts = (fact for reading in snapshot.readings for fact in reading.extraction.facts)
        heard -= {source.turn_id for fact in facts for source in fact.sources}
        idle = (id for id in heard if id in snapshot.turns and is_evidence(snapshot.turns[id]["session_id"]))
        return cls(frozenset(idle), is_final=False, takes_words=False)

    @classmethod
    def select_ingest(cls, snapshot: MemorySnapshot, ingest_id: str) -> Erasure:
        """Select what one ingest read, which may be read again, and what the owner ruled.

        Turns that it read again count as they were read before.
        """
        # a reading of an ingest has its id, or that of one of its windows
        readings = [
            reading
            for reading in snapshot.readings
            if reading.id == ingest_id or reading.id.startswith(f"{ingest_id}/")
        ]
        ids = {reading.id for reading in readings}
        former_ids = {
            id
            for reading in readings
            for former in snapshot.readings
            for id, time in former.reread_at.items()
            if time == reading.at and former.id not in ids
        }
        turn_ids = {id for reading in readings for id in reading.heard_turn_ids if id not in reading.outdated_turn_ids}
        turn_ids &= snapshot.turns.keys() - former_ids
        whole_ids = (reading.id for reading in readings if reading.ruling or reading.is_rereading)
        return cls(frozenset(turn_ids), is_final=False, takes_words=False, reading_ids=frozenset(whole_ids))

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids, sorted."""
        return tuple(sorted(self.turn_ids | self.statement_ids | self.fact_ids | self.reading_ids))

    def find_staying_turns(self, snapshot: MemorySnapshot) -> dict[str, str]:
        """Find the turns that say what is erased as a fact alone, and so still answer questions: texts by id."""
        facts = (snapshot.stored.facts[id.removeprefix("fact:")] for id in sorted(self.fact_ids))
        turn_ids = dict.fromkeys(source.turn_id for fact in facts for source in fact.sources)
        return {id: snapshot.turns[id]["text"] for id in turn_ids if id in snapshot.turns and id not in self.turn_ids}

    def find_lost_words(self, snapshot: MemorySnapshot) -> frozenset[str]:
        """Find the words that only what is erased said; none if it takes no words."""
        gone_ids = self.turn_ids | self.statement_ids
        if not (gone_ids and self.takes_words):
            return frozenset()
        words = {**snapshot.turns, **snapshot.statements}
        # who speaks is known without a word
        kept_texts = {turn["author"]: None for id, turn in snapshot.turns.items() if id not in self.turn_ids}
        kept_texts |= {properties["text"]: None for id, properties in words.items() if id not in gone_ids}
        return find_lost_words([words[id]["text"] for id in sorted(gone_ids)], kept_texts)


NOTHING = Erasure()


def _find_idle_evidence(snapshot: MemorySnapshot, gone_ids: Collection[str]) -> frozenset[str]:
    """Find the turns that are there for these facts alone: nobody could see, and forget, what stays of them."""
    gone, kept = set[str](), set[str]()
    for fact in snapshot.stored.facts.values():
        turn_ids = {source.turn_id for source in fact.sources if is_evidence(source.session_id)}
        (gone if f"fact:{fact.id}" in gone_ids else kept).update(turn_ids)
    return frozenset(gone - kept)


FREE_REWRITES = 3
"""Attempts at one rewrite while other workers may write to the same user; then they wait for it."""
MAX_COMPARISONS = 10
"""Looks at a user whom others keep writing to."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What becomes of a user's memory: the readings it then rests on, what follows from them, and what that changes."""

    snapshot: MemorySnapshot
    readings: list[Reading]
    derived: DerivedMemory
    delta: Delta
    erasure: Erasure = NOTHING
    lost_words: frozenset[str] = frozenset()
    """those that only what is erased said"""
    word: OwnerWord | None = None
    rereading: Rereading | None = None


class Rewriter:
    """Rewrites what the graph derived from a user's words.

    Args:
        graph: the graph of the user.
        vectors: embeds new wordings at once; without it the next ingest does.
    """

    def __init__(self, graph: UserGraph, vectors: GraphVectors | None = None) -> None:
        self._graph, self._vectors = graph, vectors

    async def erase_memories(self, select: Callable[[MemorySnapshot], Erasure]) -> Receipt:
        """Erase what ``select`` chooses of a user's memory, and what was derived from it alone."""
        rewrite = await self._rewrite_memory(
            lambda snapshot: derive_memory(snapshot, select(snapshot)), lambda rewrite: bool(rewrite.erasure.ids)
        )
        snapshot, erasure, derived = rewrite.snapshot, rewrite.erasure, rewrite.derived
        if not erasure.ids:
            return Receipt()
        facts = len(erasure.statement_ids) + len(snapshot.stored.facts) - len(derived.facts)
        entities = len(snapshot.stored.entities) - len(derived.entities)
        stays = {"turns": len(erasure.find_staying_turns(snapshot))}
        if erasure.takes_words:  # somebody forgets; what only expires or is undone says nothing of copies
            stays["copies"] = await self.count_copies(rewrite)
        counts = len(erasure.turn_ids), max(facts, 0), max(entities, 0)
        stays = {kind: count for kind, count in stays.items() if count}
        return Receipt(*counts, ids=erasure.ids, at=datetime.now(UTC), stays=stays)

    async def count_copies(self, rewrite: Rewrite) -> int:
        """Count what the app's shared memories hold of the facts and statements that a rewrite erases."""
        erased = (rewrite.snapshot.statements[id] for id in sorted(rewrite.erasure.statement_ids))
        statement_ids = [plan_statement(fact_rows.read_statement(properties)).fact.id for properties in erased]
        return await erasing.count_promoted_copies(self._graph, rewrite.delta.erased.facts, statement_ids)

    async def preview_erasure(self, select: Callable[[MemorySnapshot], Erasure]) -> Rewrite:
        """Return what would change if what ``select`` chooses were erased; nothing is written."""
        return await self._rewrite_memory(
            lambda snapshot: derive_memory(snapshot, select(snapshot)), lambda rewrite: False
        )

    async def erase_expired(self, ids: Sequence[str]) -> Receipt:
        """Erase memories that have expired, by their ids; what other turns support stays, whatever words it tells."""

        def select(snapshot: MemorySnapshot) -> Erasure:
            return replace(Erasure.select_ids(snapshot, ids), takes_words=False)

        return await self.erase_memories(select)

    async def erase_session(self, session_id: str) -> Receipt:
        """Erase all turns of a session, as :meth:`erase_memories` does."""
        return await self.erase_memories(lambda snapshot: Erasure.select_session(snapshot, session_id))

    async def add_owner_word(
        self, make_word: Callable[[MemorySnapshot, DerivedMemory], OwnerWord], *, is_preview: bool
    ) -> Rewrite:
        """Add what the owner says of their memory as it is, and return what that changes.

        Args:
            make_word: makes the word from the memory.
            is_preview: whether nothing is written.
        """

        def plan(snapshot: MemorySnapshot) -> Rewrite:
            readings = list_remaining_readings(snapshot, NOTHING)
            current = select_current_readings(snapshot, readings)
            word = make_word(snapshot, replay_readings(current))
            return replace(_plan_rewrite(snapshot, [*readings, word.reading]), word=word)

        return await self._rewrite_memory(plan, lambda rewrite: not is_preview)

    async def replace_reading(
        self, rereading: Rereading, snapshot: MemorySnapshot, *, is_preview: bool = False
    ) -> tuple[writing.WriteOutcome, Rewrite]:
        """Let a new reading of turns count instead of what was read in them before, which stays for history.

        Args:
            rereading: the new reading.
            snapshot: the memory when its candidates were fetched.
            is_preview: whether nothing is written.

        Returns:
            ``written`` and what changes; ``outdated`` if the user was written to meanwhile; ``taken`` if one of the
            turns was edited, forgotten, claimed or ruled on: nothing is written then.
        """
        rewrite = await asyncio.to_thread(_plan_rereading, snapshot, rereading)
        if is_preview:
            return "written", rewrite
        batch = await self._embed_passages(rewrite.delta)

        async def work(transaction: Transaction) -> writing.WriteOutcome:
            if not await writing.are_turns_as_read(transaction, rereading):
                return "taken"
            return "written" if await self._write(transaction, rewrite, batch) else "outdated"

        return await self._graph.transact(work), rewrite

    async def apply_edit(self, window: Lease, planned: WindowPlan, batch: EmbeddingBatch) -> writing.WriteOutcome:
        """Write a window with edited turns; what rested on their former words alone goes in the same transaction.

        Args, returns: those of :func:`.writing.apply_plan`.
        """
        snapshot = await snapshots.fetch_snapshot(self._graph)
        if snapshot.writes != planned.writes:
            return "outdated"
        snapshot = replace(snapshot, readings=(*snapshot.readings, planned.reading))
        rewrite = await asyncio.to_thread(derive_memory, snapshot)
        batch += await self._embed_passages(rewrite.delta, batch.embeddings)
        kept_readings = writing.list_changed_readings(snapshot, rewrite.readings)
        planned = replace(planned, delta=rewrite.delta)
        return await writing.apply_plan(self._graph, window, planned, batch, kept_readings)

    async def restore_derivation(self) -> Rewrite:
        """Let the graph become what the user's readings make of it; return the rewrite that did."""
        return await self._rewrite_memory(derive_memory, lambda rewrite: bool(rewrite.delta.count))

    async def compare_derivation(self) -> Rewrite:
        """Return the rewrite that would make the graph what the user's readings make of it; nothing is written.

        If anything differs, a second look makes sure that nobody wrote to the user during the first.
        """
        snapshot = await snapshots.fetch_snapshot(self._graph)
        for _ in range(MAX_COMPARISONS):
            rewrite = await asyncio.to_thread(derive_memory, snapshot)
            if not rewrite.delta.count:
                break
            earlier, snapshot = snapshot, await snapshots.fetch_snapshot(self._graph)
            if earlier.writes == snapshot.writes:
                break
        return rewrite

    async def salvage_readings(self) -> None:
        """Let the graph's facts stand for what was read in readings that cannot be decoded, and store it as read."""

        async def work(transaction: Transaction) -> None:
            await snapshots.lock_user(transaction)
            snapshot, lost = await snapshots.read_damaged_snapshot(transaction)
            salvaged = await asyncio.to_thread(_salvage_readings, snapshot, lost)
            await writing.replace_readings(transaction, salvaged)

        await self._graph.transact(work)

    async def revise_readings(self, revise: Callable[[Reading], Reading]) -> None:
        """Change readings, and let the graph become what they then make of it."""

        def plan(snapshot: MemorySnapshot) -> Rewrite:
            revised = replace(snapshot, readings=tuple(map(revise, snapshot.readings)))
            return _plan_rewrite(snapshot, list_remaining_readings(revised, NOTHING))

        await self._rewrite_memory(plan, lambda rewrite: True)

    async def _rewrite_memory(
        self, plan: Callable[[MemorySnapshot], Rewrite], is_due: Callable[[Rewrite], bool]
    ) -> Rewrite:
        """Plan a rewrite and write it if it is due; start over if others wrote to the user meanwhile.

        It takes no lock that ingests hold: forgetting does not wait until a model has answered. Only if others keep
        writing do they wait until it is done.
        """
        for _ in range(FREE_REWRITES):
            snapshot = await snapshots.fetch_snapshot(self._graph)
            rewrite = await asyncio.to_thread(plan, snapshot)
            if not is_due(rewrite):
                return rewrite
            batch = await self._embed_passages(rewrite.delta)
            write = partial(self._write, rewrite=rewrite, batch=batch)
            if await self._graph.transact(write):
                return rewrite

        async def rewrite_alone(transaction: Transaction) -> Rewrite:
            await snapshots.lock_user(transaction)
            snapshot = await snapshots.read_snapshot(transaction)
            rewrite = await asyncio.to_thread(plan, snapshot)
            if is_due(rewrite) and not await self._write(transaction, rewrite, EmbeddingBatch(has_embedder=True)):
                raise errors.WriteConflict(attempts=FREE_REWRITES + 1)
            return rewrite

        return await self._graph.transact(rewrite_alone)

    async def _write(self, transaction: Transaction, rewrite: Rewrite, batch: EmbeddingBatch) -> bool:
        """Write a rewrite unless the user was written to since the snapshot; return whether it was written.

        What lacks its vector gets one with the next ingest.
        """
        snapshot, erasure, connection = rewrite.snapshot, rewrite.erasure, self._graph.connection
        undone_ids = sorted(erasure.reading_ids)
        rows = await asyncio.to_thread(writing.encode_delta, rewrite.delta, batch, {})
        if not await writing.begin_rewrite(transaction, snapshot, rewrite.readings, undone_ids):
            return False
        if rewrite.word:
            await writing.write_owner_word(transaction, snapshot, rewrite.word)
        if rewrite.rereading:
            await writing.write_rereading(transaction, snapshot, rewrite.rereading)
        fact_turn_ids = {
            source.turn_id
            for id in erasure.fact_ids
            for source in snapshot.stored.facts[id.removeprefix("fact:")].sources
        }
        tombstones = {erasing.make_fact_tombstone(connection, id) for id in fact_turn_ids - erasure.turn_ids}
        await erasing.entomb(transaction, tombstones)
        ids, is_final = sorted(erasure.turn_ids), erasure.is_final
        await erasing.erase_events(self._graph, transaction, ids, is_final=is_final)
        await erasing.erase_statements(transaction, sorted(erasure.statement_ids))
        await _erase_lost_words(transaction, rewrite)
        await writing.write_delta(transaction, rows, batch)
        return True

    async def _embed_passages(self, delta: Delta, known: Container[Passage] = ()) -> EmbeddingBatch:
        """Embed new wordings and names; if that fails, the next ingest does. Forgetting does not fail for it."""
        if self._vectors is not None:
            passages = [passage for passage in delta.passages if passage not in known]
            with suppress(errors.EmbeddingError, errors.EmbedderMismatch, errors.ConfigurationError):
                return await self._vectors.embed_passages(passages)
        return EmbeddingBatch(has_embedder=True)


async def _erase_lost_words(transaction: Transaction, rewrite: Rewrite) -> None:
    """Erase what holds words that only the forgotten turns said and is not derived from readings.

    That is whom a model took for the writer of another turn, and what agents proposed.
    """
    if not (words := rewrite.lost_words):
        return
    writers = {name for turn in rewrite.snapshot.turns.values() for name in turn["writers"] if name}
    if names := sorted(name for name in writers if words & collect_words([name])):
        await erasing.erase_writers(transaction, names)
    proposals = await reviews.fetch_proposals(transaction, closed=True)
    texts = {one.id: [one.text, one.reason, one.by] for one in proposals}
    if ids := [id for id, told in texts.items() if words & collect_words(told)]:
        await reviews.withdraw_proposals(transaction, ids)


def derive_memory(snapshot: MemorySnapshot, erasure: Erasure = NOTHING) -> Rewrite:
    """Derive the memory without what is erased, and what then differs from the graph."""
    lost_words = erasure.find_lost_words(snapshot)
    rewrite = _plan_rewrite(snapshot, list_remaining_readings(snapshot, erasure, lost_words))
    return replace(rewrite, erasure=erasure, lost_words=lost_words)


def _plan_rewrite(snapshot: MemorySnapshot, readings: list[Reading]) -> Rewrite:
    derived = replay_readings(select_current_readings(snapshot, readings))
    return Rewrite(snapshot, readings, derived, compare_memory(snapshot.stored, derived))


def _plan_rereading(snapshot: MemorySnapshot, rereading: Rereading) -> Rewrite:
    new = rereading.reading
    readings = [
        replace(former, reread_at=_date_turns(former, new)) for former in list_remaining_readings(snapshot, NOTHING)
    ]
    return replace(_plan_rewrite(snapshot, [*readings, new]), rereading=rereading)


def _date_turns(former: Reading, new: Reading) -> dict[str, datetime]:
    """Until when each turn of a reading counts as it reads it, once the new one has read some of them again."""
    ids = set(new.heard_turn_ids).intersection(former.heard_turn_ids) if new.at else ()
    return {**{id: new.at for id in ids if new.at}, **former.reread_at}


def list_remaining_readings(
    snapshot: MemorySnapshot, erasure: Erasure, lost_words: frozenset[str] = frozenset()
) -> list[Reading]:
    """List what is left of the readings without what is erased."""
    readings = list(snapshot.readings)
    for gone in (reading for reading in snapshot.readings if reading.id in erasure.reading_ids):
        readings = [_forget_rereading(reading, gone) for reading in readings]
    return restrict_readings(readings, _plan_removal(snapshot, erasure, readings, lost_words))


def _forget_rereading(reading: Reading, gone: Reading) -> Reading:
    """Let the turns that the reading which goes had read again count as they did before, until they were again."""
    times = {id: gone.reread_at.get(id) if time == gone.at else time for id, time in reading.reread_at.items()}
    return replace(reading, reread_at={id: time for id, time in times.items() if time is not None})


def list_readings_without(snapshot: MemorySnapshot, turn_ids: Collection[str]) -> list[Reading]:
    """List the readings of a memory that has not read these turns, but all others."""
    erasure = Erasure(frozenset(snapshot.turns.keys() & frozenset(turn_ids)), takes_words=False)
    return select_current_readings(snapshot, list_remaining_readings(snapshot, erasure))


def select_current_readings(snapshot: MemorySnapshot, readings: Sequence[Reading]) -> list[Reading]:
    """Leave out of the readings the turns that were read again."""
    if not any(reading.reread_at for reading in readings):
        return list(readings)
    texts = {id: turn["text"] for id, turn in snapshot.turns.items()}
    removal = Removal(frozenset(), _list_authors(snapshot.turns), texts, takes_words=False)
    return restriction.select_current_readings(readings, removal)


def _salvage_readings(snapshot: MemorySnapshot, lost: Sequence[LostReading]) -> dict[str, Reading | None]:
    authors = _list_authors(snapshot.turns)
    rereading_times = {time for reading in snapshot.readings for time in reading.reread_at.values()}
    return {
        one.id: salvage_reading(one, snapshot.stored, authors, is_rereading=one.at in rereading_times) for one in lost
    }


def _list_authors(turns: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, Role]]:
    """Map turn ids to name and role of their authors."""
    return {id: (turn["author"], "model" if turn["role"] == "model" else "user") for id, turn in turns.items()}


def _plan_removal(
    snapshot: MemorySnapshot, erasure: Erasure, readings: Sequence[Reading], lost_words: frozenset[str]
) -> Removal:
    kept_turns = {id: turn for id, turn in snapshot.turns.items() if id not in erasure.turn_ids}
    facts = [snapshot.stored.facts[id.removeprefix("fact:")] for id in sorted(erasure.fact_ids)]
    return Removal(
        turn_ids=erasure.turn_ids,
        authors=_list_authors(kept_turns),
        texts={id: turn["text"] for id, turn in kept_turns.items()},
        takes_words=erasure.takes_words,
        words=lost_words,
        label_words=_select_label_words(lost_words, erasure, readings) if lost_words else lost_words,
        facts=frozenset().union(*(find_read_facts(readings, fact) for fact in facts)),
        reading_ids=erasure.reading_ids,
    )


def _select_label_words(words: frozenset[str], erasure: Erasure, readings: Sequence[Reading]) -> frozenset[str]:
    """Select the words that no reading would choose for a label without having heard what is erased."""
    from adk_graph_memory.extraction.vocabulary import OFFERED_LABELS  # with ADK, which a look at memory never needs

    others = [reading for reading in readings if erasure.turn_ids.isdisjoint(reading.heard_turn_ids)]
    labels = {label for reading in others for label in list_labels(reading.extraction)}
    return words - collect_label_words({*labels, *OFFERED_LABELS})
