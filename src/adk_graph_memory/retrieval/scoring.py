"""Raw scores of several legs go in, one score a memory comes out, whoever else was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """What each leg adds to a memory's score; every leg is brought to 0…1 first."""

    text: float = 0.45
    vector: float = 0.45
    entity: float = 0.10


BM25_HALF = 4.0
"""The Lucene score that counts as one half: a question's rarer words, found once in a short text."""


def normalised(leg: str, raw: float) -> float:
    """A leg's raw score on a fixed scale from 0 to 1: cosine as it is, Lucene's by saturation."""
    if leg == "vector":
        return max(0.0, 2.0 * raw - 1.0)
    return raw / (raw + BM25_HALF)


def fused(candidates: Iterable[tuple[str, str, float]], weights: Weights) -> list[tuple[str, float]]:
    """Memories with their score, best first, from (id, leg, raw score) of every leg that found them."""
    best: dict[tuple[str, str], float] = {}
    for id, leg, raw in candidates:
        best[id, leg] = max(best.get((id, leg), 0.0), normalised(leg, raw))
    scores: dict[str, float] = {}
    for (id, leg), score in best.items():
        scores[id] = scores.get(id, 0.0) + getattr(weights, leg) * score
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
