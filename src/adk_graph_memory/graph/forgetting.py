"""Erase what memory holds of events, and keep tombstones so that nothing of them comes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.records import Scope, digest


def make_turn_tombstone(connection: Connection, memory_id: str) -> str:
    """Make the key of the tombstone of a forgotten turn: a keyed digest of its id, and never of its words."""
    return digest(connection.tombstone_key, "turn", memory_id)


def make_fact_tombstone(connection: Connection, memory_id: str) -> str:
    """Make the key of the tombstone of a turn from which a fact was forgotten: nothing more is read in it."""
    return digest(connection.tombstone_key, "facts", memory_id)


def list_turn_tombstones(connection: Connection, memory_id: str) -> list[str]:
    """List the keys under which a turn may have been forgotten; earlier releases used its id."""
    return [make_turn_tombstone(connection, memory_id), memory_id]


def list_fact_tombstones(connection: Connection, memory_id: str) -> list[str]:
    """List the keys under which a fact of this turn may have been forgotten; earlier releases used its id."""
    return [make_fact_tombstone(connection, memory_id), f"facts:{memory_id}"]


async def erase_events(connection: Connection, transaction: Transaction, scope: Scope, ids: Sequence[str]) -> None:
    """Erase turns from memory within an open transaction, and entomb them."""
    await entomb(transaction, scope, (make_turn_tombstone(connection, id) for id in ids))
    await transaction.run_rows("erase_events", ids, scope=scope.key)
    await transaction.run_statement("erase_idle_ingests", scope=scope.key)
    await transaction.run_statement("know_authors", scope=scope.key)


async def erase_statements(transaction: Transaction, scope: Scope, ids: Sequence[str]) -> None:
    """Erase statements that were added directly, within an open transaction."""
    await transaction.run_statement("erase_statements", scope=scope.key, ids=list(ids))


async def entomb(transaction: Transaction, scope: Scope, keys: Iterable[str]) -> None:
    """Keep tombstones within an open transaction."""
    await transaction.run_rows("entomb", sorted(keys), scope=scope.key)


async def count_known_memories(connection: Connection, scope: Scope, ids: Sequence[str]) -> int:
    """Count the memories that the user has by these ids."""
    [row] = await connection.run_statement("known_memories", scope=scope.key, ids=list(ids))
    return int(row["known"])


async def count_session_memories(connection: Connection, scope: Scope, session_id: str) -> int:
    """Count the turns of a session that memory holds, or was asked to."""
    [row] = await connection.run_statement("session_memories", scope=scope.key, session_id=session_id)
    return len(row["ids"])
