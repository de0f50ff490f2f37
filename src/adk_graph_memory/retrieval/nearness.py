"""Candidates and an embedded question go in; how near in meaning each of them is to it comes out.

Told by vectors and, where there are any, by tokens: each word of the question looks for the word of a memory that means
most nearly the same (MaxSim), so that a turn of several sentences is found by the one that answers.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adk_graph_memory.embeddings import QuestionTokens
from adk_graph_memory.retrieval.search_candidates import ScoreBaseline, SearchCandidate

NEAREST_LIMIT = 100
"""Candidates, those nearest by vector, that tell how many words of a question a memory answers as a rule."""


class Nearness(NamedTuple):
    """How much nearer to a question a memory is than others are, in deviations; None where that cannot be told."""

    vector: float | None
    tokens: float | None

    def combine_scores(self, tokens: float) -> float:
        """Both together, the tokens with this share; what is known where only one is."""
        if self.vector is None or self.tokens is None:
            return (self.vector or 0.0) + (self.tokens or 0.0)
        return (1.0 - tokens) * self.vector + tokens * self.tokens


def measure_nearness(
    candidates: Sequence[SearchCandidate], background: ScoreBaseline | None, question: QuestionTokens | None
) -> dict[str, Nearness]:
    """By id, of the candidates that have a vector's score or tokens.

    Args:
        candidates: each once.
        background: what a vector's score is measured against.
        question: the question's tokens; None for vectors alone.
    """
    usual = background or ScoreBaseline()
    by_vector = {
        one.id: (one.vector_score - usual.mean) / max(usual.deviation, 0.01)
        for one in candidates
        if one.vector_score is not None
    }
    by_tokens = _score_tokens(candidates, by_vector, question) if question else {}
    return {id: Nearness(by_vector.get(id), by_tokens.get(id)) for id in by_vector | by_tokens}


def _score_tokens(
    candidates: Sequence[SearchCandidate], by_vector: Mapping[str, float], question: QuestionTokens
) -> dict[str, float]:
    """On the scale of the vectors': what is as near as the nearest by vector are as a rule counts as much as these."""
    ids, nearest = question.compute_maxsim({one.id: one.packed_tokens for one in candidates if one.packed_tokens})
    if not ids:
        return {}
    scores = dict(zip(ids, nearest.mean(axis=1).tolist(), strict=True))
    best = heapq.nlargest(NEAREST_LIMIT, ((by_vector[id], id) for id in ids if id in by_vector))
    usual = statistics.fmean(scores[id] for _, id in best) if best else statistics.fmean(scores.values())
    level = statistics.fmean(deviations for deviations, _ in best) if best else 0.0
    return {id: (score - usual) / question.spread + level for id, score in scores.items()}
