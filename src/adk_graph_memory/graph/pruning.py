"""Delete what has expired, user by user and kind by kind, in short transactions between which others write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adk_graph_memory.graph.artifacts import ContentKey
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.knowledge import PAGE_SIZE
from adk_graph_memory.graph.retention import RETENTION, make_retention
from adk_graph_memory.records import PruneKind, PruneReport, Receipt, Scope

Forget = Callable[[Scope, Sequence[str]], Awaitable[Receipt]]
"""Forgets memories of a user by their ids."""

BATCH_SIZE = 250
"""Nodes that one transaction deletes, at most."""
FORGOTTEN_AT_ONCE = 2_000
"""Memories of a user that one transaction forgets, at most: each derives the rest of that memory anew."""
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
        **_make_parameters(connection, request),
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
    connection: Connection, scope: Scope, request: PruneRequest, expired: PruneReport, forget: Forget
) -> AsyncIterator[PrunedBatch]:
    """Delete what has expired of one user, those kinds that were counted; yield after each transaction.

    Each transaction leaves the graph whole, so this may stop after any, and go on at another time. ``forget`` forgets
    memories by id.
    """
    parameters = {**_make_parameters(connection, request), "scope": scope.key}
    for kind in request.kinds:
        if getattr(expired, kind):
            pruner = _prune_memory(connection, scope, parameters, forget) if kind == "memory" else None
            async for batch in pruner or _PRUNERS[kind](connection, scope, parameters):
                yield batch


def _make_parameters(connection: Connection, request: PruneRequest) -> dict[str, Any]:
    retention = make_retention(connection.settings, request.older_than)
    return {RETENTION: retention, "now": retention["now"]}


async def _prune_nodes(connection: Connection, name: str, parameters: Mapping[str, Any]) -> AsyncIterator[int]:
    """Run a statement that deletes a batch of nodes until there are no more."""
    after, count = "", BATCH_SIZE
    while count == BATCH_SIZE:
        start = time.perf_counter()
        [row] = await connection.run_statement(name, parameters, after=after, batch=BATCH_SIZE)
        count, after = row["pruned"], row.get("last") or after
        yield count
        await _rest(start)


async def _rest(start: float) -> None:
    await asyncio.sleep(REST * (time.perf_counter() - start))


async def _prune_events(connection: Connection, _: Scope, parameters: Mapping[str, Any]) -> AsyncIterator[PrunedBatch]:
    async for count in _prune_nodes(connection, "prune_events", parameters):
        yield PrunedBatch(PruneReport(events=count))


async def _prune_revisions(
    connection: Connection, _: Scope, parameters: Mapping[str, Any]
) -> AsyncIterator[PrunedBatch]:
    async for count in _prune_nodes(connection, "prune_revisions", parameters):
        yield PrunedBatch(PruneReport(revisions=count))


async def _prune_sessions(
    connection: Connection, _: Scope, parameters: Mapping[str, Any]
) -> AsyncIterator[PrunedBatch]:
    after = ""
    while True:
        start = time.perf_counter()
        rows = await connection.run_statement("expire_sessions", parameters, after=after, batch=SESSIONS_PER_BATCH)
        if not rows:
            return
        uids, ids = [row["uid"] for row in rows], [row["id"] for row in rows]
        async for _count in _prune_nodes(connection, "prune_session_events", {**parameters, "uids": uids}):
            yield PrunedBatch(PruneReport())
        [row] = await connection.run_statement("prune_sessions", parameters, ids=ids)
        yield PrunedBatch(PruneReport(sessions=row["pruned"]))
        after = max(ids)
        await _rest(start)


async def _prune_memory(
    connection: Connection, scope: Scope, parameters: Mapping[str, Any], forget: Forget
) -> AsyncIterator[PrunedBatch]:
    """Forget turns first: facts that only they supported go with them, and need no tombstone of their own."""
    for name in ("expired_turns", "expired_facts"):
        after, ids = "", [""] * FORGOTTEN_AT_ONCE
        while len(ids) == FORGOTTEN_AT_ONCE:
            start = time.perf_counter()
            [row] = await connection.run_statement(name, parameters, after=after, batch=FORGOTTEN_AT_ONCE)
            if ids := row["ids"]:
                receipt = await forget(scope, ids)
                yield PrunedBatch(PruneReport(memory=receipt.events + receipt.facts))
                after = ids[-1].removeprefix("fact:")
            await _rest(start)


async def _prune_artifacts(
    connection: Connection, scope: Scope, parameters: Mapping[str, Any]
) -> AsyncIterator[PrunedBatch]:
    count = BATCH_SIZE
    while count == BATCH_SIZE:
        start = time.perf_counter()
        [row] = await connection.run_statement("prune_versions", parameters, batch=BATCH_SIZE)
        count = row["pruned"]
        contents = tuple((ContentKey(scope.key, content["id"]), content["store"]) for content in row["contents"])
        yield PrunedBatch(PruneReport(artifacts=count), contents)
        await _rest(start)


async def _prune_user_state(
    connection: Connection, _: Scope, parameters: Mapping[str, Any]
) -> AsyncIterator[PrunedBatch]:
    [row] = await connection.run_statement("prune_user_state", parameters)
    yield PrunedBatch(PruneReport(user_state=row["pruned"]))


_Pruner = Callable[[Connection, Scope, Mapping[str, Any]], AsyncIterator[PrunedBatch]]
_PRUNERS: Mapping[PruneKind, _Pruner] = {
    "events": _prune_events,
    "sessions": _prune_sessions,
    "revisions": _prune_revisions,
    "artifacts": _prune_artifacts,
    "user_state": _prune_user_state,
}


def sort_kinds(kinds: Sequence[PruneKind]) -> tuple[PruneKind, ...]:
    """The kinds in the order they are pruned in, each once; all of them if none is named."""
    return tuple(kind for kind in ORDER if not kinds or kind in kinds)
