"""One question to memory, from its words to what is recalled: one embedding, two statements, no model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from neo4j import exceptions as driver_errors

from adk_graph_memory import errors, graph, retrieval
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.records import Filters, Recollection, Scope, check_timezone_aware
from adk_graph_memory.settings import Settings

CHARACTERS_PER_TOKEN = 5
"""More than most tokens have, so that the budget is filled though some memories say the same as others."""
DUPLICATE_MARGIN = 10
"""Memories fetched beyond the limit, for those that say the same as another."""


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """How much is wanted of which memories; None is what the settings say, or what the user's own turns do."""

    limit: int | None = None
    token_budget: int | None = None
    min_score: float | None = None
    now: datetime | None = None
    filters: Filters | None = None
    explain: bool = False
    language: str | None = None
    first_wait: float | None = None

    def apply_settings(self, settings: Settings) -> RecallOptions:
        """With the settings' numbers where there was none.

        Raises:
            errors.ConfigurationError: a number is out of its range, or the moment has no time zone.
        """
        limit = settings.memory_max_results if self.limit is None else self.limit
        budget = settings.token_budget if self.token_budget is None else self.token_budget
        least = settings.min_score if self.min_score is None else self.min_score
        for name, count in (("limit", limit), ("token_budget", budget)):
            if not isinstance(count, int) or count < 0:
                raise errors.ConfigurationError(reason=f"{name}={count!r} is no whole number from 0 on")
        if not isinstance(least, int | float) or not 0 <= least <= 1:
            raise errors.ConfigurationError(reason=f"min_score={least!r} is not between 0 and 1")
        if self.first_wait is not None and not (isinstance(self.first_wait, int | float) and self.first_wait >= 0):
            raise errors.ConfigurationError(reason=f"first_wait={self.first_wait!r} is no number of seconds from 0 on")
        filters = Filters() if self.filters is None else self.filters
        if not isinstance(filters, Filters):
            raise errors.ConfigurationError(reason=f"filters {filters!r} are no Filters(…)")
        if self.now is not None:
            check_timezone_aware(self.now)
            if not 1900 <= self.now.year <= 2200:
                raise errors.ConfigurationError(reason=f"now={self.now} is not between 1900 and 2200")
            filters = replace(filters, until=min(filters.until or self.now, self.now))
        return replace(self, limit=limit, token_budget=budget, min_score=least, filters=filters)


class Recall:
    """Answers questions from what memory holds.

    Args:
        connection: a connection; prepared before anything is asked.
        vectors: what makes the question's vector.
        speakers: what knows who speaks, and in which time zone.
        retrieval_query: a caller's own traversal.
        weights: a caller's own weights.
        reranker: a caller's own, which orders the best anew.
    """

    def __init__(
        self,
        connection: graph.Connection,
        vectors: GraphVectors,
        speakers: graph.SpeakerCache,
        retrieval_query: str | None,
        weights: retrieval.Weights | None,
        reranker: retrieval.Reranker | None = None,
    ) -> None:
        self._connection, self._vectors = connection, vectors
        self._speakers, self._retrieval_query, self._weights = speakers, retrieval_query, weights
        self._reranker, self._is_query_checked = reranker, retrieval_query is None

    async def recall_memories(self, scope: Scope, query: str, wanted: RecallOptions) -> list[Recollection]:
        """The user's memories that fit the question best, best first.

        Raises:
            errors.ConfigurationError: what is wanted cannot be.
            errors.EmbedderMismatch: the graph's vectors are another embedder's.
            errors.DatabaseError: the graph could not be read.
        """
        wanted = wanted.apply_settings(self._connection.settings)
        limit, budget, least = wanted.limit or 0, wanted.token_budget or 0, wanted.min_score or 0.0
        if not limit or not budget:
            return []
        retriever = await self.make_retriever(scope, None, wanted=wanted)
        asked = await asyncio.to_thread(retriever.parse_question, query)
        embedded, retriever.slot, degraded = await self._vectors.embed_question(
            asked.first_person_text, wanted.first_wait
        )
        try:
            most = max(limit + DUPLICATE_MARGIN, retrieval.RERANK_LIMIT if self._reranker else 0)
            is_cut = self._reranker is None and self._retrieval_query is None  # else more may be read than is packed
            characters = CHARACTERS_PER_TOKEN * budget if is_cut else None
            retrieve = partial(retriever.retrieve_records, query, asked, embedded, most, {}, characters)
            raw = await self._connection.reads.run_in_thread(retrieve)
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            raise self._connection.translate_error(error) from error
        except UnicodeEncodeError as error:
            raise errors.InvalidUnicode(reason=str(error)) from error
        seen = raw.metadata or {}
        if "live" in seen:
            await self._vectors.slot_tracker.follow_switch(seen["live"])
            self._speakers.drop_outdated(scope, seen["writes"])
        now = wanted.now or datetime.now(retriever.zone)

        def recollect() -> list[Recollection]:
            found = [retrieval.make_recollection(record, degraded, now) for record in raw.records]
            if wanted.explain:
                scored = seen["scored"]
                found = [replace(one, shares=scored[one.id].shares if one.id in scored else ()) for one in found]
            return [memory for memory in found if memory.score >= least]

        def pack(good: list[Recollection]) -> list[Recollection]:
            words = " ".join(asked.terms)
            return retrieval.pack_recollections(
                good, query=words, language=asked.stop_word_language, limit=limit, token_budget=budget
            )

        good = await asyncio.to_thread(recollect)
        if self._reranker is not None:
            seconds = self._connection.settings.limits.rerank_timeout
            good = await retrieval.rerank_recollections(good, query, self._reranker, seconds=seconds)
        return await asyncio.to_thread(pack, good)  # a long text takes its time

    async def make_retriever(
        self,
        scope: Scope,
        slot: graph.VectorSlot | None,
        *,
        wanted: RecallOptions | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> retrieval.GraphMemoryRetriever:
        """A retriever over the user's memory; it asks the graph nothing but who speaks.

        Raises:
            errors.ConfigurationError: the caller's ``retrieval_query`` is not one; it is planned once, without running.
        """
        wanted = wanted or RecallOptions()
        speech = await self._speakers.find_speaker_profile(scope)
        made = retrieval.GraphMemoryRetriever(
            self._connection,
            scope,
            slot=slot,
            vectors=self._vectors.embedder,
            retrieval_query=self._retrieval_query,
            weights=self._weights,
            filters=wanted.filters,
            now=wanted.now,
            zone=speech.zone,
            speakers=speech.names,
            languages=(wanted.language,) if wanted.language else speech.languages,
            redact=redact,
        )
        if not self._is_query_checked:
            await self._connection.reads.run_in_thread(made.check_retrieval_query)
            self._is_query_checked = True
        return made
