"""A text goes in, the language it is most likely written in comes out, with that language's most ordinary words."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import stop_words

WIDE = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
"""Scripts that are written without spaces between words, or (Hangul) with what belongs to a word attached to it."""

WIDE_CHARACTER = re.compile(rf"[{WIDE}]")
WIDE_RUN = re.compile(rf"[{WIDE}]+")

WORD = re.compile(rf"[^\W\d_{WIDE}]+(?:['’\-](?!s\b)[^\W\d_{WIDE}]+)*")
"""A word of a script with spaces; what a possessive adds to it stays outside."""

_LATIN = ("en", "de", "es", "fr", "it", "pt", "nl", "pl", "cs", "da", "sv", "nb", "fi", "hu", "ro", "tr", "ca")
_BY_SCRIPT = {
    "LATIN": _LATIN,
    "CYRILLIC": ("ru", "uk", "bg"),
    "ARABIC": ("ar", "fa"),
    "GREEK": ("el",),
    "HEBREW": ("he",),
    "DEVANAGARI": ("hi",),
    "THAI": ("th",),
    "HIRAGANA": ("ja",),
    "KATAKANA": ("ja",),
    "HANGUL": ("ko",),
    "CJK": ("zh",),
}
_LISTED_AS = {"nb": "no"}
_ENOUGH = 400
"""Characters of a text that its language is told from."""


@cache
def ordinary_words(language: str) -> frozenset[str]:
    """Words too frequent to be anybody's name, as the stop-words package lists them; none for other languages."""
    try:
        return frozenset(stop_words.get_stop_words(_LISTED_AS.get(language, language)))
    except stop_words.StopWordError:
        return frozenset()


@cache
def _weights(languages: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Each ordinary word with its languages; one that many languages share tells little about any."""
    bearers: dict[str, list[str]] = {}
    for language in languages:
        for word in ordinary_words(language):
            bearers.setdefault(word, []).append(language)
    return {word: dict.fromkeys(owners, 1 / len(owners)) for word, owners in bearers.items()}


@cache
def script(character: str) -> str:
    """The script of a letter as Unicode names it: LATIN, CYRILLIC, CJK …; empty for what is no letter."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def language_of(text: str, default: str = "en") -> str:
    """ISO 639-1: told by the script and, where languages share it, by the ordinary words; else the default."""
    letters = [script(character) for character in text[:_ENOUGH]]
    counts = {name: letters.count(name) for name in _BY_SCRIPT if name in letters}
    if not counts:
        return default
    if counts.get("HIRAGANA", 0) + counts.get("KATAKANA", 0) > 0 and counts.get("CJK", 0) > counts.get("LATIN", 0) // 2:
        return "ja"
    languages = _BY_SCRIPT[max(counts, key=lambda name: counts[name] * (3 if name in ("CJK", "HANGUL") else 1))]
    if len(languages) == 1:
        return languages[0]
    return _by_words(text, languages, default)


def _by_words(text: str, languages: tuple[str, ...], default: str) -> str:
    scores = dict.fromkeys(languages, 0.0)
    weights = _weights(languages)
    for match in WORD.finditer(text[:_ENOUGH].lower()):
        for language, weight in weights.get(match[0], {}).items():
            scores[language] += weight
    best = max(languages, key=lambda language: scores[language])
    if scores[best] == 0 or (default in scores and scores[default] >= 0.6 * scores[best]):
        return default if default in languages else languages[0]
    return best
