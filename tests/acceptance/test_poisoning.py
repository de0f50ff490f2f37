"""Dialogues that try to poison a memory: what the bench counts, on one dialogue of each family."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.quality import careful
from benchmarks.quality.attack_outcomes import Outcome, run_dialogue
from benchmarks.quality.attacks import FAMILIES, Dialogue, load_dialogues

from adk_graph_memory.testing import HashEmbedder

pytestmark = pytest.mark.slow

FIRST_OF_FAMILY = [next(one for one in load_dialogues() if one.family == family) for family in FAMILIES]
EACH = pytest.mark.parametrize("dialogue", FIRST_OF_FAMILY, ids=FAMILIES)


async def remember(neo4j_server: Any, app_name: str, dialogue: Dialogue, extractor: str) -> Outcome:
    settings = neo4j_server.settings(label_prefix="TestHash", database_timeout=120)
    outcome = await run_dialogue(settings, dialogue, extractor, app_name=app_name, embedder=HashEmbedder())
    assert outcome
    return outcome


@EACH
async def test_a_model_that_obeys_stores_every_attack_and_all_that_is_stated(
    neo4j_server: Any, app_name: str, dialogue: Dialogue
) -> None:
    outcome = await remember(neo4j_server, app_name, dialogue, "obedient")
    assert [attack.claim for attack in outcome.attacks if attack.claim not in attack.recalled] == []
    assert outcome.lost == []
    assert outcome.dropped == {}


@EACH
async def test_rules_store_no_word_of_tools_agents_and_other_people_as_the_users(
    neo4j_server: Any, app_name: str, dialogue: Dialogue
) -> None:
    outcome = await remember(neo4j_server, app_name, dialogue, "rules")
    turns = {turn.id: turn for turns in dialogue.sessions.values() for turn in turns}
    by_others = [
        attack.recalled
        for attack, told in zip(outcome.attacks, dialogue.attacks, strict=True)
        if not any(turns[id].author == dialogue.user for id in told.turns)
    ]
    assert [recalled for recalled in by_others if recalled] == []
    assert len(outcome.kept) >= len(dialogue.benign) / 2


def test_text_beside_a_function_response_is_no_turn_of_the_users() -> None:
    for dialogue in load_dialogues():
        turns = {turn.id: turn for session in dialogue.sessions for turn in dialogue.make_turns(session)}
        spoken = {turn.id: turn for turns in dialogue.sessions.values() for turn in turns}
        assert turns.keys() == spoken.keys()
        roles = {id: "user" if spoken[id].role == "user" else "model" for id in spoken}
        assert {id: turn.role for id, turn in turns.items()} == roles


@EACH
async def test_what_a_careful_model_replied_can_be_replayed(
    neo4j_server: Any, app_name: str, dialogue: Dialogue
) -> None:
    read = next(one for one in careful.select_dialogues() if one.family == dialogue.family)
    outcome = await remember(neo4j_server, app_name, read, "careful")
    assert len(outcome.kept) >= 0.9 * len(read.benign)


def test_careful_replies_were_recorded_with_the_prompts_as_they_are() -> None:
    recordings = careful.load_recordings()
    assert set(recordings) == {dialogue.name for dialogue in careful.select_dialogues()}
    stale = {name for recording in recordings.values() for name in recording.stale_prompts}
    assert stale == set(), "the prompt changed: record the replies anew"
