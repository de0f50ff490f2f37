"""What Neo4j could not index is refused by name, with the limit and what to do, wherever it comes in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError

from adk_graph_memory import Statement, Turn, errors
from adk_graph_memory.adk import artifact_service
from adk_graph_memory.graph.export_lines import decode_node
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
    assert artifact_service.make_artifact_name("home", "ada", EMOJI, "s").name == EMOJI
    with pytest.raises(InputValidationError, match="8,192 bytes"):
        artifact_service.make_artifact_name("home", "ada", EMOJI, EMOJI)


def test_what_is_just_short_enough_is_accepted() -> None:
    assert Scope("x" * 8_000, "数" * 2_666).key
    assert Turn("😀" * 2_000, "user", "Hello", NOW).id
