"""Split a message that is longer than a question into the queries that memory is searched by.

As one query, the ordinary words of a message outweigh the one rare name in it: almost any memory shares some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.words import ordinary_words

LONGEST_QUESTION = 128
"""Words above which a text is a message; an embedder of sentences reads no more of it either."""
_SAYS_SOMETHING = 6
"""Words, without ordinary ones, that the sentences at an end have between them: more than a greeting."""
_AT_THE_ENDS = 2.0
"""What words count there."""
_A_PART = 4
"""Words that are searched for together at the least: a message of 3,000 words makes about a hundred queries."""

_SENTENCE = re.compile(r"(?:[^.!?。！？؟…\n]|[.!?…](?=\S))+[.!?。！？؟…]*")


class Part(NamedTuple):
    """Words that are searched for together, and what they count."""

    terms: list[str]
    boost: float = 1.0


def ending(text: str, language: str) -> str:
    """The last sentences of a message, where most people say what they want; a question as it is."""
    if len(lucene.terms(text)) <= LONGEST_QUESTION:
        return text
    last = _until_telling(_SENTENCE.findall(text)[::-1], language)
    return " ".join(map(str.strip, last[::-1]))


def parts(text: str, language: str) -> list[Part]:
    """What a text is searched by: a question at once; of a message its ends, and each sentence by its new words.

    So each word counts in the sentence that says it first, and twice as much at the ends.
    """
    terms = lucene.terms(text, language)
    if len(terms) <= LONGEST_QUESTION:
        return [Part(terms)]
    sentences = _SENTENCE.findall(text)
    ends = (*_until_telling(sentences, language), *_until_telling(sentences[::-1], language))
    asking = (Part(_telling(sentence, language), _AT_THE_ENDS) for sentence in ends)
    between = _between(sentences, {term.casefold() for term in terms}, language)
    return [part for part in (*asking, *between) if part.terms]


def queries(found: Iterable[Part], scope: str, fields: Sequence[str]) -> list[str]:
    """Lucene queries for the parts of a text in any of the fields."""
    return [query for part in found for query in lucene.queries(scope, part.terms, fields, part.boost)]


def _between(sentences: Iterable[str], unseen: set[str], language: str) -> Iterator[Part]:
    """The new words of each sentence; of several sentences where one has few, for each part is a query."""
    new = list[str]()
    for sentence in sentences:
        for term in _telling(sentence, language):
            if term.casefold() in unseen:
                unseen.remove(term.casefold())
                new.append(term)
        if len(new) >= _A_PART:
            yield Part(new)
            new = []
    yield Part(new)


def _until_telling(sentences: Iterable[str], language: str) -> list[str]:
    """The first sentences up to that with which they say something."""
    taken, words = list[str](), set[str]()
    for sentence in sentences:
        taken.append(sentence)
        words.update(_telling(sentence, language))
        if len(words) >= _SAYS_SOMETHING:
            break
    return taken


def _telling(text: str, language: str) -> list[str]:
    """The words to search for; none where all are ordinary."""
    return [term for term in lucene.terms(text, language) if term.casefold() not in ordinary_words(language)]
