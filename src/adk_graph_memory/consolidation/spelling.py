"""Words in any script go in; how they are written without accents, points and kinds of kana comes out."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_LETTER_VARIANTS = str.maketrans("łđðøħ", "lddoh") | {ord("æ"): "ae", ord("œ"): "oe", ord("þ"): "th"}
_LETTER_VARIANTS |= str.maketrans("ىیکةہۀ", "ييكههه")  # how Egypt, Persia and haste write the same letters
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


def _is_vowel_point(character: str) -> bool:
    """Vowel points of Arabic and Hebrew, which are written or not."""
    code = ord(character)
    return 0x064B <= code <= 0x0652 or code == 0x0670 or 0x0591 <= code <= 0x05C7


def _is_accent(character: str) -> bool:
    """Accents of Latin, Greek and Cyrillic, hamza and madda. Not the vowels of Devanagari and Thai, nor dakuten."""
    return 0x0300 <= ord(character) <= 0x036F or 0x0653 <= ord(character) <= 0x0655


@lru_cache(maxsize=16_384)
def strip_accents(word: str) -> str:
    """The word without accents."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", word) if not _is_accent(c))
    return unicodedata.normalize("NFC", bare).translate(_LETTER_VARIANTS)


def normalize_words(text: str) -> tuple[str, ...]:
    """The words of a folded text, with their accents: without punctuation, points, invisible marks, kinds of kana."""
    kept = []
    for character in unicodedata.normalize("NFC", text.replace("i\u0307", "i").replace("ı", "i")):
        category = unicodedata.category(character)
        if category == "Cf" or character in _DROPPED_CHARACTERS or _is_vowel_point(character):
            continue
        kept.append(" " if category[0] == "P" and character not in _KEPT_PUNCTUATION else character)
    return tuple(word for word in "".join(kept).translate(_KATAKANA_TO_HIRAGANA).split() if strip_accents(word))


def is_same_word(one: str, other: str) -> bool | None:
    """Whether two words are one: they may differ in accents if one has none. Zoe is Zoë and Zoé; of these two: None."""
    if one == other:
        return True
    bare, bare_other = strip_accents(one), strip_accents(other)
    if bare == bare_other:
        return True if one == bare or other == bare_other else None
    return expand_umlauts(one) == other or expand_umlauts(other) == one


@lru_cache(maxsize=16_384)
def expand_umlauts(word: str) -> str:
    """The word as those write it who have no umlauts: mueller for müller."""
    return strip_accents(word.translate(_UMLAUT_DIGRAPHS))


def is_han(text: str) -> bool:
    """Whether all of it is Chinese characters."""
    return all("\u3400" <= c <= "\u9fff" or c == "々" for c in text)


def is_hangul(text: str) -> bool:
    """Whether all of it is Korean syllables."""
    return all("\uac00" <= c <= "\ud7a3" for c in text)


def is_unspaced(text: str) -> bool:
    """Scripts that need no space between names."""
    return all(any(first <= c <= last for first, last in _UNSPACED_RANGES) for c in text)
