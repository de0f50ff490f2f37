"""A text goes in, the language it is most likely written in comes out, with that language's most ordinary words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
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
    "CJK": ("zh", "ja"),
}
_LISTED_AS = {"nb": "no"}
_ASKS = {"ar": ["ماذا", "لماذا", "مما", "عما", "متى", "أين", "أي", "أية", "كم", "كيف", "هل"]}
"""Words that ask, where the stop-words package lists none: they are as ordinary as it gets."""
_VARIANTS = str.maketrans("أإآٱىة", "اااايه", "ـ")
"""Arabic letters that people write in several ways, and the stroke that only makes a word longer."""
_ARABIC = re.compile(r"[\u0621-\u064a]")
_PROCLITIC = re.compile(r"^(?:وال|بال|كال|فال|ال|لل)(?=\w{2})|^و(?=\w{3})")
"""The article and what is written together with the word behind it (and, with, as, for)."""
_ENOUGH = 400
"""Characters of a text that its language is told from."""
FEW, _SEVERAL = 5, 3
"""Words below which no language is believed that nobody here speaks; ordinary words that it takes to believe one."""
_ABOUT_AS_GOOD = 0.6
"""The share of the best language's score from which the expected one is not given up."""
_SPOKEN = 0.1
"""The share of somebody's words from which a language is one that they speak."""


@cache
def ordinary_words(language: str) -> frozenset[str]:
    """Words too frequent to be anybody's name, as the stop-words package lists them; none for other languages."""
    try:
        listed = stop_words.get_stop_words(_LISTED_AS.get(language, language))
    except stop_words.StopWordError:
        listed = []
    return frozenset([*listed, *_ASKS.get(language, ())])


def bare(word: str) -> str:
    """An Arabic word without the article and what is written together with it; any other word as it is.

    As Lucene's analyzer for Arabic does it: the same noun with and without an article begins alike.
    """
    if not _ARABIC.match(word):
        return word
    return _PROCLITIC.sub("", word.translate(_VARIANTS), count=1)


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


def language_of(text: str, *spoken: str) -> str:
    """ISO 639-1: told by the script and, where languages share it, by the ordinary words.

    Args:
        text: a question, a message, or a few keywords.
        spoken: the languages it may well be in, the likeliest first. Another one of the same script is believed only
            where many words speak for it: "dog", "car" and "cat" alone are ordinary words of Danish, French and
            Romanian. Without any, every language comes into question, and English where nothing tells.
    """
    text = text[:_ENOUGH]
    languages = _of_script(text)
    if len(languages) == 1:
        return languages[0]
    if not languages:
        return spoken[0] if spoken else "en"
    found = [match[0] for match in WORD.finditer(text.lower())]
    scores = _scores(found, languages)
    foreign = max(languages, key=lambda language: scores[language])
    at_home = [language for language in spoken if language in languages] or list(languages[:1])
    home = max(at_home, key=lambda language: scores[language])
    if scores[at_home[0]] >= _ABOUT_AS_GOOD * scores[home]:
        home = at_home[0]
    is_home_likely = scores[home] >= _ABOUT_AS_GOOD * scores[foreign]
    return home if is_home_likely or (spoken and not _is_sure(found, foreign)) else foreign


def languages_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The languages that the texts are in, most of the words first; none where nothing tells.

    A text of few words counts only where there is no longer one.
    """
    cut = [text[:_ENOUGH] for text in texts]
    words = Counter[str]()
    for text in [text for text in cut if len(text.split()) >= FEW or WIDE_CHARACTER.search(text)] or [" ".join(cut)]:
        if _of_script(text):
            words[language_of(text)] += len(text.split()) + len(WIDE_CHARACTER.findall(text)) // 2
    least = _SPOKEN * words.total()
    return tuple(language for language, count in words.most_common() if count >= least)


def _of_script(text: str) -> tuple[str, ...]:
    """The languages that are written in the script of most of its letters."""
    letters = [script(character) for character in text]
    counts = {name: letters.count(name) for name in _BY_SCRIPT if name in letters}
    if not counts:
        return ()
    if counts.get("HIRAGANA", 0) + counts.get("KATAKANA", 0) > 0 and counts.get("CJK", 0) > counts.get("LATIN", 0) // 2:
        return ("ja",)
    return _BY_SCRIPT[max(counts, key=lambda name: counts[name] * (3 if name in ("CJK", "HANGUL") else 1))]


def _scores(words: Iterable[str], languages: tuple[str, ...]) -> dict[str, float]:
    scores, weights = dict.fromkeys(languages, 0.0), _weights(languages)
    for word in words:
        for language, weight in weights.get(word, {}).items():
            scores[language] += weight
    return scores


def _is_sure(words: Sequence[str], language: str) -> bool:
    """Whether a text is in a language that nobody here speaks: several of its words, and a third of all, say so."""
    told = ordinary_words(language).intersection(words)
    return len(words) >= FEW and len(told) >= _SEVERAL and 3 * len(told) >= len(set(words))
