"""List apps, users, and a user's facts, entities and documents, page by page."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from adk_graph_memory import errors
from adk_graph_memory.graph import fact_rows
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.language.dates import restore_datetime
from adk_graph_memory.language.spelling import choose_named, list_named
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.results import (
    AppSummary,
    ProfileCandidate,
    StoredDocument,
    StoredEntity,
    StoredFact,
    UserSummary,
)
from adk_graph_memory.records.scopes import Scope, SharedMemory, check_count, check_text
from adk_graph_memory.records.turns import DOCUMENT_SESSION

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PAGE_SIZE, MAX_NAMESAKES = 200, 50
"""Rows that one statement returns, at most, of a list of any length, and of entities that share a name."""


class _NamedEntity(NamedTuple):
    key: str
    name: str
    aliases: Sequence[str]


class FetchPage(Protocol[T_co]):
    """Fetches a page of a list."""

    def __call__(self, *, limit: int, after: str | None) -> Awaitable[Sequence[T_co]]: ...


async def iterate_pages(
    fetch_page: FetchPage[T], get_cursor: Callable[[T], str], limit: int | None, after: str | None
) -> AsyncIterator[T]:
    """Yield the items of a list, a page at a time, up to ``limit``.

    Raises:
        errors.InvalidArgument: ``limit`` is no number, or ``after`` no text.
    """
    check_page(limit, after)
    while limit is None or limit > 0:
        size = PAGE_SIZE if limit is None else min(limit, PAGE_SIZE)
        page = await fetch_page(limit=size, after=after)
        for item in page:
            yield item
        if len(page) < size:
            return
        after, limit = get_cursor(page[-1]), None if limit is None else limit - size


def check_page(limit: object, after: object) -> None:
    """Refuse what chooses no part of a list; None stands for all of it.

    Raises:
        errors.InvalidArgument: ``limit`` is no number, or ``after`` no text.
    """
    if limit is not None:
        check_count("limit", limit)
    if after is not None:
        check_text("after", after)


async def fetch_facts(
    graph: UserGraph,
    *,
    now: datetime,
    about: Sequence[str] | None = None,
    past: bool = False,
    id: str | None = None,
    limit: int,
    after: str | None = None,
) -> list[StoredFact]:
    """List the user's facts, newest first.

    Args:
        graph: the user's graph.
        now: the time at which facts hold or not.
        about: only facts about the entities with these keys; see :func:`find_named_keys`.
        past: also facts that ended, were retracted or are stale. Past events and plans are listed in any case.
        id: only the fact with this id; with ``past``, whether it holds or not.
        limit: maximum number of facts.
        after: the id of the last fact on the previous page.

    Raises:
        errors.NotFound: ``after`` names no fact of this user.
    """
    rows = await graph.run_statement(
        "facts",
        now=now,
        about=about,
        all=past,
        id=id,
        limit=limit,
        after=await _fetch_page_start(graph, "fact_place", after, id=after),
    )
    return await read_listed_facts(graph, [row["fact"] for row in rows], now)


async def read_listed_facts(graph: UserGraph, rows: Sequence[Mapping[str, Any]], now: datetime) -> list[StoredFact]:
    """Read facts as they are listed; which of them are disputed takes a statement of its own, if any can be."""
    rivals: fact_rows.RivalTexts = {}
    if any(row["single"] for row in rows):
        found = await graph.run_statement("rival_values", now=now)
        rivals = {(row["subject"], row["predicate"]): row["texts"] for row in found}
    return [fact_rows.read_stored_fact(row, now, rivals) for row in rows]


async def fetch_entities(
    graph: UserGraph,
    *,
    now: datetime,
    type: str | None = None,
    name: str | None = None,
    limit: int,
    after: str | None = None,
) -> list[StoredEntity]:
    """List the user's entities, most facts first; merged entities are listed once.

    Args:
        graph: the user's graph.
        now: only facts that hold at this time count.
        type: only entities of this type: ``person``, ``place`` …
        name: only those with this name, alias or key.
        limit: maximum number of entities.
        after: the key of the last entity on the previous page.

    Raises:
        errors.NotFound: ``after`` names no entity of this user.
    """
    start = await _fetch_page_start(graph, "entity_place", after, key=after, now=now)
    names = {"type": _normalize_name(type), "name": _normalize_name(name)}
    rows = await graph.run_statement("entities", now=now, **names, limit=limit, after=start)
    return [fact_rows.read_stored_entity(row) for row in rows]


async def find_named_keys(graph: UserGraph, name: str) -> list[str]:
    """Find the keys of the user's entities with this name, alias or key."""
    for exact in (name, None):  # names are compared without their accents if none is the same
        if rows := [row async for row in iterate_names(graph, exact) if list_named_keys([row], name)]:
            return list_named_keys(rows, name)
    return []


def iterate_names(graph: UserGraph, name: str | None = None) -> AsyncIterator[Mapping[str, Any]]:
    """Yield key, name and aliases of the user's entities with this name, alias or key in any case, or of all."""
    return iterate_pages(
        partial(graph.run_statement, "named_entities", name=name), lambda row: str(row["key"]), None, None
    )


def list_named_keys(rows: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """List the keys of those entities of the statement ``named_entities`` that have this name, alias or key."""
    return [entity.key for entity in list_named([_NamedEntity(**row) for row in rows], name)]


async def find_entity(graph: UserGraph, name: str, *, now: datetime) -> StoredEntity:
    """Find the user's entity of this name, alias or key.

    Raises:
        errors.InvalidArgument: several have this name.
        errors.NotFound: none has; the error names the nearest.
    """
    named = await fetch_entities(graph, now=now, name=name, limit=MAX_NAMESAKES)
    if not named:
        fetch_page = partial(fetch_entities, graph, now=now)
        named = [entity async for entity in iterate_pages(fetch_page, lambda entity: entity.key, None, None)]
    return choose_named(named, _normalize_name(name) or "")


async def fetch_documents(graph: UserGraph, *, limit: int, after: str | None = None) -> list[StoredDocument]:
    """List the user's documents behind the session ``after``, by title.

    Raises:
        errors.NotFound: ``after`` is the session of no document of this user.
    """
    page = {"prefix": DOCUMENT_SESSION, "start": after or "", "limit": limit + (after is not None)}
    rows = await graph.run_statement("documents", page)
    if after is not None:
        if not rows or rows[0]["session_id"] != after:
            raise errors.NotFound(what=f"place {after!r} in this list", where="the last id of the page before")
        del rows[0]
    return [_read_document(**row) for row in rows]


def _read_document(session_id: str, passages: int, author: str, timestamp: float, offset: int | None) -> StoredDocument:
    title = session_id.removeprefix(DOCUMENT_SESSION)
    at = restore_datetime(timestamp, offset)
    return StoredDocument(session_id, title, passages, None if author == title else author, at)


async def fetch_users(
    connection: Connection, app_name: str, *, limit: int, after: str | None = None
) -> list[UserSummary]:
    """List an app's users behind the id ``after``, by id, with counts of what is stored of each."""
    rows = await connection.run_statement("users", app_name=app_name, limit=limit, after=after)
    return [UserSummary(**row.data() | {"user_id": SharedMemory.parse(row["user_id"])}) for row in rows]


async def fetch_apps(connection: Connection, *, limit: int, after: str | None = None) -> list[AppSummary]:
    """List the apps behind the name ``after``, by name, with counts of what is stored of each."""
    rows = await connection.run_statement("apps", limit=limit, after=after)
    return [AppSummary(**row.data()) for row in rows]


async def iterate_owners(connection: Connection, app_name: str | None, user_id: str | None) -> AsyncIterator[Scope]:
    """Yield the users of an app, of an id, or all."""
    after, whose = "", {"app_name": app_name, "user_id": user_id}
    while rows := await connection.run_statement("owners", whose, after=after, limit=PAGE_SIZE):
        for row in rows:
            yield Scope.from_graph(row["app_name"], row["user_id"])
        after = rows[-1]["scope"]


async def count_unfinished(graph: UserGraph) -> tuple[int, int, int]:
    """Count a user's requests that are not read yet, memories without a vector, and turns that no model could read."""
    [row] = await graph.run_statement("unfinished_counts")
    return row["waiting"], row["unembedded"], row["unread"]


async def is_known_owner(connection: Connection, app_name: str | None, user_id: str | None) -> bool:
    """Whether anything was ever stored for the app, for a user of this id, or for this user of the app."""
    return bool(await connection.run_statement("known_owner", app_name=app_name, user_id=user_id))


async def fetch_filling(graph: UserGraph) -> tuple[bool, int]:
    """Whether anybody's memory of this app holds anything, and how many sessions with events the user has."""
    rows = await graph.run_statement("filling")
    return rows[0]["has_memories"], rows[0]["sessions"]


async def _fetch_page_start(graph: UserGraph, name: str, after: str | None, **parameters: Any) -> dict[str, Any] | None:
    if after is None:
        return None
    if rows := await graph.run_statement(name, **parameters):
        return dict(rows[0])
    raise errors.NotFound(what=f"place {after!r} in this list", where="the last id of the page before")


def _normalize_name(name: str | None) -> str | None:
    return name and unicodedata.normalize("NFC", name)  # as names are stored


MAX_FACTS, MAX_FACTS_OF_PREDICATE, MAX_STATEMENTS = 1_000, 25, 100
"""Facts that are read at most: in all, of one predicate, and of those that only repeat words."""


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """The names of those who speak as the user, and the current facts that concern them, without sources."""

    speakers: tuple[str, ...] = ()
    candidates: tuple[ProfileCandidate, ...] = ()


async def fetch_profile_facts(graph: UserGraph, *, now: datetime, modalities: Collection[str]) -> ProfileFacts:
    """Read the facts that hold at ``now`` and concern the user.

    Of more facts of one predicate than a profile could use, those with most support are read, and of these the latest.
    """
    rows = await graph.run_statement(
        "profile_facts",
        now=now,
        modalities=sorted(modalities),
        each=MAX_FACTS_OF_PREDICATE,
        statements=MAX_STATEMENTS,
        most=MAX_FACTS,
    )
    if not rows:
        return ProfileFacts()
    [row] = rows
    rivals: dict[tuple[str | None, str], list[str]] = {}
    for columns in row["facts"]:
        if columns["single"] and columns["modality"] == "asserted" and not columns["object"]:
            rivals.setdefault(((columns["subject"] or {}).get("key"), columns["predicate"]), []).append(columns["text"])
    candidates = []
    for columns in row["facts"]:
        fact = fact_rows.read_stored_fact(columns, now, rivals)
        if fact.holds:
            subject, object = columns["subject"] or {}, columns["object"] or {}
            types = subject.get("type"), object.get("type")
            candidates.append(ProfileCandidate(fact, columns["place"], *types, columns["support"] or 0))
    return ProfileFacts(tuple(row["speakers"]), tuple(candidates))


async def fetch_sources(graph: UserGraph, ids: Collection[str]) -> dict[str, tuple[Source, ...]]:
    """Read the sources of facts, by fact id; a fact without sources is told directly, or was forgotten meanwhile."""
    rows = await graph.run_statement("fact_sources", ids=sorted(ids)) if ids else []
    return {row["id"]: tuple(map(fact_rows.read_source, row["sources"])) for row in rows}
