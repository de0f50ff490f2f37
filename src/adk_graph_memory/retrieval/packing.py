"""Choose the recollections that fit a model's context: what is said once, long texts cut to a passage."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.detection import WIDE_RANGES
from adk_graph_memory.language.text import count_tokens, fold_text
from adk_graph_memory.records.results import Recollection
from adk_graph_memory.retrieval.coverage import WordRoots

_ELLIPSIS_TOKENS = 3
"""Tokens of the marks at the ends of a passage."""
_MIN_PASSAGE_TOKENS = 64
"""Tokens that a passage may always have, however small the budget."""


def pack_recollections(
    recollections: Sequence[Recollection], *, query: str = "", language: str = "en", limit: int, token_budget: int
) -> list[Recollection]:
    """Return at most ``limit`` recollections of about ``token_budget`` tokens in all, but always the first.

    What one author said again in the same words counts once, with the events of both. A text that would fill more than
    a tenth of the budget is cut to the passage that shares most words with the query.

    Args:
        recollections: best first.
        query: the question.
        language: the language whose stop words are ignored in it.
        limit: the maximum number of recollections.
        token_budget: the maximum number of tokens of text, as :func:`count_tokens` counts them.
    """
    packed: list[Recollection] = []
    indexes: dict[Any, int] = {}
    total_tokens = 0
    roots = WordRoots(lucene.extract_terms(query, language), language)
    passage_tokens = max(_MIN_PASSAGE_TOKENS, token_budget // 10 - _ELLIPSIS_TOKENS)
    for recollection in recollections:
        content = (
            recollection.author,
            recollection.is_current,
            recollection.superseded_by,
            recollection.manner,
            fold_text(recollection.text).rstrip(_END_MARKS),
        )
        if (index := indexes.get(content)) is not None:
            events = dict.fromkeys((*packed[index].source_event_ids, *recollection.source_event_ids))
            packed[index] = replace(packed[index], source_event_ids=tuple(events))
            continue
        text = cut_passage(recollection.text, roots, quote=recollection.quote or "", max_tokens=passage_tokens)
        excerpt = recollection if text == recollection.text else replace(recollection, text=text)
        tokens = count_tokens(excerpt.prompt_text)
        if len(packed) == limit or (packed and total_tokens + tokens > token_budget):
            continue
        indexes[content] = len(packed)
        packed.append(excerpt)
        total_tokens += tokens
    return packed


_END_MARKS = " .!…。！"
_WORD_PIECE = re.compile(rf"\s*(?:[{WIDE_RANGES}]{{1,20}}|[^\s{WIDE_RANGES}]{{1,200}})")
"""A word with the space before it; text without spaces is cut into pieces."""


def cut_passage(text: str, roots: WordRoots, *, quote: str = "", max_tokens: int) -> str:
    """Return the text, or the passage of about ``max_tokens`` that has most of the question's words.

    If the text contains the quote, so does the passage, or as much of it as fits.
    """
    if len(text) <= max_tokens or (
        len(text) <= 20 * max_tokens and count_tokens(text) <= max_tokens
    ):  # no token is less than a character
        return text
    pieces = _WORD_PIECE.findall(text)
    width = max(1, round(max_tokens / max(1.3, count_tokens(text) / len(pieces))))
    matches = [bool(roots.match_text(piece.casefold())) for piece in pieces]
    steps = range(0, max(1, len(pieces) - width + 1), max(1, width // 4))
    starts = [*steps, max(0, len(pieces) - width)]
    quote_start, quote_end = _locate_quote(pieces, text, quote)
    if quote_start is not None:
        starts = list(range(max(0, quote_end - width), quote_start + 1)) or [quote_start]
    start = max(starts, key=lambda i: sum(matches[i : i + width]))
    passage = "".join(pieces[start : start + width]).strip()
    return f"{'… ' if start else ''}{passage}{' …' if start + width < len(pieces) else ''}"


def _locate_quote(pieces: Sequence[str], text: str, quote: str) -> tuple[int | None, int]:
    """Return the index of the first piece of the quote and the one after its last; None if the text lacks it."""
    start = text.find(quote) if quote else -1
    if start < 0:
        return None, 0
    ends = list(accumulate(map(len, pieces)))
    first, last = bisect_right(ends, start), bisect_left(ends, start + len(quote))
    return min(first, len(pieces) - 1), min(last, len(pieces) - 1) + 1
