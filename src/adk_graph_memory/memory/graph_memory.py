"""``GraphMemory``: remember, recall, forget, correct, list and export, for many users in one graph."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from neo4j import AsyncDriver, Driver

from adk_graph_memory import errors
from adk_graph_memory.consolidation.judge import Judge
from adk_graph_memory.extraction.extractor import Extractor, choose_extractor
from adk_graph_memory.extraction.vocabulary import Topic
from adk_graph_memory.graph import ingest_queue
from adk_graph_memory.graph.connection import Auth, Connection
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.speakers import SpeakerCache
from adk_graph_memory.memory.export import Exporting
from adk_graph_memory.memory.guard import Guard, GuardOption, choose_guard
from adk_graph_memory.memory.histories import Histories, Undoing
from adk_graph_memory.memory.ingestion import Ingestion
from adk_graph_memory.memory.maintenance import Checkups, Pruning
from adk_graph_memory.memory.owner import Proposals, Reviews
from adk_graph_memory.memory.pages.document import Showing
from adk_graph_memory.memory.recall import Recall, RecallOptions
from adk_graph_memory.memory.redaction import RedactOption, Redactor
from adk_graph_memory.memory.reextraction import Reextraction, Rereader
from adk_graph_memory.memory.statements import SharedOption, Sharing, check_authors
from adk_graph_memory.memory.vectors import GraphVectors
from adk_graph_memory.models import llm
from adk_graph_memory.models.embedder import EmbedderChoice
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.results import Filters, IngestReport, Recollection
from adk_graph_memory.records.scopes import Scope, SharedMemory
from adk_graph_memory.records.turns import RULES, Turn, check_session_id
from adk_graph_memory.retrieval.reranking import Reranker
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever
from adk_graph_memory.retrieval.weights import Weights
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.concurrency import Closeable
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.runtime.telemetry import ProblemLog

logger = logging.getLogger(__name__)
STAYS_STORED = "The words are stored and pending: add them again, or run `adk-graph-memory ingest --pending`."
"""What an error of :meth:`GraphMemory.remember` says of words that could not be read."""


class GraphMemory(
    Checkups,
    Exporting,
    Histories,
    Proposals,
    Pruning,
    Reextraction,
    Reviews,
    Sharing,
    Showing,
    Undoing,
    Closeable,
):
    """The memory of many users in one graph.

    Args:
        uri: a Neo4j address, which may also contain settings (``settings.parse_address``). Defaults to NEO4J_URI, or
            else to the server that ``adk-graph-memory up`` started.
        auth, database: default to NEO4J_USERNAME and NEO4J_PASSWORD, and to NEO4J_DATABASE or ``neo4j``.
        driver, sync_driver: your own async and sync drivers (graphrag's retrievers are sync); never closed here.
        settings: all settings, instead of the environment's.
        schema: ``auto`` (migrate at first use), ``check`` (refuse an unfit schema) or ``off``.
        timezone: IANA name of the time zone for users whose own is unknown; it decides which day "yesterday" is.
        model: what extracts entities and facts: the name of any model that ADK supports, a ``BaseLlm``, or ``"rules"``.
            Defaults to ADK_GRAPH_MEMORY_MODEL, or else to rules.
        embedder: a neo4j-graphrag ``Embedder``, a function from text to a vector, a Gemini model's name, the name or
            path of a sentence-transformers model (None: all-MiniLM-L6-v2), or False to search by full text alone.
        retrieval_query: your own Cypher traversal, as for neo4j-graphrag's retrievers: it continues from ``node``,
            ``score`` and ``$scope``, and returns at least ``text`` and ``score``.
        redact: applied to every question, and to every text before it is stored, sent or embedded: a pure function
            from text to text, or ``"secrets"`` (the extra ``privacy``). Defaults to ADK_GRAPH_MEMORY_REDACT.
        topics: the model keeps only facts on these topics: :class:`Topic` objects, or labels of Memory Bank's topics
            (``USER_PREFERENCES`` …). Without topics, it keeps whatever matters.
        weights: the weight of each signal in a memory's score.
        guard: decides before a fact or statement is written whether to keep, hold or drop it: a function from
            :class:`GuardCandidate` to :class:`GuardVerdict` or None, or ``"rules"`` (see ``memory.guard``; the extra
            ``privacy``). Defaults to ADK_GRAPH_MEMORY_GUARD, or else to none.
        shared: the shared memories that a user's searches read in addition to the user's own: the same for all users,
            or a function of app_name and user_id, which may be async. Defaults to ADK_GRAPH_MEMORY_SHARED, or else to
            none.
        reranker: reorders the best fifty memories, if it finishes within the setting ``rerank_timeout``.

    Example:
        async with GraphMemory() as memory:
            turn = Turn("t1", author="user", text="My sister Inés moved to Porto.", at=datetime.now(UTC))
            await memory.remember([turn], app_name="home", user_id="ana", session_id="call")
            for recollection in await memory.recall("Where does Inés live?", app_name="home", user_id="ana"):
                print(recollection.prompt_text)
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        auth: Auth = None,
        database: str | None = None,
        driver: AsyncDriver | None = None,
        sync_driver: Driver | None = None,
        settings: Settings | None = None,
        schema: str | None = None,
        timezone: str | None = None,
        model: str | llm.BaseLlm | None = None,
        embedder: EmbedderChoice = None,
        retrieval_query: str | None = None,
        redact: RedactOption = None,
        topics: Sequence[Topic | str] | None = None,
        weights: Weights | None = None,
        reranker: Reranker | None = None,
        guard: GuardOption = None,
        shared: SharedOption | None = None,
    ) -> None:
        self._model, self._redact, self._topics, self._guard, self._shared = model, redact, topics, guard, shared
        self.connection = Connection(
            uri,
            auth=auth,
            database=database,
            driver=driver,
            sync_driver=sync_driver,
            settings=settings,
            schema=schema,
            timezone=timezone,
        )
        self.problems = ProblemLog(logger)
        self.vectors = GraphVectors(self.connection, embedder, self.problems)
        self.speakers = SpeakerCache(self.connection)
        self._recall = Recall(
            self.connection, self.vectors, self.speakers, self.problems, retrieval_query, weights, reranker
        )

    @telemetry.trace_operation("upsert_memory")
    async def remember(
        self,
        turns: Sequence[Turn],
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        metadata: Mapping[str, Any] | None = None,
        allowed_topics: Sequence[str] = (),
        replace_metadata: bool = False,
    ) -> IngestReport:
        """Extract entities and facts from the new turns and store them, each linked to its source words.

        Turns that were ingested before cost nothing and change nothing. A known id with a different text is an edit:
        the turn is read again, and a fact that only the old text supported is deleted. If a step fails, the request
        stays pending in the graph with its turns and the reason, and the next call with these turns retries it.

        Args:
            turns: in the order they were said; a whole session or only its latest turns. Blank turns are left out.
            app_name, user_id: whose memory it is.
            session_id: the session the turns belong to.
            metadata: stored with the turns and returned with them; merged into existing metadata.
            allowed_topics: labels of the topics to extract in this request; all topics if empty.
            replace_metadata: replace the turns' existing metadata instead of merging.

        Raises:
            errors.InvalidArgument: this session id is reserved, or turns for a shared memory do not name their author.
            errors.ConfigurationError: there is no such topic; nothing is stored.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.ModelError: the model failed; the turns are stored and pending.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's; likewise.
            errors.DatabaseError: the graph could not be written.
        """
        check_session_id(session_id)
        turns, redacted = await self._clean_turns(turns), await self.redactor.redact_metadata(metadata)
        if not turns:
            return IngestReport(extractor=self.extractor.version)
        telemetry.annotate_memories(turns)
        scope = Scope(app_name, user_id)
        check_authors(scope, (turn.author for turn in turns))
        delta = JsonMapDelta.from_values(redacted or {}, replaces=replace_metadata)
        return await self._ingest_turns(scope, session_id, turns, delta, topics=allowed_topics)

    @telemetry.trace_operation("queue_memory")
    async def enqueue(self, turns: Sequence[Turn], *, app_name: str, user_id: str, session_id: str) -> int:
        """Store the new turns for a later :meth:`resume`, in this process or another.

        Returns:
            The number of new turns.

        Raises:
            errors.RedactionFailed, errors.DatabaseError: nothing is stored.
        """
        check_session_id(session_id)
        turns = await self._clean_turns(turns)
        telemetry.annotate_memories(turns)
        connection, scope = self.connection, Scope(app_name, user_id)
        check_authors(scope, (turn.author for turn in turns))
        ingestion = self._make_ingestion(connection)
        return await ingestion.enqueue_turns(scope, session_id, turns) if turns else 0

    @telemetry.trace_operation("upsert_memory")
    async def resume(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        before: float | None = None,
        max_attempts: int | None = None,
        queued_for: str | None = None,
    ) -> list[IngestReport]:
        """Ingest the pending requests: those that were queued, or whose process died or model failed.

        Args:
            app_name: only this app's requests.
            user_id: only this user's requests.
            before: only requests made before this time, in epoch seconds.
            max_attempts: only requests with fewer attempts.
            queued_for: only requests for the model with this name (``rules`` for no model); that model, not this
                memory's own, extracts from them.

        Raises:
            errors.InvalidArgument: ``user_id`` looks like a shared memory, and is none.
            errors.QueuedModelMissing: ADK has no model with this name.
            errors.DatabaseUnavailable: the requests not yet ingested stay pending.
            Exception: the first error of a request that stays pending; the other requests were still ingested.
        """
        SharedMemory.check_user_id(user_id)
        ingests = await ingest_queue.fetch_pending_ingests(
            self.connection, app_name=app_name, user_id=user_id, before=before, max_attempts=max_attempts
        )
        if queued_for is not None:
            ingests = [ingest for ingest in ingests if ingest.model == queued_for]
        return await self._make_ingestion(self.connection, queued_for).resume_pending(ingests)

    @telemetry.trace_operation("search_memory")
    async def recall(
        self,
        query: str,
        *,
        app_name: str,
        user_id: str,
        limit: int | None = None,
        token_budget: int | None = None,
        min_score: float | None = None,
        now: datetime | None = None,
        filters: Filters | None = None,
        explain: bool = False,
        first_wait: float | None = None,
        embed_timeout: float | None = None,
        as_of: AsOf | None = None,
        shared: Sequence[SharedMemory] | None = None,
    ) -> list[Recollection]:
        """Return the user's memories that best fit the question, best first.

        A search takes one embedding and two statements, and no model call. Each shared memory takes two more
        statements, run in parallel, and another embedding if the question names somebody who speaks there. The first
        search of a process, and the first after a write, runs one more statement to learn who speaks.

        Args:
            query: a question or any words; query syntax in it has no effect.
            app_name, user_id: whose memory it is.
            limit: the maximum number of memories; defaults to the setting ``memory_max_results``.
            token_budget: the maximum number of tokens of text; defaults to the setting of that name.
            min_score: the lowest score (0 to 1) of a memory; defaults to the setting of that name.
            now: search as of this moment: anything said later is left out.
            filters: which memories to search.
            explain: fill each memory's ``shares`` with what each signal added to its score.
            first_wait: for an agent, whose reply must not fail for lack of vectors: seconds the first search waits for
                the embedder before it uses full text alone (``degraded``). Any search whose embedder cannot be used
                does the same; this is logged once.
            embed_timeout: seconds this search waits for the question's vector, loading included; after that, likewise.
            as_of: return what was true then, according to what was on record then, in the wording of that time. The
                facts are re-derived for this.
            shared: the shared memories to search in addition to the user's own; defaults to those that this memory was
                created with. Pass none that the user may not see.

        Raises:
            errors.InvalidArgument: the query is not a string, or an option is out of range.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's, and there is no
                ``first_wait``.
            errors.DatabaseError: the graph could not be read.
        """
        if not isinstance(query, str):
            raise errors.InvalidArgument(reason=f"the question {query!r} is no text")
        await self.connection.prepare()
        scopes = await self._list_scopes(app_name, user_id, shared)
        options = RecallOptions(
            limit,
            token_budget,
            min_score,
            now,
            filters,
            explain,
            first_wait=first_wait,
            embed_timeout=embed_timeout,
            as_of=as_of,
        )
        query = await self.redactor.redact_text(query)
        telemetry.annotate_query(query)
        memories = await self._recall.recall_memories(scopes, query, options)
        telemetry.annotate_memories(memories)
        return memories

    async def make_retriever(self, *, app_name: str, user_id: str) -> GraphMemoryRetriever:
        """Make a neo4j-graphrag retriever over this user's memory; once prepared, this only looks up who speaks."""
        if self.vectors.slot_tracker.slot is None:
            await self.vectors.embed_question("ready?")
        scope, redact = Scope(app_name, user_id), self.redactor.redact_function
        return await self._recall.make_retriever(scope, self.vectors.slot_tracker.slot, redact=redact)

    async def prepare(self) -> None:
        """Check everything that a conversation needs, so that the first one meets no error and no delay.

        Checks redaction, topics, the model's name and credentials, and the embedder; migrates or checks the schema. The
        server then plans the statements of a conversation, which takes seconds if it has just started, else
        milliseconds.

        Raises:
            errors.ConfigurationError, errors.RedactorMissing: a setting cannot be used, or its libraries are missing.
            errors.DatabaseError, errors.SchemaError: the graph cannot be used.
            errors.EmbeddingError, errors.EmbedderMismatch: the embedder cannot be used, or not with this graph.
        """
        _ = self.redactor, self.guard, self.extractor
        if self._language_model:
            await llm.check_model(self._language_model)
        self.vectors.start_loading()
        with self.connection.planner.paused():  # the server drops its plans when the vectors' indexes are made
            await self.connection.prepare()
            await self.vectors.prepare_embedder()
        self.plan_ahead()
        await self.connection.planner.wait_until_planned()

    def plan_ahead(self) -> None:
        """From the first statement on, have the server plan the statements of a conversation in the background."""
        self.connection.planner.list_statements = self._recall.list_planned_statements

    async def close(self) -> None:
        """Close the connections opened in the running event loop; may be called again."""
        self.vectors.report_loading_failure()
        await self.connection.close()

    async def _clean_turns(self, turns: Sequence[Turn]) -> list[Turn]:
        """The turns that say something, redacted."""
        return [turn for turn in await self.redactor.redact_turns(turns) if turn.text.strip()]

    async def _ingest_turns(
        self,
        scope: Scope,
        session_id: str,
        turns: Sequence[Turn],
        metadata: JsonMapDelta | None = None,
        *,
        topics: Sequence[str] = (),
        extractor: Extractor | None = None,
        guard: Guard | None = None,
    ) -> IngestReport:
        """Ingest turns, with another extractor or guard than this memory's if one is given."""
        ingestion = self._make_ingestion(self.connection, extractor=extractor, guard=guard)
        try:
            return await ingestion.ingest_turns(scope, session_id, turns, metadata or JsonMapDelta(), topics)
        except (errors.EmbeddingError, errors.EmbedderMismatch, errors.ModelError, errors.WriteConflict) as error:
            raise error.add_sentence(STAYS_STORED) from error.__cause__

    def _make_ingestion(
        self,
        connection: Connection,
        model_name: str | None = None,
        *,
        extractor: Extractor | None = None,
        guard: Guard | None = None,
    ) -> Ingestion:
        """Make an ingestion with this memory's model, or that of another name, or with another extractor or guard."""
        if model_name in (None, self._language_model.model if self._language_model else RULES):
            readers = extractor or self.extractor, self.judge
        else:
            model = None if model_name == RULES else llm.resolve_queued_model(model_name or RULES)
            readers = self._make_readers(model)
        return Ingestion(connection, self.vectors, *readers, self.problems, guard or self.guard)

    def _make_rereader(self) -> Rereader:
        return Rereader(self.connection, self.vectors, self.extractor, self.judge, self.problems, self.guard)

    @cached_property
    def extractor(self) -> Extractor:
        """Extracts entities and facts from turns."""
        return self._make_readers(self._language_model)[0]

    @cached_property
    def judge(self) -> Judge | None:
        """Decides how new and stored facts relate where rules cannot; None without a model."""
        return self._make_readers(self._language_model)[1]

    def _make_readers(self, model: llm.BaseLlm | None) -> tuple[Extractor, Judge | None]:
        extractor = choose_extractor(model, self._topics, self.connection.settings)
        return extractor, Judge(model, self.connection.settings.limits) if model else None

    @cached_property
    def _language_model(self) -> llm.BaseLlm | None:
        model = self._model or self.connection.settings.model or RULES
        return None if model == RULES else llm.resolve_model(model)

    @cached_property
    def redactor(self) -> Redactor:
        """Redacts every text before anything else sees it."""
        return Redactor(self._redact or self.connection.settings.redact)

    @cached_property
    def guard(self) -> Guard | None:
        """Decides before a fact is written whether to keep it; None without a guard."""
        return choose_guard(self._guard or self.connection.settings.guard)
