"""Turns that another extractor read are read again: what is read counts instead, and history keeps what was."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adk_graph_memory import AsOf, GraphMemory, Turn
from adk_graph_memory.records import Scope, SharedMemory, Statement
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = {"ref": 1, "name": "user", "type": "person"}
Owner = dict[str, str]


def make_fact(text: str, quote: str, place: str, predicate: str = "lives_in") -> str:
    entities = [USER, {"ref": 2, "name": place, "type": "place"}]
    fact = {"subject": 1, "predicate": predicate, "object": 2, "text": text, "quote": quote, "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact]})


@pytest.fixture
def owner(app_name: str) -> Owner:
    return {"app_name": app_name, "user_id": "ada"}


@pytest.fixture
def make(neo4j_server: Any) -> Callable[..., GraphMemory]:
    def make_memory(*replies: str | Exception, name: str = "first", **options: Any) -> GraphMemory:
        settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0, functional_predicates=("lives_in",))
        model: Any = "rules"
        if replies:
            model = ScriptedLlm.from_replies(*replies)
            model.model = name
        return GraphMemory(settings=settings, model=model, embedder=HashEmbedder(), **options)

    return make_memory


def say(text: str, day: int) -> Turn:
    return Turn(f"t{day}", "user", text, NOON + timedelta(days=day))


async def list_facts(memory: GraphMemory, owner: Owner, **options: Any) -> dict[str, str]:
    return {fact.text: fact.status async for fact in memory.facts(**owner, **options)}


async def reread(memory: GraphMemory, owner: Owner, **options: Any) -> list[Any]:
    force = options.get("force", False)
    sessions = [session async for session in memory.outdated_sessions(**owner, force=force)]
    return [await memory.reextract(session, **options) for session in sessions]


async def check_sound(memory: GraphMemory, owner: Owner) -> None:
    [checkup] = [one async for one in memory.check_memories(**owner)]
    assert (checkup.differences, checkup.is_ill) == (0, False)


async def digest_graph(memory: GraphMemory, owner: Owner) -> dict[str, Any]:
    """All nodes and relationships of a user's memory but its requests, without times of writing."""
    driver, scope = await memory.connection.get_driver(), Scope(**owner).key
    query = (
        "MATCH (n {scope: $scope}) WHERE NOT n:TestHashIngest AND NOT n:TestHashUser "
        "RETURN coalesce(n.memory_id, n.key, n.n) AS id, properties(n) AS p, "
        "COLLECT { MATCH (n)-[r]->(m) "
        "RETURN type(r) + coalesce(m.memory_id, m.key, m.n, '') + coalesce(r.key, '') } AS edges"
    )
    records, _, _ = await driver.execute_query(query, scope=scope)
    hidden = {"recorded_at", "created_at", "ingest", "extracted", "embedding_a", "tokens_a", "lock"}
    return {
        row["id"]: ({k: v for k, v in row["p"].items() if k not in hidden}, sorted(row["edges"])) for row in records
    }


TEXTS = (
    "My sister Inés lives in Porto. I keep bees with Bob.",
    "I moved to Faro. My dog Rex is three.",
    "Inés moved to Braga. Bob sold the bees yesterday.",
)


async def test_the_same_reader_again_changes_nothing(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make() as memory:
        for day, text in enumerate(TEXTS):
            await memory.remember([say(text, day)], session_id=f"s{day % 2}", **owner)
        before = await digest_graph(memory, owner)
        assert await reread(memory, owner) == []  # nothing is outdated
        reports = await reread(memory, owner, force=True)
        assert [report.report.turns for report in reports] == [2, 1]
        assert [change for report in reports for change in report.changes if change.facts or change.entities] == []
        assert await digest_graph(memory, owner) == before
        await check_sound(memory, owner)
        assert (await memory.remember([say(TEXTS[0], 0)], session_id="s0", **owner)).turns == 0


async def test_what_is_read_now_counts_and_what_was_read_is_history(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    async with make(make_fact("The user has a home in Porto", "I live in Porto", "Porto", "has")) as memory:
        await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
        then = datetime.now(UTC)
    async with make(make_fact("The user lives in Porto", "I live in Porto", "Porto"), "{}", name="second") as memory:
        [preview] = await reread(memory, owner, preview=True)
        assert (await list_facts(memory, owner)).keys() == {"The user has a home in Porto"}
        assert {
            (fact.before and fact.before.text, fact.after and fact.after.text) for fact in preview.changes[0].facts
        } == {
            ("The user has a home in Porto", None),
            (None, "The user lives in Porto"),
        }
    async with make(make_fact("The user lives in Porto", "I live in Porto", "Porto"), "{}", name="second") as memory:
        [report] = await reread(memory, owner)
        assert (report.report.turns, report.report.usage.calls) == (1, 1)
        assert (await list_facts(memory, owner)).keys() == {"The user lives in Porto"}
        assert (await list_facts(memory, owner, as_of=AsOf(recorded=then))).keys() == {"The user has a home in Porto"}
        await check_sound(memory, owner)
        assert await reread(memory, owner) == []
        await memory.undo(report.ingest_id, **owner)
        assert (await list_facts(memory, owner)).keys() == {"The user has a home in Porto"}
        await check_sound(memory, owner)
        assert len([session async for session in memory.outdated_sessions(**owner)]) == 1


async def test_what_the_owner_ruled_on_and_what_was_added_is_not_read_again(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    async with make() as memory:
        await memory.remember([say("I live in Porto", 0), say("I keep goats", 1)], session_id="s", **owner)
        await memory.add_statements([Statement("I never eat nuts", NOON, "user")], **owner, consolidate=True)
        facts = {fact.text: fact.id async for fact in memory.facts(**owner)}
        await memory.retract(facts["I live in Porto"], **owner)
        [session] = [session async for session in memory.outdated_sessions(**owner, force=True)]
        assert (session.session_id, session.turns) == ("s", 1)
        [report] = await reread(memory, owner, force=True)
        assert report.report.turns == 1
        assert (await list_facts(memory, owner)).keys() == {"I keep goats", "I never eat nuts"}
        await check_sound(memory, owner)


async def test_who_the_owner_merged_stays_one(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make() as memory:
        for day, text in enumerate(("My boss Robert lives in Faro", "My neighbour Bob keeps bees")):
            await memory.remember([say(text, day)], session_id=f"s{day}", **owner)
        await memory.merge("Robert", "Bob", **owner)
        before = await digest_graph(memory, owner)
        await reread(memory, owner, force=True)
        assert (await memory.entity("Bob", **owner)).entity.name == "Robert"
        assert await digest_graph(memory, owner) == before
        await check_sound(memory, owner)


async def test_a_failing_model_leaves_what_was_read(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make() as memory:
        await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
    async with make(RuntimeError("away"), name="second") as memory:
        with pytest.raises(Exception, match="away"):
            await reread(memory, owner)
        assert (await list_facts(memory, owner)).keys() == {"I live in Porto"}
        assert len([session async for session in memory.outdated_sessions(**owner)]) == 1
        await check_sound(memory, owner)


async def test_what_is_forgotten_leaves_former_readings_too(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make(make_fact("The user has a home in Porto", "I live in Porto", "Porto", "has")) as memory:
        await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
        then = datetime.now(UTC)
    async with make(make_fact("The user lives there", "I live in Porto", "Porto"), "{}", name="second") as memory:
        await reread(memory, owner)
        [id] = [fact.id async for fact in memory.facts(**owner)]
        await memory.forget(id, **owner)
        assert await list_facts(memory, owner, as_of=AsOf(recorded=then)) == {}
        driver, scope = await memory.connection.get_driver(), Scope(**owner).key
        query = "MATCH (i:TestHashIngest {scope: $scope}) RETURN i.reading AS reading"
        records, _, _ = await driver.execute_query(query, scope=scope)
        kept = " ".join(row["reading"] or "" for row in records)
        assert "has a home" not in kept and "lives there" not in kept
        await check_sound(memory, owner)


async def test_an_edited_turn_was_never_read_otherwise(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make() as memory:
        await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
        await reread(memory, owner, force=True)
        then = datetime.now(UTC)
        await memory.remember([say("I live in Faro", 0)], session_id="s", **owner)
        assert (await list_facts(memory, owner)).keys() == {"I live in Faro"}
        assert await list_facts(memory, owner, as_of=AsOf(recorded=then)) == {}
        await check_sound(memory, owner)


async def test_users_and_shared_memories_are_apart(make: Callable[..., GraphMemory], app_name: str) -> None:
    async with make() as memory:
        for user, author in (("ada", "user"), ("bob", "user"), (SharedMemory(), "handbook")):
            turn = Turn("t", author, "I live in Porto", NOON)
            await memory.remember([turn], app_name=app_name, user_id=user, session_id="s")
        sessions = [session async for session in memory.outdated_sessions(app_name=app_name, force=True)]
        assert {session.scope.user_id for session in sessions} == {"ada", "bob", ":app:"}
        assert [one async for one in memory.outdated_sessions(app_name=app_name, user_id="eve", force=True)] == []
        late = (NOON + timedelta(days=1)).timestamp()
        assert [one async for one in memory.outdated_sessions(app_name=app_name, force=True, since=late)] == []
