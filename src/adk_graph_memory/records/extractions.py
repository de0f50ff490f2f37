"""What an extraction finds in a window of turns: entities, and facts with their source words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, Self

from adk_graph_memory.language.dates import Precision
from adk_graph_memory.language.spelling import is_same_word, normalize_words
from adk_graph_memory.language.text import cache_short, digest, fold_text, has_wide_character
from adk_graph_memory.records.turns import IMPERSONAL_ORIGINS, OWNER_SESSION, Origin, Role, Turn, find_word_origin

Modality = Literal["asserted", "negated", "planned", "hypothetical", "reported"]
Manner = Literal["pasted", "quoted", "joking", "hypothetical"]
"""How an author meant words that are not plainly their own."""


@dataclass(frozen=True, slots=True)
class Source:
    """The words in a turn that support a fact, ``turn.text[start:end]``, and when they were said.

    If the extractor's quote does not occur in the turn, the source is the whole turn and not verified. ``author`` and
    ``origin`` follow from the turn; a stored reading leaves them to it.
    """

    turn_id: str
    quote: str
    start: int
    end: int
    at: datetime
    seq: int = 0
    session_id: str = ""
    is_verified: bool = True
    author: str = field(default="", compare=False)
    origin: Origin = field(default="user", compare=False)

    @classmethod
    def from_turn(cls, turn: Turn, start: int, end: int) -> Self:
        """Make a verified source of ``turn.text[start:end]``."""
        source = cls(turn.id, turn.text[start:end], start, end, turn.at, turn.seq, turn.session_id)
        origin = find_word_origin(turn.origin or "user", turn.own_text, end)
        return replace(source, author=turn.author, origin=origin)

    @classmethod
    def from_whole_turn(cls, turn: Turn) -> Self:
        """Make an unverified source of the whole turn."""
        return replace(cls.from_turn(turn, 0, len(turn.text)), is_verified=False)

    @property
    def is_machine(self) -> bool:
        """Whether it is no person's word: an agent's, a tool's, a document's, or a picture's."""
        return self.origin in IMPERSONAL_ORIGINS

    @property
    def is_owner(self) -> bool:
        """Whether the owner of the memory said it, as a correction."""
        return self.session_id == OWNER_SESSION

    @property
    def quote_key(self) -> str:
        """A digest of the quote that ignores case and white space."""
        return _digest_quote(self.quote)

    @property
    def key(self) -> tuple[str, str]:
        """Turn id and quote key."""
        return self.turn_id, self.quote_key


@cache_short
def _digest_quote(quote: str) -> str:
    return digest(fold_text(quote))


UNKNOWN_TYPE = "thing"
"""The type of an entity whose kind nobody named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What is said, whoever it is said of: what an extracted fact and a proposition have in common.

    A date without precision is a day if it is midnight, else a time.
    """

    text: str
    predicate: str
    modality: Modality = "asserted"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    topic: str = ""
    is_correction: bool = False
    """whether what it ends was never true"""
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None

    @property
    def wording(self) -> dict[str, Any]:
        """The fields of the wording by name, to say the same of whoever else."""
        return {name: getattr(self, name) for name in _WORDING_FIELDS}


_WORDING_FIELDS = tuple(field.name for field in fields(Wording))


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """A person, place or thing that the turns name; facts of the same extraction refer to it by ``ref``.

    ``about`` tells namesakes apart in a few words ("brother", "colleague at Acme"). Two entities of one ``window`` are
    different even if they share a name; a namesake in another window is usually the same. ``known_key`` is the stored
    entity that the reply identifies it with, ``quotes`` the source quotes of its facts that contain one of its names.
    """

    ref: int
    name: str
    type: str = UNKNOWN_TYPE
    aliases: tuple[str, ...] = ()
    known_key: str | None = None
    about: str = ""
    window: int = 0
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact(Wording):
    """One statement about the world, with its sources.

    Facts of one extraction refer to each other by ``ref``: ``replaces`` lists the facts that this one ends (with
    ``is_correction``, those that were never true), ``depends_on`` those without which it would not hold. ``subject``
    and ``object`` are the references of entities.
    """

    subject: int
    object: int | None
    sources: tuple[Source, ...]
    speaker: str
    at: datetime
    ref: int = 0
    replaces: tuple[int, ...] = ()
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Remark:
    """Marks a turn as not plainly its author's own words; ``writer`` is who wrote them, if the turn says so."""

    turn_id: str
    manner: Manner
    writer: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls of a model and the tokens that they cost."""

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
    """What an extractor found in some turns.

    ``mentions`` are pairs of turn id and entity ref, ``drop_counts`` counts of dropped facts by reason, ``authors`` the
    authors of the turns, ``forget_turn_ids`` the turns that their author asked to forget, and ``unread`` why a model
    could not read a turn, or a part of it, by its id.
    """

    entities: tuple[ExtractedEntity, ...] = ()
    facts: tuple[ExtractedFact, ...] = ()
    mentions: tuple[tuple[str, int], ...] = ()
    drop_counts: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    authors: tuple[tuple[str, Role], ...] = ()
    remarks: tuple[Remark, ...] = ()
    forget_turn_ids: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


_MIN_STEM_LETTERS, _ENDING_LETTERS, _PREFIX_LETTERS = 3, 3, 3
"""Letters of a word that tell it apart at least, and those that its endings and prefixes may take at most."""


def select_said_aliases(
    name: str, aliases: Iterable[str], authors: Iterable[str], texts: Sequence[str]
) -> tuple[str, ...]:
    """Select the aliases that are spellings of a name, or that a text ties to it: one that says both.

    An author speaks as "I", so it is enough that somebody says the author's other name. A single letter is no alias: it
    could be anybody's.
    """
    folded_name, folded_texts = fold_text(name), [fold_text(text) for text in texts]
    folded_authors = set(map(fold_text, authors))

    def is_said(alias: str) -> bool:
        names = [one for one in (folded_name, alias) if one not in folded_authors]
        return bool(names) and any(all(_says_name(text, one) for one in names) for text in folded_texts)

    folded_aliases = {alias: folded for alias in aliases if len(folded := fold_text(alias)) > 1}
    return tuple(
        alias for alias, folded in folded_aliases.items() if _is_short_form(folded, folded_name) or is_said(folded)
    )


def _says_name(text: str, name: str) -> bool:
    """Whether a folded text says a folded name: it has all its words, whatever their endings."""
    if has_wide_character(name):
        return name in text
    words = normalize_words(text)
    stems = [word[: max(len(word) - (2 if len(word) > 5 else 1), _MIN_STEM_LETTERS)] for word in normalize_words(name)]
    return bool(stems) and all(any(_has_stem(word, stem) for word in words) for stem in stems)


def _has_stem(word: str, stem: str) -> bool:
    """Whether a word is a stem with an ending; Hebrew and Arabic also write "and", "to" and "the" in front of it."""
    prefix = word.find(stem)
    longest_prefix = _PREFIX_LETTERS if "\u0590" <= stem < "\u0700" else 0
    return 0 <= prefix <= longest_prefix and len(word) - prefix - len(stem) <= _ENDING_LETTERS


def _is_short_form(alias: str, name: str) -> bool:
    """Whether an alias is a part of a name, shortened or spelled otherwise: "Mel" or "M. Lang" for Melanie Lang."""
    if has_wide_character(name):
        return alias in name
    words, shorts = normalize_words(name), normalize_words(alias)
    return bool(shorts) and all(
        any(word.startswith(short) or is_same_word(word, short) for word in words) for short in shorts
    )
