"""``python -m benchmarks.latency.replay``: the CPU time of deriving a large memory from its readings.

Forgetting, corrections, histories and ``as_of`` take it, beside the database's: to decode the readings, to replay them,
and to compare the result with what the graph holds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.memory import DerivedMemory, StoredMemory, compare_memory
from adk_graph_memory.records.readings import Reading, decode_reading, encode_reading
from benchmarks import machine

T = TypeVar("T")
FACTS_A_WINDOW, PREDICATES = 10, 50
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)


def make_readings(facts: int, subjects: int) -> Iterator[Reading]:
    """Windows of ten facts about some of the subjects, with one of fifty predicates and a value of their own."""
    chance = random.Random(7)
    names = ["user", *(f"Person{number}" for number in range(1, subjects))]
    for window in range(facts // FACTS_A_WINDOW):
        entities, said = dict[str, ExtractedEntity](), list[ExtractedFact]()
        for number in range(window * FACTS_A_WINDOW, (window + 1) * FACTS_A_WINDOW):
            name, predicate = chance.choice(names), f"predicate_{chance.randrange(PREDICATES)}"
            entity = entities.setdefault(name, ExtractedEntity(len(entities), name, "person"))
            text, at = f"{name} {predicate} value {number}", BEGIN + timedelta(minutes=number)
            source = Source(f"event:{digest(str(number))}", text, 0, len(text), at, session_id=f"s{window}")
            place = {"subject": entity.ref, "object": None, "speaker": "user", "at": at}
            said.append(ExtractedFact(text=text, predicate=predicate, sources=(source,), **place))
        heard = tuple(fact.sources[0].turn_id for fact in said)
        extraction = Extraction(tuple(entities.values()), tuple(said))
        yield Reading(f"reading-{window}", f"s{window}", extraction, heard_turn_ids=heard, at=said[-1].at)


def store_memory(memory: DerivedMemory) -> StoredMemory:
    """The memory as the graph would hold it."""
    origins = {id: fact.origin for id, fact in memory.facts.items()}
    stored = (
        memory.entities,
        memory.facts,
        {},
        dict(memory.links),
        frozenset(memory.dependencies),
        origins,
        memory.mentions,
    )
    return StoredMemory(*stored)


def time_cpu(work: Callable[[], T]) -> tuple[float, T]:
    """The CPU seconds of this process that the work took, and its result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def measure(facts: int, subjects: int) -> list[float]:
    """CPU seconds to decode the readings, to replay them and to compare the memory with the graph's."""
    encoded = [(encode_reading(reading), reading) for reading in make_readings(facts, subjects)]
    decoding, readings = time_cpu(
        lambda: [decode_reading(text, reading.at, reading.heard_turn_ids) for text, reading in encoded]
    )
    replaying, memory = time_cpu(lambda: replay_readings(readings))
    comparing, difference = time_cpu(lambda: compare_memory(store_memory(memory), memory))
    assert len(memory.facts) == facts and not difference.facts
    return [decoding, replaying, comparing]


def main() -> None:
    """Print a line for a memory about one person, and one for a memory about many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"load before: {machine.read_load()}")
    for subjects in (1, 200):
        rounds = [measure(options.facts, subjects) for _ in range(options.rounds)]
        parts = [statistics.median(times) for times in zip(*rounds, strict=True)]
        decoding, replaying, comparing = parts
        named = f"decode {decoding:.2f}, replay {replaying:.2f}, compare {comparing:.2f}"
        print(f"{options.facts:,} facts of {subjects} subjects: {sum(parts):.2f} s of CPU ({named})")
    print(f"load after: {machine.read_load()}")


if __name__ == "__main__":
    main()
