"""What the legs of a search have found, what it is measured against, and what becomes of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from adk_graph_memory.records import Share


class Candidate(NamedTuple):
    """A memory that a leg has found, one that such a memory rests on, or the turn that follows one."""

    id: str
    kind: str
    text: float | None = None
    vector: float | None = None
    entity: float | None = None
    role: str | None = None
    author: str | None = None
    timestamp: float = 0.0
    session_id: str | None = None
    size: int = 100
    asks: bool = False
    ends_asking: bool = False
    follower: str | None = None
    sources: Sequence[str] = ()
    entities: Sequence[str] = ()
    state: str | None = None
    valid_to: float | None = None
    ended_by: Sequence[str] = ()

    @classmethod
    def of(cls, row: Sequence[Any]) -> Candidate:
        """A row of the statement ``candidates``."""
        *about, edges, state, valid_to, ended_by = row
        follower, sources, entities = None, [], []
        for type, other in edges:
            if type == "NEXT":
                follower = other
            elif type == "SUPPORTED_BY":
                sources.append(other)
            elif other is not None:
                entities.append(other)
        return cls._make((*about, follower, sources, entities, state, valid_to, ended_by))


@dataclass(frozen=True, slots=True)
class Background:
    """How near a question is to what this user says as a rule: mean and deviation, as the vector leg scales them."""

    mean: float = 0.55
    deviation: float = 0.06

    @classmethod
    def of(cls, usual: Sequence[float]) -> Background | None:
        """Told from the scores of some of the user's memories; None without any."""
        return cls(statistics.fmean(usual), statistics.pstdev(usual)) if usual else None

    def nearness(self, vector: float) -> float:
        """How much of the way from there to the question itself a memory's score by vector is."""
        return (vector - self.mean) / max(1e-6, 1.0 - self.mean)


@dataclass(frozen=True, slots=True)
class Scored:
    """A memory with its score and what the score is made of."""

    id: str
    score: float
    parts: Sequence[tuple[str, float, str | None]]

    @property
    def shares(self) -> tuple[Share, ...]:
        """What the score is made of, the greatest first."""
        return tuple(sorted((Share(*part) for part in self.parts), key=lambda share: -abs(share.amount)))
