"""Split a message that is longer than a question into several queries.

In a single query, a message's ordinary words outweigh the one rare name in it: almost any memory shares some of them.
All its queries together have no more words than a question may have, so a message costs no more than a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.detection import WIDE_RUN, load_stop_words

MAX_QUESTION_WORDS = 128
"""A text with more words is a message; a sentence embedder reads no more of it either."""
_MIN_CONTENT_WORDS = 6
"""Words, not counting stop words, that the sentences taken from an end have at least: more than a greeting."""
_MAX_SENTENCE_CHARACTERS = 1_000
"""Characters used of a sentence at an end: those nearest to that end."""
_END_SENTENCE_WORDS = 16
"""Words searched for of such a sentence: enough for a question, not for a list."""
_END_BOOST = 2.0
"""The boost of such words."""
IDENTIFIER_BOOST = 64.0
"""The boost of a number or a code: more than the groups of its digits together, which others have too, though a word is
the less rare for Lucene the fewer memories have any in that property."""
_MAX_PLAIN_WORDS = 32
"""Words from the middle that are not names: the longest, which are usually rare."""
_WORDS_PER_PART = 8
"""Words from the middle that are searched for together."""

_SENTENCE = re.compile(r"(?:[^.!?。！？؟…\n]|[.!?…](?=\S))+[.!?。！？؟…]*")
_WORD = re.compile(r"\w+")


class QueryPart(NamedTuple):
    """Words that are searched for together, their boost, and whether any of them may be a name."""

    terms: list[str]
    boost: float = 1.0
    has_names: bool = True


def extract_last_sentences(text: str, language: str) -> str:
    """Return the last sentences of a message, where most people say what they want; a question unchanged."""
    if not is_message(text):
        return text
    sentences = _take_content_sentences(
        [sentence[-_MAX_SENTENCE_CHARACTERS:] for sentence in _SENTENCE.findall(text)[::-1]], language
    )
    return " ".join(map(str.strip, sentences[::-1]))


def is_message(text: str) -> bool:
    """Whether a text has more words than a question; in scripts without spaces, pairs of characters count as words."""
    if len(text) <= MAX_QUESTION_WORDS:
        return False
    words, pairs = _collect_words(text)
    return len(words) + len(pairs) > MAX_QUESTION_WORDS


def split_query_parts(text: str, language: str) -> list[QueryPart]:
    """Split a text into query parts: a question is one; a message gives its ends and the rarest words between them."""
    if not is_message(text):
        return [QueryPart(lucene.extract_terms(text, language))]
    sentences = _SENTENCE.findall(text)
    first = _take_content_sentences([sentence[:_MAX_SENTENCE_CHARACTERS] for sentence in sentences], language)
    last = _take_content_sentences([sentence[-_MAX_SENTENCE_CHARACTERS:] for sentence in sentences[::-1]], language)
    ends = [_select_content_words(sentence, language)[:_END_SENTENCE_WORDS] for sentence in first]
    ends += [_select_content_words(sentence, language)[-_END_SENTENCE_WORDS:] for sentence in last]
    end_terms = [term.casefold() for terms in ends for term in terms]
    names, plain_words = _select_middle_words(text, set(end_terms), MAX_QUESTION_WORDS - len(end_terms), language)
    parts = [*(QueryPart(terms, _END_BOOST) for terms in ends), *map(QueryPart, _group_terms(names))]
    parts += [QueryPart(terms, has_names=False) for terms in _group_terms(plain_words)]
    return [part for part in parts if part.terms] or [
        QueryPart(lucene.extract_terms(text, language)[:MAX_QUESTION_WORDS])
    ]


def make_part_queries(parts: Iterable[QueryPart], scope: str, fields: Sequence[str]) -> list[str]:
    """Make the Lucene queries that search any of the fields for the parts."""
    return [query for part in parts for query in lucene.make_lucene_queries(scope, part.terms, fields, part.boost)]


def _select_middle_words(text: str, end_terms: set[str], limit: int, language: str) -> tuple[list[str], list[str]]:
    """Select at most ``limit`` words that the ends lack: names, numbers and evenly spaced pairs; and the longest."""
    words, pairs = _collect_words(text)
    excluded_words = end_terms | load_stop_words(language)
    candidates = [word for folded, word in words.items() if folded not in excluded_words]
    plain_words = sorted(filter(_is_plain, candidates), key=len, reverse=True)[:_MAX_PLAIN_WORDS]
    names = [word for word in candidates if not _is_plain(word)][: limit - len(plain_words)]
    pairs, room = [pair for pair in pairs if pair not in end_terms], limit - len(plain_words) - len(names)
    names += [pairs[i * len(pairs) // room] for i in range(room)] if len(pairs) > room else pairs
    name_terms, plain_terms = _split_terms(names, language), _split_terms(plain_words, language)
    return name_terms[: limit - len(plain_words)], plain_terms[:_MAX_PLAIN_WORDS]


def _is_plain(word: str) -> bool:
    """Whether a word looks like neither a name nor a number."""
    return word.islower() and word.isalpha()


def _split_terms(words: Iterable[str], language: str) -> list[str]:
    return [term for word in words for term in lucene.extract_terms(word, language)]


def _group_terms(terms: list[str]) -> list[list[str]]:
    return [terms[start : start + _WORDS_PER_PART] for start in range(0, len(terms), _WORDS_PER_PART)]


def _collect_words(text: str) -> tuple[dict[str, str], list[str]]:
    """Return a text's distinct words by casefolded form and, for scripts without spaces, its pairs of characters."""
    words = {word.casefold(): word for word in _WORD.findall(WIDE_RUN.sub(" ", text))}
    return words, list(dict.fromkeys(lucene.split_bigrams(text)))


def _take_content_sentences(sentences: Iterable[str], language: str) -> list[str]:
    """Take the first sentences until together they have enough content words."""
    first_sentences, words = list[str](), set[str]()
    for sentence in sentences:
        first_sentences.append(sentence)
        words.update(_select_content_words(sentence, language))
        if len(words) >= _MIN_CONTENT_WORDS:
            break
    return first_sentences


def _select_content_words(text: str, language: str) -> list[str]:
    """Return the words to search for, without stop words."""
    return [term for term in lucene.extract_terms(text, language) if term.casefold() not in load_stop_words(language)]
