"""A question's words and the texts that they found go in; how far both can be trusted comes out."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from adk_graph_memory.language.words import bare, ordinary_words
from adk_graph_memory.records import is_wide

UNTRUSTED, TRUSTED = 0.1, 0.4
"""The share of a question's words in the best texts up to which they tell nothing, and from which they tell all."""
BEST_READ = 3
"""Texts, those with most of a question's words, that may share them between them."""
_WORD = re.compile(r"\w+")


def trust(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """0…1: a question that shares hardly a word with what was said is answered by meaning, if at all.

    Args:
        terms: the question's words.
        texts: those that words found best.
        language: the question's.
    """
    share = covered(terms, texts, language)
    return min(1.0, max(0.0, (share - UNTRUSTED) / (TRUSTED - UNTRUSTED)))


def likelihood(
    nearness: float | None, terms: Sequence[str], texts: Sequence[str], language: str, fluency: float
) -> float:
    """How likely it is that anything answers the question, by what vectors and words found; see :func:`support`."""
    roots = Roots(terms, language)
    parts = sorted((roots.within(_normal(text)) for text in texts), key=_weight, reverse=True)
    share = len(set().union(*parts[:BEST_READ])) / max(1, len(roots))
    least = 1 + 0.5 / max(1, len(roots))  # of few words even all say less than of many
    best = _weight(parts[0]) / (_weight(roots) * least) if parts and len(roots) else 0.0
    return support(nearness, share, best, fluency)


def support(nearness: float | None, share: float, best: float, fluency: float = 1.0) -> float:
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


def _weight(roots: Collection[str]) -> int:
    """A longer word tells more."""
    return sum(4 + len(root) for root in roots)


def covered(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """The share of the question's words, but for the most ordinary ones, that the texts have between them."""
    roots = Roots(terms, language)
    together = _normal("\n".join(texts))
    return len(roots.within(together)) / max(1, len(roots))


class Roots:
    """What stays of a question's words when their form changes; the most ordinary ones are left out.

    Of what punctuation joins ("dog's", "12:30") the parts tell; a single letter does not.

    Args:
        terms: the question's words.
        language: whose ordinary words tell nothing; empty for none.
    """

    def __init__(self, terms: Sequence[str], language: str) -> None:
        ordinary = ordinary_words(language)
        parts = [term for term in terms if term.isalnum() and (len(term) > 1 or term.isdigit() or is_wide(term))]
        telling = [term for term in parts if term.casefold() not in ordinary] or parts or list(terms)
        roots = {_root(term) for term in telling}
        self._beginnings = {root for root in roots if root.isalnum() and not is_wide(root)}
        self._anywhere = roots - self._beginnings
        self._lengths = sorted({len(root) for root in self._beginnings})

    def __len__(self) -> int:
        return len(self._beginnings) + len(self._anywhere)

    def __iter__(self) -> Iterator[str]:
        return chain(self._beginnings, self._anywhere)

    def __contains__(self, root: object) -> bool:
        return root in self._beginnings or root in self._anywhere

    def within(self, text: str) -> set[str]:
        """Those that a casefolded text has: at the beginning of a word, in scripts without spaces anywhere."""
        starts = {word[:length] for word in set(map(bare, _WORD.findall(text))) for length in self._lengths}
        return (starts & self._beginnings) | {root for root in self._anywhere if root in text}


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _root(term: str) -> str:
    """What of a word stays when its form changes, roughly: *adopt* of *adopted*."""
    term = bare(term.casefold())
    return term if len(term) <= 4 or is_wide(term) else term[: max(4, round(0.7 * len(term)))]
