"""Answer one question from memory: parse it, embed it, retrieve, rerank and pack.

A search takes one embedding and two statements, and no model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from neo4j import exceptions as driver_errors
from neo4j_graphrag.types import RawSearchResult

from adk_graph_memory import errors
from adk_graph_memory.graph import planning
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.planning import PlannedStatement
from adk_graph_memory.graph.speakers import SpeakerCache, SpeakerProfile
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.memory.past import PastMemory, derive_past_memory
from adk_graph_memory.memory.vectors import GraphVectors
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.results import Filters, Recollection
from adk_graph_memory.records.scopes import Scope, SharedMemory
from adk_graph_memory.records.turns import check_timezone_aware
from adk_graph_memory.retrieval.packing import pack_recollections
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.recollections import make_recollection
from adk_graph_memory.retrieval.reranking import RERANK_LIMIT, Reranker, rerank_recollections
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever, list_planned_searches
from adk_graph_memory.retrieval.weights import Weights
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.runtime.telemetry import ProblemLog

CHARACTERS_PER_TOKEN = 5
"""More than most tokens have, so that the budget is filled even if some memories are duplicates."""
FIRST_WAIT = 20.0
"""Seconds that the first question of somebody who looks, or of a tool, waits for the embedder before words alone do."""
DUPLICATE_MARGIN = 10
"""Memories fetched beyond the limit, to make up for duplicates."""
HURRIED_SHARE = 2 / 3
"""Share of ``database_timeout`` after which an agent's search is made again, by words alone, in the rest of it."""
STILL_PLANNING = "the server has just started and is still planning the search"
"""Why an agent's search was by words alone, if not for a timeout."""
BY_WORDS_ALONE = "The server had no time for a whole search, so it was by words alone"
"""How the log names what a busy server prevents."""
_QuestionVector = tuple[QuestionEmbedding | None, VectorSlot | None, str | None]
"""A question's embedding, the slot to compare it with, and why there is none."""


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """Which memories to return, and how many; None takes the setting or, for the language, that of the user's turns."""

    limit: int | None = None
    token_budget: int | None = None
    min_score: float | None = None
    now: datetime | None = None
    filters: Filters | None = None
    explain: bool = False
    language: str | None = None
    first_wait: float | None = None
    embed_timeout: float | None = None
    as_of: AsOf | None = None

    def apply_settings(self, settings: Settings) -> RecallOptions:
        """Return the options with the settings' values for those that are None.

        Raises:
            errors.InvalidArgument: a number is out of range, or ``now`` has no time zone.
        """
        limit = settings.memory_max_results if self.limit is None else self.limit
        token_budget = settings.token_budget if self.token_budget is None else self.token_budget
        min_score = settings.min_score if self.min_score is None else self.min_score
        for name, count in (("limit", limit), ("token_budget", token_budget)):
            if not isinstance(count, int) or count < 0:
                raise errors.InvalidArgument(reason=f"{name}={count!r} is not a whole number of at least 0")
        if not isinstance(min_score, int | float) or not 0 <= min_score <= 1:
            raise errors.InvalidArgument(reason=f"min_score={min_score!r} is not between 0 and 1")
        if not isinstance(self.as_of, AsOf | None):
            raise errors.InvalidArgument(reason=f"as_of={self.as_of!r} is no AsOf")
        for name, seconds in (("first_wait", self.first_wait), ("embed_timeout", self.embed_timeout)):
            if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
                raise errors.InvalidArgument(reason=f"{name}={seconds!r} is not a number of seconds of at least 0")
        filters = Filters() if self.filters is None else self.filters
        if not isinstance(filters, Filters):
            raise errors.InvalidArgument(reason=f"filters={filters!r} is not a Filters(…)")
        if self.now is not None:
            check_timezone_aware(self.now)
            if not 1900 <= self.now.year <= 2200:
                raise errors.InvalidArgument(reason=f"now={self.now} is not between 1900 and 2200")
            filters = replace(filters, until=min(filters.until or self.now, self.now))
        return replace(self, limit=limit, token_budget=token_budget, min_score=min_score, filters=filters)


class _Answer(NamedTuple):
    """What one scope answers: the question as it was parsed there, and the memories, best first."""

    question: ParsedQuestion
    recollections: list[Recollection]


class Recall:
    """Answers questions from memory.

    Args:
        connection: has to be prepared before the first question.
        vectors: embeds questions.
        speakers: who speaks in a user's turns, and in which time zone.
        problems: logs what a reranker fails at.
        retrieval_query: a caller's own traversal.
        weights: a caller's own weights.
        reranker: a caller's own reranker of the best memories.
    """

    def __init__(
        self,
        connection: Connection,
        vectors: GraphVectors,
        speakers: SpeakerCache,
        problems: ProblemLog,
        retrieval_query: str | None,
        weights: Weights | None,
        reranker: Reranker | None = None,
    ) -> None:
        self._connection, self._vectors, self._problems = connection, vectors, problems
        self._speakers, self._retrieval_query, self._weights = speakers, retrieval_query, weights
        self._reranker, self._is_query_checked = reranker, retrieval_query is None

    async def recall_memories(self, scopes: Sequence[Scope], query: str, options: RecallOptions) -> list[Recollection]:
        """Return the memories of these scopes that fit the question best, best first.

        Args:
            scopes: the user's own first, then the memories that are shared with them; each is searched by itself.
            query: the question.
            options: which memories, and how many.

        Raises:
            errors.InvalidArgument: an option is out of range.
            errors.EmbedderMismatch: the graph's vectors are another embedder's.
            errors.DatabaseError: the graph could not be read.
        """
        options = options.apply_settings(self._connection.settings)
        limit, token_budget = options.limit or 0, options.token_budget or 0
        if not limit or not token_budget:
            return []
        tasks: dict[str, asyncio.Task[_QuestionVector]] = {}

        def embed(text: str) -> asyncio.Task[_QuestionVector]:
            if text not in tasks:
                question = self._vectors.embed_question(text, options.first_wait, options.embed_timeout)
                tasks[text] = asyncio.create_task(question)
            return tasks[text]

        answers = await asyncio.gather(*(self._search_scope(scope, query, options, embed) for scope in scopes))
        question = answers[0].question
        recollections = [memory for answer in answers for memory in answer.recollections]
        if len(answers) > 1:
            recollections.sort(key=lambda memory: -memory.score)
        if self._reranker is not None:
            seconds = self._connection.settings.limits.rerank_timeout
            recollections = await rerank_recollections(
                recollections, query, self._reranker, seconds=seconds, problems=self._problems
            )
        return await asyncio.to_thread(  # cutting a long text blocks
            pack_recollections,
            recollections,
            query=" ".join(question.terms),
            language=question.stop_word_language,
            limit=limit,
            token_budget=token_budget,
        )

    def list_planned_statements(self, meta: Mapping[str, Any]) -> list[PlannedStatement]:
        """List what a conversation asks the server, searches first, given the properties of the Meta node."""
        slot = self._vectors.find_planned_slot(meta)
        return [*list_planned_searches(self._connection, slot), *planning.CONVERSATION_STATEMENTS]

    async def _search_scope(
        self, scope: Scope, query: str, options: RecallOptions, embed: Callable[[str], Awaitable[_QuestionVector]]
    ) -> _Answer:
        """Search for an agent by words alone if the server has no time for more; else with all that memory knows.

        The server has ``database_timeout`` for both together. The embedder has its own time.
        """
        if options.first_wait is None or self._retrieval_query or options.filters or options.as_of:
            return await self._search_fully(scope, query, options, embed)
        limit = self._connection.settings.limits.database_timeout
        slow: errors.DatabaseTimeout | None = None
        try:
            async with asyncio.timeout(HURRIED_SHARE * limit) as timeout:
                if await self._connection.planner.wait_for_stage("searches", options.first_wait):
                    answer = await self._search_fully(scope, query, options, embed, timeout)
                    self._problems.clear_problem(BY_WORDS_ALONE)
                    return answer
        except TimeoutError:
            if not timeout.expired():
                raise
            slow = self._connection.make_timeout_error(HURRIED_SHARE * limit)
        except errors.DatabaseTimeout as error:
            slow = error
        deadline = (timeout.when() or 0.0) + (1 - HURRIED_SHARE) * limit
        try:
            async with asyncio.timeout_at(deadline) as timeout:
                return await self._search_words(scope, query, options, slow)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise self._connection.make_timeout_error() from error

    async def _search_words(
        self, scope: Scope, query: str, options: RecallOptions, slow: errors.DatabaseTimeout | None
    ) -> _Answer:
        share = (1 - HURRIED_SHARE) * self._connection.settings.limits.database_timeout
        await self._connection.planner.wait_for_stage("words", share)  # not to have the server plan it twice
        retriever = self._construct_retriever(scope, self._speakers.get_known_profile(scope), options)
        question = await asyncio.to_thread(retriever.parse_question, query)
        retrieve = partial(retriever.retrieve_by_words, query, question, *self._choose_limits(options))
        result = await self._run_in_thread(retrieve)
        reason = str(slow or STILL_PLANNING)
        self._problems.report_problem(BY_WORDS_ALONE, TimeoutError(reason), logging.WARNING if slow else logging.INFO)
        return await self._make_answer(scope, question, retriever, result, options, reason)

    def _choose_limits(self, options: RecallOptions) -> tuple[int, int | None]:
        """The numbers of memories and of characters to read."""
        has_more = self._reranker is not None or options.as_of is not None
        top_k = max((options.limit or 0) + DUPLICATE_MARGIN, RERANK_LIMIT if has_more else 0)
        # A reranker or the caller's own traversal may need more text than fits the budget.
        is_limited = not has_more and self._retrieval_query is None
        return top_k, CHARACTERS_PER_TOKEN * (options.token_budget or 0) if is_limited else None

    async def _search_fully(
        self,
        scope: Scope,
        query: str,
        options: RecallOptions,
        embed: Callable[[str], Awaitable[_QuestionVector]],
        time_limit: asyncio.Timeout | None = None,
    ) -> _Answer:
        """Search with all that memory knows; the time limit stands still while the question is embedded."""
        past = await self._derive_past_memory(scope, options.as_of)
        retriever = await self.make_retriever(scope, None, options=options)
        question = await asyncio.to_thread(retriever.parse_question, query)
        top_k, characters = self._choose_limits(options)
        retrieve = partial(retriever.retrieve_records, query, question, top_k, {}, characters)
        with _hold_timeout(time_limit):
            embedding, retriever.slot, degraded = await embed(question.first_person_text)
        result = await self._run_in_thread(partial(retrieve, embedding=embedding))
        if "live" in (metadata := result.metadata or {}):
            await self._vectors.slot_tracker.follow_switch(metadata["live"])
            if retriever.slot and retriever.slot != self._vectors.slot_tracker.slot:  # its vectors may be half deleted
                with _hold_timeout(time_limit):
                    embedding, retriever.slot, degraded = await self._vectors.embed_question(
                        question.first_person_text, options.first_wait, options.embed_timeout
                    )
                result = await self._run_in_thread(partial(retrieve, embedding=embedding))
            self._speakers.drop_outdated(scope, metadata["writes"])
        return await self._make_answer(scope, question, retriever, result, options, degraded, past)

    async def _make_answer(
        self,
        scope: Scope,
        question: ParsedQuestion,
        retriever: GraphMemoryRetriever,
        result: RawSearchResult,
        options: RecallOptions,
        degraded: str | None,
        past: PastMemory | None = None,
    ) -> _Answer:
        now = options.now or datetime.now(retriever.zone)
        recollections = await asyncio.to_thread(_make_recollections, result, options, degraded, now, past)
        if isinstance(scope.user_id, SharedMemory):
            recollections = [replace(memory, shared=scope.user_id) for memory in recollections]
        return _Answer(question, recollections)

    async def _run_in_thread(self, retrieve: Callable[[], RawSearchResult]) -> RawSearchResult:
        """Read in a thread of the sync driver; raise its errors as this package's."""
        try:
            return await self._connection.reads.run_in_thread(retrieve)
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            raise self._connection.translate_error(error) from error
        except UnicodeEncodeError as error:
            raise errors.InvalidUnicode(reason=str(error)) from error

    async def _derive_past_memory(self, scope: Scope, as_of: AsOf | None) -> PastMemory | None:
        return None if as_of is None else await derive_past_memory(self._connection.user(scope), as_of)

    async def make_retriever(
        self,
        scope: Scope,
        slot: VectorSlot | None,
        *,
        options: RecallOptions | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> GraphMemoryRetriever:
        """Make a retriever over the user's memory; this only asks the graph who speaks.

        The first call lets the server plan the caller's ``retrieval_query``, without running it.

        Raises:
            errors.InvalidArgument: the ``retrieval_query`` is invalid or not allowed.
        """
        profile = await self._speakers.find_speaker_profile(scope)
        retriever = self._construct_retriever(scope, profile, options or RecallOptions(), slot, redact)
        if not self._is_query_checked:
            await self._connection.reads.run_in_thread(retriever.check_retrieval_query)
            self._is_query_checked = True
        return retriever

    def _construct_retriever(
        self,
        scope: Scope,
        profile: SpeakerProfile,
        options: RecallOptions,
        slot: VectorSlot | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> GraphMemoryRetriever:
        return GraphMemoryRetriever(
            self._connection.user(scope),
            slot=slot,
            embedder=self._vectors.embedder,
            retrieval_query=self._retrieval_query,
            weights=self._weights,
            filters=options.filters,
            now=options.now,
            zone=profile.zone,
            speakers=profile.names,
            languages=(options.language,) if options.language else profile.languages,
            redact=redact,
        )


@contextmanager
def _hold_timeout(timeout: asyncio.Timeout | None) -> Iterator[None]:
    """Let a timeout stand still for the length of the block."""
    if timeout is None or timeout.expired() or (end := timeout.when()) is None:
        yield
        return
    time = asyncio.get_running_loop().time
    left = end - time()
    timeout.reschedule(None)
    try:
        yield
    finally:
        timeout.reschedule(time() + left)


def _make_recollections(
    result: RawSearchResult, options: RecallOptions, degraded: str | None, now: datetime, past: PastMemory | None
) -> list[Recollection]:
    """Make the recollections that score high enough, as of a past memory if there is one.

    If ``explain`` is set, they have their shares.
    """
    recollections = [make_recollection(record, degraded, now) for record in result.records]
    if options.explain and result.metadata:
        memories = result.metadata["memories"]
        recollections = [
            replace(memory, shares=memories[memory.id].shares if memory.id in memories else ())
            for memory in recollections
        ]
    recollections = [*past.restate_recollections(recollections)] if past else recollections
    return [memory for memory in recollections if memory.score >= (options.min_score or 0.0)]
