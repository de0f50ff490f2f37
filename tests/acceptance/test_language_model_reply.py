"""A reply that a language model gave to our exact prompt for two of the demo sessions, and what the graph becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from adk_graph_memory import GraphMemory, demo, prompts
from adk_graph_memory.adk import entries
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

REPLY = Path(__file__).parent / "replies" / "extract.dinner-and-spanish.json"
PROMPT = "extract@6c38457d"
SESSIONS = ("2025-02-04-dinner-for-eight", "2025-08-21-en-espanol")


def test_the_reply_was_recorded_with_the_prompt_as_it_is():
    assert prompts.load("extract").version == PROMPT, "the prompt changed: record the reply anew"


@pytest.fixture
async def remembered(neo4j_server, app_name):
    turns = [turn for s in demo.load().sessions if s.id in SESSIONS for turn in entries.turns(s.events())]
    model = ScriptedLlm.of(REPLY.read_text(encoding="utf-8"))
    async with GraphMemory(
        settings=neo4j_server.settings(label_prefix="TestHash"), model=model, embedder=HashEmbedder()
    ) as memory:
        report = await memory.remember(turns, app_name=app_name, user_id="franzi", session_id="both")
        yield memory, report


async def test_every_fact_shows_its_words(remembered):
    _, report = remembered
    assert report.dropped == {}
    assert report.facts == {"ADD": 58}
    assert report.usage.calls == 1


async def test_the_two_antons_stay_two(remembered, app_name):
    memory, _ = remembered
    found = await memory.recall("Which Anton plays the trombone?", app_name=app_name, user_id="franzi")
    [fact] = [f for f in found if f.text == "Anton Reiß plays the trombone."]
    assert fact.metadata["subject"] == "Anton Reiß"
    assert fact.quote == "Anton Reiß shares my office at Tarnow & Pell and plays the trombone"


async def test_a_fact_in_another_language_keeps_it(remembered, app_name):
    memory, _ = remembered
    found = await memory.recall("¿Dónde vive Franzi?", app_name=app_name, user_id="franzi")
    assert "Franzi vive en Valencia desde el 8 de agosto de 2025." in [f.text for f in found]
    [home] = [f for f in found if f.text.startswith("Franzi vive en Valencia")]
    assert home.valid_from.date().isoformat() == "2025-08-08"
