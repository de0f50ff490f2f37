"""Store, fetch, list and delete sessions and their events as plain data, without ADK types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import json_map
from adk_graph_memory.graph.append_queue import AppendResult
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import make_memory_id

NO_LIMIT = 2**31 - 1


class StoredSession(NamedTuple):
    """A session as stored: its three states, and the bodies of its events in append order.

    A tuple, because a listing makes hundreds of them and a frozen dataclass takes four times as long.
    """

    id: str
    uid: str
    user_id: str
    revision: int
    last_update_time: float
    session_state: dict[str, Any]
    app_state: dict[str, Any]
    user_state: dict[str, Any]
    event_bodies: Sequence[str] = ()
    display_name: str | None = None
    """only in listings"""


async def store_session(
    graph: UserGraph,
    *,
    id: str,
    uid: str,
    now: float,
    app: JsonMapDelta,
    user: JsonMapDelta,
    session: JsonMapDelta,
    expires_at: float | None = None,
    display_name: str | None = None,
    labels: Mapping[str, str] | None = None,
    owner: str | None = None,
) -> StoredSession:
    """Store a new session; an expired one with the same id is deleted first.

    Raises:
        errors.ConstraintViolated: the user has a session with this id.
    """
    parameters = {
        "id": id,
        "uid": uid,
        "now": now,
        "expires_at": expires_at,
        "display_name": display_name,
        "labels": list(JsonMapDelta.from_values(labels or {}).members),
        "owner": owner,
        "app": app.to_parameter(),
        "user": user.to_parameter(),
        "session": session.to_parameter(),
    }
    while True:
        try:
            [row] = await graph.run_statement("create_session", parameters)
        except errors.ConstraintViolated:
            existing = await graph.run_statement("session_uid", parameters)
            if not existing:  # deleted meanwhile
                continue
            if existing[0]["uid"] == uid:  # our own: the acknowledgement was lost
                [row] = await graph.run_statement("session_states", parameters)
            elif existing[0]["expired"]:
                await remove_session(graph, id=id, now=now, only_expired=True)
                continue
            else:
                raise
        app_state, user_state = json_map.parse_json_map(row["app_state"]), json_map.parse_json_map(row["user_state"])
        return StoredSession(
            id, uid, graph.scope.user_id, 0, now, json_map.parse_json_map(session.members), app_state, user_state
        )


async def fetch_session(
    graph: UserGraph,
    *,
    id: str,
    now: float,
    recent: int | None = None,
    after: float | None = None,
) -> StoredSession | None:
    """Fetch a session that has not expired by ``now``, with its events; None if there is none.

    ``after`` keeps events from this time on (inclusive, epoch seconds); ``recent`` keeps the last so many of those.
    """
    rows = await graph.run_statement(
        "get_session",
        id=id,
        now=now,
        after=float("-inf") if after is None else after,
        recent=NO_LIMIT if recent is None or after is not None else recent,
        limit=NO_LIMIT if recent is None else recent,
    )
    if not rows:
        return None
    [row] = rows
    return StoredSession(
        id,
        row["uid"],
        graph.scope.user_id,
        row["revision"],
        row["last_update_time"],
        json_map.parse_json_map(row["state"]),
        json_map.parse_json_map(row["app_state"]),
        json_map.parse_json_map(row["user_state"]),
        row["bodies"][::-1],
    )


async def fetch_events(
    graph: UserGraph,
    *,
    id: str,
    now: float,
    after_seq: int | None = None,
    after: float | None = None,
    limit: int | None = None,
) -> tuple[Sequence[str], Sequence[int]]:
    """Fetch bodies and sequence numbers of events behind ``after_seq``, from ``after`` (inclusive) on, oldest first."""
    rows = await graph.run_statement(
        "list_events",
        id=id,
        now=now,
        after_seq=0 if after_seq is None else after_seq,
        after=float("-inf") if after is None else after,
        limit=NO_LIMIT if limit is None else limit,
    )
    return (rows[0]["bodies"], rows[0]["seqs"]) if rows else ((), ())


async def fetch_sessions(
    connection: Connection,
    app_name: str,
    user_id: str | None,
    *,
    now: float,
    limit: int | None = None,
    after: str | None = None,
    newest_first: bool = False,
    include_state: bool = True,
    labels: Mapping[str, str] | None = None,
) -> list[StoredSession]:
    """List sessions without events, of a user or of the whole app, by their last activity.

    ``after`` is the id of the last session on the previous page; ``labels`` keeps sessions that have all of them.

    Raises:
        LookupError: ``after`` names no session, or sessions of several users; the message says which.
    """
    parameters = {
        "now": now,
        "limit": NO_LIMIT if limit is None else limit,
        "direction": -1 if newest_first else 1,
        "after": None if after is None else await _fetch_position(connection, app_name, user_id, after),
        "include_state": include_state,
        "labels": list(JsonMapDelta.from_values(labels or {}).members),
    }
    if user_id is None:
        [row] = await connection.run_statement("list_sessions_of_app", parameters, app_name=app_name)
    else:
        [row] = await connection.user(Scope(app_name, user_id)).run_statement("list_sessions_of_user", parameters)
    return _read_listed_sessions(row, user_id)


def _read_listed_sessions(row: Record, user_id: str | None) -> list[StoredSession]:
    """Read a listing: of this user, or of users whom the row names."""
    if user_id is None:
        owners, user_members = row["user_ids"], dict(zip(row["users"], row["user_states"], strict=True))
    else:
        owners, user_members = [user_id] * len(row["ids"]), {user_id: row["user_state"]}
    app_members = row["app_state"]
    columns = [row[name] for name in ("ids", "uids", "revisions", "times", "display_names")]
    states = json_map.parse_json_maps([joined.removeprefix(",") for joined in row["states"]])
    return [
        StoredSession(
            id,
            uid,
            owner,
            revision,
            time,
            session_state,
            json_map.parse_json_map(app_members),
            json_map.parse_json_map(user_members.get(owner)),
            display_name=display_name or None,
        )
        for owner, session_state, id, uid, revision, time, display_name in zip(owners, states, *columns, strict=True)
    ]


async def _fetch_position(connection: Connection, app_name: str, user_id: str | None, id: str) -> dict[str, Any]:
    rows = await connection.run_statement("session_positions", app_name=app_name, id=id)
    positions = [dict(row) for row in rows if user_id is None or row["user_id"] == user_id]
    if len(positions) != 1:
        problem = "no session" if not positions else f"sessions of {len(positions)} users; list one user's"
        raise LookupError(f"after={id!r} names {problem}.")
    return positions[0]


async def store_event(
    graph: UserGraph,
    *,
    session_id: str,
    event: Mapping[str, Any],
    uid: str | None,
    revision: int | None,
    last_update_time: float,
    last_event_id: str,
    now: float,
    app: JsonMapDelta,
    user: JsonMapDelta,
    session: JsonMapDelta,
) -> AppendResult | None:
    """Store an event and its state deltas in one transaction; None if there is no such session.

    Safe to repeat: an event that is stored already is not stored again, nor are its deltas applied again. The caller
    stores no other event in the session meanwhile.
    """
    append = {
        "session_id": session_id,
        "event": event,
        "uid": uid,
        "revision": revision,
        "last_update_time": last_update_time,
        "last_event_id": last_event_id,
        "now": now,
        "app": app.to_parameter(),
        "user": user.to_parameter(),
        "session": session.to_parameter(),
    }
    return await graph.connection.append_queue.store_append(graph.scope, append)


async def fetch_event_ids(graph: UserGraph, *, id: str, now: float) -> tuple[str, int, Sequence[str]] | None:
    """Fetch a session's uid, its revision, and the ids of its events in order; None if there is no such session."""
    rows = await graph.run_statement("list_event_ids", id=id, now=now)
    return (rows[0]["uid"], rows[0]["revision"], rows[0]["ids"]) if rows else None


async def fetch_event_authors(graph: UserGraph, *, prefix: str, now: float) -> dict[str, dict[str, str]]:
    """Fetch the events' ids with their authors, in order, of each session whose id begins with the prefix."""
    rows = await graph.run_statement("list_event_authors", prefix=prefix, now=now)
    return {row["id"]: dict(row["events"]) for row in rows}


async def append_messages(
    graph: UserGraph,
    *,
    session_id: str,
    uid: str,
    revision: int,
    events: Sequence[Mapping[str, Any]],
) -> bool:
    """Append several events in one transaction; False if the session is not at this revision any more.

    What memory holds of an event already, because it was queued before, becomes this event. Safe to repeat.

    Raises:
        errors.SessionClosed: the session was closed.
    """
    rows = await graph.run_statement(
        "append_messages",
        session_id=session_id,
        uid=uid,
        revision=revision,
        events=[{"memory_id": make_memory_id(session_id, event["id"]), "properties": event} for event in events],
    )
    if not rows:
        return False
    if rows[0]["outcome"] == "closed":
        closed_at = datetime.fromtimestamp(rows[0]["closed_at"], UTC).isoformat(timespec="seconds")
        raise errors.SessionClosed(session_id=session_id, closed_at=closed_at)
    return bool(rows[0]["outcome"] != "stale")


async def mark_session_closed(graph: UserGraph, *, id: str, now: float) -> float | None:
    """Mark a session as closed and return since when it is (epoch seconds); None if there is no such session."""
    rows = await graph.run_statement("close_session", id=id, now=now)
    return rows[0]["closed_at"] if rows else None


async def remove_session(
    graph: UserGraph,
    *,
    id: str,
    now: float,
    only_expired: bool = False,
) -> None:
    """Delete a session (``only_expired``: if it has expired) and its events, but no memories."""
    parameters = {"id": id, "now": now, "only_expired": only_expired}
    await graph.run_statement("delete_session", parameters)


async def fetch_user_state(graph: UserGraph) -> dict[str, Any]:
    """Fetch the user's state, keys without prefix."""
    rows: list[Record] = await graph.run_statement("get_user_state")
    return json_map.parse_json_map(rows[0]["user_state"]) if rows else {}
