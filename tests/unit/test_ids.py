"""What Neo4j could not index is refused by name, with the limit and what to do, wherever it comes in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory import Statement, Turn, errors
from adk_graph_memory.adk import artifact_service
from adk_graph_memory.graph.export_lines import decode_node
from adk_graph_memory.language.text import cache_short, digest
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import check_session_id

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LONG, EMOJI = "x" * 9_000, "😀" * 1_024


@pytest.mark.parametrize(
    "make",
    [
        lambda: Scope(LONG, "ada"),
        lambda: Scope("home", LONG),
        lambda: Turn(LONG, "user", "Hello", NOW),
        lambda: Statement("Hello", NOW, id=LONG),
        lambda: check_session_id(LONG),
        lambda: decode_node({"node": ["Tombstone"], "properties": {"key": LONG}}),
        lambda: decode_node({"node": ["Artifact"], "properties": {"session_id": EMOJI, "name": EMOJI, "versions": 1}}),
    ],
)
def test_a_key_that_is_too_long_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"(9,000|8,192) bytes.* at most 8,000; shorten it"):
        make()


def test_a_name_and_its_session_s_id_count_together() -> None:
    assert artifact_service.parse_artifact_name("home", "ada", EMOJI, "s").name == EMOJI
    with pytest.raises(InputValidationError, match="8,192 bytes"):
        artifact_service.parse_artifact_name("home", "ada", EMOJI, EMOJI)


def test_what_is_just_short_enough_is_accepted() -> None:
    assert Scope("x" * 8_000, "数" * 2_666).key
    assert Turn("😀" * 2_000, "user", "Hello", NOW).id


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4))
def test_a_digest_is_that_of_the_parts_as_json(parts: list[str]) -> None:
    assert digest(*parts) == hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def test_short_texts_are_cached_and_long_ones_are_not() -> None:
    asked = list[str]()

    @cache_short
    def note(text: str) -> int:
        asked.append(text)
        return len(text)

    for text in ("short", "long" * 1_000) * 2:
        assert note(text) == len(text)
    assert list(map(len, asked)) == [5, 4_000, 4_000]
