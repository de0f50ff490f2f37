"""Whose memory a test uses, and a graph that others made, for the tests that search its indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import neo4j
import pytest
from tests.support.existing_graph import write_existing_graph


@pytest.fixture
def owner(app_name: str) -> dict[str, str]:
    """Ada, whose memory it is, as the methods of a memory take her."""
    return {"app_name": app_name, "user_id": "ada"}


@pytest.fixture
def stranger(app_name: str) -> dict[str, str]:
    """Bruno, who is to see nothing of Ada's."""
    return {"app_name": app_name, "user_id": "bruno"}


@pytest.fixture(scope="module")
def driver(neo4j_server: Any) -> Iterator[neo4j.Driver]:
    with neo4j.GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        yield driver


@pytest.fixture(scope="module")
def label(driver: neo4j.Driver) -> Iterator[str]:
    with write_existing_graph(driver) as label:
        yield label
