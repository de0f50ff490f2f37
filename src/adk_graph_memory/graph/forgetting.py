"""Erase what memory holds of events, and keep tombstones so that nothing of them comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.records import Scope, digest
from adk_graph_memory.records.turns import PROMOTED_SESSION

ERASED_AT_ONCE = 2_000
"""Nodes that one statement erases at most."""
MAX_ERASED_NODES = 50_000
"""Nodes up to which a user is erased in one transaction, which the server holds in its memory until it is over."""


def make_turn_tombstone(connection: Connection, memory_id: str) -> str:
    """Make the key of the tombstone of a forgotten turn: a keyed digest of its id, and never of its words."""
    return digest(connection.tombstone_key, "turn", memory_id)


def make_fact_tombstone(connection: Connection, memory_id: str) -> str:
    """Make the key of the tombstone of a turn from which a fact was forgotten: nothing more is read in it."""
    return digest(connection.tombstone_key, "facts", memory_id)


async def find_spent_turns(connection: Connection, scope: Scope, times: Mapping[str, datetime]) -> set[str]:
    """Find those of the turns in which nothing is read any more, given when each is said (now) by memory id.

    They were forgotten, or a fact of theirs was; or they were said before, and all that was read in them is over.
    """
    rows = [
        {
            "memory_id": id,
            "timestamp": at.timestamp(),
            "tombstones": [make_turn_tombstone(connection, id), make_fact_tombstone(connection, id)],
        }
        for id, at in times.items()
    ]
    spent = await connection.run_statement("spent_turns", scope=scope.key, rows=rows)
    return {row["memory_id"] for row in spent}


async def erase_events(
    connection: Connection, transaction: Transaction, scope: Scope, ids: Sequence[str], *, is_final: bool = True
) -> None:
    """Erase turns from memory within an open transaction, and entomb them if it is final."""
    if is_final:
        await entomb(transaction, scope, (make_turn_tombstone(connection, id) for id in ids))
    await transaction.run_rows("erase_events", ids, scope=scope.key)
    await transaction.run_statement("erase_idle_ingests", scope=scope.key)
    await transaction.run_statement("know_authors", scope=scope.key)


async def erase_statements(transaction: Transaction, scope: Scope, ids: Sequence[str]) -> None:
    """Erase statements that were added directly, within an open transaction."""
    await transaction.run_statement("erase_statements", scope=scope.key, ids=list(ids))


async def erase_writers(transaction: Transaction, scope: Scope, names: Sequence[str]) -> None:
    """Erase these names of writers from the turns that have them, within an open transaction."""
    await transaction.run_statement("erase_writers", scope=scope.key, names=list(names))


async def entomb(transaction: Transaction, scope: Scope, keys: Iterable[str]) -> None:
    """Keep tombstones within an open transaction."""
    await transaction.run_rows("entomb", sorted(keys), scope=scope.key)


async def count_known_memories(connection: Connection, scope: Scope, ids: Sequence[str]) -> int:
    """Count the memories that the user has by these ids."""
    [row] = await connection.run_statement("known_memories", scope=scope.key, ids=list(ids))
    return int(row["known"])


async def count_promoted_copies(connection: Connection, app_name: str, fact_ids: Iterable[str]) -> int:
    """Count the turns of an app's shared memories that hold copies of these facts."""
    session_uids = [f"elsewhere:{digest(f'{PROMOTED_SESSION}{id}')}" for id in fact_ids]
    if not session_uids:
        return 0
    [row] = await connection.run_statement("promoted_copies", app_name=app_name, session_uids=session_uids)
    return int(row["copies"])


async def count_session_memories(connection: Connection, scope: Scope, session_id: str) -> int:
    """Count the turns of a session that memory holds, or was asked to."""
    [row] = await connection.run_statement("session_memories", scope=scope.key, session_id=session_id)
    return len(row["ids"])


async def count_user(connection: Connection, scope: Scope) -> dict[str, int]:
    """Count what the graph holds of a user: sessions, events, turns, entities, facts, artifacts, tombstones."""
    [row] = await connection.run_statement("user_counts", scope=scope.key)
    return dict(row)


async def erase_user(connection: Connection, scope: Scope, *, with_sessions: bool) -> None:
    """Erase all memory of a user; with sessions also their events, their state and the user.

    Up to ``MAX_ERASED_NODES`` it is one transaction. A larger memory goes in several, facts first: if it is
    interrupted, the next call goes on.
    """
    kinds = ["facts", "entities", "turns", *(["events", "sessions", "user"] if with_sessions else [])]
    is_large = sum((await count_user(connection, scope)).values()) > MAX_ERASED_NODES

    async def erase_all(transaction: Transaction) -> int:
        await transaction.run_statement("interrupt_writers", scope=scope.key)
        for kind in kinds:
            while await _erase_some(transaction, connection, scope, kind):
                pass
        return 0

    for kind in kinds if is_large else ():
        while await connection.transact(partial(_erase_some, connection=connection, scope=scope, kind=kind)):
            pass
    await connection.transact(erase_all)


async def _erase_some(transaction: Transaction, connection: Connection, scope: Scope, kind: str) -> int:
    """Erase some nodes of a kind; return how many."""
    if kind == "turns":
        [row] = await transaction.run_statement("turn_ids", scope=scope.key, limit=ERASED_AT_ONCE)
        if row["ids"]:
            await erase_events(connection, transaction, scope, row["ids"])
        return len(row["ids"])
    [row] = await transaction.run_statement(f"erase_some_{kind}", scope=scope.key, limit=ERASED_AT_ONCE)
    return int(row["nodes"])
