"""ADK's memory contract, as one suite over ADK's own in-memory service and over ours on a real Neo4j.

Ours runs twice: with vectors, and by full text alone, where nothing but the words can find a memory. A rule that
ADK's in-memory service does not keep is listed here with the reason; its test is expected to fail there (strictly:
the day ADK keeps the rule, the entry has to go).
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from adk_graph_memory import Neo4jMemoryService
from adk_graph_memory.testing import HashEmbedder

NO_OFFSET = "writes local time without an offset"
READS_ALL = "reads every part that has text, whatever it is"
NO_DIRECT = "has no add_memory"
NO_METADATA = "throws custom_metadata away"
AS_GIVEN = "replaces what it holds of a session by what the object passed holds"
KEYED_BY_SESSION = "keeps the same event once a session"

IN_MEMORY_FALLS_SHORT = {
    "test_thoughts_are_not_remembered": READS_ALL,
    "test_the_thought_of_a_mixed_event_is_not_returned": READS_ALL,
    "test_a_summary_that_compaction_wrote_is_not_remembered": READS_ALL,
    "test_system_text_is_not_remembered": READS_ALL,
    "test_an_error_is_not_remembered": READS_ALL,
    "test_a_partial_event_is_not_remembered": READS_ALL,
    "test_an_entry_is_small_even_where_the_event_is_huge": READS_ALL,
    "test_a_timestamp_is_iso_8601_with_an_offset": NO_OFFSET,
    "test_a_timestamp_is_when_it_was_said": NO_OFFSET,
    "test_an_entry_that_was_added_directly_is_found": NO_DIRECT,
    "test_an_entry_that_was_added_directly_keeps_author_and_time": NO_DIRECT,
    "test_an_entry_added_twice_is_found_once": NO_DIRECT,
    "test_an_entry_without_words_is_passed_over": NO_DIRECT,
    "test_an_entry_without_a_time_has_one_when_it_comes_back": NO_DIRECT,
    "test_an_entry_belongs_to_its_user_alone": NO_DIRECT,
    "test_an_entry_that_was_added_directly_can_be_deleted": NO_DIRECT,
    "test_metadata_of_an_entry_and_of_the_call_are_merged_and_the_call_wins": NO_DIRECT,
    "test_metadata_comes_back_with_the_events": NO_METADATA,
    "test_metadata_that_json_cannot_hold_loses_nothing_else": NO_METADATA,
    "test_a_session_object_with_only_the_last_events_takes_nothing_away": AS_GIVEN,
}

USER = "ada"
NOON = 1_780_000_000.25

# --- builders -----------------------------------------------------------------------------------------------


def said(text: str | None = None, *parts: types.Part, author: str = "user", **fields: Any) -> Event:
    spoken = [types.Part(text=text)] if text is not None else []
    content = types.Content(role="user" if author == "user" else "model", parts=[*spoken, *parts])
    return Event(**{"author": author, "invocation_id": "inv", "content": content, "timestamp": NOON, **fields})


class Memory:
    """One fresh app on one service, with the arguments that never vary filled in."""

    def __init__(self, service: BaseMemoryService, app_name: str) -> None:
        self.service, self.app = service, app_name

    def session(self, *events: Event | str, id: str = "s1", user: str = USER, app: str | None = None) -> Session:
        given = [said(event) if isinstance(event, str) else event for event in events]
        return Session(id=id, app_name=app or self.app, user_id=user, events=given)

    async def add_session(self, *events: Event | str, **more: Any) -> Session:
        session = self.session(*events, **more)
        await self.service.add_session_to_memory(session)
        return session

    async def events(self, *events: Event, user: str = USER, **more: Any) -> None:
        await self.service.add_events_to_memory(app_name=self.app, user_id=user, events=events, **more)

    async def direct(self, *entries: MemoryEntry, user: str = USER, **more: Any) -> None:
        await self.service.add_memory(app_name=self.app, user_id=user, memories=entries, **more)

    async def entries(self, query: str, *, user: str = USER, app: str | None = None) -> list[MemoryEntry]:
        response = await self.service.search_memory(app_name=app or self.app, user_id=user, query=query)
        return response.memories

    async def search(self, query: str, **more: Any) -> list[str]:
        return [words(entry) for entry in await self.entries(query, **more)]

    async def delete(self, id: str | None, *, user: str = USER, app: str | None = None) -> None:
        await self.service.delete_memory(app_name=app or self.app, user_id=user, memory_id=id)

    async def delete_all(self, query: str) -> None:
        for _ in range(20):
            entries = await self.entries(query)
            if not entries:
                return
            for entry in entries:
                await self.delete(entry.id)
        raise AssertionError(f"still there: {entries}")


def words(entry: MemoryEntry) -> str:
    return " ".join(part.text for part in entry.content.parts or [] if part.text)


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=text)]), **fields)


def tools() -> Sequence[types.Part]:
    call = types.Part(function_call=types.FunctionCall(name="weather", args={"city": "Zanzibar"}))
    answer = types.Part(function_response=types.FunctionResponse(name="weather", response={"sky": "Zanzibar"}))
    return call, answer


@asynccontextmanager
async def open_memory(request: pytest.FixtureRequest, app_name: str) -> AsyncIterator[Memory]:
    if request.param == "in_memory":
        if reason := IN_MEMORY_FALLS_SHORT.get(request.node.originalname):
            mark = pytest.mark.xfail(reason=f"InMemoryMemoryService {reason}", strict=True)
            request.node.add_marker(mark)
        yield Memory(InMemoryMemoryService(), app_name)
        return
    server = request.getfixturevalue("neo4j_server")
    embedder = HashEmbedder() if request.param == "neo4j" else False
    async with Neo4jMemoryService(embedder=embedder, settings=server.settings(label_prefix="TestHash")) as service:
        yield Memory(service, app_name)


IN_MEMORY, TEXT_TOO = (pytest.param(kind, marks=pytest.mark.slow) for kind in ("in_memory", "neo4j_text"))


@pytest.fixture(params=[IN_MEMORY, "neo4j", TEXT_TOO])
async def memory(request: pytest.FixtureRequest, app_name: str) -> AsyncIterator[Memory]:
    async with open_memory(request, app_name) as memory:
        yield memory


@pytest.fixture(params=[IN_MEMORY, "neo4j_text"])
async def by_words(request: pytest.FixtureRequest, app_name: str) -> AsyncIterator[Memory]:
    """A memory that finds nothing but by words: with vectors every memory is near to some degree."""
    async with open_memory(request, app_name) as memory:
        yield memory


def test_the_list_of_shortcomings_names_only_tests_that_exist() -> None:
    assert set(IN_MEMORY_FALLS_SHORT) <= set(globals())


# --- add_session_to_memory ----------------------------------------------------------------------------------


async def test_what_was_said_is_found_by_a_word_of_it(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_a_session_added_twice_is_stored_once(memory: Memory) -> None:
    session = await memory.add_session("I keep bees in the garden")
    await memory.service.add_session_to_memory(session)
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_a_growing_session_may_be_added_at_every_turn(memory: Memory) -> None:
    session = memory.session()
    for text in ("I keep bees in the garden", "The bees sleep in winter now", "My bees make dark honey"):
        session.events.append(said(text))
        await memory.service.add_session_to_memory(session)
    assert sorted(await memory.search("bees")) == [
        "I keep bees in the garden",
        "My bees make dark honey",
        "The bees sleep in winter now",
    ]


async def test_a_session_object_with_only_the_last_events_takes_nothing_away(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden", "The bees sleep in winter now")
    await memory.add_session("My bees make dark honey")
    assert len(await memory.search("bees")) == 3


async def test_a_session_without_events_is_no_error(memory: Memory) -> None:
    await memory.add_session()
    assert await memory.search("bees") == []


async def test_memories_of_several_sessions_are_found_together(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden", id="s1")
    await memory.add_session("The bees sleep in winter now", id="s2")
    assert len(await memory.search("bees")) == 2


async def test_changing_an_event_after_it_was_added_changes_nothing_stored(memory: Memory) -> None:
    session = await memory.add_session("I keep bees in the garden")
    session.events[0].content.parts[0].text = "I keep wasps"
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_twenty_adds_of_one_session_at_once_store_it_once(memory: Memory) -> None:
    session = memory.session("I keep bees in the garden", "The bees sleep in winter now")
    await asyncio.gather(*(memory.service.add_session_to_memory(session) for _ in range(20)))
    assert len(await memory.search("bees")) == 2


@pytest.mark.slow
async def test_ten_sessions_of_one_user_added_at_once_are_all_there(memory: Memory) -> None:
    sessions = [memory.session(f"I keep bees in garden number {n}", id=f"s{n}") for n in range(10)]
    await asyncio.gather(*(memory.service.add_session_to_memory(session) for session in sessions))
    texts = [text for n in range(10) for text in await memory.search(f"bees number {n}")]
    assert set(texts) == {f"I keep bees in garden number {n}" for n in range(10)}


# --- add_events_to_memory -----------------------------------------------------------------------------------


async def test_events_are_a_delta_to_what_is_there(memory: Memory) -> None:
    await memory.events(said("I keep bees in the garden"), session_id="s1")
    await memory.events(said("The bees sleep in winter now"), session_id="s1")
    assert len(await memory.search("bees")) == 2


async def test_an_event_is_known_by_its_id(memory: Memory) -> None:
    first, second = said("I keep bees in the garden"), said("The bees sleep in winter now")
    await memory.events(first, session_id="s1")
    await memory.events(first, second, session_id="s1")
    assert len(await memory.search("bees")) == 2


async def test_an_event_given_twice_in_one_call_is_stored_once(memory: Memory) -> None:
    event = said("I keep bees in the garden")
    await memory.events(event, event, session_id="s1")
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_events_of_a_session_that_was_added_whole_are_known(memory: Memory) -> None:
    session = await memory.add_session("I keep bees in the garden")
    await memory.events(*session.events, session_id=session.id)
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_events_need_no_session(memory: Memory) -> None:
    await memory.events(said("I keep bees in the garden"))
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_events_without_a_session_are_known_by_their_ids_as_well(memory: Memory) -> None:
    event = said("I keep bees in the garden")
    await memory.events(event)
    await memory.events(event, session_id=None)
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_no_events_are_no_error(memory: Memory) -> None:
    await memory.events(session_id="s1")
    assert await memory.search("bees") == []


async def test_metadata_comes_back_with_the_events(memory: Memory) -> None:
    await memory.events(said("Yes, bees", author="bot"), session_id="s1", custom_metadata={"source": "hive"})
    [memory_entry] = await memory.entries("bees")
    assert memory_entry.custom_metadata["source"] == "hive"


async def test_metadata_that_json_cannot_hold_loses_nothing_else(memory: Memory) -> None:
    odd = {"moment": datetime.fromtimestamp(NOON), "function": print, "set": {1}, "plain": "hive"}
    await memory.events(said("Yes, bees", author="bot"), session_id="s1", custom_metadata=odd)
    [memory_entry] = await memory.entries("bees")
    assert memory_entry.custom_metadata["plain"] == "hive"
    assert memory_entry.model_dump_json()


# --- what is remembered -------------------------------------------------------------------------------------


async def test_events_without_text_are_skipped(memory: Memory) -> None:
    picture = types.Part(inline_data=types.Blob(data=b"bees", mime_type="image/png"))
    await memory.add_session(said(None, picture), Event(author="user", invocation_id="inv"), said(""), said("  \n "))
    assert await memory.search("bees png image user") == []


async def test_an_event_of_nothing_but_state_is_skipped(memory: Memory) -> None:
    await memory.add_session(
        Event(author="user", invocation_id="inv", actions=EventActions(state_delta={"bees": "bees"}))
    )
    assert await memory.search("bees") == []


async def test_thoughts_are_not_remembered(memory: Memory) -> None:
    await memory.add_session(said(None, types.Part(text="The user may mean bees", thought=True), author="bot"))
    assert await memory.search("bees") == []


async def test_the_thought_of_a_mixed_event_is_not_returned(memory: Memory) -> None:
    thought = types.Part(text="wasps would be wrong", thought=True)
    await memory.add_session(said("You keep bees in the garden", thought, author="bot"))
    assert await memory.search("bees") == ["You keep bees in the garden"]


async def test_tool_traffic_is_skipped(memory: Memory) -> None:
    call, answer = tools()
    await memory.add_session(said(None, call, author="bot"), said(None, answer))
    assert await memory.search("Zanzibar") == []
    assert await memory.search("weather") == []


async def test_words_beside_a_tool_call_are_remembered(memory: Memory) -> None:
    call, _ = tools()
    await memory.add_session(said("Let me look after the bees", call, author="bot"))
    assert await memory.search("bees") == ["Let me look after the bees"]


async def test_what_agents_say_is_found_as_well(memory: Memory) -> None:
    await memory.add_session(said("Your bees sleep in winter", author="beekeeper"))
    [memory_entry] = await memory.entries("bees")
    assert (memory_entry.author, words(memory_entry)) == ("beekeeper", "Your bees sleep in winter")


async def test_text_of_several_parts_is_one_memory(memory: Memory) -> None:
    await memory.add_session(said("I keep bees", types.Part(text="and two geese"), author="bot"))
    [memory_entry] = await memory.entries("geese")
    assert "bees" in words(memory_entry)


async def test_a_summary_that_compaction_wrote_is_not_remembered(memory: Memory) -> None:
    content = types.Content(role="model", parts=[types.Part(text="They spoke of bees")])
    compaction = EventCompaction(start_timestamp=1.0, end_timestamp=2.0, compacted_content=content)
    await memory.add_session(said("They spoke of bees", author="bot", actions=EventActions(compaction=compaction)))
    assert await memory.search("bees") == []


async def test_system_text_is_not_remembered(memory: Memory) -> None:
    await memory.add_session(said("You are a helper who loves bees", author="system"))
    assert await memory.search("bees") == []


async def test_an_error_is_not_remembered(memory: Memory) -> None:
    await memory.add_session(said("The bees could not be reached", author="bot", error_code="MALFORMED_FUNCTION_CALL"))
    assert await memory.search("bees") == []


async def test_a_partial_event_is_not_remembered(memory: Memory) -> None:
    await memory.add_session(said("I keep be", author="bot", partial=True))
    assert await memory.search("keep") == []


# --- search_memory ------------------------------------------------------------------------------------------


async def test_nothing_is_found_where_nothing_was_said(memory: Memory) -> None:
    assert await memory.search("bees") == []


async def test_a_word_nobody_said_finds_nothing(by_words: Memory) -> None:
    await by_words.add_session("I keep bees in the garden")
    assert await by_words.search("submarine") == []


async def test_any_word_of_the_question_is_enough(by_words: Memory) -> None:
    await by_words.add_session("The submarine is yellow these days", "I keep bees in the garden")
    assert await by_words.search("unheard bees nonsense") == ["I keep bees in the garden"]


async def test_part_of_a_word_is_not_enough(by_words: Memory) -> None:
    await by_words.add_session("I keep bumblebees in the garden")
    assert await by_words.search("bumble") == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("I keep bees in the garden", "BEES"),
        ("I KEEP BEES IN THE GARDEN", "bees"),
        ("Пчёлы живут в моём саду", "ПЧЁЛЫ"),
        ("ΟΙ ΜΕΛΙΣΣΕΣ ΜΟΥ ΕΊΝΑΙ ΚΑΛΆ", "είναι"),
        ("My friend Łukasz binds old books", "łukasz"),
    ],
)
async def test_case_does_not_matter(by_words: Memory, text: str, query: str) -> None:
    await by_words.add_session(text)
    assert await by_words.search(query) == [text]


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
async def test_accents_may_be_composed_or_not(by_words: Memory, stored: str, asked: str) -> None:
    await by_words.add_session(unicodedata.normalize(stored, "We meet in the café Zoë"))
    assert len(await by_words.search(unicodedata.normalize(asked, "Zoë"))) == 1


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("私はPythonを使っています", "Python"),
        ("私はPythonを使っています", "python"),
        ("昨日はZoëと会いました", "Zoë"),
        ("Ich mag Bubbleтea sehr gern", "Bubble"),
    ],
)
async def test_a_mixed_script_token_is_found_by_its_latin_part(by_words: Memory, text: str, query: str) -> None:
    await by_words.add_session(said(text))
    [found] = await by_words.search(query)
    assert found.startswith(text)  # behind it may stand when that was


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("मैं हिन्दी में बात करता हूँ", "हिन्दी"),
        ("என் வீட்டில் தேனீக்கள் உள்ளன", "தேனீக்கள்"),
        ("أنا أربي النَّحْل في الحديقة", "النَّحْل"),
        ("אני מגדל דבורים בגינה שלי", "דבורים"),
        ("저는 정원에서 꿀벌을 키워요", "꿀벌을"),
        ("我在花园里养蜜蜂", "蜜蜂"),
        ("Ես այգում մեղուներ եմ պահում", "մեղուներ"),
        ("من زنبور نگه می\u200cدارم", "می\u200cدارم"),
    ],
    ids=["hindi", "tamil", "vowelled_arabic", "hebrew", "korean", "chinese", "armenian", "persian"],
)
async def test_a_word_of_any_script_is_found(by_words: Memory, text: str, query: str) -> None:
    await by_words.add_session(text)
    assert await by_words.search(query) == [text]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The operation cost 1,240 euros", "1,240"),
        ("We swam 3.5 kilometres today", "3.5"),
        ("Mr O'Brien looks after them", "O'Brien"),
        ("Mr O'Brien looks after them", "Brien"),
        ("Write to ada@bees.example.org instead", "bees.example.org"),
        ("Write to ada@bees.example.org instead", "example"),
        ("My number is +49 30 23125-142", "23125 142"),
        ("The well-known café/bar downstairs", "bar"),
        ("We meet at 18:30 at the pool", "18:30"),
        ("It is stored in old_hive.txt now", "old_hive.txt"),
        ("L’apiculture est mon métier", "apiculture"),
    ],
)
async def test_a_word_with_marks_inside_is_found_whole_and_by_its_parts(
    by_words: Memory, text: str, query: str
) -> None:
    await by_words.add_session(text)
    assert await by_words.search(query) == [text]


@pytest.mark.parametrize(
    "query", ["", " ", "\n\t ", "?", "...", "?!", ":)", "*", '"', "\\", "()", "{}[]", "-", "+ - ! ^ ~", "…", "。", "_"]
)
async def test_an_empty_or_punctuation_only_query_finds_nothing(memory: Memory, query: str) -> None:
    await memory.add_session("I keep bees in the garden: really (yes)?")
    assert await memory.search(query) == []


SYNTAX = [
    "bees AND (",
    "+scope:x bees",
    'bees") OR (scope:"x',
    "bees*",
    "bees\x00",
]
MORE_SYNTAX = [
    "bees OR",
    "NOT bees",
    "-bees",
    "bees:",
    "text:bees",
    "/bees/",
    "bees!",
    "bees?",
    "10/12 bees",
    "https://bees.example.org/a?b=c&d=%20#bees",
    "bees :)",
    "either/or bees",
    'bees "',
    '"bees',
    "bees\\",
    "\\bees",
    "bees~",
    "bees^",
    "bees^99999999999",
    "[bees TO",
    "{bees}",
    "bees && ||",
    "bees' OR 1=1 //",
    "$scope bees",
    "`bees`",
    "<b>bees</b>",
    "#bees @bees",
    "bees\u200b!",
    "bees 😀👩‍👩‍👧",
]
"""The same for a longer run; that no operator comes through is a property that `tests/unit/test_lucene.py` checks."""


@pytest.mark.parametrize("query", [*SYNTAX, *(pytest.param(query, marks=pytest.mark.full) for query in MORE_SYNTAX)])
async def test_query_syntax_is_inert(memory: Memory, query: str) -> None:
    await memory.add_session("I keep bees in the garden")
    assert await memory.search(query) == ["I keep bees in the garden"]


@pytest.mark.parametrize(
    "query", ["b*", "b?es", "/be.s/", "beas~2", "*:*", "text:*", "scope:*", "[a TO z]", "be\\es", "keep^0.0001wasp"]
)
async def test_wildcards_and_ranges_match_nothing_by_themselves(by_words: Memory, query: str) -> None:
    await by_words.add_session("We look after insects outdoors", "bees bets")
    assert await by_words.search(query) == []


@pytest.mark.parametrize("query", ["to", "Is it?", "who was that"])
async def test_little_words_that_nobody_said_do_not_find_everything(by_words: Memory, query: str) -> None:
    await by_words.add_session("We look after insects outdoors")
    assert await by_words.search(query) == []


@pytest.mark.parametrize("count", [129, 1_025, 3_000])
async def test_thousands_of_words_are_a_question_too(memory: Memory, count: int) -> None:
    await memory.add_session("I keep extraordinarilylongnamed bees in the garden")
    query = " ".join(f"w{n}" for n in range(count - 1)) + " extraordinarilylongnamed"
    assert await memory.search(query) == ["I keep extraordinarilylongnamed bees in the garden"]


async def test_a_word_repeated_three_thousand_times_is_a_question_too(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    assert await memory.search("bees " * 3_000) == ["I keep bees in the garden"]


async def test_a_single_token_of_200_kb_is_no_error(by_words: Memory) -> None:
    await by_words.add_session("I keep bees in the garden")
    assert await by_words.search("x" * 200_000) == []
    assert await by_words.search("x" * 200_000 + " bees") == ["I keep bees in the garden"]


async def test_a_memory_that_is_a_single_token_of_200_kb_can_be_stored(memory: Memory) -> None:
    await memory.add_session("x" * 200_000, "I keep bees in the garden")
    assert "I keep bees in the garden" in await memory.search("bees")


async def test_an_entry_is_small_even_where_the_event_is_huge(memory: Memory) -> None:
    await memory.add_session(
        said("Nothing of interest happened here. " * 2_000 + "Only the bees were out.", author="bot")
    )
    [text] = await memory.search("bees")
    assert len(text) < 20_000
    assert "bees" in text


async def test_what_shares_most_words_with_the_question_comes_first(memory: Memory) -> None:
    # Words that no other test uses: Lucene counts over all users how rare a word is.
    await memory.add_session(
        "The lighthouse is large these days", "I keep otters in the lighthouse", "Old honey was sold today"
    )
    assert (await memory.search("otters lighthouse"))[0] == "I keep otters in the lighthouse"


@pytest.mark.slow
async def test_what_comes_back_is_bounded_however_much_fits(memory: Memory) -> None:
    await memory.add_session(*(f"I keep bees in garden number {n} of many" for n in range(150)))
    assert 1 <= len(await memory.search("bees")) <= 50


async def test_the_same_question_gives_the_same_answer(memory: Memory) -> None:
    await memory.add_session(*(f"I keep bees in garden number {n}" for n in range(15)))
    # Scores move a little with what other tests write meanwhile: Lucene counts words over all users.
    first, again = await memory.entries("bees"), await memory.entries("bees")
    assert [entry.content for entry in first] == [entry.content for entry in again]


async def test_an_entry_names_its_author(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    assert memory_entry.author == "user"


async def test_an_entry_has_an_id(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    assert memory_entry.id


async def test_an_entry_is_json(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    assert MemoryEntry.model_validate_json(memory_entry.model_dump_json()) == memory_entry


async def test_a_timestamp_is_iso_8601_with_an_offset(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    assert datetime.fromisoformat(memory_entry.timestamp or "").utcoffset() == timedelta(0)


async def test_a_timestamp_is_when_it_was_said(memory: Memory) -> None:
    await memory.add_session(said("I keep bees in the garden", timestamp=86_400.0), said("Fine, bees", author="bot"))
    timestamps = {words(entry): entry.timestamp for entry in await memory.entries("bees garden")}
    assert timestamps["I keep bees in the garden"] == "1970-01-02T00:00:00+00:00"


# --- isolation ----------------------------------------------------------------------------------------------


async def test_another_user_finds_nothing_of_mine(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    assert await memory.search("bees", user="bob") == []


async def test_another_app_finds_nothing_of_mine(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    assert await memory.search("bees", app=f"{memory.app}-2") == []


async def test_app_and_user_do_not_run_together(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden", app=f"{memory.app}-a", user="bc")
    assert await memory.search("bees", app=f"{memory.app}-ab", user="c") == []
    assert await memory.search("bees", app=memory.app, user="abc") == []


async def test_two_users_may_have_sessions_and_events_of_the_same_ids(memory: Memory) -> None:
    event = said("I keep bees in the garden")
    await memory.add_session(event, user="ada")
    await memory.add_session(event, user="bob")
    assert len(await memory.search("bees", user="ada")) == len(await memory.search("bees", user="bob")) == 1


@pytest.mark.parametrize(
    "user",
    [
        "ada@example.org",
        "a/b\\c",
        "' OR 1=1 //",
        "🐝",
        "",
        " ada ",
        "*",
        "u" * 3_000,
        "ADA",
        "a\u0301da",
        "ada\x00",
        "scope",
    ],
)
async def test_a_user_id_may_be_any_text_and_is_nobody_elses(memory: Memory, user: str) -> None:
    await memory.add_session("I keep bees in the garden", user=user)
    assert await memory.search("bees", user=user) == ["I keep bees in the garden"]
    assert await memory.search("bees", user=USER) == []


async def test_a_query_cannot_reach_another_users_memories(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden", user="bob")
    for query in ("bob bees", 'scope:bob bees"', "bees) OR (user_id:bob", "*:* bees"):
        assert await memory.search(query) == []


# --- delete_memory ------------------------------------------------------------------------------------------


async def test_a_deleted_memory_is_not_returned_again(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    await memory.delete(memory_entry.id)
    assert memory_entry.id not in [entry.id for entry in await memory.entries("bees")]


async def test_when_all_is_deleted_nothing_is_found(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden", "The bees sleep in winter now")
    await memory.delete_all("bees")
    assert await memory.search("bees garden winter") == []


async def test_deleting_one_memory_leaves_the_others(memory: Memory) -> None:
    await memory.add_session(said("You keep bees", author="bot"), said("You keep geese", author="bot"))
    [bees] = [entry for entry in await memory.entries("bees geese") if "bees" in words(entry)]
    await memory.delete(bees.id)
    assert await memory.search("bees geese") == ["You keep geese"]


async def test_re_adding_the_session_does_not_bring_a_deleted_memory_back(memory: Memory) -> None:
    session = await memory.add_session("I keep bees in the garden")
    await memory.delete_all("bees")
    await memory.service.add_session_to_memory(session)
    await memory.events(*session.events, session_id=session.id)
    assert await memory.search("bees") == []


async def test_what_is_said_after_a_deletion_is_remembered(memory: Memory) -> None:
    session = await memory.add_session("I keep bees in the garden")
    await memory.delete_all("bees")
    session.events.append(said("The bees are mine after all"))
    await memory.service.add_session_to_memory(session)
    assert await memory.search("bees") == ["The bees are mine after all"]


@pytest.mark.parametrize("id", [None, "", "unknown", "event:unknown", "fact:unknown", "*", "'", "x" * 10_000])
async def test_deleting_an_unknown_memory_is_no_error_and_deletes_nothing(memory: Memory, id: str | None) -> None:
    await memory.add_session("I keep bees in the garden")
    await memory.delete(id)
    assert await memory.search("bees") == ["I keep bees in the garden"]


async def test_deleting_twice_is_no_error(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    await memory.delete(memory_entry.id)
    await memory.delete(memory_entry.id)


async def test_another_users_memory_cannot_be_deleted(memory: Memory) -> None:
    await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    await memory.delete(memory_entry.id, user="bob")
    await memory.delete(memory_entry.id, app=f"{memory.app}-2")
    assert [entry.id for entry in await memory.entries("bees")] == [memory_entry.id]


async def test_deleting_mine_leaves_the_same_memory_of_another_user(memory: Memory) -> None:
    event = said("I keep bees in the garden")
    await memory.add_session(event, user="bob")
    await memory.add_session(event)
    await memory.delete_all("bees")
    assert await memory.search("bees", user="bob") == ["I keep bees in the garden"]


async def test_deleting_while_the_session_is_added_is_no_error(memory: Memory) -> None:
    session = await memory.add_session("I keep bees in the garden")
    [memory_entry] = await memory.entries("bees")
    await asyncio.gather(
        *(memory.service.add_session_to_memory(session) for _ in range(5)),
        *(memory.delete(memory_entry.id) for _ in range(5)),
    )
    assert memory_entry.id not in [entry.id for entry in await memory.entries("bees")]


# --- add_memory ---------------------------------------------------------------------------------------------


async def test_an_entry_that_was_added_directly_is_found(memory: Memory) -> None:
    await memory.direct(entry("Ada is allergic to bees"))
    assert await memory.search("allergic") == ["Ada is allergic to bees"]


async def test_an_entry_that_was_added_directly_keeps_author_and_time(memory: Memory) -> None:
    await memory.direct(entry("Ada is allergic to bees", author="nurse", timestamp="2026-05-04T03:02:01+02:00"))
    [memory_entry] = await memory.entries("bees")
    assert memory_entry.author == "nurse"
    assert datetime.fromisoformat(memory_entry.timestamp or "") == datetime.fromisoformat("2026-05-04T03:02:01+02:00")


async def test_an_entry_without_a_time_has_one_when_it_comes_back(memory: Memory) -> None:
    await memory.direct(entry("Ada is allergic to bees"))
    [memory_entry] = await memory.entries("bees")
    assert datetime.fromisoformat(memory_entry.timestamp or "").tzinfo


async def test_an_entry_added_twice_is_found_once(memory: Memory) -> None:
    for _ in range(2):
        await memory.direct(entry("Ada is allergic to bees"), entry("Ada is allergic to bees"))
    assert await memory.search("bees") == ["Ada is allergic to bees"]


async def test_an_entry_without_words_is_passed_over(memory: Memory) -> None:
    await memory.direct(MemoryEntry(content=types.Content(role="user", parts=[])), entry(" "), entry("About bees"))
    assert await memory.search("bees") == ["About bees"]


async def test_an_entry_belongs_to_its_user_alone(memory: Memory) -> None:
    await memory.direct(entry("Ada is allergic to bees"))
    assert await memory.search("bees", user="bob") == []


async def test_an_entry_that_was_added_directly_can_be_deleted(memory: Memory) -> None:
    await memory.direct(entry("Ada is allergic to bees"))
    [memory_entry] = await memory.entries("bees")
    await memory.delete(memory_entry.id)
    assert await memory.search("bees") == []


async def test_metadata_of_an_entry_and_of_the_call_are_merged_and_the_call_wins(memory: Memory) -> None:
    given = entry("Ada is allergic to bees", custom_metadata={"source": "entry", "kept": 1})
    await memory.direct(given, custom_metadata={"source": "call", "added": [2]})
    [memory_entry] = await memory.entries("bees")
    stored = {key: memory_entry.custom_metadata[key] for key in ("source", "kept", "added")}
    assert stored == {"source": "call", "kept": 1, "added": [2]}
