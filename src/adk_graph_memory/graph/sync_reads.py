"""A statement that only reads goes in, its rows come out: the retrievers' way, by the driver that is not async."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import neo4j
from neo4j.exceptions import DriverError, Neo4jError


def read_rows(driver: neo4j.Driver, statement: str, parameters: Mapping[str, Any], database: str) -> list[neo4j.Record]:
    """One round trip; ``execute_query`` takes another to commit, and only tries again after an error that may pass."""
    manager = driver.execute_query_bookmark_manager  # what the last statement saw, the next one sees
    try:
        with driver.session(
            database=database, default_access_mode=neo4j.READ_ACCESS, bookmark_manager=manager
        ) as session:
            return list(session.run(statement, dict(parameters)))
    except (DriverError, Neo4jError) as error:
        if not error.is_retryable():
            raise
    reading = neo4j.RoutingControl.READ
    return driver.execute_query(statement, dict(parameters), database_=database, routing_=reading).records
