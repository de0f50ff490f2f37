"""Retrieve one user's memories for a question, as a neo4j-graphrag retriever.

``HybridCypherRetriever`` cuts to ``top_k`` before it checks whose nodes they are, so it finds nothing for a small user
in a large store. This one applies the scope in every retrieval source, before any limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import neo4j
from neo4j import exceptions as driver_errors
from neo4j_graphrag.exceptions import SearchValidationError
from neo4j_graphrag.retrievers import HybridCypherRetriever
from neo4j_graphrag.types import HybridCypherSearchModel, RawSearchResult, RetrieverResultItem
from pydantic import ValidationError

from adk_graph_memory import errors
from adk_graph_memory.graph import listings, lucene, schema, vector_slots
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.listings import list_named_keys
from adk_graph_memory.graph.planning import PlannedStatement
from adk_graph_memory.graph.statements import PARAMETER_MAP, RETENTION, compute_retention, fill_identifiers
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.language.text import join_lines
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.records.results import Filters
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.retrieval import query_check, smalltalk
from adk_graph_memory.retrieval.candidates import BASELINE_SAMPLE_SIZE, SearchCandidate
from adk_graph_memory.retrieval.question import ParsedQuestion, format_part_queries, parse_question
from adk_graph_memory.retrieval.ranking import Ranking, scale_scores
from adk_graph_memory.retrieval.recollections import convert_to_records, parse_metadata
from adk_graph_memory.retrieval.scoring import ScoredMemory
from adk_graph_memory.retrieval.weights import Weights
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.settings import Settings

TEXT_LIMIT, FILTERED_TEXT_LIMIT, VECTOR_LIMIT = 60, 4_000, 100
"""Candidates of each retrieval source, facts and turns together; more by words if filters leave only some of them."""
BEYOND_EXPIRED = {"text_hits": FILTERED_TEXT_LIMIT, "finds_expired": False}
"""Parameters that search again if some of the best have expired: further down, and without those."""
ENTITY_LIMIT, FACTS_PER_ENTITY = 20, 50
QUESTION_MARKS = ["?", "？", "؟"]
COVERAGE_TEXTS, COVERAGE_CHARACTERS = 12, 2_000
"""Texts that are read to measure how much of the question they cover, and characters of each."""


def make_source_parameters(
    question: ParsedQuestion,
    scope: Scope,
    settings: Settings,
    filters: Filters | None = None,
    until: datetime | None = None,
    entities: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Make the parameters of the statements; with a vector they also need those of :func:`make_vector_parameters`.

    Args:
        question: the question.
        scope: whose memories to search.
        settings: the deployment's index names and analyzers.
        filters: which memories to search.
        until: ignore whatever was said later.
        entities: keys of the entities that the filters name.
    """
    index = schema.name_text_index(lucene.choose_analyzer(question.language, settings.analyzers))
    text_limit = FILTERED_TEXT_LIMIT if filters else TEXT_LIMIT
    name_parts = [part for part in question.query_parts if part.has_names]
    filter_parameters = None
    if filters:
        metadata = list(JsonMapDelta.from_values(filters.metadata).members)
        filter_parameters = filters.to_parameters() | {"metadata": metadata, "entities": entities}
    return {
        "text_index": fill_identifiers(f"@{index}", settings),
        "text_queries": format_part_queries(question.query_parts, scope.key, ("text", "words")),
        "name_queries": format_part_queries(name_parts, scope.key, ("name", "aliases")),
        "text_hits": text_limit,
        "by_words": text_limit,
        "finds_expired": not filters,
        "by_vector": VECTOR_LIMIT,
        "vector_hits": 2 * VECTOR_LIMIT,  # by the question in the first person, which is not how all are compared
        "names": ENTITY_LIMIT,
        "degree": text_limit if filters else FACTS_PER_ENTITY,
        "sample": BASELINE_SAMPLE_SIZE,
        "read": COVERAGE_TEXTS,
        "readable": COVERAGE_CHARACTERS,
        "brief": smalltalk.MAX_SMALLTALK_CHARACTERS,
        "question_marks": QUESTION_MARKS,
        "filters": filter_parameters,
        "until": until.timestamp() if until else None,
        "vector": None,
        "typed_vector": None,
        "slot": "",
        "tokens": "",
    }


def make_vector_parameters(embedding: QuestionEmbedding, slot: VectorSlot) -> dict[str, Any]:
    """Make the parameters for the question's vectors and the properties of the vectors they are compared with."""
    typed_vector = embedding.typed.vector if embedding.typed else None
    properties = {"slot": slot.vector_property, "tokens": slot.token_property}
    return {"vector": embedding.vector, "typed_vector": typed_vector, **properties}


Memory = Mapping[str, Any]


def _convert_to_candidate(memory: Memory) -> SearchCandidate:
    text = memory["text"]
    is_turn = memory["kind"] == "event"
    return SearchCandidate(
        id=memory["memory_id"],
        kind=memory["kind"],
        text_score=memory["score"],
        text_length=len(text),
        state=None if is_turn else "current",
        valid_from=_convert_to_timestamp(memory["valid_from"]),
        valid_to=_convert_to_timestamp(memory["valid_to"]),
        valid_from_precision=memory["valid_from_precision"],
        role=memory["role"],
        author=memory["author"],
        timestamp=memory["timestamp"],
        session_id=memory["session_id"],
        has_question=is_turn and any(mark in text for mark in QUESTION_MARKS),
        has_final_question=is_turn and any(mark in text[-4:] for mark in QUESTION_MARKS),
        short_text=text if is_turn and len(text) <= smalltalk.MAX_SMALLTALK_CHARACTERS else None,
        manner=memory["manner"],
    )


def _convert_to_timestamp(date: Any) -> float | None:
    return None if date is None else date.to_native().timestamp()


def make_result_rows(memories: Sequence[Memory], results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Make the rows that the statement ``results`` would return, without what is related to them."""
    by_id = {memory["memory_id"]: memory for memory in memories}
    for result in results:
        memory = by_id[result["id"]]
        own = {"id": memory["memory_id"], "event_id": memory["id"], "score": result["score"]}
        yield {**memory, **own, "facts": [], "sources": []}


def list_planned_searches(connection: Connection, slot: VectorSlot | None) -> Iterator[PlannedStatement]:
    """List the statements of a search, the plain one first, with the parameters of a question that finds nothing.

    Args:
        connection: whose statements, for its settings and server.
        slot: the slot that is searched; None if vectors are not.
    """
    settings, language = connection.settings, lucene.get_analyzer_language(connection.settings.analyzers[0])
    question = parse_question("Is this planned?", (), datetime.now(UTC), (language,))
    by_words = make_source_parameters(question, Scope(":nobody:", ":nobody:"), settings)
    by_vector = by_words | (make_vector_parameters(QuestionEmbedding([1.0] * slot.dimensions), slot) if slot else {})
    names = [f"candidates_{slot.name}"] if slot else []
    indexed = [name for name in names if name in connection.statements]
    yield PlannedStatement("plain_search", "read", by_words, "words")
    yield PlannedStatement("speakers", "read", stage="searches")
    for name in indexed or ["candidates_scan"]:
        yield PlannedStatement(name, "read", by_vector, "searches")
    yield PlannedStatement("results", "read", stage="searches")
    if indexed:
        yield PlannedStatement("candidates_scan", "read", by_words)


logger = logging.getLogger(__name__)

PASSAGE_THRESHOLD = 480
"""A turn with more characters is cut to the passage that contains the quote it was found for."""
_CYPHER_ERROR_PREFIX = "Neo.ClientError.Statement."
_INDEX_NOT_FOUND = "Neo.ClientError.Schema.IndexNotFound"
"""The code if an index is missing or still populating; comparing every vector then finds the same, only slower."""


class GraphMemoryRetriever(HybridCypherRetriever):
    """Hybrid retrieval over the facts and turns of one user, with neo4j-graphrag's interface.

    Use it wherever a ``HybridCypherRetriever`` fits (``GraphRAG``, ``ToolsRetriever``). The user is set here and is not
    an argument of ``search``, because a model fills in those when the retriever is a tool.

    Args:
        graph: the user's graph, prepared; its connection's sync driver runs the statements.
        slot: the live vector slot; None searches by full text alone.
        embedder: embeds the question if ``search`` is called without its vector.
        retrieval_query: Cypher that continues from ``node`` and ``score`` (and may use ``$scope``) and returns at least
            ``text`` and ``score``; the default returns a fact with the words that support it.
        result_formatter: makes a result item of a record.
        weights: the weight of each signal.
        filters: which memories to search.
        now: the time that "last week" is relative to, and at which facts count as current; the present if None.
        zone: the time zone of days such as "yesterday", unless ``now`` is given, which has its own.
        speakers: who speaks in the user's turns, each by all their names.
        languages: the languages of the user's turns, the most frequent first.
        redact: applied to a question before it is embedded or sent.

    Example:
        async with GraphMemory() as memory:
            turn = Turn("t1", author="user", text="My sister Inés moved to Porto.", at=datetime.now(UTC))
            await memory.remember([turn], app_name="home", user_id="ana", session_id="call")
            retriever = await memory.user("home", "ana").make_retriever()
            result = await asyncio.to_thread(retriever.search, "Where does Inés live?", top_k=3)
            print(result.items[0].content)
    """

    VERIFY_NEO4J_VERSION = False

    def __init__(
        self,
        graph: UserGraph,
        *,
        slot: VectorSlot | None,
        embedder: EmbedderAdapter | None = None,
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
        connection = graph.connection
        if not connection.is_prepared:
            raise errors.SchemaUnchecked(database=connection.settings.database)
        self._connection, self._scope, self.slot = connection, graph.scope, slot
        self._foreign_slot: str | None = None
        self._weights, self._redact, self._embedder_adapter = weights or Weights(), redact, embedder
        self._filters, self._now, self.zone, self._speakers = filters, now, zone, speakers
        self._languages = languages or (lucene.get_analyzer_language(connection.settings.analyzers[0]),)
        super().__init__(
            connection.sync_driver,
            vector_index_name=fill_identifiers(f"@memory_vector_{slot.name if slot else 'a'}", connection.settings),
            fulltext_index_name=fill_identifiers("@memory_text", connection.settings),
            retrieval_query=retrieval_query or "",
            embedder=embedder.embedder if embedder else None,
            result_formatter=result_formatter,
            neo4j_database=connection.settings.database,
        )

    def default_record_formatter(self, record: neo4j.Record) -> RetrieverResultItem:
        """Return the text on one line, with the rest as metadata; the base class would take our JSON map for a dict."""
        row = {key: value for key, value in dict(record).items() if key != "text" and value is not None}
        return RetrieverResultItem(
            content=join_lines(record["text"]), metadata=row | {"metadata": parse_metadata(row.get("metadata"))}
        )

    def _fetch_index_infos(self, vector_index_name: str) -> None:
        """Do nothing: the base class asks the server about the index, one round trip per search, but ours is known."""

    def get_search_results(  # type: ignore[override]  # the base class's rankers and ratios have no meaning here
        self,
        query_text: str = "",
        query_vector: list[float] | None = None,
        top_k: int = 10,
        query_params: dict[str, Any] | None = None,
    ) -> RawSearchResult:
        """Return the user's memories that fit the question best.

        Args:
            query_text: the question, as it was typed.
            query_vector: its vector, ideally of :attr:`ParsedQuestion.first_person_text`; if None, the embedder makes
                it, together with the tokens.
            top_k: the maximum number of memories.
            query_params: further parameters of your own ``retrieval_query``.

        Raises:
            SearchValidationError: neo4j-graphrag rejects an argument.

        Returns:
            Records, best first; the metadata holds the vector, the live slot's name and, by memory id, the scores with
            their shares.
        """
        arguments = {
            "query_text": query_text,
            "query_vector": query_vector,
            "top_k": top_k,
            "query_params": query_params,
        }
        try:
            search = HybridCypherSearchModel.model_validate(arguments)
        except ValidationError as error:
            raise SearchValidationError(error.errors()) from error
        result = self._search_once(search)
        if self._is_slot_outdated(result):
            self._follow_live_slot()
            return self._search_once(search)
        return result

    def _search_once(self, search: HybridCypherSearchModel) -> RawSearchResult:
        query = self._redact(search.query_text) if self._redact else search.query_text
        question = self.parse_question(query)
        embedding = QuestionEmbedding(search.query_vector) if search.query_vector is not None else None
        if embedding is None and self._embedder_adapter and self.slot and query:
            embedding = self._embedder_adapter.embed_question(question.first_person_text, question.typed_text)
        return self.retrieve_records(query, question, search.top_k, search.query_params or {}, embedding=embedding)

    def _is_slot_outdated(self, result: RawSearchResult) -> bool:
        """Whether the live slot is not the one that was searched, and not one already known to be foreign."""
        metadata = result.metadata or {}
        return self._embedder_adapter is not None and metadata.get("live") not in (
            None,
            metadata.get("slot"),
            self._foreign_slot,
        )

    def _follow_live_slot(self) -> None:
        """Switch to the live slot if its vectors are our embedder's, or else to full text."""
        live_slot = vector_slots.read_schema_state(self._read_meta()).live_slot
        is_ours = (
            live_slot is not None
            and self._embedder_adapter is not None
            and live_slot.embedder == self._embedder_adapter.name
        )
        self.slot, self._foreign_slot = (live_slot, None) if is_ours else (None, live_slot.name if live_slot else None)
        if not is_ours:
            logger.warning("Another embedder re-embedded the memories: this retriever now uses full text alone.")

    def retrieve_records(
        self,
        query: str,
        question: ParsedQuestion,
        top_k: int,
        query_parameters: dict[str, Any],
        characters: int | None = None,
        *,
        embedding: QuestionEmbedding | None,
    ) -> RawSearchResult:
        """Retrieve the records for a parsed question; without an embedding, by full text alone.

        No further memories are read once those read have ``characters`` characters in all.
        """
        vector = embedding.vector if embedding else None
        if not question.terms:
            return RawSearchResult(records=[], metadata={"query_vector": vector, "memories": {}})
        ranking, row = self.find_candidates(query, question, embedding)
        memories = self._choose_memories(ranking, top_k, characters)
        results = scale_scores(memories, ranking.answer_likelihood)
        records = self._read_results(results, query_parameters) if results else []
        metadata = {"query_vector": vector, **{column: row[column] for column in ("live", "writes", "slot")}}
        is_default = self._embedder_adapter is not None and self._embedder_adapter.is_default
        if is_default and not self.retrieval_query:  # no others' scores are calibrated
            metadata |= {"min_score": ranking.min_score, "is_doubtful": ranking.is_doubtful}
        return RawSearchResult(records=records, metadata=metadata | _describe_scores(memories, ranking))

    def retrieve_by_words(
        self, query: str, question: ParsedQuestion, top_k: int, characters: int | None = None
    ) -> RawSearchResult:
        """Retrieve by words alone, with one small statement: for a server that has no time to plan more."""
        if not question.terms:
            return RawSearchResult(records=[], metadata={"memories": {}})
        parameters = make_source_parameters(question, self._scope, self._connection.settings)
        [row] = self._read_statement("plain_search", parameters)
        texts = [memory["text"][:COVERAGE_CHARACTERS] for memory in row["memories"][:COVERAGE_TEXTS]]
        # as a statement ``candidates_…`` would return it
        candidate_row = {"candidates": list(map(_convert_to_candidate, row["memories"])), "texts": texts, "usual": []}
        ranking = Ranking.from_row(candidate_row, query, question, None, 0.0)
        memories = self._choose_memories(ranking, top_k, characters)
        results = scale_scores(memories, ranking.answer_likelihood)
        records = convert_to_records(make_result_rows(row["memories"], results), (), PASSAGE_THRESHOLD)
        return RawSearchResult(records=records, metadata=_describe_scores(memories, ranking))

    def _choose_memories(self, ranking: Ranking, top_k: int, characters: int | None) -> list[ScoredMemory]:
        memories = ranking.rank_candidates(self._weights, (self._now or datetime.now(UTC)).timestamp())
        return (memories if characters is None else ranking.limit_characters(memories, characters))[:top_k]

    def _read_results(self, results: list[dict[str, Any]], query_parameters: dict[str, Any]) -> list[neo4j.Record]:
        if self.retrieval_query:
            parameters = query_parameters | self._make_result_parameters(results)
            return self._run_statement("results", self._own_result_query, parameters)
        [row] = self._read_statement("results", self._make_own_parameters(results))
        return convert_to_records(row["results"], {result["fact"] for result in results}, PASSAGE_THRESHOLD)

    def _make_result_parameters(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        """Make the parameters of a caller's ``retrieval_query``: those that it may use, and those of our own part."""
        own = self._make_own_parameters(results)
        public = {"scope": self._scope.key, "until": own["until"], "marks": own["marks"]}
        return public | {PARAMETER_MAP: public | own | {RETENTION: compute_retention(self._connection.settings)}}

    def _make_own_parameters(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "until": self._now.timestamp() if self._now else None,
            "marks": lucene.PUNCTUATION,
            "results": results,
            "question_marks": QUESTION_MARKS,
        }

    @property
    def _own_result_query(self) -> str:
        return f"CALL () {{\n{self._result_nodes}\n}}\n{self.retrieval_query}"

    @property
    def _result_nodes(self) -> str:
        return self._connection.statements.fragments["result_nodes"]

    def check_retrieval_query(self) -> None:
        """Let the server plan the ``retrieval_query``, without running it, and check the plan.

        Raises:
            errors.InvalidArgument: it is not valid Cypher, or :func:`~.query_check.check_query_plan` refuses it.
            errors.DatabaseError: the server did not answer.
        """
        try:
            explanation, results_explanation = (
                self._explain_statement(self._own_result_query),
                self._explain_statement(self._result_nodes),
            )
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            if not str(getattr(error, "code", "")).startswith(_CYPHER_ERROR_PREFIX):
                raise self._connection.translate_error(error) from error
            raise errors.InvalidArgument(reason=f"the retrieval_query cannot be run: {error}") from error
        query_check.check_query_plan(explanation, results_explanation, self._connection.statements)

    def _explain_statement(self, statement: str) -> neo4j.EagerResult:
        with telemetry.trace_statement("EXPLAIN results", self._connection.telemetry_attributes):
            return query_check.explain_statement(
                self._connection.reads, f"EXPLAIN {statement}", self._make_result_parameters([])
            )

    def parse_question(self, question: str) -> ParsedQuestion:
        """Parse a question with the names and languages of this user's speakers."""
        return parse_question(question, self._speakers, self._now or datetime.now(self.zone), self._languages)

    def find_candidates(
        self, query: str, question: ParsedQuestion, embedding: QuestionEmbedding | None
    ) -> tuple[Ranking, Mapping[str, Any]]:
        """Find the candidates, not yet ranked; also return the statement's row, with the slot that was searched."""
        slot = self.slot  # another thread may switch the slot meanwhile
        embedding = embedding if slot else None
        parameters = make_source_parameters(
            question, self._scope, self._connection.settings, self._filters, self._now, self._find_filtered_entities()
        )
        if embedding and slot:
            parameters |= make_vector_parameters(embedding, slot)
        row = self._query_sources(parameters, slot if embedding else None)
        fluency = (
            self._embedder_adapter.measure_fluency(question.first_person_text)
            if self._embedder_adapter and embedding
            else float(embedding is not None)
        )
        ranking = Ranking.from_row(row, query, question, embedding, fluency)
        return ranking, {**row, "slot": slot.name if slot else None}

    def _find_filtered_entities(self) -> list[str] | None:
        """Find the keys of the entities with the name that the filters give; None if they give none."""
        name = self._filters.entity if self._filters else None
        if name is None:
            return None
        for exact in (name, None):  # as listings.find_named_keys does it
            if rows := [row for row in self._iterate_names(exact) if list_named_keys([row], name)]:
                return list_named_keys(rows, name)
        return []

    def _iterate_names(self, name: str | None) -> Iterator[neo4j.Record]:
        after, size = "", listings.PAGE_SIZE
        while rows := self._read_statement("named_entities", {"name": name, "after": after, "limit": size}):
            yield from rows
            if len(rows) < size:
                return
            after = rows[-1]["key"]

    def _query_sources(self, parameters: dict[str, Any], slot: VectorSlot | None) -> neo4j.Record:
        if self._filters:
            return self._read_statement("candidates_filtered", parameters)[0]
        row = self._query_vector_index(parameters, slot) if slot else None
        row = row or self._read_statement("candidates_scan", parameters)[0]
        return self._read_statement("candidates_scan", parameters | BEYOND_EXPIRED)[0] if row["expired"] else row

    def _query_vector_index(self, parameters: dict[str, Any], slot: VectorSlot) -> neo4j.Record | None:
        """Find candidates with the slot's vector index; None if the server has none, or it is not ONLINE."""
        name = f"candidates_{slot.name}"
        if name not in self._connection.statements:
            return None
        try:
            [row] = self._read_statement(name, parameters)
        except driver_errors.ClientError as error:
            if error.code != _INDEX_NOT_FOUND:
                raise
            return None
        return row

    def _read_meta(self) -> Mapping[str, Any]:
        [row] = self._run_statement("schema_state", *self._connection.statements.bind_parameters("schema_state", {}))
        return dict(row["m"])

    def _read_statement(self, name: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        return self._run_statement(name, *self._connection.statements.bind_parameters(name, parameters, self._scope))

    def _run_statement(self, name: str, statement: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        with telemetry.trace_statement(name, self._connection.telemetry_attributes):
            return self._connection.reads.read_rows(statement, parameters)


def _describe_scores(memories: Sequence[ScoredMemory], ranking: Ranking) -> dict[str, Any]:
    by_id = {id: memory for memory in memories for id in (memory.id, memory.fact_id) if id is not None}
    return {"memories": by_id, "answer_likelihood": ranking.answer_likelihood}
