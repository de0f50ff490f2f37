"""Reorder the best recollections with a reranker.

A model that reads question and memory together judges best what answers, but it is slow. So it gets only the first few
memories, and a search waits for it only so long.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from adk_graph_memory import errors
from adk_graph_memory.records.results import Recollection
from adk_graph_memory.runtime import concurrency
from adk_graph_memory.runtime.telemetry import ProblemLog

RERANK_LIMIT = 50
"""Memories, the best by our own score, that a reranker reorders."""
BATCH_SIZE = 8
"""Pairs of question and text in one forward pass of a cross-encoder."""
NOT_RERANKED = "Memories are not reranked"
"""How the log names what a failing reranker prevents."""


@runtime_checkable
class Reranker(Protocol):
    """Anything that can score how well texts answer a question."""

    async def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Score each text, in order: the higher, the better it answers."""


class CrossEncoderReranker:
    """A reranker that uses a cross-encoder of sentence-transformers.

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
            errors.RerankerFailed: sentence-transformers is not installed.
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
            reason = "it needs sentence-transformers: `pip install sentence-transformers`"
            raise errors.RerankerFailed(name=type(self).__name__, reason=reason) from error
        return CrossEncoder(self.model)


async def rerank_recollections(
    memories: Sequence[Recollection], query: str, reranker: Reranker, *, seconds: float, problems: ProblemLog
) -> list[Recollection]:
    """Reorder the best memories with the reranker; if it fails or takes too long, keep our order.

    Each rank keeps its score, so scores still fall from first to last, and ``min_score`` leaves out as many memories.

    Args:
        memories: best first.
        query: the question.
        reranker: a caller's own.
        seconds: its time limit.
        problems: logs why it failed.
    """
    best, rest = memories[:RERANK_LIMIT], memories[RERANK_LIMIT:]
    if len(best) < 2:
        return list(memories)
    try:
        scores = await _score_texts(reranker, query, [memory.text for memory in best], seconds)
    except errors.RerankerFailed as error:
        problems.report_problem(NOT_RERANKED, error)
        return list(memories)
    problems.clear_problem(NOT_RERANKED)
    order = sorted(range(len(best)), key=lambda rank: (-scores[rank], rank))
    return [*(replace(best[old], score=best[new].score) for new, old in enumerate(order)), *rest]


async def _score_texts(reranker: Reranker, query: str, texts: list[str], seconds: float) -> list[float]:
    name = type(reranker).__name__
    try:
        async with asyncio.timeout(seconds) as timeout:
            scores = [float(score) for score in await reranker.score(query, texts)]
    except errors.RerankerFailed:
        raise
    except Exception as error:  # a reranker is anybody's code and may raise anything; the search works without it
        reason = f"no scores within {seconds:g} s" if timeout.expired() else concurrency.describe_failure(error)
        raise errors.RerankerFailed(name=name, reason=reason) from error
    if len(scores) != len(texts) or any(map(math.isnan, scores)):
        reason = f"{len(scores)} scores for {len(texts)} texts, or a score that is not a number"
        raise errors.RerankerFailed(name=name, reason=reason)
    return scores
