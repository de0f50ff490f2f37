"""Embed passages and questions, and find the vector slot of the graph that they belong to."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.graph import vector_slots
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.vector_slots import EmbeddingBatch, LiveSlotTracker, VectorSlot
from adk_graph_memory.models.embedder import EmbedderAdapter, EmbedderChoice, check_choice
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.records.turns import Embedding, Passage
from adk_graph_memory.runtime import concurrency
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.runtime.telemetry import ProblemLog

logger = logging.getLogger(__name__)

MAX_CACHED_QUESTIONS = 100
"""Question embeddings kept in the cache."""
MAX_REFUSED_TEXTS = 5
"""Single texts that an embedder may refuse before the rest of the batch is given up."""
LOAD_RETRY_PAUSE = 60.0
"""Seconds after which an agent's search tries again to load an embedder that could not be loaded."""
TEXT_ONLY, NOT_EMBEDDED = "Memories are searched by full text alone", "New memories wait for their vectors"
"""How the log names what a failing embedder prevents."""


class GraphVectors:
    """The embedder and the graph's live vector slot.

    Args:
        connection: where the vectors are.
        choice: the embedder, as :class:`adk_graph_memory.GraphMemory` takes it.
        problems: logs what the embedder fails at.
    """

    def __init__(self, connection: Connection, choice: EmbedderChoice, problems: ProblemLog | None = None) -> None:
        check_choice(choice)
        self._connection, self._choice = connection, choice
        self._problems = problems or ProblemLog(logger)
        self.slot_tracker = LiveSlotTracker(connection)
        self._question_cache: OrderedDict[tuple[str, str | None], QuestionEmbedding] = OrderedDict()
        self._has_waited = False
        self._embedder_cache: tuple[tuple[Any, ...], EmbedderAdapter] | None = None

    @cached_property
    def embedder(self) -> EmbedderAdapter | None:
        """The embedder; None if the caller chose full text only."""
        return self._resolve_embedder(self._connection.settings)

    def _resolve_embedder(self, settings: Settings) -> EmbedderAdapter | None:
        if self._choice is False or (choice := self._choice or settings.embedder) == "none":
            return None
        # An embedder that start_loading began to load is reused only if the settings are still the same.
        key = settings.embedder, settings.limits.embed_concurrency, settings.embed_dimensions, settings.token_projection
        if self._embedder_cache is None or self._embedder_cache[0] != key:
            self._embedder_cache = (key, EmbedderAdapter(choice, settings))
        return self._embedder_cache[1]

    async def check_embedder(self) -> None:
        """Load the embedder and check that the graph's vectors, if there are any, are its own.

        Raises:
            errors.EmbedderMissing: no embedder is installed.
            errors.CredentialsMissing: it has no credentials.
            errors.EmbedderMismatch: the graph's vectors are another embedder's.
        """
        if self.embedder is not None:
            await self.embedder.wait_until_ready()
            await self.slot_tracker.check_owner(self.embedder.name)

    async def prepare_embedder(self) -> None:
        """Do what :meth:`check_embedder` does, embed a word, and make the indexes of the first vectors.

        Raises:
            errors.EmbeddingError, errors.ConfigurationError, errors.EmbedderMismatch: the embedder cannot be used.
        """
        if self.embedder is not None and self.slot_tracker.slot is None:
            await self.embedder.wait_until_ready()
            embedding, slot = await self._embed_for_slot(self.embedder, "ready?")
            may_create = self._connection.settings.schema_mode == "auto" and not self.slot_tracker.is_outdated
            if slot is None and may_create:
                await vector_slots.create_indexes(self._connection, vector_slots.FIRST_SLOT, len(embedding.vector))

    def find_planned_slot(self, meta: Mapping[str, Any]) -> VectorSlot | None:
        """Find the slot that searches use, or the first one if there is none yet, given the Meta node's properties."""
        if self.embedder is None:
            return None
        live_slot = vector_slots.read_schema_state(meta).live_slot if meta else None
        return live_slot or VectorSlot(vector_slots.FIRST_SLOT, "", self.embedder.dimension or 1)

    async def embed_passages(self, passages: Sequence[Passage]) -> EmbeddingBatch:
        """Embed each distinct passage once; if the embedder fails, a later ingest makes the missing embeddings."""
        if self.embedder is None or not passages:
            return EmbeddingBatch()
        by_passage = dict[Passage, Embedding]()
        try:
            async with asyncio.timeout(self._connection.settings.limits.lease / 2):  # the other half is for writing
                await _embed_by_halves(self.embedder, list(dict.fromkeys(passages)), by_passage)
        except TimeoutError:
            reason = f"some texts had no vector after {self._connection.settings.limits.lease / 2:g} s"
            self._problems.report_problem(NOT_EMBEDDED, errors.EmbedderFailed(name=self.embedder.name, reason=reason))
        except errors.EmbedderFailed as error:
            self._problems.report_problem(NOT_EMBEDDED, error)
        else:
            self._problems.clear_problem(NOT_EMBEDDED)
        if not by_passage:
            return EmbeddingBatch(has_embedder=True)
        dimensions = len(next(iter(by_passage.values())).vector)
        slot = await self.slot_tracker.find_slot(self.embedder.name, dimensions, may_open=True)
        if slot is None or self.slot_tracker.is_outdated:
            return EmbeddingBatch(has_embedder=True)
        return EmbeddingBatch(slot, by_passage, has_embedder=True)

    def start_loading(self) -> None:
        """Start loading the model that the environment names now, so that the first question need not wait.

        The environment may still change: the first request reads it again and reports what is wrong with it.
        """
        if self._embedder_cache is None and self._choice is not False:
            with suppress(errors.ConfigurationError):
                if embedder := self._resolve_embedder(self._connection.read_settings()):
                    embedder.start_loading()

    def report_loading_failure(self) -> None:
        """Log why the embedder could not be loaded, now or when its loading ends, if nobody has waited for it."""
        if self._embedder_cache is not None:
            report = partial(self._problems.report_problem, TEXT_ONLY, level=logging.ERROR)
            self._embedder_cache[1].report_loading_failure(report)

    async def embed_question(
        self,
        query: str,
        typed_text: str | None = None,
        first_wait: float | None = None,
        embed_timeout: float | None = None,
    ) -> tuple[QuestionEmbedding | None, VectorSlot | None, str | None]:
        """Embed a question and find the slot to compare it with.

        The latest embeddings are cached, because ``preload_memory`` asks the same question at every step of a run.

        Args:
            query: the question.
            typed_text: the question as it was typed, if it is to be embedded too.
            first_wait: for an agent, whose reply must not fail for want of vectors: how long its first question waits
                for the model, in seconds since its loading began. Later questions wait until it is loaded; so does the
                first if this is None.
            embed_timeout: how long this question waits at the longest, loading included.

        Returns:
            The embedding and the slot, or None for both; and the reason if the search has to do without vectors.

        Raises:
            errors.EmbeddingError, errors.ConfigurationError, errors.EmbedderMismatch: the embedder cannot be used, and
                there is no ``first_wait``.
        """
        if self.embedder is None or not query.strip():
            return None, None, None
        is_agent = first_wait is not None
        try:
            async with asyncio.timeout(embed_timeout):
                if not await self.embedder.wait_until_ready(
                    None if self._has_waited else first_wait, retry_pause=LOAD_RETRY_PAUSE if is_agent else 0.0
                ):
                    self._has_waited = True
                    logger.info("Searched by full text alone, while the embedder is being loaded.")
                    return None, None, "the embedder is still being loaded"
                embedding, slot = await self._embed_for_slot(self.embedder, query, typed_text)
        except TimeoutError:
            slow = errors.EmbedderFailed(name=self.embedder.name, reason=f"no vector within {embed_timeout:g} s")
            self._problems.report_problem(TEXT_ONLY, slow)
            return None, None, slow.reason
        except errors.EmbedderFailed as error:
            self._problems.report_problem(TEXT_ONLY, error)
            return None, None, error.reason
        except (errors.EmbeddingError, errors.ConfigurationError, errors.EmbedderMismatch) as error:
            if not is_agent:
                raise
            self._problems.report_problem(TEXT_ONLY, error, logging.ERROR)
            return None, None, error.reason or "the memories carry another embedder's vectors"
        self._problems.clear_problem(TEXT_ONLY)
        if slot is None and self.slot_tracker.is_outdated:
            return None, None, "the memories were re-embedded by another embedder"
        return (embedding, slot, None) if slot else (None, None, None)

    async def _embed_for_slot(
        self, embedder: EmbedderAdapter, query: str, typed_text: str | None = None
    ) -> tuple[QuestionEmbedding, VectorSlot | None]:
        embedding = await self._embed_texts(embedder, query, typed_text)
        return embedding, await self.slot_tracker.find_slot(embedder.name, len(embedding.vector), may_open=False)

    async def _embed_texts(self, embedder: EmbedderAdapter, query: str, typed_text: str | None) -> QuestionEmbedding:
        if (embedding := self._question_cache.pop((query, typed_text), None)) is None:
            seconds = self._connection.settings.limits.embed_timeout
            try:
                async with asyncio.timeout(seconds):
                    embedding = await embedder.aembed_question(query, typed_text)
            except TimeoutError as error:
                raise errors.EmbedderFailed(name=embedder.name, reason=f"no vector within {seconds:g} s") from error
        self._question_cache[query, typed_text] = embedding
        if len(self._question_cache) > MAX_CACHED_QUESTIONS:
            self._question_cache.popitem(last=False)
        return embedding


async def _embed_by_halves(
    embedder: EmbedderAdapter, passages: list[Passage], by_passage: dict[Passage, Embedding]
) -> None:
    """Embed passages into ``by_passage``, halving a refused batch until only the refused passages are left out.

    Raises:
        errors.EmbedderFailed: some passages were refused, or the embedder cannot be reached.
    """
    batches, refusals = [passages], list[errors.EmbedderFailed]()
    while batches and len(refusals) < MAX_REFUSED_TEXTS:
        batch = batches.pop()
        try:
            by_passage |= zip(batch, await embedder.embed_passages(batch), strict=True)
        except errors.EmbedderFailed as error:
            if isinstance(error.__cause__, Exception) and concurrency.is_transient(error.__cause__):
                raise
            half = len(batch) // 2
            if half:
                batches += [batch[half:], batch[:half]]
            else:
                refusals.append(error)
    if refusals:
        raise refusals[0]
