"""Run read-only statements on the sync driver, for the retrievers of neo4j-graphrag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import neo4j
from neo4j.exceptions import DriverError, Neo4jError


def read_rows(driver: neo4j.Driver, statement: str, parameters: Mapping[str, Any], database: str) -> list[neo4j.Record]:
    """Read in one round trip; fall back on ``execute_query``, which takes one more, only to retry after an error."""
    bookmarks = driver.execute_query_bookmark_manager  # a read sees what the driver's earlier statements have seen
    try:
        with driver.session(
            database=database, default_access_mode=neo4j.READ_ACCESS, bookmark_manager=bookmarks
        ) as session:
            return list(session.run(statement, dict(parameters)))
    except (DriverError, Neo4jError) as error:
        if not error.is_retryable():
            raise
    routing = neo4j.RoutingControl.READ
    return driver.execute_query(statement, dict(parameters), database_=database, routing_=routing).records
