"""What a memory keeps of readings that cannot be decoded any more, on paper: each fact, and what became of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from benchmarks.quality.histories import make_histories
from benchmarks.quality.truth import make_portions
from tests.support import paper

from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.consolidation.salvage import salvage_reading
from adk_graph_memory.records.memory import DerivedMemory, StoredMemory
from adk_graph_memory.records.readings import LostReading, Reading

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def store(memory: DerivedMemory) -> StoredMemory:
    """What a graph would hold of it."""
    return StoredMemory(
        entities=memory.entities,
        facts=memory.facts,
        links=dict(memory.links),
        dependencies=frozenset(memory.dependencies),
        mentions=memory.mentions,
    )


def salvage(readings: Sequence[Reading], lost_numbers: Collection[int]) -> list[Reading]:
    stored = store(replay_readings(readings))
    salvaged = list(readings)
    for number in lost_numbers:
        gone = readings[number]
        lost = LostReading(gone.id, gone.session_id, gone.extractor, gone.at, frozenset(gone.heard_turn_ids))
        reading = salvage_reading(lost, stored, {}, is_rereading=False)
        assert reading and (reading.at, reading.heard_turn_ids) == (gone.at, tuple(sorted(gone.heard_turn_ids)))
        salvaged[number] = reading
    return salvaged


@pytest.mark.slow
async def test_each_fact_and_its_end_outlive_any_reading() -> None:
    for history in make_histories():
        portions = make_portions(history)["turn by turn"]
        read = await paper.read_portions(paper.tell_history(history, portions).make_reader(), portions)
        readings = [replace(reading, at=NOON + timedelta(days=day)) for day, reading in enumerate(read)]
        held = paper.list_held(replay_readings(readings))
        for lost in ([number] for number in range(len(readings))):
            after = paper.list_held(replay_readings(salvage(readings, lost)))
            # A wording that only the lost reading gave is not known any more: what repeats it may be a fact of its own.
            assert {fact[:4] for fact in held} <= {fact[:4] for fact in after}, (history.name, lost)
        everything = replay_readings(salvage(readings, range(len(readings))))
        assert paper.list_held(everything) == held, history.name


def test_of_a_reading_without_turns_and_rulings_nothing_is_left() -> None:
    lost = LostReading("r", "s", "m", NOON, frozenset())
    assert salvage_reading(lost, StoredMemory(), {}, is_rereading=False) is None
