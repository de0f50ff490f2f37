"""Turn a question into Lucene queries in which nothing the user typed is an operator.

Lucene keeps ``1,240``, ``bees.example.org`` and, in some scripts, a mix like ``wifiи`` as one word. So that a search
for a part finds it too, the parts are indexed beside the text. So is a telephone number in its normal form.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RUN, load_stop_words
from adk_graph_memory.language.quantities import find_number_keys

_JOINED_WORD = re.compile(r"\w++(?:[^\w\s]++\w++)*+")
_QUOTES_TO_SPACES = str.maketrans('"\\', "  ")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Lone surrogates are no characters, and the driver cannot send them."""
_JOINERS = "\u200c\u200d"


def split_words(text: str) -> list[str]:
    """Split a text into its distinct words, each followed by its parts; without quotes and backslashes."""
    words: dict[str, None] = {}
    for token in _find_joined_words(unicodedata.normalize("NFC", text)):
        words.update(dict.fromkeys([token, *_split_joined_word(token)]))
    return list(words)


def extract_word_parts(text: str) -> str | None:
    """Extract what is indexed beside the text: parts of joined words, and numbers; None if there are none."""
    words = dict.fromkeys(_find_joined_words(text))
    parts = dict.fromkeys(part for token in words for part in _split_joined_word(token))
    parts |= dict.fromkeys(number for number in find_number_keys(text) if number not in words)
    return " ".join(parts) or None


def _find_joined_words(text: str) -> list[str]:
    """Find runs of letters, digits and marks, joined by punctuation without spaces: ``O'Brien``, ``3.5``."""
    text = _SURROGATES.sub(" ", text.translate(_QUOTES_TO_SPACES))
    if text.isascii():
        return _JOINED_WORD.findall(text)
    runs = ("".join(run) for is_space, run in itertools.groupby(text, str.isspace) if not is_space)
    words = []
    for run in runs:  # less what stands before its first and after its last word character
        positions = [position for position, character in enumerate(run) if _is_word_character(character)]
        if positions:
            words.append(run[positions[0] : positions[-1] + 1])
    return words


def _is_word_character(character: str) -> bool:
    if character.isalnum() or character == "_" or character in _JOINERS:
        return True
    return unicodedata.category(character).startswith("M")  # vowel signs, accents


def _split_joined_word(token: str) -> list[str]:
    words = ["".join(run) for is_word, run in itertools.groupby(token, _is_word_character) if is_word]
    scripts = ["".join(run) for word in words if not word.isascii() for _, run in itertools.groupby(word, _is_latin)]
    parts = [*words, *scripts]
    return parts if set(parts) != {token} else []


def _is_latin(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    return unicodedata.name(character, "").startswith("LATIN")


PUNCTUATION = ".,;:!?()[]{}«»“”„\"'’、。，；：！？（）「」"
"""Punctuation that may touch a word in a sentence."""
MAX_TERMS = 4_096
"""Maximum number of distinct terms of a text."""
TERMS_PER_QUERY = 128
"""Terms of one query; Lucene refuses more than 1,024 clauses."""

_LANGUAGE_ANALYZERS = {
    "ar": "arabic",
    "bg": "bulgarian",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "it": "italian",
    "ja": "cjk",
    "ko": "cjk",
    "nb": "norwegian",
    "nl": "dutch",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "th": "thai",
    "tr": "turkish",
    "zh": "cjk",
}
"""Neo4j's analyzer for each language."""


def choose_analyzer(language: str, analyzers: Sequence[str]) -> str:
    """Choose the language's own analyzer, or the first one if it is not among them."""
    own = _LANGUAGE_ANALYZERS.get(language, "")
    return own if own in analyzers else analyzers[0]


def get_analyzer_language(analyzer: str) -> str:
    """The language of an analyzer; English for one that serves several languages or none."""
    return next((language for language, own in _LANGUAGE_ANALYZERS.items() if own == analyzer != "cjk"), "en")


def extract_terms(question: str, language: str = "en") -> list[str]:
    """Extract the distinct terms of a question, at most :data:`MAX_TERMS`.

    Stop words are left out, unless there is nothing else; English ones are left to the analyzer. Text written without
    spaces becomes pairs of characters. Of too many terms the longest are kept, because they are the most specific;
    of words joined by punctuation (an address, a path) the parts come before the whole.
    """
    by_folded = {term.casefold(): term for token in split_words(question) for term in _split_wide_token(token)}
    stop_words = load_stop_words(language) if language != "en" else frozenset()
    terms = [term for folded, term in by_folded.items() if folded not in stop_words] or list(by_folded.values())
    if len(terms) <= MAX_TERMS:
        return terms
    return sorted(terms, key=lambda term: (not term.isalnum(), -len(term)))[:MAX_TERMS]


def _split_wide_token(token: str) -> Iterator[str]:
    if not WIDE_CHARACTER.search(token):
        if token.strip("_"):
            yield token
        return
    yield from split_bigrams(token)


def split_bigrams(text: str) -> Iterator[str]:
    """Split text written without spaces into the overlapping pairs of characters by which it is searched."""
    for run in WIDE_RUN.findall(text):
        yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))


def format_lucene_queries(scope: str, terms: Sequence[str], fields: Sequence[str], boost: float = 1.0) -> list[str]:
    """Format the queries for any number of terms, :data:`TERMS_PER_QUERY` each; see :func:`format_lucene_query`."""
    return [
        format_lucene_query(scope, terms[i : i + TERMS_PER_QUERY], fields, boost)
        for i in range(0, len(terms), TERMS_PER_QUERY)
    ]


def format_lucene_query(scope: str, terms: Sequence[str], fields: Sequence[str], boost: float = 1.0) -> str:
    """Format a query for nodes of the scope that contain any of the terms in any of the fields.

    Args:
        scope: a scope's key.
        terms: terms without quotes and backslashes, as :func:`extract_terms` returns them.
        fields: names of indexed properties.
        boost: weight of a hit relative to other queries' hits.
    """
    clauses = " ".join(f'{name}:"{term}"' for term in terms for name in fields)
    # ^0: the scope must not score, or a user's scores would grow with the number of other users' memories.
    # "nobody" keeps the group from being empty: if the analyzer removed all terms as stop words, Lucene would drop
    # the group and match the whole scope.
    return f'+scope:"{scope}"^0 +(scope:"nobody" {clauses})^{boost}'
