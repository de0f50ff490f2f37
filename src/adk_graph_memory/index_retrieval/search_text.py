"""Turn what a user typed into a Lucene query for an index with any analyzer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from adk_graph_memory import errors
from adk_graph_memory.graph import lucene, word_parts
from adk_graph_memory.language.detection import WIDE_CHARACTER, load_stop_words


def choose_stop_words(language: str) -> frozenset[str]:
    """The stop words of a language.

    Raises:
        errors.InvalidArgument: there are none of such a language.
    """
    if not (stop_words := load_stop_words(language)):
        reason = f"no stop words are known of language={language!r}: give an ISO 639-1 code such as en or de"
        raise errors.InvalidArgument(reason=f"{reason}, or filter_stop_words=False")
    return stop_words


def make_search_text(text: str, stop_words: frozenset[str] = frozenset()) -> str:
    """Make a query for what contains any of the text's words; nothing in it is an operator.

    Stop words are left out, unless there is nothing else. Of too many words the longest are kept.

    Returns:
        The query; empty if the text has no word and no symbol such as an emoji.
    """
    terms = list(dict.fromkeys(_split_terms(text)))
    terms = [term for term in terms if term.casefold() not in stop_words] or terms
    if len(terms) > lucene.TERMS_PER_QUERY:
        terms = sorted(terms, key=lambda term: (not term.isalnum(), -len(term)))[: lucene.TERMS_PER_QUERY]
    return " ".join(f'"{term}"' for term in terms)


def _split_terms(text: str) -> Iterator[str]:
    for word in word_parts.split_words(text):
        if word.strip("_"):
            yield word
        if WIDE_CHARACTER.search(word):  # analyzers differ in how they split what is written without spaces
            yield from lucene.split_bigrams(word)
    yield from (character for character in text if unicodedata.category(character) == "So")
