"""What memory exchanges with its callers: filters, recollections, stored facts and entities, profiles, receipts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from adk_graph_memory import errors
from adk_graph_memory.language.dates import Precision, format_english_date, format_english_period
from adk_graph_memory.language.text import fold_text, join_lines, shorten_text
from adk_graph_memory.records.extractions import Modality, Source, Usage
from adk_graph_memory.records.facts import STATES_PREDICATE, Fact, FactState, FactStatus, FactValidity, Proposition
from adk_graph_memory.records.reports import Finding
from adk_graph_memory.records.scopes import OWNER_NAME, SharedMemory
from adk_graph_memory.records.turns import MemoryKind, Origin, ShownPart, check_origin, check_timezone_aware


@dataclass(frozen=True, slots=True)
class Filters:
    """Search only memories said from ``since`` to ``until``, of one kind, session and topic, about one entity.

    ``metadata`` keeps memories whose own metadata, or that of a turn they rest on, has all of these values; ``origins``
    keeps memories with one of these origins.
    """

    since: datetime | None = None
    until: datetime | None = None
    kind: MemoryKind | None = None
    session_id: str | None = None
    topic: str | None = None
    entity: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.origins, str) or not isinstance(self.origins, Iterable):
            raise errors.InvalidArgument(reason=f"origins={self.origins!r}: give a tuple of origins")
        object.__setattr__(self, "origins", tuple(map(check_origin, self.origins)))
        if not isinstance(self.metadata, Mapping) or not all(isinstance(key, str) for key in self.metadata):
            raise errors.InvalidArgument(reason=f"metadata {self.metadata!r} does not map texts to values")
        for moment in (self.since, self.until):
            if moment is not None:
                check_timezone_aware(moment)
        if self.since is not None and self.until is not None and self.since > self.until:
            raise errors.InvalidArgument(reason=f"since {self.since} is later than until {self.until}")
        if self.kind not in (None, *get_args(MemoryKind)):
            raise errors.InvalidArgument(reason=f"kind {self.kind!r} is none of {', '.join(get_args(MemoryKind))}")
        for name in ("session_id", "topic", "entity"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise errors.InvalidArgument(reason=f"{name} {value!r} is not a text; of several ask for one at a time")

    def __bool__(self) -> bool:
        return self != Filters()

    def to_parameters(self) -> dict[str, Any]:
        """The filters as parameters of a statement, with times in epoch seconds."""
        times = {name: moment.timestamp() if (moment := getattr(self, name)) else None for name in ("since", "until")}
        return asdict(self) | times | {"origins": list(self.origins) or None}


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of one request to remember; its Ingest node stores the same numbers."""

    turns: int = 0
    entities_new: int = 0
    entities_known: int = 0
    facts: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0
    """turns that their author asked to forget"""
    dropped: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    embedded: int = 0
    unembedded: int = 0
    busy: int = 0
    """turns that another process is reading, or was reading when it died; released when its lease ends"""
    extractor: str = ""
    judge: str = ""
    """model and prompt of the judge; empty if rules decided everything"""
    milliseconds: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: IngestReport) -> IngestReport:
        return IngestReport(
            turns=self.turns + other.turns,
            entities_new=self.entities_new + other.entities_new,
            entities_known=self.entities_known + other.entities_known,
            facts=Counter(self.facts) + Counter(other.facts),
            forgotten=self.forgotten + other.forgotten,
            dropped=Counter(self.dropped) + Counter(other.dropped),
            usage=self.usage + other.usage,
            embedded=self.embedded + other.embedded,
            unembedded=self.unembedded + other.unembedded,
            busy=self.busy + other.busy,
            extractor=self.extractor or other.extractor,
            judge=self.judge or other.judge,
            milliseconds={
                stage: self.milliseconds.get(stage, 0.0) + other.milliseconds.get(stage, 0.0)
                for stage in {**self.milliseconds, **other.milliseconds}
            },
        )


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """What became of a document: its passages, and what was read in those that are new."""

    session_id: str
    """the session of its passages: :meth:`.UserMemory.forget_session` forgets the document by it"""
    passages: int
    removed: int
    """passages of a former version that this one does not have; they are gone"""
    forgotten: int
    """passages that were forgotten before, and stay so"""
    ingest: IngestReport


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document that a user's memory holds: its passages, who wrote it, and since when it says the latest of them."""

    session_id: str
    title: str
    passages: int
    author: str | None
    """None if it is cited by its title alone"""
    at: datetime


Ending = Literal["replaced", "plan", "retracted"]
ENDING_NOTES: Mapping[Ending, str] = {"replaced": "no longer so", "plan": "was planned", "retracted": "taken back"}
"""The note on an ended fact: another value replaced it, the plan is past, or it was never true."""
MACHINE_NOTES: Mapping[Origin | None, str] = {
    "document": "from a document",
    "picture": "seen in a picture",
    "agent": "an agent's word",
    "tool": "a tool's word",
}
"""The note on a fact that no person said."""
STALE_NOTE = "may no longer be so"
DISPUTE_NOTE = "another value was said too"
DOUBT_NOTE = "may not answer this"

_MAX_NOTE_CHARACTERS = 200
_POSSESSIVE = re.compile(r"['’]s\b")
"""Length to which a prompt cuts the text that replaced a memory."""


class Share(NamedTuple):
    """What one signal adds to a memory's score; ``through`` is the id of the memory that passed it on, if any."""

    signal: str
    amount: float
    through: str | None = None


@dataclass(frozen=True, slots=True)
class Recollection:
    """One memory that a search found: a fact with its source words, or a turn."""

    id: str
    kind: MemoryKind
    text: str
    score: float
    """0 to 1; the higher, the more likely it helps to answer"""
    at: datetime | None
    """when it was said; ``valid_from`` says since when it is true"""
    author: str | None = None
    session_id: str | None = None
    source_event_ids: tuple[str, ...] = ()
    quote: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    valid_from_precision: Precision | None = None
    """how precisely the date was stated; None without a date"""
    valid_to_precision: Precision | None = None
    plan: str | None = None
    """for a plan: when it is due or when it was mentioned, and whether it lapsed"""
    is_stale: bool = False
    """whether a fact that it depends on no longer holds, so that it may not hold either"""
    is_disputed: bool = False
    """whether another fact that holds gives the same single-valued predicate a value that may or may not be the same;
    for a turn: whether this is so of any fact from it"""
    is_verified: bool = True
    """whether its quote occurs in its source turns"""
    is_current: bool = True
    """for a fact: whether nothing replaced it; for a turn: whether any fact from it still holds"""
    ending: Ending | None = None
    """how it ended, if it did"""
    superseded_by: tuple[str, ...] = ()
    """texts of the current facts that replaced it, or that replaced facts of the turn"""
    modality: Modality | None = None
    """whether a fact is asserted, negated, planned, hypothetical or reported; None for a turn"""
    manner: str | None = None
    """how the speaker meant words that are not plainly their own: pasted, quoted, joking or hypothetical"""
    writer: str | None = None
    """who wrote those words, if the turn says so"""
    origin: Origin | None = None
    """whose word it is; of a fact, the strongest of its sources"""
    shown: tuple[ShownPart, ...] = ()
    """the pictures and files that a turn shows, or that a fact was read in"""
    question: str | None = None
    """the question that it answers, if it is too short to be understood without it"""
    previously: tuple[str, ...] = ()
    """earlier values of the same fact, latest first"""
    shares: tuple[Share, ...] = ()
    """what each signal adds to its score; filled by ``explain``"""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    degraded: str | None = None
    """why the search used full text alone, if it should have used vectors"""
    is_doubtful: bool = False
    """whether it is doubtful that anything in the memory that holds it answers the question"""
    shared: SharedMemory | None = None
    """the shared memory that holds it; None if it is the user's own"""

    @property
    def prompt_text(self) -> str:
        """The line for a prompt: with the question that it answers, whose words they are, and when they are true."""
        question = f"(asked: {self.question}) " if self.question else ""
        later = " / ".join(shorten_text(text, _MAX_NOTE_CHARACTERS) for text in self.superseded_by)
        notes = [
            self._manner_text,
            self._origin_text,
            self.plan or self._period_text,
            "" if self.is_current else ENDING_NOTES[self.ending or "replaced"],
            f"since then: {later}" if self.superseded_by else "",
            STALE_NOTE if self.is_stale else "",
            DISPUTE_NOTE if self.is_disputed else "",
            DOUBT_NOTE if self.is_doubtful else "",
        ]
        note = "; ".join(filter(None, notes))
        return join_lines(f"{question}{self.text} ({note})" if note else question + self.text)

    @property
    def _origin_text(self) -> str:
        """Whose word a fact is, if it is no person's; the text of a turn names what it shows."""
        if self.kind != "fact":
            return ""
        note = MACHINE_NOTES.get(self.origin, "")
        names = ", ".join(part.name for part in self.shown if part.name) if self.origin == "picture" else ""
        return f"{note}: {names}" if names else note

    @property
    def _period_text(self) -> str:
        """When it was so, unless its own text names the year.

        Of a fact in its speaker's own words, only the day that these name is known, and not whether it began then.
        """
        start, end = self.valid_from, self.valid_to
        if any(re.search(rf"\b{moment.year}\b", self.text) for moment in (start, end) if moment):
            return ""
        if start and not end and self.metadata.get("predicate") == STATES_PREDICATE:
            return format_english_date(start, self.valid_from_precision)
        return format_english_period(start, self.valid_from_precision, end, self.valid_to_precision)

    @property
    def _manner_text(self) -> str:
        return f"{self.manner} from {self.writer}" if self.manner and self.writer else self.manner or ""


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact as the graph stores it, current or not, with its sources."""

    id: str
    text: str
    subject: str | None
    """an entity's name; so is ``object``"""
    predicate: str
    object: str | None
    modality: Modality
    topic: str | None
    author: str | None
    at: datetime
    """when it was first said"""
    valid_from: datetime | None
    valid_to: datetime | None
    state: FactState
    is_stale: bool
    """whether a fact that it depends on no longer holds"""
    holds: bool
    """whether it holds now, as far as the graph knows"""
    status: FactStatus
    """``lapsed`` is a plan whose day is over, ``happened`` a past event, ``over`` a fact that no longer holds"""
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None
    sources: tuple[Source, ...] = ()
    is_pinned: bool = False
    origin: Origin | None = None
    """whose word it is: the strongest of its sources"""
    subject_key: str | None = None
    """the entity's key; so is ``object_key``"""
    object_key: str | None = None
    is_disputed: bool = False
    """whether another fact that holds gives the same single-valued predicate a value that may or may not be the same"""

    @classmethod
    def describe(
        cls,
        fact: Fact,
        subject: str | None,
        object: str | None,
        now: datetime,
        *,
        is_stale: bool,
        others: Iterable[Proposition] = (),
    ) -> StoredFact:
        """Describe a fact as it stands at ``now``, given the names of its subject and its object.

        ``others`` are those of the same subject and predicate that hold at ``now``.
        """
        proposition, standing = fact.proposition, fact.standing
        validity = FactValidity(
            proposition.modality,
            standing.state,
            proposition.valid_from,
            standing.valid_to,
            proposition.valid_from_precision,
            standing.valid_to_precision,
            is_stale,
        )
        status = validity.compute_status(now)
        return cls(
            id=f"fact:{fact.id}",
            text=proposition.text,
            subject=subject,
            predicate=proposition.predicate,
            object=object,
            modality=proposition.modality,
            topic=proposition.topic or None,
            author=proposition.speaker,
            at=proposition.at,
            valid_from=proposition.valid_from,
            valid_to=standing.valid_to,
            state=standing.state,
            is_stale=is_stale,
            holds=status in ("holds", "planned"),
            status=status,
            valid_from_precision=proposition.valid_from_precision,
            valid_to_precision=standing.valid_to_precision,
            sources=fact.sources,
            is_pinned=fact.ruling.is_pinned,
            origin=fact.origin,
            subject_key=proposition.subject,
            object_key=proposition.object,
            is_disputed=status == "holds" and any(map(proposition.disputes, others)),
        )


@dataclass(frozen=True, slots=True)
class StoredEntity:
    """An entity as the graph stores it, and the number of its facts that hold."""

    key: str
    name: str
    type: str
    aliases: tuple[str, ...]
    about: str
    facts: int

    @property
    def display_name(self) -> str:
        """What to call the entity on a page: its name, or a proper one for ``user`` and "Ana's dog"."""
        return choose_display_name(self.name, self.aliases)

    @property
    def other_names(self) -> tuple[str, ...]:
        """Its names beside the one that is displayed."""
        return tuple(name for name in (self.name, *self.aliases) if name not in (self.display_name, OWNER_NAME))


def choose_display_name(name: str, aliases: Sequence[str]) -> str:
    """Choose what a page calls an entity: its name, or the first proper name of the owner or of one only described.

    "Ana's dog" is described, and shown as "Rex" once anybody calls it so; "school of Faro" stays, for it has the name.
    """
    if name == OWNER_NAME:
        return next((alias for alias in aliases if _is_proper_name(alias)), name)
    if name[:1].islower() or _POSSESSIVE.search(name):
        words = fold_text(name)
        return next((alias for alias in aliases if _has_capitals(alias) and fold_text(alias) not in words), name)
    return name


def _has_capitals(text: str) -> bool:
    """Whether each word begins with a capital, and the text names nobody's: "Krümel", not "A dog" or "Ana's Dog"."""
    return all(word[:1].isupper() for word in text.split()) and not _POSSESSIVE.search(text)


def _is_proper_name(text: str) -> bool:
    """Whether a text begins with a letter, is not in small letters, and is neither "User" nor a single Latin letter."""
    is_capital = text != text.lower() or text == text.upper()
    is_letter = len(text) == 1 and text.isascii()
    return text[:1].isalpha() and is_capital and text.casefold() != OWNER_NAME and not is_letter


@dataclass(frozen=True, slots=True)
class UserSummary:
    """A user of an app, or a memory that users share: how many sessions, turns in memory and facts it has."""

    app_name: str
    user_id: str
    sessions: int
    turns: int
    facts: int


@dataclass(frozen=True, slots=True)
class AppSummary:
    """An app, with the number of its users and of their sessions and facts."""

    app_name: str
    users: int
    sessions: int
    facts: int


@dataclass(frozen=True, slots=True)
class Checkup:
    """Whether a user's graph follows from their words, and what is still to be done for the user."""

    app_name: str
    user_id: str
    facts: int
    differences: int
    """nodes and edges that differed from their derivation"""
    is_mended: bool
    waiting: int
    """requests to remember that nobody has read yet"""
    unembedded: int
    """memories and names that lack a vector; ``mend`` embeds them, and the next ingest embeds the memories"""
    findings: tuple[Finding, ...] = ()
    """which invariants were broken, how often, and whether they were mended"""
    unread: int = 0
    """turns that no model could read: they are found by their words, and ``reextract`` reads them again"""

    @property
    def is_ill(self) -> bool:
        """Whether anything is wrong that was not mended."""
        return bool(self.differences and not self.is_mended) or any(not one.is_mended for one in self.findings)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was deleted: how many of each kind, the ids of turns and facts, and when. It holds no content.

    ``stays`` counts what was not deleted, by kind: ``turns`` that still state a forgotten fact, ``copies`` of forgotten
    facts in shared memories, and a forgotten user's ``sessions``, ``events``, ``artifacts`` and tombstones.
    """

    events: int = 0
    facts: int = 0
    entities: int = 0
    sessions: int = 0
    artifacts: int = 0
    ids: tuple[str, ...] = field(default=(), compare=False)
    at: datetime | None = field(default=None, compare=False)
    stays: Mapping[str, int] = field(default_factory=dict, compare=False)


PruneKind = Literal["sessions", "events", "memory", "revisions", "artifacts", "user_state"]


@dataclass(frozen=True, slots=True)
class PruneReport:
    """How much expired data of each kind was deleted, or would be."""

    sessions: int = 0
    events: int = 0
    """events of sessions that stay"""
    memory: int = 0
    """turns and facts"""
    revisions: int = 0
    artifacts: int = 0
    """versions of artifacts"""
    user_state: int = 0
    """users whose state was deleted"""

    def __add__(self, other: PruneReport) -> PruneReport:
        return PruneReport(**{kind: count + getattr(other, kind) for kind, count in asdict(self).items()})

    @property
    def total(self) -> int:
        """How much of all kinds."""
        return sum(asdict(self).values())


Section = Literal["who", "home", "work", "people", "preferences", "instructions", "other"]
SECTIONS: tuple[Section, ...] = get_args(Section)
SECTION_TITLES: Mapping[Section, str] = {
    "who": "Who they are",
    "home": "Home",
    "work": "Work",
    "people": "People",
    "preferences": "Preferences",
    "instructions": "Standing instructions",
    "other": "Also",
}
"""The heading of each section in a profile's text, in its order."""
UserPlace = Literal["subject", "object", "agent", "nowhere"]
"""What the user is in a fact; ``agent`` if the user told it of their agent, ``nowhere`` if it names no subject."""


@dataclass(frozen=True, slots=True)
class ProfileCandidate:
    """A current fact that concerns the user, without its sources."""

    fact: StoredFact
    place: UserPlace
    subject_type: str | None = None
    """the type of the entity that the fact is about; so is ``object_type`` of the one it points to"""
    object_type: str | None = None
    support: int = 0
    """the number of turns that it rests on"""

    @property
    def other_name(self) -> str | None:
        """The name of the entity on the other side of the fact."""
        return self.fact.subject if self.place == "object" else self.fact.object

    @property
    def other_type(self) -> str | None:
        """The type of the entity on the other side of the fact."""
        return self.subject_type if self.place == "object" else self.object_type

    @property
    def is_in_own_words(self) -> bool:
        """Whether it repeats somebody's words and says not what it is about, as without a model."""
        return self.fact.predicate == STATES_PREDICATE and not self.fact.topic


@dataclass(frozen=True, slots=True)
class ProfileItem:
    """One line of a profile."""

    section: Section
    text: str
    """the fact's text; if it is only somebody's words, with the day it was said; with a note if no person said it, or
    another value was said too"""
    fact: StoredFact

    @property
    def quotes(self) -> tuple[str, ...]:
        """The words that the fact rests on."""
        return tuple(dict.fromkeys(source.quote for source in self.fact.sources))


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """What a field of a form was filled from."""

    fact_ids: tuple[str, ...]
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileForm:
    """A pydantic model that a user's facts fill."""

    instance: Any
    """an instance of the schema; a field without a matching fact has its default, or None if it has none"""
    evidence: Mapping[str, FieldEvidence] = field(default_factory=dict)
    """the evidence of each filled field, by its name"""
    missing: tuple[str, ...] = ()
    """required fields without a matching fact; if there are any, the instance was not validated"""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is always worth knowing about a user: a view over the facts that hold now."""

    items: tuple[ProfileItem, ...] = ()
    """section by section"""
    form: ProfileForm | None = None
    """the requested schema, filled in"""

    @property
    def sections(self) -> dict[Section, tuple[ProfileItem, ...]]:
        """The items of each section that has any."""
        groups = {section: tuple(item for item in self.items if item.section == section) for section in SECTIONS}
        return {section: items for section, items in groups.items() if items}

    @property
    def text(self) -> str:
        """The profile for a prompt: a heading for each section, and a line for each item."""
        return "\n".join(
            "\n".join([f"{SECTION_TITLES[section]}:", *(format_item(item) for item in items)])
            for section, items in self.sections.items()
        )


def format_item(item: ProfileItem) -> str:
    """The line of an item."""
    return f"- {join_lines(item.text)}"


def describe_statement(text: str, fact: StoredFact, speaker: str | None) -> str:
    """The text of a fact that is only somebody's words: whether it still holds is for the reader to judge."""
    day = format_english_date(fact.at, "day")
    return f"{text} ({speaker}, {day})" if speaker else f"{text} (said {day})"
