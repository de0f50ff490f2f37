"""Forget what a user said, as if it had never been said, and take back what one ingest wrote.

After forgetting, facts without support are deleted, and so are the dates, names, merges and endings that rested on
them. Adding the same session again brings nothing back; the same thing said in a new event is remembered. Sessions keep
their events, and the database's logs keep what was written for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from adk_graph_memory import errors
from adk_graph_memory.consolidation.fact_rules import compute_statement_memory_id
from adk_graph_memory.graph import erasing
from adk_graph_memory.graph.artifacts import delete_versions, fetch_user_artifacts
from adk_graph_memory.graph.blobs import delete_contents
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.memory.changes import describe_change
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.memory.rewriting import Erasure
from adk_graph_memory.records.history import FactChange, FactVersion, MemoryChange
from adk_graph_memory.records.memory import MemorySnapshot
from adk_graph_memory.records.results import Receipt
from adk_graph_memory.records.scopes import check_flags, check_text
from adk_graph_memory.records.turns import check_timezone_aware, make_memory_id
from adk_graph_memory.runtime import telemetry


def check_ids(ids: object) -> None:
    """Refuse ids that are no texts.

    Raises:
        errors.InvalidArgument: they are no list of texts.
    """
    if not isinstance(ids, Sequence) or not all(isinstance(id, str) for id in ids):
        raise errors.InvalidArgument(reason=f"{ids!r} are no ids: give a text, or a list of texts")


def _list_names(ids: str | Sequence[str]) -> list[str]:
    """List the ids, each also as that of a statement which was added under it.

    Raises:
        errors.InvalidArgument: they are no list of texts.
    """
    ids = [ids] if isinstance(ids, str) else ids
    check_ids(ids)
    return [name for id in ids for name in (id, compute_statement_memory_id(id))]


@telemetry.trace_operation("delete_memory")
async def forget_memories(user: UserContext, ids: str | Sequence[str], *, with_turns: bool = False) -> Receipt:
    """Forget turns, facts or statements by their ids, and on request the turns that the facts rest on."""
    check_flags(with_turns=with_turns)
    names = _list_names(ids)
    telemetry.annotate_memory_ids([ids] if isinstance(ids, str) else ids)
    if not await erasing.count_known_memories(user.graph, names):
        return Receipt()
    return await user.rewriter.erase_memories(
        lambda snapshot: Erasure.select_ids(snapshot, names, with_turns=with_turns)
    )


async def preview_forgetting(user: UserContext, ids: str | Sequence[str], *, with_turns: bool = False) -> MemoryChange:
    """Return what :func:`forget_memories` would change, and which turns would stay; nothing is written."""
    check_flags(with_turns=with_turns)
    names = _list_names(ids)
    rewrite = await user.rewriter.preview_erasure(
        lambda snapshot: Erasure.select_ids(snapshot, names, with_turns=with_turns)
    )
    erasure, change = rewrite.erasure, describe_change("", rewrite)
    statements = [rewrite.snapshot.statements[id] for id in sorted(erasure.statement_ids)]
    gone = (
        FactChange(row["memory_id"], FactVersion(row["text"], "current", None, None, False), None) for row in statements
    )
    return replace(
        change,
        facts=(*change.facts, *gone),
        turns=len(erasure.turn_ids),
        staying_turns=erasure.find_staying_turns(rewrite.snapshot),
        copies=await user.rewriter.count_copies(rewrite),
    )


@telemetry.trace_operation("delete_memory")
async def forget_event(user: UserContext, event_id: str, *, session_id: str) -> Receipt:
    """Forget everything said in one event of a session."""
    check_ids([event_id, session_id])
    id = make_memory_id(session_id, event_id)
    return await user.rewriter.erase_memories(lambda snapshot: Erasure.select_ids(snapshot, [id]))


@telemetry.trace_operation("delete_memory")
async def forget_session(user: UserContext, session_id: str) -> Receipt:
    """Forget everything said in a session; the session itself stays."""
    check_text("session_id", session_id)
    return await user.rewriter.erase_session(session_id)


@telemetry.trace_operation("delete_memory")
async def forget_before(user: UserContext, moment: datetime) -> Receipt:
    """Forget everything said before a moment.

    Raises:
        errors.InvalidArgument: the moment has no time zone.
    """
    check_timezone_aware(moment)

    def select(snapshot: MemorySnapshot) -> Erasure:
        words = {**snapshot.turns, **snapshot.statements}
        return Erasure.select_ids(snapshot, (id for id in words if words[id]["timestamp"] < moment.timestamp()))

    return await user.rewriter.erase_memories(select)


@telemetry.trace_operation("delete_memory")
async def forget_user(graph: UserGraph, *, sessions: bool = False, artifacts: bool = False) -> Receipt:
    """Forget everything about a user, and on request delete their sessions and artifacts too.

    Raises:
        errors.ArtifactStoreUnusable: the content of an artifact could not be deleted; the rest is forgotten.
    """
    check_flags(sessions=sessions, artifacts=artifacts)
    before = await erasing.count_user(graph)
    names = await fetch_user_artifacts(graph) if artifacts else []
    contents = [content for name in names for content in await delete_versions(graph.connection, name)]
    await erasing.erase_user(graph, with_sessions=sessions)
    after = await erasing.count_user(graph)
    gone = {kind: before[kind] - after[kind] for kind in before}
    await delete_contents(contents)
    return Receipt(
        gone["events" if sessions else "turns"],
        gone["facts"],
        gone["entities"],
        gone["sessions"],
        gone["artifacts"],
        at=datetime.now(UTC),
        stays={kind: count for kind, count in after.items() if count},
    )


@telemetry.trace_operation("delete_memory")
async def undo_ingest(user: UserContext, ingest_id: str) -> Receipt:
    """Take back everything that one ingest wrote, even if later ones built on it.

    Raises:
        errors.NotFound: this user's memory holds nothing from this ingest.
    """
    return await user.rewriter.erase_memories(_choose_ingest(ingest_id))


async def preview_undoing(user: UserContext, ingest_id: str) -> MemoryChange:
    """Return which facts and names :func:`undo_ingest` would change; nothing is written. It raises the same."""
    rewrite = await user.rewriter.preview_erasure(_choose_ingest(ingest_id))
    return replace(describe_change(ingest_id, rewrite), turns=len(rewrite.erasure.turn_ids))


def _choose_ingest(ingest_id: str) -> Callable[[MemorySnapshot], Erasure]:
    check_text("the ingest", ingest_id)

    def select(snapshot: MemorySnapshot) -> Erasure:
        if (erasure := Erasure.select_ingest(snapshot, ingest_id)).ids:
            return erasure
        where = "`adk-graph-memory history`, which names the ingests of a fact"
        raise errors.NotFound(what=f"ingest {ingest_id!r} of this user", where=where)

    return select
