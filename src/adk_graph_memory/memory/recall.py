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
from typing import Any, NamedTuple, Self, TypedDict

from neo4j import exceptions as driver_errors
from neo4j_graphrag.types import RawSearchResult

from adk_graph_memory import errors
from adk_graph_memory.graph import planning
from adk_graph_memory.graph.planning import PlannedStatement
from adk_graph_memory.graph.speakers import SpeakerProfile
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.memory.engine import Engine, UserContext
from adk_graph_memory.memory.past import PastMemory, derive_past_memory
from adk_graph_memory.memory.statements import list_searched
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.records.facts import AsOf, check_as_of
from adk_graph_memory.records.results import Filters, Recollection
from adk_graph_memory.records.scopes import SharedMemory, check_count, check_flags, check_text
from adk_graph_memory.records.turns import check_timezone_aware
from adk_graph_memory.retrieval.packing import pack_recollections
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.recollections import read_recollection
from adk_graph_memory.retrieval.reranking import RERANK_LIMIT, rerank_recollections
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever, list_planned_searches
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.settings import Settings

CHARACTERS_PER_TOKEN = 5
"""More than most tokens have, so that the budget is filled even if some memories are duplicates."""
KEPT_FIRST, KEPT_SHARE = 10, 0.65
"""Memories that an agent gets unless they hardly ever answer, and the share of the best score from which it gets more.

Of 231 questions to LoCoMo read by a model, 0.4 % lose evidence that they had among the first ten turns; by 0.7, 1.3 %.
"""
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


class RecallOptions(TypedDict, total=False):
    """Which memories a search returns, and how many; :meth:`.UserMemory.recall` says what each option means."""

    limit: int | None
    token_budget: int | None
    min_score: float | None
    now: datetime | None
    filters: Filters | None
    explain: bool
    language: str | None
    first_wait: float | None
    embed_timeout: float | None
    as_of: AsOf | None
    shared: Sequence[SharedMemory] | None


@dataclass(frozen=True, slots=True)
class _SearchOptions:
    """The options of a search, with the settings' values for those that its caller left out."""

    limit: int
    token_budget: int
    filters: Filters
    now: datetime | None = None
    explain: bool = False
    language: str | None = None
    first_wait: float | None = None
    embed_timeout: float | None = None
    as_of: AsOf | None = None
    shared: Sequence[SharedMemory] | None = None
    min_score: float | None = None

    @classmethod
    def complete(cls, options: RecallOptions, settings: Settings) -> Self:
        """Complete a caller's options with the settings; None stands for an option that was left out.

        Raises:
            errors.InvalidArgument: an option is out of range, or ``now`` has no time zone.
        """
        defaults: dict[str, Any] = {
            "limit": settings.memory_max_results,
            "token_budget": settings.token_budget,
            "min_score": settings.min_score,
            "filters": Filters(),
        }
        complete = cls(**defaults | {name: value for name, value in options.items() if value is not None})
        complete._check()
        if complete.now is None:
            return complete
        until = min(complete.filters.until or complete.now, complete.now)
        return replace(complete, filters=replace(complete.filters, until=until))

    def _check(self) -> None:
        for name, count in (("limit", self.limit), ("token_budget", self.token_budget)):
            check_count(name, count)
        score = self.min_score
        if score is not None and not (isinstance(score, int | float) and 0 <= score <= 1):
            raise errors.InvalidArgument(reason=f"min_score={self.min_score!r} is not between 0 and 1")
        check_flags(explain=self.explain)
        if self.as_of is not None:
            check_as_of(self.as_of)
        if self.language is not None:
            check_text("the language", self.language)
        for name, seconds in (("first_wait", self.first_wait), ("embed_timeout", self.embed_timeout)):
            if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
                raise errors.InvalidArgument(reason=f"{name}={seconds!r} is not a number of seconds of at least 0")
        if not isinstance(self.filters, Filters):
            raise errors.InvalidArgument(reason=f"filters={self.filters!r} is not a Filters(…)")
        if self.now is not None:
            check_timezone_aware(self.now)
            if not 1900 <= self.now.year <= 2200:
                raise errors.InvalidArgument(reason=f"now={self.now} is not between 1900 and 2200")


class _Answer(NamedTuple):
    """What one memory answers: the question as it was parsed there, and the memories, best first.

    ``is_cut`` says that what hardly ever answers was left out for an agent, which takes for an answer what it is given.
    """

    question: ParsedQuestion
    recollections: list[Recollection]
    is_cut: bool


@telemetry.trace_operation("search_memory")
async def recall_memories(user: UserContext, query: str, options: RecallOptions) -> list[Recollection]:
    """Return the memories that fit the question best, best first; :meth:`.UserMemory.recall` says which.

    The user's own memory and each shared one are searched by themselves, in parallel.
    """
    if unknown := sorted(options.keys() - RecallOptions.__annotations__.keys()):
        raise TypeError(f"recall() got an unexpected keyword argument {unknown[0]!r}")
    if not isinstance(query, str):
        raise errors.InvalidArgument(reason=f"the question {query!r} is no text")
    engine = user.engine
    search_options = _SearchOptions.complete(options, engine.connection.settings)
    await engine.connection.prepare()
    users = await list_searched(user, options.get("shared"))
    query = await engine.redactor.redact_text(query)
    telemetry.annotate_query(query)
    if not search_options.limit or not search_options.token_budget:
        return []
    tasks: dict[tuple[str, str | None], asyncio.Task[_QuestionVector]] = {}

    def embed(question: ParsedQuestion) -> asyncio.Task[_QuestionVector]:
        texts = question.first_person_text, question.typed_text
        if texts not in tasks:
            waits = search_options.first_wait, search_options.embed_timeout
            tasks[texts] = asyncio.create_task(engine.vectors.embed_question(*texts, *waits))
        return tasks[texts]

    answers = await asyncio.gather(*(_Search(one, query, search_options, embed).search() for one in users))
    question = answers[0].question
    recollections = [memory for answer in answers for memory in answer.recollections]
    if len(answers) > 1:
        recollections.sort(key=lambda memory: -memory.score)
    if engine.reranker is not None:
        seconds = engine.connection.settings.limits.rerank_timeout
        recollections = await rerank_recollections(
            recollections, query, engine.reranker, seconds=seconds, problems=engine.problems
        )
    memories = await asyncio.to_thread(  # cutting a long text blocks
        pack_recollections,
        recollections,
        query=" ".join(question.terms),
        language=question.stop_word_language,
        limit=search_options.limit,
        token_budget=search_options.token_budget,
    )
    if any(answer.is_cut for answer in answers):
        least_score = KEPT_SHARE * max((memory.score for memory in memories), default=0.0)
        memories = [memory for rank, memory in enumerate(memories) if rank < KEPT_FIRST or memory.score >= least_score]
    telemetry.annotate_memories(memories)
    return memories


def list_planned_statements(engine: Engine, meta: Mapping[str, Any]) -> list[PlannedStatement]:
    """List what a conversation asks the server, searches first, given the properties of the Meta node."""
    slot = engine.vectors.find_planned_slot(meta)
    return [*list_planned_searches(engine.connection, slot), *planning.CONVERSATION_STATEMENTS]


async def make_retriever(user: UserContext) -> GraphMemoryRetriever:
    """Make a neo4j-graphrag retriever over a user's memory; once prepared, this only looks up who speaks."""
    engine = user.engine
    if engine.vectors.slot_tracker.slot is None:
        await engine.vectors.embed_question("ready?")
    profile = await engine.speakers.find_speaker_profile(user.scope)
    slot, redact = engine.vectors.slot_tracker.slot, engine.redactor.redact_function
    return await _check_query(engine, _construct_retriever(user, profile, slot=slot, redact=redact))


async def _check_query(engine: Engine, retriever: GraphMemoryRetriever) -> GraphMemoryRetriever:
    """Have the server plan the caller's ``retrieval_query``, once and without running it.

    Raises:
        errors.InvalidArgument: it is invalid or not allowed.
    """
    if not engine.is_query_checked:
        await engine.connection.reads.run_in_thread(retriever.check_retrieval_query)
        engine.is_query_checked = True
    return retriever


def _construct_retriever(
    user: UserContext,
    profile: SpeakerProfile,
    options: _SearchOptions | None = None,
    *,
    slot: VectorSlot | None = None,
    redact: Callable[[str], str] | None = None,
) -> GraphMemoryRetriever:
    language = options.language if options else None
    return GraphMemoryRetriever(
        user.graph,
        slot=slot,
        embedder=user.engine.vectors.embedder,
        retrieval_query=user.engine.retrieval_query,
        weights=user.engine.weights,
        filters=options.filters if options else None,
        now=options.now if options else None,
        zone=profile.zone,
        speakers=profile.names,
        languages=(language,) if language else profile.languages,
        redact=redact,
    )


class _Search:
    """One question to one user's memory.

    Args:
        user: whose memory it is.
        query: the question.
        options: which memories, and how many.
        embed: embeds a question, each wording once for all memories that are asked.
    """

    def __init__(
        self,
        user: UserContext,
        query: str,
        options: _SearchOptions,
        embed: Callable[[ParsedQuestion], Awaitable[_QuestionVector]],
    ) -> None:
        self._user, self._query, self._options, self._embed = user, query, options, embed
        self._engine, self._connection = user.engine, user.connection

    async def search(self) -> _Answer:
        """Search for an agent by words alone if the server has no time for more; else with all that memory knows.

        The server has ``database_timeout`` for both together. The embedder has its own time.
        """
        first_wait = self._options.first_wait
        if first_wait is None or self._engine.retrieval_query or self._options.filters or self._options.as_of:
            return await self._search_fully()
        limit = self._connection.settings.limits.database_timeout
        slow: errors.DatabaseTimeout | None = None
        try:
            async with asyncio.timeout(HURRIED_SHARE * limit) as timeout:
                if await self._connection.planner.wait_for_stage("searches", first_wait):
                    answer = await self._search_fully(timeout)
                    self._engine.problems.clear_problem(BY_WORDS_ALONE)
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
                return await self._search_words(slow)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise self._connection.make_timeout_error() from error

    async def _search_words(self, slow: errors.DatabaseTimeout | None) -> _Answer:
        share = (1 - HURRIED_SHARE) * self._connection.settings.limits.database_timeout
        await self._connection.planner.wait_for_stage("words", share)  # not to have the server plan it twice
        profile = self._engine.speakers.get_known_profile(self._user.scope)
        retriever = _construct_retriever(self._user, profile, self._options)
        question = await asyncio.to_thread(retriever.parse_question, self._query)
        retrieve = partial(retriever.retrieve_by_words, self._query, question, *self._choose_limits())
        result = await self._run_in_thread(retrieve)
        reason = str(slow or STILL_PLANNING)
        level = logging.WARNING if slow else logging.INFO
        self._engine.problems.report_problem(BY_WORDS_ALONE, TimeoutError(reason), level)
        return await self._convert_result(question, retriever, result, reason)

    def _choose_limits(self) -> tuple[int, int | None]:
        """The numbers of memories and of characters to read."""
        has_more = self._engine.reranker is not None or self._options.as_of is not None
        top_k = max(self._options.limit + DUPLICATE_MARGIN, RERANK_LIMIT if has_more else 0)
        # A reranker or the caller's own traversal may need more text than fits the budget.
        is_limited = not has_more and self._engine.retrieval_query is None
        return top_k, CHARACTERS_PER_TOKEN * self._options.token_budget if is_limited else None

    async def _search_fully(self, time_limit: asyncio.Timeout | None = None) -> _Answer:
        """Search with all that memory knows; the time limit stands still while the question is embedded."""
        user, vectors, as_of = self._user, self._engine.vectors, self._options.as_of
        past = None if as_of is None else await derive_past_memory(user.graph, as_of)
        profile = await self._engine.speakers.find_speaker_profile(user.scope)
        retriever = await _check_query(self._engine, _construct_retriever(user, profile, self._options))
        question = await asyncio.to_thread(retriever.parse_question, self._query)
        top_k, characters = self._choose_limits()
        retrieve = partial(retriever.retrieve_records, self._query, question, top_k, {}, characters)
        with _hold_timeout(time_limit):
            embedding, retriever.slot, degraded = await self._embed(question)
        result = await self._run_in_thread(partial(retrieve, embedding=embedding))
        if "live" in (metadata := result.metadata or {}):
            await vectors.slot_tracker.follow_switch(metadata["live"])
            if retriever.slot and retriever.slot != vectors.slot_tracker.slot:  # its vectors may be half deleted
                with _hold_timeout(time_limit):
                    embedding, retriever.slot, degraded = await vectors.embed_question(
                        question.first_person_text,
                        question.typed_text,
                        self._options.first_wait,
                        self._options.embed_timeout,
                    )
                result = await self._run_in_thread(partial(retrieve, embedding=embedding))
            self._engine.speakers.drop_outdated(user.scope, metadata["writes"])
        return await self._convert_result(question, retriever, result, degraded, past)

    async def _convert_result(
        self,
        question: ParsedQuestion,
        retriever: GraphMemoryRetriever,
        result: RawSearchResult,
        degraded: str | None,
        past: PastMemory | None = None,
    ) -> _Answer:
        now = self._options.now or datetime.now(retriever.zone)
        recollections = await asyncio.to_thread(_read_recollections, result, self._options, degraded, now, past)
        if isinstance(shared := self._user.scope.user_id, SharedMemory):
            recollections = [replace(memory, shared=shared) for memory in recollections]
        min_score, is_cut = self._options.min_score or 0.0, False
        if self._options.min_score is None and self._options.first_wait is not None:
            min_score = (result.metadata or {}).get("min_score", 0.0)
            is_cut = min_score > 0.0
        return _Answer(question, [memory for memory in recollections if memory.score >= min_score], is_cut)

    async def _run_in_thread(self, retrieve: Callable[[], RawSearchResult]) -> RawSearchResult:
        """Read in a thread of the sync driver; raise its errors as this package's."""
        try:
            return await self._connection.reads.run_in_thread(retrieve)
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            raise self._connection.translate_error(error) from error
        except UnicodeEncodeError as error:
            raise errors.InvalidUnicode(reason=str(error)) from error


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


def _read_recollections(
    result: RawSearchResult, options: _SearchOptions, degraded: str | None, now: datetime, past: PastMemory | None
) -> list[Recollection]:
    """Read the recollections, as of a past memory if there is one; if ``explain`` is set, they have their shares."""
    metadata = result.metadata or {}
    recollections = [read_recollection(record, degraded, now) for record in result.records]
    if metadata.get("is_doubtful"):
        recollections = [replace(memory, is_doubtful=True) for memory in recollections]
    if options.explain and metadata:
        memories = metadata["memories"]
        recollections = [
            replace(memory, shares=memories[memory.id].shares if memory.id in memories else ())
            for memory in recollections
        ]
    return [*past.restate_recollections(recollections)] if past else recollections
