"""A user goes in; what memory knows of them comes out, page by page: facts, and whom and what they speak of."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from typing import Any

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import fact_rows
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.language.zones import restore_datetime
from adk_graph_memory.records import Scope, StoredEntity, StoredFact


async def fetch_facts(
    connection: Connection,
    scope: Scope,
    *,
    now: datetime,
    about: str | None = None,
    past: bool = False,
    limit: int,
    after: str | None = None,
) -> list[StoredFact]:
    """The user's facts, the newest first.

    Args:
        connection: a prepared connection.
        scope: whose memory it is.
        now: what is so at this time is so.
        about: only facts about whom or what is called so, or has this key.
        past: also what ended, was retracted or is stale; what happened once, or was planned, is listed in any case.
        limit: at most so many.
        after: the id of the last fact of the page before.

    Raises:
        errors.NotFound: ``after`` names no fact of this user.
    """
    found = await connection.run_statement(
        "facts",
        scope=scope.key,
        now=now,
        about=_normalize_name(about),
        all=past,
        limit=limit,
        after=await _fetch_page_start(connection, "fact_place", after, scope=scope.key, id=after),
    )
    return [_read_stored_fact(row, now) for row in found]


def _read_stored_fact(row: Record, now: datetime) -> StoredFact:
    when = fact_rows.read_validity(row)
    status = when.compute_status(now)
    return StoredFact(
        id=row["id"],
        text=row["text"],
        subject=row["subject"],
        predicate=row["predicate"],
        object=row["object"],
        modality=row["modality"],
        topic=row["topic"] or None,
        author=row["author"],
        at=restore_datetime(row["timestamp"], row["offset"]),
        valid_from=when.valid_from,
        valid_to=when.valid_to,
        state=row["state"],
        is_stale=when.is_stale,
        holds=row["holds"] and status != "lapsed",
        status=status,
        valid_from_precision=when.valid_from_precision,
        valid_to_precision=when.valid_to_precision,
        sources=tuple(map(fact_rows.read_source, row["sources"])),
    )


async def fetch_entities(
    connection: Connection,
    scope: Scope,
    *,
    now: datetime,
    type: str | None = None,
    limit: int,
    after: str | None = None,
) -> list[StoredEntity]:
    """Whom and what the user's memory knows, that of most facts first; of those found to be one, the one.

    Args:
        connection: a prepared connection.
        scope: whose memory it is.
        now: facts count that are so at this time.
        type: only of this kind: ``person``, ``place`` …
        limit: at most so many.
        after: the key of the last entity of the page before.

    Raises:
        errors.NotFound: ``after`` names no entity of this user.
    """
    asked = {"scope": scope.key, "now": now}
    place = await _fetch_page_start(connection, "entity_place", after, key=after, **asked)
    found = await connection.run_statement("entities", asked, type=_normalize_name(type), limit=limit, after=place)
    return [
        StoredEntity(row["key"], row["name"], row["type"], tuple(row["aliases"]), row["about"] or "", row["facts"])
        for row in found
    ]


async def is_known_user(connection: Connection, scope: Scope) -> bool:
    """Whether anything was ever stored of this user."""
    return bool(await connection.run_statement("get_user_state", scope=scope.key))


async def _fetch_page_start(
    connection: Connection, name: str, after: str | None, **asked: Any
) -> dict[str, Any] | None:
    """Where a page begins."""
    if after is None:
        return None
    if found := await connection.run_statement(name, **asked):
        return dict(found[0])
    raise errors.NotFound(what=f"place {after!r} in this list", where="the last id of the page before")


def _normalize_name(name: str | None) -> str | None:
    """In Unicode's NFC, as names are stored."""
    return name and unicodedata.normalize("NFC", name)
