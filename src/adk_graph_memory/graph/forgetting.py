"""Ids of memories go in; they and what rested on them alone are gone, and a receipt comes out."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.records import Receipt, Scope


async def forget_ids(connection: Connection, scope: Scope, ids: Sequence[str]) -> Receipt:
    """Takes these memories away for good, and the facts that rested on them alone; unknown ids are no error."""
    return await connection.transact(lambda transaction: delete_memories(transaction, scope, ids))


async def forget_session_memories(connection: Connection, scope: Scope, session_id: str) -> Receipt:
    """Takes away all that memory holds of a session, and the facts that rested on it alone; the session stays."""
    return await connection.transact(lambda transaction: delete_session_memories(transaction, scope, session_id))


async def delete_session_memories(transaction: Transaction, scope: Scope, session_id: str) -> Receipt:
    """Takes away all that memory holds of a session."""
    [row] = await transaction.run_statement("session_memories", scope=scope.key, session_id=session_id)
    return await delete_memories(transaction, scope, row["ids"])


async def delete_memories(transaction: Transaction, scope: Scope, ids: Sequence[str]) -> Receipt:
    """Takes these memories away within a transaction that does more."""
    if not ids or not await transaction.run_statement("known_memories", scope=scope.key, ids=list(ids)):
        return Receipt()
    [told] = await transaction.run_statement("forget_facts", scope=scope.key, ids=list(ids))
    [said] = await transaction.run_statement("forget_events", scope=scope.key, ids=list(ids))
    [unused] = await transaction.run_statement("forget_unused_entities", scope=scope.key)
    return Receipt(said["events"], told["facts"] + said["facts"], unused["entities"])
