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
from adk_graph_memory.consolidation.owner_words import refer_to_fact
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.graph.writing import encode_delta
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Candidates, Delta, Erased, Proposition
from adk_graph_memory.records.memory import DerivedEntity, DerivedMemory, StoredMemory, compare_memory
from adk_graph_memory.records.readings import OwnerRuling, Reading
from adk_graph_memory.records.turns import Passage

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
    decided = replace(resting, dependencies=((refer_to_fact(second), refer_to_fact(first)),))
    assert replay.replay_readings([base, decided]).dependencies == {(second.id, first.id)}


def test_only_what_differs_from_the_graph_is_written_and_erased() -> None:
    stored = StoredMemory(dependencies=frozenset({("a", "b"), ("a", "gone")}))
    difference = compare_memory(stored, DerivedMemory(dependencies={("a", "b"), ("a", "new")}))
    assert difference.dependencies == (("a", "new"),)
    assert difference.erased.dependencies == (("a", "gone"),)
    assert difference.count == 2
    assert compare_memory(stored, DerivedMemory(dependencies=set(stored.dependencies))) == Delta()


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


def test_what_a_link_that_goes_joined_may_be_stale_no_longer() -> None:
    rows = encode_delta(Delta(erased=Erased(links=(("denial", "plan"),))), EmbeddingBatch(), {})
    assert rows["touched"] == ["denial", "plan"]


def test_an_entity_under_another_name_needs_a_vector() -> None:
    stored = {"anna": DerivedEntity("anna", "ANNA", "person")}
    delta = compare_memory(StoredMemory(stored), DerivedMemory({"anna": replace(stored["anna"], name="Anna")}))
    assert delta.passages == [Passage("Anna")]


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


def check_same(readings: list[Reading], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Check that comparing less derives the same; return the facts and what became of each."""
    narrow = replay.replay_readings(readings)
    with monkeypatch.context() as patch:
        patch.setattr(replay, "_list_places", list_wide)
        assert paper.digest_memory(replay.replay_readings(readings)) == paper.digest_memory(narrow)
    return sorted((fact.proposition.text, fact.standing.state) for fact in narrow.facts.values())


def read_fact(day: int, entities: dict[str, Any], predicate: str, text: str, **more: Any) -> Reading:
    """A window that says one fact: of the first of these entities, and about the second if there is one."""
    at = NOON + timedelta(days=day)
    source = Source(f"event:{day}", text, 0, len(text), at, session_id="s", origin="user")
    read = [ExtractedEntity(ref, name, **details) for ref, (name, details) in enumerate(entities.items())]
    object_ref = 1 if len(read) > 1 else None
    fact = ExtractedFact(
        subject=0, predicate=predicate, object=object_ref, text=text, speaker="user", at=at, sources=(source,), **more
    )
    return Reading(f"reading-{day}", "s", Extraction(tuple(read), (fact,)), heard_turn_ids=(source.turn_id,), at=at)


def merge_by_hand(readings: list[Reading], ref: int) -> list[Reading]:
    """Add that the owner says that the entities of this number in the first two readings are one."""
    keys = replay.replay_readings(readings).entity_keys
    kept = [
        replace(
            reading, entity_keys={entity.ref: keys[reading.id, entity.ref] for entity in reading.extraction.entities}
        )
        for reading in readings
    ]
    names = keys[readings[0].id, ref], keys[readings[1].id, ref]
    at = readings[-1].at + timedelta(days=1)
    return [*kept, Reading("merge", "s", Extraction((), ()), at=at, ruling=OwnerRuling(op="merge", names=names))]


def test_what_the_owner_merged_is_compared_when_the_predicate_is_next_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def travel(day: int, place: str, text: str, **more: Any) -> Reading:
        return read_fact(day, {"user": {"type": "person"}, place: {"type": "place"}}, "travels_to", text, **more)

    may = datetime(2026, 5, 5, tzinfo=UTC)
    planned = travel(0, "Porto", "The user travels to Porto on 5 May", modality="planned", valid_from=may)
    done = travel(70, "Invicta City", "The user travelled to Invicta City on 5 May", valid_from=may)
    readings = merge_by_hand([planned, done], 1)
    readings.append(travel(72, "Rome", "The user travels to Rome in June", modality="planned"))
    assert check_same(readings, monkeypatch)[1] == ("The user travels to Porto on 5 May", "superseded")


def test_what_two_said_whom_the_owner_merged_is_one_fact_when_they_next_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(day: int, about: str, text: str) -> Reading:
        return read_fact(day, {"Ana": {"type": "person", "about": about}}, "likes", text)

    readings = merge_by_hand([tell(0, "sister", "Ana likes jazz"), tell(1, "colleague", "Ana likes jazz")], 0)
    readings.append(tell(3, "sister", "Ana likes rock"))
    assert [text for text, _ in check_same(readings, monkeypatch)] == ["Ana likes jazz", "Ana likes rock"]


async def test_what_holds_again_is_compared_with_what_was_said_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user moves from Lisbon to Berlin, lives in Lisbon again, and only then is the move called off."""
    name = "outcome: heard where it was, and then called off"
    [history] = [history for history in make_histories() if history.name == name]
    first, moved, off, again = make_portions(history)["told"]
    conversation = paper.tell_history(history, [first, moved, again, off])
    readings = await paper.read_portions(conversation.make_reader(), conversation.portions)
    home = "The user lives in Lisbon."
    assert [fact for fact in check_same(readings, monkeypatch) if fact[0] == home] == [(home, "current")]


def test_an_author_whose_name_is_another_s_alias_is_no_further_entity(monkeypatch: pytest.MonkeyPatch) -> None:
    ana = {"Ana Silva": {"type": "person", "aliases": ("Ana",)}}
    met = read_fact(0, {"user": {"type": "person"}, **ana}, "knows", "The user knows Ana Silva")
    said = read_fact(1, {"user": {"type": "person"}, "Bob": {"type": "person"}}, "knows", "The user knows Bob")
    said = replace(said, extraction=replace(said.extraction, authors=(("Ana", "user"),)))
    check_same([met, said], monkeypatch)
    names = {entity.name for entity in replay.replay_readings([met, said]).entities.values()}
    assert names == {"user", "Ana Silva", "Bob"}


def test_a_judge_is_shown_all_facts_of_the_subject_and_predicate() -> None:
    readings = [read_liking(number) for number in range(40)]
    extraction = read_liking(50, what="The user loves song number 7").extraction
    assert len(replay.select_candidates(readings, extraction, (), lambda _memory: ()).facts) == 40
