"""Forget what a user said, as if it had never been said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from adk_graph_memory import errors
from adk_graph_memory.consolidation.fact_rules import make_statement_id
from adk_graph_memory.graph import erasing
from adk_graph_memory.graph.artifacts import ContentKey, delete_versions, fetch_user_artifacts
from adk_graph_memory.graph.blobs import delete_contents
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.graph.snapshots import MemorySnapshot
from adk_graph_memory.memory.changes import describe_change
from adk_graph_memory.memory.rewriting import Erasure, Rewriter
from adk_graph_memory.memory.vectors import GraphVectors
from adk_graph_memory.records.history import MemoryChange
from adk_graph_memory.records.results import Receipt
from adk_graph_memory.records.scopes import Scope
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
    return [name for id in ids for name in (id, make_statement_id(id))]


class Forgetting:
    """Forgets memories; a base class of :class:`adk_graph_memory.GraphMemory`.

    Afterwards, memory is as if the words had never been said: facts without support are deleted, and so are the dates,
    names, merges and endings that rested on them. Adding the same session again brings nothing back; the same thing
    said in a new event is remembered. Sessions keep their events, and the database's logs keep what was written for a
    while.
    """

    connection: Connection
    vectors: GraphVectors

    @telemetry.trace_operation("delete_memory")
    async def forget(
        self, ids: str | Sequence[str], *, app_name: str, user_id: str, with_turns: bool = False
    ) -> Receipt:
        """Forget memories: turns, facts, or statements that were added directly.

        A fact that is forgotten alone is not extracted from its turns again, but the turns still answer questions in
        their own words: the receipt's ``stays`` counts them, and ``with_turns`` forgets them too.

        Args:
            ids: one or several ids, as in ``Recollection.id``, or a statement's own id. Unknown ids are ignored. Two
                users who said the same may have facts with the same id; only this user's is forgotten.
            app_name, user_id: whose memory it is.
            with_turns: also forget the turns that the facts rest on, and anything else that rests on them alone.

        Raises:
            errors.DatabaseError: the graph could not be written; nothing is forgotten.
        """
        names = _list_names(ids)
        telemetry.annotate_memory_ids([ids] if isinstance(ids, str) else ids)
        if not await erasing.count_known_memories(self.connection.user(Scope(app_name, user_id)), names):
            return Receipt()
        return await self._erase(
            app_name, user_id, lambda snapshot: Erasure.select_ids(snapshot, names, with_turns=with_turns)
        )

    async def preview_forget(
        self, ids: str | Sequence[str], *, app_name: str, user_id: str, with_turns: bool = False
    ) -> MemoryChange:
        """Return what would change if :meth:`forget` got these ids, and which turns would stay; nothing is written.

        Raises:
            errors.DatabaseError: the graph could not be read.
        """
        names = _list_names(ids)
        graph = self.connection.user(Scope(app_name, user_id))
        rewriter = Rewriter(graph, self.vectors)
        rewrite = await rewriter.preview_erasure(
            lambda snapshot: Erasure.select_ids(snapshot, names, with_turns=with_turns)
        )
        erasure = rewrite.erasure
        return replace(
            describe_change("", rewrite.difference),
            turns=len(erasure.turn_ids),
            staying_turns=erasure.find_staying_turns(rewrite.snapshot),
            copies=await erasing.count_promoted_copies(graph.connection, app_name, rewrite.difference.erased_facts),
        )

    @telemetry.trace_operation("delete_memory")
    async def forget_event(self, event_id: str, *, app_name: str, user_id: str, session_id: str) -> Receipt:
        """Forget everything said in one event of a session."""
        check_ids([event_id, session_id])
        id = make_memory_id(session_id, event_id)
        return await self._erase(app_name, user_id, lambda snapshot: Erasure.select_ids(snapshot, [id]))

    @telemetry.trace_operation("delete_memory")
    async def forget_session(self, session_id: str, *, app_name: str, user_id: str) -> Receipt:
        """Forget everything said in a session; the session itself stays."""
        return await self._erase(app_name, user_id, lambda snapshot: Erasure.select_session(snapshot, session_id))

    @telemetry.trace_operation("delete_memory")
    async def forget_before(self, moment: datetime, *, app_name: str, user_id: str) -> Receipt:
        """Forget everything said before a moment, an aware datetime.

        Raises:
            errors.InvalidArgument: the moment has no time zone.
        """
        check_timezone_aware(moment)

        def select(snapshot: MemorySnapshot) -> Erasure:
            words = {**snapshot.turns, **snapshot.statements}
            return Erasure.select_ids(snapshot, (id for id in words if words[id]["timestamp"] < moment.timestamp()))

        return await self._erase(app_name, user_id, select)

    @telemetry.trace_operation("delete_memory")
    async def forget_user(
        self, *, app_name: str, user_id: str, sessions: bool = False, artifacts: bool = False
    ) -> Receipt:
        """Forget everything remembered about a user, and whatever waits to be read.

        Args:
            app_name, user_id: whose memory it is.
            sessions: also delete their sessions, events and state. If a session object that still exists in a process
                is added again, it is refused.
            artifacts: also delete their artifacts, with their content in a store.

        Returns:
            Counts of what was deleted and, under ``stays``, of what was not.

        Raises:
            errors.ArtifactStoreUnusable: the content of an artifact could not be deleted; the rest is forgotten.
            errors.DatabaseError: the graph could not be written. Call this again: it continues where it stopped.
        """
        graph = self.connection.user(Scope(app_name, user_id))
        before = await erasing.count_user(graph)
        contents = await _erase_artifacts(graph) if artifacts else []
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

    async def _erase(self, app_name: str, user_id: str, select: Callable[[MemorySnapshot], Erasure]) -> Receipt:
        return await Rewriter(self.connection.user(Scope(app_name, user_id)), self.vectors).erase_memories(select)


async def _erase_artifacts(graph: UserGraph) -> list[tuple[ContentKey, str]]:
    """Erase the artifacts from the graph; return the keys and stores of their contents."""
    names = await fetch_user_artifacts(graph)
    return [content for name in names for content in await delete_versions(graph.connection, name)]
