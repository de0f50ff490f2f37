"""Measure how near in meaning each candidate is to the question, by vectors and, where there are any, by tokens.

With tokens, each word of the question looks for the word of a memory that is nearest in meaning (MaxSim), so a turn of
several sentences is found by the sentence that answers.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adk_graph_memory.embeddings import QuestionTokens
from adk_graph_memory.retrieval.search_candidates import ScoreBaseline, SearchCandidate

NEAREST_LIMIT = 100
"""Candidates, those nearest by vector, that show how many words of a question a memory usually answers."""


class Nearness(NamedTuple):
    """How much nearer to a question a memory is than others, in deviations; None where that is unknown."""

    vector: float | None
    tokens: float | None

    def combine_scores(self, token_share: float) -> float:
        """Combine both, the tokens with this share; if only one is known, return that one."""
        if self.vector is None or self.tokens is None:
            return (self.vector or 0.0) + (self.tokens or 0.0)
        return (1.0 - token_share) * self.vector + token_share * self.tokens


def measure_nearness(
    candidates: Sequence[SearchCandidate], baseline: ScoreBaseline | None, question: QuestionTokens | None
) -> dict[str, Nearness]:
    """Measure the nearness of each candidate that has a vector score or tokens.

    Args:
        candidates: each once.
        baseline: the user's usual vector scores, which a vector score is compared with.
        question: the question's tokens; None to use vectors alone.

    Returns:
        The nearness by candidate id.
    """
    baseline = baseline or ScoreBaseline()
    vector_scores = {
        candidate.id: (candidate.vector_score - baseline.mean) / max(baseline.deviation, 0.01)
        for candidate in candidates
        if candidate.vector_score is not None
    }
    token_scores = _score_tokens(candidates, vector_scores, question) if question else {}
    return {id: Nearness(vector_scores.get(id), token_scores.get(id)) for id in vector_scores | token_scores}


def _score_tokens(
    candidates: Sequence[SearchCandidate], vector_scores: Mapping[str, float], question: QuestionTokens
) -> dict[str, float]:
    """Score tokens on the scale of the vectors: the mean of the nearest by vector is the same on both."""
    packed_tokens = {candidate.id: candidate.packed_tokens for candidate in candidates if candidate.packed_tokens}
    ids, similarities = question.compute_maxsim(packed_tokens)
    if not ids:
        return {}
    scores = dict(zip(ids, similarities.mean(axis=1).tolist(), strict=True))
    nearest = heapq.nlargest(NEAREST_LIMIT, ((vector_scores[id], id) for id in ids if id in vector_scores))
    mean = statistics.fmean(scores[id] for _, id in nearest) if nearest else statistics.fmean(scores.values())
    level = statistics.fmean(deviations for deviations, _ in nearest) if nearest else 0.0
    return {id: (score - mean) / question.spread + level for id, score in scores.items()}
