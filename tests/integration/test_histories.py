"""Why memory holds what it holds, what one ingest wrote, and whether the graph is what the words make of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = {"ref": 1, "name": "user", "type": "person"}
BOB = {"ref": 2, "name": "Bob", "type": "person"}
ROBERT = {"ref": 2, "name": "Robert Lund", "type": "person", "aliases": ["Bob"], "about": "neighbour", "known_id": 1}


def say(text: str, day: int) -> Turn:
    return Turn(f"t{day}", "user", text, NOON + timedelta(days=day))


def make_reply(text: str, quote: str, *entities: dict[str, Any], **fields: Any) -> str:
    fact = {"subject": 1, "predicate": "lives_in", "object": None, "text": text, "quote": quote, "turns": [0], **fields}
    return json.dumps({"entities": [USER, *entities], "facts": [fact]})


MOVE = json.dumps(
    {
        "ops": [
            {
                "fact": 0,
                "op": "SUPERSEDE",
                "targets": [1],
                "quotes": ["I live in Porto", "I live in Faro"],
                "reason": "moved",
            }
        ]
    }
)


@pytest.fixture
async def memory(neo4j_server: Any) -> Any:
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    replies = (
        make_reply("The user lives in Faro", "I live in Faro"),
        make_reply("The user lives in Porto", "I live in Porto"),
        MOVE,
    )
    async with GraphMemory(
        settings=settings, model=ScriptedLlm.from_replies(*replies), embedder=HashEmbedder()
    ) as made:
        yield made


@pytest.fixture
async def owner(memory: GraphMemory, app_name: str) -> dict[str, str]:
    """Whose memory holds a move from Faro to Porto."""
    owner = {"app_name": app_name, "user_id": "ada"}
    await memory.remember([say("I live in Faro", 0)], session_id="s0", **owner)
    await memory.remember([say("I live in Porto", 5)], session_id="s5", **owner)
    return owner


async def find_id(memory: GraphMemory, owner: dict[str, str], text: str) -> str:
    [id] = [fact.id async for fact in memory.facts(**owner, past=True) if text in fact.text]
    return id


@pytest.mark.slow
async def test_history_tells_who_said_what_and_why_it_ended(memory: GraphMemory, owner: dict[str, str]) -> None:
    known = await memory.user(**owner).history(await find_id(memory, owner, "Faro"))
    assert known.fact.state == "superseded"
    said, ended = known.entries
    assert (said.kind, said.quote, said.session_id, said.said_at) == ("said", "I live in Faro", "s0", NOON)
    assert (ended.kind, ended.reason, ended.quote, ended.session_id) == ("ended", "moved", "I live in Porto", "s5")
    assert ended.by.startswith("scripted")
    porto = await memory.user(**owner).history(await find_id(memory, owner, "Porto"))
    assert [(entry.kind, entry.text) for entry in porto.entries][-1] == ("replaced", "The user lives in Faro")


async def test_no_history_of_what_is_another_users(memory: GraphMemory, owner: dict[str, str]) -> None:
    id = await find_id(memory, owner, "Faro")
    with pytest.raises(errors.NotFound, match="adk-graph-memory facts"):
        await memory.user(owner["app_name"], "bea").history(id)
    with pytest.raises(errors.NotFound, match="adk-graph-memory entities"):
        await memory.user(owner["app_name"], "bea").entity("user")
    [entry, *_] = (await memory.user(**owner).history(id)).entries
    with pytest.raises(errors.NotFound):
        await memory.user(owner["app_name"], "bea").undo(entry.ingest_id)
    assert len((await memory.user(**owner).history(id)).entries) == 2


async def test_undo_takes_back_an_ingest_on_which_others_built(memory: GraphMemory, owner: dict[str, str]) -> None:
    [entry, *_] = (await memory.user(**owner).history(await find_id(memory, owner, "Porto"))).entries
    receipt = await memory.user(**owner).undo(entry.ingest_id)
    assert (receipt.events, receipt.facts) == (1, 1)
    [faro] = [fact async for fact in memory.facts(**owner, past=True)]
    assert (faro.text, faro.state, faro.valid_to) == ("The user lives in Faro", "current", None)
    memory_again = ScriptedLlm.from_replies(make_reply("The user lives in Porto", "I live in Porto"), MOVE)
    async with GraphMemory(settings=memory.connection.settings, model=memory_again, embedder=HashEmbedder()) as later:
        report = await later.remember([say("I live in Porto", 5)], session_id="s5", **owner)
        assert report.turns == 1
        assert {fact.state async for fact in later.facts(**owner, past=True)} == {"current", "superseded"}


@pytest.mark.slow
async def test_an_entity_tells_where_its_names_come_from(neo4j_server: Any, app_name: str) -> None:
    owner = {"app_name": app_name, "user_id": "ada"}
    replies = (
        make_reply("The user knows Bob", "I know Bob", BOB, predicate="knows", object=2),
        make_reply("Robert Lund lives next door", "Robert Lund, our Bob, lives next door", ROBERT, subject=2),
    )
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    model = ScriptedLlm.from_replies(*replies, json.dumps({"same": [{"name": 0, "known": 0}]}))
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        await memory.remember([say("I know Bob", 0)], session_id="s0", **owner)
        await memory.remember([say("Robert Lund, our Bob, lives next door", 1)], session_id="s1", **owner)
        known = await memory.user(**owner).entity("robert lund")
        assert {fact.text for fact in known.facts} >= {"Robert Lund lives next door"}
        names = {(entry.kind, entry.text, entry.session_id) for entry in known.entries}
        assert ("named", "Robert Lund (neighbour)", "s1") in names


@pytest.mark.slow
async def test_a_checkup_finds_what_is_not_derived_and_mends_it(memory: GraphMemory, owner: dict[str, str]) -> None:
    scope = Scope(owner["app_name"], "ada")
    connection = memory.connection
    await connection.prepare()
    [healthy] = [one async for one in memory.check_memories(**owner)]
    assert (healthy.facts, healthy.differences, healthy.is_mended) == (2, 0, False)
    await connection.run_cypher(
        f"MATCH (f:{connection.settings.label_prefix}Fact {{scope: $scope}}) SET f.text = 'The user lives on the moon' "
        f"WITH f MATCH (f)-[s:SUPERSEDES]->() DELETE s",
        {"scope": scope.key},
    )
    [ill] = [one async for one in memory.check_memories(**owner)]
    assert ill.differences == 3
    [mended] = [one async for one in memory.check_memories(**owner, mend=True)]
    assert (mended.differences, mended.is_mended) == (3, True)
    assert [one.differences async for one in memory.check_memories(**owner)] == [0]
    assert sorted([fact.text async for fact in memory.facts(**owner, past=True)]) == [
        "The user lives in Faro",
        "The user lives in Porto",
    ]
