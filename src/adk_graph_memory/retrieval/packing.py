"""Recollections go in, best first; those that fit a model's context come out, each thing said once."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.detection import WIDE_RANGES
from adk_graph_memory.records import Recollection, count_tokens, fold_text
from adk_graph_memory.retrieval.coverage import WordRoots

_ELLIPSIS_TOKENS = 3
"""Tokens of the marks at the ends of a passage."""
_MIN_PASSAGE_TOKENS = 64
"""Tokens that a passage has at least, however small the budget."""


def pack_recollections(
    found: Sequence[Recollection], *, query: str = "", language: str = "en", limit: int, token_budget: int
) -> list[Recollection]:
    """At most ``limit`` recollections of together about ``token_budget`` tokens, but always the first.

    What one author said again in the same words counts once, with the events of both. A text that would fill more than
    a tenth of the budget is cut to the passage that shares most words with the query.

    Args:
        found: best first.
        query: the question.
        language: whose ordinary words say nothing in it.
        limit: how many at most.
        token_budget: tokens of text at most, by ``token_count``'s count.
    """
    kept: list[Recollection] = []
    places: dict[Any, int] = {}
    spent = 0
    asked = WordRoots(lucene.extract_terms(query, language), language)
    longest = max(_MIN_PASSAGE_TOKENS, token_budget // 10 - _ELLIPSIS_TOKENS)
    for memory in found:
        said = (
            memory.author,
            memory.is_current,
            memory.superseded_by,
            memory.manner,
            fold_text(memory.text).rstrip(_END_MARKS),
        )
        if (place := places.get(said)) is not None:
            events = dict.fromkeys((*kept[place].source_event_ids, *memory.source_event_ids))
            kept[place] = replace(kept[place], source_event_ids=tuple(events))
            continue
        text = cut_passage(memory.text, asked, quote=memory.quote or "", most=longest)
        cut = memory if text == memory.text else replace(memory, text=text)
        cost = count_tokens(cut.prompt_text)
        if len(kept) == limit or (kept and spent + cost > token_budget):
            continue
        places[said] = len(kept)
        kept.append(cut)
        spent += cost
    return kept


_END_MARKS = " .!…。！"
_WORD_PIECE = re.compile(rf"\s*(?:[{WIDE_RANGES}]{{1,20}}|[^\s{WIDE_RANGES}]{{1,200}})")
"""A word with the space before it; what has no spaces is cut into pieces."""


def cut_passage(text: str, asked: WordRoots, *, quote: str = "", most: int) -> str:
    """The text, or of a longer one the run of about ``most`` tokens that has most of the question's words.

    Where the text holds the quote, so does the passage, or as much of it as fits.
    """
    if len(text) <= most or (
        len(text) <= 20 * most and count_tokens(text) <= most
    ):  # no token is less than a character
        return text
    pieces = _WORD_PIECE.findall(text)
    width = max(1, round(most / max(1.3, count_tokens(text) / len(pieces))))
    hits = [bool(asked.match_text(piece.casefold())) for piece in pieces]
    starts = range(0, max(1, len(pieces) - width + 1), max(1, width // 4))
    candidates = [*starts, max(0, len(pieces) - width)]
    first, last = _locate_quote(pieces, text, quote)
    if first is not None:
        candidates = list(range(max(0, last - width), first + 1)) or [first]
    start = max(candidates, key=lambda i: sum(hits[i : i + width]))
    cut = "".join(pieces[start : start + width]).strip()
    return f"{'… ' if start else ''}{cut}{' …' if start + width < len(pieces) else ''}"


def _locate_quote(pieces: Sequence[str], text: str, quote: str) -> tuple[int | None, int]:
    """The first of the pieces that hold the quote, and the one behind the last; None where the text does not."""
    at = text.find(quote) if quote else -1
    if at < 0:
        return None, 0
    ends = list(accumulate(map(len, pieces)))
    first, last = bisect_right(ends, at), bisect_left(ends, at + len(quote))
    return min(first, len(pieces) - 1), min(last, len(pieces) - 1) + 1
