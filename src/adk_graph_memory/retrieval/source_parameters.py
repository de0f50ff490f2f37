"""Make the parameters of the statements ``candidates_…``, which search every retrieval source."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from adk_graph_memory.graph import VectorSlot, analyzers, lucene
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.queries import fill_identifiers
from adk_graph_memory.records import Filters, Scope
from adk_graph_memory.retrieval import query_parts, smalltalk
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.settings import Settings

TEXT_LIMIT, FILTERED_TEXT_LIMIT, VECTOR_LIMIT = 60, 4_000, 100
"""Candidates of each retrieval source, facts and turns together; more by words if filters leave only some of them."""
BEYOND_EXPIRED = {"text_hits": FILTERED_TEXT_LIMIT, "finds_expired": False}
"""Parameters that search again if some of the best have expired: further down, and without those."""
ENTITY_LIMIT, FACTS_PER_ENTITY = 20, 50
QUESTION_MARKS = ["?", "？", "؟"]
BASELINE_SAMPLE_SIZE = 64
"""Memories in the sample that shows how near this user's memories usually are to a question."""
COVERAGE_TEXTS, COVERAGE_CHARACTERS = 12, 2_000
"""Texts that are read to measure how much of the question they cover, and characters of each."""


def make_source_parameters(
    question: ParsedQuestion,
    scope: Scope,
    settings: Settings,
    filters: Filters | None = None,
    until: datetime | None = None,
    entities: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Make the parameters of the statements; with a vector they also need those of :func:`make_vector_parameters`.

    Args:
        question: the question.
        scope: whose memories to search.
        settings: the deployment's index names and analyzers.
        filters: which memories to search.
        until: ignore whatever was said later.
        entities: keys of the entities that the filters name.
    """
    index = analyzers.name_text_index(lucene.choose_analyzer(question.language, settings.analyzers))
    text_limit = FILTERED_TEXT_LIMIT if filters else TEXT_LIMIT
    name_parts = [part for part in question.query_parts if part.has_names]
    return {
        "scope": scope.key,
        "text_index": fill_identifiers(f"@{index}", settings),
        "text_queries": query_parts.make_part_queries(question.query_parts, scope.key, ("text", "words")),
        "name_queries": query_parts.make_part_queries(name_parts, scope.key, ("name", "aliases")),
        "text_hits": text_limit,
        "by_words": text_limit,
        "finds_expired": not filters,
        "by_vector": VECTOR_LIMIT,
        "names": ENTITY_LIMIT,
        "degree": text_limit if filters else FACTS_PER_ENTITY,
        "sample": BASELINE_SAMPLE_SIZE,
        "read": COVERAGE_TEXTS,
        "readable": COVERAGE_CHARACTERS,
        "brief": smalltalk.MAX_SMALLTALK_CHARACTERS,
        "question_marks": QUESTION_MARKS,
        "filters": _make_filter_parameters(filters) | {"entities": entities} if filters else None,
        "until": until.timestamp() if until else None,
        "vector": None,
        "slot": "",
        "tokens": "",
    }


def _make_filter_parameters(filters: Filters) -> dict[str, Any]:
    members = JsonMapDelta.from_values(filters.metadata).members
    return filters.to_parameters() | {"metadata": list(members)}


def make_vector_parameters(vector: Sequence[float], slot: VectorSlot) -> dict[str, Any]:
    """Make the parameters for the question's vector and the properties of the vectors it is compared with."""
    return {"vector": vector, "slot": slot.vector_property, "tokens": slot.token_property}
