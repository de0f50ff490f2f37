"""Count what this process asks of its databases, whichever they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.latency.counting import SentCounts, count_sent, count_sql


@dataclass(frozen=True, slots=True)
class Counter:
    """Statements so far: Cypher by Neo4j's driver, SQL by connections to SQLite."""

    cypher: SentCounts
    sql: SentCounts

    @property
    def statements(self) -> int:
        """Of both."""
        return self.cypher.statements + self.sql.statements


@contextmanager
def count_statements() -> Iterator[Counter]:
    """Counts over all drivers, and over the SQLite connections that are opened meanwhile."""
    with count_sent() as cypher, count_sql() as sql:
        yield Counter(cypher, sql)
