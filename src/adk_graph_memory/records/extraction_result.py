"""What was read out of turns: entities, and facts with the words they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Self

from adk_graph_memory.records.dates import Precision
from adk_graph_memory.records.text_keys import digest, fold_text
from adk_graph_memory.records.turns import Role, Turn

Modality = Literal["asserted", "negated", "planned", "hypothetical", "reported"]
Manner = Literal["pasted", "quoted", "joking", "hypothetical"]
"""How words were meant that are not plainly their author's own."""


@dataclass(frozen=True, slots=True)
class Source:
    """The words in a turn that a fact rests on, ``turn.text[start:end]``, and when they were said.

    One that is not verified is the whole turn: the words that were given for it are not in there.
    """

    turn_id: str
    quote: str
    start: int
    end: int
    at: datetime
    seq: int = 0
    session_id: str = ""
    is_verified: bool = True

    @classmethod
    def from_turn(cls, turn: Turn, start: int, end: int) -> Self:
        """These words of this turn."""
        return cls(turn.id, turn.text[start:end], start, end, turn.at, turn.seq, turn.session_id)

    @classmethod
    def from_whole_turn(cls, turn: Turn) -> Self:
        """All that the turn says, for want of the words that were given."""
        return replace(cls.from_turn(turn, 0, len(turn.text)), is_verified=False)

    @property
    def quote_key(self) -> str:
        """Stands for the words, however they are spaced and cased."""
        return digest(fold_text(self.quote))

    @property
    def key(self) -> tuple[str, str]:
        """Stands for these words of this turn."""
        return self.turn_id, self.quote_key


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """Somebody or something that the turns name; ``ref`` is what the facts of the same extraction call it.

    ``about`` tells namesakes apart, in a few words ("brother", "colleague at Acme"). What one ``window`` lists as two
    was told apart by the one who read it; the same name in another window is mostly the same. ``known_key`` is the
    known entity that the reply takes it for, ``quotes`` the words of its facts that hold one of its names.
    """

    ref: int
    name: str
    type: str = "thing"
    aliases: tuple[str, ...] = ()
    known_key: str | None = None
    about: str = ""
    window: int = 0
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """One statement about the world, with the words it rests on.

    ``ref`` is what other facts of the same extraction call it: ``replaces`` names those that it ended (or, with
    ``correction``, those that were never true), ``depends_on`` those without which it would not hold. A date whose
    precision is None is a day where it is midnight, else a time.
    """

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
    ref: int = 0
    replaces: tuple[int, ...] = ()
    depends_on: tuple[int, ...] = ()
    is_correction: bool = False
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None


@dataclass(frozen=True, slots=True)
class Remark:
    """That a turn is not plainly its author's own word; ``origin`` is who wrote it, if that was said."""

    turn_id: str
    manner: Manner
    origin: str = ""


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
    """What was read out of some turns, and what was left out, by reason; ``authors`` are whose turns they are.

    ``forget`` are ids of turns that their author asked not to be remembered.
    """

    entities: tuple[ExtractedEntity, ...] = ()
    facts: tuple[ExtractedFact, ...] = ()
    mentions: tuple[tuple[str, int], ...] = ()
    drop_counts: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    authors: tuple[tuple[str, Role], ...] = ()
    remarks: tuple[Remark, ...] = ()
    forget_turn_ids: tuple[str, ...] = ()
