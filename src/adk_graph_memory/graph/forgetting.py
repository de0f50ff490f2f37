"""Delete memories, and the facts and entities that nothing else supports."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.records import Receipt, Scope


async def forget_ids(connection: Connection, scope: Scope, ids: Sequence[str]) -> Receipt:
    """Delete memories by id, and the facts that only they supported; unknown ids are no error."""
    return await connection.transact(lambda transaction: delete_memories(transaction, scope, ids))


async def forget_session_memories(connection: Connection, scope: Scope, session_id: str) -> Receipt:
    """Delete all memories of a session, and the facts that only they supported; the session itself stays."""
    return await connection.transact(lambda transaction: delete_session_memories(transaction, scope, session_id))


async def count_known_memories(connection: Connection, scope: Scope, ids: Sequence[str]) -> int:
    """Count the memories that the user has by these ids."""
    [row] = await connection.run_statement("known_memories", scope=scope.key, ids=list(ids))
    return int(row["known"])


async def count_session_memories(connection: Connection, scope: Scope, session_id: str) -> int:
    """Count the turns of a session that memory holds, or was asked to."""
    [row] = await connection.run_statement("session_memories", scope=scope.key, session_id=session_id)
    return len(row["ids"])


async def delete_session_memories(transaction: Transaction, scope: Scope, session_id: str) -> Receipt:
    """Delete all memories of a session within an open transaction."""
    [row] = await transaction.run_statement("session_memories", scope=scope.key, session_id=session_id)
    return await delete_memories(transaction, scope, row["ids"])


async def delete_memories(transaction: Transaction, scope: Scope, ids: Sequence[str]) -> Receipt:
    """Delete memories by id within an open transaction."""
    [known_row] = await transaction.run_statement("known_memories", scope=scope.key, ids=list(ids))
    if not known_row["known"]:
        return Receipt()
    [fact_row] = await transaction.run_statement("forget_facts", scope=scope.key, ids=list(ids))
    [event_row] = await transaction.run_statement("forget_events", scope=scope.key, ids=list(ids))
    [entity_row] = await transaction.run_statement("forget_unused_entities", scope=scope.key)
    return Receipt(event_row["events"], fact_row["facts"] + event_row["facts"], entity_row["entities"])
