"""What is to be erased of a user's memory, and which words go with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from adk_graph_memory import consolidation
from adk_graph_memory.graph.derivation import MemorySnapshot
from adk_graph_memory.records.turns import is_evidence


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
        ids = {reading.id for reading in snapshot.readings if is_part_of(reading.id, ingest_id)}
        readings = [reading for reading in snapshot.readings if reading.id in ids]
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
        return consolidation.find_lost_words([words[id]["text"] for id in sorted(gone_ids)], kept_texts)


NOTHING = Erasure()


def _find_idle_evidence(snapshot: MemorySnapshot, gone_ids: Collection[str]) -> frozenset[str]:
    """Find the turns that are there for these facts alone: nobody could see, and forget, what stays of them."""
    gone, kept = set[str](), set[str]()
    for fact in snapshot.stored.facts.values():
        turn_ids = {source.turn_id for source in fact.sources if is_evidence(source.session_id)}
        (gone if f"fact:{fact.id}" in gone_ids else kept).update(turn_ids)
    return frozenset(gone - kept)


def is_part_of(reading_id: str, ingest_id: str) -> bool:
    """Whether a reading belongs to an ingest: it has its id, or that of one of its windows."""
    return reading_id == ingest_id or reading_id.startswith(f"{ingest_id}/")
