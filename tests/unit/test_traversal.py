"""What of a plan goes beyond reading the graph; no plug-in has to be there to tell."""

from __future__ import annotations

import pytest

from adk_graph_memory.retrieval.query_check import find_forbidden


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
