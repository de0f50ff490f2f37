"""A question goes in as people type it, a Lucene query comes out in which nothing they typed is an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adk_graph_memory.graph import words
from adk_graph_memory.language.words import WIDE_CHARACTER, WIDE_RUN, ordinary_words

MARKS = ".,;:!?()[]{}«»“”„\"'’、。，；：！？（）「」"
"""What stands beside a word in a sentence."""
MOST_TERMS = 4_096
"""Distinct words that a text is cut into at most."""
TERMS_A_QUERY = 128
"""Words of one query; Lucene refuses more than 1,024 clauses."""

_ANALYZERS = {
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


def analyzer(language: str, analyzers: Sequence[str]) -> str:
    """Which of the analyzers knows the language best: its own, or else the first."""
    own = _ANALYZERS.get(language, "")
    return own if own in analyzers else analyzers[0]


def language(analyzer: str) -> str:
    """The language that an analyzer was made for; English where it is made for several, or for none."""
    return next((language for language, own in _ANALYZERS.items() if own == analyzer != "cjk"), "en")


def terms(question: str, language: str = "en") -> list[str]:
    """The question's distinct words, at most :data:`MOST_TERMS`; of more, the longest, which say most.

    Of what punctuation joins (an address, a path) the parts count more than the whole.

    The most ordinary words of its language are left out where any other is left; of English the analyzer knows them.
    What is written without spaces is searched by pairs of characters.
    """
    found = list({term.casefold(): term for token in words.tokens(question) for term in _cut(token)}.values())
    ordinary = ordinary_words(language) if language != "en" else frozenset()
    found = [term for term in found if term.casefold() not in ordinary] or found
    if len(found) <= MOST_TERMS:
        return found
    return sorted(found, key=lambda term: (not term.isalnum(), -len(term)))[:MOST_TERMS]


def _cut(token: str) -> Iterator[str]:
    if not WIDE_CHARACTER.search(token):
        if token.strip("_"):
            yield token
        return
    yield from cut_pairs(token)


def cut_pairs(text: str) -> Iterator[str]:
    """The pairs of characters by which what is written without spaces is searched."""
    for run in WIDE_RUN.findall(text):
        yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))


def queries(scope: str, found: Sequence[str], fields: Sequence[str], boost: float = 1.0) -> list[str]:
    """As :func:`scoped`, in as many queries as it takes."""
    return [scoped(scope, found[i : i + TERMS_A_QUERY], fields, boost) for i in range(0, len(found), TERMS_A_QUERY)]


def scoped(scope: str, found: Sequence[str], fields: Sequence[str], boost: float = 1.0) -> str:
    """A query for nodes of the scope that hold any of the words in any of the fields.

    Args:
        scope: a scope's key.
        found: words of letters, digits and underscores alone, as :func:`terms` gives them.
        fields: names of properties in the index.
        boost: what a hit counts beside those of other queries.
    """
    wanted = " ".join(f'{name}:"{term}"' for term in found for name in fields)
    # Whose memories they are is no merit: ^0, or a user's scores would grow with everybody else's memories.
    # Where all words are stop words, Lucene would drop an empty group and then find the whole scope.
    return f'+scope:"{scope}"^0 +(scope:"nobody" {wanted})^{boost}'
