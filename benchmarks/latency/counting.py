"""Count the transactions and statements that Neo4j's driver sends, and the statements that SQLite is given."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import neo4j

_SENDERS = (
    ((neo4j.AsyncSession, neo4j.Session), "run", 1, 1),
    ((neo4j.AsyncSession, neo4j.Session), "_open_transaction", 1, 0),
    ((neo4j.AsyncTransaction, neo4j.AsyncManagedTransaction), "run", 0, 1),
    ((neo4j.Transaction, neo4j.ManagedTransaction), "run", 0, 1),
)
"""Where the driver (6.x) sends: classes, method, transactions and statements a call.

``_open_transaction`` is private, but everything passes it: begin_transaction, execute_read, execute_query.
"""


@dataclass(slots=True)
class SentCounts:
    """What was sent so far."""

    transactions: int = 0
    statements: int = 0


@contextmanager
def count_sent() -> Iterator[SentCounts]:
    """Counts over all drivers of this process, sync and async."""
    sent = SentCounts()
    with ExitStack() as patches:
        for kinds, method, transactions, statements in _SENDERS:
            for kind in kinds:
                counting = _wrap_send(getattr(kind, method), sent, transactions, statements)
                patches.enter_context(patch.object(kind, method, counting))
        yield sent


def _wrap_send(send: Callable[..., Any], sent: SentCounts, transactions: int, statements: int) -> Callable[..., Any]:
    def count_and_send(*arguments: Any, **named: Any) -> Any:
        sent.transactions += transactions
        sent.statements += statements
        return send(*arguments, **named)

    return count_and_send


@contextmanager
def count_sql() -> Iterator[SentCounts]:
    """Counts the statements of all SQLite connections that are opened meanwhile, beginnings and commits apart."""
    given = SentCounts()

    class Cursor(sqlite3.Cursor):
        pass

    for method in ("execute", "executemany", "executescript"):
        setattr(Cursor, method, _wrap_send(getattr(sqlite3.Cursor, method), given, 0, 1))

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        # A connection's own shortcuts make cursors that no subclass sees.
        def execute(self, *arguments: Any) -> Any:
            return self.cursor().execute(*arguments)

        def executemany(self, *arguments: Any) -> Any:
            return self.cursor().executemany(*arguments)

        def executescript(self, *arguments: Any) -> Any:
            return self.cursor().executescript(*arguments)

    with patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=Connection)):
        yield given
