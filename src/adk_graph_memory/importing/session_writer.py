"""Write the sessions of a source into the graph, so that a second import finds them there and goes on behind them."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adk_graph_memory import errors, graph
from adk_graph_memory.adk import foreign_records
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.importing.source_records import SourceSession, SourceState
from adk_graph_memory.importing.tally import Tally
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope
from adk_graph_memory.records.scopes import check_id

EventPages = AsyncIterator[Sequence[Mapping[str, Any]]]
"""A session's events as properties of nodes, some at a time."""
CONFLICT = "in conflict with the graph"
"""The kind of a session that is left out because the graph has something else under its id."""


@dataclass(frozen=True, slots=True)
class SessionWriter:
    """Writes sessions; with ``remembers`` it also queues what was said in them for memory."""

    memory: GraphMemory
    tally: Tally
    remembers: bool

    async def write_state(self, state: SourceState) -> None:
        """Add what the app's or the user's state lacks; keys that it has keep their values."""
        connection, delta = self.memory.connection, foreign_records.encode_state(state.values)
        if state.user_id is None:
            added = await graph.imports.add_app_state(connection, state.app_name, delta)
        else:
            scope = Scope(state.app_name, state.user_id)
            added = await graph.imports.add_user_state(connection, scope, delta)
        self.tally.count("state_keys", "added", added)

    async def write_session(self, session: SourceSession, pages: EventPages) -> None:
        """Write what the graph lacks of a session.

        Its state is the source's final one. So events are appended without applying their state deltas again.

        Raises:
            errors.InvalidArgument: its id or state cannot be stored.
        """
        scope = Scope(session.app_name, session.user_id)
        id = check_id("session_id", session.id).strip()
        state = foreign_records.encode_state(session.state)
        try:
            uid, known_ids, is_new = await self._open_session(scope, id, session, state)
            count = await self._append_events(scope, id, uid, known_ids, pages)
        except (errors.SessionClosed, errors.ConstraintViolated, errors.InvalidArgument) as error:
            self.tally.skip(session.place, CONFLICT, _describe_conflict(error))
            return
        if count >= len(known_ids):
            await graph.imports.finish_session(
                self.memory.connection,
                scope,
                id=id,
                uid=uid,
                revision=count,
                state=state,
                update_time=session.update_time,
            )
        self.tally.count("sessions", "new" if is_new else "extended" if count > len(known_ids) else "known")
        if self.remembers:
            await self._queue_session(scope, id)

    async def _open_session(
        self, scope: Scope, id: str, session: SourceSession, state: JsonMapDelta
    ) -> tuple[str, Sequence[str], bool]:
        """Find the session in the graph or create it; return its uid, its events' ids, and whether it is new."""
        connection = self.memory.connection
        known = await graph.sessions.fetch_event_ids(connection, scope, id=id, now=time.time())
        if known is not None:
            return known[0], known[2], False
        created = await graph.sessions.store_session(
            connection,
            scope,
            id=id,
            uid=uuid.uuid4().hex,
            now=session.create_time,
            app=JsonMapDelta(),
            user=JsonMapDelta(),
            session=state,
        )
        return created.uid, (), True

    async def _append_events(self, scope: Scope, id: str, uid: str, known_ids: Sequence[str], pages: EventPages) -> int:
        """Append the events behind those that the graph has; return how many the source has."""
        count = 0
        async for page in pages:
            known_here = known_ids[count : count + len(page)]
            if [event["id"] for event in page[: len(known_here)]] != list(known_here):
                raise errors.InvalidArgument(reason="the graph's session has other events under this id")
            if new := page[len(known_here) :]:
                is_appended = await graph.sessions.append_messages(
                    self.memory.connection,
                    scope,
                    session_id=id,
                    uid=uid,
                    revision=count + len(known_here),
                    events=new,
                )
                if not is_appended:
                    raise errors.InvalidArgument(reason="somebody else appends to it in the graph; import it again")
            self.tally.count("events", "known", len(known_here))
            self.tally.count("events", "new", len(new))
            count += len(page)
        return count

    async def _queue_session(self, scope: Scope, id: str) -> None:
        connection = self.memory.connection
        record = await graph.sessions.fetch_session(connection, scope, id=id, now=time.time())
        if record is None:
            return
        turns = foreign_records.make_stored_turns(record, scope.app_name, connection.settings.timezone)
        waiting = await self.memory.enqueue(turns, app_name=scope.app_name, user_id=scope.user_id, session_id=id)
        self.tally.count("turns", "waiting", waiting)


def _describe_conflict(error: errors.GraphMemoryError) -> str:
    if isinstance(error, errors.ConstraintViolated):
        return "the graph has a session with this id that has expired; delete it first"
    return error.reason or str(error)
