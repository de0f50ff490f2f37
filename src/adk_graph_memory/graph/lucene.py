"""A question goes in as people type it, a Lucene query comes out in which nothing they typed is an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adk_graph_memory.graph import word_parts
from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RUN, load_stop_words

PUNCTUATION = ".,;:!?()[]{}«»“”„\"'’、。，；：！？（）「」"
"""What stands beside a word in a sentence."""
MAX_TERMS = 4_096
"""Distinct words that a text is cut into at most."""
TERMS_PER_QUERY = 128
"""Words of one query; Lucene refuses more than 1,024 clauses."""

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
"""Neo4j's analyzers by the language that they know."""


def choose_analyzer(language: str, analyzers: Sequence[str]) -> str:
    """Which of the analyzers knows the language best: its own, or else the first."""
    own = _LANGUAGE_ANALYZERS.get(language, "")
    return own if own in analyzers else analyzers[0]


def get_analyzer_language(analyzer: str) -> str:
    """The language that an analyzer was made for; English where it is made for several, or for none."""
    return next((language for language, own in _LANGUAGE_ANALYZERS.items() if own == analyzer != "cjk"), "en")


def extract_terms(question: str, language: str = "en") -> list[str]:
    """The question's distinct words, at most :data:`MAX_TERMS`; of more, the longest, which say most.

    Of what punctuation joins (an address, a path) the parts count more than the whole.

    The most ordinary words of its language are left out where any other is left; of English the analyzer knows them.
    What is written without spaces is searched by pairs of characters.
    """
    found = list(
        {
            term.casefold(): term for token in word_parts.split_words(question) for term in _split_wide_token(token)
        }.values()
    )
    ordinary = load_stop_words(language) if language != "en" else frozenset()
    found = [term for term in found if term.casefold() not in ordinary] or found
    if len(found) <= MAX_TERMS:
        return found
    return sorted(found, key=lambda term: (not term.isalnum(), -len(term)))[:MAX_TERMS]


def _split_wide_token(token: str) -> Iterator[str]:
    if not WIDE_CHARACTER.search(token):
        if token.strip("_"):
            yield token
        return
    yield from split_bigrams(token)


def split_bigrams(text: str) -> Iterator[str]:
    """The pairs of characters by which what is written without spaces is searched."""
    for run in WIDE_RUN.findall(text):
        yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))


def make_lucene_queries(scope: str, found: Sequence[str], fields: Sequence[str], boost: float = 1.0) -> list[str]:
    """As :func:`make_lucene_query`, in as many queries as it takes."""
    return [
        make_lucene_query(scope, found[i : i + TERMS_PER_QUERY], fields, boost)
        for i in range(0, len(found), TERMS_PER_QUERY)
    ]


def make_lucene_query(scope: str, found: Sequence[str], fields: Sequence[str], boost: float = 1.0) -> str:
    """A query for nodes of the scope that hold any of the words in any of the fields.

    Args:
        scope: a scope's key.
        found: words of letters, digits and underscores alone, as :func:`extract_terms` gives them.
        fields: names of properties in the index.
        boost: what a hit counts beside those of other queries.
    """
    wanted = " ".join(f'{name}:"{term}"' for term in found for name in fields)
    # Whose memories they are is no merit: ^0, or a user's scores would grow with everybody else's memories.
    # Where all words are stop words, Lucene would drop an empty group and then find the whole scope.
    return f'+scope:"{scope}"^0 +(scope:"nobody" {wanted})^{boost}'
