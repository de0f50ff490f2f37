"""Why memory holds what it holds: every word that speaks for a fact or a name, and every decision about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from adk_graph_memory.records.results import StoredEntity, StoredFact
from adk_graph_memory.records.turns import Origin
from adk_graph_memory.records.write_plan import FactState

HistoryKind = Literal[
    "said",
    "reworded",
    "confirmed",
    "ended",
    "retracted",
    "reopened",
    "replaced",
    "named",
    "merged",
    "kept apart",
    "pinned",
    "unpinned",
    "rolled back",
]
"""``replaced`` is another fact that this one ended; ``confirmed`` is another wording of the same."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One thing that made a fact or an entity what it is."""

    kind: HistoryKind
    text: str
    """the wording, the name, or the fact that ended or was ended"""
    at: datetime | None
    """when memory recorded it"""
    by: str = ""
    """the model and the version of its prompt, or ``rules``"""
    reason: str = ""
    quote: str = ""
    """the words that it rests on"""
    said_at: datetime | None = None
    session_id: str = ""
    source_event_id: str = ""
    """memory id of the turn"""
    ingest_id: str = ""
    """the request that was read, for ``undo``"""
    origin: Origin | None = None
    """whose words they are"""
    revision: str = ""
    """the version before this change, for ``rollback``"""


@dataclass(frozen=True, slots=True)
class FactHistory:
    """A fact and what made it so, in the order in which memory recorded it."""

    fact: StoredFact
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class EntityHistory:
    """A person, place or thing, the facts that hold of it, and where its names come from."""

    entity: StoredEntity
    facts: tuple[StoredFact, ...]
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class FactVersion:
    """What a fact says at one time."""

    text: str
    state: FactState
    valid_from: datetime | None
    valid_to: datetime | None
    is_pinned: bool


@dataclass(frozen=True, slots=True)
class FactChange:
    """A fact before and after a change; ``before`` of a new fact and ``after`` of one that goes are None."""

    id: str
    before: FactVersion | None
    after: FactVersion | None


@dataclass(frozen=True, slots=True)
class EntityChange:
    """All names of an entity before and after a change; the other entity's names come with a merger."""

    key: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """What the owner's word changes, or would change.

    ``ingest_id`` takes it back with ``undo``; it is empty if nothing does.
    """

    ingest_id: str
    facts: tuple[FactChange, ...]
    entities: tuple[EntityChange, ...]
    turns: int = 0
    """how many turns leave memory"""
    staying_turns: Mapping[str, str] = field(default_factory=dict)
    """texts by id of the turns that say what is forgotten as a fact, which stay and still answer questions"""
    copies: int = 0
    """how many turns of shared memories hold copies of forgotten facts, and stay"""
