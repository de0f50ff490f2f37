"""Measure how many of a question's words occur in the texts that were found, and so how far both can be trusted."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from adk_graph_memory.language.detection import load_stop_words, strip_arabic_prefix
from adk_graph_memory.language.text import has_wide_character

MIN_SCORE, MIN_SCORE_BY_WORDS = 0.06, 0.03
"""The least score of a memory that may answer, in a language that vectors know and in one that they do not: there,
nothing with a word of the question is below. Of a hundred questions in LoCoMo, chats, updates, ``unanswerable`` and the
recorded conversations, at most 0.7 lose evidence that they had among the first ten."""
MIN_FLUENCY = 0.9
"""How well vectors have to know a question's language for the first of the two, and for doubts."""
DOUBTFUL_LIKELIHOOD = 0.25
"""The likelihood, in a language that vectors know, below which it is doubtful that anything answers.

With names that nobody mentioned, chosen on five of the ten lives of ``unanswerable``: of their questions it doubts
61.5 % that have no answer and 1.5 % that have one, on the other five 59.3 and 4.4 %, and of LoCoMo's 6.7 %.
"""
UNTRUSTED_SHARE, TRUSTED_SHARE = 0.1, 0.4
"""Shares of a question's words in the best texts: up to the first, words count nothing; from the second on, fully."""
BEST_TEXTS = 3
"""Texts, those with most of a question's words, that may cover them between them."""
_WORD = re.compile(r"\w+")
_LATER_WORD = re.compile(r"(?<=\w )[^\W\d_]\w+")
"""A word that does not begin a sentence."""


def measure_word_trust(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """Rate from 0 to 1 how far a question's words are trusted: if hardly any was ever said, only meaning can answer.

    Args:
        terms: the question's words.
        texts: the best texts by words.
        language: the question's language.
    """
    share = measure_coverage(terms, texts, language)
    return min(1.0, max(0.0, (share - UNTRUSTED_SHARE) / (TRUSTED_SHARE - UNTRUSTED_SHARE)))


def estimate_answer_likelihood(
    nearness: float | None,
    terms: Sequence[str],
    texts: Sequence[str],
    language: str,
    fluency: float,
    date_words: Sequence[str] = (),
) -> float:
    """Estimate by vectors and words how likely anything answers the question; see :func:`combine_evidence`.

    The words of a date, which texts of that time need not have, count as if each text had them.
    """
    roots = WordRoots(terms, language)
    date_roots = roots.match_text(_normalize_text(" ".join(date_words)))
    matches = [roots.match_text(_normalize_text(text)) | date_roots for text in texts]
    matches.sort(key=_weigh_roots, reverse=True)
    share = len(date_roots.union(*matches[:BEST_TEXTS])) / max(1, len(roots))
    scale = 1 + 0.5 / max(1, len(roots))  # all of a few words say less than all of many
    best_share = _weigh_roots(matches[0]) / (_weigh_roots(roots) * scale) if matches and len(roots) else 0.0
    return combine_evidence(nearness, share, best_share, fluency)


def combine_evidence(nearness: float | None, share: float, best_share: float, fluency: float = 1.0) -> float:
    """Estimate from 0 to 1 how likely anything that was said answers the question at all.

    Vectors decide for a language that they know, as fitted to ``benchmarks.quality.unanswerable``. For one that they
    do not know, the words of a single text decide, as fitted to Chinese and Russian questions whose paragraph was left
    out. Between the two, both count.

    Args:
        nearness: of the nearest memory: 0 is this user's usual distance, 1 the question itself.
        share: the share of the question's words in the few texts that have most of them.
        best_share: the share of them in a single text, weighted by their length.
        fluency: 0 to 1, how well the vectors know the question's language.
    """
    word_evidence = 8.0 * best_share - 3.6
    vector_evidence = word_evidence if nearness is None else 8.2 * nearness + 1.4 * share - 4.5
    return 1.0 / (1.0 + math.exp(-(fluency * vector_evidence + (1.0 - fluency) * word_evidence)))


def has_unheard_name(question: str, texts: Iterable[str]) -> bool:
    """Whether an English question has a name, not as its first word, that occurs in none of the texts."""
    names = [_normalize_text(word) for word in _LATER_WORD.findall(question) if word[0].isupper()]
    text = _normalize_text("\n".join(texts)) if names else ""
    return any(name not in text for name in names)


def _weigh_roots(roots: Collection[str]) -> int:
    """Add up the roots' weights; a longer word says more."""
    return sum(4 + len(root) for root in roots)


def measure_coverage(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """Return the share of the question's words, stop words aside, that the texts have between them."""
    roots = WordRoots(terms, language)
    joined_text = _normalize_text("\n".join(texts))
    return len(roots.match_text(joined_text)) / max(1, len(roots))


class WordRoots:
    """The part of each of a question's words that stays when its form changes, without stop words.

    Words joined by punctuation ("dog's", "12:30") count as their parts; a single letter does not count.

    Args:
        terms: the question's words.
        language: the language whose stop words are left out; empty for none.
    """

    def __init__(self, terms: Sequence[str], language: str) -> None:
        stop_words = load_stop_words(language)
        words = [
            term for term in terms if term.isalnum() and (len(term) > 1 or term.isdigit() or has_wide_character(term))
        ]
        content_words = [word for word in words if word.casefold() not in stop_words] or words or list(terms)
        stems = [strip_arabic_prefix(word.casefold()) for word in content_words]
        # What stays of a word when its form changes, roughly: *adopt* of *adopted*.
        roots = {
            stem if len(stem) <= 4 or has_wide_character(stem) else stem[: max(4, round(0.7 * len(stem)))]
            for stem in stems
        }
        self._prefixes = {root for root in roots if root.isalnum() and not has_wide_character(root)}
        self._substrings = roots - self._prefixes
        self._prefix_lengths = sorted({len(root) for root in self._prefixes})

    def __len__(self) -> int:
        return len(self._prefixes) + len(self._substrings)

    def __iter__(self) -> Iterator[str]:
        return chain(self._prefixes, self._substrings)

    def __contains__(self, root: object) -> bool:
        return root in self._prefixes or root in self._substrings

    def match_text(self, text: str) -> set[str]:
        """Return the roots in a casefolded text: at the start of a word, or anywhere in scripts without spaces."""
        starts = {
            word[:length]
            for word in set(map(strip_arabic_prefix, _WORD.findall(text)))
            for length in self._prefix_lengths
        }
        return (starts & self._prefixes) | {root for root in self._substrings if root in text}


def _normalize_text(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()
