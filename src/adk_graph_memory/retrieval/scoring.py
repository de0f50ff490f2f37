"""Raw scores of several legs go in, one score a memory comes out, whoever else was found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Candidate(NamedTuple):
    """A memory that one leg has found."""

    id: str
    leg: str
    raw: float
    role: str | None = None
    author: str | None = None
    asks: bool = False
    follower: str | None = None
    follower_role: str | None = None
    follower_author: str | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """What each signal adds to a memory's score; the legs are brought to 0…1 first."""

    text: float = 0.45
    vector: float = 0.45
    entity: float = 0.10
    answer: float = 0.5
    """of a question's score, to the turn that follows it: the answer need not share a word with what is asked"""
    next: float = 0.1
    """of any other turn's score, to the turn that follows it"""
    before: float = 0.1
    """of a turn's score, to the one before it"""
    author: float = 0.2
    """what the one whom the question asks about said themselves"""
    asks: float = -0.08
    """a turn that asks says little"""
    agent: float = -0.08
    """what an agent said, beside what the people it serves said themselves"""


BM25_HALF = 4.0
"""The Lucene score that counts as one half: a question's rarer words, found once in a short text."""


def normalised(leg: str, raw: float) -> float:
    """A leg's raw score on a fixed scale from 0 to 1: cosine as it is, Lucene's by saturation."""
    if leg == "vector":
        return max(0.0, 2.0 * raw - 1.0)
    return raw / (raw + BM25_HALF)


def fused(candidates: Iterable[Candidate], weights: Weights, author: str | None = None) -> list[tuple[str, float]]:
    """Memories with their score, best first, from what every leg has found.

    Args:
        candidates: what the legs have found.
        weights: what each signal adds.
        author: whom the question asks about, if they speak themselves.
    """
    legs: dict[str, dict[str, float]] = defaultdict(dict)
    rows: dict[str, Candidate] = {}
    for row in candidates:
        rows[row.id] = row
        legs[row.id][row.leg] = max(legs[row.id].get(row.leg, 0.0), normalised(row.leg, row.raw))
    own = {id: sum(getattr(weights, leg) * score for leg, score in found.items()) for id, found in legs.items()}
    scores = dict(own)

    def by(role: str | None, said_by: str | None) -> float:
        is_asked_about = author is not None and said_by == author
        return (weights.agent if role == "model" else 0.0) + (weights.author if is_asked_about else 0.0)

    for id, row in rows.items():
        scores[id] += (weights.asks if row.asks else 0.0) + by(row.role, row.author)
    for id, row in rows.items():
        if row.follower is not None:
            scores[id] += weights.before * own.get(row.follower, 0.0)
            start = by(row.follower_role, row.follower_author)
            handed_on = (weights.answer if row.asks else weights.next) * own[id]
            scores[row.follower] = scores.get(row.follower, start) + handed_on
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
