"""Recollections go in, best first; those that fit a model's context come out, each thing said once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.graph import words
from adk_graph_memory.records import Recollection, token_count

_MARKS = 3
"""Tokens of the marks at the ends of a passage."""
_PASSAGE = 64
"""Tokens that a passage has at least, however small the budget."""


def packed(
    found: Sequence[Recollection],
    evidence: Mapping[str, Sequence[str]],
    *,
    query: str = "",
    limit: int,
    token_budget: int,
) -> list[Recollection]:
    """At most ``limit`` recollections of together about ``token_budget`` tokens, but always the first.

    A fact and the turn it rests on count once: whichever stands lower is left out; two facts of one turn are two. What
    says the same word for word counts once, with the events of both. A text that would fill more than a tenth of the
    budget is cut to the passage that shares most words with the query.

    Args:
        found: best first.
        evidence: id of a recollection → ids of the memories whose words it repeats.
        query: the question.
        limit: how many at most.
        token_budget: tokens of text at most, by ``token_count``'s count.
    """
    kept: list[Recollection] = []
    told: set[str] = set()
    places: dict[str, int] = {}
    spent = 0
    for memory in found:
        said = set(evidence.get(memory.id, ())) - {memory.id}
        if (memory.id and memory.id in told) or said & {other.id for other in kept}:
            continue
        if (place := places.get(words_of := _words(memory.text))) is not None:
            events = dict.fromkeys((*kept[place].source_event_ids, *memory.source_event_ids))
            kept[place] = replace(kept[place], source_event_ids=tuple(events))
            continue
        memory = replace(memory, text=passage(memory.text, query, most=max(_PASSAGE, token_budget // 10 - _MARKS)))
        cost = token_count(memory.text)
        if kept and spent + cost > token_budget:
            continue
        places[words_of] = len(kept)
        kept.append(memory)
        told |= {memory.id} | said
        spent += cost
        if len(kept) == limit:
            break
    return kept


def _words(text: str) -> str:
    return " ".join(words.tokens(text.casefold())) or text


_PIECE = re.compile(r"\s*\S{1,200}")
"""A word with the space before it; what has no spaces is cut into pieces."""


def passage(text: str, query: str, *, most: int) -> str:
    """The text, or of a longer one the run of about ``most`` tokens that shares most words with the question."""
    if token_count(text) <= most and len(text) <= 20 * most:
        return text
    asked = {word.casefold() for word in words.tokens(query)}
    pieces = _PIECE.findall(text)
    width = max(1, round(most / max(1.3, token_count(text) / len(pieces))))
    hits = [any(word.casefold() in asked for word in words.tokens(piece)) for piece in pieces]
    starts = range(0, max(1, len(pieces) - width + 1), max(1, width // 4))
    candidates = [*starts, max(0, len(pieces) - width)]
    start = max(candidates, key=lambda i: sum(hits[i : i + width]))
    cut = "".join(pieces[start : start + width]).strip()
    return f"{'… ' if start else ''}{cut}{' …' if start + width < len(pieces) else ''}"
