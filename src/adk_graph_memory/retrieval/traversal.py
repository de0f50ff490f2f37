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
from adk_graph_memory.graph.queries import Statements

logger = logging.getLogger(__name__)

Plan = Mapping[str, Any]

ALLOWED = ("db.index.fulltext.query", "db.index.vector.query", "apoc.path.", "apoc.neighbors.", "apoc.algo.")
"""How the names of procedures begin that only read the graph. What a procedure reaches besides, no plan shows."""
FUNCTIONS = (
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

_UNKNOWN = ("01N50", "01N51")
"""The server's codes for labels and relationship types that it does not know."""
_UNKNOWN_NAME = re.compile(r"The (label|relationship type) `([^`]*)`")
_ABOUT_THE_SERVER = ("LoadCSV", "Show", "Terminate")
_QUOTED = re.compile(r"\$`(\w*)`|`[^`]*`|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_LOAD_CSV = re.compile(r"\bLOAD CSV\b")
_CALL = re.compile(r"\b(?:CALL |ResolvedCall\()([\w.]*)\(")
_FUNCTION = re.compile(r"\b((?:\w+\.)+\w+)\(")
_START = re.compile(r"Scan|Seek|Search|CountStore|ProcedureCall")
_NESTED_MATCH = re.compile(r"\bMATCH (?:(?!\b(?:WHERE|WITH|RETURN|CALL|MATCH)\b).)*", re.DOTALL)
_BINDING = re.compile(r"(?:=|\bIN) ?\[?\$scope\b|\$scope ?=")


def check(planned: neo4j.EagerResult, hits: neo4j.EagerResult, ours: Statements) -> None:
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
    if beyond := forbidden(plan):
        reason = f"the retrieval_query uses {beyond}; it may only read the graph, and beyond Cypher's own call only "
        raise errors.ConfigurationError(reason=reason + ", ".join(f"{name}*" for name in (*ALLOWED, *FUNCTIONS)))
    if missing := sorted({"text", "score"} - set(planned.keys)):
        raise errors.ConfigurationError(reason=f"the retrieval_query returns no {' and no '.join(missing)}")
    if leaves_the_user(plan, hits.summary.plan or {}):
        logger.warning(
            "the retrieval_query matches nodes that the memories found do not lead to, and not all by $scope: it may "
            "see what belongs to other users. Add WHERE … .scope = $scope to each such MATCH."
        )
    if unknown := [f"the {kind} {name}" for kind, name in unknown_names(planned) if not ours.mentions(name)]:
        named = " and ".join(unknown)
        logger.warning("the retrieval_query names %s, which nothing in the graph has: is it spelled right?", named)


def unknown_names(planned: neo4j.EagerResult) -> list[tuple[str, str]]:
    """The labels and relationship types of a plan that nothing in the graph has, each as its kind and its name."""
    told = (one.status_description for one in planned.summary.gql_status_objects if one.gql_status in _UNKNOWN)
    return sorted((match[1], match[2]) for match in map(_UNKNOWN_NAME.search, told) if match)


def explain(
    driver: neo4j.Driver, database: str | None, statement: str, parameters: Mapping[str, Any]
) -> neo4j.EagerResult:
    """What the server would do for a statement that begins with EXPLAIN, and what it has to say of it."""
    log = logging.getLogger("neo4j.notifications")
    log.addFilter(_is_of_no_plan)  # the driver would log each remark with the whole statement
    try:
        with driver.session(
            database=database, notifications_min_severity="WARNING", default_access_mode=neo4j.READ_ACCESS
        ) as session:
            return session.execute_read(lambda reading: reading.run(statement, dict(parameters)).to_eager_result())
    finally:
        log.removeFilter(_is_of_no_plan)


def _is_of_no_plan(record: logging.LogRecord) -> bool:
    return "EXPLAIN" not in record.getMessage()


def forbidden(plan: Plan) -> str | None:
    """What of a plan goes beyond reading this graph; None where nothing does."""
    for operator, details in _operators(plan):
        if operator.startswith(_ABOUT_THE_SERVER):
            return {"LoadCSV": "LOAD CSV"}.get(operator, operator)
        if _LOAD_CSV.search(details):
            return "LOAD CSV"
        names = _CALL.findall(details)
        if operator == "ProcedureCall":
            names.append(details.partition("(")[0])
        for name in names:
            if not name.startswith(ALLOWED):
                return f"the procedure {name}"
        for name in _FUNCTION.findall(details):
            if not name.startswith(ALLOWED) and not name.lower().startswith(FUNCTIONS):
                return f"the function {name}"
    return None


def leaves_the_user(plan: Plan, hits: Plan) -> bool:
    """Whether a plan looks for nodes afresh, where the hits do not lead, more often than it does so by ``$scope``."""
    return _starts(plan) - _starts(hits) > _bindings(plan) - _bindings(hits)


def _operators(plan: Plan) -> Iterator[tuple[str, str]]:
    """Each operator's name and details: with "_" for quoted names and texts, which may hold anything."""
    details = str(plan["args"].get("Details") or "")
    yield (
        plan["operatorType"].partition("@")[0],
        _QUOTED.sub(lambda quoted: f"${quoted[1]}" if quoted[1] else "_", details),
    )
    for child in plan.get("children", ()):
        yield from _operators(child)


def _starts(plan: Plan) -> int:
    """How often a plan begins at nodes of its own choice: by an index, a label, a procedure or all of them."""
    count = 0
    for operator, details in _operators(plan):
        nested = _NESTED_MATCH.findall(details)
        count += bool(_START.search(operator)) + sum("(node)" not in pattern for pattern in nested)
    return count


def _bindings(plan: Plan) -> int:
    return sum(len(_BINDING.findall(details)) for _, details in _operators(plan))
