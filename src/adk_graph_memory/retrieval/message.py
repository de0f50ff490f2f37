"""Split a message that is longer than a question into the queries that memory is searched by.

As one query, the ordinary words of a message outweigh the one rare name in it: almost any memory shares some of them.
All of its queries together have no more words than a question may have, so that a message costs no more than that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.words import WIDE_RUN, ordinary_words

LONGEST_QUESTION = 128
"""Words above which a text is a message; an embedder of sentences reads no more of it either."""
_SAYS_SOMETHING = 6
"""Words, without ordinary ones, that the sentences at an end have between them: more than a greeting."""
_LONGEST_SENTENCE = 1_000
"""Characters of a sentence at an end, of a longer one those nearest to that end."""
_AT_AN_END = 16
"""Words of a sentence there that are searched for: a question's rather than those of a list."""
_AT_THE_ENDS = 2.0
"""What words count there."""
_LONGEST = 32
"""Words from between the ends that are no names: the longest, which are rare as a rule."""
_A_PART = 8
"""Words from between the ends that are searched for together."""

_SENTENCE = re.compile(r"(?:[^.!?。！？؟…\n]|[.!?…](?=\S))+[.!?。！？؟…]*")
_WORD = re.compile(r"\w+")


class Part(NamedTuple):
    """Words that are searched for together, what they count, and whether any of them may name somebody or something."""

    terms: list[str]
    boost: float = 1.0
    has_names: bool = True


def ending(text: str, language: str) -> str:
    """The last sentences of a message, where most people say what they want; a question as it is."""
    if not is_message(text):
        return text
    last = _until_telling([sentence[-_LONGEST_SENTENCE:] for sentence in _SENTENCE.findall(text)[::-1]], language)
    return " ".join(map(str.strip, last[::-1]))


def is_message(text: str) -> bool:
    """Whether it has more words than a question; where they are not parted by spaces, pairs of characters count."""
    if len(text) <= LONGEST_QUESTION:
        return False
    words, pairs = _words(text)
    return len(words) + len(pairs) > LONGEST_QUESTION


def parts(text: str, language: str) -> list[Part]:
    """What a text is searched by: a question at once; of a message its ends, and the words between that tell most."""
    if not is_message(text):
        return [Part(lucene.terms(text, language))]
    sentences = _SENTENCE.findall(text)
    first = _until_telling([sentence[:_LONGEST_SENTENCE] for sentence in sentences], language)
    last = _until_telling([sentence[-_LONGEST_SENTENCE:] for sentence in sentences[::-1]], language)
    ends = [_telling(sentence, language)[:_AT_AN_END] for sentence in first]
    ends += [_telling(sentence, language)[-_AT_AN_END:] for sentence in last]
    seen = [term.casefold() for terms in ends for term in terms]
    named, plain = _between(text, set(seen), LONGEST_QUESTION - len(seen), language)
    found = [*(Part(terms, _AT_THE_ENDS) for terms in ends), *map(Part, _groups(named))]
    found += [Part(terms, has_names=False) for terms in _groups(plain)]
    return [part for part in found if part.terms] or [Part(lucene.terms(text, language)[:LONGEST_QUESTION])]


def queries(found: Iterable[Part], scope: str, fields: Sequence[str]) -> list[str]:
    """Lucene queries for the parts of a text in any of the fields."""
    return [query for part in found for query in lucene.queries(scope, part.terms, fields, part.boost)]


def _between(text: str, seen: set[str], most: int, language: str) -> tuple[list[str], list[str]]:
    """So many words at most that nobody has seen: names and numbers, or pairs at even distances; and the longest."""
    words, pairs = _words(text)
    known = seen | ordinary_words(language)
    new = [word for folded, word in words.items() if folded not in known]
    longest = sorted(filter(_is_plain, new), key=len, reverse=True)[:_LONGEST]
    named = [word for word in new if not _is_plain(word)][: most - len(longest)]
    unseen, room = [pair for pair in pairs if pair not in seen], most - len(longest) - len(named)
    named += [unseen[i * len(unseen) // room] for i in range(room)] if len(unseen) > room else unseen
    return _terms(named, language)[: most - len(longest)], _terms(longest, language)[:_LONGEST]


def _is_plain(word: str) -> bool:
    """Whether it looks like no name and no number."""
    return word.islower() and word.isalpha()


def _terms(words: Iterable[str], language: str) -> list[str]:
    return [term for word in words for term in lucene.terms(word, language)]


def _groups(terms: list[str]) -> list[list[str]]:
    return [terms[start : start + _A_PART] for start in range(0, len(terms), _A_PART)]


def _words(text: str) -> tuple[dict[str, str], list[str]]:
    """The distinct words of a text by their casefolded forms, and of what has no spaces the pairs of characters."""
    words = {word.casefold(): word for word in _WORD.findall(WIDE_RUN.sub(" ", text))}
    return words, list(dict.fromkeys(lucene.cut_pairs(text)))


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
