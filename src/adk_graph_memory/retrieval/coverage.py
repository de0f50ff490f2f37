"""A question's words and the texts that they found go in; how far both can be trusted comes out."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from adk_graph_memory.language.detection import load_stop_words, strip_arabic_prefix
from adk_graph_memory.records import has_wide_character

UNTRUSTED_SHARE, TRUSTED_SHARE = 0.1, 0.4
"""The share of a question's words in the best texts up to which they tell nothing, and from which they tell all."""
BEST_TEXTS = 3
"""Texts, those with most of a question's words, that may share them between them."""
_WORD = re.compile(r"\w+")


def measure_word_trust(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """0…1: a question that shares hardly a word with what was said is answered by meaning, if at all.

    Args:
        terms: the question's words.
        texts: those that words found best.
        language: the question's.
    """
    share = measure_coverage(terms, texts, language)
    return min(1.0, max(0.0, (share - UNTRUSTED_SHARE) / (TRUSTED_SHARE - UNTRUSTED_SHARE)))


def estimate_answer_likelihood(
    nearness: float | None, terms: Sequence[str], texts: Sequence[str], language: str, fluency: float
) -> float:
    """How likely it is that anything answers the question, by vectors and words; see :func:`combine_evidence`."""
    roots = WordRoots(terms, language)
    parts = sorted((roots.match_text(_normalize_text(text)) for text in texts), key=_weigh_roots, reverse=True)
    share = len(set().union(*parts[:BEST_TEXTS])) / max(1, len(roots))
    least = 1 + 0.5 / max(1, len(roots))  # of few words even all say less than of many
    best = _weigh_roots(parts[0]) / (_weigh_roots(roots) * least) if parts and len(roots) else 0.0
    return combine_evidence(nearness, share, best, fluency)


def combine_evidence(nearness: float | None, share: float, best: float, fluency: float = 1.0) -> float:
    """0…1: how likely it is that anything which was said answers the question at all.

    Where the vectors know the language they tell it, fitted to ``benchmarks.quality.unanswerable``; where they do not,
    the words of one text do, fitted to Chinese and Russian questions whose paragraph was left out. Between both count.

    Args:
        nearness: of the nearest memory: 0 as near as this user's memories are as a rule, 1 the question itself.
        share: of the question's words in the few texts that have most of them.
        best: the share of them that a single text has, by their length.
        fluency: 0…1, how far the vectors know the question's language.
    """
    by_words = 8.0 * best - 3.6
    by_vector = by_words if nearness is None else 8.2 * nearness + 1.4 * share - 4.5
    return 1.0 / (1.0 + math.exp(-(fluency * by_vector + (1.0 - fluency) * by_words)))


def _weigh_roots(roots: Collection[str]) -> int:
    """A longer word tells more."""
    return sum(4 + len(root) for root in roots)


def measure_coverage(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """The share of the question's words, but for the most ordinary ones, that the texts have between them."""
    roots = WordRoots(terms, language)
    together = _normalize_text("\n".join(texts))
    return len(roots.match_text(together)) / max(1, len(roots))


class WordRoots:
    """What stays of a question's words when their form changes; the most ordinary ones are left out.

    Of what punctuation joins ("dog's", "12:30") the parts tell; a single letter does not.

    Args:
        terms: the question's words.
        language: whose ordinary words tell nothing; empty for none.
    """

    def __init__(self, terms: Sequence[str], language: str) -> None:
        ordinary = load_stop_words(language)
        parts = [
            term for term in terms if term.isalnum() and (len(term) > 1 or term.isdigit() or has_wide_character(term))
        ]
        telling = [term for term in parts if term.casefold() not in ordinary] or parts or list(terms)
        roots = {_stem_word(term) for term in telling}
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
        """Those that a casefolded text has: at the beginning of a word, in scripts without spaces anywhere."""
        starts = {
            word[:length]
            for word in set(map(strip_arabic_prefix, _WORD.findall(text)))
            for length in self._prefix_lengths
        }
        return (starts & self._prefixes) | {root for root in self._substrings if root in text}


def _normalize_text(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _stem_word(term: str) -> str:
    """What of a word stays when its form changes, roughly: *adopt* of *adopted*."""
    term = strip_arabic_prefix(term.casefold())
    return term if len(term) <= 4 or has_wide_character(term) else term[: max(4, round(0.7 * len(term)))]
