"""Check a caller's ``retrieval_query``: that it only reads the graph, and whether it stays with its user.

It reads the server's plan and not the text, because in the plan the server has resolved comments, letter case and
quotation marks. A subquery inside an expression has no operators of its own; the operator's details quote it in full.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

import neo4j

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import SyncReads
from adk_graph_memory.graph.statements import CypherStatements

logger = logging.getLogger(__name__)

QueryPlan = Mapping[str, Any]
PROCEDURE_PREFIXES = ("db.index.fulltext.query", "db.index.vector.query", "apoc.path.", "apoc.neighbors.", "apoc.algo.")
"""Prefixes of procedures that only read the graph; no plan shows what else a procedure does."""
FUNCTION_PREFIXES = (
    "coll.",
    "date.",
    "datetime.",
    "duration.",
    "localdatetime.",
    "localtime.",
    "point.",
    "string.",
    "time.",
    "uuid.",
    "vector.similarity.",
    "apoc.coll.",
    "apoc.date.",
    "apoc.map.",
    "apoc.text.",
)
"""Prefixes of functions that read only their arguments; a function without a dot in its name is always Neo4j's own."""

_UNKNOWN_NAME_CODES = ("01N50", "01N51")
"""The server's codes for an unknown label and an unknown relationship type."""
_UNKNOWN_NAME = re.compile(r"The (label|relationship type) `([^`]*)`")
_SERVER_OPERATORS = ("LoadCSV", "Show", "Terminate")
_QUOTED_TEXT = re.compile(r"\$`(\w*)`|`[^`]*`|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_LOAD_CSV = re.compile(r"\bLOAD CSV\b")
_PROCEDURE_CALL = re.compile(r"\b(?:CALL |ResolvedCall\()([\w.]*)\(")
_FUNCTION_CALL = re.compile(r"\b((?:\w+\.)+\w+)\(")
_START_OPERATOR = re.compile(r"Scan|Seek|Search|Lookup|CountStore|ProcedureCall")  # Lookup: of a label like $("Fact")
_NESTED_MATCH = re.compile(r"\bMATCH (?:(?!\b(?:WHERE|WITH|RETURN|CALL|MATCH)\b).)*", re.DOTALL)
_NESTED_PATH = re.compile(r", (?=\()")
_NODE_NAME = re.compile(r"\((?!_\b)(\w+)")
_SCOPE_BINDING = re.compile(r"(?<![\w.$])(?<!NOT )(?:[\w.]+ ?(?:=|\bIN) ?\[?\$scope\b|\$scope ?=)")


def check_query_plan(explanation: neo4j.EagerResult, results: neo4j.EagerResult, statements: CypherStatements) -> None:
    """Refuse a traversal that does more than read; warn if it may see other users' nodes or misspells a label.

    Args:
        explanation: the server's EXPLAIN of the results followed by the traversal.
        results: its EXPLAIN of the results alone.
        statements: our own statements; a label that they name is no misspelling, even while no node has it.

    Raises:
        errors.InvalidArgument: it writes, reads files, calls a procedure or a function that may do more than read
            the graph, or does not return ``text`` and ``score``.
    """
    plan = explanation.summary.plan or {}
    if explanation.summary.query_type != "r":
        raise errors.InvalidArgument(reason="the retrieval_query writes; it may only read")
    if feature := find_forbidden(plan):
        reason = f"the retrieval_query uses {feature}; it may only read the graph, and beyond Cypher's own call only "
        raise errors.InvalidArgument(
            reason=reason + ", ".join(f"{name}*" for name in (*PROCEDURE_PREFIXES, *FUNCTION_PREFIXES))
        )
    if columns := sorted({"text", "score"} - set(explanation.keys)):
        raise errors.InvalidArgument(reason=f"the retrieval_query returns no {' and no '.join(columns)}")
    if is_leaving_scope(plan, results.summary.plan or {}):
        logger.warning(
            "the retrieval_query matches nodes that the memories found do not lead to, and not all by $scope: it may "
            "see what belongs to other users. Add WHERE … .scope = $scope to each such MATCH."
        )
    names = [f"the {kind} {name}" for kind, name in find_unknown_names(explanation) if not statements.has_label(name)]
    if names:
        logger.warning(
            "the retrieval_query names %s, which nothing in the graph has: is it spelled right?", " and ".join(names)
        )


def find_unknown_names(explanation: neo4j.EagerResult) -> list[tuple[str, str]]:
    """Return kind and name of the labels and relationship types in a plan that nothing in the graph has."""
    descriptions = (
        status.status_description
        for status in explanation.summary.gql_status_objects
        if status.gql_status in _UNKNOWN_NAME_CODES
    )
    return sorted((match[1], match[2]) for match in map(_UNKNOWN_NAME.search, descriptions) if match)


def explain_statement(reads: SyncReads, statement: str, parameters: Mapping[str, Any]) -> neo4j.EagerResult:
    """Run a statement that begins with EXPLAIN; the result holds the server's plan and notifications."""
    log = logging.getLogger("neo4j.notifications")
    log.addFilter(_is_not_explain)  # the driver would log each notification with the whole statement
    try:
        return reads.run_read(
            lambda session: session.run(statement, dict(parameters)).to_eager_result(),
            notifications_min_severity="WARNING",
        )
    finally:
        log.removeFilter(_is_not_explain)


def _is_not_explain(record: logging.LogRecord) -> bool:
    return "EXPLAIN" not in record.getMessage()


def find_forbidden(plan: QueryPlan) -> str | None:
    """Return the first thing in a plan that does more than read this graph, or None."""
    for operator, details in _iterate_operators(plan):
        if operator.startswith(_SERVER_OPERATORS):
            return {"LoadCSV": "LOAD CSV"}.get(operator, operator)
        if _LOAD_CSV.search(details):
            return "LOAD CSV"
        names = _PROCEDURE_CALL.findall(details)
        if operator == "ProcedureCall":
            names.append(details.partition("(")[0])
        for name in names:
            if not name.startswith(PROCEDURE_PREFIXES):
                return f"the procedure {name}"
        for name in _FUNCTION_CALL.findall(details):
            if not name.startswith(PROCEDURE_PREFIXES) and not name.lower().startswith(FUNCTION_PREFIXES):
                return f"the function {name}"
    return None


def is_leaving_scope(plan: QueryPlan, results: QueryPlan) -> bool:
    """Whether, beyond the results, a plan starts at nodes of its own choice more often than it binds ``$scope``."""
    return _count_starts(plan) - _count_starts(results) > _count_bindings(plan) - _count_bindings(results)


def _iterate_operators(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    """Yield each operator's name and details, with "_" for quoted names and texts, which may hold anything."""
    details = str(plan["args"].get("Details") or "")
    yield (
        plan["operatorType"].partition("@")[0],
        _QUOTED_TEXT.sub(lambda match: f"${match[1]}" if match[1] else "_", details),
    )
    for child in plan.get("children", ()):
        yield from _iterate_operators(child)


def _count_starts(plan: QueryPlan) -> int:
    """Count how often a plan starts at nodes of its own choice: by an index, a label, a procedure or all nodes."""
    operators = list(_iterate_operators(plan))
    return sum(
        bool(_START_OPERATOR.search(operator)) + _count_nested_starts(details) for operator, details in operators
    )


def _count_nested_starts(details: str) -> int:
    """Count the paths in an expression's subqueries to which nothing leads from ``node``."""
    count, reached_names = 0, {"node"}
    for pattern in _NESTED_MATCH.findall(details):
        for path in _NESTED_PATH.split(pattern):
            names = set(_NODE_NAME.findall(path))
            if names & reached_names:
                reached_names |= names
            else:
                count += 1
    return count


def _count_bindings(plan: QueryPlan) -> int:
    return sum(len(_SCOPE_BINDING.findall(details)) for _, details in _iterate_operators(plan))
