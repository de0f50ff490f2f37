"""A parsed question goes in; what the statements ``legs_…`` take to find its candidates comes out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from adk_graph_memory.graph import Slot, analyzers, lucene
from adk_graph_memory.graph.queries import filled
from adk_graph_memory.records import Filters, Scope
from adk_graph_memory.retrieval import message, smalltalk
from adk_graph_memory.retrieval.question import Asked
from adk_graph_memory.settings import Settings

BY_WORDS, BY_WORDS_FILTERED, BY_VECTOR = 60, 4_000, 100
"""Candidates of each leg, facts and turns together; more by words where a filter leaves only some of them."""
NAMES, DEGREE = 20, 50
SAMPLE = 64
"""Memories that tell how near to a question this user's memories are as a rule."""
READ, READABLE = 12, 2_000
"""Texts that are read to see how much of the question they cover, and characters of each."""


def leg_parameters(
    asked: Asked,
    scope: Scope,
    settings: Settings,
    filters: Filters | None = None,
    until: datetime | None = None,
) -> dict[str, Any]:
    """What ``legs_text`` takes, and with :func:`leg_vector` any other.

    Args:
        asked: the question.
        scope: whose memories.
        settings: how the deployment names its indexes.
        filters: what of the user's memories is searched at all.
        until: what was said later is as if it had not been.
    """
    index = analyzers.index_of(lucene.analyzer(asked.language, settings.analyzers))
    with_names = [part for part in asked.parts if part.has_names]
    return {
        "scope": scope.key,
        "text_index": filled(f"@{index}", settings),
        "text_queries": message.queries(asked.parts, scope.key, ("text", "words")),
        "name_queries": message.queries(with_names, scope.key, ("name", "aliases")),
        "by_words": BY_WORDS_FILTERED if filters else BY_WORDS,
        "by_vector": BY_VECTOR,
        "names": NAMES,
        "degree": DEGREE,
        "sample": SAMPLE,
        "read": READ,
        "readable": READABLE,
        "brief": smalltalk.LONGEST,
        "filters": filters.parameters() if filters else None,
        "until": until.timestamp() if until else None,
        "tokens": "",
    }


def leg_vector(vector: Sequence[float], slot: Slot) -> dict[str, Any]:
    """The question's vector, and where those lie that it is compared with."""
    return {"vector": vector, "slot": slot.property, "tokens": slot.token_property}
