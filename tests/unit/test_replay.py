"""What a replay derives and compares, that comparing less derives the same, and what of it is new to the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from benchmarks.quality.histories import History, make_histories
from benchmarks.quality.truth import make_portions
from tests.support import paper, recorded

from adk_graph_memory.consolidation import replay
from adk_graph_memory.consolidation.comparison import Comparison, compare_extraction
from adk_graph_memory.consolidation.owner_words import make_claim_ref
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Candidates, Proposition
from adk_graph_memory.records.memory import DerivedMemory, StoredMemory, compare_memory
from adk_graph_memory.records.readings import Reading

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = ExtractedEntity(0, "user", "person")


def read_liking(number: int, *, what: str | None = None, **more: Any) -> Reading:
    """A window in which the user says that they like something."""
    text, at = what or f"The user likes song {number}", NOON + timedelta(minutes=number)
    source = Source(f"event:{number}", text, 0, len(text), at, session_id="s", origin=more.pop("origin", "user"))
    said = {"subject": 0, "predicate": "likes", "object": None, "text": text, "speaker": "user", "at": at}
    extraction = Extraction((USER,), (ExtractedFact(**said, sources=(source,), **more),))
    return Reading(f"reading-{number}", "s", extraction, heard_turn_ids=(source.turn_id,), at=at)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """With how many known facts each window was compared."""
    counts: list[int] = []

    def compare(extraction: Extraction, candidates: Candidates, **options: Any) -> Comparison:
        counts.append(len(candidates.facts))
        return compare_extraction(extraction, candidates, **options)

    monkeypatch.setattr(replay, "compare_extraction", compare)
    return counts


def test_a_subject_s_many_values_are_not_compared_with_each_other(compared: list[int]) -> None:
    memory = replay.replay_readings(read_liking(number) for number in range(100))
    assert (len(memory.facts), set(compared)) == (100, {0})
    compared.clear()
    again = [*(read_liking(number) for number in range(100)), read_liking(100, what="The user likes song 7")]
    assert (len(replay.replay_readings(again).facts), compared[-1]) == (100, 1)


def test_what_an_agent_says_is_compared_with_all_that_it_may_repeat(compared: list[int]) -> None:
    said = [read_liking(0, what="The user likes loud songs"), read_liking(1)]
    said.append(read_liking(2, what="The user likes songs", origin="agent"))
    assert (len(replay.replay_readings(said).facts), compared) == (2, [0, 0, 2])


def test_a_fact_rests_on_another_again_if_a_model_said_so() -> None:
    base, resting = read_liking(0), read_liking(1)
    facts = {fact.proposition.text: fact for fact in replay.replay_readings([base, resting]).facts.values()}
    first, second = (facts[f"The user likes song {number}"] for number in range(2))
    decided = replace(resting, dependencies=((make_claim_ref(second), make_claim_ref(first)),))
    assert replay.replay_readings([base, decided]).dependencies == {(second.id, first.id)}


def test_only_what_differs_from_the_graph_is_written_and_erased() -> None:
    stored = StoredMemory(dependencies=frozenset({("a", "b"), ("a", "gone")}))
    difference = compare_memory(stored, DerivedMemory(dependencies={("a", "b"), ("a", "new")}))
    assert difference.dependencies == (("a", "new"),)
    assert difference.erased_changes["dependencies"] == [["a", "gone"]]
    assert difference.count == 2
    assert compare_memory(stored, DerivedMemory(dependencies=set(stored.dependencies))).is_empty


def list_wide(proposition: Proposition, *, is_narrow: bool) -> Iterator[object]:
    """List the places of a proposition as if any fact of its subject and predicate could matter."""
    yield from LIST_PLACES(proposition, is_narrow=False)


LIST_PLACES = replay._list_places


async def check_narrow(conversation: paper.Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = await paper.read_portions(conversation.make_reader(), conversation.portions)
    narrow = paper.digest_memory(replay.replay_readings(readings))
    with monkeypatch.context() as patch:
        patch.setattr(replay, "_list_places", list_wide)
        assert narrow == paper.digest_memory(replay.replay_readings(readings))


@pytest.mark.parametrize("history", make_histories(), ids=lambda history: history.name)
@pytest.mark.parametrize("order", ["told", pytest.param("backwards", marks=pytest.mark.slow)])
async def test_comparing_less_derives_the_same_of_a_life(
    history: History, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_narrow(paper.tell_history(history, make_portions(history)[order]), monkeypatch)


@pytest.mark.parametrize("name", recorded.NAMES)
async def test_comparing_less_derives_the_same_of_what_a_model_replied(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_narrow(recorded.load_conversation(name), monkeypatch)
