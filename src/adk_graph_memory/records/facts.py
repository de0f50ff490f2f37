"""Facts, entities and revisions, what consolidation writes of them, and whether a fact holds at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from adk_graph_memory import errors
from adk_graph_memory.language.dates import (
    Precision,
    compute_date_end,
    compute_latest_end,
    format_english_date,
    infer_precision,
    make_date_key,
)
from adk_graph_memory.language.quantities import NormalText, normalize_quantities
from adk_graph_memory.language.text import cache_short, digest, fold_text
from adk_graph_memory.records.extractions import Modality, Source, Wording
from adk_graph_memory.records.turns import Origin, Passage, check_timezone_aware, find_strongest_origin

FactOperation = Literal["ADD", "REINFORCE", "REFINE", "SUPERSEDE", "RETRACT", "ALREADY_KNOWN"]
RevisionOperation = Literal[FactOperation, "REOPEN"]
FactPair = tuple[str, str]
FactState = Literal["current", "superseded", "retracted"]

STATES_PREDICATE = "states"
"""The predicate of facts kept in the speaker's own words; their value is the text, not the object."""
FAMILIAR_FACTS, RECOGNIZING_FACTS = 50, 2
"""An extractor is offered each known entity with its first facts, unless it has so many that its name says enough."""
_IDENTIFYING = frozenset(
    ("phone", "telephone", "mobile", "cell", "fax", "number", "email", "mail", "iban", "account", "url", "website")
)
"""Words of predicates whose value is a number or an address, whatever is said around it."""


@cache_short
def _normalize_text(text: str) -> NormalText:
    """Fold a text without its final punctuation, and bring its quantities into one form."""
    return normalize_quantities(fold_text(text).rstrip(".!。！ "))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposition(Wording):
    """The content of a fact, without its sources; subject and object are entity keys."""

    subject: str | None
    object: str | None
    at: datetime
    speaker: str | None = None
    is_functional: bool = False
    """whether a subject has only one value at a time for this predicate"""

    def __post_init__(self) -> None:
        if self.valid_from is not None and self.valid_from_precision is None:
            object.__setattr__(self, "valid_from_precision", infer_precision(self.valid_from))
        if self.valid_to is not None and self.valid_to_precision is None:
            object.__setattr__(self, "valid_to_precision", infer_precision(self.valid_to))

    def redate(self, **dates: datetime | None) -> Proposition:
        """Return it with another ``valid_from`` or ``valid_to``, each as precise as it looks."""
        return replace(self, **dates, **dict.fromkeys(f"{name}_precision" for name in dates))  # type: ignore[arg-type]

    @property
    def normal_text(self) -> NormalText:
        """The text folded for comparison, without its final punctuation and with its quantities in normal form."""
        return _normalize_text(self.text)

    @property
    def comparison_text(self) -> str:
        """The text in which two facts are compared: folded, with its quantities in normal form."""
        return self.normal_text.text

    @property
    def value(self) -> str:
        """The value of the predicate: the object, else the text; of a telephone number and the like only that."""
        if self.predicate == STATES_PREDICATE:
            return self.comparison_text
        if self.object is not None:
            return self.object
        normal = self.normal_text
        is_identified = normal.has_identifier and not _IDENTIFYING.isdisjoint(self.predicate.split("_"))
        return normal.format_quantities() if is_identified else normal.text

    def may_have_value_of(self, other: Proposition) -> bool:
        """Whether both name no object and have the same quantities in other words: one salary, or two streets."""
        mine, theirs = self.normal_text, other.normal_text
        has_object = self.object is not None or other.object is not None
        return (
            bool(mine.quantities)
            and not has_object
            and mine.has_quantities_of(theirs)
            and theirs.has_quantities_of(mine)
        )

    def disputes(self, other: Proposition) -> bool:
        """Whether both assert the one value of a predicate, and rules cannot tell if it is the same."""
        mine, theirs = ((one.subject, one.predicate, one.modality, one.is_functional) for one in (self, other))
        is_one_slot = mine == theirs and self.is_functional and self.modality == "asserted"
        return is_one_slot and self.value != other.value and self.may_have_value_of(other)

    @property
    def signature(self) -> str:
        """A digest that is equal for propositions that say the same.

        Subject, predicate, modality and dates have to agree. For functional predicates value and quantities have to
        agree too, for others object and text: "plans to move to Vigo" and "plans to look for work in Vigo" differ
        in the text alone.
        """
        dates = "/".join(make_date_key(date) if date else "" for date in (self.valid_from, self.valid_to))
        content = (
            f"{self.value} {self.normal_text.format_quantities()}"
            if self.is_functional
            else f"{self.object or ''} {self.comparison_text}"
        )
        return digest("fact", self.subject or "", self.predicate, content, self.modality, dates)

    @property
    def wording_key(self) -> str:
        """A digest of what is said, whoever it is said of: entities may turn out to be others."""
        dates = "/".join(make_date_key(date) if date else "" for date in (self.valid_from, self.valid_to))
        return digest("wording", self.predicate, self.comparison_text, self.modality, dates)


# -- graph → consolidation --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """A stored entity.

    ``merged_keys`` are the keys of entities that were merged into it. On the owner's word, ``own_names`` are its names
    and ``foreign_names`` somebody else's; both are folded. ``facts`` are the texts by which a model recognizes it.
    """

    key: str
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    about: str = ""
    merged_keys: tuple[str, ...] = ()
    own_names: tuple[str, ...] = ()
    foreign_names: tuple[str, ...] = ()
    facts: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a fact is current, and when it stopped holding."""

    state: FactState = "current"
    valid_to: datetime | None = None
    valid_to_precision: Precision | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the owner of a memory decided about a fact.

    Nothing that was extracted ends or rewords a pinned fact; nothing that was said until ``upheld_until`` ends an
    upheld one. ``retracted_at`` is when the owner said that it was never true.
    """

    is_pinned: bool = False
    upheld_until: datetime | None = None
    retracted_at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FactLink:
    """The later fact ended (``SUPERSEDE``) or retracted (``RETRACT``) the earlier one; both are fact ids.

    ``reason`` is the judge's; it is empty if a rule decided. A void link has no effect, because the later fact is a
    plan that was called off, or because the owner upholds the earlier one.
    """

    later: str
    earlier: str
    op: FactOperation
    reason: str = ""
    is_void: bool = False
    recorded_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """A proposition with its words, and all that memory knows of it; equal if that is what the graph stores of it.

    ``former_entity_keys`` are the keys of subject and object before those were merged into other entities.
    """

    id: str
    proposition: Proposition
    sources: tuple[Source, ...] = ()
    standing: Standing = Standing()
    equivalent_signatures: tuple[str, ...] = field(default=(), compare=False)
    """signatures of its other wordings"""
    is_history_complete: bool = field(default=True, compare=False)
    """whether all that ended it or that it ended are among the candidates, so that its standing can be recomputed"""
    former_entity_keys: tuple[str | None, str | None] = (None, None)
    ruling: Ruling = Ruling()
    extractor: str = field(default="", compare=False)
    """what read it last"""
    recorded_at: datetime | None = field(default=None, compare=False)
    retired_at: datetime | None = field(default=None, compare=False)
    """since when memory holds that it was never true"""
    revisions: tuple[Revision, ...] = field(default=(), compare=False)
    """its earlier versions, oldest first; the graph's own facts come without"""

    @property
    def origin(self) -> Origin | None:
        """Whose word it is: the strongest origin of its sources."""
        return find_strongest_origin(source.origin for source in self.sources)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the graph stores about the subjects of an extraction.

    ``similar_ids`` maps a text to the ids of facts with similar vectors, ``recent_ids`` are the latest facts about the
    entities that the extraction names; ``dependencies`` are as in a delta. A source of an earlier ingest has its turn's
    memory id as ``turn_id``.
    """

    entities: tuple[KnownEntity, ...] = ()
    facts: tuple[Fact, ...] = ()
    links: tuple[FactLink, ...] = ()
    similar_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recent_ids: tuple[str, ...] = ()
    forgotten_turn_ids: frozenset[str] = frozenset()
    """ids of turns from which something was forgotten: no new fact may be made of them"""
    dependencies: tuple[FactPair, ...] = ()


# -- consolidation → graph --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EntityWrite:
    """An entity to write: as a reading names it, or as it is from now on (``is_whole``).

    ``is_new`` if its name needs a vector: nothing of this key is stored yet, or under another name.
    What a reading says of a known entity is added to it. ``merged_keys`` are the keys of entities to merge into it,
    with all that was said of them; ``split_from`` is the key of the entity into which it was merged by mistake and
    from which it is now separated, with what was its own. A whole entity comes with all its names, and with the key of
    the one that it was merged into, by whom and why; ``own_names`` and ``foreign_names`` are as in
    :class:`KnownEntity`.
    """

    key: str
    name: str
    type: str
    aliases: tuple[str, ...]
    is_new: bool
    about: str = ""
    merged_keys: tuple[str, ...] = ()
    split_from: str = ""
    merge_reason: str = ""
    merged_by: str = ""
    is_whole: bool = False
    merged_into: str | None = None
    own_names: tuple[str, ...] = ()
    foreign_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityDoubt:
    """An extracted entity and the stored entities that it may be the same as; rules cannot decide.

    ``quotes`` are source quotes that name it. They are given if the extractor identified it with a stored entity under
    a name which that entity did not have.
    """

    ref: int
    candidate_keys: tuple[str, ...]
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityResolution:
    """The entity that each reference of an extraction means; an entity in doubt counts as new until it is decided."""

    keys_by_ref: Mapping[int, str] = field(default_factory=dict)
    planned_entities: tuple[EntityWrite, ...] = ()
    doubts: tuple[EntityDoubt, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether each entity is who it seems: none is in doubt, merged or split."""
        return not self.doubts and not any(entity.merged_keys or entity.split_from for entity in self.planned_entities)

    @property
    def merge_targets(self) -> dict[str, str]:
        """For each key of a merged entity, the key of the entity into which it is merged."""
        return {merged_key: entity.key for entity in self.planned_entities for merged_key in entity.merged_keys}


@dataclass(frozen=True, slots=True)
class DirectFact:
    """What a fact that was added directly has besides its proposition; nothing said in a session supports it."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    replaces_metadata: bool = False
    expires_at: datetime | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class FactWrite:
    """A fact as it is from now on, and which of its sources are new or no longer its own."""

    fact: Fact
    is_new: bool = True
    is_reworded: bool = False
    added_sources: tuple[Source, ...] = ()
    removed_sources: tuple[Source, ...] = ()
    direct: DirectFact | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """An earlier version of a fact, or a merged wording: why, when and by whom it was changed."""

    fact_id: str
    op: RevisionOperation
    text: str
    signature: str
    standing: Standing
    reason: str
    evidence: tuple[Source, ...] = ()
    """the source words that support the change"""
    is_by_model: bool = False
    recorded_at: datetime | None = None
    judge: str = ""

    @property
    def key(self) -> str:
        """A digest of the change, so that a repeated one is the same revision."""
        valid_to = self.standing.valid_to
        parts = (self.op, self.text, self.standing.state, valid_to.isoformat() if valid_to else "")
        return digest(*parts, *(source.quote_key for source in self.evidence))


@dataclass(frozen=True, slots=True)
class Erased:
    """What a memory no longer holds: ids of facts and keys of entities, and pairs that name the rest."""

    facts: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    links: tuple[FactPair, ...] = ()
    dependencies: tuple[FactPair, ...] = ()
    mentions: tuple[tuple[str, str], ...] = ()
    """turn id and entity key"""
    revisions: tuple[tuple[str, str], ...] = ()
    """fact id and key of the revision"""

    @property
    def pairs(self) -> dict[str, list[list[str]]]:
        """All that is named by pairs, by its kind."""
        names = ("links", "dependencies", "mentions", "revisions")
        return {name: [list(pair) for pair in getattr(self, name)] for name in names}


@dataclass(frozen=True, slots=True)
class Delta:
    """What turns one state of a memory into another.

    An ingest plans it from what a window says and what is known of that; a rewrite finds it by comparing all that is
    stored with all that follows from the readings.
    """

    entities: tuple[EntityWrite, ...] = ()
    facts: tuple[FactWrite, ...] = ()
    revisions: tuple[Revision, ...] = ()
    links: tuple[FactLink, ...] = ()
    dependencies: tuple[FactPair, ...] = ()
    """pairs of fact ids: a fact, and one without which it would not hold"""
    mentions: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    """(turn id, entity key) → the key of the entity that was meant before it was merged"""
    erased: Erased = Erased()
    operation_counts: Mapping[str, int] = field(default_factory=dict)
    """what became of each claim of a window"""
    drop_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many nodes and edges have to be erased or written."""
        erased = (self.erased.facts, self.erased.entities, *self.erased.pairs.values())
        written = (self.entities, self.facts, self.revisions, self.links, self.dependencies, self.mentions)
        return sum(map(len, (*erased, *written)))

    @property
    def passages(self) -> list[Passage]:
        """The texts that need a vector: new wordings and new names."""
        texts = [write.fact.proposition.text for write in self.facts if write.is_new or write.is_reworded]
        texts += [entity.name for entity in self.entities if entity.is_new]
        return [Passage(text) for text in dict.fromkeys(texts)]


FactStatus = Literal["holds", "planned", "lapsed", "happened", "over"]


@dataclass(frozen=True, slots=True)
class AsOf:
    """A point on the two axes of time: what was true at ``valid``, as on record at ``recorded``; None means now.

    A fact without a start date counts from when it was first said.
    """

    valid: datetime | None = None
    recorded: datetime | None = None

    def __post_init__(self) -> None:
        for moment in (self.valid, self.recorded):
            if moment is not None:
                check_timezone_aware(moment)


def check_as_of(value: object) -> None:
    """Refuse what is no point on the two axes of time.

    Raises:
        errors.InvalidArgument: it is none.
    """
    if not isinstance(value, AsOf):
        raise errors.InvalidArgument(reason=f"as_of={value!r} is no AsOf: give AsOf(valid=…, recorded=…)")


@dataclass(frozen=True, slots=True)
class FactValidity:
    """The stored properties of a fact that say when it holds."""

    modality: Modality | None
    state: FactState | None
    valid_from: datetime | None
    valid_to: datetime | None
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None
    is_stale: bool = False

    def compute_status(self, now: datetime) -> FactStatus:
        """The status of the fact at ``now``, as far as the graph knows.

        A plan lapses when its day is over and no later fact replaced it. A fact asserted of a period that is over has
        happened.
        """
        is_open = self.state in (None, "current")
        if self.state == "retracted" or self.is_stale:
            return "over"
        if self.modality == "planned":
            end = self._plan_end
            return "over" if not is_open else "lapsed" if end is not None and end <= now else "planned"
        if self.valid_to is None or self.valid_to > now:
            return "holds" if is_open or self.valid_to else "over"
        has_happened = is_open and self.modality == "asserted" and self.valid_from is not None
        return "happened" if has_happened else "over"

    @property
    def _plan_end(self) -> datetime | None:
        if self.valid_to is not None:
            return compute_latest_end(self.valid_to, self.valid_to_precision)
        if self.valid_from is None:
            return None
        end = compute_date_end(self.valid_from, self.valid_from_precision)
        return compute_latest_end(end, self.valid_from_precision)

    def describe_plan(self, text: str, said_at: datetime | None, now: datetime) -> str | None:
        """Describe when a plan, stated at ``said_at``, is due, and whether it lapsed by ``now``.

        Returns:
            None if the fact is not an open plan, or if it has not lapsed and its text names the year.
        """
        status = self.compute_status(now)
        if status not in ("planned", "lapsed"):
            return None
        if self.valid_from is not None:
            plan = f"planned for {format_english_date(self.valid_from, self.valid_from_precision)}"
        elif self.valid_to is not None:
            plan = f"planned until {format_english_date(self.valid_to, self.valid_to_precision, is_end=True)}"
        else:
            return f"planned; spoken of on {format_english_date(said_at, 'day')}" if said_at else "planned"
        if status == "lapsed":
            return f"{plan}; nothing was heard of it since"
        text_names_year = any(str(moment.year) in text for moment in (self.valid_from, self.valid_to) if moment)
        return None if text_names_year else plan
