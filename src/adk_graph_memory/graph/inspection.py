"""Read what a page shows of a user's memory: one fact, one entity or one session, with what lies around it.

A page takes at most six statements, and one more for each 200 entities if it lists those of a name. None of them
derives the memory again: words, revisions and links are stored next to a fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.graph import fact_rows, json_map, listings
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.graph.ingest_queue import read_shown
from adk_graph_memory.language.dates import restore_datetime
from adk_graph_memory.language.spelling import fold_name
from adk_graph_memory.records.inspection import (
    FactQuote,
    FactReference,
    FactSuccession,
    InspectedEntity,
    InspectedFact,
    InspectedTurn,
    MemoryPath,
    MergedEntity,
    NameSource,
    RevisionEntry,
    SessionSummary,
)
from adk_graph_memory.records.results import Recollection, StoredEntity, StoredFact, choose_display_name
from adk_graph_memory.records.scopes import OWNER_NAME
from adk_graph_memory.records.turns import make_memory_id

AROUND_PER_PAGE = 50
"""Turns that a fact rests on, changes of it, and facts of each kind next to it, that a page shows."""
AROUND = ("turn_ids", "replaced", "replaced_by", "bases", "dependents", "revisions")
"""The columns with what lies around a fact."""
TURNS_AROUND = 2
"""Turns shown before and after one that a fact rests on."""
FACTS_PER_PAGE = 200
"""Facts about one entity that a page shows."""
NEIGHBOURS = 59
"""Entities around one entity; with it, a picture of 60 nodes can still be read."""
LINKS = 200
"""Facts between these that a picture shows."""


async def fetch_fact(graph: UserGraph, id: str, *, skip: int = 0, limit: int | None = None) -> InspectedFact:
    """Read a fact with its words, its history and the facts next to it.

    Args:
        graph: the user's graph.
        id: the fact's memory id.
        skip: how many of its turns, its changes and the facts of each kind next to it stand on earlier pages.
        limit: the maximum number of each; None for all.

    Raises:
        errors.NotFound: this user has no such fact.
    """
    facts = await fetch_facts(graph, [id], skip=skip, limit=limit)
    if not facts:
        raise errors.NotFound(what=f"fact {id!r} of this user", where="what a search returns")
    return facts[0]


async def fetch_facts(
    graph: UserGraph, ids: Sequence[str], *, skip: int = 0, limit: int | None = None
) -> list[InspectedFact]:
    """Read several facts, at most 250; those that are not there are left out."""
    now = datetime.now(UTC)
    end = None if limit is None else skip + limit
    rows = [
        {**row, **{name: row[name][skip:end] for name in AROUND}, "counts": {name: len(row[name]) for name in AROUND}}
        for row in await graph.run_statement("inspected_facts", ids=list(ids), now=now)
    ]
    said_ids = sorted({id for row in rows for id in row["turn_ids"]})
    turns: dict[str, list[InspectedTurn]] = {}
    for row in await graph.run_statement("turns_around", ids=said_ids, around=TURNS_AROUND):
        turns.setdefault(row["id"], []).append(_read_turn(row["turn"]))
    facts = await listings.read_listed_facts(graph, [row["fact"] for row in rows], now)
    return [_read_inspected_fact(fact, row, turns) for fact, row in zip(facts, rows, strict=True)]


async def fetch_entity(graph: UserGraph, key: str, *, skip: int = 0, limit: int = FACTS_PER_PAGE) -> InspectedEntity:
    """Read an entity, or the one that it was merged into, with a page of its facts and its neighbours.

    Args:
        graph: the user's graph.
        key: the entity's key.
        skip: how many of its facts, newest first, stand on earlier pages.
        limit: the maximum number of its facts.

    Raises:
        errors.NotFound: this user has no such entity.
    """
    now = datetime.now(UTC)
    rows = await graph.run_statement("inspected_entity", key=key, now=now)
    if not rows:
        raise errors.NotFound(
            what=f"person or thing {key!r} in this user's memory", where="the list of people and things"
        )
    [row] = rows
    entity = fact_rows.read_stored_entity(row)
    page = {"key": entity.key, "skip": skip, "limit": limit, "now": now}
    rows = await graph.run_statement("facts_about", page)
    facts = await listings.read_listed_facts(graph, [row["fact"] for row in rows], now)
    keys = [entity.key, *_choose_neighbours(facts, entity.key)]
    links = {"keys": keys, "limit": LINKS, "now": now}
    linked = [fact_rows.read_stored_fact(row["fact"], now) for row in await graph.run_statement("facts_between", links)]
    others = await graph.run_statement("entities_by_key", keys=keys[1:], now=now)
    return InspectedEntity(
        entity=entity,
        names=tuple(
            NameSource(saying["name"], _read_turn(saying["turn"]) if saying["turn"] else None)
            for saying in row["sayings"]
        ),
        merged=tuple(
            MergedEntity(
                one["key"], one["name"], fact_rows.convert_datetime(one["at"]), one["by"] or "", one["reason"] or ""
            )
            for one in row["merged"]
        ),
        facts=tuple(facts),
        neighbours=tuple(map(fact_rows.read_stored_entity, others)),
        links=tuple(linked),
        fact_count=row["degree"],
    )


async def find_owner_name(graph: UserGraph, key: str) -> str:
    """Find what a page calls the owner of a memory, given their entity's key: ``user`` as long as no name is known."""
    rows = await graph.run_statement("names_of_entity", key=key)
    return next((choose_display_name(row["name"], row["aliases"]) for row in rows), OWNER_NAME)


async def fetch_entities(graph: UserGraph, *, text: str | None = None, skip: int = 0, limit: int) -> list[StoredEntity]:
    """List the entities with a name that contains ``text`` in any spelling, or all, those with most facts first."""
    keys: list[str] | None = None
    if part := fold_name(text or ""):
        names = {row["key"]: (row["name"], *row["aliases"]) async for row in listings.iterate_names(graph)}
        keys = [key for key in names if any(part in fold_name(name) for name in names[key])]
    page = {"keys": keys, "skip": skip, "limit": limit, "now": datetime.now(UTC)}
    return [fact_rows.read_stored_entity(row) for row in await graph.run_statement("inspected_entities", page)]


async def fetch_sessions(graph: UserGraph, *, skip: int = 0, limit: int) -> list[SessionSummary]:
    """List the sessions of the user, and those that memory alone still knows, the latest first."""
    page = {"skip": skip, "limit": limit, "now": datetime.now(UTC).timestamp()}
    return [
        SessionSummary(
            row["id"],
            row["display_name"] or row["id"],
            row["events"],
            row["supports"],
            datetime.fromtimestamp(row["last_time"], UTC),
            tuple(row["uids"]),
        )
        for row in await graph.run_statement("session_summaries", page)
    ]


async def fetch_session_turns(
    graph: UserGraph,
    session_id: str,
    *,
    skip: int = 0,
    limit: int,
    uids: Sequence[str] | None = None,
) -> list[InspectedTurn]:
    """List the turns of a session that say something, with the facts that rest on each; of no session none.

    Args:
        graph: the user's graph.
        session_id: the session.
        skip: how many turns stand on earlier pages.
        limit: the maximum number of turns.
        uids: the session's generated keys, if a summary of it is at hand; they spare a look through all turns.
    """
    now = datetime.now(UTC).timestamp()
    page = {"session_id": session_id, "skip": skip, "limit": limit, "uids": uids, "now": now}
    rows = await graph.run_statement("session_turns", page)
    return [_read_turn(row["turn"], row["facts"]) for row in rows]


async def find_turn_place(graph: UserGraph, session_id: str, turn_id: str) -> int:
    """Count the turns of a session before one of them; 0 if it has no such turn."""
    ids = {"session_id": session_id, "turn_id": turn_id, "memory_id": make_memory_id(session_id, turn_id)}
    rows = await graph.run_statement("turn_place", ids)
    return rows[0]["place"] if rows else 0


async def fetch_paths(graph: UserGraph, memories: Iterable[Recollection]) -> dict[tuple[str, str], MemoryPath]:
    """Read what each memory has in common with those that led to it, by the ids of both."""
    pairs = {(memory.id, share.through) for memory in memories for share in memory.shares if share.through}
    if not pairs:
        return {}
    rows = await graph.run_statement("shared_entities", pairs=sorted(map(list, pairs)))
    paths = {}
    for row in rows:
        id, through = row["pair"]
        entities = tuple((entity["key"], entity["name"]) for entity in row["entities"])
        path = MemoryPath(through, row["kind"], row["text"], row["session_id"] or "", row["turn_id"] or "", entities)
        paths[id, through] = path
    return paths


def _choose_neighbours(facts: Iterable[StoredFact], key: str) -> list[str]:
    """Choose the entities that most of the facts connect with this one, as many as a picture can show."""
    counts = Counter(
        other for fact in facts for other in (fact.subject_key, fact.object_key) if other is not None and other != key
    )
    return sorted(counts, key=lambda other: (-counts[other], other))[:NEIGHBOURS]


def _read_inspected_fact(
    fact: StoredFact, row: Mapping[str, Any], turns: Mapping[str, Sequence[InspectedTurn]]
) -> InspectedFact:
    around = {(turn.session_id, turn.id): turn for id in row["turn_ids"] for turn in turns.get(id, ())}
    return InspectedFact(
        fact=fact,
        turns=tuple(sorted(around.values(), key=lambda turn: (turn.at, turn.seq))),
        extractor=row["extractor"] or "",
        recorded_at=fact_rows.convert_datetime(row["recorded_at"]),
        is_direct=bool(row["direct"]),
        replaced=tuple(map(_read_succession, row["replaced"])),
        replaced_by=tuple(map(_read_succession, row["replaced_by"])),
        bases=tuple(map(_read_reference, row["bases"])),
        dependents=tuple(map(_read_reference, row["dependents"])),
        revisions=tuple(map(_read_revision, row["revisions"])),
        counts=row["counts"],
        ruling_reason=row["ruling_reason"] or "",
        metadata=json_map.parse_json_map(row["metadata"]),
    )


def _read_reference(row: Mapping[str, Any]) -> FactReference:
    return FactReference(row["id"], row["text"], row["state"])


def _read_succession(row: Mapping[str, Any]) -> FactSuccession:
    return FactSuccession(_read_reference(row), row["op"] or "", row["reason"] or "", row["is_void"])


def _read_revision(row: Mapping[str, Any]) -> RevisionEntry:
    return RevisionEntry(
        key=row["n"],
        op=row["op"],
        reason=row["reason"] or "",
        by=row["by"] or "",
        text=row["text"],
        state=row["state"],
        at=fact_rows.convert_datetime(row["recorded_at"]),
        quotes=tuple(dict.fromkeys(quote for quote in row["quotes"] if quote)),
    )


def _read_turn(row: Mapping[str, Any], facts: Iterable[Mapping[str, Any]] = ()) -> InspectedTurn:
    return InspectedTurn(
        id=row["id"],
        memory_id=row["memory_id"],
        session_id=row["session_id"],
        seq=row["seq"] or 0,
        author=row["author"],
        role=row["role"] or ("user" if row["author"] == "user" else "model"),  # an event that memory has not read
        origin=row["origin"],
        text=row["text"],
        at=restore_datetime(row["timestamp"], row["offset"]),
        manner=row["manner"],
        writer=row["writer"],
        ingest_id=row["ingest"],
        shown=read_shown(row["shown"]),
        quotes=tuple(FactQuote(_read_reference(fact), fact["quote"], fact["start"], fact["end"]) for fact in facts),
    )
