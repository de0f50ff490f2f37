"""Requests to remember, from claim to commit: windows, judgements, what waits, what it cost, what is forgotten."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import neo4j
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from adk_graph_memory import GraphMemory, Turn, cli, errors, graph
from adk_graph_memory.records import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NOTHING = '{"entities": [], "facts": []}'
PREFIX = "TestHash"
Make = Callable[..., GraphMemory]


@pytest.fixture
async def make(neo4j_server: Any) -> AsyncIterator[Make]:
    made: list[GraphMemory] = []

    def memory(*replies: Any, **chosen: Any) -> GraphMemory:
        settings = neo4j_server.settings(**{"label_prefix": PREFIX, "model_retries": 0, **chosen})
        made.append(GraphMemory(settings=settings, model=ScriptedLlm.of(*replies), embedder=HashEmbedder()))
        return made[-1]

    yield memory
    for one in made:
        await one.close()


@pytest.fixture
def owner(app_name: str) -> dict[str, str]:
    return {"app_name": app_name, "user_id": "ada"}


def turn(text: str, id: str = "t0", day: int = 0) -> Turn:
    return Turn(id, "user", text, NOON + timedelta(days=day))


def reply(*facts: dict[str, Any], **names: int) -> str:
    entities = [{"ref": ref, "name": name} for name, ref in {"user": 1, **names}.items()]
    given_facts = [{"ref": n, "subject": 1, "predicate": "eats", "turns": [0], **fact} for n, fact in enumerate(facts)]
    return json.dumps({"entities": entities, "facts": given_facts})


def told(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "quote": text, **more}


def asked(memory: GraphMemory) -> list[str]:
    return [request.contents[0].parts[0].text for request in memory.extractor._model.requests]


async def rows(memory: GraphMemory, owner: dict[str, str], query: str) -> list[list[Any]]:
    driver = await memory.connection.driver()
    scope = Scope(owner["app_name"], owner["user_id"]).key
    records, _, _ = await driver.execute_query(query.replace("@", PREFIX), scope=scope)
    return [record.values() for record in records]


async def states(memory: GraphMemory, owner: dict[str, str]) -> dict[str, str]:
    return dict(await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.text, f.state"))


VEGAN, STEAK = "I am a vegan", "I eat steak again"
WHY = "No vegan eats steak."
ENDS = json.dumps({"ops": [{"fact": 0, "op": "SUPERSEDE", "targets": [1], "reason": WHY}]})


async def changed(make: Make, owner: dict[str, str]) -> GraphMemory:
    """A memory that knows of a change, by a model's decision; whichever number the new fact has."""

    def decided(request: Any) -> str:
        first = request.contents[0].parts[0].text.rpartition("<facts>\n")[2].splitlines()[0]
        new, old = (0, 1) if json.loads(first)["new"] else (1, 0)
        op = {"fact": new, "op": "SUPERSEDE", "targets": [old], "reason": WHY}
        return json.dumps({"ops": [op]})

    memory = make(reply(told(VEGAN)), reply(told(STEAK)), decided)
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    report = await memory.remember([turn(STEAK, "t1", 30)], session_id="s2", **owner)
    assert (report.facts, report.usage.calls) == ({"ADD": 1, "SUPERSEDE": 1}, 2)
    return memory


async def test_a_model_decides_what_ended_and_the_change_can_be_read(make: Make, owner: dict[str, str]) -> None:
    memory = await changed(make, owner)
    assert await states(memory, owner) == {VEGAN: "superseded", STEAK: "current"}
    [[until, op, reason, by, quote]] = await rows(
        memory,
        owner,
        "MATCH (f:@Fact {scope: $scope, text: 'I am a vegan'})-[:HAS_REVISION]->(r)-[b:BECAUSE_OF]->(e) "
        "RETURN f.valid_to, r.op, r.reason, r.by, substring(e.text, b.start, b.end - b.start)",
    )
    assert until.to_native() == NOON + timedelta(days=30)
    assert (op, reason, quote) == ("SUPERSEDE", WHY, STEAK)
    assert by.startswith("scripted consolidate@")


async def test_what_ended_is_no_longer_recalled_as_a_fact(make: Make, owner: dict[str, str]) -> None:
    memory = await changed(make, owner)
    found = await memory.recall("vegan steak", **owner)
    assert STEAK in [one.text for one in found]
    assert ("fact", VEGAN) not in [(one.kind, one.text) for one in found]


async def test_forgetting_takes_the_words_out_of_revisions_too(make: Make, owner: dict[str, str]) -> None:
    memory = await changed(make, owner)
    await memory.forget([turn(STEAK, "t1").memory_id("s2")], **owner)
    everything = await rows(memory, owner, "MATCH (n {scope: $scope}) RETURN properties(n)")
    edges = await rows(memory, owner, "MATCH (n {scope: $scope})-[r]->() RETURN properties(r)")
    assert "steak" not in f"{everything}{edges}".lower()


@pytest.mark.parametrize("turns", [1, 150])
async def test_a_judgement_costs_one_more_call_and_no_more_transactions(
    make: Make, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    breads = [told(f"I eat bread {n}", turns=[n]) for n in range(1, turns)]
    memory = make(reply(told(VEGAN)), reply(told(STEAK), *breads), ENDS)
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    traffic = Counter[str]()
    for kind, name in ((neo4j.AsyncSession, "begin_transaction"), (neo4j.AsyncTransaction, "run")):
        monkeypatch.setattr(kind, name, counting(getattr(kind, name), traffic, name))
    said = [turn(STEAK, "t1", 30), *[turn(f"I eat bread {n}", f"b{n}", 30) for n in range(1, turns)]]
    report = await memory.remember(said, session_id="s2", **owner)
    assert report.usage.calls == 2
    assert traffic["begin_transaction"] <= 3
    assert traffic["run"] <= 12


def counting(real: Any, traffic: Counter[str], name: str) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        traffic[name] += 1
        return real(*arguments, **named)

    return call


async def test_a_window_that_fails_takes_nothing_from_the_others(make: Make, owner: dict[str, str]) -> None:
    said = [turn("bees " * 400, "t0"), turn("geese " * 400, "t1")]

    def read(request: Any) -> Any:
        if "geese" not in request.contents[0].parts[0].text:
            return OSError("down")
        return reply(told("I keep geese", quote="geese"))

    memory = make(read, read, window_tokens=500)
    with pytest.raises(errors.ModelFailed, match="down"):
        await memory.remember(said, session_id="s", **owner)
    assert await states(memory, owner) == {"I keep geese": "current"}
    found = await rows(memory, owner, "MATCH (i:@Ingest {scope: $scope}) RETURN i.state ORDER BY i.state")
    assert found == [["done"], ["pending"]]
    again = make(reply(told("I keep bees", quote="bees")), '{"ops": []}', window_tokens=500)
    report = await again.remember(said, session_id="s", **owner)
    assert report.turns == 1
    assert await states(memory, owner) == {"I keep geese": "current", "I keep bees": "current"}


async def test_what_is_pending_is_taken_up_by_anybody(make: Make, owner: dict[str, str]) -> None:
    with pytest.raises(errors.ModelFailed):
        await make(RuntimeError("down")).remember([turn(VEGAN)], session_id="s1", **owner)
    another = make(reply(told(VEGAN)))
    [report] = await another.resume(app_name=owner["app_name"])
    assert report.facts == {"ADD": 1}
    assert await another.resume(app_name=owner["app_name"]) == []


async def test_a_request_whose_turns_another_has_read_is_settled(make: Make, owner: dict[str, str]) -> None:
    with pytest.raises(errors.ModelFailed):
        await make(RuntimeError("down")).remember([turn(VEGAN)], session_id="s1", **owner)
    memory = make(reply(told(VEGAN)))
    await memory.remember([turn(VEGAN), turn("and more", "t1")], session_id="s1", **owner)
    found = await rows(memory, owner, "MATCH (i:@Ingest {scope: $scope}) RETURN i.state ORDER BY i.state")
    assert found == [["done"], ["superseded"]]
    assert await memory.resume(app_name=owner["app_name"]) == []


async def test_a_plan_made_of_what_is_no_longer_so_is_made_again(
    make: Make, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = make(reply(told(STEAK)), ENDS)
    real, seen = graph.candidates.looked_up, []

    async def looked_up(*arguments: Any, **named: Any) -> Any:
        found = await real(*arguments, **named)
        if not seen:
            await make(reply(told(VEGAN))).remember([turn(VEGAN, "v")], session_id="s0", **owner)
        seen.append(found)
        return found

    monkeypatch.setattr(graph.candidates, "looked_up", looked_up)
    await memory.remember([turn(STEAK, "t1", 30)], session_id="s1", **owner)
    assert len(seen) == 3
    assert len(await states(memory, owner)) == 2


async def test_namesakes_are_told_apart_by_what_is_said_of_them(make: Make, owner: dict[str, str]) -> None:
    anton = {"name": "Anton", "type": "person"}
    entities = [{"ref": 1, "about": "brother", **anton}, {"ref": 2, "about": "colleague", **anton}]
    facts = [{"subject": 1, "predicate": "plays", "text": "Anton plays chess", "quote": "chess", "turns": [0]}]
    memory = make(json.dumps({"entities": entities, "facts": facts}))
    await memory.remember([turn("Anton, my brother, plays chess; the other Anton does not")], session_id="s", **owner)
    found = await rows(memory, owner, "MATCH (n:@Entity {scope: $scope}) RETURN n.name, n.about ORDER BY n.about")
    assert found == [["Anton", "brother"], ["Anton", "colleague"]]


async def test_stats_sum_up_what_remembering_came_to(
    make: Make, owner: dict[str, str], neo4j_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = make(NOTHING, NOTHING)
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    await memory.remember([turn(STEAK, "t1")], session_id="s2", **owner)
    for name, value in {
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_USERNAME": neo4j_server.auth[0],
        "NEO4J_PASSWORD": neo4j_server.auth[1],
        "ADK_GRAPH_MEMORY_LABEL_PREFIX": PREFIX,
        "ADK_GRAPH_MEMORY_PRICES": '[["scripted", 1, 2, 0.5]]',
    }.items():
        monkeypatch.setenv(name, value)
    result = await asyncio.to_thread(CliRunner().invoke, cli.app, ["stats", "--app", owner["app_name"], "--json"])
    [entry] = json.loads(result.output)
    assert (entry["user_id"], entry["ingests"]) == ("ada", 2)
    assert (entry["report"]["turns"], entry["report"]["usage"]["calls"]) == (2, 2)
    assert entry["cost"] == 0.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**6) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
FACT = st.fixed_dictionaries(
    {},
    optional={
        "ref": st.integers(-1, 3) | JSON,
        "subject": st.integers(-1, 3) | JSON,
        "predicate": st.sampled_from(["eats", "", "lives in"]) | JSON,
        "object": st.integers(-1, 3) | JSON,
        "text": st.sampled_from([VEGAN, STEAK, ""]) | JSON,
        "quote": st.sampled_from([VEGAN, "vegan", "nobody said this", ""]) | JSON,
        "turns": st.lists(st.integers(-2, 3), max_size=3) | JSON,
        "modality": st.sampled_from(["asserted", "negated", "maybe"]) | JSON,
        "valid_from": st.sampled_from(["2024", "2024-13", "yesterday", "9999-12"]) | JSON,
        "valid_to": st.sampled_from(["2024", "2024-13", "yesterday", "9999-12"]) | JSON,
        "replaces": st.lists(st.integers(-1, 3), max_size=3) | JSON,
        "correction": st.booleans() | JSON,
        "depends_on": st.lists(st.integers(-1, 3), max_size=3) | JSON,
    },
)
NAME = st.sampled_from(["user", "Anton", ""])
ENTITY = st.fixed_dictionaries({}, optional={"ref": st.integers(-1, 3) | JSON, "name": NAME | JSON, "known_id": JSON})
LISTS = {"entities": st.lists(ENTITY, max_size=4), "facts": st.lists(FACT, max_size=4)}
REPLY = st.one_of(
    st.text(max_size=40),
    JSON.map(json.dumps),
    st.fixed_dictionaries(LISTS).map(json.dumps),
)


@hypothesis_settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(first=REPLY, second=REPLY, third=REPLY, cut=st.integers(0, 60))
async def test_whatever_a_model_replies_no_session_is_lost_and_no_fact_is_without_words(
    make: Make, first: str, second: str, third: str, cut: int
) -> None:
    owner = {"app_name": f"fuzz-{uuid.uuid4().hex}", "user_id": "ada"}
    memory = make(first[: len(first) - cut] if cut < 20 else first, second, third, third, third, third)
    for number in range(2):
        try:
            await memory.remember([turn(f"{VEGAN} {number}", f"t{number}")], session_id="s", **owner)
        except errors.ModelError:
            pending = "MATCH (i:@Ingest {scope: $scope, state: 'pending'}) RETURN count(i)"
            assert await rows(memory, owner, pending) != [[0]]
    bare = "MATCH (f:@Fact {scope: $scope}) WHERE NOT (f)-[:SUPPORTED_BY]->() RETURN count(f)"
    assert await rows(memory, owner, bare) == [[0]]
    kept = await rows(memory, owner, "MATCH (e:@Event {scope: $scope}) RETURN count(e)")
    assert kept == [[2]]


async def test_a_fact_that_an_edited_turn_still_says_stays_one(make: Make, owner: dict[str, str]) -> None:
    memory = make(reply(told(VEGAN)), reply(told(VEGAN)))
    await memory.remember([turn(f"{VEGAN} and a cook")], session_id="s1", **owner)
    [[before]] = await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.id")
    await memory.remember([turn(f"{VEGAN} and a baker")], session_id="s1", **owner)
    found = await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.id, f.support, f.state")
    assert found == [[before, 1, "current"]]
