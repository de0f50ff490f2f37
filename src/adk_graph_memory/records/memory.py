"""What a user's readings make of the graph: entities, facts with their history, and what links them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from adk_graph_memory.records.facts import Fact, FactLink
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.turns import Origin

FactPair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DerivedEntity:
    """An entity, and the key of the one that it was merged into, if any, by whom and why.

    ``own_names`` and ``foreign_names`` are as in :class:`~.write_plan.KnownEntity`.
    """

    key: str
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    about: str = ""
    merged_into: str | None = None
    merged_by: str = ""
    merge_reason: str = ""
    own_names: tuple[str, ...] = ()
    foreign_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedLink:
    """A link between facts, and when it was recorded first."""

    link: FactLink
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class DerivedMemory:
    """All that a user's readings make of the graph; facts and entities by their ids and keys.

    ``mentions`` maps (turn id, entity key) to the key of the entity that was meant before it was merged.
    """

    entities: dict[str, DerivedEntity] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    links: dict[FactPair, DerivedLink] = field(default_factory=dict)
    dependencies: set[FactPair] = field(default_factory=set)
    mentions: dict[tuple[str, str], str | None] = field(default_factory=dict)
    entity_keys: dict[tuple[str, int], str] = field(default_factory=dict)
    """(id of a reading, reference of an entity in it) → key that it got then"""


@dataclass(frozen=True, slots=True)
class RecordedMemory:
    """What memory had recorded at a time, without what was forgotten, undone or has expired since.

    ``statement_ids`` are the memory ids of the statements that had been added, ``stale_ids`` those of stale facts.
    """

    at: datetime
    readings: tuple[Reading, ...]
    statement_ids: frozenset[str]
    derived: DerivedMemory
    stale_ids: frozenset[str] = frozenset()

    @property
    def heard_turn_ids(self) -> frozenset[str]:
        """The ids of all turns that had been read."""
        return frozenset(id for reading in self.readings for id in reading.heard_turn_ids)


class RevisionContent(NamedTuple):
    """What a revision says beside what its key covers: why, and on which words (turn id and quote key) it rests."""

    reason: str
    evidence: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """What the graph holds beside words; as in :class:`DerivedMemory`, with revisions by their fact's id and their key.

    ``origins`` are those that the facts carry.
    """

    entities: dict[str, DerivedEntity] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    revisions: dict[tuple[str, str], RevisionContent] = field(default_factory=dict)
    links: dict[FactPair, FactLink] = field(default_factory=dict)
    dependencies: frozenset[FactPair] = frozenset()
    origins: dict[str, Origin | None] = field(default_factory=dict)
    mentions: dict[tuple[str, str], str | None] = field(default_factory=dict)
