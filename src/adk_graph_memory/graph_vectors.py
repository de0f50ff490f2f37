"""Passages go in; their embeddings come out with the slot of the graph that they belong to."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from adk_graph_memory import calls, embeddings, errors, graph
from adk_graph_memory.records import Embedding, Passage
from adk_graph_memory.settings import Settings

logger = logging.getLogger(__name__)

MAX_CACHED_QUESTIONS = 100
"""Questions whose embeddings are kept in mind."""
MAX_REFUSED_TEXTS = 5
"""Texts that an embedder may refuse, one by one, until it is taken to refuse all."""


class GraphVectors:
    """The embedder, and the live slot of the graph's vectors.

    Args:
        connection: a connection; prepared before anything is asked of it.
        choice: as :class:`adk_graph_memory.GraphMemory` takes it.
    """

    def __init__(self, connection: graph.Connection, choice: embeddings.EmbedderChoice) -> None:
        self._connection, self._choice = connection, choice
        self.slot_tracker = graph.LiveSlotTracker(connection)
        self._question_cache: OrderedDict[str, embeddings.QuestionEmbedding] = OrderedDict()
        self._has_waited = False
        self._embedder_cache: tuple[tuple[Any, ...], embeddings.EmbedderAdapter] | None = None

    @cached_property
    def embedder(self) -> embeddings.EmbedderAdapter | None:
        """What makes vectors; None where full text alone was chosen."""
        return self._make_embedder(self._connection.settings)

    def _make_embedder(self, settings: Settings) -> embeddings.EmbedderAdapter | None:
        """The same; what is being loaded already where the settings still say so."""
        if self._choice is False:
            return None
        said = settings.embedder, settings.embed_concurrency, settings.embed_dimensions, settings.token_projection
        if self._embedder_cache is None or self._embedder_cache[0] != said:
            self._embedder_cache = (
                said,
                embeddings.EmbedderAdapter.from_settings(self._choice or settings.embedder, settings),
            )
        return self._embedder_cache[1]

    async def check_embedder(self) -> None:
        """Loads the embedder and sees that the graph's vectors, if it has any, are its own.

        Raises:
            errors.EmbedderMissing: no embedder is installed.
            errors.CredentialsMissing: it has no credentials.
            errors.EmbedderMismatch: the graph's vectors are another embedder's.
        """
        if self.embedder is not None:
            await self.embedder.wait_until_ready()
            await self.slot_tracker.check_owner(self.embedder.name)

    async def embed_passages(self, passages: Sequence[Passage]) -> graph.EmbeddingBatch:
        """Embeddings of the passages, each once; without any where the embedder fails, to be made up for later."""
        if self.embedder is None or not passages:
            return graph.EmbeddingBatch()
        made = dict[Passage, Embedding]()
        try:
            async with asyncio.timeout(self._connection.settings.lease / 2):  # the other half is for writing
                await _embed_by_halves(self.embedder, list(dict.fromkeys(passages)), made)
        except (errors.EmbedderFailed, TimeoutError) as error:
            logger.warning("Remembered without some vectors for now: %s", str(error) or "the embedder took too long")
        if not made:
            return graph.EmbeddingBatch(has_embedder=True)
        slot = await self.slot_tracker.find_slot(
            self.embedder.name, len(next(iter(made.values())).vector), may_open=True
        )
        if slot is None:
            return graph.EmbeddingBatch(has_embedder=True)
        return graph.EmbeddingBatch(slot, made, has_embedder=True)

    def start_loading(self) -> None:
        """Begins to load the model that the environment names by now, to have it when the first question comes.

        The environment may change until the first request, which reads it anew, and says what of it cannot be used.
        """
        if self._embedder_cache is None and self._choice is not False:
            with suppress(errors.ConfigurationError):
                if chosen := self._make_embedder(self._connection.read_settings()):
                    chosen.start_loading()

    async def embed_question(
        self, query: str, first_wait: float | None = None
    ) -> tuple[embeddings.QuestionEmbedding | None, graph.VectorSlot | None, str | None]:
        """The question's embedding and the slot to compare it with, or why there is none.

        ``preload_memory`` asks the same at every step of a run, so the latest questions' embeddings are kept in mind.

        Args:
            query: the question.
            first_wait: seconds from when a model's loading began that the first question waits for it; any later
                one, and without it the first, as long as that takes.
        """
        if self.embedder is None or not query.strip():
            return None, None, None
        if not await self.embedder.wait_until_ready(None if self._has_waited else first_wait):
            self._has_waited = True
            return _degrade_to_text("the embedder is still being loaded")
        if (asked := self._question_cache.pop(query, None)) is None:
            try:
                async with asyncio.timeout(self._connection.settings.embed_timeout):
                    asked = await self.embedder.aembed_question(query)
            except (errors.EmbedderFailed, TimeoutError) as error:
                return _degrade_to_text(str(error) or "the embedder took too long")
        self._question_cache[query] = asked
        if len(self._question_cache) > MAX_CACHED_QUESTIONS:
            self._question_cache.popitem(last=False)
        slot = await self.slot_tracker.find_slot(self.embedder.name, len(asked.vector), may_open=False)
        if self.slot_tracker.is_outdated:
            return None, None, "the memories were re-embedded by another embedder"
        return (asked, slot, None) if slot else (None, None, None)


def _degrade_to_text(reason: str) -> tuple[None, None, str]:
    logger.warning("Searched by full text alone: %s", reason)
    return None, None, reason


async def _embed_by_halves(
    embedder: embeddings.EmbedderAdapter, passages: list[Passage], made: dict[Passage, Embedding]
) -> None:
    """Embeds each passage; where some are refused, halves and halves again until only those are without.

    Raises:
        errors.EmbedderFailed: some were refused, or the embedder is not to be had at all.
    """
    batches, refused = [passages], list[errors.EmbedderFailed]()
    while batches and len(refused) < MAX_REFUSED_TEXTS:
        batch = batches.pop()
        try:
            made |= zip(batch, await embedder.embed_passages(batch), strict=True)
        except errors.EmbedderFailed as error:
            if isinstance(error.__cause__, Exception) and calls.is_transient(error.__cause__):
                raise
            half = len(batch) // 2
            if half:
                batches += [batch[half:], batch[:half]]
            else:
                refused.append(error)
    if refused:
        raise refused[0]
