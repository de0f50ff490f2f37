"""The reading half of ADK's memory contract, over an index whose documents the tests write themselves.

The tests are those of ``test_memory``. Left out are those about what Neo4jIndexService does not do: it stores nothing,
so nothing is added twice, redacted, deleted or dated; the documents are the caller's.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import neo4j
import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from neo4j_graphrag.indexes import create_fulltext_index, create_vector_index
from tests.contract import test_memory as contract

from adk_graph_memory import Neo4jIndexService
from adk_graph_memory.testing import HashEmbedder

pytestmark = [pytest.mark.slow, pytest.mark.schema, pytest.mark.xdist_group("existing_graph")]

TRAVERSAL = """
WITH node, score WHERE node.app_name = $app_name AND node.user_id = $user_id
RETURN node.text AS text, score, elementId(node) AS elementId, node.embedding AS embedding
"""

READING = (
    "test_nothing_is_found_where_nothing_was_said",
    "test_what_was_said_is_found_by_a_word_of_it",
    "test_memories_of_several_sessions_are_found_together",
    "test_a_word_nobody_said_finds_nothing",
    "test_any_word_of_the_question_is_enough",
    "test_part_of_a_word_is_not_enough",
    "test_case_does_not_matter",
    "test_an_empty_or_punctuation_only_query_finds_nothing",
    "test_query_syntax_is_inert",
    "test_wildcards_and_ranges_match_nothing_by_themselves",
    "test_little_words_that_nobody_said_do_not_find_everything",
    "test_thousands_of_words_are_a_question_too",
    "test_a_word_repeated_three_thousand_times_is_a_question_too",
    "test_a_single_token_of_200_kb_is_no_error",
    "test_what_shares_most_words_with_the_question_comes_first",
    "test_what_comes_back_is_bounded_however_much_fits",
    "test_the_same_question_gives_the_same_answer",
    "test_an_entry_has_an_id",
    "test_an_entry_is_json",
    "test_another_user_finds_nothing_of_mine",
    "test_another_app_finds_nothing_of_mine",
    "test_app_and_user_do_not_run_together",
    "test_a_user_id_may_be_any_text_and_is_nobody_elses",
    "test_a_query_cannot_reach_another_users_memories",
)
"""What a service that only reads has to keep, too; with the analyzer that Neo4j has by default, words of scripts
without spaces and parts of joined words are found as that analyzer splits them."""

for name in READING:
    globals()[name] = getattr(contract, name)


class DocumentWriter(contract.Memory):
    """Writes what is said as documents, each with its app and user."""

    def __init__(self, service: Neo4jIndexService, app_name: str, driver: neo4j.Driver, label: str) -> None:
        super().__init__(service, app_name)
        self.driver, self.label = driver, label

    async def add_session(self, *events: Event | str, **more: Any) -> Session:
        session = self.session(*events, **more)
        texts = [part.text for event in session.events for part in event.content.parts if part.text]
        rows = [{"text": text, "embedding": HashEmbedder().embed_query(text)} for text in texts]
        self.driver.execute_query(
            "UNWIND $rows AS row CREATE (n:$($label)) SET n = row, n.app_name = $app_name, n.user_id = $user_id",
            {"rows": rows, "label": self.label, "app_name": session.app_name, "user_id": session.user_id},
        )
        return session


@pytest.fixture(scope="module")
def documents(neo4j_server: Any) -> Iterator[tuple[neo4j.Driver, str]]:
    """A driver, and the label of documents that have both kinds of index."""
    label = f"Document{uuid.uuid4().hex[:8]}"
    with neo4j.GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        create_vector_index(driver, f"{label}_vector", label, "embedding", 64, "cosine")
        create_fulltext_index(driver, f"{label}_text", label, ["text"])
        for kind in ("vector", "text"):
            driver.execute_query("CALL db.awaitIndex($name, 60)", {"name": f"{label}_{kind}"})
        yield driver, label
        for kind in ("vector", "text"):
            driver.execute_query(f"DROP INDEX {label}_{kind}")


@pytest.fixture(params=["fulltext", "hybrid"])
async def memory(
    request: pytest.FixtureRequest, app_name: str, documents: tuple[neo4j.Driver, str], neo4j_server: Any
) -> AsyncIterator[DocumentWriter]:
    driver, label = documents
    by_type: dict[str, Any] = {
        "fulltext": {"index_name": f"{label}_text"},
        "hybrid": {
            "index_name": f"{label}_vector",
            "fulltext_index_name": f"{label}_text",
            "embedder": HashEmbedder(),
        },
    }
    options = by_type[request.param] | {"index_type": request.param, "retrieval_query": TRAVERSAL, "top_k": 50}
    options["timeout"] = 60.0  # a busy machine plans for long
    async with Neo4jIndexService(neo4j_server.uri, auth=neo4j_server.auth, **options) as service:
        yield DocumentWriter(service, app_name, driver, label)
    driver.execute_query("MATCH (n:$($label)) DETACH DELETE n", {"label": label})


@pytest.fixture
def by_words(request: pytest.FixtureRequest, memory: DocumentWriter) -> DocumentWriter:
    """A memory that finds nothing but by words: with vectors every document is near to some degree."""
    if memory.service.retrieval.index_type == "hybrid":
        pytest.skip("the vectors' nearest document is always some document")
    return memory
