"""What crosses the doors between rooms: frozen data, no behaviour beyond what it says about itself."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from adk_graph_memory import errors

Role = Literal["user", "model"]
Kind = Literal["fact", "event"]
Modality = Literal["asserted", "negated", "planned", "hypothetical", "reported"]


def digest(*parts: str) -> str:
    """32 hex characters that stand for these strings and their borders (BLAKE2b, 128 bits)."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def folded(text: str) -> str:
    """The text as names and quotes are compared: NFKC, casefolded, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def token_count(text: str) -> int:
    """About how many tokens a model will count: 1.3 a word, and one a character in scripts without spaces."""
    wide = len(_WIDE.findall(text))
    return wide + round(1.3 * len(_WIDE.sub(" ", text).split()))


@dataclass(frozen=True, slots=True)
class Scope:
    """One user of one app: everything stored belongs to exactly one scope."""

    app_name: str
    user_id: str

    @property
    def key(self) -> str:
        """What nodes, constraints and queries carry; ids of any length and script become 32 hex characters."""
        return digest(self.app_name, self.user_id)


# -- session → extraction ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """What one author said at one time (an aware datetime), as memory reads it."""

    id: str
    author: str
    text: str
    at: datetime
    role: Role = "user"

    def __post_init__(self) -> None:
        _check_aware(self.at)

    @property
    def text_key(self) -> str:
        """Stands for the text: a turn that was edited since it was read has another one."""
        return digest(self.text)

    def memory_id(self, session_id: str) -> str:
        """The id under which memory knows this turn of that session."""
        return f"event:{digest(session_id, self.id)}"


@dataclass(frozen=True, slots=True)
class Statement:
    """Something to be remembered as it is, told by nobody in a session: its own source."""

    text: str
    at: datetime
    author: str | None = None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_aware(self.at)


def _check_aware(moment: datetime) -> None:
    """Refuses a time without an offset: which moment it means depends on the machine that reads it."""
    if moment.tzinfo is None:
        raise errors.ConfigurationError(reason=f"{moment!r} has no time zone; use datetime.now(UTC) or the like")


# -- extraction → consolidation ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """The words in a turn that a fact rests on: ``turn.text[start:end]``."""

    turn_id: str
    quote: str
    start: int
    end: int

    @property
    def quote_key(self) -> str:
        """Stands for the words, however they are spaced and cased."""
        return digest(folded(self.quote))


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """Somebody or something that the turns name; ``ref`` is what the facts of the same extraction call it."""

    ref: int
    name: str
    type: str = "thing"
    aliases: tuple[str, ...] = ()
    known_key: str | None = None


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """One statement about the world, with the words it rests on."""

    subject: int
    predicate: str
    object: int | None
    text: str
    sources: tuple[Source, ...]
    speaker: str
    at: datetime
    modality: Modality = "asserted"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model was asked and what it cost, in calls and tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was read out of some turns, and what was left out, by reason."""

    entities: tuple[ExtractedEntity, ...] = ()
    facts: tuple[ExtractedFact, ...] = ()
    mentions: tuple[tuple[str, int], ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = Usage()


# -- graph → consolidation --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """An entity that the graph holds already."""

    key: str
    name: str
    type: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the graph holds that an extraction may be about."""

    entities: tuple[KnownEntity, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """signature → id of the fact that says the same"""
    forgotten: frozenset[tuple[str, str]] = frozenset()
    """turn id and quote key of words that no fact may be made of again"""


# -- consolidation → graph --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedEntity:
    """An entity to be created, or to be given further aliases."""

    key: str
    name: str
    type: str
    aliases: tuple[str, ...]
    is_new: bool


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


# -- memory → caller --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of one request to remember; the same numbers stay on its Ingest node."""

    turns: int = 0
    entities_new: int = 0
    entities_known: int = 0
    facts: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = Usage()
    embedded: int = 0
    unembedded: int = 0
    busy: int = 0
    extractor: str = ""
    milliseconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recollection:
    """One memory, as found: a fact with the words it rests on, or a turn itself."""

    id: str
    kind: Kind
    text: str
    score: float
    at: datetime | None
    author: str | None = None
    session_id: str | None = None
    source_event_ids: tuple[str, ...] = ()
    quote: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    degraded: str | None = None
    """why only full text was searched, when vectors were meant to be"""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What forgetting took away."""

    events: int = 0
    facts: int = 0
    entities: int = 0
