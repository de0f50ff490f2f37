"""The corridor: turns go in and are remembered, questions go in and are answered, ids go in and are forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Unpack

from adk_graph_memory import consolidation, embeddings, extraction, graph, llm, redaction, retrieval, telemetry
from adk_graph_memory.closing import Closeable
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.ingest import Ingestion
from adk_graph_memory.recall import Recall, RecallOptions
from adk_graph_memory.records import Filters, IngestReport, Passage, Receipt, Recollection, Scope, Statement, Turn


class GraphMemory(Closeable):
    """The memory of many users in one graph.

    Args:
        uri: an address, settings and all (``settings.of_address``); else NEO4J_URI, or ``adk-graph-memory up``'s.
        auth, database: without them NEO4J_USERNAME and NEO4J_PASSWORD, and NEO4J_DATABASE or ``neo4j``.
        driver, sync_driver: an async and a sync one of yours (graphrag's retrievers are sync); never closed here.
        settings: all settings, instead of the environment's.
        schema: ``auto`` (migrate at first use), ``check`` (refuse an unfit schema) or ``off``.
        timezone: IANA name of the time zone for users whose own is not known; "yesterday" is a day there.
        model: what reads entities and facts: the name of any model that ADK knows, a ``BaseLlm``, or ``"rules"``,
            which is also what None means where ADK_GRAPH_MEMORY_MODEL is not set.
        embedder: a neo4j-graphrag ``Embedder``, a function from text to numbers, a name of Gemini's, the name or path
            of a sentence-transformers model (None: all-MiniLM-L6-v2), or False to work by full text alone.
        retrieval_query: your own traversal, as for neo4j-graphrag's retrievers: it goes on from ``node``, ``score``
            and ``$scope``, and returns at least ``text`` and ``score``.
        redact: what is done to every text before it is stored, sent or embedded, and to every question: a pure
            function from text to text, or ``"secrets"`` (the extra ``privacy``); without it ADK_GRAPH_MEMORY_REDACT.
        topics: what a model keeps to: a :class:`Topic` each, or the label of one of Memory Bank's
            (``USER_PREFERENCES`` and its kin); a fact of no topic is left out. Without any, whatever matters.
        weights: what each signal adds to a memory's score.
        reranker: orders the best fifty anew, if it takes no longer than the setting ``rerank_timeout``.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        model: str | llm.BaseLlm | None = None,
        embedder: embeddings.EmbedderChoice = None,
        retrieval_query: str | None = None,
        redact: redaction.RedactOption = None,
        topics: Sequence[extraction.Topic | str] | None = None,
        weights: retrieval.Weights | None = None,
        reranker: retrieval.Reranker | None = None,
        **options: Unpack[graph.ConnectionOptions],
    ) -> None:
        self._model, self._redact, self._topics = model, redact, topics
        self.connection = graph.Connection(uri, **options)
        self.vectors, self.speakers = GraphVectors(self.connection, embedder), graph.SpeakerCache(self.connection)
        self._recall = Recall(self.connection, self.vectors, self.speakers, retrieval_query, weights, reranker)

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
    ) -> IngestReport:
        """Reads what is new in the turns and writes it down as entities and facts, each tied to its words.

        Turns that were read before cost nothing and change nothing. Whatever fails on the way, the request stays in
        the graph with its turns and the reason, and the next call with these turns takes it up.

        Args:
            turns: in the order they were said; all of a session or only the latest.
            app_name, user_id: whose memory it is.
            session_id: where it was said.
            metadata: kept with the turns and returned with them; merged into what is there.
            allowed_topics: labels of the topics that this request is read for; without any, all that there are.

        Raises:
            errors.ConfigurationError: there is no such topic; nothing is stored.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.ModelError: the model failed.
            errors.EmbedderMissing, errors.CredentialsMissing, errors.EmbedderMismatch: no vector would fit the graph's.
            errors.DatabaseError: the graph could not be written.
        """
        if not turns:
            return IngestReport(extractor=self.extractor.version)
        turns, metadata = await self.redactor.redact_turns(turns), await self.redactor.redact_metadata(metadata)
        telemetry.annotate_memories(turns)
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        return await self._make_ingestion(connection).ingest_turns(
            scope, session_id, turns, JsonMapDelta.from_values(metadata or {}), allowed_topics
        )

    @telemetry.trace_operation("queue_memory")
    async def enqueue(self, turns: Sequence[Turn], *, app_name: str, user_id: str, session_id: str) -> int:
        """Stores what is new in the turns, to be read when :meth:`resume` is called, here or in another process.

        Returns:
            How many turns were new.

        Raises:
            errors.RedactionFailed, errors.DatabaseError: nothing is stored.
        """
        turns = await self.redactor.redact_turns(turns)
        telemetry.annotate_memories(turns)
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        return (
            await self._make_ingestion(connection).enqueue_turns(scope, session_id, turns, JsonMapDelta())
            if turns
            else 0
        )

    @telemetry.trace_operation("upsert_memory")
    async def resume(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        before: float | None = None,
        tries: int | None = None,
    ) -> list[IngestReport]:
        """Takes up what was to be remembered and never was: it was queued, a process died, a model failed.

        Args:
            app_name: of this app only.
            user_id: of this user only.
            before: only what was asked for until then, in epoch seconds.
            tries: only what was tried fewer times.

        Raises:
            errors.DatabaseUnavailable: what was not done by then stays pending.
            Exception: of the first that stays pending for a reason of its own; all others were taken up.
        """
        connection = await graph.prepare_connection(self.connection)
        chosen = {"app_name": app_name, "user_id": user_id}
        waiting = await graph.ingest_queue.fetch_pending_ingests(connection, **chosen, before=before, tries=tries)
        return await self._make_ingestion(connection).resume_pending(waiting)

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
    ) -> list[Recollection]:
        """The user's memories that fit the question best, best first: one embedding, two statements, no model.

        Once a process, and after a write, one more statement tells who speaks.

        Args:
            query: a question or any words; nothing in it is taken for query syntax.
            app_name, user_id: whose memory it is.
            limit: how many at most; without it the setting ``memory_max_results``.
            token_budget: how many tokens of text at most; without it the setting of that name.
            min_score: leaves out what scores less (0 to 1); without it the setting of that name.
            now: answers as of this moment: what was said later is left out.
            filters: what of the memories is searched at all.
            explain: fills each one's ``shares``: what every signal added to its score.
            first_wait: seconds that the first search waits for a model before it goes by full text (``degraded``).

        Raises:
            errors.EmbedderMissing, errors.CredentialsMissing, errors.EmbedderMismatch: no vector would fit the graph's.
            errors.DatabaseError: the graph could not be read.
        """
        await graph.prepare_connection(self.connection)
        wanted = RecallOptions(limit, token_budget, min_score, now, filters, explain, first_wait=first_wait)
        query = await self.redactor.redact_text(query)
        telemetry.annotate_query(query)
        found = await self._recall.recall_memories(Scope(app_name, user_id), query, wanted)
        telemetry.annotate_memories(found)
        return found

    @telemetry.trace_operation("delete_memory")
    async def forget(self, ids: str | Sequence[str], *, app_name: str, user_id: str) -> Receipt:
        """Takes memories away for good: re-adding their session does not bring them back.

        A turn takes with it the facts that rested on it alone; entities that nothing speaks of any more go too.

        Args:
            ids: as in ``Recollection.id``, or a statement's own id; one or several. Unknown ones and other users'
                are passed over.
            app_name, user_id: whose memory it is.
        """
        ids = [ids] if isinstance(ids, str) else ids
        telemetry.annotate_memory_ids(ids)
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        meant = [name for id in ids for name in (id, consolidation.make_statement_id(id))]
        return await graph.forgetting.forget_ids(connection, scope, meant)

    @telemetry.trace_operation("create_memory")
    async def add_statements(self, statements: Sequence[Statement], *, app_name: str, user_id: str) -> IngestReport:
        """Writes statements down as facts just as they are; the same one again only renews its metadata."""
        statements = await self.redactor.redact_statements(statements)
        telemetry.annotate_memories(statements)
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        facts = sorted(
            {fact.id: fact for fact in map(consolidation.plan_statement, statements)}.values(), key=lambda f: f.id
        )
        await self.vectors.slot_tracker.refresh_slot()
        embedded = await self.vectors.embed_passages([Passage(fact.proposition.text) for fact in facts])
        await graph.memories.add_facts(connection, scope, facts, embedded)
        return IngestReport(facts={"ADD": len(facts)}, embedded=len(embedded.embeddings), extractor="direct")

    async def make_retriever(self, *, app_name: str, user_id: str) -> retrieval.GraphMemoryRetriever:
        """A neo4j-graphrag retriever over this user's memory, for ``GraphRAG`` and its kin.

        Once the memory is prepared, making one asks the graph nothing but who speaks.
        """
        await self.prepare()
        scope, redact = Scope(app_name, user_id), self.redactor.redact_function
        return await self._recall.make_retriever(scope, self.vectors.slot_tracker.slot, redact=redact)

    async def prepare(self) -> None:
        """Connects, makes the schema fit, loads the embedder and checks that the graph's vectors are its own."""
        _ = self.redactor
        await graph.prepare_connection(self.connection)
        if self.vectors.slot_tracker.slot is None:
            await self.vectors.embed_question("ready?")

    async def close(self) -> None:
        """Closes the connections opened in the running event loop; may be called again."""
        await self.connection.close()

    def _make_ingestion(self, connection: graph.Connection) -> Ingestion:
        return Ingestion(connection, self.vectors, self.extractor, self.judge)

    @cached_property
    def extractor(self) -> extraction.Extractor:
        """What reads entities and facts out of turns."""
        return extraction.choose_extractor(self._language_model, self._topics, self.connection.settings)

    @cached_property
    def judge(self) -> consolidation.Judge | None:
        """What decides how new facts and known ones relate where rules cannot tell; None without a model."""
        model = self._language_model
        return consolidation.Judge(model, llm.RetryPolicy.from_settings(self.connection.settings)) if model else None

    @cached_property
    def _language_model(self) -> llm.BaseLlm | None:
        model = self._model or self.connection.settings.model or "rules"
        return None if model == "rules" else llm.resolve_model(model)

    @cached_property
    def redactor(self) -> redaction.Redactor:
        """What every text passes on its way in."""
        return redaction.Redactor(self._redact or self.connection.settings.redact)
