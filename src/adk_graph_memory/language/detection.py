"""Detect the language of a text from its script and stop words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache

import stop_words

WIDE_RANGES = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
"""Scripts without spaces between words, and Hangul, which attaches particles to words."""

WIDE_CHARACTER = re.compile(rf"[{WIDE_RANGES}]")
WIDE_RUN = re.compile(rf"[{WIDE_RANGES}]+")
WORD_PATTERN = re.compile(rf"[^\W\d_{WIDE_RANGES}]+(?:['’\-](?!s\b)[^\W\d_{WIDE_RANGES}]+)*")
"""A word of a script with spaces, without a possessive 's."""

_LANGUAGES_BY_SCRIPT = {
    "LATIN": ("en", "de", "es", "fr", "it", "pt", "nl", "pl", "cs", "da", "sv", "nb", "fi", "hu", "ro", "tr", "ca"),
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
"""Question words that the stop-words package does not list."""
_ARABIC_VARIANTS = str.maketrans("أإآٱىة", "اااايه", "ـ")
"""Arabic letters with several spellings, and the tatweel, which only stretches a word."""
_ARABIC_LETTER = re.compile(r"[\u0621-\u064a]")
_ARABIC_PREFIX = re.compile(r"^(?:وال|بال|كال|فال|ال|لل)(?=\w{2})|^و(?=\w{3})")
"""The article and the words written together with the next one (and, with, as, for)."""
_MAX_DETECTION_LENGTH = 400
"""Leading characters of a text that detection reads."""
MIN_CONFIDENT_WORDS, _MIN_STOP_WORDS = 5, 3
"""Words, and stop words among them, that a text needs to count as in a language that is not expected."""
_MIN_SCORE_RATIO = 0.6
"""The share of the best language's score at which the expected language still wins."""
_MIN_LANGUAGE_SHARE = 0.1
"""The share of a person's words from which they speak a language."""


@cache
def load_stop_words(language: str) -> frozenset[str]:
    """The stop words of a language from the stop-words package; empty for a language that it lacks."""
    try:
        words = stop_words.get_stop_words(_STOP_WORD_CODES.get(language, language))
    except stop_words.StopWordError:
        words = []
    return frozenset([*words, *_ARABIC_QUESTION_WORDS.get(language, ())])


def strip_arabic_prefix(word: str) -> str:
    """Strip the article and attached words from an Arabic word; return any other word unchanged.

    Follows Lucene's Arabic analyzer, so that a noun begins alike with and without its article.
    """
    if not _ARABIC_LETTER.match(word):
        return word
    return _ARABIC_PREFIX.sub("", word.translate(_ARABIC_VARIANTS), count=1)


@cache
def _weigh_stop_words(languages: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """The weight of each stop word per language: the more languages share a word, the less it says."""
    languages_by_word: dict[str, list[str]] = {}
    for language in languages:
        for word in load_stop_words(language):
            languages_by_word.setdefault(word, []).append(language)
    return {word: dict.fromkeys(shared, 1 / len(shared)) for word, shared in languages_by_word.items()}


@cache
def get_script(character: str) -> str:
    """The Unicode script name of a letter (LATIN, CYRILLIC, CJK …); empty for any other character."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def detect_language(text: str, *expected_languages: str) -> str:
    """Detect a text's ISO 639-1 language from its script and, where languages share a script, its stop words.

    Args:
        text: a question, a message, or a few keywords.
        expected_languages: likeliest first. Another language of the same script needs many words as
            evidence: "dog", "car" and "cat" are stop words of Danish, French and Romanian. Without expected languages
            all are candidates, and English is the default.
    """
    text = text[:_MAX_DETECTION_LENGTH]
    languages = _list_script_languages(text)
    if len(languages) == 1:
        return languages[0]
    if not languages:
        return expected_languages[0] if expected_languages else "en"
    words = [match[0] for match in WORD_PATTERN.finditer(text.lower())]
    scores = _score_languages(words, languages)
    best = max(languages, key=lambda language: scores[language])
    candidates = [language for language in expected_languages if language in languages] or list(languages[:1])
    expected = max(candidates, key=lambda language: scores[language])
    if scores[candidates[0]] >= _MIN_SCORE_RATIO * scores[expected]:
        expected = candidates[0]
    if scores[expected] >= _MIN_SCORE_RATIO * scores[best]:
        return expected
    # It takes several stop words, and a third of all distinct words, to believe in an unexpected language.
    matches = load_stop_words(best).intersection(words)
    has_enough_words = len(words) >= MIN_CONFIDENT_WORDS and len(matches) >= _MIN_STOP_WORDS
    is_confident = has_enough_words and 3 * len(matches) >= len(set(words))
    return best if is_confident or not expected_languages else expected


def detect_languages(texts: Iterable[str]) -> tuple[str, ...]:
    """The languages of the texts, most words first; empty if no text has letters.

    Texts of few words count only if there is no longer one.
    """
    texts = [text[:_MAX_DETECTION_LENGTH] for text in texts]
    longer = [text for text in texts if len(text.split()) >= MIN_CONFIDENT_WORDS or WIDE_CHARACTER.search(text)]
    word_counts = Counter[str]()
    for text in longer or [" ".join(texts)]:
        if _list_script_languages(text):
            word_counts[detect_language(text)] += len(text.split()) + len(WIDE_CHARACTER.findall(text)) // 2
    min_count = _MIN_LANGUAGE_SHARE * word_counts.total()
    return tuple(language for language, count in word_counts.most_common() if count >= min_count)


def _list_script_languages(text: str) -> tuple[str, ...]:
    """The languages written in the script of most letters of the text."""
    scripts = [get_script(character) for character in text]
    counts = {script: scripts.count(script) for script in _LANGUAGES_BY_SCRIPT if script in scripts}
    if not counts:
        return ()
    if counts.get("HIRAGANA", 0) + counts.get("KATAKANA", 0) > 0 and counts.get("CJK", 0) > counts.get("LATIN", 0) // 2:
        return ("ja",)
    # A CJK or Hangul character says as much as several letters.
    return _LANGUAGES_BY_SCRIPT[max(counts, key=lambda name: counts[name] * (3 if name in ("CJK", "HANGUL") else 1))]


def _score_languages(words: Iterable[str], languages: tuple[str, ...]) -> dict[str, float]:
    scores, weights = dict.fromkeys(languages, 0.0), _weigh_stop_words(languages)
    for word in words:
        for language, weight in weights.get(word, {}).items():
            scores[language] += weight
    return scores
