"""Who speaks is known to a search, follows what is written, and is forgotten with the words."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from adk_graph_memory import GraphMemory, Turn
from adk_graph_memory.graph import speakers
from adk_graph_memory.records.scopes import Scope

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture
async def memory(neo4j_server: Any) -> Any:
    async with GraphMemory(settings=neo4j_server.settings(label_prefix="TestHash"), embedder=False) as memory:
        yield memory


def said(author: str, text: str, id: str) -> Turn:
    return Turn(id, author, text, NOON)


async def remember(memory: GraphMemory, app_name: str, session_id: str, *turns: Turn) -> None:
    await memory.remember(turns, app_name=app_name, user_id="u", session_id=session_id)


async def first(memory: GraphMemory, app_name: str, question: str) -> str | None:
    return (await memory.recall(question, app_name=app_name, user_id="u"))[0].author


@pytest.mark.slow
async def test_what_the_one_asked_about_said_comes_first(memory: GraphMemory, app_name: str) -> None:
    turns = [said("ben", "I keep bees in the garden", "t0"), said("ana", "I keep bees in the garden too", "t1")]
    await remember(memory, app_name, "s1", *turns)
    assert await first(memory, app_name, "Does Ana keep bees in the garden?") == "ana"
    assert await first(memory, app_name, "Does Ben keep bees in the garden?") == "ben"


@pytest.mark.slow
async def test_somebody_new_is_known_to_the_next_search(memory: GraphMemory, app_name: str) -> None:
    await remember(memory, app_name, "s1", said("ben", "I keep bees in the garden", "t0"))
    assert await first(memory, app_name, "Does Ana keep bees in the garden?") == "ben"
    await remember(memory, app_name, "s2", said("ana", "I keep bees in the garden too, and elsewhere", "t1"))
    await first(memory, app_name, "bees")
    assert await first(memory, app_name, "Does Ana keep bees in the garden?") == "ana"


async def test_beyond_its_limit_the_cache_of_speakers_is_emptied(
    memory: GraphMemory, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember(memory, app_name, "s1", said("ben", "I keep bees", "t0"))
    cache, [ours, *others] = memory.engine.speakers, [Scope(app_name, user) for user in "uvw"]
    await cache.find_speaker_profile(ours)
    await cache.find_speaker_profile(others[0])
    assert cache.get_known_profile(ours).names == (("ben",),)
    monkeypatch.setattr(speakers, "MAX_CACHED_USERS", 1)
    await cache.find_speaker_profile(others[1])
    assert cache.get_known_profile(ours).names == ()


async def test_who_speaks_is_forgotten_with_their_last_words(memory: GraphMemory, app_name: str) -> None:
    await remember(memory, app_name, "s1", said("ben", "I keep bees", "t0"), said("ana", "I keep geese", "t1"))
    await memory.forget(said("ana", "", "t1").make_memory_id("s1"), app_name=app_name, user_id="u")
    driver = await memory.connection.get_driver()
    query = "MATCH (u:TestHashUser {scope: $scope}) RETURN u.authors AS authors"
    records, _, _ = await driver.execute_query(query, scope=Scope(app_name, "u").key)
    assert [record["authors"] for record in records] == [["ben"]]


@pytest.mark.slow
async def test_what_a_user_speaks_tells_the_language_of_few_words(memory: GraphMemory, app_name: str) -> None:
    german = [said("ben", f"Ich halte {thing} in meinem Garten.", f"t{thing}") for thing in ("Bienen", "Gänse")]
    await remember(memory, app_name, "s1", *german)
    retriever = await memory.user(app_name, "u").make_retriever()
    assert retriever.parse_question("Bienen").language == "de"
    assert retriever.parse_question("mein Garten").terms == ["Garten"]
    nobody = await memory.user(app_name, "nobody").make_retriever()
    assert nobody.parse_question("dog breed").language == "en"


@pytest.mark.slow
async def test_what_an_agent_says_is_not_what_its_user_speaks(memory: GraphMemory, app_name: str) -> None:
    agent = [Turn(f"a{n}", "companion", "You may want to ask me for more of that.", NOON, "model") for n in range(5)]
    await remember(memory, app_name, "s1", said("ben", "Ich halte Bienen in meinem Garten.", "t0"), *agent)
    retriever = await memory.user(app_name, "u").make_retriever()
    assert retriever.parse_question("Bienen").language == "de"


@pytest.mark.parametrize("query", ["dog breed", "dog zebra", "zebra dog"])
async def test_a_word_that_another_language_has_too_is_searched_for(
    memory: GraphMemory, app_name: str, query: str
) -> None:
    await remember(memory, app_name, "s1", said("ben", "My dog is afraid of thunder.", "t0"))
    assert await first(memory, app_name, query) == "ben"


@pytest.mark.slow
async def test_a_message_of_three_thousand_words_finds_what_one_of_them_names(
    memory: GraphMemory, app_name: str
) -> None:
    await remember(memory, app_name, "s1", said("ben", "I moored my boat in Zanzibar.", "t0"))
    filler = ["".join(letters) for letters in itertools.islice(itertools.product("abcdefgh", repeat=5), 3_000)]
    for place in (0, 1_500, 2_999):
        assert await first(memory, app_name, " ".join([*filler[:place], "Zanzibar", *filler[place:]])) == "ben"
