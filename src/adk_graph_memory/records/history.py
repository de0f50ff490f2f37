"""Why memory holds what it holds, and what guards and agents say before it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from adk_graph_memory import errors
from adk_graph_memory.records.facts import FactState
from adk_graph_memory.records.results import StoredEntity, StoredFact
from adk_graph_memory.records.turns import Origin

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
    """when it was recorded"""
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
    """A fact and what made it so, in the order in which it was recorded."""

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

    Pass ``ingest_id`` to ``undo`` to take it back; it is empty if the change cannot be undone.
    """

    ingest_id: str
    facts: tuple[FactChange, ...]
    entities: tuple[EntityChange, ...]
    turns: int = 0
    """how many turns are forgotten"""
    staying_turns: Mapping[str, str] = field(default_factory=dict)
    """texts by id of the turns that still state a forgotten fact, which stay and still answer questions"""
    copies: int = 0
    """how many turns and statements of shared memories hold copies of what is forgotten, which stay"""


GuardAction = Literal["keep", "hold", "drop"]


@dataclass(frozen=True, slots=True)
class GuardCandidate:
    """A fact, or a statement added directly, that is about to be written."""

    text: str
    """its wording"""
    quotes: tuple[str, ...]
    """the words that it rests on"""
    origin: Origin
    author: str
    """who said it"""
    turn_text: str
    """the whole text of the turns that it rests on"""
    app_name: str
    user_id: str
    subject: str = ""
    """the name of the person or thing it is about"""
    speakers: tuple[tuple[str, ...], ...] = ()
    """the people who speak in this user's turns, each with all their names"""
    pinned_texts: tuple[str, ...] = ()
    """the pinned facts that it would change"""


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """What to do with a fact: keep it, hold it until somebody reviews it, or drop it and only count it."""

    action: GuardAction
    rule: str = "guard"
    reason: str = ""

    def __post_init__(self) -> None:
        if self.action not in get_args(GuardAction):
            raise errors.InvalidArgument(reason=f"a guard can keep, hold or drop a fact, not {self.action!r} it")


@dataclass(frozen=True, slots=True)
class HeldFact:
    """A fact that a guard holds back until somebody releases or rejects it."""

    id: str
    text: str
    quotes: tuple[str, ...]
    author: str
    origin: Origin
    rule: str
    reason: str
    said_at: datetime
    session_id: str


ProposalAction = Literal["correct", "forget"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that an agent proposes. Nothing changes until the owner accepts it.

    ``text`` is what a correction would say; it is empty if the memory is to be forgotten.
    """

    id: str
    action: ProposalAction
    memory_id: str
    memory_text: str
    """what the memory says now"""
    text: str
    reason: str
    by: str
    """the agent"""
    at: datetime
    is_pinned: bool = False
    """whether the owner has pinned the memory"""
