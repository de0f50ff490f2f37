"""Reorder the best recollections with a reranker.

A model that reads question and memory together judges best what answers, but it is slow. So it gets only the first few
memories, and a search waits for it only so long.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from adk_graph_memory import errors
from adk_graph_memory.records import Recollection

logger = logging.getLogger(__name__)

RERANK_LIMIT = 50
"""Memories, the best by our own score, that a reranker reorders."""
BATCH_SIZE = 8
"""Pairs of question and text in one forward pass of a cross-encoder."""


@runtime_checkable
class Reranker(Protocol):
    """Anything that can score how well texts answer a question."""

    async def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Score each text, in order: the higher, the better it answers."""


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers.

    Args:
        model: its name or path, as ``sentence_transformers.CrossEncoder`` takes it; loaded at the first question.

    Example:
        >>> memory = GraphMemory(reranker=CrossEncoderReranker("cross-encoder/ms-marco-MiniLM-L6-v2"))
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="reranker")

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score each text with the model, in a thread.

        Raises:
            errors.EmbedderMissing: sentence-transformers is not installed.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._predict_scores, query, list(texts)
        )

    def _predict_scores(self, query: str, texts: list[str]) -> list[float]:
        pairs = [(query, text) for text in texts]
        scores = self._encoder.predict(pairs, batch_size=BATCH_SIZE, show_progress_bar=False)
        return [float(score) for score in scores]

    @cached_property
    def _encoder(self) -> Any:
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise errors.EmbedderMissing(reason="sentence-transformers is not installed") from error
        return CrossEncoder(self.model)


async def rerank_recollections(
    memories: Sequence[Recollection], query: str, reranker: Reranker, *, seconds: float
) -> list[Recollection]:
    """Reorder the best memories with the reranker; if it fails or takes too long, keep our order.

    Each rank keeps its score, so scores still fall from first to last, and ``min_score`` leaves out as many memories.

    Args:
        memories: best first.
        query: the question.
        reranker: a caller's own.
        seconds: its time limit.
    """
    best, rest = memories[:RERANK_LIMIT], memories[RERANK_LIMIT:]
    if len(best) < 2:
        return list(memories)
    try:
        async with asyncio.timeout(seconds):
            scores = [float(score) for score in await reranker.score(query, [memory.text for memory in best])]
        if len(scores) != len(best) or any(map(math.isnan, scores)):
            raise ValueError(f"{len(scores)} scores for {len(best)} texts, or a score that is not a number")
    except TimeoutError:
        logger.warning("The memories were not reranked: the reranker took longer than %g s", seconds)
        return list(memories)
    except Exception:  # a reranker is anybody's code and may raise anything; the search works without it
        logger.warning("The memories were not reranked: the reranker failed", exc_info=True)
        return list(memories)
    order = sorted(range(len(best)), key=lambda rank: (-scores[rank], rank))
    return [*(replace(best[old], score=best[new].score) for new, old in enumerate(order)), *rest]
