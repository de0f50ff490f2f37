"""Turn what a user typed into a Lucene query for an index with any analyzer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from adk_graph_memory import errors
from adk_graph_memory.graph import lucene, word_parts
from adk_graph_memory.language.detection import WIDE_CHARACTER, load_stop_words

ENGLISH_STOP_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
    a about after again against all am an and any are aren aren't as at be because been before being below between
    both but by can can't cannot could couldn couldn't d did didn didn't do does doesn doesn't doing don't down
    during each few for from further had hadn hadn't has hasn hasn't have haven haven't having he her here hers
    herself him himself his how i I i'm i've if in into is isn isn't it it's its itself just let's ll m me more most
    my myself no nor not of off on once only or other our ours ourselves out over own please re s same shall she
    should shouldn shouldn't so some such t tell than that that's the their theirs them themselves then there
    there's these they they're this those through to too under until up us ve very was wasn wasn't we we're were
    weren weren't what what's when where where's which while who who's whom whose why will with won't would wouldn
    wouldn't you you're your yours yourself yourselves
        """,
    )
)
"""Words without a meaning of their own. The stop-words package lists "Microsoft", "research" and "10" among them."""


def choose_stop_words(language: str) -> frozenset[str]:
    """The stop words of a language.

    Raises:
        errors.InvalidArgument: there are none of such a language.
    """
    if not (stop_words := ENGLISH_STOP_WORDS if language == "en" else load_stop_words(language)):
        reason = f"no stop words are known of language={language!r}: give an ISO 639-1 code such as en or de"
        raise errors.InvalidArgument(reason=f"{reason}, or filter_stop_words=False")
    return stop_words


def make_search_text(text: str, stop_words: frozenset[str] = frozenset()) -> str:
    """Make a query for what contains any of the text's words; nothing in it is an operator.

    Stop words are left out, unless there is nothing else. A letter is one only as it is listed, so that "vitamin A"
    stays. Of too many words the longest are kept.

    Returns:
        The query; empty if the text has no word and no symbol such as an emoji.
    """
    terms = list(dict.fromkeys(_split_terms(text)))
    terms = [term for term in terms if _fold_word(term) not in stop_words] or terms
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


def _fold_word(word: str) -> str:
    return word if len(word) == 1 else word.casefold().replace("’", "'")
