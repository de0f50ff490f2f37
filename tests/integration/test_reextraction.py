"""Turns that another extractor read are read again: what is read counts instead, and history keeps what was."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adk_graph_memory import AsOf, GraphMemory, Turn, errors
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.records.scopes import Scope, SharedMemory
from adk_graph_memory.records.turns import Statement
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = {"ref": 1, "name": "user", "type": "person"}
Owner = dict[str, str]


def make_fact(text: str, quote: str, place: str, predicate: str = "lives_in") -> str:
    entities = [USER, {"ref": 2, "name": place, "type": "place"}]
    fact = {"subject": 1, "predicate": predicate, "object": 2, "text": text, "quote": quote, "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact]})


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


@pytest.mark.slow
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
        await memory.user(**owner).undo(report.ingest_id)
        assert (await list_facts(memory, owner)).keys() == {"The user has a home in Porto"}
        await check_sound(memory, owner)
        assert len([session async for session in memory.outdated_sessions(**owner)]) == 1


async def test_what_the_owner_ruled_on_and_what_was_added_is_not_read_again(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    async with make() as memory:
        await memory.remember([say("I live in Porto", 0), say("I keep goats", 1)], session_id="s", **owner)
        await memory.user(**owner).add_statements([Statement("I never eat nuts", NOON, "user")], consolidate=True)
        facts = {fact.text: fact.id async for fact in memory.facts(**owner)}
        await memory.user(**owner).retract(facts["I live in Porto"])
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
        await memory.user(**owner).merge("Robert", "Bob")
        before = await digest_graph(memory, owner)
        await reread(memory, owner, force=True)
        assert (await memory.user(**owner).entity("Bob")).entity.name == "Robert"
        assert await digest_graph(memory, owner) == before
        await check_sound(memory, owner)


@pytest.mark.slow
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


@pytest.mark.slow
async def test_an_edited_turn_was_never_read_otherwise(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make() as memory:
        await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
        await reread(memory, owner, force=True)
        then = datetime.now(UTC)
        await memory.remember([say("I live in Faro", 0)], session_id="s", **owner)
        assert (await list_facts(memory, owner)).keys() == {"I live in Faro"}
        assert await list_facts(memory, owner, as_of=AsOf(recorded=then)) == {}
        await check_sound(memory, owner)


@pytest.mark.slow
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


async def test_who_asks_to_be_forgotten_is_forgotten_when_a_newer_model_hears_it(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    async with make() as memory:
        turns = [say("I live in Porto", 0), say("Please forget where I live", 1)]
        await memory.remember(turns, session_id="s", **owner)
    reply = json.dumps({"entities": [], "facts": [], "forget": [{"request": 1, "turns": [0, 1]}]})
    async with make(reply, "{}", name="second") as memory:
        [report] = await reread(memory, owner)
        assert report.report.forgotten == 2
        assert await list_facts(memory, owner) == {}
        await check_sound(memory, owner)


async def test_a_turn_from_which_a_fact_was_forgotten_keeps_its_others(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    async with make() as memory:
        await memory.remember([say("I live in Porto. I work at Acme.", 0)], session_id="s", **owner)
        ids = {fact.text: fact.id async for fact in memory.facts(**owner)}
        await memory.forget(ids["I work at Acme."], **owner)
        assert [one async for one in memory.outdated_sessions(**owner, force=True)] == []
        assert (await list_facts(memory, owner)).keys() == {"I live in Porto."}


@pytest.mark.slow
async def test_what_is_forgotten_leaves_former_readings_that_quote_more(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    said = "I live in Porto with Inés"
    async with make(make_fact("The user has a home in Porto", "I live in Porto", "Porto", "has")) as memory:
        await memory.remember([say(said, 0)], session_id="s", **owner)
        then = datetime.now(UTC)
    async with make(make_fact("The user lives there", said, "Porto"), "{}", name="second") as memory:
        await reread(memory, owner)
        [id] = [fact.id async for fact in memory.facts(**owner)]
        await memory.forget(id, **owner)
        assert await list_facts(memory, owner, as_of=AsOf(recorded=then)) == {}


NEIGHBOUR, MOVE = "Ana has the flat beside mine", "Ana has the flat beside mine no more"
ENDING = json.dumps({"ops": [{"fact": 0, "op": "SUPERSEDE", "targets": [1], "quotes": [MOVE, NEIGHBOUR]}]})


def tell_of_ana(text: str, predicate: str) -> str:
    entities = [USER, {"ref": 2, "name": "Ana", "type": "person"}]
    fact = {"subject": 2, "predicate": predicate, "object": None, "text": text, "quote": text, "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact]})


@pytest.mark.slow
async def test_a_judge_ends_again_what_the_former_words_had_ended(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    replies = (tell_of_ana(NEIGHBOUR, "is"), tell_of_ana(MOVE, "moved_to"), ENDING)
    async with make(*replies) as memory:
        await memory.remember([say(NEIGHBOUR, 0)], session_id="s0", **owner)
        await memory.remember([say(MOVE, 1)], session_id="s1", **owner)
        before = await digest_graph(memory, owner)
        assert (await list_facts(memory, owner)).keys() == {MOVE}
    async with make(tell_of_ana(MOVE, "moved_to"), ENDING) as memory:
        [session] = [one async for one in memory.outdated_sessions(**owner, force=True) if one.session_id == "s1"]
        report = await memory.reextract(session, force=True)
        assert report.report.usage.calls == 2
        assert (await list_facts(memory, owner)).keys() == {MOVE}
        assert await digest_graph(memory, owner) == before
        await check_sound(memory, owner)


async def test_what_is_ruled_on_while_a_model_reads_stays(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make() as memory:
        await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
        [session] = [one async for one in memory.outdated_sessions(**owner, force=True)]
        [id] = [fact.id async for fact in memory.facts(**owner)]
        real = memory.engine.extractor.extract

        async def pin_meanwhile(*parts: Any) -> Any:
            await memory.user(**owner).pin(id)
            return await real(*parts)

        memory.engine.extractor.extract = pin_meanwhile  # type: ignore[method-assign]
        report = await memory.reextract(session, force=True)
        assert (report.report.turns, report.report.busy) == (0, 1)
        [fact] = [fact async for fact in memory.facts(**owner)]
        assert fact.is_pinned
        await check_sound(memory, owner)


@pytest.mark.slow
async def test_it_may_be_read_again_and_again_and_undone_step_by_step(
    make: Callable[..., GraphMemory], owner: Owner
) -> None:
    texts = [f"The user lives in Porto, version {n}" for n in range(3)]
    moments, ids = list[datetime](), list[str]()
    for n, text in enumerate(texts):
        async with make(make_fact(text, "I live in Porto", "Porto"), "{}", name=f"m{n}") as memory:
            if n == 0:
                await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
            else:
                ids += [report.ingest_id for report in await reread(memory, owner)]
            moments.append(datetime.now(UTC))
    async with make() as memory:
        for text, moment in zip(texts, moments, strict=True):
            assert (await list_facts(memory, owner, as_of=AsOf(recorded=moment))).keys() == {text}
        await memory.user(**owner).undo(ids[0])  # the one in between
        assert (await list_facts(memory, owner)).keys() == {texts[2]}
        assert (await list_facts(memory, owner, as_of=AsOf(recorded=moments[1]))).keys() == {texts[0]}
        await check_sound(memory, owner)
        await memory.user(**owner).undo(ids[1])
        assert (await list_facts(memory, owner)).keys() == {texts[0]}
        await check_sound(memory, owner)


@pytest.mark.slow
async def test_an_export_of_then_holds_what_was_read_then(
    make: Callable[..., GraphMemory], owner: Owner, tmp_path: Path
) -> None:
    async with make(make_fact("The user has a home in Porto", "I live in Porto", "Porto", "has")) as memory:
        await memory.remember([say("I live in Porto", 0)], session_id="s", **owner)
        then = datetime.now(UTC)
    async with make(make_fact("The user lives in Porto", "I live in Porto", "Porto"), "{}", name="second") as memory:
        await reread(memory, owner)
        for moment, text in ((then, "The user has a home in Porto"), (None, "The user lives in Porto")):
            path, app_name = tmp_path / f"{moment is None}.jsonl", f"{owner['app_name']}-{moment is None}"
            await memory.export(path, **owner, as_of=AsOf(recorded=moment) if moment else None)
            await import_source(memory, str(path), ImportOptions("export", app_name))
            copy = {**owner, "app_name": app_name}
            assert (await list_facts(memory, copy)).keys() == {text}
            await check_sound(memory, copy)
        assert (await list_facts(memory, copy, as_of=AsOf(recorded=then))).keys() == {"The user has a home in Porto"}


async def test_what_is_no_session_and_no_time_is_refused(make: Callable[..., GraphMemory], owner: Owner) -> None:
    async with make() as memory:
        with pytest.raises(errors.InvalidArgument, match="is no session of outdated_sessions"):
            await memory.reextract("s")  # type: ignore[arg-type]
        for since in ("2026-01-01", NOON, True):
            with pytest.raises(errors.InvalidArgument, match="epoch seconds"):
                await anext(memory.outdated_sessions(**owner, since=since))  # type: ignore[arg-type]
