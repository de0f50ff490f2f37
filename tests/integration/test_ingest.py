"""Requests to remember, from claim to commit: windows, judgements, what waits, what it cost, what is forgotten."""

from __future__ import annotations

import asyncio
import json
import random
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import neo4j
import pytest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from adk_graph_memory import AsOf, Filters, GraphMemory, Turn, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.application import app
from adk_graph_memory.consolidation.replay import list_known_entities, replay_readings
from adk_graph_memory.graph import candidates, ingest_queue, snapshots, writing
from adk_graph_memory.memory import ingestion
from adk_graph_memory.models import prompts
from adk_graph_memory.records.results import DISPUTE_NOTE
from adk_graph_memory.records.scopes import Scope
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
        made.append(GraphMemory(settings=settings, model=ScriptedLlm.from_replies(*replies), embedder=HashEmbedder()))
        return made[-1]

    yield memory
    for resource in made:
        await resource.close()


def turn(text: str, id: str = "t0", day: int = 0) -> Turn:
    return Turn(id, "user", text, NOON + timedelta(days=day))


def reply(*facts: dict[str, Any], **names: int) -> str:
    entities = [{"ref": ref, "name": name} for name, ref in {"user": 1, **names}.items()]
    given_facts = [{"ref": n, "subject": 1, "predicate": "eats", "turns": [0], **fact} for n, fact in enumerate(facts)]
    return json.dumps({"entities": entities, "facts": given_facts})


def make_fact(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "quote": text, **more}


def list_prompts(memory: GraphMemory) -> list[str]:
    return [request.contents[0].parts[0].text for request in memory.engine.extractor._model.requests]


async def rows(memory: GraphMemory, owner: dict[str, str], query: str) -> list[list[Any]]:
    driver = await memory.connection.get_driver()
    scope = Scope(owner["app_name"], owner["user_id"]).key
    records, _, _ = await driver.execute_query(query.replace("@", PREFIX), scope=scope)
    return [record.values() for record in records]


async def states(memory: GraphMemory, owner: dict[str, str]) -> dict[str, str]:
    return dict(await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.text, f.state"))


VEGAN, STEAK = "I am a vegan", "I eat steak again"
WHY = "No vegan eats steak."
ENDS = json.dumps({"ops": [{"fact": 0, "op": "SUPERSEDE", "targets": [1], "quotes": [STEAK, VEGAN], "reason": WHY}]})


async def changed(make: Make, owner: dict[str, str]) -> GraphMemory:
    """A memory that knows of a change, by a model's decision."""
    memory = make(reply(make_fact(VEGAN)), reply(make_fact(STEAK)), ENDS)
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    report = await memory.remember([turn(STEAK, "t1", 30)], session_id="s2", **owner)
    assert (report.facts, report.usage.calls) == ({"ADD": 1, "SUPERSEDE": 1}, 2)
    return memory


@pytest.mark.slow
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
    memories = await memory.recall("vegan steak", **owner)
    assert STEAK in [result.text for result in memories]
    assert ("fact", VEGAN) not in [(result.kind, result.text) for result in memories]


@pytest.mark.slow
async def test_forgetting_takes_the_words_out_of_revisions_too(make: Make, owner: dict[str, str]) -> None:
    memory = await changed(make, owner)
    await memory.forget([turn(STEAK, "t1").make_memory_id("s2")], **owner)
    everything = await rows(memory, owner, "MATCH (n {scope: $scope}) RETURN properties(n)")
    edges = await rows(memory, owner, "MATCH (n {scope: $scope})-[r]->() RETURN properties(r)")
    assert "steak" not in f"{everything}{edges}".lower()


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, 150])
async def test_a_judgement_costs_one_more_call_and_no_more_transactions(
    make: Make, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    breads = [make_fact(f"I eat bread {n}", turns=[n]) for n in range(1, turns)]
    memory = make(reply(make_fact(VEGAN)), reply(make_fact(STEAK), *breads), ENDS)
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    traffic = Counter[str]()
    for kind, name in ((neo4j.AsyncSession, "begin_transaction"), (neo4j.AsyncTransaction, "run")):
        monkeypatch.setattr(kind, name, counting(getattr(kind, name), traffic, name))
    later_turns = [turn(STEAK, "t1", 30), *[turn(f"I eat bread {n}", f"b{n}", 30) for n in range(1, turns)]]
    report = await memory.remember(later_turns, session_id="s2", **owner)
    assert report.usage.calls == 2
    assert traffic["begin_transaction"] <= 3
    assert traffic["run"] <= 12


def counting(real: Any, traffic: Counter[str], name: str) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        traffic[name] += 1
        return real(*arguments, **named)

    return call


@pytest.mark.slow
async def test_a_window_that_fails_takes_nothing_from_the_others(make: Make, owner: dict[str, str]) -> None:
    turns = [turn("bees " * 400, "t0"), turn("geese " * 400, "t1")]

    def read(request: Any) -> Any:
        if "geese" not in request.contents[0].parts[0].text:
            return OSError("down")
        return reply(make_fact("I keep geese", quote="geese"))

    memory = make(read, read, window_tokens=500)
    with pytest.raises(errors.ModelFailed, match="down"):
        await memory.remember(turns, session_id="s", **owner)
    assert await states(memory, owner) == {"I keep geese": "current"}
    ingest_states = await rows(memory, owner, "MATCH (i:@Ingest {scope: $scope}) RETURN i.state ORDER BY i.state")
    assert ingest_states == [["done"], ["pending"]]
    again = make(reply(make_fact("I keep bees", quote="bees")), '{"ops": []}', window_tokens=500)
    report = await again.remember(turns, session_id="s", **owner)
    assert report.turns == 1
    assert await states(memory, owner) == {"I keep geese": "current", "I keep bees": "current"}


async def test_what_is_pending_is_taken_up_by_anybody(make: Make, owner: dict[str, str]) -> None:
    with pytest.raises(errors.ModelFailed):
        await make(RuntimeError("down")).remember([turn(VEGAN)], session_id="s1", **owner)
    another = make(reply(make_fact(VEGAN)))
    [report] = await another.resume(app_name=owner["app_name"])
    assert report.facts == {"ADD": 1}
    assert await another.resume(app_name=owner["app_name"]) == []


@pytest.mark.parametrize("keeps", [False, True])
async def test_a_fact_whose_quote_nobody_said_is_kept_by_setting_alone(
    make: Make, owner: dict[str, str], keeps: bool
) -> None:
    text = "Ada lives without meat and milk"
    invented = make_fact(text, quote="I am a strict vegan")
    memory = make(reply(invented), reply(make_fact(STEAK)), ENDS, keep_unverified=keeps)
    report = await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    facts = [result for result in await memory.recall("Ada without meat and milk", **owner) if result.kind == "fact"]
    if not keeps:
        assert (facts, report.dropped) == ([], {"quote not in the turns it names": 1})
        return
    assert [(result.text, result.quote, result.is_verified) for result in facts] == [(text, VEGAN, False)]
    await memory.remember([turn(STEAK, "t1", 30)], session_id="s2", **owner)
    assert (await states(memory, owner))[text] == "superseded"


async def test_what_nobody_is_known_to_have_said_ends_nothing(make: Make, owner: dict[str, str]) -> None:
    memory = make(reply(make_fact(VEGAN)), reply(make_fact(STEAK, quote="steak, always")), ENDS, keep_unverified=True)
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    await memory.remember([turn(STEAK, "t1", 30)], session_id="s2", **owner)
    assert await states(memory, owner) == {VEGAN: "current", STEAK: "current"}


@pytest.mark.slow
async def test_what_rests_on_what_ended_is_recalled_as_stale(make: Make, owner: dict[str, str]) -> None:
    soup, text = "I cook without cream", "Ada makes soup without cream"
    rests = make_fact(text, quote=soup, predicate="cooks", turns=[1], depends_on=[0])
    memory = make(reply(make_fact(VEGAN), rests), reply(make_fact(STEAK)), ENDS)
    await memory.remember([turn(VEGAN), turn(soup, "t1")], session_id="s1", **owner)
    await memory.remember([turn(STEAK, "t2", 30)], session_id="s2", **owner)
    [stale] = [result for result in await memory.recall("Ada makes soup", **owner) if result.text == text]
    assert stale.is_stale
    entry = memory_codec.make_memory_entry(stale)
    assert (entry.content.parts[0].text, entry.custom_metadata["stale"]) == (f"{text} (may no longer be so)", True)


MAX_HOPS = 4
"""How far a fact may rest on another for that one's retraction to make it stale."""


def find_stale(bases: dict[int, list[int]], retracted: set[int]) -> set[int]:
    """A model of staleness of its own: whatever has a retracted fact among the bases of its bases, so many deep."""
    stale = set[int]()
    for number in bases:
        level = {number}
        for _ in range(MAX_HOPS):
            level = {base for one in level for base in bases[one]}
            if level & retracted:
                stale.add(number)
    return stale


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_what_rests_on_what_was_taken_back_is_stale(make: Make, owner: dict[str, str], seed: int) -> None:
    chance = random.Random(seed)
    chain = {number: [number - 1] if number else [] for number in range(7)}
    bases = chain | {number: sorted(chance.sample(range(number), 2)) for number in range(7, 12)}
    retracted = {0} if seed == 0 else set(chance.sample(range(12), 2))
    texts = [f"I eat dish {number}" for number in bases]
    facts = [make_fact(texts[number], turns=[number], depends_on=on) for number, on in bases.items()]
    denials = [
        make_fact(f"Not dish {number}", turns=[n], correction=True) for n, number in enumerate(sorted(retracted))
    ]

    def take_back(request: Any) -> str:
        prompt = request.contents[0].parts[0].text
        known = {line["text"]: line for line in prompts.decode_lines(prompt, "known")}
        new = {line["text"]: line["number"] for line in prompts.decode_lines(prompt, "new")}
        ops = [
            {"fact": new[said], "op": "RETRACT", "targets": [known[text]["number"]], "quotes": [said, text]}
            for number in retracted
            for said, text in [(f"Not dish {number}", texts[number])]
        ]
        return json.dumps({"ops": ops})

    memory = make(reply(*facts), reply(*denials), take_back)
    await memory.remember([turn(text, f"t{n}") for n, text in enumerate(texts)], session_id="s1", **owner)
    assert await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) WHERE f.stale RETURN f.text") == []
    turns = [turn(one["text"], f"d{n}", 30) for n, one in enumerate(denials)]
    await memory.remember(turns, session_id="s2", **owner)
    found = await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.text, f.state, f.stale")
    assert {text for text, state, _ in found if state == "retracted"} == {texts[number] for number in retracted}
    stale = find_stale(bases, retracted)
    assert {text for text, _, is_stale in found if is_stale} == {texts[number] for number in stale}
    assert stale - retracted


@pytest.mark.slow
async def test_questions_too_many_for_one_reply_are_asked_in_halves(make: Make, owner: dict[str, str]) -> None:
    cut_off = LlmResponse(
        content=types.Content(parts=[types.Part(text='{"op')]), finish_reason=types.FinishReason.MAX_TOKENS
    )
    soup = "I cook with cream"
    new = reply(make_fact(STEAK), make_fact(soup, turns=[1]))
    memory = make(reply(make_fact(VEGAN)), new, cut_off, ENDS, '{"ops": []}')
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    report = await memory.remember([turn(STEAK, "t1", 30), turn(soup, "t2", 30)], session_id="s2", **owner)
    assert report.usage.calls == 4
    assert (await states(memory, owner))[VEGAN] == "superseded"


async def test_the_judge_reads_the_quote_that_proves_a_wording_and_the_latest(
    make: Make, owner: dict[str, str]
) -> None:
    again = {"text": VEGAN, "quote": "Still, yes"}
    memory = make(reply(make_fact(VEGAN)), reply(again), reply(make_fact(STEAK)), '{"ops": []}')
    for number, text in enumerate((VEGAN, "Still, yes", STEAK)):
        await memory.remember([turn(text, f"t{number}", number)], session_id=f"s{number}", **owner)
    [known] = prompts.decode_lines(list_prompts(memory)[-1], "known")
    assert (known["text"], known["quote"], known["latest_quote"]) == (VEGAN, VEGAN, "Still, yes")


async def test_the_judge_is_told_which_facts_mean_something_alike(make: Make, owner: dict[str, str]) -> None:
    goats, boat, ran_off = "I keep two brown goats", "My boat is red", "My two brown goats ran off"
    told = reply(make_fact(goats, predicate="keeps"), make_fact(boat, predicate="owns", turns=[1]))
    memory = make(told, reply(make_fact(ran_off, predicate="lost")), '{"ops": []}')
    await memory.remember([turn(goats), turn(boat, "t1")], session_id="s1", **owner)
    await memory.remember([turn(ran_off, "t2", 30)], session_id="s2", **owner)
    known = {line["number"]: line["text"] for line in prompts.decode_lines(list_prompts(memory)[-1], "known")}
    [new] = prompts.decode_lines(list_prompts(memory)[-1], "new")
    assert set(known.values()) == {goats, boat}
    assert [known[number] for number in new["alike"]] == [goats]


@pytest.mark.slow
async def test_an_open_plan_is_shown_however_much_was_said_since(make: Make, owner: dict[str, str]) -> None:
    plan = make_fact("I will give up fish", modality="planned", predicate="plans_to")
    since = [make_fact(f"I eat dish {number}") for number in range(50)]
    memory = make(reply(plan), reply(*since), '{"ops": []}', reply(make_fact(STEAK)), '{"ops": []}')
    await memory.remember([turn("I will give up fish")], session_id="s1", **owner)
    await memory.remember([turn(". ".join(fact["text"] for fact in since), "t1", 30)], session_id="s2", **owner)
    await memory.remember([turn(STEAK, "t2", 60)], session_id="s3", **owner)
    known = [line["text"] for line in prompts.decode_lines(list_prompts(memory)[-1], "known")]
    assert "I will give up fish" in known
    assert len(known) < 45


@pytest.mark.slow
async def test_what_is_taken_up_keeps_to_the_topics_it_was_asked_for(make: Make, owner: dict[str, str]) -> None:
    with pytest.raises(errors.ModelFailed):
        memory = make(RuntimeError("down"))
        await memory.remember([turn(VEGAN)], session_id="s1", **owner, allowed_topics=["USER_PREFERENCES"])
    facts = [make_fact(VEGAN, topic="USER_PREFERENCES"), make_fact("a vegan", topic="KEY_CONVERSATION_DETAILS")]
    another = make(reply(*facts))
    [report] = await another.resume(app_name=owner["app_name"])
    assert report.dropped == {"fact of no topic that was asked for": 1}
    assert "KEY_CONVERSATION_DETAILS" not in list_prompts(another)[0]
    assert await rows(another, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.topic") == [["USER_PREFERENCES"]]


async def test_an_unknown_topic_is_refused_before_anything_is_stored(make: Make, owner: dict[str, str]) -> None:
    memory = make()
    with pytest.raises(errors.ConfigurationError, match="BEES"):
        await memory.remember([turn(VEGAN)], session_id="s1", **owner, allowed_topics=["BEES"])
    assert await rows(memory, owner, "MATCH (n {scope: $scope}) RETURN count(n)") == [[0]]


async def test_a_request_whose_turns_another_has_read_is_settled(make: Make, owner: dict[str, str]) -> None:
    with pytest.raises(errors.ModelFailed):
        await make(RuntimeError("down")).remember([turn(VEGAN)], session_id="s1", **owner)
    memory = make(reply(make_fact(VEGAN)))
    await memory.remember([turn(VEGAN), turn("and more", "t1")], session_id="s1", **owner)
    ingest_states = await rows(memory, owner, "MATCH (i:@Ingest {scope: $scope}) RETURN i.state ORDER BY i.state")
    assert ingest_states == [["done"], ["superseded"]]
    assert await memory.resume(app_name=owner["app_name"]) == []


@pytest.mark.slow
async def test_a_plan_made_of_what_is_no_longer_so_is_made_again(
    make: Make, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = make(reply(make_fact(STEAK)), ENDS)
    real, seen = ingestion.fetch_candidates, []

    async def looked_up(*arguments: Any, **named: Any) -> Any:
        result = await real(*arguments, **named)
        if not seen:
            await make(reply(make_fact(VEGAN))).remember([turn(VEGAN, "v")], session_id="s0", **owner)
        seen.append(result)
        return result

    monkeypatch.setattr(ingestion, "fetch_candidates", looked_up)
    await memory.remember([turn(STEAK, "t1", 30)], session_id="s1", **owner)
    assert len(seen) == 3
    assert len(await states(memory, owner)) == 2


async def test_namesakes_are_told_apart_by_what_is_said_of_them(make: Make, owner: dict[str, str]) -> None:
    anton = {"name": "Anton", "type": "person"}
    entities = [{"ref": 1, "about": "brother", **anton}, {"ref": 2, "about": "colleague", **anton}]
    facts = [{"subject": 1, "predicate": "plays", "text": "Anton plays chess", "quote": "chess", "turns": [0]}]
    memory = make(json.dumps({"entities": entities, "facts": facts}))
    await memory.remember([turn("Anton, my brother, plays chess; the other Anton does not")], session_id="s", **owner)
    entity_rows = await rows(memory, owner, "MATCH (n:@Entity {scope: $scope}) RETURN n.name, n.about ORDER BY n.about")
    assert entity_rows == [["user", ""], ["Anton", "brother"], ["Anton", "colleague"]]


@pytest.mark.slow
async def test_who_speaks_is_an_entity_from_the_first_turn(make: Make, owner: dict[str, str]) -> None:
    memory = make(NOTHING, reply(make_fact(VEGAN)))
    turns = [turn("Hello"), Turn("t1", "companion", "Hello!", NOON, role="model")]
    report = await memory.remember(turns, session_id="s", **owner)
    assert report.entities_new == 2
    entity_rows = await rows(memory, owner, "MATCH (n:@Entity {scope: $scope}) RETURN n.name, n.type ORDER BY n.name")
    assert entity_rows == [["companion", "agent"], ["user", "person"]]
    assert (await memory.remember([turn(VEGAN, "t2")], session_id="s", **owner)).entities_new == 0


@pytest.mark.slow
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
    result = await asyncio.to_thread(CliRunner().invoke, app, ["stats", "--app", owner["app_name"], "--json"])
    [entry] = json.loads(result.output)["entries"]
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


@pytest.mark.slow
@hypothesis_settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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


@pytest.mark.slow
async def test_a_request_that_fails_again_holds_up_no_other(make: Make, owner: dict[str, str]) -> None:
    broken = make(RuntimeError("down"), RuntimeError("down"))
    for session_id, text in (("s1", STEAK), ("s2", VEGAN)):
        with pytest.raises(errors.ModelFailed):
            await broken.remember([turn(text)], session_id=session_id, **owner)
    with pytest.raises(errors.ModelFailed, match="still down"):
        await make(RuntimeError("still down"), reply(make_fact(VEGAN))).resume(app_name=owner["app_name"])
    assert await states(broken, owner) == {VEGAN: "current"}
    await make(reply(make_fact(STEAK)), NOTHING).resume(app_name=owner["app_name"])
    assert set(await states(broken, owner)) == {VEGAN, STEAK}


async def test_names_and_mentions_are_written_however_many_statements_they_take(
    make: Make, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ROWS_PER_STATEMENT", 1)
    names = {f"Guest {letter}": ref for ref, letter in enumerate("ABCDE", start=2)}
    facts = [make_fact(f"I eat with {name}", object=ref) for name, ref in names.items()]
    memory = make(reply(*facts, **names))
    await memory.remember([turn(". ".join(fact["text"] for fact in facts))], session_id="s", **owner)
    mentions = (
        "MATCH (:@Event {scope: $scope})-[:MENTIONS]->(n) RETURN n.name, n.created_at IS NOT NULL ORDER BY n.name"
    )
    assert await rows(memory, owner, mentions) == [[name, True] for name in (*names, "user")]
    [checkup] = [one async for one in memory.check_memories(**owner)]
    assert (checkup.unembedded, checkup.differences) == (0, 0)


@pytest.mark.slow
async def test_a_fact_that_an_edited_turn_still_says_stays_one(make: Make, owner: dict[str, str]) -> None:
    memory = make(reply(make_fact(VEGAN)), reply(make_fact(VEGAN)))
    await memory.remember([turn(f"{VEGAN} and a cook")], session_id="s1", **owner)
    [[before]] = await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.id")
    await memory.remember([turn(f"{VEGAN} and a baker")], session_id="s1", **owner)
    fact_rows = await rows(memory, owner, "MATCH (f:@Fact {scope: $scope}) RETURN f.id, f.support, f.state")
    assert fact_rows == [[before, 1, "current"]]


async def test_two_replicas_read_a_queue_once(make: Make, owner: dict[str, str]) -> None:
    replicas = [make(*[NOTHING] * 8) for _ in range(2)]
    for number in range(8):
        text = turn(f"I keep {number} bees.", f"t{number}")
        await replicas[0].user(**owner).enqueue([text], session_id=f"s{number}")
    await asyncio.gather(*(replica.resume(**owner) for replica in replicas))
    assert sum(len(list_prompts(replica)) for replica in replicas) == 8
    states = await rows(replicas[0], owner, "MATCH (i:@Ingest {scope: $scope}) RETURN i.state, count(*)")
    assert states == [["done", 8]]


COUNTS = """MATCH (u:@User {scope: $scope})
RETURN u.writes, COUNT { MATCH (:@Fact {scope: $scope}) },
       COUNT { MATCH (i:@Ingest {scope: $scope}) WHERE i.reading CONTAINS 'herring' }"""


async def test_an_edit_is_written_at_once_and_leaves_none_of_the_former_words(
    make: Make, owner: dict[str, str]
) -> None:
    herring, meat = make_fact("I eat herring"), make_fact(STEAK)
    memory = make(reply(make_fact("I eat figs")), reply(herring, meat), reply(meat))
    memory.engine.judge = None
    await memory.remember([turn("I eat figs.")], session_id="s1", **owner)
    await memory.remember([turn(f"{STEAK}. I eat herring.", day=1)], session_id="s2", **owner)
    assert await rows(memory, owner, COUNTS) == [[2, 3, 1]]
    await memory.remember([turn(f"{STEAK}.", day=1)], session_id="s2", **owner)
    assert await rows(memory, owner, COUNTS) == [[3, 2, 0]]
    assert await states(memory, owner) == {"I eat figs": "current", STEAK: "current"}
    [checkup] = [one async for one in memory.check_memories(**owner)]
    assert (checkup.unread, checkup.unembedded, checkup.differences) == (0, 0, 0)


# -- two who turn out to be one ----------------------------------------------------------------------------------

HELD = """MATCH (n:@Entity {scope: $scope})<-[:SUBJECT]-(f:@Fact) WITH n, f ORDER BY f.text
RETURN n.name, collect(f.text) ORDER BY n.name"""


def about(name: str, text: str, *, aliases: tuple[str, ...] = (), beside: str = "") -> str:
    entities = [{"ref": 1, "name": name, "type": "person", "aliases": aliases}]
    entities += [{"ref": 2, "name": beside, "type": "person"}] if beside else []
    fact = {"subject": 1, "predicate": "states", "text": text, "quote": text, "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact]})


def call(name: str, text: str, aliases: Sequence[str] = ()) -> str:
    """What somebody says who ties the aliases to the name."""
    return f"{name}, called {' and '.join(aliases)}, {text}" if aliases else text


ONE = json.dumps({"same": [{"name": 0, "known": 0}]})


async def merged(make: Make, owner: dict[str, str], *more: str) -> GraphMemory:
    """A memory that knew a Kröte and a Franziska Vogt, and then heard that they are one."""
    told = [("Kröte", "keeps bees", ()), ("Franziska Vogt", "sells honey", ()), ("Franziska Vogt", "swims", ("Kröte",))]
    memory = make(*(about(name, text, aliases=aliases) for name, text, aliases in told), ONE, *more)
    for day, said in enumerate(told):
        await memory.remember([turn(call(*said), day=day)], session_id=f"s{day}", **owner)
    return memory


async def test_two_who_turn_out_to_be_one_are_merged(make: Make, owner: dict[str, str]) -> None:
    memory = await merged(make, owner, about("Kröte", "paints"))
    assert await rows(memory, owner, HELD) == [["Franziska Vogt", ["keeps bees", "sells honey", "swims"]]]
    [[gone, by]] = await rows(
        memory, owner, "MATCH (n:@Entity {scope: $scope})-[m:MERGED_INTO]->() RETURN n.name, m.by"
    )
    assert gone == "Kröte"
    assert by.startswith("scripted consolidate@")
    report = await memory.remember([turn("paints", day=5)], session_id="s5", **owner)
    assert report.entities_new == 0
    assert await rows(memory, owner, HELD) == [["Franziska Vogt", ["keeps bees", "paints", "sells honey", "swims"]]]


@pytest.mark.slow
async def test_among_many_a_name_is_known_by_its_alias_and_its_like(
    make: Make, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ingest_queue, candidates):
        monkeypatch.setattr(module, "MAX_KNOWN_ENTITIES", 1)
    told = [
        ("Franziska Vogt", "keeps bees", ("Kröte",)),
        ("Aino", "swims", ()),
        ("Kröte", "paints", ()),
        ("Dr. Franziska Vogt", "reads", ()),
    ]
    memory = make(*(about(name, text, aliases=aliases) for name, text, aliases in told))
    for day, said in enumerate(told):
        await memory.remember([turn(call(*said), day=day)], session_id=f"s{day}", **owner)
    assert await rows(memory, owner, HELD) == [
        ["Aino", ["swims"]],
        ["Franziska Vogt", ["keeps bees", "paints", "reads"]],
    ]


@pytest.mark.slow
async def test_two_who_bear_one_name_stay_two_if_they_are(make: Make, owner: dict[str, str]) -> None:
    namesakes = make(
        about("Toni", "keeps bees"),
        about("Antonia Weber", "sells honey"),
        about("Antonia Weber", "swims", aliases=("Toni",)),
        '{"same": [{"name": 0, "known": null}]}',
        about("Antonia Weber", "reads", aliases=("Toni",)),
    )
    named = [call("Antonia Weber", text, ("Toni",)) for text in ("swims", "reads")]
    for day, text in enumerate(("keeps bees", "sells honey", *named)):
        await namesakes.remember([turn(text, day=day)], session_id=f"s{day}", **owner)
    assert await rows(namesakes, owner, HELD) == [
        ["Antonia Weber", ["reads", "sells honey", "swims"]],
        ["Toni", ["keeps bees"]],
    ]


@pytest.mark.slow
async def test_two_who_were_merged_by_mistake_part_again(make: Make, owner: dict[str, str]) -> None:
    memory = await merged(make, owner, about("Kröte", "paints", beside="Franziska Vogt"))
    await memory.remember([turn("paints", day=5)], session_id="s5", **owner)
    assert await rows(memory, owner, HELD) == [
        ["Franziska Vogt", ["sells honey", "swims"]],
        ["Kröte", ["keeps bees", "paints"]],
    ]
    entity_rows = await rows(
        memory, owner, "MATCH (n:@Entity {scope: $scope}) RETURN n.name, n.aliases ORDER BY n.name"
    )
    assert entity_rows == [["Franziska Vogt", []], ["Kröte", []], ["user", []]]
    assert await rows(memory, owner, "MATCH ()-[m:MERGED_INTO]->(:@Entity {scope: $scope}) RETURN count(m)") == [[0]]


@pytest.mark.slow
async def test_facts_of_two_who_are_one_become_one(make: Make, owner: dict[str, str]) -> None:
    def said(name: str, *aliases: str) -> str:
        home = {"subject": 1, "predicate": "lives_in", "object": 2, "quote": "in Vigo", "turns": [0]}
        entities = [{"ref": 1, "name": name, "type": "person", "aliases": aliases}, {"ref": 2, "name": "Vigo"}]
        return json.dumps({"entities": entities, "facts": [{**home, "text": "She lives in Vigo."}]})

    memory = make(said("Kröte"), said("Franziska Vogt"), '{"ops": []}', said("Franziska Vogt", "Kröte"), ONE)
    for day, aliases in enumerate(((), (), ("Kröte",))):
        told = turn(call("Franziska Vogt", "in Vigo", aliases), day=day)
        await memory.remember([told], session_id=f"s{day}", **owner)
    fact_rows = await rows(memory, owner, "MATCH (f:@Fact {scope: $scope})-[:SUBJECT]->(n) RETURN n.name, f.support")
    assert fact_rows == [["Franziska Vogt", 3]]


@pytest.mark.slow
async def test_whose_words_they_were_stays_known_if_the_window_that_merges_them_says_them_again(
    make: Make, owner: dict[str, str]
) -> None:
    again = about("Franziska Vogt", "keeps bees", aliases=("Kröte",))
    memory = make(about("Kröte", "keeps bees"), about("Franziska Vogt", "sells honey"), again, ONE)
    for day, said in enumerate(("keeps bees", "sells honey", call("Franziska Vogt", "keeps bees", ("Kröte",)))):
        await memory.remember([turn(said, day=day)], session_id=f"s{day}", **owner)
    query = """MATCH (k:@Entity {scope: $scope, name: 'Kröte'})
    MATCH (f:@Fact {scope: $scope, text: 'keeps bees'})-[r:SUBJECT]->(n) RETURN n.name, f.support, r.was = k.key"""
    assert await rows(memory, owner, query) == [["Franziska Vogt", 2, True]]
    [checkup] = [one async for one in memory.check_memories(**owner)]
    assert (checkup.differences, checkup.findings) == (0, ())


@pytest.mark.slow
async def test_forgetting_all_that_was_said_of_one_takes_the_names_merged_into_it(
    make: Make, owner: dict[str, str]
) -> None:
    memory = await merged(make, owner)
    receipt = await memory.forget([turn("").make_memory_id(f"s{day}") for day in range(3)], **owner)
    assert receipt.entities == 3
    assert await rows(memory, owner, "MATCH (n:@Entity {scope: $scope}) RETURN count(n)") == [[0]]


@pytest.mark.slow
async def test_who_parts_takes_along_what_was_known_of_them(make: Make, owner: dict[str, str]) -> None:
    def home(name: str, city: str, *aliases: str, beside: str = "") -> str:
        entities = [{"ref": 1, "name": name, "type": "person", "aliases": aliases}, {"ref": 2, "name": city}]
        entities += [{"ref": 3, "name": beside, "type": "person"}] if beside else []
        text = f"{name} lives in {city}."
        fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": text, "quote": city, "turns": [0]}
        return json.dumps({"entities": entities, "facts": [fact]})

    replies = (
        about("Anna", "Anna swims"),
        home("Berta", "Lisbon"),
        about("Anna", "Anna is also called Berta", aliases=("Berta",)),
        ONE,
        home("Berta", "Faro", beside="Anna"),
    )
    memory = make(*replies, functional_predicates=("lives_in",))
    said = ("Anna swims", "Lisbon", "Anna is also called Berta", "Faro")
    for day, text in enumerate(said):
        await memory.remember([turn(text, day=day)], session_id=f"s{day}", **owner)
    found = await rows(
        memory,
        owner,
        "MATCH (f:@Fact {scope: $scope, predicate: 'lives_in'})-[:SUBJECT]->(n) RETURN n.name, f.text, f.state "
        "ORDER BY f.text",
    )
    assert found == [["Berta", "Berta lives in Faro.", "current"], ["Berta", "Berta lives in Lisbon.", "superseded"]]


async def test_two_facts_that_are_said_to_end_each_other_leave_one(make: Make, owner: dict[str, str]) -> None:
    circle = reply(make_fact(VEGAN, replaces=[1]), make_fact(STEAK, turns=[1], replaces=[0]))
    memory = make(circle)
    await memory.remember([turn(VEGAN), turn(STEAK, "t1")], session_id="s", **owner)
    assert sorted((await states(memory, owner)).values()) == ["current", "superseded"]


OAK, OAK_TOO, ELM = "I live at Oak Street 5", "My home is Oak St. 5", "I live at Elm Street 7"
UNDECIDED = json.dumps({"ops": []})


async def list_marks(memory: GraphMemory, owner: dict[str, str], **options: Any) -> dict[str, tuple[bool, bool]]:
    """Of each fact whether it holds, and whether it is disputed."""
    facts = memory.facts(past=True, **owner, **options)
    return {fact.text: (fact.holds, fact.is_disputed) async for fact in facts}


async def list_told_marks(memory: GraphMemory, owner: dict[str, str], **options: Any) -> dict[str, bool]:
    """Of each memory that a search finds whether its text for a prompt says that it is disputed."""
    memories = await memory.recall("Where do I live? Oak Street, Oak St. 5", **owner, **options)
    return {memory.text: DISPUTE_NOTE in memory.prompt_text for memory in memories}


async def test_values_that_may_be_the_same_both_hold_and_are_marked_until_one_ends(
    make: Make, owner: dict[str, str], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = [reply(make_fact(text, predicate="address")) for text in (OAK, OAK_TOO, ELM)]
    memory = make(*homes[:2], UNDECIDED, homes[2], functional_predicates=("address",))
    await memory.remember([turn(OAK)], session_id="s0", **owner)
    assert await list_marks(memory, owner) == {OAK: (True, False)}
    await memory.remember([turn(OAK_TOO, day=1)], session_id="s1", **owner)
    marked = await list_marks(memory, owner)
    assert marked == {OAK: (True, True), OAK_TOO: (True, True)}
    assert await list_marks(memory, owner, as_of=AsOf(recorded=datetime.now(UTC))) == marked  # derived again
    assert await list_marks(memory, owner, as_of=AsOf(valid=NOON + timedelta(hours=1))) == {OAK: (True, False)}
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", PREFIX)
    listed = await command("facts", "--app", owner["app_name"], "--user", owner["user_id"])
    assert listed.stdout.count("disputed") == 2
    now = datetime.now(UTC)
    for options in ({}, {"filters": Filters(kind="fact")}, {"as_of": AsOf(recorded=now)}, {"now": now}):
        assert await list_told_marks(memory, owner, **options) == {OAK: True, OAK_TOO: True}
    assert await list_told_marks(memory, owner, now=NOON + timedelta(hours=1)) == {OAK: False}
    profile = await memory.profile(**owner)
    assert [(item.fact.text, DISPUTE_NOTE in item.text) for item in profile.items] == [(OAK_TOO, True)]  # one is enough
    [checkup] = [one async for one in memory.check_memories(app_name=owner["app_name"])]
    assert not checkup.findings
    await memory.remember([turn(ELM, day=2)], session_id="s2", **owner)
    assert await list_marks(memory, owner) == {OAK: (False, False), OAK_TOO: (False, False), ELM: (True, False)}
    assert not any((await list_told_marks(memory, owner)).values())
    assert DISPUTE_NOTE not in (await memory.profile(**owner)).text


@pytest.mark.slow
async def test_a_value_is_disputed_no_more_once_the_other_is_forgotten(make: Make, owner: dict[str, str]) -> None:
    both = [make_fact(text, predicate="address", turns=[n]) for n, text in enumerate((OAK, OAK_TOO))]
    memory = make(
        reply(*both, make_fact("I eat 5 eggs"), make_fact("I eat 5 figs")), functional_predicates=("address",)
    )
    said = [turn(f"{OAK}. I eat 5 eggs. I eat 5 figs"), turn(OAK_TOO, "t1")]
    await memory.remember(said, session_id="s", **owner)
    marks = await list_marks(memory, owner)
    assert {text for text, (_, is_disputed) in marks.items() if is_disputed} == {OAK, OAK_TOO}
    assert len(marks) == 4
    [other] = [fact async for fact in memory.facts(**owner) if fact.text == OAK_TOO]
    await memory.forget(other.id, **owner)
    assert OAK_TOO not in (marks := await list_marks(memory, owner))
    assert set(marks.values()) == {(True, False)}


@pytest.mark.slow
async def test_a_fact_that_was_forgotten_while_it_was_judged_is_asked_about_again(
    make: Make, owner: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = make(reply(make_fact(VEGAN)), reply(make_fact(STEAK)), ENDS)
    await memory.remember([turn(VEGAN)], session_id="s1", **owner)
    decide, forgotten = memory.engine.judge.decide, []

    async def deciding(draft: Any) -> Any:
        decided = await decide(draft)
        forgotten.append(await memory.forget(turn(VEGAN).make_memory_id("s1"), **owner))
        return decided

    monkeypatch.setattr(memory.engine.judge, "decide", deciding)
    await memory.remember([turn(STEAK, "t1", 30)], session_id="s2", **owner)
    assert await states(memory, owner) == {STEAK: "current"}
    assert [receipt.facts for receipt in forgotten] == [1]


DEBT, PLEASE = "I owe Tom 900 euros", "Please do not remember what I owe"
WHOLE_GRAPH = """
MATCH (n) WHERE n.scope = $scope
UNWIND keys(n) AS key
WITH n, key WHERE key <> 'body' AND NOT n:@Ingest
RETURN collect(DISTINCT n[key])
"""


@pytest.mark.slow
async def test_what_its_author_asks_not_to_be_remembered_is_as_if_never_said(make: Make, owner: dict[str, str]) -> None:
    first = reply(make_fact(DEBT, object=2), make_fact("I keep bees", turns=[1]), Tom=2)
    memory = make(first, json.dumps({"forget": [{"request": 0, "turns": [-2, 0]}]}), first)
    await memory.remember([turn(DEBT, "t0"), turn("I keep bees", "t1")], session_id="s", **owner)
    turns = [turn(DEBT, "t0"), turn("I keep bees", "t1"), turn(PLEASE, "t2")]
    report = await memory.remember(turns, session_id="s", **owner)
    assert (report.turns, report.forgotten) == (1, 2)
    assert await states(memory, owner) == {"I keep bees": "current"}
    memories = await memory.recall("What do I owe Tom?", **owner)
    assert not any("Tom" in result.text or "owe" in result.text for result in memories)
    [[properties]] = await rows(memory, owner, WHOLE_GRAPH)
    assert not [value for value in properties if "Tom" in str(value) or "owe" in str(value)]
    again = await memory.remember(turns, session_id="s", **owner)
    assert (again.turns, again.usage.calls) == (0, 0)


async def test_what_is_not_to_be_remembered_is_never_embedded(make: Make, owner: dict[str, str]) -> None:
    memory = make(json.dumps({"forget": [{"request": 1, "turns": [0, 1]}]}))
    seen: list[str] = []
    embedder = memory.engine.vectors.embedder.embedder
    embed = embedder.embed_documents
    embedder.embed_documents = lambda texts: (seen.extend(texts), embed(texts))[1]
    await memory.remember([turn(DEBT, "t0"), turn(PLEASE, "t1"), turn("I keep bees", "t2")], session_id="s", **owner)
    assert seen == ["I keep bees"]


@pytest.mark.slow
async def test_a_turn_that_is_not_plainly_its_authors_word_is_marked(make: Make, owner: dict[str, str]) -> None:
    marks = json.dumps({"turns": [{"turn": 0, "kind": "pasted", "origin": "Bo"}]})
    memory = make(marks, '{"turns": [{"turn": 0, "kind": "joking"}]}')
    query = "MATCH (e:@Event {scope: $scope}) RETURN e.text, e.manner, e.writer ORDER BY e.text"
    await memory.remember([turn("Bo wrote: I quit", "t0"), turn("My cat is Mau", "t1")], session_id="s", **owner)
    assert await rows(memory, owner, query) == [["Bo wrote: I quit", "pasted", "Bo"], ["My cat is Mau", None, None]]
    await memory.remember([turn("Bo quit, ha ha", "t0")], session_id="s", **owner)
    assert (await rows(memory, owner, query))[0] == ["Bo quit, ha ha", "joking", None]


def refuse_poison(request: Any) -> Any:
    prompt = request.contents[0].parts[0].text
    if "poison" in prompt:
        return LlmResponse(error_code="SAFETY")
    bees = [line for line in prompts.decode_lines(prompt, "conversation") if "bees" in line.get("text", "")]
    return reply(*[make_fact("I keep bees", turns=[line["turn"]]) for line in bees])


async def test_a_turn_that_no_model_reads_leaves_the_queue_and_is_told_of_once(
    make: Make, owner: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    memory = make(*[refuse_poison] * 12)
    turns = [turn("I keep bees"), turn("This is poison, from my teacher Zoltan", "t1"), turn("Good night", "t2")]
    report = await memory.remember(turns, session_id="s", **owner)
    assert (report.turns, report.facts) == (3, {"ADD": 1})
    assert report.dropped == {"text that the model could not read": 1}
    assert [record.levelname for record in caplog.records if "could not be read" in record.message] == ["WARNING"]
    assert await memory.resume(app_name=owner["app_name"]) == []
    assert "teacher Zoltan" in (await memory.recall("teacher Zoltan", **owner))[0].text
    [checkup] = [one async for one in memory.check_memories(**owner)]
    assert (checkup.unread, checkup.waiting, checkup.is_ill) == (1, 0, False)
    asked = len(list_prompts(memory))
    await memory.remember([turn("and more", "t3")], session_id="s", **owner)
    assert len(list_prompts(memory)) > asked
    [checkup] = [one async for one in memory.check_memories(**owner)]
    assert (checkup.unread, checkup.waiting) == (1, 0)


@pytest.mark.slow
async def test_what_no_model_could_read_is_read_again_on_request(make: Make, owner: dict[str, str]) -> None:
    memory = make(*[refuse_poison] * 8)
    await memory.remember([turn("Hello"), turn("I eat poison", "t1")], session_id="s", **owner)
    brave = make(reply(make_fact("I eat poison")), '{"ops": []}')
    [session] = [one async for one in brave.outdated_sessions(**owner)]
    assert session.turns == 1
    result = await brave.reextract(session)
    assert await states(brave, owner) == {"I eat poison": "current"}
    assert [one async for one in brave.outdated_sessions(**owner)] == []
    await brave.user(**owner).undo(result.ingest_id)
    assert await states(brave, owner) == {}
    [checkup] = [one async for one in brave.check_memories(**owner)]
    assert (checkup.unread, checkup.differences) == (1, 0)
    again = make(reply(make_fact("I eat poison")), '{"ops": []}')
    edited = [turn("I eat poison.", "t1")]
    await again.remember(edited, session_id="s", **owner)
    [checkup] = [one async for one in again.check_memories(**owner)]
    assert (checkup.unread, checkup.differences) == (0, 0)


@pytest.mark.slow
async def test_a_long_turn_is_one_turn_to_queue_doctor_and_forgetting(make: Make, owner: dict[str, str]) -> None:
    text = "\n\n".join(f"I keep bees{n}. " + "Of that there is more to be said than fits. " * 8 for n in range(40))

    def reply_to_piece(request: Any) -> Any:
        lines = prompts.decode_lines(request.contents[0].parts[0].text, "conversation")
        said = [
            words for line in lines if line.get("turn") == 0 for words in re.findall(r"I keep bees\d+", line["text"])
        ]
        return reply(*map(make_fact, said))

    memory = make(*[reply_to_piece] * 20, window_tokens=500)
    report = await memory.remember([turn("Hello"), turn(text, "t1"), turn("Bye", "t2")], session_id="s", **owner)
    assert (report.turns, report.facts) == (3, {"ADD": 40})
    quotes = await rows(
        memory,
        owner,
        "MATCH (f:@Fact {scope: $scope})-[s:SUPPORTED_BY]->(e) "
        "RETURN f.text, s.quote, substring(e.text, s.start, s.end - s.start)",
    )
    assert len(quotes) == 40 and all(fact == quote == words for fact, quote, words in quotes)
    assert await rows(memory, owner, "MATCH (i:@Ingest {scope: $scope}) RETURN i.state") == [["done"]] * 3
    [checkup] = [one async for one in memory.check_memories(**owner)]
    assert (checkup.differences, checkup.findings, checkup.unread) == (0, (), 0)
    await memory.forget([turn(text, "t1").make_memory_id("s")], **owner)
    assert await states(memory, owner) == {}


async def test_a_model_is_shown_known_entities_with_their_first_facts(make: Make, owner: dict[str, str]) -> None:
    """So that "my brother" is known for Tom; the graph and a replay of the readings show the same ones."""
    told = [f"Tom knits shawl {n}" for n in range(3)]
    first, *later = (reply(make_fact(text, subject=2), Tom=2) for text in told)
    memory = make(first, *chain.from_iterable((one, "{}") for one in later), NOTHING)
    for day, text in enumerate((*told, "My brother called")):
        await memory.remember([turn(text, day=day)], session_id=f"s{day}", **owner)
    [line] = re.findall(r'^\d+: (\{"names": \["Tom"\].*\})$', list_prompts(memory)[-1], re.MULTILINE)
    assert json.loads(line)["facts"] == told[:2]
    snapshot = await snapshots.fetch_snapshot(memory.engine.connection.user(Scope(**owner)))
    replayed = replay_readings(snapshot.readings)
    assert {entity.name: list(entity.facts) for entity in list_known_entities(replayed, 9)}["Tom"] == told[:2]
