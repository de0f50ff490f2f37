"""What callers get back: what became of a request to remember, of a question, of a wish to forget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from adk_graph_memory.records.dates import Precision
from adk_graph_memory.records.extraction_result import Modality, Source, Usage
from adk_graph_memory.records.fact_validity import FactStatus
from adk_graph_memory.records.write_plan import FactState

MemoryKind = Literal["fact", "event"]


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of one request to remember; the same numbers stay on its Ingest node."""

    turns: int = 0
    entities_new: int = 0
    entities_known: int = 0
    facts: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0
    """turns that their author asked not to be remembered"""
    dropped: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    embedded: int = 0
    unembedded: int = 0
    busy: int = 0
    extractor: str = ""
    judge: str = ""
    """model and prompt that decided where rules could not, if any did"""
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
            milliseconds=_add_durations(self.milliseconds, other.milliseconds),
        )


Ending = Literal["replaced", "plan", "retracted"]
ENDING_NOTES: Mapping[Ending, str] = {"replaced": "no longer so", "plan": "was planned", "retracted": "taken back"}
"""How what has ended is told: another value took its place, the plan is past, or it was never true."""
STALE_NOTE = "may no longer be so"


_MAX_NOTE_CHARACTERS = 200
"""Characters of what took the place of a memory, as the memory's own text tells it."""


class Share(NamedTuple):
    """What one signal adds to a memory's score, and the memory through which it does."""

    signal: str
    amount: float
    through: str | None = None


@dataclass(frozen=True, slots=True)
class Recollection:
    """One memory, as found: a fact with the words it rests on, or a turn itself."""

    id: str
    kind: MemoryKind
    text: str
    score: float
    """0 to 1, the higher the likelier that it helps to answer"""
    at: datetime | None
    author: str | None = None
    session_id: str | None = None
    source_event_ids: tuple[str, ...] = ()
    quote: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    valid_from_precision: Precision | None = None
    """how exactly the date was said; None where there is none"""
    valid_to_precision: Precision | None = None
    plan: str | None = None
    """of a plan for when it is or when it was spoken of, and whether its day passed without word of it"""
    is_stale: bool = False
    """whether a fact that it rests on is no longer so: then it may not be so either"""
    is_verified: bool = True
    """whether its quote stands in the turns that it names"""
    is_current: bool = True
    """whether nothing took its place; of a turn, whether anything of what is known from it still holds"""
    ending: Ending | None = None
    """how it ended, if it did"""
    superseded_by: tuple[str, ...] = ()
    """what took its place, or of a turn the place of some of it, as far as it still holds"""
    modality: Modality | None = None
    """whether a fact is asserted, negated, planned, hypothetical or reported; None for a turn"""
    manner: str | None = None
    """how words that are not plainly their speaker's own were meant: pasted, quoted, joking or hypothetical"""
    origin: str | None = None
    """who wrote such words, where that was said"""
    asked: str | None = None
    """the question that it answers, where it is too short to be understood without"""
    previously: tuple[str, ...] = ()
    """earlier values of the same thing, the latest first"""
    shares: tuple[Share, ...] = ()
    """what its score is made of, where that was asked for"""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    degraded: str | None = None
    """why only full text was searched, when vectors were meant to be"""

    @property
    def prompt_text(self) -> str:
        """The text as a reader needs it: a short answer with its question, how far it is still so, and whose words."""
        asked = f"(asked: {self.asked}) " if self.asked else ""
        notes = [
            self._manner_text,
            self.plan or "",
            "" if self.is_current else ENDING_NOTES[self.ending or "replaced"],
            f"since then: {' / '.join(map(_shorten_note, self.superseded_by))}" if self.superseded_by else "",
            STALE_NOTE if self.is_stale else "",
        ]
        described = "; ".join(filter(None, notes))
        return f"{asked}{self.text} ({described})" if described else asked + self.text

    @property
    def _manner_text(self) -> str:
        return f"{self.manner} from {self.origin}" if self.manner and self.origin else self.manner or ""


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact as the graph holds it, whether or not it is still so, with the words it rests on."""

    id: str
    text: str
    subject: str | None
    """a name, as ``object``"""
    predicate: str
    object: str | None
    modality: Modality
    topic: str | None
    author: str | None
    at: datetime
    """when it was said first"""
    valid_from: datetime | None
    valid_to: datetime | None
    state: FactState
    is_stale: bool
    """whether a fact that it rests on is no longer so"""
    holds: bool
    """whether it is so now, as far as is known"""
    status: FactStatus
    """whether it is so now, is planned, happened once, was planned for a day that is over, or is over itself"""
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredEntity:
    """Somebody or something that the graph knows, and in how many facts that hold."""

    key: str
    name: str
    type: str
    aliases: tuple[str, ...]
    about: str
    facts: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What forgetting took away."""

    events: int = 0
    facts: int = 0
    entities: int = 0


def _shorten_note(text: str) -> str:
    return text if len(text) <= _MAX_NOTE_CHARACTERS else f"{text[:_MAX_NOTE_CHARACTERS].rsplit(' ', 1)[0]} …"


def _add_durations(some: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {stage: some.get(stage, 0.0) + more.get(stage, 0.0) for stage in {**some, **more}}
