"""Whose word it is: every turn and fact tells, a search can ask for it, and in a group nobody ends another's facts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adk_graph_memory import Filters, GraphMemory, Statement, Turn, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ANA = {"ref": 1, "name": "ana", "type": "person"}
PORTO, FARO = ({"ref": ref, "name": name, "type": "place"} for ref, name in ((2, "Porto"), (3, "Faro")))
Owner = dict[str, str]


def make_reply(*facts: dict[str, Any]) -> str:
    common = {"subject": 1, "predicate": "lives_in", "object": 2, "turns": [0]}
    return json.dumps({"entities": [ANA, PORTO, FARO], "facts": [{**common, **fact} for fact in facts]})


def make_memory(neo4j_server: Any, *replies: str) -> GraphMemory:
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    return GraphMemory(settings=settings, model=ScriptedLlm.from_replies(*replies), embedder=HashEmbedder())


async def list_origins(memory: GraphMemory, owner: Owner) -> dict[str, str | None]:
    return {fact.text: fact.origin async for fact in memory.facts(**owner, past=True)}


async def check_derived(memory: GraphMemory, owner: Owner) -> None:
    """The graph holds what the readings make of it."""
    assert [one.differences async for one in memory.check_memories(**owner)] == [0]


@pytest.fixture
async def memory(neo4j_server: Any, owner: Owner) -> AsyncIterator[GraphMemory]:
    """A memory of an agent's words, a tool's, and a statement of the user about the same."""
    reply = make_reply(
        {"text": "Ana lives in Porto", "quote": "you live in Porto"},
        {"text": "Ana lives in Faro", "quote": "home: Faro", "object": 3, "turns": [1]},
    )
    turns = [
        Turn("t0", "companion", "So you live in Porto", NOON, "model"),
        Turn("t1", "companion", "home: Faro", NOON, "model", origin="tool"),
    ]
    async with make_memory(neo4j_server, reply, make_reply()) as memory:
        await memory.remember(turns, session_id="s1", **owner)
        await memory.user(**owner).add_statements([Statement("Ana sails.", NOON), Statement("Ana rows.", NOON, "user")])
        yield memory


@pytest.mark.slow
async def test_each_memory_tells_whose_word_it_is(memory: GraphMemory, owner: Owner) -> None:
    assert await list_origins(memory, owner) == {
        "Ana lives in Porto": "agent",
        "Ana lives in Faro": "tool",
        "Ana sails.": "import",
        "Ana rows.": "user",
    }
    found = await memory.recall("Where does Ana live?", **owner)
    assert {one.origin for one in found if "Faro" in one.text} == {"tool"}
    assert memory_codec.make_memory_entry(found[0]).custom_metadata["origin"] == found[0].origin
    id = next(fact.id for fact in [fact async for fact in memory.facts(**owner)] if "Porto" in fact.text)
    history = await memory.user(**owner).history(id)
    assert (history.fact.origin, history.entries[0].origin) == ("agent", "agent")
    assert [(source.author, source.origin) for source in history.fact.sources] == [("companion", "agent")]
    await check_derived(memory, owner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origins", "expected"),
    [(("user",), {"user"}), (("tool", "import"), {"tool", "import"}), ((), {"user", "agent", "tool", "import"})],
)
async def test_a_search_may_ask_for_origins(
    memory: GraphMemory, owner: Owner, origins: tuple[Any, ...], expected: set[str]
) -> None:
    found = await memory.recall("Where does Ana live, and what does Ana do?", filters=Filters(origins=origins), **owner)
    assert {one.origin for one in found} == expected


@pytest.mark.slow
async def test_the_limits_of_a_search_count_only_what_was_asked_for(neo4j_server: Any, owner: Owner) -> None:
    turns = [Turn(f"t{n}", "companion", f"Porto is lovely, {n}", NOON, "model") for n in range(150)]
    turns.append(Turn("mine", "user", "Is Porto lovely in the rain at all", NOON))
    async with GraphMemory(
        settings=neo4j_server.settings(label_prefix="TestHash"), embedder=HashEmbedder(), model="rules"
    ) as memory:
        await memory.remember(turns, session_id="s1", **owner)
        found = await memory.recall("Porto is lovely", filters=Filters(origins=("user",)), limit=3, **owner)
        assert "Is Porto lovely in the rain at all" in {one.text for one in found}
        assert {one.origin for one in found} == {"user"}


@pytest.mark.slow
async def test_a_fact_is_the_word_of_the_strongest_who_says_it(
    memory: GraphMemory, owner: Owner, neo4j_server: Any
) -> None:
    reply = make_reply({"text": "Ana lives in Porto", "quote": "I live in Porto"})
    async with make_memory(neo4j_server, reply, make_reply()) as later:
        turn = Turn("t2", "ana", "I live in Porto", NOON + timedelta(hours=1))
        await later.remember([turn], session_id="s2", **owner)
        assert (await list_origins(later, owner))["Ana lives in Porto"] == "user"
        await check_derived(later, owner)
        await later.forget([turn.make_memory_id("s2")], **owner)
        assert (await list_origins(later, owner))["Ana lives in Porto"] == "agent"
        await check_derived(later, owner)


@pytest.mark.slow
async def test_an_edit_takes_the_origin_of_a_fact_along(memory: GraphMemory, owner: Owner, neo4j_server: Any) -> None:
    said = make_reply({"text": "Ana lives in Porto", "quote": "I live in Porto"})
    async with make_memory(neo4j_server, said, make_reply(), make_reply()) as later:
        await later.remember([Turn("t2", "ana", "I live in Porto", NOON)], session_id="s2", **owner)
        await later.remember([Turn("t2", "ana", "Never mind", NOON)], session_id="s2", **owner)
        assert (await list_origins(later, owner))["Ana lives in Porto"] == "agent"
        await check_derived(later, owner)


async def test_the_owner_s_word_is_the_owner_s(memory: GraphMemory, owner: Owner) -> None:
    id = next(fact.id for fact in [fact async for fact in memory.facts(**owner)] if "Porto" in fact.text)
    await memory.user(**owner).correct(id, text="Ana lives in Vigo")
    assert (await list_origins(memory, owner))["Ana lives in Vigo"] == "owner"
    found = await memory.recall("Where does Ana live?", filters=Filters(origins=("owner",)), **owner)
    assert {one.text for one in found} == {"Ana lives in Vigo"}
    await check_derived(memory, owner)


MOVED = json.dumps(
    {"ops": [{"fact": 0, "op": "SUPERSEDE", "targets": [1], "quotes": ["in Faro", "live in Porto"], "reason": "moved"}]}
)


@pytest.mark.parametrize(("author", "state"), [("ana", "superseded"), ("ben", "current")])
async def test_in_a_group_nobody_ends_what_another_stated(
    neo4j_server: Any, owner: Owner, author: str, state: str
) -> None:
    replies = (
        make_reply({"text": "Ana lives in Porto", "quote": "I live in Porto"}),
        make_reply({"text": "Ana lives in Faro", "quote": "lives in Faro", "object": 3}),
        MOVED,
    )
    async with make_memory(neo4j_server, *replies) as memory:
        await memory.remember([Turn("t0", "ana", "I live in Porto", NOON)], session_id="s1", **owner)
        later = Turn("t1", author, "Ana lives in Faro now", NOON + timedelta(days=9))
        await memory.remember([later], session_id="s2", **owner)
        facts = {fact.text: fact.state async for fact in memory.facts(**owner, past=True)}
        assert facts == {"Ana lives in Porto": state, "Ana lives in Faro": "current"}
        await check_derived(memory, owner)


@pytest.mark.slow
async def test_pending_turns_keep_their_origin(neo4j_server: Any, owner: Owner) -> None:
    async with GraphMemory(
        settings=neo4j_server.settings(label_prefix="TestHash"), embedder=HashEmbedder(), model="rules"
    ) as memory:
        await memory.user(**owner).enqueue(
            [Turn("t0", "mail", "Rex is afraid of thunder.", NOON, origin="import")], session_id="s"
        )
        await memory.resume(**owner)
        assert await list_origins(memory, owner) == {"Rex is afraid of thunder.": "import"}


PART = types.Part(text="Rex is afraid of thunder")
RESPONSE = types.Part(function_response=types.FunctionResponse(name="look", response={}))


@pytest.mark.parametrize(
    ("author", "role", "parts", "origin"),
    [
        ("user", "user", [PART], "user"),
        ("user", None, [PART], "user"),
        ("companion", "model", [PART], "agent"),
        ("companion", "user", [PART], "user"),
        ("companion", "user", [PART, RESPONSE], "tool"),
        ("user", "user", [PART, RESPONSE], "tool"),
    ],
)
def test_adk_s_events_tell_whose_word_they_are(
    author: str, role: str | None, parts: list[types.Part], origin: str
) -> None:
    event = Event(
        author=author, invocation_id="i", content=types.Content(role=role, parts=parts), id="e", timestamp=1.0
    )
    [turn] = memory_codec.make_turns([event])
    assert (turn.origin, turn.role) == (origin, "user" if origin == "user" else "model")


@pytest.mark.parametrize(
    ("author", "role", "origin"),
    [
        ("user", None, "user"),
        (None, "user", "user"),
        (None, None, "import"),
        ("crm", "user", "import"),
        ("companion", "model", "agent"),
    ],
)
def test_adk_s_entries_tell_whose_word_they_are(author: str | None, role: str | None, origin: str) -> None:
    entry = MemoryEntry(content=types.Content(role=role, parts=[PART]), author=author)
    [(statement, _)] = memory_codec.make_statements([entry], None)
    assert statement.origin == origin


def test_there_are_no_other_origins() -> None:
    with pytest.raises(errors.InvalidArgument, match="none of owner"):
        Turn("t", "user", "Hi", NOON, origin="friend")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="a tuple"):
        Filters(origins="user")  # type: ignore[arg-type]
