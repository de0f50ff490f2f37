"""A parsed question goes in; what the statements ``legs_…`` take to find its candidates comes out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from adk_graph_memory.graph import VectorSlot, analyzers, lucene
from adk_graph_memory.graph.queries import fill_identifiers
from adk_graph_memory.records import Filters, Scope
from adk_graph_memory.retrieval import query_parts, smalltalk
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.settings import Settings

TEXT_LIMIT, FILTERED_TEXT_LIMIT, VECTOR_LIMIT = 60, 4_000, 100
"""Candidates of each leg, facts and turns together; more by words where a filter leaves only some of them."""
ENTITY_LIMIT, FACTS_PER_ENTITY = 20, 50
BASELINE_SAMPLE_SIZE = 64
"""Memories that tell how near to a question this user's memories are as a rule."""
COVERAGE_TEXTS, COVERAGE_CHARACTERS = 12, 2_000
"""Texts that are read to see how much of the question they cover, and characters of each."""


def make_source_parameters(
    asked: ParsedQuestion,
    scope: Scope,
    settings: Settings,
    filters: Filters | None = None,
    until: datetime | None = None,
) -> dict[str, Any]:
    """What ``legs_text`` takes, and with :func:`make_vector_parameters` any other.

    Args:
        asked: the question.
        scope: whose memories.
        settings: how the deployment names its indexes.
        filters: what of the user's memories is searched at all.
        until: what was said later is as if it had not been.
    """
    index = analyzers.name_text_index(lucene.choose_analyzer(asked.language, settings.analyzers))
    with_names = [part for part in asked.query_parts if part.has_names]
    return {
        "scope": scope.key,
        "text_index": fill_identifiers(f"@{index}", settings),
        "text_queries": query_parts.make_part_queries(asked.query_parts, scope.key, ("text", "words")),
        "name_queries": query_parts.make_part_queries(with_names, scope.key, ("name", "aliases")),
        "by_words": FILTERED_TEXT_LIMIT if filters else TEXT_LIMIT,
        "by_vector": VECTOR_LIMIT,
        "names": ENTITY_LIMIT,
        "degree": FACTS_PER_ENTITY,
        "sample": BASELINE_SAMPLE_SIZE,
        "read": COVERAGE_TEXTS,
        "readable": COVERAGE_CHARACTERS,
        "brief": smalltalk.MAX_SMALLTALK_CHARACTERS,
        "filters": filters.to_parameters() if filters else None,
        "until": until.timestamp() if until else None,
        "tokens": "",
    }


def make_vector_parameters(vector: Sequence[float], slot: VectorSlot) -> dict[str, Any]:
    """The question's vector, and where those lie that it is compared with."""
    return {"vector": vector, "slot": slot.vector_property, "tokens": slot.token_property}
