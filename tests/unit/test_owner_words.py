"""What the owner's word makes of a fact, and what its history says of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from adk_graph_memory.consolidation.owner_words import find_read_wording, make_ruling_reading, refer_to_fact
from adk_graph_memory.consolidation.provenance import trace_fact
from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Fact
from adk_graph_memory.records.readings import OwnerRuling, Reading

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
BEES, GOATS = "The user keeps bees", "The user keeps goats"


def read_statement(text: str, turn_id: str, **more: Any) -> Reading:
    """A turn in which the user says that they keep something."""
    source = Source(turn_id, "That is so", 0, 10, NOON, session_id="s")
    said = {"subject": 0, "predicate": "keeps", "object": None, "text": text, "speaker": "user", "at": NOON}
    fact = ExtractedFact(**said, sources=(source,), **more)
    extraction = Extraction((ExtractedEntity(0, "user", "person"),), (fact,))
    return Reading(f"reading of {turn_id}: {text}", "s", extraction, heard_turn_ids=(turn_id,), at=NOON)


def derive_facts(*readings: Reading) -> dict[str, Fact]:
    return {fact.proposition.text: fact for fact in replay_readings(readings).facts.values()}


def test_what_the_owner_takes_back_was_never_true_from_then_on_and_its_history_names_the_change() -> None:
    readings = [read_statement(BEES, "event:1"), read_statement(GOATS, "event:2")]
    ruling = OwnerRuling("retract", refer_to_fact(derive_facts(*readings)[BEES]), reason="I sold them.")
    readings.append(make_ruling_reading(ruling, NOON + timedelta(days=1)))
    facts = derive_facts(*readings)
    assert [(facts[text].standing.state, facts[text].retired_at) for text in (BEES, GOATS)] == [
        ("retracted", NOON + timedelta(days=1)),
        ("current", None),
    ]
    [said, retracted] = trace_fact(readings, replay_readings(readings), facts[BEES].id)
    [revision] = facts[BEES].revisions
    assert (said.kind, said.revision) == ("said", "")
    assert (retracted.kind, retracted.reason, retracted.revision) == (
        "retracted",
        "I sold them.",
        revision.key,
    )


def test_a_wording_has_the_dates_with_which_it_was_read_from_the_fact_s_own_words() -> None:
    own, other = datetime(2024, 5, 4, tzinfo=UTC), datetime(2020, 5, 4, tzinfo=UTC)
    [fact] = derive_facts(read_statement(BEES, "event:1")).values()
    readings = [
        read_statement(GOATS, "event:2", valid_from=other),  # the same wording of other words
        read_statement(BEES, "event:1", valid_from=other),  # another wording of the same words
        read_statement(GOATS, "event:1", valid_from=own),
    ]
    found = find_read_wording(readings, fact, GOATS)
    assert (found.text, found.valid_from) == (GOATS, own)
    unread = find_read_wording(readings[:2], fact, GOATS)
    assert (unread.text, unread.valid_from) == (GOATS, None)
