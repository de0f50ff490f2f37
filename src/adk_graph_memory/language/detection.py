"""A text goes in, the language it is most likely written in comes out, with that language's most ordinary words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

import stop_words

WIDE_RANGES = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
"""Scripts that are written without spaces between words, or (Hangul) with what belongs to a word attached to it."""

WIDE_CHARACTER = re.compile(rf"[{WIDE_RANGES}]")
WIDE_RUN = re.compile(rf"[{WIDE_RANGES}]+")

WORD_PATTERN = re.compile(rf"[^\W\d_{WIDE_RANGES}]+(?:['’\-](?!s\b)[^\W\d_{WIDE_RANGES}]+)*")
"""A word of a script with spaces; what a possessive adds to it stays outside."""

_LATIN_LANGUAGES = (
    "en",
    "de",
    "es",
    "fr",
    "it",
    "pt",
    "nl",
    "pl",
    "cs",
    "da",
    "sv",
    "nb",
    "fi",
    "hu",
    "ro",
    "tr",
    "ca",
)
_LANGUAGES_BY_SCRIPT = {
    "LATIN": _LATIN_LANGUAGES,
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
_STOP_WORD_CODES = {"nb": "no"}
_ARABIC_QUESTION_WORDS = {"ar": ["ماذا", "لماذا", "مما", "عما", "متى", "أين", "أي", "أية", "كم", "كيف", "هل"]}
"""Words that ask, where the stop-words package lists none: they are as ordinary as it gets."""
_ARABIC_VARIANTS = str.maketrans("أإآٱىة", "اااايه", "ـ")
"""Arabic letters that people write in several ways, and the stroke that only makes a word longer."""
_ARABIC_LETTER = re.compile(r"[\u0621-\u064a]")
_ARABIC_PREFIX = re.compile(r"^(?:وال|بال|كال|فال|ال|لل)(?=\w{2})|^و(?=\w{3})")
"""The article and what is written together with the word behind it (and, with, as, for)."""
_MAX_DETECTION_LENGTH = 400
"""Characters of a text that its language is told from."""
MIN_CONFIDENT_WORDS, _MIN_STOP_WORDS = 5, 3
"""Words below which no language is believed that nobody here speaks; ordinary words that it takes to believe one."""
_MIN_SCORE_RATIO = 0.6
"""The share of the best language's score from which the expected one is not given up."""
_MIN_LANGUAGE_SHARE = 0.1
"""The share of somebody's words from which a language is one that they speak."""


@cache
def load_stop_words(language: str) -> frozenset[str]:
    """Words too frequent to be anybody's name, as the stop-words package lists them; none for other languages."""
    try:
        listed = stop_words.get_stop_words(_STOP_WORD_CODES.get(language, language))
    except stop_words.StopWordError:
        listed = []
    return frozenset([*listed, *_ARABIC_QUESTION_WORDS.get(language, ())])


def strip_arabic_prefix(word: str) -> str:
    """An Arabic word without the article and what is written together with it; any other word as it is.

    As Lucene's analyzer for Arabic does it: the same noun with and without an article begins alike.
    """
    if not _ARABIC_LETTER.match(word):
        return word
    return _ARABIC_PREFIX.sub("", word.translate(_ARABIC_VARIANTS), count=1)


@cache
def _weigh_stop_words(languages: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Each ordinary word with its languages; one that many languages share tells little about any."""
    bearers: dict[str, list[str]] = {}
    for language in languages:
        for word in load_stop_words(language):
            bearers.setdefault(word, []).append(language)
    return {word: dict.fromkeys(owners, 1 / len(owners)) for word, owners in bearers.items()}


@cache
def get_script(character: str) -> str:
    """The script of a letter as Unicode names it: LATIN, CYRILLIC, CJK …; empty for what is no letter."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def detect_language(text: str, *spoken: str) -> str:
    """ISO 639-1: told by the script and, where languages share it, by the ordinary words.

    Args:
        text: a question, a message, or a few keywords.
        spoken: the languages it may well be in, the likeliest first. Another one of the same script is believed only
            where many words speak for it: "dog", "car" and "cat" alone are ordinary words of Danish, French and
            Romanian. Without any, every language comes into question, and English where nothing tells.
    """
    text = text[:_MAX_DETECTION_LENGTH]
    languages = _list_script_languages(text)
    if len(languages) == 1:
        return languages[0]
    if not languages:
        return spoken[0] if spoken else "en"
    found = [match[0] for match in WORD_PATTERN.finditer(text.lower())]
    scores = _score_languages(found, languages)
    foreign = max(languages, key=lambda language: scores[language])
    at_home = [language for language in spoken if language in languages] or list(languages[:1])
    home = max(at_home, key=lambda language: scores[language])
    if scores[at_home[0]] >= _MIN_SCORE_RATIO * scores[home]:
        home = at_home[0]
    is_home_likely = scores[home] >= _MIN_SCORE_RATIO * scores[foreign]
    return home if is_home_likely or (spoken and not _is_confident(found, foreign)) else foreign


def detect_languages(texts: Iterable[str]) -> tuple[str, ...]:
    """The languages that the texts are in, most of the words first; none where nothing tells.

    A text of few words counts only where there is no longer one.
    """
    cut = [text[:_MAX_DETECTION_LENGTH] for text in texts]
    words = Counter[str]()
    for text in [text for text in cut if len(text.split()) >= MIN_CONFIDENT_WORDS or WIDE_CHARACTER.search(text)] or [
        " ".join(cut)
    ]:
        if _list_script_languages(text):
            words[detect_language(text)] += len(text.split()) + len(WIDE_CHARACTER.findall(text)) // 2
    least = _MIN_LANGUAGE_SHARE * words.total()
    return tuple(language for language, count in words.most_common() if count >= least)


def _list_script_languages(text: str) -> tuple[str, ...]:
    """The languages that are written in the script of most of its letters."""
    letters = [get_script(character) for character in text]
    counts = {name: letters.count(name) for name in _LANGUAGES_BY_SCRIPT if name in letters}
    if not counts:
        return ()
    if counts.get("HIRAGANA", 0) + counts.get("KATAKANA", 0) > 0 and counts.get("CJK", 0) > counts.get("LATIN", 0) // 2:
        return ("ja",)
    return _LANGUAGES_BY_SCRIPT[max(counts, key=lambda name: counts[name] * (3 if name in ("CJK", "HANGUL") else 1))]


def _score_languages(words: Iterable[str], languages: tuple[str, ...]) -> dict[str, float]:
    scores, weights = dict.fromkeys(languages, 0.0), _weigh_stop_words(languages)
    for word in words:
        for language, weight in weights.get(word, {}).items():
            scores[language] += weight
    return scores


def _is_confident(words: Sequence[str], language: str) -> bool:
    """Whether a text is in a language that nobody here speaks: several of its words, and a third of all, say so."""
    told = load_stop_words(language).intersection(words)
    return len(words) >= MIN_CONFIDENT_WORDS and len(told) >= _MIN_STOP_WORDS and 3 * len(told) >= len(set(words))
