"""A question goes in; rows of this user's memories, expanded by a ``retrieval_query``, come out.

``HybridCypherRetriever`` cuts to ``top_k`` before it looks whose nodes they are, so a small user in a large store gets
nothing from it. This one puts the scope into every leg, before any limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import neo4j
from neo4j import exceptions as driver_errors
from neo4j_graphrag.exceptions import SearchValidationError
from neo4j_graphrag.retrievers import HybridCypherRetriever
from neo4j_graphrag.types import HybridCypherSearchModel, RawSearchResult, RetrieverResultItem
from pydantic import ValidationError

from adk_graph_memory import errors, telemetry
from adk_graph_memory.embeddings import EmbedderAdapter, QuestionEmbedding
from adk_graph_memory.graph import Connection, VectorSlot, lucene, vector_slots
from adk_graph_memory.graph.queries import PARAMETER_MAP, fill_identifiers
from adk_graph_memory.records import Filters, Scope
from adk_graph_memory.retrieval import query_check
from adk_graph_memory.retrieval.question import ParsedQuestion, parse_question
from adk_graph_memory.retrieval.ranking import Ranking, make_results
from adk_graph_memory.retrieval.recollections import parse_metadata
from adk_graph_memory.retrieval.source_parameters import make_source_parameters, make_vector_parameters
from adk_graph_memory.retrieval.weights import Weights

logger = logging.getLogger(__name__)

PASSAGE_THRESHOLD = 480
"""Characters from which a turn is shown by the passage that holds what it was found for."""
_CYPHER_ERROR_PREFIX = "Neo.ClientError.Statement."
_INDEX_NOT_FOUND = "Neo.ClientError.Schema.IndexNotFound"
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
        slot: VectorSlot | None,
        vectors: EmbedderAdapter | None = None,
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
        self._foreign_slot: str | None = None
        self._weights, self._redact, self._embedder_adapter = weights or Weights(), redact, vectors
        self._filters, self._now, self.zone, self._speakers = filters, now, zone, speakers
        self._languages = languages or (lucene.get_analyzer_language(connection.settings.analyzers[0]),)
        super().__init__(
            connection.sync_driver,
            vector_index_name=fill_identifiers(f"@memory_vector_{slot.name if slot else 'a'}", connection.settings),
            fulltext_index_name=fill_identifiers("@memory_text", connection.settings),
            retrieval_query=retrieval_query or connection.statements.fragments["retrieval_query"],
            embedder=vectors.embedder if vectors else None,
            result_formatter=result_formatter,
            neo4j_database=connection.settings.database,
        )

    def default_record_formatter(self, record: neo4j.Record) -> RetrieverResultItem:
        """The text, with the rest of the row for metadata; the base class's takes our list of members for a dict."""
        row = {key: value for key, value in dict(record).items() if key != "text" and value is not None}
        return RetrieverResultItem(
            content=record["text"], metadata=row | {"metadata": parse_metadata(row.get("metadata"))}
        )

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
            query_vector: its vector, best of :attr:`ParsedQuestion.first_person_text`; where it is not given, the
                embedder makes one, and tokens beside it.
            top_k: how many memories at most.
            query_params: further parameters of your own ``retrieval_query``.

        Raises:
            SearchValidationError: an argument is not what it has to be, as neo4j-graphrag says it.

        Returns:
            Records in the order of their score; the metadata holds the vector, the live slot's name and, by the id of
            each memory, what its score is made of.
        """
        given = {"query_text": query_text, "query_vector": query_vector, "top_k": top_k, "query_params": query_params}
        try:
            search = HybridCypherSearchModel.model_validate(given)
        except ValidationError as error:
            raise SearchValidationError(error.errors()) from error
        found = self._search_once(search)
        if self._is_slot_outdated(found):
            self._follow_live_slot()
            return self._search_once(search)
        return found

    def _search_once(self, search: HybridCypherSearchModel) -> RawSearchResult:
        text = self._redact(search.query_text) if self._redact else search.query_text
        asked = self.parse_question(text)
        embedded = QuestionEmbedding(search.query_vector) if search.query_vector is not None else None
        if embedded is None and self._embedder_adapter and self.slot and text:
            embedded = self._embedder_adapter.embed_question(asked.first_person_text)
        return self.retrieve_records(text, asked, embedded, search.top_k, search.query_params or {})

    def _is_slot_outdated(self, found: RawSearchResult) -> bool:
        """Whether another slot is live than the one that was searched, and not yet known to be another embedder's."""
        seen = found.metadata or {}
        return self._embedder_adapter is not None and seen.get("live") not in (
            None,
            seen.get("slot"),
            self._foreign_slot,
        )

    def _follow_live_slot(self) -> None:
        """Goes on with the slot that is live now, if its vectors are of our embedder, or else by full text."""
        live = vector_slots.read_schema_state(self._read_statement("schema_state", {})[0]["m"]).live_slot
        is_ours = (
            live is not None and self._embedder_adapter is not None and live.embedder == self._embedder_adapter.name
        )
        self.slot, self._foreign_slot = (live, None) if is_ours else (None, live.name if live else None)
        if not is_ours:
            logger.warning("The memories were re-embedded by another embedder: this retriever goes by full text alone.")

    def retrieve_records(
        self,
        query_text: str,
        asked: ParsedQuestion,
        embedded: QuestionEmbedding | None,
        top_k: int,
        further: dict[str, Any],
        characters: int | None = None,
    ) -> RawSearchResult:
        """The same for a question that is parsed and embedded already; without a vector by full text alone.

        Once the memories have so many characters together, no further ones are read.
        """
        vector = embedded.vector if embedded else None
        if not asked.terms:
            return RawSearchResult(records=[], metadata={"query_vector": vector, "scored": {}})
        ranking, row = self.find_candidates(query_text, asked, embedded)
        found = ranking.rank_candidates(self._weights, (self._now or datetime.now(UTC)).timestamp())
        found = (found if characters is None else ranking.limit_characters(found, characters))[:top_k]
        hits = make_results(found, ranking.answer_likelihood)
        records = (
            self._run_statement("hits", self._result_query, further | self._make_result_parameters(hits))
            if hits
            else []
        )
        scores = {id: one for one in found for id in (one.id, one.fact_id) if id is not None}
        seen = {name: row[name] for name in ("live", "writes", "slot")} | {"support": ranking.answer_likelihood}
        return RawSearchResult(records=records, metadata={"query_vector": vector, "scored": scores, **seen})

    def _make_result_parameters(self, hits: list[dict[str, Any]]) -> dict[str, Any]:
        """What every ``retrieval_query`` may use."""
        facts = [hit["fact"] for hit in hits if hit["fact"] is not None]
        until = self._now.timestamp() if self._now else None
        known = {"scope": self._scope.key, "until": until, "readable": PASSAGE_THRESHOLD, "marks": lucene.PUNCTUATION}
        return known | {PARAMETER_MAP: known | {"hits": hits, "facts": facts}}

    @property
    def _result_query(self) -> str:
        return f"CALL () {{\n{self._connection.statements['hits']}\n}}\n{self.retrieval_query}"

    def check_retrieval_query(self) -> None:
        """Has the server plan the ``retrieval_query``, without running it.

        Raises:
            errors.ConfigurationError: it is no valid Cypher, or :func:`~.query_check.check_query_plan` refuses it.
            errors.DatabaseError: the server could not be asked.
        """
        try:
            planned, hits = (
                self._explain_statement(self._result_query),
                self._explain_statement(self._connection.statements["hits"]),
            )
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            if not str(getattr(error, "code", "")).startswith(_CYPHER_ERROR_PREFIX):
                raise self._connection.translate_error(error) from error
            raise errors.ConfigurationError(reason=f"the retrieval_query cannot be run: {error}") from error
        query_check.check_query_plan(planned, hits, self._connection.statements)

    def _explain_statement(self, statement: str) -> neo4j.EagerResult:
        with telemetry.trace_statement("EXPLAIN hits", self._connection.telemetry_attributes):
            return query_check.explain_statement(
                self._connection.reads, f"EXPLAIN {statement}", self._make_result_parameters([])
            )

    def parse_question(self, question: str) -> ParsedQuestion:
        """What the question asks of this user's memories."""
        return parse_question(question, self._speakers, self._now or datetime.now(self.zone), self._languages)

    def find_candidates(
        self, query_text: str, asked: ParsedQuestion, embedded: QuestionEmbedding | None
    ) -> tuple[Ranking, Mapping[str, Any]]:
        """What the legs find for a question, not ranked yet, and the row that told it, with the slot searched."""
        slot = self.slot  # another thread may follow to another one meanwhile
        embedded = embedded if slot else None
        parameters = make_source_parameters(asked, self._scope, self._connection.settings, self._filters, self._now)
        if embedded and slot:
            parameters |= make_vector_parameters(embedded.vector, slot)
        [row] = self._query_sources(parameters, slot if embedded else None)
        fluency = (
            self._embedder_adapter.measure_fluency(asked.first_person_text)
            if self._embedder_adapter and embedded
            else float(embedded is not None)
        )
        return Ranking.from_row(row, query_text, asked, embedded, fluency), {**row, "slot": slot.name if slot else None}

    def _query_sources(self, parameters: dict[str, Any], slot: VectorSlot | None) -> list[neo4j.Record]:
        if slot is None:
            return self._read_statement("legs_text", parameters)
        indexed = f"legs_{slot.name}"
        if indexed in self._connection.statements and not self._filters:
            try:
                return self._read_statement(indexed, parameters)
            except driver_errors.ClientError as error:
                if error.code != _INDEX_NOT_FOUND:
                    raise
        return self._read_statement("legs_scan", parameters)

    def _read_statement(self, name: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        return self._run_statement(name, *self._connection.statements.bind_parameters(name, parameters))

    def _run_statement(self, name: str, statement: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        with telemetry.trace_statement(name, self._connection.telemetry_attributes):
            return self._connection.reads.read_rows(statement, parameters)
