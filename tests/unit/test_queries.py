"""Blocks come out of their files whole, and carry this deployment's names."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory import errors
from adk_graph_memory.graph.schema import name_text_index
from adk_graph_memory.graph.statements import (
    LABELS,
    CypherStatements,
    fill_identifiers,
    load_cypher_files,
    name_index,
    parse_blocks,
)
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings

ANA = Scope("home", "ana")

ANALYZERS = ("english", "cjk", "standard-no-stop-words", "standard_no_stop_words", "x", "x_of_y", "x_", "a--b", "a__b")
INDEX_WORDS = sorted(
    {
        word
        for folder in ("cypher", "migrations")
        for blocks in load_cypher_files(folder).values()
        for block in blocks
        for word in re.findall(r"@(\w+)", block.text)
        if word not in LABELS | {"analyzer"}
    }
    | {name_text_index(analyzer) for analyzer in ANALYZERS}
)
LABEL_PREFIXES = ("", "Zz", "adk_Zz", "adk_", "event_", "Event", "of_y", "y", "OF_y", "A_OF_y", "Same", "SAME", "same")

SOURCE = """\
// first
// what it returns
MATCH (n:@Session) // a remark
// not a header: no empty line before it
RETURN n;

// second @2026
// nothing
RETURN 1
"""


def test_a_block_is_its_comment_and_its_statement() -> None:
    first, second = parse_blocks(SOURCE)
    assert (first.name, first.tags) == ("first", set())
    assert first.text.startswith("// what it returns\nMATCH")
    assert second.text == "// nothing\nRETURN 1"


def test_a_semicolon_at_the_end_is_not_part_of_the_statement() -> None:
    assert parse_blocks(SOURCE)[0].text.endswith("RETURN n")


def test_a_tag_names_the_server_line() -> None:
    assert parse_blocks(SOURCE)[1].tags == {"2026"}


def test_a_block_may_have_several_tags() -> None:
    [block] = parse_blocks("// sizes @database @unbounded\n// a row\nRETURN 1\n")
    assert (block.name, block.tags) == ("sizes", {"database", "unbounded"})


def test_a_comment_inside_a_block_starts_no_other() -> None:
    assert len(parse_blocks(SOURCE)) == 2


def test_an_empty_file_has_no_blocks() -> None:
    assert parse_blocks("") == []


def test_labels_and_indexes_stay_as_they_are_by_default() -> None:
    text = fill_identifiers("MATCH (s:@Session) @memory_text", Settings())
    assert text == "MATCH (s:Session) adk_memory_text"


def test_labels_and_indexes_take_their_prefixes() -> None:
    settings = Settings(label_prefix="Adk")
    assert fill_identifiers("(s:@Session) '@Session'", settings) == "(s:AdkSession) 'AdkSession'"
    assert fill_identifiers("@memory_text", settings) == "adk_memory_text_OF_Adk"


def test_the_analyzer_is_filled_in() -> None:
    assert fill_identifiers("'@analyzer'", Settings(analyzers=("cjk", "english"))) == "'cjk'"


def test_two_label_prefixes_share_no_index() -> None:
    # IF NOT EXISTS goes by the name alone: under a shared name the second deployment would have no constraint.
    named = list(itertools.product(INDEX_WORDS, LABEL_PREFIXES))
    assert {"event_memory_key", "memory_key", "memory_vector_b", "memory_text_standard-no-stop-words"} <= {*INDEX_WORDS}
    assert len({name_index(word, Settings(label_prefix=prefix)) for word, prefix in named}) == len(named)


@given(
    st.one_of(st.sampled_from(INDEX_WORDS), st.from_regex(r"[a-z][a-z0-9_-]*", fullmatch=True).map(name_text_index)),
    st.one_of(st.sampled_from(LABEL_PREFIXES), st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,40}", fullmatch=True)),
)
def test_an_index_name_says_what_it_was_made_of(word: str, prefix: str) -> None:
    # Whatever can be read back differs wherever what it was made of differs.
    read_back = re.fullmatch(r"adk_([^A-Z]+?)(?:_OF_(.+))?", name_index(word, Settings(label_prefix=prefix)))
    assert read_back and read_back.groups("") == (word, prefix)


def test_nothing_is_left_to_fill_in() -> None:
    for folder in ("cypher", "migrations"):
        for blocks in load_cypher_files(folder).values():
            for block in blocks:
                assert "@" not in fill_identifiers(block.text, Settings())


@pytest.mark.parametrize("label", sorted(LABELS))
def test_every_label_takes_the_prefix(label: str) -> None:
    assert fill_identifiers(f"(:@{label})", Settings(label_prefix="P")) == f"(:P{label})"


def test_a_block_for_another_line_is_not_there() -> None:
    assert "memory_vectors_a" in CypherStatements(Settings(), "2026")
    assert "memory_vectors_a" not in CypherStatements(Settings(), "5.26")


def test_a_block_of_a_slot_stands_for_one_of_either() -> None:
    source = "// vectors_SLOT @2026\n// a row, or none\nSHOW INDEXES YIELD name WHERE name = '@vector_SLOT'\n"
    blocks = parse_blocks(source)
    assert [(block.name, block.tags) for block in blocks] == [("vectors_a", {"2026"}), ("vectors_b", {"2026"})]
    assert [block.text.rpartition(" = ")[2] for block in blocks] == ["'@vector_a'", "'@vector_b'"]
    for folder in ("cypher", "migrations"):
        assert not any("SLOT" in block.text for found in load_cypher_files(folder).values() for block in found)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError, match="no_such_block"):
        CypherStatements(Settings(), "2026")["no_such_block"]


def test_all_parameters_travel_in_one_map() -> None:
    statements = CypherStatements(Settings(), "2026")
    text, parameters = statements.bind_parameters("counts", {}, ANA)
    assert "$given.scope" in text and "$scope" not in text
    assert parameters == {"given": {"scope": ANA.key}}  # and nobody's name, which the database would log
    for statement in (*map(statements.__getitem__, statements), *statements.fragments.values()):
        assert set(re.findall(r"\$(\w+)", statement)) <= {"given", "options"}


def test_a_parameter_that_is_not_given_is_named() -> None:
    with pytest.raises(KeyError, match="known_memories needs ids"):
        CypherStatements(Settings(), "2026").bind_parameters("known_memories", {}, ANA)


def test_a_statement_about_one_user_runs_for_that_user_alone() -> None:
    statements = CypherStatements(Settings(), "2026")
    with pytest.raises(errors.ScopeError, match="counts is about one user"):
        statements.bind_parameters("counts", {})
    with pytest.raises(errors.ScopeError, match="counts is about one user"):
        statements.bind_parameters("counts", {"scope": Scope("home", "bob").key})
    with pytest.raises(errors.ScopeError, match="counts was given scope, user_id beside its scope"):
        statements.bind_parameters("counts", {"scope": Scope("home", "bob").key, "user_id": "bob"}, ANA)


@pytest.mark.parametrize("name", ["owners", "schema_state"])
def test_a_statement_about_everybody_does_not_run_for_a_user(name: str) -> None:
    with pytest.raises(errors.ScopeError, match=f"{name} is not about one user"):
        CypherStatements(Settings(), "2026").bind_parameters(name, {}, ANA)


def test_statements_are_filled_once_for_equal_settings() -> None:
    assert CypherStatements.from_settings(Settings(), "2026") is CypherStatements.from_settings(Settings(), "2026")
    assert CypherStatements.from_settings(Settings(label_prefix="Other"), "2026") is not CypherStatements.from_settings(
        Settings(), "2026"
    )


def test_included_fragments_stand_in_the_statement() -> None:
    statements = CypherStatements(Settings(), "2026")
    including = {name: statements[name] for name in statements if name.startswith("candidates_")}
    assert including
    assert all("// include" not in text for text in including.values())
    assert all("db.index.fulltext.queryNodes('adk_entity_text'" in text for text in including.values())


def test_a_fragment_is_no_statement() -> None:
    statements = CypherStatements(Settings(), "2026")
    assert statements.fragments
    assert not any(name in statements for name in statements.fragments)


def test_names_are_those_of_nodes_and_maps_and_no_functions_or_parameters() -> None:
    names = CypherStatements(Settings(label_prefix="Zz"), "2026").list_names()
    assert names["labels"] == sorted(f"Zz{label}" for label in LABELS)
    assert {"SUPPORTED_BY", "HAS_EVENT"} < set(names["types"])
    assert {"memory_id", "valid_from_precision", "tokens_a", "last_update_time"} < set(names["keys"])
    assert {"given", "similarity", "cosine", "index", "fulltext"}.isdisjoint(names["keys"])
