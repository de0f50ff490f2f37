"""What callers get wrong is named at once, loses nothing and leaves nothing half done."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from neo4j_graphrag.exceptions import SearchValidationError
from typer.testing import CliRunner

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.cli.application import app
from adk_graph_memory.extraction import rules
from adk_graph_memory.graph import ingest_queue, writing
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT
from adk_graph_memory.memory import ingestion
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Statement
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOW = datetime(2025, 5, 1, 12, tzinfo=UTC)
EMPTY = '{"entities": [], "facts": []}'


@pytest.fixture
async def memory(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=HashEmbedder()) as memory:
        yield memory


def turn(text: str, id: str = "t1") -> Turn:
    return Turn(id, author="user", text=text, at=NOW)


def owner(app_name: str) -> dict[str, Any]:
    return {"app_name": app_name, "user_id": "ann"}


async def test_metadata_whose_keys_are_no_text_is_refused_and_recall_goes_on(memory, app_name):
    with pytest.raises(errors.ConfigurationError, match="keys have to be text"):
        await memory.remember([turn("I keep bees in here")], session_id="s", metadata={1: "x"}, **owner(app_name))
    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    assert await memory.recall("bees", **owner(app_name))


@pytest.mark.slow
async def test_metadata_may_hold_dates(memory, app_name):
    await memory.remember([turn("I keep bees in here")], session_id="s", metadata={"seen": NOW}, **owner(app_name))
    found = await memory.recall("bees", **owner(app_name))
    assert [one.metadata["seen"] for one in found if one.kind == "event"] in ([], ["2025-05-01T12:00:00Z"])


@pytest.mark.slow
async def test_a_failure_that_cannot_be_written_down_as_it_is_still_frees_the_claim(neo4j_server, app_name):
    model = ScriptedLlm.from_replies(RuntimeError("bo\ud800om"), EMPTY)
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        with pytest.raises(errors.ModelFailed):
            await memory.remember([turn("I keep bees")], session_id="s", **owner(app_name))
        report = await memory.remember([turn("I keep bees")], session_id="s", **owner(app_name))
        assert (report.turns, report.busy) == (1, 0)


@pytest.mark.slow
async def test_sessions_that_say_the_same_at_once_make_one_fact(memory, app_name):
    await memory.prepare()
    await asyncio.gather(
        *(
            memory.remember([turn("I keep bees in the garden.", f"t{n}")], session_id=f"s{n}", **owner(app_name))
            for n in range(4)
        )
    )
    counts = await writing.count_memories(memory.connection.user(Scope(app_name, "ann")))
    assert (counts["facts"], counts["turns"]) == (1, 4)


async def test_a_limit_of_none_at_all_finds_nothing_and_a_negative_one_is_refused(memory, app_name):
    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    assert await memory.recall("bees", limit=0, **owner(app_name)) == []
    assert await memory.recall("bees", token_budget=0, **owner(app_name)) == []
    with pytest.raises(errors.ConfigurationError, match="limit=-1"):
        await memory.recall("bees", limit=-1, **owner(app_name))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Turn, Statement])
def test_a_time_without_a_zone_is_refused(kind):
    with pytest.raises(errors.ConfigurationError, match="no time zone"):
        if kind is Turn:
            Turn("t", author="user", text="x", at=datetime(2025, 5, 1))
        else:
            Statement("x", at=datetime(2025, 5, 1))


async def test_one_id_is_forgotten_as_well_as_a_list(memory, app_name):
    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    [found] = await memory.recall("bees", **owner(app_name))
    receipt = await memory.forget(found.id, **owner(app_name))
    assert receipt.facts + receipt.events >= 1


class ScalingEmbedder(HashEmbedder):
    """HashEmbedder's vectors, of another length."""

    embedder_name = "adk_graph_memory.testing.HashEmbedder:hash-64"

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[self.factor * number for number in vector] for vector in super().embed_documents(texts)]


@pytest.mark.slow
async def test_an_embedder_that_gives_only_zeros_leaves_the_search_to_full_text(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=ScalingEmbedder(0.0)) as memory:
        report = await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        assert report.unembedded > 0
        [found, *_] = await memory.recall("bees", **owner(app_name))
        assert found.degraded


@asynccontextmanager
async def memory_that_traverses(neo4j_server, app_name, query):
    """A memory with a retrieval query of its caller's, in which one thing was said."""
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        yield memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("RETURN node.memory_id AS id, score", "returns no text"),
        ("RETURN node.memory_id AS id", "returns no score and no text"),
        ("RETRUN node.text AS text, score", "RETRUN"),
        ("RETURN nobody.text AS text, score", "nobody"),
        ("SET node.text = '' RETURN node.text AS text, score", "only read"),
        ("CALL db.createLabel('X') RETURN node.text AS text, score", "only read"),
        ("LOAD CSV FROM 'file:///etc/hostname' AS line RETURN line[0] AS text, score", "LOAD CSV"),
        ("CALL () { load /**/ csv FROM 'http://a/' AS line RETURN line } RETURN line[0] AS text, score", "LOAD CSV"),
        ("RETURN head(COLLECT { LOAD CSV FROM 'file:///x' AS line RETURN line[0] }) AS text, score", "LOAD CSV"),
        ("RETURN node.text AS text, score UNION LOAD CSV FROM 'x' AS l RETURN l[0] AS text, 1 AS score", "LOAD CSV"),
        ("CALL db.stats.clear('QUERIES') YIELD section RETURN section AS text, score", "db.stats.clear"),
        ("CALL `dbms`.`listConfig`() YIELD name RETURN name AS text, score", "only read"),
        ("RETURN head(COLLECT { CALL db.stats.stop('x') YIELD data RETURN data }) AS text, score", "db.stats.stop"),
    ],
)
async def test_a_retrieval_query_that_cannot_be_is_refused_before_it_runs(neo4j_server, app_name, query, reason):
    async with memory_that_traverses(neo4j_server, app_name, query) as memory:
        for asked in (memory.user(**owner(app_name)).make_retriever(), memory.recall("bees", **owner(app_name))):
            with pytest.raises(errors.ConfigurationError, match=f"(?s)retrieval_query.*{reason}"):
                await asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "sees_others"),
    [
        ("RETURN node.text AS text, score", False),
        ("OPTIONAL MATCH (node)-[:SUPPORTED_BY]->(turn) RETURN coalesce(turn.text, node.text) AS text, score", False),
        ("RETURN head(COLLECT { MATCH (node)-[:NEXT]->(turn) RETURN turn.text }) AS text, score", False),
        ("MATCH (other:TestHashMemory {scope: $scope}) RETURN other.text AS text, score", False),
        (
            "MATCH (a:TestHashEvent {scope: $scope}) MATCH (b:TestHashFact) WHERE b.scope = $scope "
            "RETURN a.text + b.text AS text, score",
            False,
        ),
        (
            "RETURN substring(node.text, 0, 2) + [1, 2, 3][..(size(node.text) % 2)][0] "
            "+ dateTime.truncate('day', datetime()) AS text, score",
            False,
        ),
        (
            "RETURN head(COLLECT { MATCH (m:TestHashMemory) WHERE $scope = m.scope RETURN m.text }) AS text, score",
            False,
        ),
        ("MATCH (other:TestHashMemory) RETURN other.text AS text, score", True),
        (
            "MATCH (mine:TestHashMemory {scope: $scope}) MATCH (other:TestHashMemory) WHERE other.role = mine.role "
            "RETURN other.text AS text, score",
            True,
        ),
        ("MATCH (other:TestHashMemory) RETURN other.text + $scope AS text, score // other.scope = $scope", True),
        ("RETURN head(COLLECT { MATCH (m:TestHashMemory) RETURN m.text + 'x = $scope' }) AS text, score", True),
        ("MATCH (other:$('TestHashMemory')) RETURN other.text AS text, score", True),
        ("MATCH (other:$any(labels(node))) RETURN other.text AS text, score", True),
        ("MATCH (other) WHERE labels(other) = labels(node) RETURN other.text AS text, score", True),
        ("MATCH (other)-[:$all(['NEXT'])]->() RETURN other.text AS text, score", True),
        ("CALL (node) { MATCH (other:$('TestHashMemory')) RETURN other } RETURN other.text AS text, score", True),
        ("RETURN toString(COUNT { (:$('TestHashMemory')) }) AS text, score", True),
        ("RETURN head(COLLECT { MATCH (node)--(t), (m:TestHashMemory) RETURN m.text }) AS text, score", True),
        ("MATCH (other:TestHashMemory) WHERE other.scope <> $scope RETURN other.text AS text, score", True),
        ("MATCH (other:$('TestHashMemory') {scope: $scope}) RETURN other.text AS text, score", False),
        ("RETURN head(COLLECT { MATCH (node)--(t) MATCH (t)--(m) RETURN m.text }) AS text, score", False),
        (
            "CALL db.index.fulltext.queryNodes('adk_memory_text_english_OF_TestHash', node.text) YIELD node AS other "
            "RETURN other.text AS text, score",
            True,
        ),
    ],
)
async def test_a_retrieval_query_that_sees_other_users_is_told_so_once(
    neo4j_server, app_name, caplog, query, sees_others
):
    async with memory_that_traverses(neo4j_server, app_name, query) as memory:
        for _ in range(2):
            await memory.user(**owner(app_name)).make_retriever()
    warnings = [record for record in caplog.records if "other users" in record.getMessage()]
    assert len(warnings) == sees_others


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("MATCH (node)<-[:SUPPORTED_BY]-(f:TestHashFact) RETURN f.text AS text, score", None),
        ("OPTIONAL MATCH (node)-->(p:Persn) RETURN coalesce(p.name, node.text) AS text, score", "the label Persn,"),
        (
            "OPTIONAL MATCH (node)-[:KNOWZ]->(p:`Two words`) RETURN coalesce(p.name, node.text) AS text, score",
            "the label Two words and the relationship type KNOWZ,",
        ),
    ],
)
async def test_what_a_retrieval_query_names_and_the_graph_does_not_have_is_told_once(
    neo4j_server, app_name, caplog, query, unknown
):
    async with memory_that_traverses(neo4j_server, app_name, query) as memory:
        for _ in range(2):
            await memory.recall("bees", **owner(app_name))
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(messages) == (unknown is not None)
    assert unknown is None or unknown in messages[0]


@pytest.mark.slow
@pytest.mark.schema
async def test_what_nobody_has_written_yet_is_no_spelling_mistake(neo4j_server, app_name, caplog):
    settings = neo4j_server.settings(label_prefix=f"Empty{uuid.uuid4().hex[:8]}")
    query = f"OPTIONAL MATCH (node)-[:SUPPORTED_BY]->(e:{settings.label_prefix}Event) RETURN e.text AS text, score"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        assert await memory.recall("bees", **owner(app_name)) == []
    assert not caplog.records


@pytest.mark.slow
@pytest.mark.parametrize("top_k", [1, "1", 1.0])
async def test_a_retriever_takes_the_numbers_that_a_model_writes(memory, app_name, top_k):
    await memory.remember([turn("I keep bees in here"), turn("Bees are fun", "t2")], session_id="s", **owner(app_name))
    retriever = await memory.user(**owner(app_name)).make_retriever()
    found = await asyncio.to_thread(retriever.search, query_text="bees", top_k=top_k)
    assert len(found.items) == 1


@pytest.mark.parametrize("arguments", [{"top_k": 0}, {"top_k": -1}, {"top_k": "many"}, {"query_vector": "near"}])
async def test_a_retriever_refuses_arguments_as_neo4j_graphrag_does(memory, app_name, arguments):
    retriever = await memory.user(**owner(app_name)).make_retriever()
    with pytest.raises(SearchValidationError, match=next(iter(arguments))):
        retriever.search(query_text="bees", **arguments)


@pytest.mark.slow
async def test_a_retrieval_query_is_planned_once_and_may_have_parameters(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    query = "RETURN node.text + coalesce($mark, '') AS text, score"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        retriever = await memory.user(**owner(app_name)).make_retriever()
        found = await asyncio.to_thread(retriever.search, "bees", query_params={"mark": "!"})
        assert {item.content for item in found.items} == {"I keep bees in here!"}


async def test_half_a_character_is_refused_by_name(memory, app_name):
    with pytest.raises(errors.InvalidUnicode, match="surrogate"):
        await memory.remember([turn("bees \ud800")], session_id="s", **owner(app_name))
    with pytest.raises(errors.InvalidUnicode):
        await memory.recall("bees", app_name=app_name, user_id="\ud800") or await memory.remember(
            [turn("bees")], session_id="s", app_name=app_name, user_id="\ud800"
        )


async def test_a_statement_is_forgotten_by_its_own_id(memory, app_name):
    await memory.user(**owner(app_name)).add_statements([Statement("The gate code is 4711.", at=NOW, id="gate")])
    assert (await memory.forget("gate", **owner(app_name))).facts == 1
    assert await memory.recall("gate code", **owner(app_name)) == []


async def test_the_wrong_embedder_is_noticed_before_a_model_is_paid(neo4j_server, memory, app_name):
    class Another(HashEmbedder):
        pass

    await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    model = ScriptedLlm.from_replies(EMPTY)
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model=model, embedder=Another()) as other:
        with pytest.raises(errors.EmbedderMismatch, match="Another"):
            await other.remember([turn("I keep cats in here", "t2")], session_id="s", **owner(app_name))
    assert model.requests == []
    assert (await memory.remember([turn("I keep cats in here", "t2")], session_id="s", **owner(app_name))).turns == 1


async def test_an_embedder_that_hangs_leaves_the_vectors_for_later(neo4j_server, app_name, monkeypatch):
    embed = HashEmbedder.embed_documents

    def hang(self, texts):
        time.sleep(2)
        return embed(self, texts)

    monkeypatch.setattr(HashEmbedder, "embed_documents", hang)
    settings = neo4j_server.settings(label_prefix="TestHash", lease=1)
    async with GraphMemory(settings=settings, embedder=HashEmbedder()) as memory:
        report = await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
    assert (report.turns, report.embedded) == (1, 0)
    assert report.unembedded > 0


@pytest.mark.slow
async def test_a_retriever_hands_on_metadata_of_an_own_column(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    query = "RETURN node.text AS text, score, {own: 1} AS metadata"
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), retrieval_query=query) as memory:
        await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        retriever = await memory.user(**owner(app_name)).make_retriever()
        found = await asyncio.to_thread(retriever.search, "bees")
        assert found.items[0].metadata["metadata"] == {"own": 1}


def test_filters_that_cannot_be_are_told_in_a_line():
    asked = ["recall", "bees", "--app", "a", "--user", "b", "--since", "2026-02-01", "--until", "2026-01-01"]
    result = CliRunner().invoke(app, asked, env={"NEO4J_URI": "bolt://127.0.0.1:1"})
    assert result.exit_code == 2
    assert "later than until" in " ".join(result.output.split())


def test_a_turn_without_text_is_named():
    with pytest.raises(errors.ConfigurationError, match="None is no text"):
        turn(None)


@pytest.mark.slow
async def test_a_turn_that_says_nothing_is_no_memory(memory, app_name):
    blank, full = turn(" \n"), turn("I keep bees in here", "t2")
    assert await memory.user(**owner(app_name)).enqueue([blank], session_id="s") == 0
    assert (await memory.remember([blank, full], session_id="s", **owner(app_name))).turns == 1
    assert {found.session_id for found in await memory.recall("bees", **owner(app_name))} == {"s"}
    assert all(found.text.strip() for found in await memory.recall("anything", **owner(app_name)))


@pytest.mark.parametrize("question", [None, 7, ["bees"]])
async def test_a_question_that_is_no_text_is_named(memory, app_name, question):
    with pytest.raises(errors.InvalidArgument, match="is no text"):
        await memory.recall(question, **owner(app_name))


@pytest.mark.parametrize("metadata", ["circular", "deep"])
async def test_metadata_that_json_cannot_hold_are_named(memory, app_name, metadata):
    value: dict[str, Any] = {}
    value["x"] = value
    if metadata == "deep":
        for _ in range(100_000):
            value = {"x": value}
    with pytest.raises(errors.ConfigurationError, match="cannot be kept as JSON"):
        await memory.remember([turn("I keep bees")], session_id="s", metadata={"x": value}, **owner(app_name))


async def test_metadata_may_hold_bytes_and_five_hundred_levels(memory, app_name):
    value: Any = b"\xff"
    for _ in range(500):
        value = {"x": value}
    await memory.remember([turn("I keep bees in here")], session_id="s", metadata={"x": value}, **owner(app_name))
    assert await memory.recall("bees", **owner(app_name))


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_at_the_calendars_end_is_named(year):
    with pytest.raises(errors.ConfigurationError, match="between the years 2 and 9998"):
        Turn("t", author="user", text="x", at=datetime(year, 6, 1, tzinfo=UTC))


@pytest.mark.slow
async def test_a_turn_from_before_1970_is_remembered(memory, app_name):
    old = Turn("t", author="user", text="I keep bees in here", at=datetime(1950, 1, 1, tzinfo=UTC))
    await memory.remember([old], session_id="s", **owner(app_name))
    [found, *_] = await memory.recall("bees", **owner(app_name))
    assert found.at == old.at


def test_half_a_character_in_an_id_is_nobody_elses():
    assert Scope("a", "\U0001f600").key
    for user in ("\ud83d\ude00", "\ud83d"):
        with pytest.raises(errors.InvalidUnicode):
            Scope("a", user).key  # noqa: B018  # the property raises


@pytest.mark.parametrize("size", [1e300, pytest.param(1e38, marks=pytest.mark.full), 1e-300])
async def test_an_embedder_whose_numbers_are_huge_or_tiny_serves(neo4j_server, app_name, size):
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=ScalingEmbedder(size)) as memory:
        report = await memory.remember([turn("I keep bees in here")], session_id="s", **owner(app_name))
        assert report.unembedded == 0
        [found, *_] = await memory.recall("bees", **owner(app_name))
        assert not found.degraded


@pytest.mark.slow
async def test_no_statement_takes_more_vectors_than_a_chunk(neo4j_server, app_name, monkeypatch):
    most = Counter[str]()
    run = Transaction.run_statement

    def count_vectors(value: Any) -> int:
        if isinstance(value, dict):
            return ("vector" in value and value["vector"] is not None) + sum(map(count_vectors, value.values()))
        return sum(map(count_vectors, value)) if isinstance(value, list) else 0

    async def counting(self: Any, name: str, parameters: Any = None, /, **more: Any) -> Any:
        most[name] = max(most[name], count_vectors({**(parameters or {}), **more}))
        return await run(self, name, parameters, **more)

    monkeypatch.setattr(Transaction, "run_statement", counting)
    entities = [{"ref": n, "name": f"Person{n}", "type": "person"} for n in range(300)]
    replies, turns = list[str](), list[Turn]()
    for n, plant in enumerate(("roses", "tulips")):
        words = [f"Person{n} grows {n} {plant} in the garden." for n in range(300)]
        facts = [
            {"ref": n, "subject": n, "predicate": f"grows_{plant}", "text": said, "quote": said, "turns": [0]}
            for n, said in enumerate(words)
        ]
        turns.append(turn(" ".join(words), f"t{n}"))
        replies += [json.dumps({"entities": entities, "facts": facts})]
    model = ScriptedLlm.from_replies(*replies, *["{}"] * 20)  # the judge is asked in parts
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        for n, said in enumerate(turns):
            await memory.remember([said], session_id=f"s{n}", **owner(app_name))
        counts = await writing.count_memories(memory.connection.user(Scope(app_name, "ann")))
    assert counts["facts"] == 600
    assert most["near_facts"] == most["write_facts"] == max(most.values()) == ROWS_PER_STATEMENT


async def longest_gap(work: Awaitable[Any]) -> float:
    """The longest time for which the event loop did nothing else, as a share of all the time that the work took."""
    beats = [time.monotonic()]

    async def beat() -> None:
        while True:
            await asyncio.sleep(0.02)
            beats.append(time.monotonic())

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await work
    beating.cancel()
    beats.append(time.monotonic())
    return max(later - earlier for earlier, later in pairwise(beats)) / (beats[-1] - beats[0])


@pytest.mark.slow
async def test_a_reply_of_two_thousand_facts_and_a_long_turn_leave_the_loop_to_others(neo4j_server, app_name):
    words = [f"Person{n} grows {n} roses in the garden." for n in range(2_000)]
    entities = [{"ref": n, "name": f"Person{n}", "type": "person"} for n in range(2_000)]
    facts = [
        {"ref": n, "subject": n, "predicate": "grows", "text": said, "quote": said, "turns": [n // 10]}
        for n, said in enumerate(words)
    ]
    turns = [turn(" ".join(words[n : n + 10]), f"t{n}") for n in range(0, 2_000, 10)]
    model = ScriptedLlm.from_replies(json.dumps({"entities": entities, "facts": facts}), EMPTY)
    settings = neo4j_server.settings(label_prefix="TestHash", window_tokens=1_000_000)
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        await memory.prepare()
        long = turn("It's bees-and-roses. " * 15_000, "long")

        async def work() -> None:
            await memory.remember(turns, session_id="s", **owner(app_name))
            await memory.remember([long], session_id="s", **owner(app_name))

        assert await longest_gap(work()) < 0.5
        counts = await writing.count_memories(memory.connection.user(Scope(app_name, "ann")))
    assert (counts["facts"], counts["turns"]) == (2_000, 201)


async def count_longest_step(work: Awaitable[Any]) -> int:
    """The most calls of functions that the event loop's thread made while it let nobody else run."""
    beats = [0]

    def count_call(frame: Any, event: str, argument: Any) -> None:
        beats[-1] += event.endswith("call")

    async def beat() -> None:
        while True:
            await asyncio.sleep(0.002)
            beats.append(0)

    beating = asyncio.create_task(beat())
    sys.setprofile(count_call)
    try:
        await work
    finally:
        sys.setprofile(None)
        beating.cancel()
    return max(beats)


@pytest.mark.slow
async def test_a_long_turn_is_read_guarded_and_forgotten_beside_the_loop(neo4j_server, app_name, monkeypatch):
    monkeypatch.setattr(rules, "MAX_WINDOW_TOKENS", 5_000)
    settings = neo4j_server.settings(label_prefix="TestHash")
    text = "".join(f"We took {n} apples to Anna's house on foot. " for n in range(5_000))
    long, id = turn(text, "long"), turn(text, "long").make_memory_id("s")
    async with GraphMemory(settings=settings, model="rules", guard="rules", embedder=HashEmbedder()) as memory:
        await memory.prepare()
        assert await count_longest_step(memory.remember([long], session_id="s", **owner(app_name))) < 20_000
        [finished] = await ingest_queue.fetch_ingest_reports(memory.connection, **owner(app_name))
        assert json.loads(finished["report"])["dropped"] == {"rest of a long turn": 1}
        assert await count_longest_step(memory.forget([id], **owner(app_name))) < 20_000


@pytest.mark.slow
async def test_a_session_of_many_turns_is_stored_in_portions_and_in_order(neo4j_server, app_name, monkeypatch):
    monkeypatch.setattr(ingestion, "MAX_LEASED_TURNS", 300)
    rows = Counter[int]()
    run_statement = Transaction.run_statement

    async def count_rows(self, name, *arguments, **parameters):
        sent = parameters.get("rows") or parameters.get("turns") or ()
        rows[len(sent) + sum(len(window["turns"]) for window in parameters.get("windows", ()))] += 1
        return await run_statement(self, name, *arguments, **parameters)

    monkeypatch.setattr(Transaction, "run_statement", count_rows)
    turns = [turn(f"I keep {n} geese", f"t{n}") for n in range(400)]
    async with GraphMemory(
        settings=neo4j_server.settings(label_prefix="TestHash"), model="rules", embedder=HashEmbedder()
    ) as memory:
        assert await memory.user(**owner(app_name)).enqueue(turns, session_id="s") == 400
        assert max(rows) <= ROWS_PER_STATEMENT
        pending = await ingest_queue.fetch_pending_ingests(memory.connection, **owner(app_name))
        assert [[one.id for one in request.turns] for request in pending] == [
            [one.id for one in turns[:300]],
            [one.id for one in turns[300:]],
        ]
        driver = await memory.connection.get_driver()
        query = "MATCH (a:TestHashEvent {scope: $scope})-[:NEXT]->(b) WHERE b.seq = a.seq + 1 RETURN count(*) AS n"
        records, _, _ = await driver.execute_query(query, scope=Scope(app_name, "ann").key)
        assert records[0]["n"] == 399
        assert await memory.user(**owner(app_name)).enqueue(turns, session_id="s") == 400
        reports = await memory.resume(**owner(app_name))
        assert sum(report.turns for report in reports) == 400


@pytest.mark.parametrize(
    "wrong",
    [{"role": "agent"}, {"role": None}, {"author": None}, {"id": 5}, {"at": None}],
    ids=lambda wrong: repr(wrong),
)
def test_a_turn_that_is_none_is_refused_before_it_is_stored(wrong):
    with pytest.raises(errors.InvalidArgument):
        Turn(**{"id": "t1", "author": "user", "text": "I keep bees", "at": NOW, **wrong})


async def test_an_option_that_a_search_does_not_have_is_refused_as_python_does(memory, app_name):
    for value in (5, None):
        with pytest.raises(TypeError, match=r"recall\(\) got an unexpected keyword argument 'limits'"):
            await memory.recall("bees", **owner(app_name), limits=value)


async def test_ids_and_names_that_are_no_text_are_refused(memory, app_name):
    known = owner(app_name)
    for ids in (None, 5, [None], {"a": 1}):
        with pytest.raises(errors.InvalidArgument, match="no ids"):
            await memory.forget(ids, **known)
    with pytest.raises(errors.InvalidArgument, match="no ids"):
        await memory.user(**known).forget_event(None, session_id="s")
    user = memory.user(**known)
    for ask in (user.history, user.entity):
        with pytest.raises(errors.InvalidArgument, match="not a text"):
            await ask(None)
    with pytest.raises(errors.InvalidArgument, match="user_id is None"):
        await memory.user(app_name, None).forget_user()
    with pytest.raises(errors.InvalidArgument, match="no list of kinds"):
        await memory.prune(only="memory")


async def test_a_stored_turn_whose_author_is_blank_is_read_as_its_roles(neo4j_server, app_name):
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        user = memory.user(**owner(app_name))
        await user.enqueue([turn("I keep bees in Braga", "t1")], session_id="s")
        blank = "MATCH (e:TestHashEvent {scope: $scope}) SET e.author = ' '"  # as graphs from before may have it
        await memory.connection.run_cypher(blank, {"scope": user.scope.key})
        [report] = await memory.resume(**owner(app_name))
        assert (report.turns, [fact.author async for fact in user.facts()]) == (1, ["user"])


async def test_pending_requests_are_read_in_pages_and_in_their_order(neo4j_server, app_name, monkeypatch):
    monkeypatch.setattr(ingest_queue, "PENDING_PER_PAGE", 2)
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        for number in range(5):
            user = memory.user(app_name, f"user {number % 2}")
            await user.enqueue([turn(f"I keep {number} bees", f"t{number}")], session_id=f"s{number}")
        same = "MATCH (i:TestHashIngest {scope: $scope}) SET i.requested_at = datetime('2026-03-02')"
        for number in range(2):  # those of one time have an order too
            await memory.connection.run_cypher(same, {"scope": Scope(app_name, f"user {number}").key})
        counts, run_statement = [], Connection.run_statement

        async def count_rows(self, name, *arguments, **parameters):
            rows = await run_statement(self, name, *arguments, **parameters)
            counts.extend([len(rows)] if name.startswith("pending_ingests") else [])
            return rows

        monkeypatch.setattr(Connection, "run_statement", count_rows)
        pending = await ingest_queue.fetch_pending_ingests(memory.connection, app_name=app_name)
        assert {ingest.session_id for ingest in pending} == {f"s{number}" for number in range(5)}
        assert counts == [2, 2, 1]
        of_user = await ingest_queue.fetch_pending_ingests(memory.connection, app_name=app_name, user_id="user 0")
        whole = [one for one in pending if one.scope.user_id == "user 0"]
        assert [(one.session_id, one.turns) for one in of_user] == [(one.session_id, one.turns) for one in whole]
        assert sum(report.turns for report in await memory.resume(app_name=app_name)) == 5
