"""Search a full-text index with any analyzer, as neo4j-graphrag's retrievers search a vector index."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import neo4j
from neo4j_graphrag.exceptions import FilterValidationError
from neo4j_graphrag.filters import get_metadata_filter
from neo4j_graphrag.retrievers.base import Retriever
from neo4j_graphrag.types import RawSearchResult, RetrieverResultItem

from adk_graph_memory import errors
from adk_graph_memory.graph import lucene
from adk_graph_memory.graph.statements import load_cypher_files
from adk_graph_memory.language.detection import WIDE_CHARACTER, load_stop_words
from adk_graph_memory.language.text import join_lines
from adk_graph_memory.records.scopes import check_flags
from adk_graph_memory.retrieval.own_index.results import read_hit

ENGLISH_STOP_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
    a about after again against all am an and any are aren aren't as at be because been before being below between
    both but by can can't cannot could couldn couldn't d did didn didn't do does doesn doesn't doing don't down
    during each few for from further had hadn hadn't has hasn hasn't have haven haven't having he her here hers
    herself him himself his how i I i'm i've if in into is isn isn't it it's its itself just let's ll m me more most
    my myself no nor not of off on once only or other our ours ourselves out over own please re s same shall she
    should shouldn shouldn't so some such t tell than that that's the their theirs them themselves then there
    there's these they they're this those through to too under until up us ve very was wasn wasn't we we're were
    weren weren't what what's when where where's which while who who's whom whose why will with won't would wouldn
    wouldn't you you're your yours yourself yourselves
        """,
    )
)
"""Words without a meaning of their own. The stop-words package lists "Microsoft", "research" and "10" among them."""


def choose_stop_words(language: str) -> frozenset[str]:
    """The stop words of a language.

    Raises:
        errors.InvalidArgument: there are none of such a language.
    """
    if not (stop_words := ENGLISH_STOP_WORDS if language == "en" else load_stop_words(language)):
        reason = f"no stop words are known of language={language!r}: give an ISO 639-1 code such as en or de"
        raise errors.InvalidArgument(reason=f"{reason}, or filter_stop_words=False")
    return stop_words


def format_search_text(text: str, stop_words: frozenset[str] = frozenset()) -> str:
    """Format a query for what contains any of the text's words; nothing in it is an operator.

    Stop words are left out, unless there is nothing else. A letter is one only as it is listed, so that "vitamin A"
    stays. Of too many words the longest are kept.

    Returns:
        The query; empty if the text has no word and no symbol such as an emoji.
    """
    terms = list(dict.fromkeys(_split_terms(text)))
    terms = [term for term in terms if _fold_word(term) not in stop_words] or terms
    if len(terms) > lucene.TERMS_PER_QUERY:
        terms = sorted(terms, key=lambda term: (not term.isalnum(), -len(term)))[: lucene.TERMS_PER_QUERY]
    return " ".join(f'"{term}"' for term in terms)


def _split_terms(text: str) -> Iterator[str]:
    for word in lucene.split_words(text):
        if word.strip("_"):
            yield word
        if WIDE_CHARACTER.search(word):  # analyzers differ in how they split what is written without spaces
            yield from lucene.split_bigrams(word)
    yield from (character for character in text if unicodedata.category(character) == "So")


def _fold_word(word: str) -> str:
    return word if len(word) == 1 else word.casefold().replace("’", "'")


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
        check_flags(filter_stop_words=filter_stop_words)
        self.index_name, self.retrieval_query, self.result_formatter = index_name, retrieval_query, result_formatter
        self._stop_words = choose_stop_words(language) if filter_stop_words else frozenset[str]()

    def default_record_formatter(self, record: neo4j.Record) -> RetrieverResultItem:
        """Return the text on one line, with score and the other values as metadata."""
        hit = read_hit(record)
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
        if not (search_text := format_search_text(query_text, self._stop_words)):
            return RawSearchResult(records=[])
        condition, parameters = translate_filters(filters)
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


def translate_filters(filters: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Translate filters into a condition on ``node`` and its parameters; into an empty one if there are none.

    Raises:
        errors.InvalidArgument: neo4j-graphrag knows no such filter.
    """
    if not filters:
        return "", {}
    try:
        return get_metadata_filter(filters)
    except (FilterValidationError, ValueError, TypeError) as error:
        raise errors.InvalidArgument(reason=f"filters={filters!r}: {error}") from error
