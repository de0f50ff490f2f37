"""The candidates that the retrieval sources find, and the baseline that their vector scores are compared with."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from adk_graph_memory.records import Precision


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


_SUFFICIENT_SAMPLE = 16
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
        trust = min(1.0, len(scores) / _SUFFICIENT_SAMPLE)
        mean = statistics.fmean(scores)
        deviation = math.sqrt(statistics.fmean((score - mean) ** 2 for score in scores))  # pstdev takes a millisecond
        return cls(trust * mean + (1 - trust) * cls.mean, trust * deviation + (1 - trust) * cls.deviation)

    def normalize_score(self, vector_score: float) -> float:
        """Scale a vector score: 0 for the user's usual memory, 1 for the question itself."""
        return (vector_score - self.mean) / max(1e-6, 1.0 - self.mean)
