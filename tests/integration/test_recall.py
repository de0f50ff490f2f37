"""What a question finds: filters, past and present, explanations, analyzers, and nobody else's memories."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adk_graph_memory import AsOf, Filters, GraphMemory, Neo4jMemoryService, Topic, Turn, Weights, errors
from adk_graph_memory.graph import inspection, listings
from adk_graph_memory.graph.statements import PARAMETER_MAP, RETENTION, compute_retention
from adk_graph_memory.graph.vector_slots import fetch_schema_state
from adk_graph_memory.models import prompts
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

Owner = dict[str, str]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def phone(number: int) -> str:
    return f"My phone number is 555 01{number:02}."


@pytest.fixture
async def memory(neo4j_server, owner: Owner) -> AsyncIterator[GraphMemory]:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash", functional_predicates=("lives_in", "phone_number"))
    statements = ["I live in Porto.", "I keep two goats.", "I moved to Vigo.", "The goats like apples."]
    homes = {statements[0]: "Porto", statements[2]: "Vigo", "I moved to Braga on 10 July 2026.": "Braga"}
    facts = {text: [{"predicate": "states", "text": text}] for text in statements}
    facts |= {text: [{"predicate": "lives_in", "text": text, "object": place}] for text, place in homes.items()}
    facts |= {phone(number): [{"predicate": "phone_number", "text": phone(number)}] for number in range(80)}
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), model=reader(facts)) as made:
        for day, text in enumerate(statements):
            turn = Turn(f"t{day}", "user", text, START + timedelta(days=30 * day))
            await made.remember([turn], session_id=f"s{day}", **owner)
        yield made


async def found(memory: GraphMemory, owner: Owner, query: str, **more: object) -> list[str]:
    return [result.text for result in await memory.recall(query, **owner, **more)]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filters", "texts"),
    [
        (Filters(since=START + timedelta(days=80)), {"The goats like apples."}),
        (Filters(until=START + timedelta(days=10)), {"I live in Porto."}),
        (Filters(session_id="s1"), {"I keep two goats."}),
        (Filters(session_id="nowhere"), set()),
        (Filters(topic="nothing"), set()),
        (Filters(entity="Nobody"), set()),
    ],
)
async def test_a_filter_leaves_only_what_it_names(
    memory: GraphMemory, owner: Owner, filters: Filters, texts: set[str]
) -> None:
    memories = await memory.recall("goats apples Porto Vigo", filters=filters, **owner)
    assert {result.text for result in memories if result.kind == "event"} == texts


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["event", "fact"])
async def test_only_turns_or_only_facts_are_found(memory: GraphMemory, owner: Owner, kind: str) -> None:
    memories = await memory.recall("goats", filters=Filters(kind=kind), **owner)  # type: ignore[arg-type]
    assert {result.kind for result in memories} == {kind}


@pytest.mark.slow
async def test_an_entity_is_found_by_its_name_in_any_case(memory: GraphMemory, owner: Owner) -> None:
    assert set(await found(memory, owner, "live", filters=Filters(entity="vigo"))) == {"I moved to Vigo."}


@pytest.mark.parametrize("name", ["Zoë", "zoe", "ZOE\u0308"])
async def test_whom_a_filter_or_a_listing_names_needs_no_accents(  # type: ignore[no-untyped-def]
    telling, owner: Owner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "PAGE_SIZE", 1)  # all that is known of names comes in pages
    visit = "My friend Zoë came for tea."
    facts = {visit: [{"predicate": "knows", "text": "Ada knows Zoë.", "object": "Zoë"}], PORTO: MOVED[PORTO]}
    async with telling(facts) as memory:
        recalled = await found(memory, owner, "tea in Porto", filters=Filters(entity=name))
        listed = [fact.text async for fact in memory.facts(about=name, **owner)]
        as_of = AsOf(recorded=datetime.now(UTC))
        listed_then = [fact.text async for fact in memory.facts(about=name, as_of=as_of, **owner)]
        shown = [
            entity.name for entity in await inspection.fetch_entities(memory.user(**owner).graph, text=name, limit=9)
        ]
    assert recalled
    assert shown == ["Zoë"]
    assert not any("Porto" in text for text in recalled)
    assert listed == listed_then == ["Ada knows Zoë."]


@pytest.mark.parametrize(
    ("told", "questions"),
    [
        ("Our landlady answers on +43 664 555 0127.", ["+436645550127", "0664 5550127", "0664/555 01 27"]),
        ("Our landlady answers on 06645550127.", ["+43 664 555 0127"]),
        ("I sit in E 07.", ["E07", "Who sits in e-07?"]),
        ("I sit in E07.", ["E 07", "e-07"]),
        ("We fly with OS 87.", ["OS87"]),
        ("The rent goes to AT61 1904 3002 3457 3201.", ["AT611904300234573201"]),
        ("The rent goes to AT611904300234573201.", ["AT61 1904 3002 3457 3201"]),
    ],
)
async def test_a_number_or_a_code_is_found_however_it_is_spelled(  # type: ignore[no-untyped-def]
    neo4j_server, owner: Owner, told: str, questions: list[str]
) -> None:
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=False, model="rules") as memory:
        others = ["We have 2 cats and 87 hens.", "My number is 0664 555 0199.", "Their seat is F 07.", "Rain again."]
        turns = [Turn(f"t{n}", "user", text, START + timedelta(minutes=n)) for n, text in enumerate([told, *others])]
        await memory.remember(turns, session_id="s", **owner)
        for question in questions:
            [best, *_] = await memory.recall(question, **owner)
            assert (question, best.text) == (question, told)
            assert best.score > 0.3


async def test_a_date_in_a_question_finds_what_was_so_that_day(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    said = {3: "My brother called me.", 7: "I bought a red bicycle yesterday.", 15: "I bought new running shoes."}
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), model="rules") as memory:
        turns = [Turn(f"t{day}", "user", text, datetime(2026, 6, day, 9, tzinfo=UTC)) for day, text in said.items()]
        await memory.remember(turns, session_id="s", **owner)
        [best, *_] = await memory.recall("What did I buy on 6 June?", **owner)
        [unknown, *_] = await memory.recall("What did I buy on 3 March?", **owner)
    assert (best.kind, best.text) == ("fact", said[7])
    assert best.score > 2 * unknown.score


async def test_a_topic_leaves_its_facts(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings, topics = (
        neo4j_server.settings(label_prefix="TestHash"),
        [Topic("animals", "pets"), Topic("places", "towns")],
    )
    named = {"subject": 1, "object": None, "turns": [0], "predicate": "states"}
    facts = [
        {**named, "text": "The user keeps goats.", "quote": "I keep goats", "topic": "animals"},
        {**named, "text": "The user is in Porto.", "quote": "in Porto", "topic": "places"},
    ]
    reply = json.dumps({"entities": [{"ref": 1, "name": "user", "type": "person"}], "facts": facts})
    model = ScriptedLlm.from_replies(reply)
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), model=model, topics=topics) as memory:
        await memory.remember([Turn("a", "user", "I keep goats in Porto", START)], session_id="s", **owner)
        assert await found(memory, owner, "goats Porto", filters=Filters(topic="animals")) == ["The user keeps goats."]


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({"since": datetime(2026, 1, 1)}, "no time zone"),
        ({"since": "2026-01-01"}, "no datetime"),
        ({"since": START, "until": START - timedelta(days=1)}, "later than until"),
        ({"kind": "facts"}, "none of fact, event"),
        ({"kind": ["fact"]}, "none of fact, event"),
        ({"topic": ["a"]}, "topic"),
        ({"entity": 5}, "entity"),
    ],
)
def test_a_filter_that_cannot_be_is_named(chosen: dict[str, Any], reason: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=reason):
        Filters(**chosen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"limit": "5"}, "limit='5'"),
        ({"limit": 2.5}, "limit=2.5"),
        ({"limit": -1}, "limit=-1"),
        ({"token_budget": float("inf")}, "token_budget=inf"),
        ({"min_score": "0.3"}, "min_score='0.3'"),
        ({"min_score": float("nan")}, "min_score=nan"),
        ({"first_wait": "soon"}, "first_wait='soon'"),
        ({"first_wait": -1}, "first_wait=-1"),
        ({"first_wait": float("nan")}, "first_wait=nan"),
        ({"now": datetime(2026, 1, 1)}, "no time zone"),
        ({"now": datetime(1, 1, 1, tzinfo=UTC)}, "between the years"),
        ({"now": datetime(2026, 1, 1), "filters": Filters(until=START)}, "no time zone"),
        ({"filters": {"kind": "fact"}}, "Filters"),
    ],
)
async def test_what_cannot_be_wanted_is_named(
    memory: GraphMemory, owner: Owner, wanted: dict[str, Any], reason: str
) -> None:
    with pytest.raises(errors.ConfigurationError, match=reason):
        await memory.recall("goats", **owner, **wanted)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [{"query": "goats"}, {"query": "x", "filters": Filters(entity="\ud83d")}])
async def test_half_a_character_is_no_riddle(memory: GraphMemory, owner: Owner, wanted: dict[str, Any]) -> None:
    if "filters" in wanted:
        with pytest.raises(errors.InvalidUnicode):
            await memory.recall(**wanted, **owner)
    else:
        assert await memory.recall("goats\ud83dapples", **owner)


@pytest.mark.slow
async def test_what_is_so_stands_before_what_was(memory: GraphMemory, owner: Owner) -> None:
    texts = await found(memory, owner, "Where do I live?")
    ahead = next(place for place, text in enumerate(texts) if "Vigo" in text)
    assert all("Porto" not in text for text in texts[:ahead])


@pytest.mark.slow
async def test_a_question_about_the_past_finds_what_is_no_longer_so(memory: GraphMemory, owner: Owner) -> None:
    memories = await memory.recall("Where did I live before?", filters=Filters(kind="fact"), **owner)
    assert [result.is_current for result in memories if "Porto" in result.text] == [False]
    now = await memory.recall("Where do I live?", filters=Filters(kind="fact"), **owner)
    assert [result for result in now if not result.is_current] == []
    assert [result.previously for result in now if "Vigo" in result.text] == [("I live in Porto.",)]


@pytest.mark.slow
async def test_as_of_then_what_ended_later_still_holds(memory: GraphMemory, owner: Owner) -> None:
    then = START + timedelta(days=10)
    memories = await memory.recall("Where do I live?", now=then, **owner)
    assert {result.text for result in memories} == {"I live in Porto."}
    assert all(result.is_current for result in memories)


@pytest.mark.slow
async def test_as_of_then_what_is_told_later_is_not_known_yet(memory: GraphMemory, owner: Owner) -> None:
    late = Turn("late", "user", "I moved to Braga on 10 July 2026.", START + timedelta(days=200))
    await memory.remember([late], session_id="late", **owner)
    memories = await memory.recall("Where do I live?", now=START + timedelta(days=150), **owner)
    homes = [result for result in memories if result.kind == "fact" and "goats" not in result.text]
    assert {result.text for result in homes if result.is_current} == {"I moved to Vigo."}


@pytest.mark.slow
async def test_a_slot_of_many_values_has_one_that_holds(memory: GraphMemory, owner: Owner) -> None:
    for number in range(30):
        turn = Turn(f"n{number}", "user", phone(number), START + timedelta(hours=number))
        await memory.remember([turn], session_id=f"n{number}", **owner)
    [first, *_] = await memory.recall("What is my phone number?", **owner)
    assert "555 0129" in first.text


@pytest.mark.slow
async def test_what_a_search_reads_of_a_slot_grows_with_its_values_alone(memory: GraphMemory, owner: Owner) -> None:
    latest = (
        "MATCH (f:TestHashFact {scope: $scope, predicate: 'phone_number', state: 'current'}) RETURN f.memory_id AS id"
    )
    statement = f"PROFILE {memory.connection.statements['results']}"
    driver = memory.connection.sync_driver

    async def profiled(values: int) -> tuple[list[str], int]:
        turns = [Turn(f"n{n}", "user", phone(n), START + timedelta(hours=n)) for n in range(values)]
        whose = owner | {"user_id": f"caller of {values}"}
        await memory.remember(turns, session_id="n", **whose)
        scope = {"scope": Scope(**whose).key}
        [[id]] = (await asyncio.to_thread(driver.execute_query, latest, scope)).records
        known = {"results": [{"id": id, "fact": None, "score": 1.0}], "until": None, "marks": "", "question_marks": []}
        parameters = {PARAMETER_MAP: scope | known | {RETENTION: compute_retention(memory.connection.settings)}}
        done = await asyncio.to_thread(driver.execute_query, statement, parameters)
        [[results]] = done.records
        return results[0]["previously"], _db_hits(done.summary.profile)

    (_, few), (previously, many) = await profiled(20), await profiled(80)
    assert previously == [phone(78), phone(77), phone(76)]
    assert many - few < 100 * (80 - 20)


def _db_hits(plan: dict[str, Any]) -> int:
    return int(plan["args"]["DbHits"]) + sum(map(_db_hits, plan.get("children", ())))


@pytest.mark.slow
async def test_one_memory_alone_is_as_sure_as_among_many(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=HashEmbedder()) as memory:
        await memory.remember([Turn("a", "user", "The boiler code is 4711", START)], session_id="s", **owner)
        assert await memory.recall("boiler code", min_score=0.28, **owner)


@pytest.mark.slow
@pytest.mark.schema
async def test_a_function_embeds_for_the_retriever_too(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestRecallFunction")
    async with GraphMemory(settings=settings, embedder=_letters) as memory:
        await memory.remember([Turn("a", "user", "The boiler code is 4711", START)], session_id="s", **owner)
        retriever = await memory.user(**owner).make_retriever()
        raw = await asyncio.to_thread(retriever.get_search_results, "boiler")
        assert raw.metadata is not None
        assert raw.metadata["query_vector"] == _letters("boiler")


def _letters(text: str) -> list[float]:
    return [1.0 + text.count(letter) for letter in "abcdefgh"]


async def test_an_own_retrieval_query_may_be_explained(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    query = "RETURN node.text AS text, score, {own: 1} AS metadata"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([Turn("a", "user", "The boiler code is 4711", START)], session_id="s", **owner)
        [first, *_] = await memory.recall("boiler", explain=True, **owner)
        assert (first.shares, first.metadata) == ((), {"own": 1})


@pytest.mark.slow
@pytest.mark.parametrize("column", ["['a'] AS facts", "'2024' AS endings", "'2024' AS valid_from"])
async def test_a_column_that_means_something_else_is_named(neo4j_server, owner: Owner, column: str) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    query = f"RETURN node.text AS text, score, {column}"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([Turn("a", "user", "The boiler code is 4711", START)], session_id="s", **owner)
        with pytest.raises(errors.ConfigurationError, match=r"retrieval_query.*valid_to"):
            await memory.recall("boiler", **owner)


async def test_a_row_without_text_is_named(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    query = "RETURN null AS text, score"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([Turn("a", "user", "The boiler code is 4711", START)], session_id="s", **owner)
        with pytest.raises(errors.ConfigurationError, match="text None"):
            await memory.recall("boiler", **owner)


@pytest.mark.slow
async def test_an_explanation_adds_up(memory: GraphMemory, owner: Owner) -> None:
    plain, explained = [await memory.recall("goats", explain=explain, **owner) for explain in (False, True)]
    assert [one.id for one in plain] == [result.id for result in explained]
    assert [result.shares for result in plain] == [()] * len(plain)
    assert "text" in {share.signal for share in explained[0].shares}
    sums = [sum(share.amount for share in result.shares) for result in explained]
    assert sums == sorted(sums, reverse=True)
    for explained_memory, total in zip(explained, sums, strict=True):
        assert explained_memory.score == pytest.approx(explained[0].score * math.exp((total - sums[0]) / 8))


@pytest.mark.slow
async def test_below_the_least_score_nothing_comes_back(memory: GraphMemory, owner: Owner) -> None:
    scores = [result.score for result in await memory.recall("goats", **owner)]
    assert all(0 < score < 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert await found(memory, owner, "goats", min_score=1.0) == []
    with pytest.raises(errors.ConfigurationError, match="min_score=2"):
        await memory.recall("goats", min_score=2, **owner)


@pytest.mark.slow
async def test_weights_of_ones_own_are_kept_to(neo4j_server, memory: GraphMemory, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    weights = Weights(text=0.0)
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), weights=weights) as other:
        memories = await other.recall("What do the goats like?", explain=True, **owner)
    assert {"vector", "text"} & {share.signal for result in memories for share in result.shares} == {"vector"}


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("我在花园里养了三只蜜蜂", "蜜蜂在哪里？"),
        ("コーヒーは一日二杯までにしている", "コーヒーは何杯？"),
        ("Моя сестра переехала в Одессу", "Куда переехала сестра?"),
        ("Mi hermana se mudó a Vigo", "¿Adónde se mudó mi hermana?"),
    ],
)
async def test_any_script_is_found_by_its_words(neo4j_server, owner: Owner, told: str, question: str) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=False) as memory:
        turns = [Turn("a", "user", told, START), Turn("b", "user", "Something else entirely", START)]
        await memory.remember(turns, session_id="s", **owner)
        assert (await found(memory, owner, question))[0] == told


@pytest.mark.slow
@pytest.mark.schema
async def test_an_analyzer_may_be_added_later(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    hyphenated = "standard-no-stop-words"
    for names in (("english",), ("english", hyphenated), ("english", hyphenated, "russian")):
        settings = neo4j_server.settings(label_prefix=f"Test{owner['app_name'][4:]}", analyzers=names)
        async with GraphMemory(settings=settings, embedder=False) as memory:
            await memory.remember([Turn("a", "user", "Мои сёстры переехали", START)], session_id="s", **owner)
            texts = await found(memory, owner, "сестра переехала")
            assert (await fetch_schema_state(memory.connection)).analyzers == names
    assert texts == ["Мои сёстры переехали"]


async def test_a_short_answer_comes_with_its_question(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    statements = [
        "Noted. And where is the spare key?",
        "Under the blue pot.",
        "Is it raining?",
        "No, " + "it is dry here. " * 9,
    ]
    turns = [Turn(f"t{n}", "user" if n % 2 else "agent", text, START) for n, text in enumerate(statements)]
    async with Neo4jMemoryService(memory=GraphMemory(settings=settings, embedder=HashEmbedder())) as service:
        await service.memory.remember(turns, session_id="s", **owner)
        questions = {
            result.text: result.question for result in await service.memory.recall("blue pot dry spare", **owner)
        }
        assert questions[statements[1]] == "And where is the spare key?"
        assert {questions.get(text) for text in (statements[0], statements[2], statements[3])} == {None}
        entries = (await service.search_memory(query="blue pot", **owner)).memories
        texts = [part.text for entry in entries for part in entry.content.parts or ()]
        assert "(asked: And where is the spare key?) Under the blue pot." in texts


class Longest:
    """Whatever says most is best."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


async def test_a_reranker_orders_what_is_recalled(neo4j_server, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    settings = neo4j_server.settings(label_prefix="TestHash")
    statements = [
        "The boiler code is 4711",
        "The boiler is in the cellar, behind the old shelves",
        "The boiler is loud",
    ]
    turns = [Turn(f"t{n}", "user", text, START) for n, text in enumerate(statements)]
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), reranker=Longest()) as memory:
        await memory.remember(turns, session_id="s", **owner)
        memories = await memory.recall("boiler code", **owner)
    texts = [result.text for result in memories]
    assert texts == sorted(texts, key=len, reverse=True) and len(texts) > 1
    assert [one.score for one in memories] == sorted((result.score for result in memories), reverse=True)


ORDINARY = """
    time year people way day man thing woman life child world school state family student group country problem hand
    part place case week company system program question work government number night point home water room mother
    area money story fact month lot right study book eye job word business issue side kind head house service friend
    father power hour game line end member law car city community name president team minute idea kid body information
    back parent face others level office door health person art war history party result change morning reason research
    girl guy moment air teacher force education foot boy age policy music market sense nation plan college interest
    death experience effect use class control field development role effort rate heart drug show leader light voice wife
    police mind price report decision son view relationship town road arm difference value building action season
"""


@pytest.mark.slow
@pytest.mark.schema
@pytest.mark.parametrize("place", ["the end", pytest.param("the beginning", marks=pytest.mark.full)])
async def test_a_message_of_three_thousand_words_finds_what_it_asks_for(  # type: ignore[no-untyped-def]
    neo4j_server, owner: Owner, place: str
) -> None:
    chance, ordinary = random.Random(1), ORDINARY.split()

    def talk(words: int) -> str:
        return " ".join(f"The {' '.join(chance.choices(ordinary, k=5))}." for _ in range(words // 6))

    settings = neo4j_server.settings(label_prefix="TestRecall")  # how rare a word is goes by the whole store
    texts = [talk(12) for _ in range(300)]
    texts[150] = "I keep bees in two hives behind the barn."
    asked = "And how are my bees doing?"
    message = f"{talk(3_000)} {asked}" if place == "the end" else f"{asked} {talk(3_000)}"
    async with GraphMemory(settings=settings, embedder=False) as memory:
        turns = [Turn(f"t{n}", "user", text, START + timedelta(minutes=n)) for n, text in enumerate(texts)]
        await memory.remember(turns, session_id="s", **owner)
        assert texts[150] in await found(memory, owner, message, limit=20)


# -- a turn is no truer than its facts ---------------------------------------------------------------------------


async def test_a_fact_is_found_by_its_topic_its_predicate_and_the_parts_of_its_words(
    neo4j_server: Any, app_name: str
) -> None:
    owner, text = {"app_name": app_name, "user_id": "ada"}, "Ann keeps vat-y_z 3.5 in Faro."
    model = reader({"In Faro.": [{"predicate": "stored_in", "text": text, "topic": "brewing"}]})
    settings = neo4j_server.settings(label_prefix="TestTyped")
    async with GraphMemory(settings=settings, embedder=False, model=model) as memory:
        await memory.remember([Turn("t0", "user", "In Faro.", START)], session_id="s0", **owner)
        for word in ("brewing", "stored", "y_z", "vat", "Faro"):
            assert text in await found(memory, owner, word), word
        assert await found(memory, owner, "goats") == []


@pytest.mark.parametrize("index", ["index", "scan", "filters"])
@pytest.mark.parametrize("words", ["a model's", "rules'"])
async def test_what_a_model_worded_is_compared_with_the_question_as_typed(
    neo4j_server: Any, app_name: str, words: str, index: str
) -> None:
    """Ann's turn says "I", a model's fact says "Ann": each has the vector of the question in its own person."""
    owner = {"app_name": app_name, "user_id": "ada"}

    def embed(text: str) -> list[float]:
        return [1.0, 0.0, 0.1] if "Ann" in text else [0.0, 1.0, 0.1]

    model = reader({"I keep bees in Faro.": [{"predicate": "keeps", "text": "Ann keeps bees in Faro."}]})
    settings = neo4j_server.settings(label_prefix="TestTyped")
    async with GraphMemory(
        settings=settings, embedder=embed, model=model if words == "a model's" else "rules"
    ) as memory:
        await memory.remember([Turn("t0", "Ann", "I keep bees in Faro.", START)], session_id="s0", **owner)
        retriever = await memory.user(**owner).make_retriever()
        if index == "scan":
            retriever._query_vector_index = lambda parameters, slot: None  # type: ignore[method-assign]  # as without one
        if index == "filters":
            retriever._filters = Filters(session_id="s0")
        question = retriever.parse_question("What does Ann keep?")
        assert (question.first_person_text, question.typed_text) == ("What does I keep?", "What does Ann keep?")
        embedding, retriever.slot, _ = await memory.engine.vectors.embed_question(
            question.first_person_text, question.typed_text
        )
        ranking, row = await asyncio.to_thread(retriever.find_candidates, "What does Ann keep?", question, embedding)
        scores = {candidate.kind: candidate.vector_score for candidate in ranking.candidates}
        assert scores == {"event": pytest.approx(1.0, abs=1e-3), "fact": pytest.approx(1.0, abs=1e-3)}
        assert [candidate.is_model_worded for candidate in ranking.candidates if candidate.kind == "fact"] == [
            words == "a model's"
        ]
        is_model_worded = {is_model for is_model, score in row["usual"] if score > 0.99}
        assert is_model_worded == ({False, True} if words == "a model's" else {False})


def reader(facts: dict[str, list[dict[str, Any]]]) -> ScriptedLlm:
    """Reads of each of these turns these facts about whoever speaks; whatever is asserted ends a plan."""

    def answer(request: Any) -> str:
        prompt = request.contents[0].parts[0].text
        if "<conversation>" not in prompt:
            plans = [line for line in prompts.decode_lines(prompt, "known") if "plans to" in line["text"]]
            targets = {"targets": [plan["number"] for plan in plans], "reason": "done"}
            ops = [
                {
                    "fact": line["number"],
                    "op": "SUPERSEDE",
                    **targets,
                    "quotes": [fact_line["quote"] for fact_line in (line, *plans)],
                }
                for line in prompts.decode_lines(prompt, "new")
                if plans
            ]
            return json.dumps({"ops": ops, "depends": [], "same": []})
        turns = [line for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0]
        named = [(turn, fact) for turn in turns for fact in facts.get(turn["text"], ())]
        names = ["user", *(fact["object"] for _, fact in named if "object" in fact)]
        entities = [{"ref": ref, "name": name, "type": "place" if ref else "person"} for ref, name in enumerate(names)]
        read = [
            {
                "subject": 0,
                "quote": turn["text"],
                "turns": [turn["turn"]],
                "speaker": "user",
                **fact,
                "object": names.index(fact["object"]) if "object" in fact else None,
            }
            for turn, fact in named
        ]
        return json.dumps({"entities": entities, "facts": read})

    return ScriptedLlm.from_replies(*[answer] * 100)


def lives(text: str, **more: Any) -> dict[str, Any]:
    return {"predicate": "lives_in", "text": text, **more}


@pytest.fixture
def telling(neo4j_server, owner: Owner):  # type: ignore[no-untyped-def]
    """A memory that was told these turns, a month apart, and reads these facts in them."""

    @asynccontextmanager
    async def open_memory(facts: dict[str, list[dict[str, Any]]], *others: str) -> AsyncIterator[GraphMemory]:
        settings = neo4j_server.settings(label_prefix="TestHash", functional_predicates=("lives_in", "has_plan"))
        async with GraphMemory(settings=settings, embedder=HashEmbedder(), model=reader(facts)) as made:
            for number, text in enumerate((*facts, *others)):
                turn = Turn(f"t{number}", "user", text, START + timedelta(days=30 * number))
                await made.remember([turn], session_id=f"s{number}", **owner)
            yield made

    return open_memory


PORTO, VIGO = "I live in Porto near the river.", "My new home is Vigo."
MOVED = {PORTO: [lives("Ada lives in Porto.")], VIGO: [lives("Ada lives in Vigo.")]}
TAKEN_BACK = {PORTO: [lives("Ada lives in Porto.")], VIGO: [lives("Ada lives in Vigo.", correction=True)]}


@pytest.mark.slow
@pytest.mark.parametrize(("facts", "told"), [(MOVED, "no longer so"), (TAKEN_BACK, "taken back")])
async def test_a_turn_whose_fact_is_over_says_so_and_stands_behind(  # type: ignore[no-untyped-def]
    telling, owner: Owner, facts: dict[str, list[dict[str, Any]]], told: str
) -> None:
    async with telling(facts) as memory:
        memories = await memory.recall("Where do I live, in Porto near the river?", **owner)
    [place] = [place for place, result in enumerate(memories) if result.text == PORTO]
    assert any("Vigo" in result.text for result in memories[:place])
    assert (memories[place].is_current, memories[place].superseded_by) == (False, ("Ada lives in Vigo.",))
    assert memories[place].prompt_text == f"{PORTO} ({told}; since then: Ada lives in Vigo.)"


@pytest.mark.slow
@pytest.mark.parametrize(("facts", "first"), [(MOVED, "Porto"), (TAKEN_BACK, "Vigo")])
async def test_a_question_about_the_past_finds_what_was_but_not_what_never_was(  # type: ignore[no-untyped-def]
    telling, owner: Owner, facts: dict[str, list[dict[str, Any]]], first: str
) -> None:
    async with telling(facts) as memory:
        memories = await memory.recall("Where did I live before, near the river in Porto?", **owner)
    assert first in memories[0].text


@pytest.mark.slow
@pytest.mark.parametrize(("facts", "earlier"), [(MOVED, ("Ada lives in Porto.",)), (TAKEN_BACK, ())])
async def test_what_was_never_true_is_no_earlier_value(  # type: ignore[no-untyped-def]
    telling, owner: Owner, facts: dict[str, list[dict[str, Any]]], earlier: tuple[str, ...]
) -> None:
    async with telling(facts) as memory:
        found = await memory.recall("Who lives in Vigo?", filters=Filters(kind="fact"), **owner)
    assert {one.text: one.previously for one in found} == {"Ada lives in Vigo.": earlier}


FARO = "Faro is where my bed stands."
MOVED_TWICE = MOVED | {FARO: [lives("Ada lives in Faro.")]}


@pytest.mark.slow
async def test_what_took_the_place_of_what_took_its_place_is_found(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    async with telling(MOVED_TWICE) as memory:
        question, now = "in Porto near the river", START + timedelta(days=45)
        latest, then = [
            {one.text: one for one in await memory.recall(question, now=at, explain=True, **owner)}
            for at in (None, now)
        ]
    assert not {"Ada lives in Faro.", FARO} & then.keys()
    [faro] = {"Ada lives in Faro.", FARO} & latest.keys()
    assert any(share.signal == "successor" for share in latest[faro].shares)
    assert latest[PORTO].superseded_by[0] == "Ada lives in Faro."
    assert then[PORTO].superseded_by == ("Ada lives in Vigo.",)


@pytest.mark.slow
async def test_as_of_then_what_was_taken_back_later_still_holds(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    async with telling(TAKEN_BACK) as memory:
        memories = await memory.recall("Where do I live?", now=START + timedelta(days=10), **owner)
    assert {(result.text, result.is_current, result.superseded_by) for result in memories} <= {
        (PORTO, True, ()),
        ("Ada lives in Porto.", True, ()),
    }


@pytest.mark.slow
async def test_a_turn_of_which_some_is_over_says_what_came_since(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    both = "I live in Porto and I keep two goats."
    goats = {"predicate": "states", "text": "Ada keeps two goats."}
    async with telling({both: [lives("Ada lives in Porto."), goats], VIGO: MOVED[VIGO]}) as memory:
        about_goats = await memory.recall("Who keeps two goats?", **owner)
        about_home = await memory.recall("Where do I live, in Porto?", **owner)
    assert about_goats[0].text in ("Ada keeps two goats.", both)
    assert "Vigo" in about_home[0].text
    marked = [result for result in (*about_goats, *about_home) if result.text == both]
    assert all(result.is_current and result.superseded_by == ("Ada lives in Vigo.",) for result in marked)


@pytest.mark.slow
async def test_a_plan_that_came_true_was_no_earlier_value(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    plan = "I am going to move to Vigo."
    facts = {PORTO: MOVED[PORTO], plan: [lives("Ada plans to live in Vigo.", modality="planned")], VIGO: MOVED[VIGO]}
    async with telling(facts) as memory:
        memories = await memory.recall("Where do I live? In Vigo?", **owner)
        prompt_texts = {
            result.text: result.prompt_text for result in await memory.recall("Did I once plan to move?", **owner)
        }
    [vigo] = [result for result in memories if result.text in ("Ada lives in Vigo.", VIGO) and result.kind == "fact"]
    assert vigo.previously == ("Ada lives in Porto.",)
    assert prompt_texts[plan] == f"{plan} (was planned; since then: Ada lives in Vigo.)"


async def test_a_denial_does_not_read_as_its_opposite(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    denial = "I am not allergic to nuts."
    denied = {"predicate": "allergic_to", "text": "Ada is not allergic to nuts.", "modality": "negated"}
    async with telling({denial: [denied]}) as memory:
        [fact] = await memory.recall("allergic to nuts", filters=Filters(kind="fact"), **owner)
    assert (fact.modality, fact.metadata["predicate"]) == ("negated", "not allergic_to")


@pytest.mark.slow
async def test_a_fact_stands_for_a_turn_that_leaves_out_its_year(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    statement = "The harvest feast of the goats is on 24 October"
    fact = {"predicate": "states", "text": "The harvest feast of the goats is on 24 October 2026."}
    async with telling({statement: [fact], PORTO: [{"predicate": "states", "text": PORTO}]}) as memory:
        feast = await memory.recall("When is the harvest feast of the goats?", **owner)
        home = await memory.recall("Where is home near the river, in Porto?", **owner)
    assert (feast[0].text, feast[0].quote) == (fact["text"], statement)
    assert statement not in [result.text for result in feast]
    assert home[0].text == PORTO


@pytest.mark.slow
async def test_a_question_asked_before_and_i_do_not_know_are_no_answers(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    question = "Where do I live?"
    async with telling(MOVED, question, "I do not know.", "I will remember that.") as memory:
        memories = await memory.recall(question, **owner)
        unheard = await memory.recall("What about my dog?", **owner)
    assert "Vigo" in memories[0].text
    assert not {question, "I do not know.", "I will remember that."} & {result.text for result in (*memories, *unheard)}


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["pasted", "quoted", "joking", "hypothetical"])
async def test_what_is_not_plainly_ones_own_word_counts_less_and_says_so(  # type: ignore[no-untyped-def]
    telling, owner: Owner, manner: str
) -> None:
    sentence = "The goats like green apples most."
    async with telling({}, sentence, sentence) as memory:
        meant = {"scope": Scope(**owner).key, "manner": manner, "by": "Bob"}
        statement = "MATCH (e:TestHashEvent {scope: $scope, session_id: 's1'}) SET e.manner = $manner, e.writer = $by"
        await asyncio.to_thread(memory.connection.sync_driver.execute_query, statement, meant)
        turns = [result for result in await memory.recall("goats like apples", **owner) if result.kind == "event"]
    assert [(result.manner, result.writer) for result in turns] == [(None, None), (manner, "Bob")]
    assert turns[1].prompt_text == f"{sentence} ({manner} from Bob)"


async def test_a_fact_from_words_that_are_not_plainly_ones_own_says_so(telling, owner: Owner) -> None:  # type: ignore[no-untyped-def]
    sentence = "The goats like green apples most."
    async with telling({sentence: [{"predicate": "like", "text": "Goats like apples."}]}) as memory:
        statement = "MATCH (e:TestHashEvent {scope: $scope}) SET e.manner = 'joking'"
        await asyncio.to_thread(memory.connection.sync_driver.execute_query, statement, {"scope": Scope(**owner).key})
        facts = await memory.recall("goats like apples", filters=Filters(kind="fact"), **owner)
    assert [(result.manner, result.writer) for result in facts] == [("joking", None)]
