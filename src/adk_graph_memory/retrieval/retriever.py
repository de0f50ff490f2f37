"""A question goes in; rows of this user's memories, expanded by a ``retrieval_query``, come out.

``HybridCypherRetriever`` cuts to ``top_k`` before it looks whose nodes they are, so a small user in a large store gets
nothing from it. This one puts the scope into every leg, before any limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import neo4j
from neo4j import exceptions as driver_errors
from neo4j_graphrag.embeddings.base import Embedder
from neo4j_graphrag.retrievers import HybridCypherRetriever
from neo4j_graphrag.types import RawSearchResult, RetrieverResultItem

from adk_graph_memory.graph import Connection, Slot, lucene
from adk_graph_memory.graph.members import read
from adk_graph_memory.graph.queries import filled
from adk_graph_memory.records import Scope
from adk_graph_memory.retrieval.question import Asked, understood
from adk_graph_memory.retrieval.scoring import Candidate, Weights, fused

FETCH = 200
"""Candidates a leg: cutting them to 100 cost 2.8 points of recall where it was measured, to 200 under one."""
NAMES = 20
DEGREE = 50
_NO_INDEX = "Neo.ClientError.Schema.IndexNotFound"
"""The code when an index is gone, or still filling; what it would find is then found by comparing all, only slower."""


class GraphMemoryRetriever(HybridCypherRetriever):
    """Hybrid retrieval over the facts and turns of one user, with neo4j-graphrag's public shape.

    It stands wherever a ``HybridCypherRetriever`` does (``GraphRAG``, ``ToolsRetriever``). Whose memories are searched
    is settled here and is no argument of ``search``: those become tool arguments, which a model fills in.

    Args:
        connection: a prepared connection; its sync driver runs the statements.
        scope: whose memories.
        slot: the live vectors; None searches by full text alone.
        embedder: makes the question's vector when ``search`` is not given one.
        retrieval_query: Cypher that goes on from ``node`` and ``score`` (and may use ``$scope``) and returns at least
            ``text`` and ``score``; the default returns a fact with the words that support it.
        result_formatter: makes an item of a record.
        weights: what each leg counts.
        until: leaves out what was said later than this.
        speakers: who speaks in the user's turns, each by the author's name and whatever else they are called.
        redact: what is done to a question before it is embedded or sent.
    """

    VERIFY_NEO4J_VERSION = False

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        *,
        slot: Slot | None,
        embedder: Embedder | None = None,
        retrieval_query: str | None = None,
        result_formatter: Callable[[neo4j.Record], RetrieverResultItem] | None = None,
        weights: Weights | None = None,
        until: datetime | None = None,
        speakers: Sequence[Sequence[str]] = (),
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self._connection, self._scope, self._slot = connection, scope, slot
        self._weights, self._until, self._redact = weights or Weights(), until, redact
        self._speakers = speakers
        super().__init__(
            connection.sync_driver,
            vector_index_name=filled(f"@memory_vector_{slot.name if slot else 'a'}", connection.settings),
            fulltext_index_name=filled("@memory_text", connection.settings),
            retrieval_query=retrieval_query or connection.statements.fragments["retrieval_query"],
            embedder=embedder,
            result_formatter=result_formatter,
            neo4j_database=connection.settings.database,
        )

    def default_record_formatter(self, record: neo4j.Record) -> RetrieverResultItem:
        """The text, with the rest of the row for metadata; the base class's takes our list of members for a dict."""
        row = {key: value for key, value in dict(record).items() if key != "text" and value is not None}
        return RetrieverResultItem(content=record["text"], metadata=row | {"metadata": read(row.get("metadata"))})

    def _fetch_index_infos(self, vector_index_name: str) -> None:
        """The base class asks the server about its index, a round trip a search; we made the index ourselves."""

    def get_search_results(  # type: ignore[override]  # the base class's rankers and ratios have no meaning here
        self,
        query_text: str = "",
        query_vector: list[float] | None = None,
        top_k: int = 10,
        query_params: dict[str, Any] | None = None,
    ) -> RawSearchResult:
        """The user's memories that fit the question best.

        Args:
            query_text: the question, as it was typed.
            query_vector: its embedding, best of :attr:`Asked.spoken`; made by the embedder if it is not given.
            top_k: how many memories at most.
            query_params: further parameters of your own ``retrieval_query``.

        Returns:
            Records in the order of their score; the metadata holds the vector and the live slot's name.
        """
        if self._redact:
            query_text = self._redact(query_text)
        asked = understood(query_text, self._speakers)
        if query_vector is None and self.embedder and self._slot and query_text:
            query_vector = self.embedder.embed_query(asked.spoken)
        found, seen = self._candidates(asked, query_vector)
        hits = [{"id": id, "score": score} for id, score in found[:top_k]]
        records: list[neo4j.Record] = []
        if hits:
            statement = f"CALL () {{\n{self._connection.statements['hits']}\n}}\n{self.retrieval_query}"
            records = self._read(statement, {**(query_params or {}), "hits": hits, "scope": self._scope.key})
        return RawSearchResult(records=records, metadata={"query_vector": query_vector, **seen})

    def _candidates(self, asked: Asked, vector: list[float] | None) -> tuple[list[tuple[str, float]], dict[str, Any]]:
        terms = lucene.terms(asked.words)
        if not terms:
            return [], {}
        key = self._scope.key
        parameters = {
            "scope": key,
            "text_query": lucene.scoped(key, terms, ("text", "words")),
            "name_query": lucene.scoped(key, terms, ("name", "aliases")),
            "fetch": FETCH,
            "names": NAMES,
            "degree": DEGREE,
            "until": self._until.timestamp() if self._until else None,
        }
        if vector is not None and self._slot is not None:
            parameters |= {"vector": vector, "slot": self._slot.property}
        [row] = self._legs(parameters)
        found = fused((Candidate(*one) for one in row["candidates"]), self._weights, asked.author)
        return found, {"live": row["live"], "writes": row["writes"]}

    def _legs(self, parameters: dict[str, Any]) -> list[neo4j.Record]:
        statements = self._connection.statements
        if "vector" not in parameters or self._slot is None:
            return self._read(statements["legs_text"], parameters)
        indexed = f"legs_{self._slot.name}"
        if indexed not in statements:
            return self._read(statements["legs_scan"], parameters)
        try:
            return self._read(statements[indexed], parameters)
        except driver_errors.ClientError as error:
            if error.code != _NO_INDEX:
                raise
            return self._read(statements["legs_scan"], parameters)

    def _read(self, statement: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        records, _, _ = self.driver.execute_query(
            statement, parameters, database_=self.neo4j_database, routing_=neo4j.RoutingControl.READ
        )
        return records
