"""What the graph holds that an extraction may be about, and everything that one ingest changes in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from adk_graph_memory.records.extraction import Modality, Source


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """An entity that the graph holds already."""

    key: str
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the graph holds that an extraction may be about."""

    entities: tuple[KnownEntity, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """signature → id of the fact that says the same"""
    forgotten: frozenset[tuple[str, str]] = frozenset()
    """turn id and quote key of words that no fact may be made of again"""


@dataclass(frozen=True, slots=True)
class PlannedEntity:
    """An entity to be created, or to be given further aliases."""

    key: str
    name: str
    type: str
    aliases: tuple[str, ...]
    is_new: bool
    about: str = ""


@dataclass(frozen=True, slots=True)
class Doubt:
    """An extracted entity and the entities that it may be the same as, which no rule may decide."""

    ref: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which entity each reference of an extraction means; one in doubt stands as somebody new until it is decided."""

    keys: Mapping[int, str] = field(default_factory=dict)
    planned: tuple[PlannedEntity, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedFact:
    """A fact to be created (``ADD``) or to be given further support (``REINFORCE``)."""

    id: str
    op: Literal["ADD", "REINFORCE"]
    signature: str
    text: str
    predicate: str
    subject: str | None
    object: str | None
    sources: tuple[Source, ...]
    speaker: str | None
    at: datetime
    modality: Modality = "asserted"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    topic: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_direct(self) -> bool:
        """Whether it was told to memory itself rather than said in a session."""
        return not self.sources


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one ingest changes in the graph: pure data, applied in one transaction."""

    entities: tuple[PlannedEntity, ...] = ()
    facts: tuple[PlannedFact, ...] = ()
    mentions: tuple[tuple[str, str], ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
