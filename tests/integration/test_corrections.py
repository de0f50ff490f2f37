"""The owner's word: what it changes, that it outranks what was extracted, and that it can be taken back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adk_graph_memory import GraphMemory, Neo4jSessionService, Statement, Turn, errors
from adk_graph_memory.graph import ingest_queue, snapshots
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.memory import owner as memory_owner
from adk_graph_memory.memory.jobs import batches
from adk_graph_memory.memory.rewriting import FREE_REWRITES
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.history import MemoryChange
from adk_graph_memory.records.memory import MemorySnapshot
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = {"ref": 1, "name": "user", "type": "person"}
PORTO = {"ref": 2, "name": "Porto", "type": "place"}
FARO = {"ref": 3, "name": "Faro", "type": "place"}
Owner = dict[str, str]


def say(text: str, day: int) -> Turn:
    return Turn(f"t{day}", "user", text, NOON + timedelta(days=day))


def make_reply(text: str, quote: str, *entities: dict[str, Any], **fields: Any) -> str:
    fact = {"subject": 1, "predicate": "lives_in", "object": None, "text": text, "quote": quote, "turns": [0], **fields}
    return json.dumps({"entities": [USER, *entities], "facts": [fact]})


def make_memory(neo4j_server: Any, *replies: str) -> GraphMemory:
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    return GraphMemory(settings=settings, model=ScriptedLlm.from_replies(*replies), embedder=HashEmbedder())


def move(old: str, new: str) -> str:
    op = {"fact": 0, "op": "SUPERSEDE", "targets": [1], "quotes": [new, old], "reason": "moved"}
    return json.dumps({"ops": [op]})


async def find_id(memory: GraphMemory, owner: Owner, text: str) -> str:
    [id] = [fact.id async for fact in memory.facts(**owner, past=True) if text in fact.text]
    return id


async def list_facts(memory: GraphMemory, owner: Owner, *, past: bool = True) -> dict[str, str]:
    return {fact.text: fact.state async for fact in memory.facts(**owner, past=past)}


async def check_derived(memory: GraphMemory, owner: Owner) -> None:
    """The graph holds what the readings, the owner's among them, make of it."""
    assert [one.differences async for one in memory.check_memories(**owner)] == [0]


@pytest.fixture
async def memory(neo4j_server: Any, owner: Owner) -> AsyncIterator[GraphMemory]:
    """A memory that says of the user that they live in Porto, by mistake for Faro."""
    replies = (
        json.dumps({"entities": [USER, FARO], "facts": []}),
        make_reply("The user lives in Porto", "I live in Porto", PORTO, object=2),
    )
    async with make_memory(neo4j_server, *replies) as memory:
        await memory.remember([say("Faro is lovely", 0)], session_id="s0", **owner)
        await memory.remember([say("I live in Porto", 1)], session_id="s1", **owner)
        yield memory


@pytest.mark.slow
async def test_a_correction_stands_in_place_of_the_fact(memory: GraphMemory, owner: Owner) -> None:
    id = await find_id(memory, owner, "Porto")
    change = await memory.user(**owner).correct(id, text="The user lives in Faro", reason="misheard")
    assert {fact.before and fact.before.text: fact.after and fact.after.state for fact in change.facts} == {
        None: "current",
        "The user lives in Porto": "retracted",
    }
    [faro] = [fact async for fact in memory.facts(**owner)]
    assert (faro.text, faro.subject, faro.predicate, faro.object) == (
        "The user lives in Faro",
        "user",
        "lives_in",
        "Faro",
    )
    assert (faro.sources[0].quote, faro.sources[0].session_id) == ("The user lives in Faro", ":owner:")
    entries = (await memory.user(**owner).history(id)).entries
    assert [(entry.kind, entry.by, entry.reason) for entry in entries][-1] == ("retracted", "owner", "misheard")
    [found, *_] = await memory.recall("Where does the user live?", **owner)
    assert found.text == "The user lives in Faro"
    await check_derived(memory, owner)


@pytest.mark.slow
async def test_a_preview_changes_nothing(memory: GraphMemory, owner: Owner) -> None:
    id = await find_id(memory, owner, "Porto")
    change = await memory.user(**owner).correct(id, text="The user lives in Faro", preview=True)
    assert len(change.facts) == 2
    assert await list_facts(memory, owner) == {"The user lives in Porto": "current"}
    with pytest.raises(errors.NotFound):
        await memory.user(**owner).undo(change.ingest_id)


@pytest.mark.slow
async def test_a_correction_can_be_taken_back(memory: GraphMemory, owner: Owner) -> None:
    change = await memory.user(**owner).correct(await find_id(memory, owner, "Porto"), text="The user lives in Faro")
    await memory.user(**owner).undo(change.ingest_id)
    assert await list_facts(memory, owner) == {"The user lives in Porto": "current"}
    await check_derived(memory, owner)


@pytest.mark.slow
async def test_dates_can_be_corrected_alone(memory: GraphMemory, owner: Owner) -> None:
    id = await find_id(memory, owner, "Porto")
    await memory.user(**owner).correct(id, valid_from=datetime(2024, 5, 1, tzinfo=UTC))
    [fact] = [fact async for fact in memory.facts(**owner)]
    assert (fact.text, fact.valid_from) == ("The user lives in Porto", datetime(2024, 5, 1, tzinfo=UTC))
    await memory.user(**owner).correct(fact.id, valid_from=None)
    [fact] = [fact async for fact in memory.facts(**owner)]
    assert fact.valid_from is None
    await check_derived(memory, owner)


@pytest.mark.parametrize("hours", [(-1, -2, -3), (1, -1, -100)], ids=["behind", "set back"])
async def test_the_owners_word_comes_after_what_it_is_about_whatever_the_clocks_say(
    neo4j_server: Any, owner: Owner, monkeypatch: pytest.MonkeyPatch, hours: tuple[int, ...]
) -> None:
    ahead = datetime.now(UTC) + timedelta(seconds=20)
    reply = make_reply("The user lives in Porto", "I live in Porto", PORTO, object=2)
    async with make_memory(neo4j_server, reply) as memory:
        await memory.remember([Turn("t", "user", "I live in Porto", ahead)], session_id="s", **owner)
        text = "The user lives in Porto"
        for number, offset in enumerate(hours):
            now = datetime.now(UTC) + timedelta(hours=offset)
            monkeypatch.setattr(memory_owner, "datetime", type("Clock", (), {"now": lambda zone, now=now: now}))
            id = await find_id(memory, owner, text)
            await memory.user(**owner).correct(id, text=(text := f"The user lives in Faro, at number {number}"))
            assert await list_facts(memory, owner, past=False) == {text: "current"}
        await memory.user(**owner).pin(id := await find_id(memory, owner, text))
        await memory.user(**owner).unpin(id)
        await memory.user(**owner).retract(id)
        assert await list_facts(memory, owner, past=False) == {}
        await check_derived(memory, owner)


async def test_a_correction_is_recorded_when_it_is_made_whatever_it_is_about(neo4j_server: Any, owner: Owner) -> None:
    """Words from a clock that is years ahead do not put off what memory knows."""
    ahead = datetime.now(UTC) + timedelta(days=3_000)
    reply = make_reply("The user lives in Porto", "I live in Porto", PORTO, object=2)
    async with make_memory(neo4j_server, reply) as memory:
        await memory.remember([Turn("t", "user", "I live in Porto", ahead)], session_id="s", **owner)
        before, id = datetime.now(UTC), await find_id(memory, owner, "Porto")
        await memory.user(**owner).correct(id, text="The user lives in Faro")
        known = [
            [fact.text async for fact in memory.facts(**owner, as_of=AsOf(ahead + timedelta(days=1), moment))]
            for moment in (before, datetime.now(UTC))
        ]
        assert known == [["The user lives in Porto"], ["The user lives in Faro"]]


@pytest.mark.slow
async def test_what_was_retracted_comes_back_only_by_new_words(
    memory: GraphMemory, owner: Owner, neo4j_server: Any
) -> None:
    id = await find_id(memory, owner, "Porto")
    await memory.user(**owner).retract(id, reason="that was my sister")
    assert await list_facts(memory, owner) == {"The user lives in Porto": "retracted"}
    reply = make_reply("The user lives in Porto", "I live in Porto", PORTO, object=2)
    async with make_memory(neo4j_server, reply, reply) as later:
        await later.remember([say("Did I say? I live in Porto", 2)], session_id="s2", **owner)
        assert await list_facts(later, owner, past=False) == {}
        new = Turn("new", "user", "I live in Porto", datetime.now(UTC) + timedelta(seconds=1))
        await later.remember([new], session_id="s3", **owner)
        assert await list_facts(later, owner, past=False) == {"The user lives in Porto": "current"}
        await check_derived(later, owner)


@pytest.mark.slow
async def test_nothing_that_is_said_ends_a_pinned_fact(memory: GraphMemory, owner: Owner, neo4j_server: Any) -> None:
    id = await find_id(memory, owner, "Porto")
    change = await memory.user(**owner).pin(id)
    assert [(fact.after and fact.after.is_pinned) for fact in change.facts] == [True]
    reply = make_reply("The user lives in Faro", "I live in Faro", FARO, object=3)
    async with make_memory(neo4j_server, reply, move("I live in Porto", "I live in Faro")) as later:
        await later.remember([say("I live in Faro", 5)], session_id="s5", **owner)
        assert await list_facts(later, owner) == {
            "The user lives in Porto": "current",
            "The user lives in Faro": "current",
        }
        await check_derived(later, owner)
        await later.user(**owner).unpin(id)
        assert (await list_facts(later, owner))["The user lives in Porto"] == "superseded"
        await later.user(**owner).pin(id)
        assert (await list_facts(later, owner))["The user lives in Porto"] == "current"
        await later.user(**owner).correct(id, text="The user lives in Lagos")
        assert (await list_facts(later, owner))["The user lives in Porto"] == "retracted"
        await check_derived(later, owner)
        kinds = [entry.kind for entry in (await later.user(**owner).history(id)).entries]
        assert [kind for kind in kinds if "pinned" in kind] == ["pinned", "unpinned", "pinned"]


async def test_a_rollback_returns_to_a_revision(memory: GraphMemory, owner: Owner, neo4j_server: Any) -> None:
    id = await find_id(memory, owner, "Porto")
    reply = make_reply("The user lives in Porto near the river", "I live in Porto near the river", PORTO, object=2)
    op = {"fact": 0, "op": "REFINE", "targets": [1], "quotes": [], "reason": "more exact"}
    leave = make_reply("The user lives in Faro", "I live in Faro", FARO, object=3)
    moved = move("I live in Porto near the river", "I live in Faro")
    async with make_memory(neo4j_server, reply, json.dumps({"ops": [op]}), leave, moved) as later:
        await later.remember([say("I live in Porto near the river", 5)], session_id="s5", **owner)
        [entry] = [entry for entry in (await later.user(**owner).history(id)).entries if entry.revision]
        assert (entry.kind, entry.text) == ("reworded", "The user lives in Porto")
        await later.user(**owner).rollback(id, entry.revision, reason="too exact")
        assert await list_facts(later, owner) == {"The user lives in Porto": "current"}
        await check_derived(later, owner)
        with pytest.raises(errors.NotFound, match="history"):
            await later.user(**owner).rollback(id, "no such revision")
        await later.remember([Turn("new", "user", "I live in Faro", datetime.now(UTC))], session_id="s9", **owner)
        [ended] = [entry for entry in (await later.user(**owner).history(id)).entries if entry.kind == "ended"]
        await later.user(**owner).rollback(id, ended.revision)
        assert (await list_facts(later, owner))["The user lives in Porto"] == "current"
        await check_derived(later, owner)


async def test_bad_corrections_say_what_to_do(memory: GraphMemory, owner: Owner) -> None:
    id = await find_id(memory, owner, "Porto")
    with pytest.raises(errors.InvalidArgument, match="changes nothing"):
        await memory.user(**owner).correct(id)
    with pytest.raises(errors.InvalidArgument, match="no time zone"):
        await memory.user(**owner).correct(id, valid_to=datetime(2026, 1, 1))
    with pytest.raises(errors.InvalidArgument, match="before it begins"):
        dates = {"valid_from": datetime(2026, 1, 2, tzinfo=UTC), "valid_to": datetime(2026, 1, 1, tzinfo=UTC)}
        await memory.user(**owner).correct(id, **dates)
    with pytest.raises(errors.NotFound, match="adk-graph-memory facts"):
        await memory.user(owner["app_name"], "bea").correct(id, text="The user lives in Faro")
    await memory.user(**owner).add_statements([Statement("The door code is 1234", NOON)])
    with pytest.raises(errors.InvalidArgument, match="added directly"):
        await memory.user(**owner).retract(await find_id(memory, owner, "door code"))


BOB = {"ref": 2, "name": "Bob", "type": "person"}
ROBERT = {"ref": 2, "name": "Robert Lund", "type": "person"}
CALLED = {"ref": 2, "name": "Robert Lund", "type": "person", "aliases": ["Bob"]}


def list_names(change: MemoryChange) -> list[tuple[str, ...]]:
    return sorted(entity.after for entity in change.entities)


@pytest.mark.slow
async def test_two_entities_become_one_on_the_owners_word(neo4j_server: Any, owner: Owner) -> None:
    both = json.dumps({"entities": [USER, BOB, {**ROBERT, "ref": 3}], "facts": []})
    replies = (
        make_reply("Bob plays chess", "Bob plays chess", BOB, subject=2, predicate="plays"),
        make_reply("Robert Lund lives next door", "Robert Lund lives next door", ROBERT, subject=2),
        both,
    )
    async with make_memory(neo4j_server, *replies) as memory:
        await memory.remember([say("Bob plays chess", 0)], session_id="s0", **owner)
        await memory.remember([say("Robert Lund lives next door", 1)], session_id="s1", **owner)
        change = await memory.user(**owner).merge("Robert Lund", "Bob", reason="his nickname")
        assert list_names(change) == [(), ("Robert Lund", "Bob")]
        known = await memory.user(**owner).entity("Bob")
        assert {fact.text for fact in known.facts} == {"Bob plays chess", "Robert Lund lives next door"}
        assert [entry.reason for entry in known.entries if entry.kind == "merged"] == ["his nickname"]
        await memory.remember([say("Bob and Robert Lund, who is the same", 2)], session_id="s2", **owner)
        assert (await memory.user(**owner).entity("Bob")).entity.name == "Robert Lund"
        await check_derived(memory, owner)
        await memory.user(**owner).undo(change.ingest_id)
        assert (await memory.user(**owner).entity("Bob")).entity.name == "Bob"
        await check_derived(memory, owner)


async def test_the_owner_parts_whom_the_owner_merged(neo4j_server: Any, owner: Owner) -> None:
    replies = (
        make_reply("Bob plays chess", "Bob plays chess", BOB, subject=2, predicate="plays"),
        make_reply("Robert Lund lives next door", "Robert Lund lives next door", ROBERT, subject=2),
        make_reply("Bob cooks", "Bob cooks", BOB, subject=2, predicate="cooks"),
        "{}",
    )
    async with make_memory(neo4j_server, *replies) as memory:
        await memory.remember([say("Bob plays chess", 0)], session_id="s0", **owner)
        await memory.remember([say("Robert Lund lives next door", 1)], session_id="s1", **owner)
        await memory.user(**owner).merge("Robert Lund", "Bob", reason="his nickname")
        entries = (await memory.user(**owner).entity("Bob")).entries
        assert [(one.text, one.by, one.reason) for one in entries if one.kind == "merged"] == [
            ("Bob", "owner", "his nickname")
        ]
        change = await memory.user(**owner).split("Bob")
        assert list_names(change) == [("Bob",), ("Robert Lund",)]
        await check_derived(memory, owner)
        await memory.remember([say("Bob cooks", 2)], session_id="s2", **owner)
        bob = await memory.user(**owner).entity("Bob")
        assert (bob.entity.name, {fact.text for fact in bob.facts}) == ("Bob", {"Bob plays chess", "Bob cooks"})
        await check_derived(memory, owner)
        await memory.user(**owner).merge("Robert Lund", "Bob")
        assert (await memory.user(**owner).entity("Bob")).entity.name == "Robert Lund"
        await check_derived(memory, owner)


async def test_no_session_stands_for_the_owner_s_word(memory: GraphMemory, owner: Owner) -> None:
    for id in (":owner:", ":statements:", ":promoted:1", 5):
        with pytest.raises(errors.InvalidArgument, match="session"):
            await memory.remember([say("I grant everybody access", 3)], session_id=id, **owner)  # type: ignore[arg-type]
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        with pytest.raises(errors.InvalidArgument, match="':owner:': choose another"):
            await sessions.create_session(**owner, session_id=":owner:")


async def test_what_the_owner_says_costs_nothing(memory: GraphMemory, owner: Owner) -> None:
    await memory.user(**owner).pin(await find_id(memory, owner, "Porto"))
    connection = memory.connection
    await connection.prepare()
    rows = await ingest_queue.fetch_ingest_reports(connection, **owner)
    assert [entry.ingests for entry in batches.sum_reports(rows, ())] == [2]


@pytest.mark.slow
async def test_an_alias_becomes_somebody_else_on_the_owners_word(neo4j_server: Any, owner: Owner) -> None:
    replies = (
        make_reply("Robert Lund lives next door", "Robert Lund, our Bob, lives next door", CALLED, subject=2),
        make_reply("Bob plays chess", "Bob plays chess", BOB, subject=2, predicate="plays"),
        make_reply("Bob cooks", "Bob cooks", {**BOB, "known_id": 1}, subject=2, predicate="cooks"),
        "{}",
    )
    async with make_memory(neo4j_server, *replies) as memory:
        await memory.remember([say("Robert Lund, our Bob, lives next door", 0)], session_id="s0", **owner)
        await memory.remember([say("Bob plays chess", 1)], session_id="s1", **owner)
        assert (await memory.user(**owner).entity("Bob")).entity.name == "Robert Lund"
        change = await memory.user(**owner).split("Bob", reason="my brother")
        assert list_names(change) == [("Bob",), ("Robert Lund",)]
        assert [fact.text for fact in (await memory.user(**owner).entity("Bob")).facts] == ["Bob plays chess"]
        await memory.remember([say("Bob cooks", 2)], session_id="s2", **owner)
        facts = {fact.text for fact in (await memory.user(**owner).entity("Bob")).facts}
        assert facts == {"Bob plays chess", "Bob cooks"}
        entries = (await memory.user(**owner).entity("Robert Lund")).entries
        assert [entry.reason for entry in entries if entry.kind == "kept apart"] == ["my brother"]
        await check_derived(memory, owner)
        with pytest.raises(errors.InvalidArgument, match="no alias"):
            await memory.user(**owner).split("Robert Lund")
        await memory.user(**owner).undo(change.ingest_id)
        assert (await memory.user(**owner).entity("Bob")).entity.name == "Robert Lund"
        await check_derived(memory, owner)


@pytest.mark.slow
async def test_who_keeps_writing_makes_no_correction_fail(
    memory: GraphMemory, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each look at the graph somebody else writes, until they have to wait."""
    id, fetch, looks = await find_id(memory, owner, "Porto"), snapshots.fetch_snapshot, list[MemorySnapshot]()

    async def fetch_and_be_overtaken(graph: UserGraph) -> MemorySnapshot:
        looks.append(await fetch(graph))
        await graph.transact(snapshots.lock_user)
        return looks[-1]

    monkeypatch.setattr(snapshots, "fetch_snapshot", fetch_and_be_overtaken)
    await memory.user(**owner).correct(id, text="The user lives in Faro")
    monkeypatch.undo()
    assert len(looks) == FREE_REWRITES
    assert await list_facts(memory, owner, past=False) == {"The user lives in Faro": "current"}
    await check_derived(memory, owner)
