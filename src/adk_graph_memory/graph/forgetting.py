"""Ids of memories go in; they and what rested on them alone are gone, and a receipt comes out."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.records import Receipt, Scope


async def forget(connection: Connection, scope: Scope, ids: Sequence[str]) -> Receipt:
    """Takes these memories away for good, and the facts that rested on them alone; unknown ids are no error."""
    return await connection.transact(lambda transaction: forget_memories(transaction, scope, ids))


async def learned_from(connection: Connection, scope: Scope, session_id: str) -> Receipt:
    """Takes away all that memory holds of a session, and the facts that rested on it alone; the session stays."""
    return await connection.transact(lambda transaction: forget_session(transaction, scope, session_id))


async def forget_session(transaction: Transaction, scope: Scope, session_id: str) -> Receipt:
    """Takes away all that memory holds of a session."""
    [row] = await transaction.run("session_memories", scope=scope.key, session_id=session_id)
    return await forget_memories(transaction, scope, row["ids"])


async def forget_memories(transaction: Transaction, scope: Scope, ids: Sequence[str]) -> Receipt:
    """Takes these memories away within a transaction that does more."""
    if not ids or not await transaction.run("known_memories", scope=scope.key, ids=list(ids)):
        return Receipt()
    [told] = await transaction.run("forget_facts", scope=scope.key, ids=list(ids))
    [said] = await transaction.run("forget_events", scope=scope.key, ids=list(ids))
    [unused] = await transaction.run("forget_unused_entities", scope=scope.key)
    return Receipt(said["events"], told["facts"] + said["facts"], unused["entities"])
