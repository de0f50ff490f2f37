"""Answer by words alone, with one small statement: for a server that has no time for more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from adk_graph_memory.graph import Connection, VectorSlot, lucene
from adk_graph_memory.graph.planning import PlannedStatement
from adk_graph_memory.records import Scope
from adk_graph_memory.retrieval import smalltalk
from adk_graph_memory.retrieval.question import parse_question
from adk_graph_memory.retrieval.search_candidates import SearchCandidate
from adk_graph_memory.retrieval.source_parameters import (
    COVERAGE_CHARACTERS,
    COVERAGE_TEXTS,
    QUESTION_MARKS,
    make_source_parameters,
    make_vector_parameters,
)

Memory = Mapping[str, Any]


def make_candidate_row(memories: Sequence[Memory]) -> dict[str, Any]:
    """Make the row that a statement ``candidates_…`` would return, of what ``plain_search`` does."""
    texts = [memory["text"][:COVERAGE_CHARACTERS] for memory in memories[:COVERAGE_TEXTS]]
    return {"candidates": [_make_candidate(memory) for memory in memories], "texts": texts, "usual": []}


def _make_candidate(memory: Memory) -> SearchCandidate:
    text = memory["text"]
    is_turn = memory["kind"] == "event"
    return SearchCandidate(
        id=memory["memory_id"],
        kind=memory["kind"],
        text_score=memory["score"],
        text_length=len(text),
        state=None if is_turn else "current",
        valid_from=_make_timestamp(memory["valid_from"]),
        valid_to=_make_timestamp(memory["valid_to"]),
        valid_from_precision=memory["valid_from_precision"],
        role=memory["role"],
        author=memory["author"],
        timestamp=memory["timestamp"],
        session_id=memory["session_id"],
        has_question=is_turn and any(mark in text for mark in QUESTION_MARKS),
        has_final_question=is_turn and any(mark in text[-4:] for mark in QUESTION_MARKS),
        short_text=text if is_turn and len(text) <= smalltalk.MAX_SMALLTALK_CHARACTERS else None,
        manner=memory["manner"],
    )


def _make_timestamp(date: Any) -> float | None:
    return None if date is None else date.to_native().timestamp()


def make_result_rows(memories: Sequence[Memory], results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Make the rows that the statement ``results`` would return, without what is related to them."""
    by_id = {memory["memory_id"]: memory for memory in memories}
    for result in results:
        memory = by_id[result["id"]]
        own = {"id": memory["memory_id"], "event_id": memory["id"], "score": result["score"]}
        yield {**memory, **own, "facts": [], "sources": []}


def list_planned_searches(connection: Connection, slot: VectorSlot | None) -> Iterator[PlannedStatement]:
    """List the statements of a search, the plain one first, with the parameters of a question that finds nothing.

    Args:
        connection: whose statements, for its settings and server.
        slot: the slot that is searched; None if vectors are not.
    """
    settings, language = connection.settings, lucene.get_analyzer_language(connection.settings.analyzers[0])
    question = parse_question("Is this planned?", (), datetime.now(UTC), (language,))
    by_words = make_source_parameters(question, Scope(":nobody:", ":nobody:"), settings)
    by_vector = by_words | (make_vector_parameters([1.0] * slot.dimensions, slot) if slot else {})
    names = [f"candidates_{slot.name}"] if slot else []
    indexed = [name for name in names if name in connection.statements]
    yield PlannedStatement("plain_search", "read", by_words, "words")
    yield PlannedStatement("speakers", "read", stage="searches")
    for name in indexed or ["candidates_scan"]:
        yield PlannedStatement(name, "read", by_vector, "searches")
    yield PlannedStatement("results", "read", stage="searches")
    if indexed:
        yield PlannedStatement("candidates_scan", "read", by_words)
