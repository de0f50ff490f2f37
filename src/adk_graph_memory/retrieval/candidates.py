"""The candidates that the retrieval sources find, and how near in meaning each is to the question.

With tokens, each word of the question looks for the word of a memory that is nearest in meaning (MaxSim), so a turn of
several sentences is found by the sentence that answers.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from adk_graph_memory.language.dates import Precision
from adk_graph_memory.models.projection import QuestionTokens


class SearchCandidate(NamedTuple):
    """A memory that a retrieval source found, one that such a memory rests on, or the turn that follows one.

    The fields are in the order of the Cypher fragment ``candidates``.
    """

    id: str
    kind: str
    text_score: float | None = None
    vector_score: float | None = None
    entity_score: float | None = None
    turn_ids: Sequence[str] = ()
    packed_tokens: bytes | None = None
    text_length: int = 100
    state: str | None = None
    valid_from: float | None = None
    valid_to: float | None = None
    valid_from_precision: Precision | None = None
    successor_ids: Sequence[str] | None = None
    is_model_worded: bool = False
    role: str | None = None
    author: str | None = None
    timestamp: float = 0.0
    session_id: str | None = None
    has_question: bool = False
    has_final_question: bool = False
    next_turn_id: str | None = None
    fact_count: int = 0
    short_text: str | None = None
    manner: str | None = None


BASELINE_SAMPLE_SIZE = 64
"""Memories in a sample that shows how near this user's memories usually are to a question."""
SUFFICIENT_SAMPLE = 16
"""Scores that make a reliable baseline."""


@dataclass(frozen=True)
class ScoreBaseline:
    """How near the question usually is to this user's memories: mean and standard deviation of their vector scores.

    The defaults are usual for most embedders.
    """

    mean: float = 0.55
    deviation: float = 0.06

    @classmethod
    def from_scores(cls, scores: Sequence[float]) -> ScoreBaseline | None:
        """Make a baseline from the vector scores of a sample of the user's memories; None without any.

        A few scores say little, because they may belong to the very answer. The defaults fill in for the missing ones.
        """
        if not scores:
            return None
        trust = min(1.0, len(scores) / SUFFICIENT_SAMPLE)
        mean = statistics.fmean(scores)
        deviation = math.sqrt(statistics.fmean((score - mean) ** 2 for score in scores))  # pstdev takes a millisecond
        return cls(trust * mean + (1 - trust) * cls.mean, trust * deviation + (1 - trust) * cls.deviation)

    def normalize_score(self, vector_score: float) -> float:
        """Scale a vector score: 0 for the user's usual memory, 1 for the question itself."""
        return (vector_score - self.mean) / max(1e-6, 1.0 - self.mean)


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
