"""A question's words and the texts that they found go in; how far both can be trusted comes out."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from adk_graph_memory.language.words import ordinary_words
from adk_graph_memory.records import is_wide

UNTRUSTED, TRUSTED = 0.1, 0.4
"""The share of a question's words in the best texts up to which they tell nothing, and from which they tell all."""


def trust(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """0…1: a question that shares hardly a word with what was said is answered by meaning, if at all.

    Args:
        terms: the question's words.
        texts: those that words found best.
        language: the question's.
    """
    share = covered(terms, texts, language)
    return min(1.0, max(0.0, (share - UNTRUSTED) / (TRUSTED - UNTRUSTED)))


def support(nearness: float | None, share: float) -> float:
    """0…1: how likely it is that anything which was said answers the question at all.

    Fitted to the generated questions of ``benchmarks.quality.unanswerable``.

    Args:
        nearness: of the nearest memory: 0 as near as this user's memories are as a rule, 1 the question itself.
        share: of the question's words in the texts that they found best.
    """
    evidence = 6.0 * share - 3.0 if nearness is None else 8.2 * nearness + 1.4 * share - 4.5
    return 1.0 / (1.0 + math.exp(-evidence))


def covered(terms: Sequence[str], texts: Sequence[str], language: str) -> float:
    """The share of the question's words, but for the most ordinary ones, that the texts have between them."""
    patterns = telling(terms, language)
    together = unicodedata.normalize("NFC", "\n".join(texts)).casefold()
    return sum(pattern.search(together) is not None for pattern in patterns) / max(1, len(patterns))


def telling(terms: Sequence[str], language: str) -> list[re.Pattern[str]]:
    """What finds the question's words, but for the most ordinary ones, in casefolded text, each whatever its form.

    Of what punctuation joins ("dog's", "12:30") the parts tell; a single letter does not.
    """
    parts = [term for term in terms if term.isalnum() and (len(term) > 1 or term.isdigit() or is_wide(term))]
    telling = [term for term in parts if term.casefold() not in ordinary_words(language)] or parts or list(terms)
    return [_pattern(root) for root in dict.fromkeys(map(_root, telling))]


def _root(term: str) -> str:
    """What of a word stays when its form changes, roughly: *adopt* of *adopted*."""
    term = term.casefold()
    return term if len(term) <= 4 or is_wide(term) else term[: max(4, round(0.7 * len(term)))]


@lru_cache(maxsize=1_024)
def _pattern(root: str) -> re.Pattern[str]:
    return re.compile(re.escape(root) if is_wide(root) else rf"(?<!\w){re.escape(root)}")
