"""A question goes in; rows of this user's memories, expanded by a ``retrieval_query``, come out.

``HybridCypherRetriever`` cuts to ``top_k`` before it looks whose nodes they are, so a small user in a large store gets
nothing from it. This one puts the scope into every leg, before any limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import neo4j
from neo4j import exceptions as driver_errors
from neo4j_graphrag.retrievers import HybridCypherRetriever
from neo4j_graphrag.types import RawSearchResult, RetrieverResultItem

from adk_graph_memory import errors, telemetry
from adk_graph_memory.embeddings import EmbeddedQuestion, Vectors
from adk_graph_memory.graph import Connection, Slot, analyzers, lucene
from adk_graph_memory.graph.queries import GIVEN, filled
from adk_graph_memory.records import Filters, Scope
from adk_graph_memory.retrieval import message, smalltalk, traversal
from adk_graph_memory.retrieval.question import Asked, parse_question
from adk_graph_memory.retrieval.ranking import Ranking
from adk_graph_memory.retrieval.rows import metadata
from adk_graph_memory.retrieval.scoring import Scored
from adk_graph_memory.retrieval.weights import Weights

BY_WORDS, BY_WORDS_FILTERED, BY_VECTOR = 100, 4_000, 150
"""Candidates of each leg, facts and turns together; more by words where a filter leaves only some of them."""
NAMES, DEGREE = 20, 50
SAMPLE = 64
"""Memories that tell how near to a question this user's memories are as a rule."""
FADING = 8.0
"""Deviations behind the best memory after which a score is e times smaller."""
READ, READABLE = 12, 2_000
"""Texts that are read to see how much of the question they cover, and characters of each."""
READABLE_HIT = 480
"""Characters from which a turn is shown by the passage that holds what it was found for."""
_ABOUT_CYPHER = "Neo.ClientError.Statement."
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
        vectors: what embeds the question when ``search`` is not given its vector.
        retrieval_query: Cypher that goes on from ``node`` and ``score`` (and may use ``$scope``) and returns at least
            ``text`` and ``score``; the default returns a fact with the words that support it.
        result_formatter: makes an item of a record.
        weights, filters: what each leg counts, and what of the user's memories is searched at all.
        now: what "last week" goes by, and what is so then counts as current; without it the present.
        zone: whose days "last week" is made of, unless ``now`` is given, which has its own.
        speakers, languages: who speaks in the user's turns, each by all their names, and what, the most usual first.
        redact: what is done to a question before it is embedded or sent.
    """

    VERIFY_NEO4J_VERSION = False

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        *,
        slot: Slot | None,
        vectors: Vectors | None = None,
        retrieval_query: str | None = None,
        result_formatter: Callable[[neo4j.Record], RetrieverResultItem] | None = None,
        weights: Weights | None = None,
        filters: Filters | None = None,
        now: datetime | None = None,
        zone: tzinfo = UTC,
        speakers: Sequence[Sequence[str]] = (),
        languages: Sequence[str] = (),
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self._connection, self._scope, self.slot = connection, scope, slot
        self._weights, self._redact, self._vectors = weights or Weights(), redact, vectors
        self._filters, self._now, self.zone, self._speakers = filters, now, zone, speakers
        self._languages = languages or (lucene.language(connection.settings.analyzers[0]),)
        super().__init__(
            connection.sync_driver,
            vector_index_name=filled(f"@memory_vector_{slot.name if slot else 'a'}", connection.settings),
            fulltext_index_name=filled("@memory_text", connection.settings),
            retrieval_query=retrieval_query or connection.statements.fragments["retrieval_query"],
            embedder=vectors.embedder if vectors else None,
            result_formatter=result_formatter,
            neo4j_database=connection.settings.database,
        )

    def default_record_formatter(self, record: neo4j.Record) -> RetrieverResultItem:
        """The text, with the rest of the row for metadata; the base class's takes our list of members for a dict."""
        row = {key: value for key, value in dict(record).items() if key != "text" and value is not None}
        return RetrieverResultItem(content=record["text"], metadata=row | {"metadata": metadata(row.get("metadata"))})

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
            query_vector: its vector, best of :attr:`Asked.spoken`; where it is not given, the embedder makes one, and
                tokens beside it.
            top_k: how many memories at most.
            query_params: further parameters of your own ``retrieval_query``.

        Returns:
            Records in the order of their score; the metadata holds the vector, the live slot's name and, by the id of
            each memory, what its score is made of.
        """
        if self._redact:
            query_text = self._redact(query_text)
        asked = self.parse_question(query_text)
        embedded = EmbeddedQuestion(query_vector) if query_vector is not None else None
        if embedded is None and self._vectors and self.slot and query_text:
            embedded = self._vectors.embed_question(asked.spoken)
        return self.retrieve(query_text, asked, embedded, top_k, query_params or {})

    def retrieve(
        self, query_text: str, asked: Asked, embedded: EmbeddedQuestion | None, top_k: int, further: dict[str, Any]
    ) -> RawSearchResult:
        """The same for a question that is parsed and embedded already; without a vector by full text alone."""
        ranked, seen = self._ranked(asked, query_text, embedded)
        found = ranked[:top_k]
        hits = [
            {"id": one.id, "fact": one.fact, "score": seen["support"] * math.exp((one.score - found[0].score) / FADING)}
            for one in found
        ]
        records = self._run("hits", self._expansion, further | self._bound(hits)).records if hits else []
        scores = {id: one for one in found for id in (one.id, one.fact) if id is not None}
        vector = embedded.vector if embedded else None
        return RawSearchResult(records=records, metadata={"query_vector": vector, "scored": scores, **seen})

    def _bound(self, hits: list[dict[str, Any]]) -> dict[str, Any]:
        """What every ``retrieval_query`` may use."""
        facts = [hit["fact"] for hit in hits if hit["fact"] is not None]
        until = self._now.timestamp() if self._now else None
        known = {"scope": self._scope.key, "until": until, "readable": READABLE_HIT, "marks": lucene.MARKS}
        return known | {GIVEN: known | {"hits": hits, "facts": facts}}

    @property
    def _expansion(self) -> str:
        return f"CALL () {{\n{self._connection.statements['hits']}\n}}\n{self.retrieval_query}"

    def check(self) -> None:
        """Has the server plan the ``retrieval_query``, without running it.

        Raises:
            errors.ConfigurationError: it is no valid Cypher, or :func:`~.traversal.check` refuses it.
            errors.DatabaseError: the server could not be asked.
        """
        try:
            planned, hits = self._planned(self._expansion), self._planned(self._connection.statements["hits"])
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            if not str(getattr(error, "code", "")).startswith(_ABOUT_CYPHER):
                raise self._connection.translated(error) from error
            raise errors.ConfigurationError(reason=f"the retrieval_query cannot be run: {error}") from error
        traversal.check(planned, hits)

    def _planned(self, statement: str) -> neo4j.EagerResult:
        return self._run("EXPLAIN hits", f"EXPLAIN {statement}", self._bound([]))

    def parse_question(self, question: str) -> Asked:
        """What the question asks of this user's memories."""
        return parse_question(question, self._speakers, self._now or datetime.now(self.zone), self._languages)

    def find_candidates(
        self, query_text: str, asked: Asked, embedded: EmbeddedQuestion | None
    ) -> tuple[Ranking, neo4j.Record]:
        """What the legs find for a question, not ranked yet, and the row that told it."""
        [row] = self._legs(self._parameters(asked, embedded.vector if embedded else None))
        fluency = self._vectors.fluency(asked.spoken) if self._vectors and embedded else float(embedded is not None)
        return Ranking.of_row(row, query_text, asked, embedded, fluency), row

    def _ranked(
        self, asked: Asked, question: str, embedded: EmbeddedQuestion | None
    ) -> tuple[list[Scored], dict[str, Any]]:
        if not asked.terms:
            return [], {}
        ranking, row = self.find_candidates(question, asked, embedded)
        found = ranking.rank(self._weights, (self._now or datetime.now(UTC)).timestamp())
        return found, {"live": row["live"], "writes": row["writes"], "support": ranking.support}

    def _parameters(self, asked: Asked, vector: list[float] | None) -> dict[str, Any]:
        key, settings, parts = self._scope.key, self._connection.settings, asked.parts
        index = analyzers.index_of(lucene.analyzer(asked.language, settings.analyzers))
        parameters = {
            "scope": key,
            "text_index": filled(f"@{index}", settings),
            "text_queries": message.queries(parts, key, ("text", "words")),
            "name_queries": message.queries(parts, key, ("name", "aliases")),
            "by_words": BY_WORDS_FILTERED if self._filters else BY_WORDS,
            "by_vector": BY_VECTOR,
            "names": NAMES,
            "degree": DEGREE,
            "sample": SAMPLE,
            "read": READ,
            "readable": READABLE,
            "brief": smalltalk.LONGEST,
            "filters": self._filters.parameters() if self._filters else None,
            "until": self._now.timestamp() if self._now else None,
            "tokens": "",
        }
        if vector is not None and self.slot is not None:
            parameters |= {"vector": vector, "slot": self.slot.property, "tokens": self.slot.token_property}
        return parameters

    def _legs(self, parameters: dict[str, Any]) -> list[neo4j.Record]:
        if "vector" not in parameters or self.slot is None:
            return self._read("legs_text", parameters)
        indexed = f"legs_{self.slot.name}"
        if self._filters or indexed not in self._connection.statements:
            return self._read("legs_scan", parameters)
        try:
            return self._read(indexed, parameters)
        except driver_errors.ClientError as error:
            if error.code != _NO_INDEX:
                raise
            return self._read("legs_scan", parameters)

    def _read(self, name: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        return self._run(name, *self._connection.statements.bind(name, parameters)).records

    def _run(self, name: str, statement: str, parameters: dict[str, Any]) -> neo4j.EagerResult:
        with telemetry.statement(name, self._connection.place):
            return self.driver.execute_query(
                statement, parameters, database_=self.neo4j_database, routing_=neo4j.RoutingControl.READ
            )
