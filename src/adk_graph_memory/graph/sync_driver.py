"""Close sync drivers while other threads use them, which wakes a thread that waits for a silent server.

Neo4j's driver leaves two things behind then: a session whose closing breaks off, and the connection that a thread was
just opening. So sessions are closed twice, and whoever used a driver that was closed meanwhile closes it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import neo4j


@contextmanager
def open_session(driver: neo4j.Driver, **options: Any) -> Iterator[neo4j.Session]:
    """Open a session, which is closed at the end even if its driver was closed beneath it."""
    with closing(driver.session(**options)) as session, session:
        yield session


def close_driver(driver: neo4j.Driver) -> None:
    """Close a driver, or if it is closed, the connections that it has opened since."""
    driver.close()
    driver._pool.close()
