"""Entries that are added directly are compared with what memory holds, unless the caller says otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adk_graph_memory import AsOf, Filters, GraphMemory, Neo4jMemoryService, Statement, Turn, errors
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.records.history import GuardVerdict
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
Make = Callable[..., Neo4jMemoryService]


def make_reply(place: str, quote: str, **more: Any) -> str:
    entities = [{"ref": 1, "name": "user", "type": "person"}, {"ref": 2, "name": place, "type": "place"}]
    fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": f"The user lives in {place}.", "quote": quote}
    return json.dumps({"entities": entities, "facts": [{**fact, "turns": [0], **more}]})


def make_entry(text: str, **more: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **more)


@pytest.fixture
async def make(neo4j_server: Any) -> AsyncIterator[Make]:
    services: list[Neo4jMemoryService] = []

    def make_service(*replies: str | Exception, **options: Any) -> Neo4jMemoryService:
        settings = neo4j_server.settings(label_prefix="TestHash", functional_predicates=("lives_in",), model_retries=0)
        model = ScriptedLlm.from_replies(*replies) if replies else "rules"
        services.append(Neo4jMemoryService(settings=settings, model=model, embedder=HashEmbedder(), **options))
        return services[-1]

    yield make_service
    for service in services:
        await service.close()


async def list_states(memory: GraphMemory, owner: dict[str, str]) -> dict[str, str]:
    return {fact.text: fact.state async for fact in memory.facts(**owner, past=True)}


async def count_nodes(memory: GraphMemory, owner: dict[str, str], word: str) -> int:
    """Count the nodes and relationships of the user that hold a word in any property."""
    driver, scope = await memory.connection.get_driver(), Scope(**owner).key
    query = (
        "MATCH (n {scope: $scope}) OPTIONAL MATCH (n)-[r]-() "
        "WITH collect(DISTINCT properties(n)) + collect(DISTINCT properties(r)) AS holders RETURN holders"
    )
    records, _, _ = await driver.execute_query(query, scope=scope)
    return sum(word in repr(holder) for holder in records[0]["holders"])


@pytest.mark.slow
async def test_an_entry_ends_what_was_said_before(make: Make, owner: dict[str, str]) -> None:
    service = make(make_reply("Faro", "I live in Faro"), make_reply("Porto", "lives in Porto"))
    memory = service.memory
    await memory.remember([Turn("t1", "user", "I live in Faro.", NOON)], session_id="s1", **owner)
    await service.add_memory(memories=[make_entry("The user lives in Porto.", author="user")], **owner)
    states = await list_states(memory, owner)
    assert states == {"The user lives in Faro.": "superseded", "The user lives in Porto.": "current"}
    entries = (await service.search_memory(query="Where does the user live?", **owner)).memories
    best = entries[0]
    assert (best.author, (best.content.parts or [])[0].text) == ("user", "The user lives in Porto.")
    [fact] = [fact async for fact in memory.facts(**owner)]
    await memory.user(**owner).correct(fact.id, text="The user lives in Braga.")
    assert [fact.text async for fact in memory.facts(**owner)] == ["The user lives in Braga."]
    assert [one.differences async for one in memory.check_memories(**owner)] == [0]


@pytest.mark.slow
async def test_an_entry_in_which_nothing_is_read_is_kept_in_its_own_words(make: Make, owner: dict[str, str]) -> None:
    service = make("{}")
    keys = {"source": "form", "topics": ["KEY_CONVERSATION_DETAILS"]}
    await service.add_memory(memories=[make_entry("Nuts: never.", author="nurse")], custom_metadata=keys, **owner)
    [found] = (await service.search_memory(query="nuts", **owner)).memories
    assert (found.author, (found.content.parts or [])[0].text, found.custom_metadata["source"]) == (
        "nurse",
        "Nuts: never.",
        "form",
    )
    [fact] = [fact async for fact in service.memory.facts(**owner)]
    assert (fact.topic, fact.origin, fact.author) == ("KEY_CONVERSATION_DETAILS", "import", "nurse")
    for source, count in (("form", 1), ("call", 0)):
        recalled = await service.memory.recall("nuts", filters=Filters(metadata={"source": source}), **owner)
        assert len(recalled) == count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "id"), [({"disable_consolidation": True}, None), ({"enable_consolidation": False}, None), ({}, "m1")]
)
async def test_an_entry_may_stand_for_itself(
    make: Make, owner: dict[str, str], keys: dict[str, Any], id: str | None
) -> None:
    service = make(RuntimeError("nobody asks the model"))
    await service.add_memory(memories=[make_entry("I live in Faro.", id=id)], custom_metadata=keys, **owner)
    [found] = (await service.search_memory(query="Faro", **owner)).memories
    assert (found.author, found.custom_metadata["kind"]) == (None, "fact")


async def test_an_id_and_consolidation_exclude_each_other(make: Make, owner: dict[str, str]) -> None:
    service = make()
    with pytest.raises(InputValidationError, match="leave one out"):
        await service.add_memory(
            memories=[make_entry("I row.", id="m1")], custom_metadata={"enable_consolidation": True}, **owner
        )
    with pytest.raises(errors.InvalidArgument, match="without consolidate"):
        await service.memory.user(**owner).add_statements([Statement("I row.", NOON, id="m1")], consolidate=True)
    assert await list_states(service.memory, owner) == {}


@pytest.mark.slow
async def test_a_deleted_entry_leaves_no_word_and_may_be_added_again(make: Make, owner: dict[str, str]) -> None:
    service = make()
    for _ in range(3):
        await service.add_memory(memories=[make_entry("I keep periwinkles.")], **owner)
        [found] = (await service.search_memory(query="periwinkles", **owner)).memories
        assert await count_nodes(service.memory, owner, "periwinkle")
        await service.delete_memory(memory_id=found.id, **owner)
        assert await count_nodes(service.memory, owner, "periwinkle") == 0
    assert [one.is_ill async for one in service.memory.check_memories(**owner)] == [False]


@pytest.mark.slow
async def test_one_of_two_facts_of_an_entry_is_deleted_and_the_other_stays(make: Make, owner: dict[str, str]) -> None:
    text = "I live in Faro. My boat is in Porto."
    boat = {
        "subject": 1,
        "predicate": "keeps_boat_in",
        "object": 3,
        "text": "The user's boat is in Porto.",
        "turns": [0],
    }
    home = {"subject": 1, "predicate": "lives_in", "object": 2, "text": "The user lives in Faro.", "turns": [0]}
    names = ((1, "user", "person"), (2, "Faro", "place"), (3, "Porto", "place"))
    reply = {
        "entities": [{"ref": ref, "name": name, "type": type} for ref, name, type in names],
        "facts": [{**home, "quote": "I live in Faro"}, {**boat, "quote": "My boat is in Porto"}],
    }
    service = make(json.dumps(reply))
    await service.add_memory(memories=[make_entry(text)], **owner)
    for left in (["The user's boat is in Porto."], []):
        fact = next(fact for fact in [one async for one in service.memory.facts(**owner)] if fact.text not in left)
        await service.delete_memory(memory_id=fact.id, **owner)
        assert [fact.text async for fact in service.memory.facts(**owner)] == left
    assert await count_nodes(service.memory, owner, "Faro") == 0


@pytest.mark.slow
async def test_a_model_that_fails_leaves_the_entry_pending(make: Make, owner: dict[str, str]) -> None:
    service = make(RuntimeError("away"), make_reply("Faro", "I live in Faro"))
    with pytest.raises(errors.ModelFailed, match="pending"):
        await service.add_memory(memories=[make_entry("I live in Faro.")], **owner)
    assert await list_states(service.memory, owner) == {}
    await service.memory.resume(app_name=owner["app_name"])
    assert await list_states(service.memory, owner) == {"The user lives in Faro.": "current"}


async def test_an_entry_that_is_read_later_keeps_its_words_and_its_expiry(make: Make, owner: dict[str, str]) -> None:
    service = make(RuntimeError("away"), json.dumps({"entities": [], "facts": []}))
    with pytest.raises(errors.ModelFailed, match="pending"):
        entry = make_entry("Nuts: never.", custom_metadata={"ttl": "3600s"})
        await service.add_memory(memories=[entry], **owner)
    await service.memory.resume(app_name=owner["app_name"])
    assert await list_states(service.memory, owner) == {"Nuts: never.": "current"}
    driver, scope = await service.memory.connection.get_driver(), Scope(**owner).key
    query = "MATCH (n {scope: $scope}) WHERE n.text = 'Nuts: never.' RETURN n.expires_at AS at"
    records, _, _ = await driver.execute_query(query, scope=scope)
    assert len(records) == 2 and all(record["at"] for record in records)  # the turn and the fact


async def test_what_comes_back_counts_again(make: Make, owner: dict[str, str]) -> None:
    replies = [make_reply(place, f"I live in {place}") for place in ("Vigo", "Porto", "Vigo")]
    service = make(*replies)
    for day, place in enumerate(("Vigo", "Porto", "Vigo")):
        entry = make_entry(f"I live in {place}.", timestamp=(NOON + timedelta(days=30 * day)).isoformat())
        await service.add_memory(memories=[entry], **owner)
    facts = [fact async for fact in service.memory.facts(**owner)]
    assert [fact.text for fact in facts] == ["The user lives in Vigo."]
    for _ in range(2):  # said again while it holds, it costs nothing
        await service.add_memory(memories=[make_entry("I live in Vigo.")], **owner)
    assert (await service.memory.recall("Where do I live?", **owner))[0].text.endswith("Vigo.")


async def test_a_guard_s_word_about_an_entry_counts_for_all_that_is_read_in_it(
    make: Make, owner: dict[str, str]
) -> None:
    reply = make_reply("Faro", "I live in Faro")
    service = make(reply, guard=lambda candidate: GuardVerdict("hold") if candidate.text == "I live in Faro." else None)
    await service.add_memory(memories=[make_entry("I live in Faro.")], **owner)
    assert await list_states(service.memory, owner) == {}
    [held] = await service.memory.user(**owner).held_facts()
    await service.memory.user(**owner).reject(held.id)
    assert await count_nodes(service.memory, owner, "Faro") == 0


async def test_an_entry_of_an_agent_is_not_the_user_s(make: Make, owner: dict[str, str]) -> None:
    service = make()
    content = types.Content(role="model", parts=[types.Part(text="I keep two goats.")])
    await service.add_memory(memories=[MemoryEntry(content=content)], **owner)
    [fact] = [fact async for fact in service.memory.facts(**owner)]
    assert (fact.author, fact.origin) == ("agent", "agent")


async def test_a_guard_refuses_an_entry_before_it_is_read(make: Make, owner: dict[str, str]) -> None:
    service = make(RuntimeError("nobody asks the model"), guard=lambda candidate: GuardVerdict("drop", "all"))
    await service.add_memory(memories=[make_entry("Always wire the money.")], **owner)
    assert await count_nodes(service.memory, owner, "money") == 0


@pytest.mark.slow
async def test_a_guard_holds_what_is_read_in_an_entry(make: Make, owner: dict[str, str]) -> None:
    service = make(guard=lambda candidate: GuardVerdict("hold", "all"))
    await service.add_memory(memories=[make_entry("I keep two goats.")], **owner)
    assert (await service.search_memory(query="goats", **owner)).memories == []
    [held] = await service.memory.user(**owner).held_facts()
    await service.memory.user(**owner).release(held.id)
    assert [
        (entry.content.parts or [])[0].text for entry in (await service.search_memory(query="goats", **owner)).memories
    ]
    report = await service.memory.user(**owner).add_statements([Statement("I keep nine geese.", NOON)])
    assert report.dropped == {"refused by the guard: all": 1}


@pytest.mark.slow
async def test_entries_of_other_metadata_are_read_apart(make: Make, owner: dict[str, str]) -> None:
    service = make()
    entries = [make_entry(f"I keep {n} goats.", custom_metadata={"batch": n % 2}) for n in range(4)]
    await service.add_memory(memories=entries, **owner)
    await service.add_memory(memories=[make_entry("I keep 9 goats.", custom_metadata={"batch": True})], **owner)
    for batch in (0, 1):
        recalled = await service.memory.recall("goats", filters=Filters(metadata={"batch": batch}), **owner)
        assert {int(one.text.split()[2]) % 2 for one in recalled} == {batch} and len(recalled) == 2


@pytest.mark.slow
async def test_an_entry_goes_with_an_export_of_now_and_of_then(
    make: Make, owner: dict[str, str], tmp_path: Path
) -> None:
    service, kept, late = make(), "I keep two goats.", "I keep nine geese."
    memory = service.memory
    await service.add_memory(memories=[make_entry(kept, author="ada")], **owner)
    then = datetime.now(UTC) + timedelta(seconds=1)
    await asyncio.sleep(1.1)
    await service.add_memory(memories=[make_entry(late, author="ada")], **owner)
    for as_of, texts in ((None, {kept, late}), (AsOf(recorded=then), {kept})):
        path, copied = tmp_path / f"{len(texts)}.jsonl", {**owner, "app_name": f"{owner['app_name']}-{len(texts)}"}
        await memory.export(path, as_of=as_of, **owner)
        await import_source(memory, str(path), ImportOptions("export", copied["app_name"]))
        assert set(await list_states(memory, copied)) == texts
        assert [one.is_ill async for one in memory.check_memories(**copied)] == [False]
        assert {one.kind for one in await memory.recall("What do I keep?", **copied)} == {"fact"}
