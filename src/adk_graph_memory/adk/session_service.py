"""Implement ADK's session service: (User)-[:HAS_SESSION]->(Session)-[:HAS_EVENT]->(Event)-[:NEXT]->(Event).

Unlike ADK's own services, it detects stale writers by an integer revision instead of a timestamp, so two of them
cannot both win; it merges ``app:`` and ``user:`` state under a lock, and keeps events in append order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from pydantic import Field
from typing_extensions import override

from adk_graph_memory import errors
from adk_graph_memory.adk import session_codec
from adk_graph_memory.adk.graph_service import GraphService
from adk_graph_memory.graph import planning
from adk_graph_memory.graph.append_queue import AppendResult
from adk_graph_memory.graph.sessions import (
    fetch_events,
    fetch_session,
    fetch_sessions,
    fetch_user_state,
    mark_session_closed,
    remove_session,
    store_event,
    store_session,
)
from adk_graph_memory.records.scopes import Scope, check_flags
from adk_graph_memory.records.turns import check_session_id
from adk_graph_memory.runtime import telemetry


@dataclass(frozen=True, slots=True)
class ListEventsResponse:
    """A page of a session's events, and the ``after_seq`` of the next page."""

    events: list[Event]
    last_seq: int | None


class ListNamedSessionsResponse(ListSessionsResponse):
    """ADK's list of sessions, and the display name of each, in the same order."""

    display_names: list[str | None] = Field(default_factory=list)


@telemetry.trace_methods
class Neo4jSessionService(GraphService, BaseSessionService):
    """Sessions, events and state in Neo4j.

    Args:
        uri: Neo4j's address, which may contain settings; else NEO4J_URI, or the server that ``adk-graph-memory up``
            started.
        auth: user name and password, or any ``neo4j.Auth``; else NEO4J_USERNAME and NEO4J_PASSWORD.
        database: the database's name; else NEO4J_DATABASE or ``neo4j``.
        driver: your own async driver; never closed here.
        settings: all settings, instead of the environment's.
        schema: ``auto`` (migrate at first use), ``check`` (refuse an unfit schema) or ``off``.
        agents_dir: the agents' folder, whose ``.env`` files are read; ADK's command line passes it.

    Example:
        async with Neo4jSessionService() as sessions:
            session = await sessions.create_session(app_name="home", user_id="ana", state={"user:name": "Ana"})
            await sessions.append_event(session, Event(author="user", content=types.UserContent("Hello.")))
            page = await sessions.list_events(app_name="home", user_id="ana", session_id=session.id)
            print(page.events[0].content.parts[0].text)
    """

    planned_statements = planning.SESSION_STATEMENTS

    @cached_property
    def on_close_session(self) -> list[Callable[[Session], None]]:
        """Callbacks that get each session that :meth:`close_session` ends."""
        return []

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
        ttl: float | str | timedelta | None = None,
        expire_time: float | str | datetime | None = None,
        display_name: str | None = None,
        labels: Mapping[str, str] | None = None,
        owner: str | None = None,
    ) -> Session:
        """Create a session; over HTTP pass the arguments from ``ttl`` on in ``POST /sessions {"options": …}``.

        Args:
            app_name: the app.
            user_id: the user; any text.
            state: initial state; ``app:`` and ``user:`` keys go to the app's and the user's state.
            session_id: whitespace is stripped; generated if blank or None.
            ttl: seconds (``3600``, ``"3600s"``) or a timedelta after which the session counts as deleted.
            expire_time: when it expires, instead of ``ttl``: epoch seconds, ISO 8601 or a datetime.
            display_name: stored on the session.
            labels: ``list_sessions(labels=…)`` filters by them.
            owner: who is responsible for this user's data; stored on the User node.

        Raises:
            AlreadyExistsError: this user has a session with this id.
            InputValidationError: an id is too long, or the expiry cannot be parsed.
            errors.InvalidArgument: this session id is reserved for memory itself.
        """
        connection = await self._connect(app_name)
        now = platform_time.get_time()
        expires_at = session_codec.parse_expiry(now, ttl, expire_time)
        id = session_codec.check_id("session_id", (session_id or "").strip() or platform_uuid.new_uuid())
        check_session_id(id)
        scope = Scope(session_codec.check_id("app_name", app_name), str(user_id))  # no shared memory has sessions
        try:
            record = await store_session(
                connection.user(scope),
                id=id,
                uid=platform_uuid.new_uuid(),
                now=now,
                expires_at=expires_at,
                display_name=display_name,
                labels=labels,
                owner=owner,
                **session_codec.split_state(state or {}),
            )
        except errors.ConstraintViolated as error:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from error
        return session_codec.decode_session(record, app_name)

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session with merged state and the selected events in append order, or None."""
        config = config or GetSessionConfig()
        record = await fetch_session(
            (await self._connect(app_name)).user(Scope(app_name, user_id)),
            id=(session_id or "").strip(),
            now=platform_time.get_time(),
            recent=config.num_recent_events,
            after=config.after_timestamp,
        )
        return session_codec.decode_session(record, app_name) if record else None

    @override
    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        newest_first: bool = False,
        include_state: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> ListNamedSessionsResponse:
        """List sessions without their events, least recently active first, ties by user and id.

        Args:
            app_name: the app.
            user_id: only this user's sessions; None for all users.
            limit: maximum number of sessions.
            after: the last session id of the previous page.
            newest_first: most recently active first instead.
            include_state: False omits the states, which is faster if they are large.
            labels: only sessions with all of these labels.

        Raises:
            InputValidationError: ``after`` matches no session, or sessions of several users; or ``limit`` is negative.
        """
        check_flags(newest_first=newest_first, include_state=include_state)
        try:
            records = await fetch_sessions(
                await self._connect(app_name),
                app_name,
                user_id,
                now=platform_time.get_time(),
                limit=_check_limit(limit),
                after=after,
                newest_first=newest_first,
                include_state=include_state,
                labels=labels,
            )
        except LookupError as error:
            raise InputValidationError(str(error)) from error
        sessions = [session_codec.decode_session(record, app_name) for record in records]
        return ListNamedSessionsResponse(sessions=sessions, display_names=[record.display_name for record in records])

    async def list_events(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        after_seq: int | None = None,
        after_timestamp: float | None = None,
        limit: int | None = None,
    ) -> ListEventsResponse:
        """Return a page of a session's events, oldest first; an unknown session has none.

        Args:
            app_name: the app.
            user_id: the user.
            session_id: the session.
            after_seq: the ``last_seq`` of the previous page.
            after_timestamp: only events at this time (epoch seconds) or later.
            limit: maximum number of events.
        """
        bodies, seqs = await fetch_events(
            (await self._connect(app_name)).user(Scope(app_name, user_id)),
            id=(session_id or "").strip(),
            now=platform_time.get_time(),
            after_seq=after_seq,
            after=after_timestamp,
            limit=_check_limit(limit),
        )
        return ListEventsResponse(
            [session_codec.decode_event(body) for body in bodies], seqs[-1] if seqs else after_seq
        )

    @override
    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str, forget_memory: bool = False
    ) -> None:
        """Delete a session and its events; app and user state stay, and an unknown session is ignored.

        Args:
            app_name: the app.
            user_id: the user.
            session_id: the session; its id can be reused at once.
            forget_memory: also delete the session from memory, with the facts that only it supports. Otherwise the
                text of its remembered events stays as their evidence, without payload.
        """
        check_flags(forget_memory=forget_memory)
        connection, scope, id = await self._connect(app_name), Scope(app_name, user_id), (session_id or "").strip()
        if forget_memory:  # first: what is interrupted here is done again by the next attempt
            from adk_graph_memory.memory.rewriting import Rewriter  # sessions alone load no memory

            await Rewriter(connection.user(scope)).erase_session(id)
        await remove_session(connection.user(scope), id=id, now=platform_time.get_time())

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state, its keys without ``user:``; empty if there is none."""
        return await fetch_user_state((await self._connect(app_name)).user(Scope(app_name, user_id)))

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event and its state delta in one transaction, whose cost does not grow with the session.

        Raises:
            SessionNotFoundError: the session does not exist, or no longer exists.
            StaleSessionError: another writer has appended since this session object was loaded; load it again.
            AlreadyExistsError: the session holds another event with this id. An equal one is accepted silently.
            errors.SessionClosed: the session was closed.
        """
        return await self._store_event(session, event, drop=())

    async def delete_state_keys(self, session: Session, keys: Iterable[str]) -> Event:
        """Remove keys from the state with a separate event; a state delta of None would only set them to null.

        Args:
            session: the session; the object's state changes as well.
            keys: the keys, with their ``app:`` or ``user:`` prefix.
        """
        keys = list(keys)
        event = Event(
            invocation_id=platform_uuid.new_uuid(),
            author="system",
            actions=EventActions(state_delta=dict.fromkeys(keys)),
        )
        await self._store_event(session, event, drop=keys)
        for key in keys:
            session.state.pop(key, None)
        return event

    async def _store_event(self, session: Session, event: Event, drop: Sequence[str]) -> Event:
        if event.partial:
            return event
        connection = await self._connect(session.app_name)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        async with connection.locks.hold_lock((session.app_name, session.user_id, session.id)):
            uid, revision = session_codec.get_revision_marker(session)
            result = await store_event(
                connection.user(Scope(session.app_name, session.user_id)),
                session_id=session.id,
                event=session_codec.encode_event(event),
                uid=uid,
                revision=revision,
                last_update_time=session.last_update_time,
                last_event_id=session.events[-1].id if session.events else "",
                now=platform_time.get_time(),
                **session_codec.split_state(event.actions.state_delta, drop),
            )
            if result is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if _is_new_event(session, event, result):
                session_codec.set_revision_marker(session, result.uid, result.revision)
                session.last_update_time = event.timestamp
                self._commit_event_to_session(session, event)
        return event

    async def close_session(self, session: Session) -> None:
        """Close a session: it stays readable and accepts no more events.

        Raises:
            SessionNotFoundError: the session does not exist.
        """
        scope, now = Scope(session.app_name, session.user_id), platform_time.get_time()
        result = await mark_session_closed((await self._connect(session.app_name)).user(scope), id=session.id, now=now)
        if result is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        for callback in self.on_close_session:
            callback(session)


def _is_new_event(session: Session, event: Event, result: AppendResult) -> bool:
    """Whether the session object lacks the event; raise the contract's error if the append was refused.

    A repeated event was either delivered twice, or it is ours and the acknowledgement was lost. In the second case it
    follows the revision that this object was loaded with.
    """
    if result.outcome == "new":
        return True
    if result.outcome == "repeated":
        _, revision = session_codec.get_revision_marker(session)
        follows = result.revision == (result.latest_revision if revision is None else revision + 1)
        return follows and all(own_event.id != event.id for own_event in session.events)
    if result.outcome == "stale":
        raise StaleSessionError(
            f"Session {session.id} has been modified in storage since it was loaded. Reload it before appending."
        )
    if result.outcome == "taken":
        raise AlreadyExistsError(f"Session {session.id} holds another event with id {event.id}.")
    closed_at = datetime.fromtimestamp(result.closed_at or 0.0, UTC).isoformat(timespec="seconds")
    raise errors.SessionClosed(session_id=session.id, closed_at=closed_at)


def _check_limit(limit: int | None) -> int | None:
    if limit is not None and limit < 0:
        raise InputValidationError(f"limit={limit} is negative.")
    return limit
