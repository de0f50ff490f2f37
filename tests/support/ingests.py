"""What the graph holds of a user's requests to remember."""

from __future__ import annotations

from typing import Any

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records.scopes import Scope


async def fetch_ingests(connection: Connection, scope: Scope) -> list[dict[str, Any]]:
    """The user's requests, oldest first: id, session_id, state, reason, report."""
    rows = await connection.run_cypher(
        f"MATCH (i:{connection.settings.label_prefix}Ingest {{scope: $scope}}) WHERE i.id IS NOT NULL "
        "WITH i ORDER BY i.requested_at RETURN i {.id, .session_id, .state, .reason, .report} AS ingest",
        {"scope": scope.key},
    )
    return [row["ingest"] for row in rows]
