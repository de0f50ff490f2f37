"""What a page shows of a user's memory: a fact, an entity, a session, each with what lies around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from adk_graph_memory.records.extractions import Manner
from adk_graph_memory.records.facts import FactState
from adk_graph_memory.records.results import StoredEntity, StoredFact
from adk_graph_memory.records.turns import MemoryKind, Origin, Role, ShownPart


@dataclass(frozen=True, slots=True)
class FactReference:
    """A fact by its id and text."""

    id: str
    text: str
    state: FactState


@dataclass(frozen=True, slots=True)
class FactSuccession:
    """A fact that another one ended, or would have ended (``is_void``), and why."""

    fact: FactReference
    op: str
    reason: str
    is_void: bool


@dataclass(frozen=True, slots=True)
class FactQuote:
    """The words ``turn.text[start:end]`` that a fact rests on."""

    fact: FactReference
    quote: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class InspectedTurn:
    """A turn, and the facts that rest on it, if they were asked for; ``memory_id`` is None until it is remembered."""

    id: str
    memory_id: str | None
    session_id: str
    seq: int
    author: str
    role: Role
    origin: Origin | None
    text: str
    at: datetime
    manner: Manner | None = None
    writer: str | None = None
    ingest_id: str | None = None
    shown: tuple[ShownPart, ...] = ()
    quotes: tuple[FactQuote, ...] = ()


@dataclass(frozen=True, slots=True)
class RevisionEntry:
    """What a fact said before a change, and who decided the change, why, and on which words."""

    key: str
    op: str
    reason: str
    by: str
    text: str
    state: FactState
    at: datetime | None
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InspectedFact:
    """A fact with the conversation around its words, what ended it or rests on it, and what it said before.

    A fact that is ``is_direct`` was added as it is and has no words behind it.
    """

    fact: StoredFact
    turns: tuple[InspectedTurn, ...]
    """those that it rests on and those around them, in the order in which they were said"""
    extractor: str
    recorded_at: datetime | None
    is_direct: bool
    replaced: tuple[FactSuccession, ...]
    replaced_by: tuple[FactSuccession, ...]
    bases: tuple[FactReference, ...]
    dependents: tuple[FactReference, ...]
    revisions: tuple[RevisionEntry, ...]
    counts: Mapping[str, int]
    """how many there are on all pages of ``turn_ids`` (that it rests on), ``replaced``, ``revisions`` and so on"""
    ruling_reason: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NameSource:
    """A name of an entity and the first turn that says it; None if no turn that is remembered does."""

    name: str
    turn: InspectedTurn | None


@dataclass(frozen=True, slots=True)
class MergedEntity:
    """An entity that turned out to be another one: when, by whom and why."""

    key: str
    name: str
    at: datetime | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class InspectedEntity:
    """An entity with its names, a page of the facts about it, and those between it and the others that these name."""

    entity: StoredEntity
    names: tuple[NameSource, ...]
    merged: tuple[MergedEntity, ...]
    facts: tuple[StoredFact, ...]
    neighbours: tuple[StoredEntity, ...]
    links: tuple[StoredFact, ...]
    fact_count: int
    """the number of all facts about it, ended ones too"""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session: how many events it has, how often facts rest on them, and when the latest was said."""

    id: str
    name: str
    events: int
    supports: int
    at: datetime
    uids: tuple[str, ...]
    """its generated keys; a session that was deleted and made again has several"""


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """How one memory led to another: by the entities that both are about."""

    source_id: str
    kind: MemoryKind
    text: str
    session_id: str
    turn_id: str
    """its session and its id there, if it is a turn"""
    entities: tuple[tuple[str, str], ...]
    """keys and names"""
