"""Search a full-text index as neo4j-graphrag's retrievers search a vector index, which has none for full text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import neo4j
from neo4j_graphrag.exceptions import FilterValidationError
from neo4j_graphrag.filters import get_metadata_filter
from neo4j_graphrag.retrievers.base import Retriever
from neo4j_graphrag.types import RawSearchResult, RetrieverResultItem

from adk_graph_memory import errors
from adk_graph_memory.graph.queries import load_cypher_files
from adk_graph_memory.index_retrieval.result_format import make_hit
from adk_graph_memory.index_retrieval.search_text import choose_stop_words, make_search_text
from adk_graph_memory.language.wording import join_lines

STATEMENTS = {block.name: block.text for block in load_cypher_files("cypher")["index_search.cypher"]}
"""The parts of a search, by name."""


class FulltextRetriever(Retriever):
    """A neo4j-graphrag retriever over a full-text index; it fits ``GraphRAG`` and ``ToolsRetriever``.

    The words of a question are searched as words: nothing that a user types is an operator of Lucene.

    Args:
        driver: a sync driver.
        index_name: the full-text index, of nodes.
        retrieval_query: Cypher that continues from ``node`` and ``score``.
        result_formatter: makes a result item of a record.
        filter_stop_words: leave out stop words, unless there is nothing else.
        language: the stop words' ISO 639-1 language.
        neo4j_database: the database's name; by default the server's default database.

    Raises:
        errors.InvalidArgument: no stop words are known of the language.
    """

    VERIFY_NEO4J_VERSION = False

    def __init__(
        self,
        driver: neo4j.Driver,
        index_name: str,
        *,
        retrieval_query: str | None = None,
        result_formatter: Callable[[neo4j.Record], RetrieverResultItem] | None = None,
        filter_stop_words: bool = True,
        language: str = "en",
        neo4j_database: str | None = None,
    ) -> None:
        super().__init__(driver, neo4j_database)
        self.index_name, self.retrieval_query, self.result_formatter = index_name, retrieval_query, result_formatter
        self._stop_words = choose_stop_words(language) if filter_stop_words else frozenset[str]()

    def default_record_formatter(self, record: neo4j.Record) -> RetrieverResultItem:
        """Return the text on one line, with score and the other values as metadata."""
        hit = make_hit(record)
        return RetrieverResultItem(
            content=join_lines(hit.text), metadata={"score": hit.score, "id": hit.id, **hit.metadata}
        )

    def get_search_results(
        self,
        query_text: str,
        top_k: int = 5,
        query_params: dict[str, Any] | None = None,
        filters: dict[str, Any] | None = None,
    ) -> RawSearchResult:
        """Return the nodes whose indexed text shares most words with the question.

        Args:
            query_text: the question, as it was typed.
            top_k: the maximum number of nodes.
            query_params: parameters of the ``retrieval_query``.
            filters: conditions on the nodes' properties, as neo4j-graphrag's vector retrievers take them.

        Raises:
            errors.InvalidArgument: ``top_k`` or the filters cannot be used.
        """
        if not isinstance(top_k, int) or top_k < 1:
            raise errors.InvalidArgument(reason=f"top_k={top_k!r} is not a whole number of at least 1")
        if not (search_text := make_search_text(query_text, self._stop_words)):
            return RawSearchResult(records=[])
        condition, parameters = make_filter_condition(filters)
        own = {"fulltext_index_name": self.index_name, "query_text": search_text, "top_k": top_k}
        parts = (
            [STATEMENTS["fulltext_hits"], f"WHERE {condition}", STATEMENTS["best_hits"]]
            if condition
            else [STATEMENTS["fulltext_search"]]
        )
        records, _, _ = self.driver.execute_query(
            "\n".join([*parts, self.retrieval_query or STATEMENTS["found_node"]]),
            {**(query_params or {}), **parameters, **own},
            database_=self.neo4j_database,
            routing_=neo4j.RoutingControl.READ,
        )
        return RawSearchResult(records=records)


def make_filter_condition(filters: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Make the condition on ``node`` and its parameters; an empty one without filters.

    Raises:
        errors.InvalidArgument: neo4j-graphrag knows no such filter.
    """
    if not filters:
        return "", {}
    try:
        return get_metadata_filter(filters)
    except (FilterValidationError, ValueError, TypeError) as error:
        raise errors.InvalidArgument(reason=f"filters={filters!r}: {error}") from error
