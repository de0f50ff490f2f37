"""Recollections and a reranker go in; the same come out in the order that the reranker gives them.

A model that reads question and memory together tells best what answers, and takes its time: only the first few are
shown to it, and it is not waited for longer than a search may take.
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
"""Memories, the best by our own score, that a reranker orders anew."""
BATCH_SIZE = 8
"""Pairs of question and text a forward pass of a cross-encoder takes."""


@runtime_checkable
class Reranker(Protocol):
    """Whatever can tell how well texts answer a question."""

    async def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """A number for each text, in their order: the higher, the better it answers."""
        ...


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers.

    Args:
        model: its name or path, as ``sentence_transformers.CrossEncoder`` takes it; loaded with the first question.

    Example:
        >>> memory = GraphMemory(reranker=CrossEncoderReranker("cross-encoder/ms-marco-MiniLM-L6-v2"))
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="reranker")

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The model's own numbers, made in a thread.

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
    """The best of the memories in the reranker's order; in ours where it fails or takes longer.

    Each place keeps its score, so that scores still fall from first to last, and ``min_score`` leaves out as many.

    Args:
        memories: best first.
        query: the question.
        reranker: a caller's own.
        seconds: how long it is waited for.
    """
    best, rest = memories[:RERANK_LIMIT], memories[RERANK_LIMIT:]
    if len(best) < 2:
        return list(memories)
    try:
        async with asyncio.timeout(seconds):
            scores = [float(score) for score in await reranker.score(query, [memory.text for memory in best])]
        if len(scores) != len(best) or any(map(math.isnan, scores)):
            raise ValueError(f"{len(scores)} scores for {len(best)} texts, or one that is no number")
    except TimeoutError:
        logger.warning("The memories stay in their own order, for the reranker took longer than %g s", seconds)
        return list(memories)
    except Exception:  # a reranker is anybody's code; the memories are there without it
        logger.warning("The memories stay in their own order, for the reranker failed", exc_info=True)
        return list(memories)
    order = sorted(range(len(best)), key=lambda place: (-scores[place], place))
    return [*(replace(best[was], score=best[now].score) for now, was in enumerate(order)), *rest]
