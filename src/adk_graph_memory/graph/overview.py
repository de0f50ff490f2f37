"""Count, for an operator, what is stored of apps and users and what waits; find what each day cost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records.overview import AppCounts, StoreCounts, UserCounts
from adk_graph_memory.records.scopes import SharedMemory

MAX_COUNTED, USER_WEIGHT = 200_000, 10
"""Sessions and memories in a store up to which they are counted for each app, and as how many each user counts: an
index is read for every one of them, and three are sought for a user.
"""


async def fetch_store_counts(connection: Connection) -> StoreCounts:
    """Fetch how much the database holds; this takes as long in any store."""
    rows = await connection.run_statement("store_counts")
    return StoreCounts(**{row["name"]: row["number"] for row in rows})


async def fetch_apps(connection: Connection, store: StoreCounts, *, limit: int, after: str = "") -> list[AppCounts]:
    """List the apps behind a name, by name; with what is stored of each, unless ``store`` is too large to count."""
    rows = await connection.run_statement("counted_apps", limit=limit, after=after, now=time.time())
    stored: dict[str, dict[str, Any]] = {}
    if rows and USER_WEIGHT * store.users + store.sessions + store.memories <= MAX_COUNTED:
        counted = await connection.run_statement("stored_of_apps", app_names=[row["app_name"] for row in rows])
        stored = {row["app_name"]: dict(row) for row in counted}
    return [AppCounts(**dict(row) | stored.get(row["app_name"], {})) for row in rows]


async def fetch_users(
    connection: Connection, app_name: str, *, limit: int, after: str = "", search: str = ""
) -> list[UserCounts]:
    """List the app's users behind an id whose id contains a text in any case, by id."""
    filters = {"app_name": app_name, "after": after, "search": search}
    rows = await connection.run_statement("counted_users", filters, limit=limit, now=time.time())
    return [_read_user(row) for row in rows]


def _read_user(row: Mapping[str, Any]) -> UserCounts:
    user_id, seconds = SharedMemory.parse(row["user_id"]), row["written_at"]
    written_at = None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    changed = {"user_id": user_id, "is_shared": isinstance(user_id, SharedMemory), "written_at": written_at}
    return UserCounts(**dict(row) | changed)


async def find_owner(connection: Connection, key: str) -> tuple[str, str]:
    """Find the app's name and the user's id that a scope's key stands for.

    Raises:
        errors.NotFound: nobody has this key.
    """
    rows = await connection.run_statement("owner_of_key", key=key)
    if not rows:
        raise errors.NotFound(what=f"user of the key {key!r}", where="the list of an app's users")
    return rows[0]["app_name"], SharedMemory.parse(rows[0]["user_id"])


async def fetch_day_reports(
    connection: Connection, app_name: str, *, limit: int, before: date = date.max
) -> Sequence[Mapping[str, Any]]:
    """List the latest finished requests of an app before a day, by day and extractor: reports, sessions, failures."""
    return await connection.run_statement("day_reports", app_name=app_name, limit=limit, before=before.isoformat())
