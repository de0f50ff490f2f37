"""What a health check reports: the state of database, schema, embedder and queue, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LoadingState = Literal["not loaded yet", "loading", "loaded", "failed"]
"""How far an embedder is; it is loaded when it is first needed."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """How many requests to remember are unfinished."""

    pending: int
    """requests that wait or are being read"""
    failed: int
    """those of them that were tried and that nobody works at"""
    oldest_seconds: float | None
    """seconds since the oldest was made; None if there is none"""


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """Something that is wrong."""

    kind: str
    """the class of an error, the invariant that is broken, or ``failed_ingests``"""
    text: str
    """what is wrong, and what to do about it"""
    count: int = 1
    is_blocking: bool = True
    """whether memory cannot be used until it is solved"""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a memory can be used, and what it stands on; None where that could not be found out."""

    address: str | None = None
    """the database server's, without credentials"""
    database: str | None = None
    server: str | None = None
    """the server's version, for example ``Neo4j/2026.08.1``"""
    schema_version: int | None = None
    """0 for a database that nobody has migrated yet"""
    embedder: str | None = None
    """the embedder's name; None without one"""
    embedder_state: LoadingState | None = None
    queue: QueueState | None = None
    problems: tuple[HealthProblem, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether memory can be used."""
        return not any(problem.is_blocking for problem in self.problems)
