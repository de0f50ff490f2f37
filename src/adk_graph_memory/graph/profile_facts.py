"""Read the current facts that concern a user, and the words that some of them rest on: a statement each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from adk_graph_memory.graph import fact_rows
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records import ProfileCandidate, Scope, Source

MAX_FACTS, MAX_FACTS_OF_PREDICATE, MAX_STATEMENTS = 1_000, 25, 100
"""Facts that are read at most: in all, of one predicate, and of those that only repeat words."""


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """The names of those who speak as the user, and the current facts that concern them, without sources."""

    speakers: tuple[str, ...] = ()
    candidates: tuple[ProfileCandidate, ...] = ()


async def fetch_profile_facts(
    connection: Connection, scope: Scope, *, now: datetime, modalities: Collection[str]
) -> ProfileFacts:
    """Read the facts that hold at ``now`` and concern the user.

    Of more facts of one predicate than a profile could use, those with most support are read, and of these the latest.
    """
    rows = await connection.run_statement(
        "profile_facts",
        scope=scope.key,
        user_id=scope.user_id,
        now=now,
        modalities=sorted(modalities),
        each=MAX_FACTS_OF_PREDICATE,
        statements=MAX_STATEMENTS,
        most=MAX_FACTS,
    )
    if not rows:
        return ProfileFacts()
    [row] = rows
    candidates = (_read_candidate(fact, now) for fact in row["facts"])
    return ProfileFacts(tuple(row["speakers"]), tuple(one for one in candidates if one.fact.holds))


async def fetch_sources(connection: Connection, scope: Scope, ids: Collection[str]) -> dict[str, tuple[Source, ...]]:
    """Read the sources of facts, by fact id; a fact without sources is told directly, or was forgotten meanwhile."""
    rows = await connection.run_statement("fact_sources", scope=scope.key, ids=sorted(ids)) if ids else []
    return {row["id"]: tuple(map(fact_rows.read_source, row["sources"])) for row in rows}


def _read_candidate(row: Mapping[str, Any], now: datetime) -> ProfileCandidate:
    subject, object = row["subject"] or {}, row["object"] or {}
    fact = fact_rows.read_stored_fact(row, now, subject.get("name"), object.get("name"))
    return ProfileCandidate(fact, row["place"], subject.get("type"), object.get("type"), row["support"] or 0)
