"""ADK's session contract on a graph: (User)-[:HAS_SESSION]->(Session)-[:HAS_EVENT]->(Event)-[:NEXT]->(Event).

Where this differs from ADK's own services: staleness is an integer revision and never a timestamp, so two stale
writers cannot both win; ``app:`` and ``user:`` state is merged under a lock; events keep the order they came in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

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
from typing_extensions import override

from adk_graph_memory import errors, graph, telemetry
from adk_graph_memory.adk import agent_dotenv, expiry, session_codec
from adk_graph_memory.closing import Closeable
from adk_graph_memory.records import Scope


@dataclass(frozen=True, slots=True)
class ListEventsResponse:
    """A page of a session's events, and the number to pass as ``after_seq`` for the next one."""

    events: list[Event]
    last_seq: int | None


@telemetry.trace_methods
class Neo4jSessionService(Closeable, BaseSessionService):
    """Sessions, events and state in Neo4j.

    Args:
        uri: an address, settings and all (``settings.of_address``); else NEO4J_URI, or ``adk-graph-memory up``'s.
        agents_dir: what ADK's command line passes: the folder of the agents, whose ``.env`` files are read.
        options: as :class:`adk_graph_memory.graph.Connection` takes them.
    """

    def __init__(
        self, uri: str | None = None, *, agents_dir: str | None = None, **options: Unpack[graph.ConnectionOptions]
    ) -> None:
        self._connection, self._agents_dir = graph.Connection(uri, **options), agents_dir
        self._locks = graph.KeyedLocks()
        self.on_close_session: list[Callable[[Session], None]] = []
        """Called with every session that :meth:`close_session` has ended."""

    async def prepare(self) -> None:
        """Connects and makes the schema fit now rather than at the first request."""
        await graph.prepare_connection(self._connection)

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
        """Creates a session; over HTTP the further arguments come in ``POST /sessions {"options": …}``.

        Args:
            app_name: the app.
            user_id: the user; any text.
            state: initial state; ``app:`` and ``user:`` keys go to the app's and the user's state.
            session_id: padding is stripped; one is generated if it is blank or missing.
            ttl: seconds (``3600``, ``"3600s"``) or a timedelta after which the session is as if deleted.
            expire_time: the same as a moment: epoch seconds, ISO 8601 or a datetime.
            display_name: stored on the session.
            labels: ``list_sessions(labels=…)`` filters by them.
            owner: who answers for this user's data; kept on the User node.

        Raises:
            AlreadyExistsError: this user has a session of this id.
            InputValidationError: an id is too long, or the expiry cannot be read.
        """
        connection = await self._connect(app_name)
        now = platform_time.get_time()
        expires_at = expiry.parse_expiry(now, ttl, expire_time)
        id = session_codec.check_id("session_id", (session_id or "").strip() or platform_uuid.new_uuid())
        try:
            stored = await graph.sessions.store_session(
                connection,
                Scope(session_codec.check_id("app_name", app_name), user_id),
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
        return session_codec.decode_session(stored, app_name)

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session with merged state and the chosen events in append order, or None."""
        chosen = config or GetSessionConfig()
        stored = await graph.sessions.fetch_session(
            await self._connect(app_name),
            Scope(app_name, user_id),
            id=(session_id or "").strip(),
            now=platform_time.get_time(),
            recent=chosen.num_recent_events,
            after=chosen.after_timestamp,
        )
        return session_codec.decode_session(stored, app_name) if stored else None

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
    ) -> ListSessionsResponse:
        """Sessions without events, least recently active first, ties by user and id.

        Args:
            app_name: the app.
            user_id: one user's sessions; None for everybody's.
            limit: at most so many.
            after: the last session id of the page before.
            newest_first: most recently active first instead.
            include_state: False leaves the states out, which is faster where they are large.
            labels: only sessions that carry all of these.

        Raises:
            InputValidationError: ``after`` names no session, or those of several users.
        """
        try:
            found = await graph.sessions.fetch_sessions(
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
        return ListSessionsResponse(sessions=[session_codec.decode_session(stored, app_name) for stored in found])

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
        """A page of a session's events, oldest first; an unknown session has none.

        Args:
            app_name: the app.
            user_id: the user.
            session_id: the session.
            after_seq: the ``last_seq`` of the page before.
            after_timestamp: only events of this time (epoch seconds) or later.
            limit: at most so many.
        """
        bodies, seqs = await graph.sessions.fetch_events(
            await self._connect(app_name),
            Scope(app_name, user_id),
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
        """Deletes a session and its events; app and user state stay, an unknown session is no error.

        Args:
            app_name: the app.
            user_id: the user.
            session_id: the session; its id is free again at once.
            forget_memory: also what memory holds of it, and the facts that rested on it alone. Otherwise the
                remembered words stay, without payload, as evidence of those facts.
        """
        await graph.sessions.remove_session(
            await self._connect(app_name),
            Scope(app_name, user_id),
            id=(session_id or "").strip(),
            now=platform_time.get_time(),
            forget_memory=forget_memory,
        )

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The user's state, keys without ``user:``; empty if there is none."""
        return await graph.sessions.fetch_user_state(await self._connect(app_name), Scope(app_name, user_id))

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Stores an event and the state it changes; in one transaction, whose cost does not grow with the session.

        Raises:
            SessionNotFoundError: there is no such session (any more).
            StaleSessionError: others have appended since this session object was loaded; load it again.
            AlreadyExistsError: the session holds another event of this id. An equal one is accepted silently.
            errors.SessionClosed: the session was closed.
        """
        return await self._store_event(session, event, drop=())

    async def delete_state_keys(self, session: Session, keys: Iterable[str]) -> Event:
        """Removes keys from the state for good, as an event of its own (a delta of None only nulls them).

        Args:
            session: the session, whose state is changed as well.
            keys: with ``app:`` or ``user:`` prefix for those states.
        """
        dropped = list(keys)
        event = Event(
            invocation_id=platform_uuid.new_uuid(),
            author="system",
            actions=EventActions(state_delta=dict.fromkeys(dropped)),
        )
        await self._store_event(session, event, drop=dropped)
        for key in dropped:
            session.state.pop(key, None)
        return event

    async def _store_event(self, session: Session, event: Event, drop: Iterable[str]) -> Event:
        if event.partial:
            return event
        connection = await self._connect(session.app_name)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        async with self._locks.hold_lock((session.app_name, session.user_id, session.id)):
            uid, revision = session_codec.get_revision_marker(session)
            appended = await graph.sessions.store_event(
                connection,
                Scope(session.app_name, session.user_id),
                session_id=session.id,
                event=session_codec.encode_event(event),
                uid=uid,
                revision=revision,
                last_update_time=session.last_update_time,
                last_event_id=session.events[-1].id if session.events else "",
                now=platform_time.get_time(),
                **session_codec.split_state(event.actions.state_delta, drop),
            )
            if appended is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if _is_new_event(session, event, appended):
                session_codec.set_revision_marker(session, appended.uid, appended.revision)
                session.last_update_time = event.timestamp
                self._commit_event_to_session(session, event)
        return event

    async def close_session(self, session: Session) -> None:
        """Ends a session: it stays readable and takes no more events.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        scope, now = Scope(session.app_name, session.user_id), platform_time.get_time()
        closed = await graph.sessions.mark_session_closed(
            await self._connect(session.app_name), scope, id=session.id, now=now
        )
        if closed is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        for told in self.on_close_session:
            told(session)

    async def _connect(self, app_name: str) -> graph.Connection:
        agent_dotenv.load_agent_dotenv(self._agents_dir, app_name, self._connection)
        return await graph.prepare_connection(self._connection)

    async def close(self) -> None:
        """Closes the connections this service opened in the running event loop; may be called again."""
        await self._connection.close()


def _is_new_event(session: Session, event: Event, appended: graph.sessions.AppendResult) -> bool:
    """Whether the session object has yet to take the event in; raises what the contract says if it must not.

    An event that is stored already is either delivered again, or was ours and its acknowledgement lost: then it is the
    next one after the revision that this object knows.
    """
    if appended.outcome == "new":
        return True
    if appended.outcome == "repeated":
        _, revision = session_codec.get_revision_marker(session)
        follows = appended.revision == (appended.latest_revision if revision is None else revision + 1)
        return follows and all(known.id != event.id for known in session.events)
    if appended.outcome == "stale":
        raise StaleSessionError(
            f"Session {session.id} has been modified in storage since it was loaded. Reload it before appending."
        )
    if appended.outcome == "taken":
        raise AlreadyExistsError(f"Session {session.id} holds another event with id {event.id}.")
    raise errors.SessionClosed(session_id=session.id, closed_at=_format_timestamp(appended.closed_at))


def _format_timestamp(timestamp: float | None) -> str:
    return datetime.fromtimestamp(timestamp or 0.0, UTC).isoformat(timespec="seconds")


def _check_limit(limit: int | None) -> int | None:
    """The limit as it is.

    Raises:
        InputValidationError: it is negative.
    """
    if limit is not None and limit < 0:
        raise InputValidationError(f"limit={limit} is negative.")
    return limit
