"""Memories that users share: an app's own and its groups'. Only who is given them reads them."""

from __future__ import annotations

import copy
import inspect
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools import load_memory
from google.genai import types
from tests.conftest import Command

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, SharedMemory, Statement, Turn, errors
from adk_graph_memory.graph import snapshots
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
APP, NIGHT, DAY = SharedMemory(), SharedMemory(group="night shift"), SharedMemory(group="day shift")
QUESTION = "What is the door code?"


async def remember(memory: GraphMemory, app_name: str, user: str, text: str, *, author: str = "user") -> None:
    turn = Turn(f"{user}-{text}", author, text, NOON)
    await memory.remember([turn], app_name=app_name, user_id=user, session_id="s1")


def make_memory(neo4j_server: Any, **options: Any) -> GraphMemory:
    settings = neo4j_server.settings(label_prefix="TestHash")
    return GraphMemory(settings=settings, model="rules", embedder=HashEmbedder(), **options)


@pytest.fixture
async def memory(neo4j_server: Any, app_name: str) -> AsyncIterator[GraphMemory]:
    """Of Ana and Bob, of two groups and of the app; each knows another door code."""
    async with make_memory(neo4j_server) as memory:
        for user in ("ana", "bob"):
            await remember(memory, app_name, user, f"My door code is {user}1234.")
        for shared, code in ((APP, "app1234"), (NIGHT, "night1234"), (DAY, "day1234")):
            await remember(memory, app_name, shared, f"My door code is {code}.", author="handbook")
        yield memory


async def list_texts(memory: GraphMemory, app_name: str, user: str) -> list[str]:
    return sorted([fact.text async for fact in memory.facts(app_name=app_name, user_id=user)])


async def find_codes(memory: GraphMemory, app_name: str, user: str = "ana", **options: Any) -> dict[str, str | None]:
    """The door codes that a search finds, and the shared memory of each."""
    memories = await memory.recall(QUESTION, app_name=app_name, user_id=user, **options)
    return {one.text.split()[-1].rstrip("."): one.shared for one in memories}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shared", "codes"),
    [
        ([], {"ana1234": None}),
        ([APP], {"ana1234": None, "app1234": ":app:"}),
        ([NIGHT], {"ana1234": None, "night1234": ":group:night shift"}),
        ([NIGHT, APP, NIGHT], {"ana1234": None, "night1234": ":group:night shift", "app1234": ":app:"}),
        ([SharedMemory(group="nobody's")], {"ana1234": None}),
    ],
)
async def test_a_search_reads_the_user_s_own_and_what_it_is_given(
    memory: GraphMemory, app_name: str, shared: list[SharedMemory], codes: dict[str, str | None]
) -> None:
    assert await find_codes(memory, app_name, shared=shared) == codes
    assert await find_codes(memory, f"{app_name}-other", shared=shared) == {}


@pytest.mark.slow
async def test_nobody_reads_what_is_shared_without_being_given_it(memory: GraphMemory, app_name: str) -> None:
    assert await find_codes(memory, app_name, "cy") == {}
    assert await find_codes(memory, app_name, NIGHT) == {"night1234": None} | {"night1234": NIGHT}


@pytest.mark.parametrize("id", [":app:", ":group:night shift", ":group: x"])
async def test_no_user_s_id_names_a_shared_memory(memory: GraphMemory, app_name: str, id: str) -> None:
    whose: dict[str, Any] = {"app_name": app_name, "user_id": id}
    service, sessions = Neo4jMemoryService(memory=memory), Neo4jSessionService(settings=memory.connection.settings)
    calls = (
        memory.recall(QUESTION, **whose),
        remember(memory, app_name, id, "I am an intruder."),
        service.search_memory(query=QUESTION, **whose),
        sessions.create_session(**whose),
        memory.export(io.StringIO(), **whose),
        memory.prune(**whose, older_than=0),
        memory.resume(user_id=id),
        anext(memory.check_memories(user_id=id, mend=True)),
    )
    for call in calls:
        with pytest.raises(errors.InvalidArgument, match="cannot be a user's id"):
            await call
    with pytest.raises(errors.InvalidArgument, match="cannot be a user's id"):
        memory.user(**whose)
    with pytest.raises(errors.InvalidArgument, match="no shared memory"):
        await memory.recall(QUESTION, app_name=app_name, user_id="ana", shared=[id])  # type: ignore[list-item]
    with pytest.raises(errors.InvalidArgument, match="no shared memory"):
        await memory.recall(QUESTION, app_name=app_name, user_id="ana", shared=id)  # type: ignore[arg-type]
    await sessions.close()
    assert await list_texts(memory, app_name, NIGHT) == ["My door code is night1234."]


async def test_a_user_s_export_does_not_become_a_shared_memory(
    memory: GraphMemory, app_name: str, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    path = tmp_path / "ana.jsonl"
    await memory.export(path, app_name=app_name, user_id="ana")
    outcome = await command("import", str(path), "--from", "export", "--user", ":group:board")
    assert outcome.exit_code != 0 and "promote" in outcome.stderr


@pytest.mark.slow
async def test_sessions_are_a_user_s(memory: GraphMemory, app_name: str) -> None:
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        with pytest.raises(errors.InvalidArgument, match="cannot be a user's id"):
            await sessions.create_session(app_name=app_name, user_id=NIGHT)


async def test_who_says_it_has_to_be_told(memory: GraphMemory, app_name: str) -> None:
    whose: dict[str, Any] = {"app_name": app_name, "user_id": NIGHT}
    turn = Turn("t1", "user", "I have the keys.", NOON)
    calls = (
        memory.remember([turn], session_id="s", **whose),
        memory.user(**whose).enqueue([turn], session_id="s"),
        memory.user(**whose).add_statements([Statement("I have the keys.", NOON, "user")]),
    )
    for call in calls:
        with pytest.raises(errors.InvalidArgument, match="give the person's name"):
            await call
    assert await list_texts(memory, app_name, NIGHT) == ["My door code is night1234."]


async def test_a_function_tells_who_reads_what(neo4j_server: Any, memory: GraphMemory, app_name: str) -> None:
    async def find_groups(app: str, user: str) -> list[SharedMemory]:
        return [NIGHT] if (app, user) == (app_name, "ana") else []

    settings = neo4j_server.settings(label_prefix="TestHash", shared=[":app:", ":group:day shift"])
    async with (
        make_memory(neo4j_server, shared=find_groups) as by_function,
        GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as by_setting,
    ):
        assert (await find_codes(by_function, app_name)).keys() == {"ana1234", "night1234"}
        assert (await find_codes(by_function, app_name, "bob")).keys() == {"bob1234"}
        assert (await find_codes(by_function, app_name, shared=[])).keys() == {"ana1234"}
        assert (await find_codes(by_setting, app_name)).keys() == {"ana1234", "app1234", "day1234"}
    async with make_memory(neo4j_server, shared=lambda app, user: None) as by_nothing:
        assert (await find_codes(by_nothing, app_name)).keys() == {"ana1234"}
    with pytest.raises(errors.ConfigurationError, match="'night' names no shared memory: give `:app:`"):
        neo4j_server.settings(shared=["night"])


@pytest.mark.slow
async def test_an_agent_reads_what_the_application_gives_it(memory: GraphMemory, app_name: str) -> None:
    async with Neo4jMemoryService(settings=memory.connection.settings, embedder=HashEmbedder(), shared=[NIGHT]) as ours:
        entry = MemoryEntry(author="bob", content=types.Content(parts=[types.Part(text="The kettle leaks.")]))
        await ours.add_memory(app_name=app_name, user_id=NIGHT, memories=[entry])
        found = await ours.search_memory(
            app_name=app_name, user_id="ana", query="Which code, and does the kettle leak?"
        )
    shared = {
        entry.content.parts[0].text: (entry.custom_metadata or {}).get("shared")
        for entry in found.memories
        if entry.content.parts
    }
    assert shared["The kettle leaks."] == ":group:night shift" and shared["My door code is ana1234."] is None
    assert [*inspect.signature(load_memory.func).parameters] == ["query", "tool_context"]  # a model gives no more


async def test_copies_of_a_name_mean_the_same_memory() -> None:
    for shared in (APP, NIGHT, SharedMemory(group=":app:"), SharedMemory(group=":group:x")):
        for twin in (copy.deepcopy(shared), copy.copy(shared), SharedMemory.parse(str(shared))):
            assert isinstance(twin, SharedMemory) and (twin, twin.group) == (shared, shared.group)
        assert Scope("a", twin).key != Scope("b", twin).key
    assert len({Scope("a", one).key for one in (APP, NIGHT, DAY, "night shift", SharedMemory(group="app"))}) == 5
    for group in ("", "  ", 7):
        with pytest.raises(errors.InvalidArgument, match="is no name"):
            SharedMemory(group=group)  # type: ignore[arg-type]


# -- promotion ----------------------------------------------------------------------------------------------------


async def find_id(memory: GraphMemory, app_name: str, user: str, word: str) -> str:
    facts = [fact async for fact in memory.facts(app_name=app_name, user_id=user, past=True)]
    return next(fact.id for fact in facts if word in fact.text)


async def promote(memory: GraphMemory, app_name: str, word: str, user: str = "ana", **options: Any) -> Any:
    id = await find_id(memory, app_name, user, word)
    return await memory.user(app_name, user).promote(id, **{"to": NIGHT, **options})


async def check_sound(memory: GraphMemory, app_name: str) -> None:
    checkups = [one async for one in memory.check_memories(app_name=app_name)]
    assert [one.user_id for one in checkups if one.is_ill or one.differences] == []


@pytest.mark.slow
async def test_a_fact_is_promoted_with_its_quote_and_nothing_else(memory: GraphMemory, app_name: str) -> None:
    secret = "I earn 4000 euros. The kettle is broken. I hate Mondays."
    await remember(memory, app_name, "ana", secret)
    report = await promote(memory, app_name, "kettle")
    assert (report.turns, report.usage.calls, dict(report.facts)) == (1, 0, {"ADD": 1})
    [fact] = [fact async for fact in memory.facts(app_name=app_name, user_id=NIGHT) if "kettle" in fact.text]
    assert (fact.author, fact.origin, [source.quote for source in fact.sources]) == ("ana", "user", [fact.text])
    read = await memory.recall("Who earns euros on Mondays? The kettle?", app_name=app_name, user_id=NIGHT)
    assert not [one for one in read if "earn" in one.text or "Mondays" in one.text]
    assert (await promote(memory, app_name, "kettle")).turns == 0  # it is there already
    assert len(await list_texts(memory, app_name, NIGHT)) == 2
    await check_sound(memory, app_name)


@pytest.mark.slow
async def test_two_people_say_the_same(memory: GraphMemory, app_name: str) -> None:
    for user in ("ana", "bob"):
        await remember(memory, app_name, user, "The kettle is broken.")
        await promote(memory, app_name, "kettle", user)
    facts = [fact async for fact in memory.facts(app_name=app_name, user_id=NIGHT) if "kettle" in fact.text]
    assert {(fact.author, source.author) for fact in facts for source in fact.sources} >= {("ana", "ana")}
    assert {source.author for fact in facts for source in fact.sources} == {"ana", "bob"}
    await check_sound(memory, app_name)


@pytest.mark.slow
async def test_a_name_stands_for_the_user(memory: GraphMemory, app_name: str) -> None:
    await remember(memory, app_name, "ana", "I live in Porto.")
    await promote(memory, app_name, "Porto", author="Ana Sousa")
    [fact] = [fact async for fact in memory.facts(app_name=app_name, user_id=NIGHT) if "Porto" in fact.text]
    assert (fact.subject, fact.author, fact.text) == ("Ana Sousa", "Ana Sousa", "I live in Porto.")
    names = {entity.name async for entity in memory.user(app_name, NIGHT).entities()}
    assert "user" not in names


async def test_what_is_forgotten_here_stays_there_until_it_is_forgotten_there(
    memory: GraphMemory, app_name: str
) -> None:
    await remember(memory, app_name, "ana", "The kettle is broken.")
    id = await find_id(memory, app_name, "ana", "kettle")
    await memory.user(app_name, "ana").promote(id, to=NIGHT)
    await memory.user(app_name, "ana").forget_user()
    assert "The kettle is broken." in await list_texts(memory, app_name, NIGHT)
    await memory.user(app_name, NIGHT).forget_session(f":promoted:{id.removeprefix('fact:')}")
    assert await list_texts(memory, app_name, NIGHT) == ["My door code is night1234."]
    await check_sound(memory, app_name)


async def test_two_users_promote_one_statement_of_equal_words(memory: GraphMemory, app_name: str) -> None:
    for user in ("ana", "bob"):
        whose = {"app_name": app_name, "user_id": user}
        await memory.user(**whose).add_statements([Statement("I never eat nuts.", NOON, "user")], consolidate=True)
        assert (await promote(memory, app_name, "nuts", user)).turns == 1
    facts = [fact async for fact in memory.facts(app_name=app_name, user_id=NIGHT) if "nuts" in fact.text]
    assert {source.author for fact in facts for source in fact.sources} == {"ana", "bob"}
    await check_sound(memory, app_name)


async def test_who_promotes_a_statement_of_theirs_is_named(memory: GraphMemory, app_name: str) -> None:
    await memory.user(app_name, "ana").add_statements([Statement("I have two cats.", NOON, "user")])
    await promote(memory, app_name, "cats", author="Ana Sousa")
    [fact] = [fact async for fact in memory.facts(app_name=app_name, user_id=NIGHT) if "cats" in fact.text]
    assert fact.author == "Ana Sousa"


@pytest.mark.slow
async def test_only_quotes_that_stand_are_promoted_and_expire_there_too(
    neo4j_server: Any, memory: GraphMemory, app_name: str
) -> None:
    now, whose = datetime.now(UTC), {"app_name": app_name, "user_id": "ana"}
    first, second = (Turn(f"t{n}", "user", "The kettle is broken.", now) for n in (1, 2))
    gone = replace(first, expires_at=now - timedelta(seconds=1))
    kept = replace(second, expires_at=now + timedelta(days=1))
    await memory.remember([gone], **whose, session_id="s")
    id = "fact:" + await find_stored_id(memory, Scope(app_name, "ana"), "kettle")
    with pytest.raises(errors.InvalidArgument, match="no quote that still stands"):
        await memory.user(**whose).promote(id, to=NIGHT)
    await memory.remember([kept], **whose, session_id="s")
    assert (await memory.user(**whose).promote(id, to=NIGHT)).turns == 1
    connection = memory.connection
    await connection.prepare()
    snapshot = await snapshots.fetch_snapshot(connection.user(Scope(app_name, NIGHT)))
    [turn] = [turn for turn in snapshot.turns.values() if "kettle" in turn["text"]]
    assert kept.expires_at and turn["expires_at"] == pytest.approx(kept.expires_at.timestamp())


async def find_stored_id(memory: GraphMemory, scope: Scope, word: str) -> str:
    query = "MATCH (f:TestHashFact {scope: $scope}) WHERE f.text CONTAINS $word RETURN f.id"
    [[id]] = await memory.connection.run_cypher(query, {"scope": scope.key, "word": word})
    return str(id)


@pytest.mark.slow
async def test_what_is_promoted_is_redacted(neo4j_server: Any, memory: GraphMemory, app_name: str) -> None:
    await remember(memory, app_name, "ana", "The safe opens with 4711.")
    redacting = make_memory(neo4j_server, redact=lambda text: text.replace("4711", "[code]"))
    async with redacting:
        await promote(redacting, app_name, "safe", author="4711")
    facts = [fact async for fact in memory.facts(app_name=app_name, user_id=NIGHT) if "safe" in fact.text]
    assert [(fact.text, fact.author) for fact in facts] == [("The safe opens with [code].", "[code]")]
    assert [source.quote for fact in facts for source in fact.sources] == ["The safe opens with [code]."]


@pytest.mark.slow
async def test_who_speaks_is_known_after_one_of_their_words_is_deleted(memory: GraphMemory, app_name: str) -> None:
    whose = {"app_name": app_name, "user_id": "carla"}
    statements = [Statement(text, NOON, "user") for text in ("I live in Porto.", "I keep two goats.")]
    await memory.user(**whose).add_statements(statements, consolidate=True)
    before = await memory.profile(**whose)
    assert "Porto" in before.text
    await memory.forget(await find_id(memory, app_name, "carla", "goats"), **whose)
    assert "Porto" in (await memory.profile(**whose)).text


@pytest.mark.slow
async def test_scopes_that_are_asked_the_same_share_one_embedding(neo4j_server: Any, app_name: str) -> None:
    embedder = HashEmbedder()
    async with GraphMemory(
        settings=neo4j_server.settings(label_prefix="TestHash"), model="rules", embedder=embedder
    ) as memory:
        for user, author in (("ana", "user"), (NIGHT, "handbook")):
            await remember(memory, app_name, user, "The kettle is broken.", author=author)
        before = embedder.calls
        await memory.recall("Which kettle is broken?", app_name=app_name, user_id="ana", shared=[NIGHT, APP, DAY])
        assert embedder.calls - before == 1


@pytest.mark.slow
async def test_a_statement_is_promoted_word_for_word(memory: GraphMemory, app_name: str) -> None:
    statement = Statement("Deliveries come at noon.", NOON + timedelta(days=1), "ana")
    await memory.user(app_name, "ana").add_statements([statement])
    await promote(memory, app_name, "Deliveries")
    [fact] = [fact async for fact in memory.facts(app_name=app_name, user_id=NIGHT) if "Deliv" in fact.text]
    assert (fact.text, fact.at, fact.author) == (statement.text, statement.at, "ana")


async def test_who_forgets_a_statement_learns_of_its_copies(memory: GraphMemory, app_name: str) -> None:
    texts = ["Deliveries come at noon.", "The gate is green."]
    for user in ("ana", "bob"):
        await memory.user(app_name, user).add_statements([Statement(text, NOON, user, id=text[:3]) for text in texts])
    await promote(memory, app_name, "Deliveries")
    await remember(memory, app_name, "ana", "The kettle is broken.")
    await promote(memory, app_name, "kettle")
    ana, bob, group = (memory.user(app_name, user) for user in ("ana", "bob", NIGHT))
    change = await ana.preview_forget("Del")
    assert ([one.before and one.before.text for one in change.facts], change.copies) == (texts[:1], 1)
    assert (await ana.preview_forget("The")).copies == 0
    assert (await ana.forget("Del")).stays == {"copies": 1}
    assert (await bob.forget_before(NOON + timedelta(days=1))).stays == {"copies": 1}  # the same words
    id = await find_id(memory, app_name, NIGHT, "Deliveries")
    assert (await group.preview_forget(id)).copies == 0
    assert (await group.forget(id)).stays == {}
    kettle = await find_id(memory, app_name, "ana", "kettle")
    assert (await ana.forget([kettle, "The"], with_turns=True)).stays == {"copies": 1}


async def test_what_is_over_or_unknown_is_not_promoted(neo4j_server: Any, memory: GraphMemory, app_name: str) -> None:
    await remember(memory, app_name, "ana", "The kettle is broken.")
    id = await find_id(memory, app_name, "ana", "kettle")
    await memory.user(app_name, "ana").retract(id)
    with pytest.raises(errors.InvalidArgument, match="is over"):
        await memory.user(app_name, "ana").promote(id, to=NIGHT)
    with pytest.raises(errors.NotFound):
        await memory.user(app_name, "bob").promote(id, to=NIGHT)
    with pytest.raises(errors.InvalidArgument, match="give SharedMemory"):
        await memory.user(app_name, "ana").promote(id, to=":group:night shift")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="already"):
        await memory.user(app_name, NIGHT).promote(id, to=NIGHT)
    assert await list_texts(memory, app_name, NIGHT) == ["My door code is night1234."]


# -- the command line, exports ------------------------------------------------------------------------------------


async def test_an_operator_names_a_shared_memory(
    memory: GraphMemory, app_name: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    night = ("--app", app_name, "--user", str(NIGHT))
    assert "night1234" in (await command("facts", *night)).output
    users = (await command("users", "--app", app_name, "--json")).output
    assert {row["user_id"] for row in json.loads(users)} == {"ana", "bob", str(APP), str(NIGHT), str(DAY)}
    assert (await command("doctor", *night)).exit_code == 0
    await command("forget-user", str(NIGHT), "--app", app_name, "--yes")
    assert await list_texts(memory, app_name, NIGHT) == []
    assert await list_texts(memory, app_name, DAY) == ["My door code is day1234."]


@pytest.mark.slow
async def test_a_list_of_users_names_shared_memories_too(memory: GraphMemory, app_name: str) -> None:
    users = [user async for user in memory.users(app_name=app_name)]
    assert {user.user_id: user.facts for user in users} == dict.fromkeys(("ana", "bob", APP, NIGHT, DAY), 1)
    for user in users:
        assert len(await list_texts(memory, app_name, user.user_id)) == 1


@pytest.mark.slow
async def test_an_export_keeps_what_is_shared(
    memory: GraphMemory, app_name: str, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    path, other = tmp_path / "app.jsonl", f"{app_name}-copy"
    await memory.export(path, app_name=app_name)
    assert (await command("import", str(path), "--from", "export", "--app", other)).exit_code == 0
    codes = await find_codes(memory, other, shared=[APP, NIGHT])
    assert codes.keys() == {"ana1234", "app1234", "night1234"}
    await check_sound(memory, other)


@pytest.mark.slow
async def test_what_waits_of_a_shared_memory_is_read_later(memory: GraphMemory, app_name: str) -> None:
    turn = Turn("t1", "bob", "The kettle is broken.", NOON)
    await memory.user(app_name, NIGHT).enqueue([turn], session_id="s2")
    await memory.resume(app_name=app_name)
    assert "The kettle is broken." in await list_texts(memory, app_name, NIGHT)
