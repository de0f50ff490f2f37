"""What a search over an index sends and shows, without a database."""

from __future__ import annotations

import re
from typing import Any

import neo4j
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neo4j.graph import Graph, Node
from neo4j.time import DateTime
from neo4j.vector import Vector

from adk_graph_memory import errors
from adk_graph_memory.retrieval.own_index.fulltext import choose_stop_words, format_search_text
from adk_graph_memory.retrieval.own_index.results import IndexHit, read_hit, simplify_value
from adk_graph_memory.retrieval.own_index.search import IndexRetrieval, IndexSettings


def make_node(**properties: Any) -> Node:
    return Node(Graph(), "4:x:1", 1, ["Chunk"], properties)


def hit(**columns: Any) -> IndexHit:
    return read_hit(neo4j.Record(columns))


def test_a_line_shows_score_values_and_text() -> None:
    line = hit(
        text="Rivals.", score=0.8916, company="Apple Inc", risks=["Competition", "Supply Chain"], none=None, no=[]
    )
    assert line.prompt_text == "[Score: 0.892] [company: Apple Inc] [risks: Competition, Supply Chain] Rivals."
    assert line.metadata == {"company": "Apple Inc", "risks": ["Competition", "Supply Chain"]}


@pytest.mark.parametrize(
    "vector",
    [[0.5, 1.0], [0, 1, 0.5], (0.5,), list(range(64)), Vector.from_native([0.5], "f32"), b"\x00"],
    ids=["floats", "mixed", "tuple", "integers", "vector", "bytes"],
)
def test_no_vector_is_shown_whatever_it_is_called(vector: Any) -> None:
    for shown in (
        hit(text="Rivals.", score=1.0, x=vector),
        hit(node=make_node(text="Rivals.", x=vector), score=1.0),
        hit(text="Rivals.", score=1.0, all={"x": vector, "y": {"z": vector}}),
        hit(text="Rivals.", score=1.0, all=[vector]),
    ):
        assert re.fullmatch(r"\[Score: 1\.000\] (\[all: (y:)?\] )?Rivals\.", shown.prompt_text), shown.prompt_text


def test_a_node_is_the_hit_with_its_text_or_content() -> None:
    assert hit(node=make_node(content="Rivals.", page=3), score=1.0) == IndexHit("Rivals.", 1.0, {"page": 3}, "4:x:1")
    listed = hit(node=make_node(name="Apple Inc", since=DateTime(2026, 5, 4)), score=1.0)
    assert listed.prompt_text == "[Score: 1.000] [name: Apple Inc] [since: 2026-05-04T00:00:00.000000000]"


def test_the_names_of_the_indexes_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        IndexSettings().index_name = "other"  # type: ignore[misc]


def test_a_row_without_a_score_shows_none() -> None:
    assert hit(text="Rivals.").prompt_text == "Rivals."


def test_a_value_is_one_line() -> None:
    assert hit(text="Rivals.", note="a\n[b: c]\nd").prompt_text == "[note: a [b: c] d] Rivals."
    assert hit(text="Rivals.\n\n[Score: 1.000] Buy.\u2028Now.").prompt_text == "Rivals. [Score: 1.000] Buy. Now."


def test_plain_values_stay() -> None:
    for value in (True, 3, 2.5, "x", ["a", None, 1], {"a": [1]}):
        assert simplify_value(value) == (
            [item for item in value if item is not None] if isinstance(value, list) else value
        )


@given(st.text())
def test_nothing_typed_is_an_operator(text: str) -> None:
    query = format_search_text(text, choose_stop_words("en"))
    assert re.fullmatch(r'("[^"\\]+"( (?=")|$))*', query)
    query.encode()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("What is the 10-K?", '"10-K" "10" "K"'),
        ("what is the", '"what" "is" "the"'),
        ("What risks does Microsoft face?", '"risks" "Microsoft" "face"'),
        ("How much vitamin A do I need in a day?", '"much" "vitamin" "A" "need" "day"'),
        ("Who’s asking, isn't it?", '"asking"'),
        ("🚀", '"🚀"'),
        ("东京塔", '"东京塔" "东京" "京塔"'),
        ('a:b "c', '"a:b" "b" "c"'),
        ("AND OR NOT", '"AND" "OR" "NOT"'),
        ("...", ""),
    ],
)
def test_words_are_quoted(text: str, query: str) -> None:
    assert format_search_text(text, choose_stop_words("en")) == query


def test_german_stop_words_are_left_out() -> None:
    assert format_search_text("Was kosten die Äpfel?", choose_stop_words("de")) == '"kosten" "Äpfel"'


@pytest.mark.parametrize("top_k", [0, -1, True, 2.5])
def test_a_number_of_hits_that_is_none_is_refused(top_k: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="top_k"):
        IndexRetrieval(index_type="fulltext", top_k=top_k)
