"""Search the indexes of a graph that others made: vector, full text and both, on a real server."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import neo4j
import pytest
from tests.support.existing_graph import TRAVERSAL

from adk_graph_memory import IndexRetrieval, errors
from adk_graph_memory.retrieval.own_index.fulltext import FulltextRetriever
from adk_graph_memory.retrieval.own_index.search import IndexSettings
from adk_graph_memory.testing import HashEmbedder

pytestmark = [pytest.mark.schema, pytest.mark.xdist_group("existing_graph")]

TYPES = ["vector", "fulltext", "hybrid"]
COMPETITION = "Apple faces strong competition in smartphones."
Make = Callable[..., IndexRetrieval]


@pytest.fixture
async def make(neo4j_server: Any, label: str) -> AsyncIterator[Make]:
    made = []

    def make_retrieval(index_type: str = "vector", **options: Any) -> IndexRetrieval:
        if index_type != "fulltext":
            options = {"embedder": HashEmbedder()} | options
        if index_type == "hybrid":
            options = {"fulltext_index_name": f"{label}_text"} | options
        options = {"index_name": f"{label}_{'text' if index_type == 'fulltext' else 'vector'}"} | options
        if "driver" not in options:
            options = {"uri": neo4j_server.uri, "auth": neo4j_server.auth} | options
        made.append(IndexRetrieval(index_type=index_type, **{"timeout": 60.0} | options))
        return made[-1]

    yield make_retrieval
    for retrieval in made:
        await retrieval.close()


# -- what comes back -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("index_type", TYPES)
async def test_a_traversal_tells_what_is_around_the_text(make: Make, index_type: str) -> None:
    hits = await make(index_type, retrieval_query=TRAVERSAL).search("Which competition in smartphones does Apple face?")
    assert re.fullmatch(
        r"\[Score: \d\.\d{3}\] \[company: Apple Inc\] \[risks: (Competition, Supply Chain|Supply Chain, Competition)\] "
        + re.escape(COMPETITION),
        hits[0].prompt_text,
    )
    assert all("risks" not in hit.metadata for hit in hits if hit.metadata["company"] == "Intel Corp")


@pytest.mark.slow
@pytest.mark.parametrize("index_type", TYPES)
async def test_without_a_traversal_the_node_is_the_hit(make: Make, index_type: str, label: str) -> None:
    [hit] = await make(index_type, top_k=1).search("competition smartphones")
    path = f"{label}/Apple.pdf"
    assert (hit.text, hit.metadata) == (COMPETITION, {"index": 0, "path": path, "source": "Apple"})
    assert hit.id
    assert re.fullmatch(
        rf"\[Score: \d\.\d{{3}}\] (\[(index: 0|path: {path}|source: Apple)\] ){{3}}{re.escape(COMPETITION)}",
        hit.prompt_text,
    )


@pytest.mark.parametrize("index_type", TYPES)
async def test_a_traversal_may_return_the_node_itself(make: Make, index_type: str) -> None:
    query = "MATCH (node)-[r:FROM_DOCUMENT]->(doc) RETURN node, score, r, [(node)-[:FROM_DOCUMENT]->(d) | d.graph] AS g"
    hits = await make(index_type, retrieval_query=query, top_k=1).search("competition smartphones")
    assert hits[0].text == COMPETITION
    assert hits[0].metadata["r"] == {"type": "FROM_DOCUMENT"}
    assert not re.search(r"embedding|second|0\.5", hits[0].prompt_text.partition("]")[2])


async def test_values_that_json_lacks_are_texts(make: Make) -> None:
    query = "RETURN date('2026-05-04') AS day, point({x: 1, y: 2}) AS place, [1, 2] AS pages, null AS nothing, score"
    [hit] = await make("fulltext", retrieval_query=query, top_k=1).search("competition")
    assert hit.metadata["day"] == "2026-05-04"
    assert hit.metadata["pages"] == [1, 2]
    assert isinstance(hit.metadata["place"], str)
    assert "[day: 2026-05-04]" in hit.text
    assert hit.prompt_text.count("[day: 2026-05-04]") == 1


@pytest.mark.parametrize("index_type", ["vector", "fulltext"])
@pytest.mark.parametrize("traversal", [None, TRAVERSAL], ids=["node", "traversal"])
async def test_filters_reach_the_traversal(make: Make, index_type: str, traversal: str | None) -> None:
    filters = {"source": {"$in": ["Intel"]}}
    hits = await make(index_type, filters=filters, retrieval_query=traversal).search("Apple Intel factories")
    assert hits
    assert all("Intel" in hit.text for hit in hits)


@pytest.mark.parametrize("index_type", TYPES)
async def test_a_parameter_reaches_the_traversal(make: Make, index_type: str) -> None:
    query = "WITH node, score WHERE node.source = $source RETURN node.text AS text, score"
    retrieval = make(index_type, retrieval_query=query, query_params={"source": "Intel"}, top_k=4)
    hits = await retrieval.search("Apple Intel factories")
    assert {"Intel" in hit.text for hit in hits} == {True}
    hits = await retrieval.search("Apple Intel factories", query_params={"source": "Apple"})
    assert {"Apple" in hit.text for hit in hits} == {True}


async def test_a_parameter_that_nobody_gives_is_an_error(make: Make) -> None:
    retrieval = make("fulltext", retrieval_query="WITH node WHERE node.source = $user_id RETURN node.text AS text")
    with pytest.raises(errors.QueryFailed, match="user_id"):
        await retrieval.search("Apple")


# -- what is typed ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("10-K", "10-K"),
        ("What is in the 10-K?", "10-K"),
        ("C", "vitamin C"),
        ("🚀", "🚀"),
        ("东京", "东京"),
        ('path /foo/bar "open quote (factories', "factories"),
        ("factories AND (", "factories"),
        ("a:factories", "factories"),
        ("factories\x00", "factories"),
        ("factories \ud800", "factories"),
        ("x" * 100_000 + " factories", "factories"),
        (" ".join(f"w{number}" for number in range(20_000)) + " extraordinary factories", None),
    ],
)
@pytest.mark.parametrize("index_type", ["fulltext", "hybrid"])
async def test_nothing_that_is_typed_is_an_operator(make: Make, index_type: str, query: str, text: str | None) -> None:
    hits = await make(index_type).search(query)
    assert text is None or text in hits[0].text or (index_type == "hybrid" and text in hits[1].text)  # two are best


@pytest.mark.parametrize("query", ["AND OR NOT", "fac*", "*:*", "{b TO z}", "/fac.*/"])
async def test_operators_alone_find_nothing(make: Make, query: str) -> None:
    assert [hit for hit in await make("fulltext").search(query) if "factories" in hit.text] == []


@pytest.mark.parametrize("query", ["", " \n", "?!", '"', "()", "_"])
@pytest.mark.parametrize("index_type", TYPES)
async def test_without_a_word_nothing_is_asked(index_type: str, query: str) -> None:
    retrieval = IndexRetrieval(
        "bolt://127.0.0.1:1", index_type=index_type, embedder=HashEmbedder(), fulltext_index_name="x"
    )
    assert await retrieval.search(query) == []


@pytest.mark.slow
async def test_stop_words_are_left_out_unless_there_is_nothing_else(make: Make) -> None:
    assert {hit.text for hit in await make("fulltext").search("where is smartphones")} == {COMPETITION}
    everything = await make("fulltext", filter_stop_words=False).search("where is smartphones")
    assert any("东京 is where" in hit.text for hit in everything)
    assert any("东京 is where" in hit.text for hit in await make("fulltext").search("where is"))


@pytest.mark.slow
async def test_memory_s_own_indexes_are_none_to_search(make: Make) -> None:
    """They hold the words of all users, and a search by index knows none."""
    retrieval = make("fulltext", index_name="adk_memory_text_OF_TestHash")
    with pytest.raises(errors.ConfigurationError, match="no full-text index 'adk_memory_text_OF_TestHash'") as raised:
        await retrieval.search("dog")
    assert raised.value.reason.count("adk_") == 1  # nor does the message offer any


@pytest.mark.parametrize(
    ("query", "options"), [(None, {}), (5, {}), ("dog", {"query_params": [1]})], ids=["none", "number", "list"]
)
async def test_what_is_no_text_or_no_parameters_is_refused(make: Make, query: Any, options: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"is no text|are no names"):
        await make("fulltext").search(query, **options)


# -- what cannot be used ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "needs embedder="),
        ({"index_type": "hybrid"}, "needs embedder="),
        ({"embedder": False}, "needs embedder="),
        ({"index_type": "hybrid", "embedder": HashEmbedder()}, "fulltext_index_name= or NEO4J_FULLTEXT_INDEX_NAME"),
        (
            {"index_type": "hybrid", "embedder": HashEmbedder(), "fulltext_index_name": "x", "filters": {"a": 1}},
            "put a WHERE into the retrieval_query",
        ),
        ({"index_type": "fulltext", "top_k": 0}, "at least 1"),
        ({"index_type": "fulltext", "language": "xx"}, "ISO 639-1"),
        ({"index_type": "graph"}, "none of vector, fulltext, hybrid"),
        ({"index_type": "fulltext", "filters": {"a": {"$near": 1}}}, "Invalid operator"),
        ({"index_type": "fulltext", "query_params": {"a": 1}}, "none"),
        ({"index_type": "fulltext", "query_params": {"top_k": 1}, "retrieval_query": "RETURN 1"}, "top_k"),
        ({"embedder": 7}, "is no embedder"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        IndexRetrieval(**options)
    assert isinstance(error.value, errors.InvalidArgument)


@pytest.mark.slow
async def test_a_missing_index_is_an_error_that_lists_the_others(make: Make, label: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="no vector index 'nowhere'") as error:
        await make(index_name="nowhere").prepare()
    assert f"vector '{label}_vector' on (:{label}) embedding, 64 dimensions" in str(error.value)
    assert f"full-text '{label}_text' on (:{label}) text" in str(error.value)


async def test_an_index_of_another_type_or_dimension_is_refused(make: Make, label: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="no full-text index"):
        await make("fulltext", index_name=f"{label}_vector").search("Apple")
    with pytest.raises(errors.ConfigurationError, match=r"64 dimensions, but the embedder .* of 32"):
        await make(embedder=HashEmbedder(32)).prepare()


@pytest.mark.parametrize("index_type", TYPES)
@pytest.mark.parametrize("driver_type", ["own", "async"])
async def test_a_traversal_that_writes_is_refused(
    make: Make, index_type: str, driver_type: str, neo4j_server: Any
) -> None:
    async with neo4j.AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        options = {"driver": driver} if driver_type == "async" else {}
        retrieval = make(index_type, retrieval_query="SET node.hacked = 1 RETURN node.text AS text", **options)
        with pytest.raises(errors.InvalidArgument, match="it may only read"):
            await retrieval.search("Apple")
        with pytest.raises(errors.InvalidArgument, match="cannot be run"):
            await make(index_type, retrieval_query="RETURN nothing", **options).search("Apple")


@pytest.mark.slow
async def test_even_a_write_that_no_plan_shows_is_refused(make: Make) -> None:
    query = "CALL db.createLabel('Hacked') RETURN node.text AS text"
    with pytest.raises((errors.DatabaseError, errors.InvalidArgument)):
        await make("fulltext", retrieval_query=query).search("Apple")


# -- drivers ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("index_type", TYPES)
async def test_a_sync_and_an_async_driver_find_the_same(
    make: Make, index_type: str, driver: neo4j.Driver, neo4j_server: Any
) -> None:
    own = await make(index_type, retrieval_query=TRAVERSAL).search("Apple competition")
    async with neo4j.AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as async_driver:
        for given in (driver, async_driver):
            async with make(index_type, retrieval_query=TRAVERSAL, driver=given) as retrieval:
                for hits in await asyncio.gather(*(retrieval.search("Apple competition") for _ in range(12))):
                    assert hits == own
        await async_driver.verify_connectivity()
    driver.verify_connectivity()


@pytest.mark.slow
async def test_a_search_is_one_statement(make: Make, driver: neo4j.Driver, monkeypatch: Any) -> None:
    statements = []
    run = neo4j.Session.run

    def count(session: neo4j.Session, query: Any, *arguments: Any, **more: Any) -> neo4j.Result:
        statements.append(query)
        return run(session, query, *arguments, **more)

    monkeypatch.setattr(neo4j.Session, "run", count)
    for index_type in TYPES:
        retrieval = make(index_type, retrieval_query=TRAVERSAL, driver=driver)
        await retrieval.search("Apple")
        statements.clear()
        await retrieval.search("Intel")
        assert len(statements) == 1
        assert statements[0].timeout == 60.0


async def test_a_caller_s_driver_that_is_closed_is_an_error_at_once(make: Make, neo4j_server: Any) -> None:
    driver = neo4j.GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth)
    driver.close()
    with pytest.raises(errors.DriverClosed):
        await make("fulltext", driver=driver).search("Apple")


@pytest.mark.parametrize("driver_type", ["own", "sync", "async"])
async def test_a_silent_database_is_an_error_in_time(driver_type: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"bolt://127.0.0.1:{silent.getsockname()[1]}"
        async with neo4j.AsyncGraphDatabase.driver(uri, auth=("a", "b")) as driver:
            patient = neo4j.GraphDatabase.driver(uri, auth=("a", "b"), connection_timeout=3)
            drivers = {"sync": patient, "async": driver}
            options = {"driver": drivers[driver_type]} if driver_type in drivers else {"uri": uri}
            async with asyncio.timeout(60), IndexRetrieval(index_type="fulltext", timeout=0.5, **options) as retrieval:
                with pytest.raises(errors.DatabaseUnavailable):
                    await retrieval.search("Apple")
            patient.close()


async def test_the_embedder_has_a_time_limit(make: Make) -> None:
    def embed_slowly(text: str) -> list[float]:
        time.sleep(1.0)
        return [1.0]

    with pytest.raises(errors.EmbedderFailed, match="no vector within"):
        await make(embedder=embed_slowly, timeout=0.1).search("Apple")


# -- settings --------------------------------------------------------------------------------------------------


def test_settings_name_the_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "hidden-word")
    hybrid = {"index_type": "hybrid", "embedder": HashEmbedder()}
    assert IndexRetrieval(embedder=HashEmbedder()).index_names == {"vector": "chunkEmbeddings"}
    assert IndexRetrieval(index_type="fulltext").index_names == {"fulltext": "search_chunks"}
    monkeypatch.setenv("NEO4J_VECTOR_INDEX_NAME", "v")
    monkeypatch.setenv("NEO4J_FULLTEXT_INDEX_NAME", "f")
    assert IndexRetrieval(**hybrid).index_names == {"vector": "v", "fulltext": "f"}
    monkeypatch.setenv("NEO4J_INDEX_NAME", "main")
    assert IndexRetrieval(**hybrid).index_names == {"vector": "main", "fulltext": "f"}
    assert IndexRetrieval(index_type="fulltext").index_names == {"fulltext": "main"}
    assert IndexRetrieval(index_name="mine", index_type="fulltext").index_names == {"fulltext": "mine"}
    assert (
        "hidden-word" not in f"{IndexRetrieval(**hybrid)!r}{IndexSettings()!r}{IndexRetrieval(**hybrid).connection!r}"
    )


# -- neo4j-graphrag --------------------------------------------------------------------------------------------


def test_the_full_text_retriever_is_one_of_neo4j_graphrag(driver: neo4j.Driver, label: str) -> None:
    retriever = FulltextRetriever(driver, f"{label}_text", retrieval_query=TRAVERSAL)
    [item] = retriever.search(query_text="competition in smartphones", top_k=1).items
    assert item.content == COMPETITION
    assert item.metadata["company"] == "Apple Inc"
    tool = retriever.convert_to_tool(name="filings", description="Searches filings.")
    assert COMPETITION in str(tool.execute(query_text="smartphones"))
