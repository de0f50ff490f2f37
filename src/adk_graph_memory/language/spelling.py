"""Compare words and names of any script however they are spelled."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from adk_graph_memory import errors

_LETTER_VARIANTS = str.maketrans("łđðøħ", "lddoh") | {ord("æ"): "ae", ord("œ"): "oe", ord("þ"): "th"}
_LETTER_VARIANTS |= str.maketrans("ىیکةہۀ", "ييكههه")  # Egyptian, Persian and hasty forms of the same letters
_KATAKANA_TO_HIRAGANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}
_UMLAUT_DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_UNSPACED_RANGES = (
    ("\u0e00", "\u0eff"),
    ("\u1000", "\u109f"),
    ("\u1780", "\u17ff"),
    ("\u3005", "\u9fff"),
    ("\uac00", "\ud7a3"),
)
_DROPPED_CHARACTERS = frozenset("'’ʼ`´‘\"״׳″ـ")
_KEPT_PUNCTUATION = frozenset("#&@%*")
_VOWEL_POINTS = frozenset(map(chr, (*range(0x064B, 0x0653), 0x0670, *range(0x0591, 0x05C8))))
"""The vowel points of Arabic and Hebrew, which are optional."""
_ACCENTS = frozenset(map(chr, (*range(0x0300, 0x0370), *range(0x0653, 0x0656))))
"""Latin, Greek and Cyrillic accents, hamza and madda; not a Devanagari or Thai vowel, nor dakuten."""


@lru_cache(maxsize=16_384)
def strip_accents(word: str) -> str:
    """Return the word without accents."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", word) if c not in _ACCENTS)
    return unicodedata.normalize("NFC", bare).translate(_LETTER_VARIANTS)


def normalize_words(text: str) -> tuple[str, ...]:
    """Split a folded text into words: accents stay, punctuation, points and marks go, katakana becomes hiragana."""
    characters = []
    for character in unicodedata.normalize("NFC", text.replace("i\u0307", "i").replace("ı", "i")):
        category = unicodedata.category(character)
        if category == "Cf" or character in _DROPPED_CHARACTERS or character in _VOWEL_POINTS:
            continue
        characters.append(" " if category[0] == "P" and character not in _KEPT_PUNCTUATION else character)
    return tuple(word for word in "".join(characters).translate(_KATAKANA_TO_HIRAGANA).split() if strip_accents(word))


def is_same_word(word: str, other: str) -> bool | None:
    """Whether two words are the same; accents may be missing in one of them. Zoe is Zoë; of Zoë and Zoé: None."""
    if word == other:
        return True
    bare, bare_other = strip_accents(word), strip_accents(other)
    if bare == bare_other:
        return True if word == bare or other == bare_other else None
    return expand_umlauts(word) == other or expand_umlauts(other) == word


@lru_cache(maxsize=16_384)
def expand_umlauts(word: str) -> str:
    """Spell umlauts as two letters: mueller for müller."""
    return strip_accents(word.translate(_UMLAUT_DIGRAPHS))


def list_singulars(word: str) -> list[str]:
    """List the words that this may be the plural of: bee of bees. Most of them are no words."""
    endings = (("s", ""), ("es", ""), ("ies", "y"), ("n", ""), ("en", ""), ("x", ""))
    stems = (word.removesuffix(ending) + singular for ending, singular in endings if word.endswith(ending))
    return [stem for stem in stems if len(stem) > 2]


def is_han(text: str) -> bool:
    """Whether every character is Chinese."""
    return all("\u3400" <= c <= "\u9fff" or c == "々" for c in text)


def is_hangul(text: str) -> bool:
    """Whether every character is a Korean syllable."""
    return all("\uac00" <= c <= "\ud7a3" for c in text)


def is_unspaced(text: str) -> bool:
    """Whether every character belongs to a script that needs no space between names."""
    return all(any(first <= c <= last for first, last in _UNSPACED_RANGES) for c in text)


MAX_NEAREST = 3
"""Names that are suggested where none fits."""


class Named(Protocol):
    """What has a key, a name and perhaps other names."""

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...


T = TypeVar("T", bound=Named)


def fold_name(name: str) -> str:
    """Fold a name to what it has in common with all its spellings: case and accents do not count."""
    return strip_accents(unicodedata.normalize("NFC", name).casefold())


def match_names(names: Iterable[str], name: str) -> frozenset[str]:
    """Return those of the names that are this one in any case, or else those that are but for accents."""
    names, folded = frozenset(names), unicodedata.normalize("NFC", name).casefold()
    same = (one for one in names if one.casefold() == folded)
    return frozenset(same) or frozenset(one for one in names if fold_name(one) == fold_name(name))


def list_named(entities: Collection[T], name: str) -> list[T]:
    """Return the entities with this key, or else with this name or alias, or else with one of these but for accents."""
    names = match_names((one for entity in entities for one in (entity.name, *entity.aliases)), name)
    return [entity for entity in entities if entity.key == name] or [
        entity for entity in entities if not names.isdisjoint((entity.name, *entity.aliases))
    ]


def choose_named(entities: Collection[T], name: str) -> T:
    """Return the one of :func:`list_named`, or of several the one whose own name it is, not an alias.

    Raises:
        errors.InvalidArgument: several have this name.
        errors.NotFound: none has; the error names the nearest.
    """
    named = list_named(entities, name)
    own_names = match_names((entity.name for entity in named), name)
    named = [entity for entity in named if entity.name in own_names] or named
    if len(named) > 1:
        several = ", ".join(sorted(f"{entity.key} ({entity.name})" for entity in named))
        raise errors.InvalidArgument(reason=f"{name!r} is the name of several: give one of the keys {several}")
    if not named:
        names = {fold_name(one): one for entity in entities for one in (*entity.aliases, entity.name)}
        nearest = ", ".join(names[one] for one in difflib.get_close_matches(fold_name(name), names, MAX_NEAREST))
        where = "`adk-graph-memory entities`" + (f" (the nearest names are {nearest})" if nearest else "")
        raise errors.NotFound(what=f"person or thing {name!r} in this user's memory", where=where)
    return named[0]
