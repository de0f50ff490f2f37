"""What the graph holds that an extraction may be about, and everything that one ingest changes in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from adk_graph_memory.records.dates import Precision, make_date_key
from adk_graph_memory.records.extraction_result import Modality, Remark, Source
from adk_graph_memory.records.text_keys import digest, fold_text

FactOperation = Literal["ADD", "REINFORCE", "REFINE", "SUPERSEDE", "RETRACT", "ALREADY_KNOWN"]
RevisionOperation = Literal[FactOperation, "REOPEN"]
FactState = Literal["current", "superseded", "retracted"]

STATES_PREDICATE = "states"
"""The predicate of what is kept in its speaker's own words: there the words are what is said, not the object."""

_LONG_NUMBER_DIGITS = 5
"""Digits from which on a number says all, like a telephone number, however it is worded."""
_NUMERAL_PATTERN = re.compile(r"\d+(?:[.,:/\-]\d+)*")


@dataclass(frozen=True, slots=True)
class Proposition:
    """What is said to be so, apart from who supports it; subject and object are keys of entities."""

    text: str
    predicate: str
    subject: str | None
    object: str | None
    at: datetime
    speaker: str | None = None
    modality: Modality = "asserted"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    topic: str = ""
    is_correction: bool = False
    is_functional: bool = False
    """whether its subject has one value at a time under this predicate"""
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None

    @property
    def comparison_text(self) -> str:
        """The text as it is compared."""
        return fold_text(self.text).rstrip(".!。！ ")

    @property
    def value(self) -> str:
        """What it says of its subject under its predicate: the other entity, a long number, or else the words."""
        if self.predicate == STATES_PREDICATE:
            return self.comparison_text
        if self.object is not None:
            return self.object
        return self.numerals if sum(map(str.isdigit, self.numerals)) >= _LONG_NUMBER_DIGITS else self.comparison_text

    @property
    def numerals(self) -> str:
        """The numbers in it: facts that differ in one are two, however alike their words are."""
        return " ".join(sorted(_NUMERAL_PATTERN.findall(unicodedata.normalize("NFKC", self.text))))

    @property
    def signature(self) -> str:
        """Two propositions of one signature say the same: subject, predicate, words, modality and dates agree.

        Of what there is one at a time the value and the numbers have to agree, the words need not. Elsewhere they
        do: "plans to move to Vigo" and "plans to look for work in Vigo" have all the rest in common.
        """
        dates = "/".join(make_date_key(when) if when else "" for when in (self.valid_from, self.valid_to))
        said = f"{self.value} {self.numerals}" if self.is_functional else f"{self.object or ''} {self.comparison_text}"
        return digest("fact", self.subject or "", self.predicate, said, self.modality, dates)


# -- graph → consolidation --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """An entity that the graph holds already; ``merged`` are the keys of those that were found to be this one."""

    key: str
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    about: str = ""
    merged_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a fact still holds, and until when it did."""

    state: FactState = "current"
    valid_to: datetime | None = None
    valid_to_precision: Precision | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FactLink:
    """One fact ended (``SUPERSEDE``) or unmade (``RETRACT``) another: ids, and a model's reason; none if by rule.

    One that ``is_void`` would have, but was a plan that was called off.
    """

    later: str
    earlier: str
    op: FactOperation
    reason: str = ""
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact that the graph holds already, with all the words it rests on.

    ``absorbed`` are signatures of other wordings that were found to say the same; ``was`` are the keys of whom subject
    and object were before they were merged into another. ``is_complete`` says that all facts
    which ended it, or which it ended, are known too; of another one the standing cannot be told anew.
    """

    id: str
    proposition: Proposition
    sources: tuple[Source, ...] = ()
    standing: Standing = Standing()
    equivalent_signatures: tuple[str, ...] = ()
    is_history_complete: bool = True
    former_entity_keys: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the graph holds that an extraction may be about.

    ``near`` names for a text the facts that mean something alike (by their vectors): they are worth a look, no more;
    ``around`` those last heard of anybody whom it names; ``dependencies`` are as a plan's. A source of an earlier
    ingest has its turn's memory id for ``turn_id``.
    """

    entities: tuple[KnownEntity, ...] = ()
    facts: tuple[KnownFact, ...] = ()
    links: tuple[FactLink, ...] = ()
    similar_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recent_ids: tuple[str, ...] = ()
    forgotten_quotes: frozenset[tuple[str, str]] = frozenset()
    """turn id and quote key of words that no fact may be made of again"""
    dependencies: tuple[tuple[str, str], ...] = ()


# -- consolidation → graph --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedEntity:
    """An entity to be created, or to be given further aliases.

    ``absorbs`` are keys of others that turned out to be this one; ``parts_from`` is the key of the one that it had been
    taken for, where it is somebody of its own again.
    """

    key: str
    name: str
    type: str
    aliases: tuple[str, ...]
    is_new: bool
    about: str = ""
    merged_keys: tuple[str, ...] = ()
    split_from: str = ""


@dataclass(frozen=True, slots=True)
class EntityDoubt:
    """An extracted entity and the entities that it may be the same as, which no rule may decide.

    ``quotes`` are words that name it, where the reply took it for one of them under a name that this one has not borne.
    """

    ref: int
    candidate_keys: tuple[str, ...]
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityResolution:
    """Which entity each reference of an extraction means; one in doubt stands as somebody new until it is decided."""

    keys_by_ref: Mapping[int, str] = field(default_factory=dict)
    planned_entities: tuple[PlannedEntity, ...] = ()
    doubts: tuple[EntityDoubt, ...] = ()

    @property
    def merge_targets(self) -> dict[str, str]:
        """The key of each known entity that turned out to be another → the key of that one."""
        return {gone: planned.key for planned in self.planned_entities for gone in planned.merged_keys}


@dataclass(frozen=True, slots=True)
class PlannedFact:
    """A fact as it shall be: new, or one of the graph's that changes.

    ``sources`` are those to be added, ``moved`` those that another fact has taken over.
    """

    id: str
    proposition: Proposition
    is_new: bool = True
    is_reworded: bool = False
    sources: tuple[Source, ...] = ()
    moved_sources: tuple[Source, ...] = ()
    standing: Standing = Standing()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_direct: bool = False
    """told to memory itself rather than said in a session"""


@dataclass(frozen=True, slots=True)
class PlannedRevision:
    """What a fact was, or another wording that it took in, and why it is no longer so."""

    fact_id: str
    op: RevisionOperation
    text: str
    signature: str
    standing: Standing
    reason: str
    evidence: tuple[Source, ...] = ()
    """the words that speak for the change"""
    is_by_model: bool = False


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Everything that one ingest changes in the graph: pure data, applied in one transaction."""

    entities: tuple[PlannedEntity, ...] = ()
    facts: tuple[PlannedFact, ...] = ()
    revisions: tuple[PlannedRevision, ...] = ()
    links: tuple[FactLink, ...] = ()
    dependencies: tuple[tuple[str, str], ...] = ()
    """id of a fact, and of one without which it would not hold"""
    mentions: tuple[tuple[str, str], ...] = ()
    remarks: tuple[Remark, ...] = ()
    forget_turn_ids: tuple[str, ...] = ()
    """ids of turns that their author asked not to be remembered"""
    drop_counts: Mapping[str, int] = field(default_factory=dict)
    operation_counts: Mapping[str, int] = field(default_factory=dict)
