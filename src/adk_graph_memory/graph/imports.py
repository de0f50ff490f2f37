"""Take over what another service stored: states that are added to, sessions that are complete, memories by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.queries import make_scope_parameters
from adk_graph_memory.records import Scope, Statement


@dataclass(frozen=True, slots=True)
class ToldMemory:
    """What the graph has of a statement: its text, time, author and metadata members."""

    text: str
    timestamp: float
    author: str | None
    members: frozenset[str]

    def says(self, statement: Statement, *, is_timed: bool = True) -> bool:
        """Whether the graph has exactly this; without ``is_timed`` the statement's time does not count."""
        return (
            (self.text, self.author) == (statement.text, statement.author)
            and (not is_timed or self.timestamp == statement.at.timestamp())
            and self.members.issuperset(JsonMapDelta.from_values(statement.metadata).members)
        )


async def add_app_state(connection: Connection, app_name: str, state: JsonMapDelta) -> int:
    """Add keys that the app's state lacks, and return how many there were."""
    rows = await connection.run_statement("import_app_state", app_name=app_name, state=state.to_parameter())
    return int(rows[0]["added"])


async def add_user_state(connection: Connection, scope: Scope, state: JsonMapDelta) -> int:
    """Add keys that the user's state lacks, and return how many there were."""
    rows = await connection.run_statement("import_user_state", make_scope_parameters(scope), state=state.to_parameter())
    return int(rows[0]["added"])


async def finish_session(
    connection: Connection, scope: Scope, *, id: str, uid: str, revision: int, state: JsonMapDelta, update_time: float
) -> None:
    """Give a session its final state and time, unless it has gone beyond this revision."""
    await connection.run_statement(
        "finish_session_import",
        scope=scope.key,
        id=id,
        uid=uid,
        revision=revision,
        state=state.to_parameter(),
        update_time=update_time,
    )


async def fetch_told_memories(connection: Connection, scope: Scope, ids: Sequence[str]) -> dict[str, ToldMemory]:
    """Fetch those of the memories that the user has, by id."""
    rows = await connection.run_statement("told_memories", scope=scope.key, ids=list(ids))
    return {
        row["id"]: ToldMemory(row["text"], row["timestamp"], row["author"], frozenset(row["metadata"])) for row in rows
    }
