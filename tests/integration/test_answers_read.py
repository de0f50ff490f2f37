"""What the benchmark of answers sets beside our search: BM25 or the cosine alone, over facts and turns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from benchmarks.quality import ingest
from benchmarks.quality.answers_read import search_plainly
from benchmarks.quality.cases import record_cases
from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

SAID = (
    "My dog Rex is afraid of thunder.",
    "My sister Clara moved to Lisbon last spring.",
    "I am learning to play the cello on Thursdays.",
    "The dog of my neighbour barks all night.",
)
FACT = "Ana's dog Rex fears thunder."
READ = {
    "entities": [{"ref": 0, "name": "user", "type": "person"}],
    "facts": [{"ref": 0, "subject": 0, "predicate": "fears", "text": FACT, "quote": SAID[0], "turns": [0]}],
}


async def test_words_find_what_has_a_word_and_vectors_all_by_the_cosine(neo4j_server: Any, app_name: str) -> None:
    settings, said_at = neo4j_server.settings(label_prefix="TestHash"), datetime(2026, 3, 2, 12, tzinfo=UTC)
    turns = tuple(Turn(f"t{number}", "user", text, said_at) for number, text in enumerate(SAID))
    asked = Question("What is the dog afraid of?", "thunder", "a", ("t0",))
    talk = Conversation("ana", (Session("s", turns),), (asked,))
    model = ScriptedLlm.from_replies(json.dumps(READ))
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory,
    ):
        await ingest.remember(talk, sessions, Neo4jMemoryService(memory=memory), app_name=app_name)
        [case] = await record_cases(memory, [talk], app_name)
        found = await search_plainly(memory.user(app_name, "ana"), case)
    by_words, by_vector = (found[system] for system in ("words only", "vectors only"))
    texts = [part.text or "" for entry in by_words for part in entry.content.parts or ()]
    assert texts and all("dog" in text for text in texts)
    assert {FACT, SAID[0], SAID[3]} <= set(texts)  # our own search tells a fact or its turn
    cosines = {one.id: one.vector_score for one in case.ranking.candidates}
    ids = [entry.id for entry in by_vector]
    assert ids == sorted(ids, key=lambda id: -(cosines[id] or 0.0))
    assert len(ids) > len(by_words)
