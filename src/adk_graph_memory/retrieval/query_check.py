"""A caller's ``retrieval_query`` as the server plans it: what it may not do, and whether it stays with its user.

The plan is read and not the text: there, comments, letter case and quotation marks are settled by the server. A
subquery inside an expression has no operators of its own; the server writes it out in the operator's details.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

import neo4j

from adk_graph_memory import errors
from adk_graph_memory.graph.queries import CypherStatements
from adk_graph_memory.graph.sync_reads import SyncReads

logger = logging.getLogger(__name__)

QueryPlan = Mapping[str, Any]

PROCEDURE_PREFIXES = ("db.index.fulltext.query", "db.index.vector.query", "apoc.path.", "apoc.neighbors.", "apoc.algo.")
"""How the names of procedures begin that only read the graph. What a procedure reaches besides, no plan shows."""
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
"""How the names of functions begin that read no more than they are given. Only those without a dot are all Neo4j's."""

_UNKNOWN_NAME_CODES = ("01N50", "01N51")
"""The server's codes for labels and relationship types that it does not know."""
_UNKNOWN_NAME = re.compile(r"The (label|relationship type) `([^`]*)`")
_SERVER_OPERATORS = ("LoadCSV", "Show", "Terminate")
_QUOTED_TEXT = re.compile(r"\$`(\w*)`|`[^`]*`|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_LOAD_CSV = re.compile(r"\bLOAD CSV\b")
_PROCEDURE_CALL = re.compile(r"\b(?:CALL |ResolvedCall\()([\w.]*)\(")
_FUNCTION_CALL = re.compile(r"\b((?:\w+\.)+\w+)\(")
_START_OPERATOR = re.compile(r"Scan|Seek|Search|CountStore|ProcedureCall")
_NESTED_MATCH = re.compile(r"\bMATCH (?:(?!\b(?:WHERE|WITH|RETURN|CALL|MATCH)\b).)*", re.DOTALL)
_SCOPE_BINDING = re.compile(r"(?:=|\bIN) ?\[?\$scope\b|\$scope ?=")


def check_query_plan(planned: neo4j.EagerResult, hits: neo4j.EagerResult, ours: CypherStatements) -> None:
    """Warns of a traversal that sees other users' nodes, or names what is not in the graph.

    Args:
        planned: what the server says of the hits with the traversal behind them.
        hits: what it says of the hits alone.
        ours: our statements; a label that they name is no misspelling, even while no node has it.

    Raises:
        errors.ConfigurationError: it writes, reads files, calls a procedure or a function that may do more than read
            the graph, or does not return ``text`` and ``score``.
    """
    plan = planned.summary.plan or {}
    if planned.summary.query_type != "r":
        raise errors.ConfigurationError(reason="the retrieval_query writes; it may only read")
    if beyond := find_forbidden(plan):
        reason = f"the retrieval_query uses {beyond}; it may only read the graph, and beyond Cypher's own call only "
        raise errors.ConfigurationError(
            reason=reason + ", ".join(f"{name}*" for name in (*PROCEDURE_PREFIXES, *FUNCTION_PREFIXES))
        )
    if missing := sorted({"text", "score"} - set(planned.keys)):
        raise errors.ConfigurationError(reason=f"the retrieval_query returns no {' and no '.join(missing)}")
    if is_leaving_scope(plan, hits.summary.plan or {}):
        logger.warning(
            "the retrieval_query matches nodes that the memories found do not lead to, and not all by $scope: it may "
            "see what belongs to other users. Add WHERE … .scope = $scope to each such MATCH."
        )
    if unknown := [f"the {kind} {name}" for kind, name in find_unknown_names(planned) if not ours.has_label(name)]:
        named = " and ".join(unknown)
        logger.warning("the retrieval_query names %s, which nothing in the graph has: is it spelled right?", named)


def find_unknown_names(planned: neo4j.EagerResult) -> list[tuple[str, str]]:
    """The labels and relationship types of a plan that nothing in the graph has, each as its kind and its name."""
    told = (
        one.status_description for one in planned.summary.gql_status_objects if one.gql_status in _UNKNOWN_NAME_CODES
    )
    return sorted((match[1], match[2]) for match in map(_UNKNOWN_NAME.search, told) if match)


def explain_statement(reads: SyncReads, statement: str, parameters: Mapping[str, Any]) -> neo4j.EagerResult:
    """What the server would do for a statement that begins with EXPLAIN, and what it has to say of it."""
    log = logging.getLogger("neo4j.notifications")
    log.addFilter(_is_not_explain)  # the driver would log each remark with the whole statement
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
    """What of a plan goes beyond reading this graph; None where nothing does."""
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


def is_leaving_scope(plan: QueryPlan, hits: QueryPlan) -> bool:
    """Whether a plan looks for nodes afresh, where the hits do not lead, more often than it does so by ``$scope``."""
    return _count_starts(plan) - _count_starts(hits) > _count_bindings(plan) - _count_bindings(hits)


def _iterate_operators(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    """Each operator's name and details: with "_" for quoted names and texts, which may hold anything."""
    details = str(plan["args"].get("Details") or "")
    yield (
        plan["operatorType"].partition("@")[0],
        _QUOTED_TEXT.sub(lambda quoted: f"${quoted[1]}" if quoted[1] else "_", details),
    )
    for child in plan.get("children", ()):
        yield from _iterate_operators(child)


def _count_starts(plan: QueryPlan) -> int:
    """How often a plan begins at nodes of its own choice: by an index, a label, a procedure or all of them."""
    count = 0
    for operator, details in _iterate_operators(plan):
        nested = _NESTED_MATCH.findall(details)
        count += bool(_START_OPERATOR.search(operator)) + sum("(node)" not in pattern for pattern in nested)
    return count


def _count_bindings(plan: QueryPlan) -> int:
    return sum(len(_SCOPE_BINDING.findall(details)) for _, details in _iterate_operators(plan))
