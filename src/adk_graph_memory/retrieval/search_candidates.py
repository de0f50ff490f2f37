"""What the legs of a search have found, and what it is measured against."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class SearchCandidate(NamedTuple):
    """A memory that a leg has found, one that such a memory rests on, or the turn that follows one.

    The fields stand as in the statement ``candidates``.
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
"""Memories from which what is usual can be told."""


@dataclass(frozen=True)
class ScoreBaseline:
    """How near a question is to what this user says as a rule: mean and deviation, as the vector leg scales them."""

    mean: float = 0.55
    deviation: float = 0.06

    @classmethod
    def from_scores(cls, usual: Sequence[float]) -> ScoreBaseline | None:
        """Told from the scores of some of the user's memories; None without any.

        A few tell little of what is usual: they may be the very answer. What most embedders do makes up for the rest.
        """
        if not usual:
            return None
        known = min(1.0, len(usual) / _SUFFICIENT_SAMPLE)
        mean = statistics.fmean(usual)
        deviation = math.sqrt(statistics.fmean((score - mean) ** 2 for score in usual))  # pstdev takes a millisecond
        return cls(known * mean + (1 - known) * cls.mean, known * deviation + (1 - known) * cls.deviation)

    def normalize_score(self, vector: float) -> float:
        """How much of the way from there to the question itself a memory's score by vector is."""
        return (vector - self.mean) / max(1e-6, 1.0 - self.mean)
