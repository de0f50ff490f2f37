"""Find which of a user's turns, events and artifacts there were at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from neo4j import Record

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records import Scope
from adk_graph_memory.records.derived_memory import RecordedMemory
from adk_graph_memory.records.portable_rows import NodeKey


@dataclass(frozen=True, slots=True)
class PastPlaces:
    """Which turns memory had read, and which events sessions had; by the keys of their nodes.

    ``turns`` are rows by memory id, ``last_events`` the rows of each session's last event by the session's uid,
    ``next_keys`` says which event follows which, ``version_counts`` how many versions an artifact had.
    """

    turns: Mapping[str, Record]
    heard_keys: Collection[NodeKey]
    session_keys: Collection[NodeKey]
    last_events: Mapping[str, Record]
    next_keys: Mapping[NodeKey, NodeKey]
    version_counts: Mapping[NodeKey, int]


async def fetch_past_places(connection: Connection, scope: Scope, memory: RecordedMemory) -> PastPlaces:
    """Fetch where all events and artifacts of a user are, and choose those that there were.

    Nothing says when an event was stored. So it counts from when it was said, or else from when memory had read it,
    with all that its session has before it.
    """
    rows = await connection.run_statement("exported_event_places", scope=scope.key)
    versions = await connection.run_statement("exported_version_counts", scope=scope.key, at=memory.at.timestamp())
    counts: dict[NodeKey, int] = {(row["session_id"], row["name"]): row["versions"] for row in versions}
    return await asyncio.to_thread(_choose_places, rows, memory, counts)


def _choose_places(rows: Sequence[Record], memory: RecordedMemory, counts: Mapping[NodeKey, int]) -> PastPlaces:
    heard_ids, at = memory.heard_turn_ids, memory.at.timestamp()
    turns = {row["memory_id"]: row for row in rows if row["memory_id"] in heard_ids}
    own_rows = [row for row in rows if row["began"] is not None and row["began"] <= at]
    last_events: dict[str, Record] = {}
    for row in own_rows:
        last = last_events.get(row["session_uid"])
        is_past = row["timestamp"] <= at or row["memory_id"] in turns
        if is_past and (last is None or last["seq"] < row["seq"]):
            last_events[row["session_uid"]] = row
    heard_keys = {read_event_key(row) for row in turns.values()}
    session_keys = {
        read_event_key(row)
        for row in own_rows
        if (last := last_events.get(row["session_uid"])) and row["seq"] <= last["seq"]
    }
    next_keys = _link_events(rows, heard_keys | session_keys)
    return PastPlaces(turns, heard_keys, session_keys, last_events, next_keys, counts)


def read_event_key(row: Record) -> NodeKey:
    """Read the key of an event's node."""
    return row["session_uid"], row["id"]


def _link_events(rows: Sequence[Record], kept_keys: Collection[NodeKey]) -> dict[NodeKey, NodeKey]:
    """Map each event that is kept to the next one that is."""
    following = {read_event_key(row): tuple(row["next"]) for row in rows if row["next"]}
    links: dict[NodeKey, NodeKey] = {}
    for key in kept_keys:
        later = following.get(key)
        while later is not None and later not in kept_keys:
            later = following.get(later)
        if later is not None:
            links[key] = later
    return links
