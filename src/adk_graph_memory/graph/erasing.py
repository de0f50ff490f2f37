"""Erase what memory holds of turns and statements, keep tombstones, and delete what has expired."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from adk_graph_memory.graph.artifacts import ContentKey
from adk_graph_memory.graph.connection import Connection, Transaction, UserGraph
from adk_graph_memory.graph.listings import PAGE_SIZE
from adk_graph_memory.graph.statements import RETENTION, compute_retention
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.results import PruneKind, PruneReport, Receipt
from adk_graph_memory.records.scopes import Scope
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


async def find_spent_turns(graph: UserGraph, times: Mapping[str, datetime]) -> set[str]:
    """Find those of the turns in which nothing is read any more, given when each is said (now) by memory id.

    They were forgotten, or a fact of theirs was; or they were said before, and all that was read in them is over.
    """
    await graph.connection.prepare()
    rows = [
        {
            "memory_id": id,
            "timestamp": at.timestamp(),
            "tombstones": [make_turn_tombstone(graph.connection, id), make_fact_tombstone(graph.connection, id)],
        }
        for id, at in times.items()
    ]
    spent = await graph.run_statement("spent_turns", rows=rows)
    return {row["memory_id"] for row in spent}


async def erase_events(
    graph: UserGraph, transaction: Transaction, ids: Sequence[str], *, is_final: bool = True
) -> None:
    """Erase turns from memory within an open transaction, and entomb them if it is final."""
    if is_final:
        await entomb(transaction, (make_turn_tombstone(graph.connection, id) for id in ids))
    await transaction.run_rows("erase_events", ids)
    await transaction.run_statement("erase_idle_ingests")
    await transaction.run_statement("know_authors")


async def erase_statements(transaction: Transaction, ids: Sequence[str]) -> None:
    """Erase statements that were added directly, within an open transaction."""
    await transaction.run_statement("erase_statements", ids=list(ids))


async def erase_writers(transaction: Transaction, names: Sequence[str]) -> None:
    """Erase these names of writers from the turns that have them, within an open transaction."""
    await transaction.run_statement("erase_writers", names=list(names))


async def entomb(transaction: Transaction, keys: Iterable[str]) -> None:
    """Keep tombstones within an open transaction."""
    await transaction.run_rows("entomb", sorted(keys))


async def count_known_memories(graph: UserGraph, ids: Sequence[str]) -> int:
    """Count the memories that the user has by these ids."""
    [row] = await graph.run_statement("known_memories", ids=list(ids))
    return int(row["known"])


async def count_promoted_copies(graph: UserGraph, fact_ids: Iterable[str], statement_ids: Sequence[str]) -> int:
    """Count the turns of the app's shared memories that hold copies of these facts, and the statements of these ids.

    A statement is copied in its words, which are its id there. The user's own memory, if it is shared, does not count.
    """
    sought = {
        "session_uids": [f"elsewhere:{digest(f'{PROMOTED_SESSION}{id}')}" for id in fact_ids],
        "statement_ids": list(statement_ids),
    }
    if not any(sought.values()):
        return 0
    names = {"app_name": graph.scope.app_name, "apart_from": graph.scope.user_id}
    [row] = await graph.connection.run_statement("promoted_copies", sought, **names)
    return int(row["copies"])


async def count_session_memories(graph: UserGraph, session_id: str) -> int:
    """Count the turns of a session that memory holds, or was asked to."""
    [row] = await graph.run_statement("session_memories", session_id=session_id)
    return len(row["ids"])


async def count_user(graph: UserGraph) -> dict[str, int]:
    """Count what the graph holds of a user: sessions, events, turns, entities, facts, artifacts, tombstones."""
    [row] = await graph.run_statement("user_counts")
    return dict(row)


async def erase_user(graph: UserGraph, *, with_sessions: bool) -> None:
    """Erase all memory of a user; with sessions also their events, their state and the user.

    Up to ``MAX_ERASED_NODES`` it is one transaction. A larger memory goes in several, facts first: if it is
    interrupted, the next call goes on.
    """
    kinds = ["facts", "entities", "turns", *(["events", "sessions", "user"] if with_sessions else [])]
    is_large = sum((await count_user(graph)).values()) > MAX_ERASED_NODES

    async def erase_all(transaction: Transaction) -> int:
        await transaction.run_statement("interrupt_writers")
        for kind in kinds:
            while await _erase_some(transaction, graph, kind):
                pass
        return 0

    for kind in kinds if is_large else ():
        while await graph.transact(partial(_erase_some, graph=graph, kind=kind)):
            pass
    await graph.transact(erase_all)


async def _erase_some(transaction: Transaction, graph: UserGraph, kind: str) -> int:
    """Erase some nodes of a kind; return how many."""
    if kind == "turns":
        [row] = await transaction.run_statement("turn_ids", limit=ERASED_AT_ONCE)
        if row["ids"]:
            await erase_events(graph, transaction, row["ids"])
        return len(row["ids"])
    [row] = await transaction.run_statement(f"erase_some_{kind}", limit=ERASED_AT_ONCE)
    return int(row["nodes"])


Forget = Callable[[Sequence[str]], Awaitable[Receipt]]
"""Forgets memories of a user by their ids."""

BATCH_SIZE = 250
"""Nodes that one transaction deletes, at most."""
FORGOTTEN_AT_ONCE = 2_000
"""Maximum memories of a user that one transaction forgets; each transaction derives the rest of memory again."""
SESSIONS_PER_BATCH = 50
"""Sessions that expire together; their events are deleted before them, in batches of their own."""
ORDER: Sequence[PruneKind] = ("events", "sessions", "revisions", "memory", "artifacts", "user_state")
"""In this order no kind takes along what another one counts: a session its events, a fact its revisions."""
REST = 1.0
"""The rest after each transaction, as a share of the time it took: appends go on meanwhile."""


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """What to prune: of an app, a user or everybody; what has expired, and what is older than so many seconds."""

    kinds: tuple[PruneKind, ...]
    app_name: str | None = None
    user_id: str | None = None
    older_than: float | None = None


@dataclass(frozen=True, slots=True)
class PrunedBatch:
    """What one transaction deleted, and the contents in blob stores, each with its store's URL, that go with it."""

    report: PruneReport
    contents: tuple[tuple[ContentKey, str], ...] = ()


async def iterate_expired(connection: Connection, request: PruneRequest) -> AsyncIterator[tuple[Scope, PruneReport]]:
    """Yield the users of whom anything is to go, with the count of each kind."""
    parameters = {
        **_bind_retention(connection, request),
        "app_name": request.app_name,
        "user_id": request.user_id,
        "kinds": list(request.kinds),
        "limit": PAGE_SIZE,
    }
    after = ""
    while rows := await connection.run_statement("expired_counts", parameters, after=after):
        for row in rows:
            report = PruneReport(**{kind: row[kind] for kind in request.kinds})
            if report.total:
                yield Scope.from_graph(row["app_name"], row["user_id"]), report
        after = rows[-1]["scope"]


async def prune_user(
    graph: UserGraph, request: PruneRequest, expired: PruneReport, forget: Forget
) -> AsyncIterator[PrunedBatch]:
    """Delete what has expired of one user, those kinds that were counted; yield after each transaction.

    Each transaction leaves the graph whole, so this may stop after any, and go on at another time. ``forget`` forgets
    memories by id.
    """
    parameters = _bind_retention(graph.connection, request)
    for kind in request.kinds:
        if getattr(expired, kind):
            pruner = _prune_memory(graph, parameters, forget) if kind == "memory" else None
            async for batch in pruner or _PRUNERS[kind](graph, parameters):
                yield batch


def _bind_retention(connection: Connection, request: PruneRequest) -> dict[str, Any]:
    retention = compute_retention(connection.settings, request.older_than)
    return {RETENTION: retention, "now": retention["now"]}


async def _prune_nodes(graph: UserGraph, name: str, parameters: Mapping[str, Any]) -> AsyncIterator[int]:
    """Run a statement that deletes a batch of nodes until there are no more."""
    after, count = "", BATCH_SIZE
    while count == BATCH_SIZE:
        start = time.perf_counter()
        [row] = await graph.run_statement(name, parameters, after=after, batch=BATCH_SIZE)
        count, after = row["pruned"], row.get("last") or after
        yield count
        await _rest(start)


async def _rest(start: float) -> None:
    await asyncio.sleep(REST * (time.perf_counter() - start))


async def _prune_kind(kind: PruneKind, graph: UserGraph, parameters: Mapping[str, Any]) -> AsyncIterator[PrunedBatch]:
    async for count in _prune_nodes(graph, f"prune_{kind}", parameters):
        yield PrunedBatch(PruneReport(**{kind: count}))


async def _prune_sessions(graph: UserGraph, parameters: Mapping[str, Any]) -> AsyncIterator[PrunedBatch]:
    after = ""
    while True:
        start = time.perf_counter()
        rows = await graph.run_statement("expire_sessions", parameters, after=after, batch=SESSIONS_PER_BATCH)
        if not rows:
            return
        uids, ids = [row["uid"] for row in rows], [row["id"] for row in rows]
        async for _count in _prune_nodes(graph, "prune_session_events", {**parameters, "uids": uids}):
            yield PrunedBatch(PruneReport())
        [row] = await graph.run_statement("prune_sessions", parameters, ids=ids)
        yield PrunedBatch(PruneReport(sessions=row["pruned"]))
        after = max(ids)
        await _rest(start)


async def _prune_memory(graph: UserGraph, parameters: Mapping[str, Any], forget: Forget) -> AsyncIterator[PrunedBatch]:
    """Forget turns first: facts that only they supported go with them, and need no tombstone of their own."""
    for name in ("expired_turns", "expired_facts"):
        after, ids = "", [""] * FORGOTTEN_AT_ONCE
        while len(ids) == FORGOTTEN_AT_ONCE:
            start = time.perf_counter()
            [row] = await graph.run_statement(name, parameters, after=after, batch=FORGOTTEN_AT_ONCE)
            if ids := row["ids"]:
                receipt = await forget(ids)
                yield PrunedBatch(PruneReport(memory=receipt.events + receipt.facts))
                after = ids[-1].removeprefix("fact:")
            await _rest(start)


async def _prune_artifacts(graph: UserGraph, parameters: Mapping[str, Any]) -> AsyncIterator[PrunedBatch]:
    count = BATCH_SIZE
    while count == BATCH_SIZE:
        start = time.perf_counter()
        [row] = await graph.run_statement("prune_versions", parameters, batch=BATCH_SIZE)
        count = row["pruned"]
        contents = tuple((ContentKey(graph.scope.key, content["id"]), content["store"]) for content in row["contents"])
        yield PrunedBatch(PruneReport(artifacts=count), contents)
        await _rest(start)


async def _prune_user_state(graph: UserGraph, parameters: Mapping[str, Any]) -> AsyncIterator[PrunedBatch]:
    [row] = await graph.run_statement("prune_user_state", parameters)
    yield PrunedBatch(PruneReport(user_state=row["pruned"]))


_Pruner = Callable[[UserGraph, Mapping[str, Any]], AsyncIterator[PrunedBatch]]
_PRUNERS: Mapping[PruneKind, _Pruner] = {
    "events": partial(_prune_kind, "events"),
    "sessions": _prune_sessions,
    "revisions": partial(_prune_kind, "revisions"),
    "artifacts": _prune_artifacts,
    "user_state": _prune_user_state,
}


def sort_kinds(kinds: Sequence[PruneKind]) -> tuple[PruneKind, ...]:
    """The kinds in the order they are pruned in, each once; all of them if none is named."""
    return tuple(kind for kind in ORDER if not kinds or kind in kinds)
