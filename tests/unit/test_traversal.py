"""What of a plan goes beyond reading the graph; no plug-in has to be there to tell."""

from __future__ import annotations

from typing import Any

import pytest

from adk_graph_memory.retrieval.query_check import find_forbidden, is_leaving_scope


@pytest.mark.parametrize(
    ("details", "beyond"),
    [
        ("apoc.cypher.runFirstColumnSingle($autostring_0, {}) AS text", "apoc.cypher.runFirstColumnSingle"),
        ("genai.vector.encode(node.text, $autostring_0, {}) AS text", "genai.vector.encode"),
        ("`genai`.`vector`.encode(node.text) AS text", "_._.encode"),
        ("head(COLLECT { MATCH (n) RETURN apoc.load.json(n.text) }) AS text", "apoc.load.json"),
        ("date.truncate($day, vector.similarity.cosine(a.b, [1.0][..(size(a.b))])) AS text", None),
        ("apoc.text.join(collect(node.text), $comma) AS text", None),
        ("UNIQUE node:Memory(scope, memory_id) WHERE scope = 'apoc.cypher.run(1)' AND n.`x.y(` IN (a)", None),
    ],
)
def test_a_function_that_may_do_more_than_read_is_refused(details: str, beyond: str | None) -> None:
    inner = {"operatorType": "Projection@neo4j", "args": {"Details": details}}
    plan = {"operatorType": "ProduceResults@neo4j", "args": {}, "children": [inner]}
    assert find_forbidden(plan) == (f"the function {beyond}" if beyond else None)


def make_plan(starts: int, bindings: int) -> dict[str, Any]:
    """A plan that looks nodes up so many times, and so many times by a scope."""
    details = [{"Details": "scope = $scope"} if number < bindings else {} for number in range(starts)]
    seeks = [{"operatorType": "NodeUniqueIndexSeek@neo4j", "args": each} for each in details]
    return {"operatorType": "ProduceResults@neo4j", "args": {}, "children": seeks}


@pytest.mark.parametrize(
    ("plan", "results", "is_leaving"),
    [((2, 2), (1, 1), False), ((3, 2), (1, 1), True), ((3, 1), (3, 1), False), ((1, 0), (1, 0), False)],
)
def test_what_a_traversal_starts_beyond_the_results_must_be_bound(
    plan: tuple[int, int], results: tuple[int, int], is_leaving: bool
) -> None:
    assert is_leaving_scope(make_plan(*plan), make_plan(*results)) is is_leaving


@pytest.mark.parametrize(
    ("subquery", "is_leaving"),
    [
        ("MATCH (other:Memory) RETURN other.text", True),
        ("MATCH (node)-[:NEXT]->(other) RETURN other.text", False),
        ("MATCH (node)-[:NEXT]->(other), (other)-[:NEXT]->(last) RETURN last.text", False),
        ("MATCH (node)-[:NEXT]->(other), (third)-[:NEXT]->(last) RETURN last.text", True),
        ("MATCH (other:Memory) WHERE other.scope = $scope RETURN other.text", False),
    ],
)
def test_a_subquery_in_an_expression_starts_where_the_node_does_not_lead(subquery: str, *, is_leaving: bool) -> None:
    details = {"Details": f"node.text AS text, COLLECT {{ {subquery} }} AS others"}
    inner = {"operatorType": "Projection@neo4j", "args": details}
    plan = {"operatorType": "ProduceResults@neo4j", "args": {}, "children": [inner]}
    assert is_leaving_scope(plan, {"operatorType": "ProduceResults@neo4j", "args": {}}) is is_leaving
