"""What has expired is nobody's to see, at once, and Memory Bank's keys act."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adk_graph_memory import (
    Filters,
    GraphMemory,
    Neo4jArtifactService,
    Neo4jMemoryService,
    Neo4jSessionService,
    Statement,
    Turn,
    errors,
)
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.graph import writing
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

PREFIX = "TestHash"
LONG_AGO, LATELY = datetime(2020, 5, 1, 12, tzinfo=UTC), datetime.now(UTC) - timedelta(hours=1)
PAST, FUTURE = datetime(2021, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def turn(id: str, text: str, at: datetime = LATELY, **fields: Any) -> Turn:
    return Turn(id, "user", text, at, **fields)


def said(text: str, at: datetime = LATELY, **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id="inv", content=content, timestamp=at.timestamp(), **fields)


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=text)]), author="user", **fields)


def reply(*quotes: str, **names: list[int]) -> str:
    """What the model finds: a fact for each quote, each of a turn of its own and about whom the names say."""
    entities = [{"ref": 1, "name": "user", "type": "person"}]
    facts = [
        {"subject": 1, "predicate": "states", "object": None, "text": quote, "quote": quote, "turns": [number]}
        for number, quote in enumerate(quotes)
    ]
    for ref, (name, about) in enumerate(names.items(), start=2):
        entities.append({"ref": ref, "name": name, "type": "person"})
        for number in about:
            facts[number]["object"] = ref
    return json.dumps({"entities": entities, "facts": facts})


def lives_in(city: str) -> str:
    """What the model finds in “I live in” that city."""
    text, names = f"I live in {city}", [("user", "person"), (city, "place")]
    fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": text, "quote": text, "turns": [0]}
    entities = [{"ref": ref, "name": name, "type": kind} for ref, (name, kind) in enumerate(names, start=1)]
    return json.dumps({"entities": entities, "facts": [fact]})


HOMES = lives_in("Porto"), lives_in("Braga")
Make = Callable[..., GraphMemory]


@pytest.fixture
async def make(neo4j_server: Any) -> AsyncIterator[Make]:
    """Makes memories over the same graph, each with settings of its own."""
    async with AsyncExitStack() as stack:

        def make_memory(*replies: str, embedder: Any = None, **chosen: Any) -> GraphMemory:
            settings = neo4j_server.settings(label_prefix=PREFIX, **chosen)
            model = ScriptedLlm.from_replies(*replies) if replies else None
            memory = GraphMemory(
                settings=settings, embedder=HashEmbedder() if embedder is None else embedder, model=model
            )
            stack.push_async_callback(memory.close)
            return memory

        yield make_memory


@pytest.fixture
async def make_sessions(neo4j_server: Any) -> AsyncIterator[Callable[..., Neo4jSessionService]]:
    async with AsyncExitStack() as stack:

        def make_service(**chosen: Any) -> Neo4jSessionService:
            service = Neo4jSessionService(settings=neo4j_server.settings(label_prefix=PREFIX, **chosen))
            stack.push_async_callback(service.close)
            return service

        yield make_service


async def texts(memory: GraphMemory, query: str, owner: dict[str, str], **more: Any) -> set[str]:
    return {found.text for found in await memory.recall(query, **owner, **more)}


async def facts(memory: GraphMemory, owner: dict[str, str]) -> set[str]:
    return {fact.text async for fact in memory.facts(**owner, past=True)}


async def entities(memory: GraphMemory, owner: dict[str, str]) -> set[str]:
    return {entity.name async for entity in memory.user(**owner).entities()}


# -- memories ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_memory_expires_at_its_own_time_and_with_it_what_rests_on_it_alone(make, owner):
    memory = make(reply("Inés keeps bees", "Rui keeps goats", Inés=[0], Rui=[1]))
    turns = [turn("t1", "Inés keeps bees", expires_at=PAST), turn("t2", "Rui keeps goats", expires_at=FUTURE)]
    await memory.remember(turns, **owner, session_id="s")
    assert await texts(memory, "Who keeps bees or goats?", owner) == {"Rui keeps goats"}
    assert await texts(memory, "Who keeps bees?", owner, filters=Filters(kind="event")) == {"Rui keeps goats"}
    assert await facts(memory, owner) == {"Rui keeps goats"}
    assert await entities(memory, owner) == {"user", "Rui"}
    [user] = [user async for user in memory.users(app_name=owner["app_name"])]
    assert (user.turns, user.facts) == (1, 1)
    [app] = [app async for app in memory.apps() if app.app_name == owner["app_name"]]
    assert app.facts == 1


@pytest.mark.slow
async def test_a_fact_lives_as_long_as_one_of_its_turns_and_shows_the_words_of_that_one(make, owner):
    memory = make(reply("Inés keeps bees", "Inés keeps bees"))
    turns = [turn("t1", "Inés keeps bees", expires_at=PAST), turn("t2", "Inés keeps bees, still", expires_at=FUTURE)]
    await memory.remember(turns, **owner, session_id="s")
    [fact] = [fact async for fact in memory.facts(**owner)]
    assert [source.turn_id for source in fact.sources] == ["t2"]
    found = await memory.recall("Who keeps bees?", **owner, filters=Filters(kind="fact"))
    assert [recollection.source_event_ids for recollection in found] == [("t2",)]


async def test_a_turn_that_stays_keeps_its_fact_though_another_expires(make, owner):
    memory = make(reply("Inés keeps bees"), reply("Inés keeps bees"))
    await memory.remember([turn("t1", "Inés keeps bees", expires_at=PAST)], **owner, session_id="s")
    assert await facts(memory, owner) == set()
    await memory.remember([turn("t2", "Inés keeps bees")], **owner, session_id="s")
    assert await facts(memory, owner) == {"Inés keeps bees"}


@pytest.mark.slow
async def test_known_turns_get_an_expiry_too_and_keep_it(make, owner):
    memory = make(reply("Inés keeps bees"))
    await memory.remember([turn("t1", "Inés keeps bees")], **owner, session_id="s")
    assert await facts(memory, owner) == {"Inés keeps bees"}
    await memory.remember([turn("t1", "Inés keeps bees", expires_at=PAST)], **owner, session_id="s")
    await memory.remember([turn("t1", "Inés keeps bees")], **owner, session_id="s")
    assert await facts(memory, owner) == set()
    assert await texts(memory, "bees", owner) == set()


@pytest.mark.slow
async def test_a_queued_turn_keeps_its_expiry_until_it_is_read(make, owner):
    memory = make(reply("Inés keeps bees"))
    await memory.user(**owner).enqueue([turn("t1", "Inés keeps bees", expires_at=PAST)], session_id="s")
    [report] = await memory.resume(app_name=owner["app_name"])
    assert report.turns == 1
    assert await texts(memory, "bees", owner) == set()


@pytest.mark.slow
async def test_the_setting_goes_by_when_something_was_last_said_and_works_at_once(make, owner):
    memory = make(
        reply("Inés keeps bees", "Rui keeps goats"), reply("Rui keeps goats"), memory_ttl=None, session_ttl="30d"
    )
    turns = [turn("t1", "Inés keeps bees", LONG_AGO), turn("t2", "Rui keeps goats", LONG_AGO)]
    await memory.remember(turns, **owner, session_id="s")
    await memory.remember([turn("t3", "Rui keeps goats")], **owner, session_id="later")
    assert await facts(memory, owner) == {"Inés keeps bees", "Rui keeps goats"}
    limited = make(memory_ttl="30d")
    assert await facts(limited, owner) == {"Rui keeps goats"}
    assert await texts(limited, "Who keeps bees or goats?", owner) == {"Rui keeps goats"}


async def test_an_own_expiry_counts_before_the_setting(make, owner):
    memory = make(memory_ttl="30d")
    kept, gone = (Statement(text, LONG_AGO, expires_at=at) for text, at in (("Rex barks", FUTURE), ("Tom mews", None)))
    await memory.user(**owner).add_statements([kept, gone])
    assert await facts(memory, owner) == {"Rex barks"}
    assert await texts(memory, "Who barks or mews?", owner) == {"Rex barks"}


@pytest.mark.slow
async def test_the_nearest_memories_may_all_have_expired(make, owner):
    """Expired ones do not use up what the vector index returns."""
    memory = make()
    crowd = [Statement(f"bees bees bees {n}", LATELY, id=str(n), expires_at=PAST) for n in range(120)]
    await memory.user(**owner).add_statements([*crowd, Statement("Honey stands in the cellar", LATELY)])
    found = await memory.recall("bees bees bees", **owner, explain=True)
    assert [recollection.text for recollection in found] == ["Honey stands in the cellar"]
    assert "vector" in {share.signal for share in found[0].shares}


async def test_so_may_the_best_by_words(make, owner):
    memory = make(embedder=False)
    crowd = [Statement(f"bees bees bees {n}", LATELY, id=str(n), expires_at=PAST) for n in range(120)]
    wanted = Statement("There is some honey of bees in the cellar", LATELY)
    await memory.user(**owner).add_statements([*crowd, wanted])
    assert await texts(memory, "bees bees bees", owner) == {wanted.text}


async def test_the_retriever_for_graphrag_leaves_out_what_has_expired(make, owner):
    memory = make()
    await memory.user(**owner).add_statements([Statement("Inés keeps bees", LATELY, expires_at=PAST)])
    await memory.user(**owner).add_statements([Statement("Rui keeps goats", LATELY)])
    retriever = await memory.user(**owner).make_retriever()
    result = await asyncio.to_thread(retriever.search, "Who keeps bees?", top_k=9)
    assert [item.content for item in result.items] == ["Rui keeps goats"]


@pytest.mark.slow
async def test_neither_what_replaced_nor_what_preceded_a_fact_shows_once_it_has_expired(make, owner):
    memory = make(*HOMES, functional_predicates=("lives_in",))
    before = LATELY - timedelta(days=1)
    await memory.remember([turn("t1", "I live in Porto", before, expires_at=FUTURE)], **owner, session_id="s")
    await memory.remember([turn("t2", "I live in Braga", expires_at=FUTURE)], **owner, session_id="s")
    [braga] = await memory.recall("Where do I live?", **owner, filters=Filters(kind="fact"))
    assert (braga.text, braga.previously) == ("I live in Braga", ("I live in Porto",))
    await memory.remember([turn("t1", "I live in Porto", before, expires_at=PAST)], **owner, session_id="s")
    [braga] = await memory.recall("Where do I live?", **owner, filters=Filters(kind="fact"))
    assert (braga.text, braga.previously) == ("I live in Braga", ())
    await memory.remember([turn("t1", "I live in Porto", before, expires_at=FUTURE)], **owner, session_id="s")
    await memory.remember([turn("t2", "I live in Braga", expires_at=PAST)], **owner, session_id="s")
    found = await memory.recall("Where do I live?", **owner)
    assert not any("Braga" in recollection.prompt_text for recollection in found)


@pytest.mark.slow
@pytest.mark.parametrize(("expires_at", "count"), [(PAST, 0), (FUTURE, 1), (None, 1)])
async def test_what_facts_were_before_is_kept_as_long_as_asked(make, owner, expires_at, count):
    memory = make(*HOMES, functional_predicates=("lives_in",))
    await memory.remember([turn("t1", "I live in Porto", LATELY - timedelta(days=1))], **owner, session_id="s")
    moved = turn("t2", "I live in Braga", revisions_expire_at=expires_at)
    await memory.remember([moved], **owner, session_id="s")
    connection = memory.connection
    await connection.prepare()
    [changed] = await writing.fetch_changed_facts(connection.user(Scope(**owner)))
    assert (changed["text"], len(changed["revisions"])) == ("I live in Porto", count)
    rows = await connection.run_cypher(
        f"MATCH (:{PREFIX}Fact {{scope: $scope}})-[:HAS_REVISION]->(r) RETURN r.expires_at AS at",
        {"scope": Scope(**owner).key},
    )
    assert [row["at"] for row in rows] == [expires_at and expires_at.timestamp()]
    limited = make(revision_ttl="1h").connection
    await limited.run_cypher(
        f"MATCH (r:{PREFIX}Revision {{scope: $scope}}) SET r.recorded_at = datetime($at)",
        {"scope": Scope(**owner).key, "at": LONG_AGO},
    )
    [changed] = await writing.fetch_changed_facts(limited.user(Scope(**owner)))
    assert len(changed["revisions"]) == (1 if expires_at == FUTURE else 0)


# -- sessions, events, state and artifacts ----------------------------------------------------------------------


@pytest.mark.slow
async def test_a_session_expires_by_the_setting_after_its_last_activity(make_sessions, owner):
    sessions, limited = make_sessions(), make_sessions(session_ttl="30d")
    for name, at in (("old", LONG_AGO), ("new", LATELY)):
        await sessions.append_event(await sessions.create_session(**owner, session_id=name), said("Hello", at))
    assert [one.id for one in (await limited.list_sessions(**owner)).sessions] == ["new"]
    assert [one.id for one in (await limited.list_sessions(app_name=owner["app_name"])).sessions] == ["new"]
    assert await limited.get_session(**owner, session_id="old") is None
    assert await sessions.get_session(**owner, session_id="old") is not None
    assert (await limited.create_session(**owner, session_id="old")).events == []


async def test_a_sessions_own_expiry_counts_before_the_setting(make_sessions, owner):
    limited = make_sessions(session_ttl="30d")
    session = await limited.create_session(**owner, session_id="kept", expire_time=FUTURE)
    await limited.append_event(session, said("Hello", LONG_AGO))
    assert await limited.get_session(**owner, session_id="kept") is not None


@pytest.mark.slow
async def test_an_event_expires_in_its_session_by_the_setting(make_sessions, owner):
    sessions, limited = make_sessions(), make_sessions(event_ttl=timedelta(days=30))
    session = await sessions.create_session(**owner, session_id="s")
    for text, at in (("Old", LONG_AGO), ("New", LATELY)):
        await sessions.append_event(session, said(text, at))
    loaded = await limited.get_session(**owner, session_id="s")
    assert [event.content.parts[0].text for event in loaded.events] == ["New"]
    page = await limited.list_events(**owner, session_id="s")
    assert [event.content.parts[0].text for event in page.events] == ["New"]
    await limited.append_event(loaded, said("Newer"))
    assert len((await sessions.get_session(**owner, session_id="s")).events) == 3


async def age_state(sessions: Neo4jSessionService, owner: dict[str, str]) -> None:
    connection = sessions._connection
    await connection.prepare()
    given = {"scope": Scope(**owner).key, "at": LONG_AGO.timestamp()}
    await connection.run_cypher(f"MATCH (u:{PREFIX}User {{scope: $scope}}) SET u.state_time = $at", given)


@pytest.mark.slow
async def test_a_users_state_expires_by_the_setting_and_a_change_brings_none_of_it_back(make_sessions, owner):
    sessions, limited = make_sessions(), make_sessions(user_state_ttl="30d")
    session = await sessions.create_session(**owner, session_id="s", state={"user:name": "Ada", "own": 1})
    assert await limited.get_user_state(**owner) == {"name": "Ada"}
    await age_state(sessions, owner)
    assert await limited.get_user_state(**owner) == {}
    assert (await limited.get_session(**owner, session_id="s")).state == {"own": 1}
    assert [one.state for one in (await limited.list_sessions(**owner)).sessions] == [{"own": 1}]
    assert [one.state for one in (await limited.list_sessions(app_name=owner["app_name"])).sessions] == [{"own": 1}]
    event = said("Call me Bea")
    event.actions.state_delta["user:nick"] = "Bea"
    await limited.append_event(session, event)
    assert await sessions.get_user_state(**owner) == {"nick": "Bea"}
    await age_state(sessions, owner)
    created = await limited.create_session(**owner, state={"user:city": "Porto"})
    assert created.state == {"user:city": "Porto"}


@pytest.mark.slow
async def test_a_version_of_an_artifact_expires_by_the_setting(neo4j_server, owner):
    settings = neo4j_server.settings(label_prefix=PREFIX)
    limited_settings = neo4j_server.settings(label_prefix=PREFIX, artifact_ttl="30d")
    async with (
        Neo4jArtifactService(settings=settings) as artifacts,
        Neo4jArtifactService(settings=limited_settings) as (limited),
    ):
        whose = {**owner, "session_id": "s"}
        for name, versions in (("old.txt", 2), ("mixed.txt", 1)):
            for n in range(versions):
                await artifacts.save_artifact(filename=name, artifact=types.Part(text=f"{name} {n}"), **whose)
        connection = artifacts._connection
        await connection.prepare()
        given = {"scope": Scope(**owner).key, "at": LONG_AGO.timestamp()}
        await connection.run_cypher(
            f"MATCH (v:{PREFIX}ArtifactVersion {{scope: $scope}}) SET v.create_time = $at", given
        )
        await artifacts.save_artifact(filename="mixed.txt", artifact=types.Part(text="new"), **whose)
        assert await limited.list_artifact_keys(**whose) == ["mixed.txt"]
        assert await limited.list_versions(filename="mixed.txt", **whose) == [1]
        assert await limited.load_artifact(filename="old.txt", **whose) is None
        assert await limited.load_artifact(filename="mixed.txt", version=0, **whose) is None
        assert (await limited.load_artifact(filename="mixed.txt", **whose)).text == "new"
        assert [latest.name for latest in await limited.list_latest_versions(**owner)] == ["mixed.txt"]
        assert await artifacts.list_artifact_keys(**whose) == ["mixed.txt", "old.txt"]
    async with GraphMemory(settings=limited_settings, embedder=False, model="rules") as memory:
        receipt = await memory.user(**owner).forget_user(artifacts=True)
        assert (receipt.artifacts, receipt.stays) == (2, {})
        [[left]] = await connection.run_cypher(
            f"MATCH (v:{PREFIX}ArtifactVersion {{scope: $scope}}) RETURN count(v)", given
        )
        assert left == 0


# -- Memory Bank's keys -----------------------------------------------------------------------------------------


@pytest.fixture
def service(make: Make) -> Neo4jMemoryService:
    return Neo4jMemoryService(memory=make())


async def search(service: Neo4jMemoryService, query: str, owner: dict[str, str]) -> dict[str, dict[str, Any]]:
    response = await service.search_memory(query=query, **owner)
    return {found.content.parts[0].text: found.custom_metadata for found in response.memories}


EXPIRED = [{"expire_time": PAST}, {"expire_time": PAST.isoformat()}, {"expire_time": PAST.timestamp()}]
KEPT = [{"ttl": "3600s"}, {"ttl": timedelta(hours=1)}, {"ttl": 3600}, {"expire_time": FUTURE}, {"ttl": None}]


@pytest.mark.slow
@pytest.mark.parametrize("keys", [*EXPIRED, *KEPT], ids=str)
async def test_ttl_and_expire_time_act_on_events_and_entries(service, owner, keys):
    await service.add_events_to_memory(events=[said("Inés keeps bees")], custom_metadata=keys, **owner)
    await service.add_memory(memories=[entry("Rui keeps goats")], custom_metadata=keys, **owner)
    await service.add_memory(memories=[entry("Eva keeps cats", custom_metadata=keys)], **owner)
    found = await search(service, "Who keeps bees, goats or cats?", owner)
    assert set(found) == (set() if keys in EXPIRED else {"Inés keeps bees", "Rui keeps goats", "Eva keeps cats"})


@pytest.mark.slow
async def test_an_entry_that_expired_is_back_when_it_is_added_again(service, owner):
    for keys, count in (({"expire_time": PAST}, 0), ({}, 1), ({"ttl": "1h"}, 1), ({"expire_time": PAST}, 0)):
        await service.add_memory(memories=[entry("Rui keeps goats")], custom_metadata=keys, **owner)
        assert len(await search(service, "goats", owner)) == count


@pytest.mark.slow
async def test_memory_id_names_an_entry(service, owner):
    keys = {"memory_id": "goats"}
    await service.add_memory(memories=[entry("Rui keeps goats", id="other")], custom_metadata=keys, **owner)
    await service.add_memory(memories=[entry("Rui keeps six goats", custom_metadata=keys)], **owner)
    assert set(await search(service, "goats", owner)) == {"Rui keeps six goats"}
    await service.delete_memory(memory_id="goats", **owner)
    assert await search(service, "goats", owner) == {}


async def test_metadata_is_merged_or_replaced(service, owner):
    event, told = said("Inés keeps bees", id="e1"), entry("Rui keeps goats", id="m1")
    given = [
        {"metadata": {"a": {"string_value": "1"}, "b": 2}, "loose": "x"},
        {"metadata": {"b": 3}, "metadata_merge_strategy": "MERGE"},
        {"metadata": {"c": 4}, "metadata_merge_strategy": "OVERWRITE"},
        {"metadata_merge_strategy": "REPLACE"},
    ]
    stored = [{"a": "1", "b": 2, "loose": "x"}, {"a": "1", "b": 3, "loose": "x"}, {"c": 4}, {}]
    for keys, expected in zip(given, stored, strict=True):
        await service.add_events_to_memory(events=[event], session_id="s", custom_metadata=keys, **owner)
        await service.add_memory(memories=[told], custom_metadata=keys, **owner)
        found = await search(service, "Who keeps bees or goats?", owner)
        assert len(found) == 2
        for metadata in found.values():
            assert {key: metadata[key] for key in ("a", "b", "c", "loose") if key in metadata} == expected


async def test_a_topic_is_an_entrys_own(service, owner):
    keys = {"topics": [{"managed_memory_topic": "USER_PREFERENCES"}]}
    await service.add_memory(memories=[entry("Rui likes goats")], custom_metadata=keys, **owner)
    [fact] = [fact async for fact in service.memory.facts(**owner)]
    assert fact.topic == "USER_PREFERENCES"
    assert await texts(service.memory, "goats", owner, filters=Filters(topic="USER_PREFERENCES")) == {"Rui likes goats"}


REFUSED = [
    {"ttl": "soon"},
    {"ttl": -1},
    {"ttl": "1h", "expire_time": FUTURE},
    {"expire_time": "tomorrow"},
    {"expire_time": 1e15},
    {"revision_ttl": "never"},
    {"memory_id": 7},
    {"memory_id": ""},
    {"metadata": "bees"},
    {"metadata_merge_strategy": "REQUIRE_EXACT_MATCH"},
    {"topics": 3},
    {"topics": [{"a": 1, "b": 2}]},
    {"allowed_topics": {"a": 1}},
    {"disable_consolidation": "yes"},
    {"enable_consolidation": 1},
]


@pytest.mark.parametrize("keys", REFUSED, ids=str)
async def test_a_key_that_cannot_act_is_refused_and_nothing_is_stored(service, owner, keys):
    with pytest.raises(InputValidationError):
        await service.add_events_to_memory(events=[said("Inés keeps bees")], custom_metadata=keys, **owner)
    with pytest.raises(InputValidationError):
        await service.add_memory(memories=[entry("Rui keeps goats")], custom_metadata=keys, **owner)
    assert await search(service, "Who keeps bees or goats?", owner) == {}


async def test_what_is_of_one_memory_is_refused_for_several(service, owner):
    with pytest.raises(InputValidationError, match="add_memory"):
        await service.add_events_to_memory(events=[said("Bees")], custom_metadata={"memory_id": "m"}, **owner)
    with pytest.raises(InputValidationError, match="one entry"):
        await service.add_memory(memories=[entry("a"), entry("b")], custom_metadata={"memory_id": "m"}, **owner)
    with pytest.raises(InputValidationError, match="one topic"):
        await service.add_memory(memories=[entry("a")], custom_metadata={"topics": ["x", "y"]}, **owner)


@pytest.mark.parametrize(
    ("keys", "is_consolidated"),
    [
        ({}, None),
        ({"enable_consolidation": True}, True),
        ({"enable_consolidation": False}, False),
        ({"disable_consolidation": True}, False),
        ({"disable_consolidation": False}, True),
    ],
)
def test_whether_to_consolidate_is_handed_on(keys, is_consolidated):
    assert memory_codec.read_options(keys).is_consolidated is is_consolidated


async def test_memory_banks_other_keys_are_kept_as_metadata_with_one_warning(service, owner, caplog):
    memory_codec._warn_inert_key.cache_clear()
    keys = {"wait_for_completion": True, "revision_labels": {"by": "import"}}
    with caplog.at_level(logging.WARNING):
        for n in range(2):
            await service.add_memory(memories=[entry(f"Rui keeps {n} goats")], custom_metadata=keys, **owner)
    warned = [record.getMessage() for record in caplog.records if "configures Memory Bank" in record.getMessage()]
    assert len(warned) == 2
    for metadata in (await search(service, "goats", owner)).values():
        assert {key: metadata[key] for key in keys} == keys


# -- filters ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_search_can_be_filtered_by_metadata(make, owner):
    memory = make(reply("Inés keeps bees"), reply("Rui keeps bees"), "{}")
    given = {"t1": {"source": "hive", "year": 2026, "deep": {"a": [1, None]}}, "t2": {"source": "call", "year": 2026}}
    for (id, metadata), name in zip(given.items(), ("Inés", "Rui"), strict=True):
        await memory.remember([turn(id, f"{name} keeps bees")], **owner, session_id=id, metadata=metadata)
    await memory.user(**owner).add_statements(
        [Statement("Eva keeps bees", LATELY, metadata={"source": "hive", "ok": True})]
    )

    async def search(**metadata: Any) -> set[str]:
        return await texts(memory, "Who keeps bees?", owner, filters=Filters(metadata=metadata))

    assert await search(source="hive") == {"Inés keeps bees", "Eva keeps bees"}
    assert await search(source="hive", year=2026) == {"Inés keeps bees"}
    assert await search(deep={"a": [1, None]}) == {"Inés keeps bees"}
    assert await search(ok=True) == {"Eva keeps bees"}
    assert await search(ok=1) == await search(source="hiv") == await search(hive="source") == set()
    both = await memory.recall("bees", **owner, filters=Filters(metadata={"source": "call"}, kind="fact"))
    assert [(found.text, found.kind) for found in both] == [("Rui keeps bees", "fact")]


@pytest.mark.slow
async def test_the_filter_acts_before_the_limit(make, owner):
    memory = make()
    crowd = [Statement(f"bees bees bees {n}", LATELY, id=str(n)) for n in range(150)]
    wanted = Statement("There is a hive with some bees somewhere", LATELY, metadata={"source": "hive"})
    await memory.user(**owner).add_statements([*crowd, wanted])
    assert await texts(memory, "bees bees", owner, filters=Filters(metadata={"source": "hive"})) == {wanted.text}
    assert await texts(memory, "bees bees", {**owner, "user_id": "bea"}, filters=Filters(metadata={"a": 1})) == set()


@pytest.mark.parametrize("metadata", ["hive", [("a", 1)], {1: "a"}])
def test_a_filter_by_metadata_maps_texts_to_values(metadata):
    with pytest.raises(errors.InvalidArgument):
        Filters(metadata=metadata)
