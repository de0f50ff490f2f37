"""Count the transactions and statements that the driver sends to the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
