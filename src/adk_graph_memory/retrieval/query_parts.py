"""Split a message that is longer than a question into the queries that memory is searched by.

As one query, the ordinary words of a message outweigh the one rare name in it: almost any memory shares some of them.
All of its queries together have no more words than a question may have, so that a message costs no more than that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.detection import WIDE_RUN, load_stop_words

MAX_QUESTION_WORDS = 128
"""Words above which a text is a message; an embedder of sentences reads no more of it either."""
_MIN_CONTENT_WORDS = 6
"""Words, without ordinary ones, that the sentences at an end have between them: more than a greeting."""
_MAX_SENTENCE_CHARACTERS = 1_000
"""Characters of a sentence at an end, of a longer one those nearest to that end."""
_END_SENTENCE_WORDS = 16
"""Words of a sentence there that are searched for: a question's rather than those of a list."""
_END_BOOST = 2.0
"""What words count there."""
_MAX_PLAIN_WORDS = 32
"""Words from between the ends that are no names: the longest, which are rare as a rule."""
_WORDS_PER_PART = 8
"""Words from between the ends that are searched for together."""

_SENTENCE = re.compile(r"(?:[^.!?。！？؟…\n]|[.!?…](?=\S))+[.!?。！？؟…]*")
_WORD = re.compile(r"\w+")


class QueryPart(NamedTuple):
    """Words that are searched for together, what they count, and whether any of them may name somebody or something."""

    terms: list[str]
    boost: float = 1.0
    has_names: bool = True


def extract_last_sentences(text: str, language: str) -> str:
    """The last sentences of a message, where most people say what they want; a question as it is."""
    if not is_message(text):
        return text
    last = _take_content_sentences(
        [sentence[-_MAX_SENTENCE_CHARACTERS:] for sentence in _SENTENCE.findall(text)[::-1]], language
    )
    return " ".join(map(str.strip, last[::-1]))


def is_message(text: str) -> bool:
    """Whether it has more words than a question; where they are not parted by spaces, pairs of characters count."""
    if len(text) <= MAX_QUESTION_WORDS:
        return False
    words, pairs = _collect_words(text)
    return len(words) + len(pairs) > MAX_QUESTION_WORDS


def split_query_parts(text: str, language: str) -> list[QueryPart]:
    """What a text is searched by: a question at once; of a message its ends, and the words between that tell most."""
    if not is_message(text):
        return [QueryPart(lucene.extract_terms(text, language))]
    sentences = _SENTENCE.findall(text)
    first = _take_content_sentences([sentence[:_MAX_SENTENCE_CHARACTERS] for sentence in sentences], language)
    last = _take_content_sentences([sentence[-_MAX_SENTENCE_CHARACTERS:] for sentence in sentences[::-1]], language)
    ends = [_select_content_words(sentence, language)[:_END_SENTENCE_WORDS] for sentence in first]
    ends += [_select_content_words(sentence, language)[-_END_SENTENCE_WORDS:] for sentence in last]
    seen = [term.casefold() for terms in ends for term in terms]
    named, plain = _select_middle_words(text, set(seen), MAX_QUESTION_WORDS - len(seen), language)
    found = [*(QueryPart(terms, _END_BOOST) for terms in ends), *map(QueryPart, _group_terms(named))]
    found += [QueryPart(terms, has_names=False) for terms in _group_terms(plain)]
    return [part for part in found if part.terms] or [
        QueryPart(lucene.extract_terms(text, language)[:MAX_QUESTION_WORDS])
    ]


def make_part_queries(found: Iterable[QueryPart], scope: str, fields: Sequence[str]) -> list[str]:
    """Lucene queries for the parts of a text in any of the fields."""
    return [query for part in found for query in lucene.make_lucene_queries(scope, part.terms, fields, part.boost)]


def _select_middle_words(text: str, seen: set[str], most: int, language: str) -> tuple[list[str], list[str]]:
    """So many words at most that nobody has seen: names and numbers, or pairs at even distances; and the longest."""
    words, pairs = _collect_words(text)
    known = seen | load_stop_words(language)
    new = [word for folded, word in words.items() if folded not in known]
    longest = sorted(filter(_is_plain, new), key=len, reverse=True)[:_MAX_PLAIN_WORDS]
    named = [word for word in new if not _is_plain(word)][: most - len(longest)]
    unseen, room = [pair for pair in pairs if pair not in seen], most - len(longest) - len(named)
    named += [unseen[i * len(unseen) // room] for i in range(room)] if len(unseen) > room else unseen
    return _split_terms(named, language)[: most - len(longest)], _split_terms(longest, language)[:_MAX_PLAIN_WORDS]


def _is_plain(word: str) -> bool:
    """Whether it looks like no name and no number."""
    return word.islower() and word.isalpha()


def _split_terms(words: Iterable[str], language: str) -> list[str]:
    return [term for word in words for term in lucene.extract_terms(word, language)]


def _group_terms(terms: list[str]) -> list[list[str]]:
    return [terms[start : start + _WORDS_PER_PART] for start in range(0, len(terms), _WORDS_PER_PART)]


def _collect_words(text: str) -> tuple[dict[str, str], list[str]]:
    """The distinct words of a text by their casefolded forms, and of what has no spaces the pairs of characters."""
    words = {word.casefold(): word for word in _WORD.findall(WIDE_RUN.sub(" ", text))}
    return words, list(dict.fromkeys(lucene.split_bigrams(text)))


def _take_content_sentences(sentences: Iterable[str], language: str) -> list[str]:
    """The first sentences up to that with which they say something."""
    taken, words = list[str](), set[str]()
    for sentence in sentences:
        taken.append(sentence)
        words.update(_select_content_words(sentence, language))
        if len(words) >= _MIN_CONTENT_WORDS:
            break
    return taken


def _select_content_words(text: str, language: str) -> list[str]:
    """The words to search for; none where all are ordinary."""
    return [term for term in lucene.extract_terms(text, language) if term.casefold() not in load_stop_words(language)]
