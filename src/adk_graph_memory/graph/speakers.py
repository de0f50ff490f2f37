"""A user goes in; the names of everybody who speaks in what memory holds of them come out."""

from __future__ import annotations

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records import Scope

Names = tuple[tuple[str, ...], ...]
"""Of each speaker the author's name, as it stands on the turns, and whatever else they are called."""

MOST_USERS = 10_000
"""Users whose speakers are kept in mind."""


class Speakers:
    """Who speaks, kept in mind until the user is written to: one statement a user and process, and one after a write.

    Args:
        connection: a connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[int, Names]] = {}

    async def of(self, scope: Scope) -> Names:
        """The names of everybody who speaks."""
        known = self._known.get(scope.key)
        if known is None:
            [row] = await self._connection.run("speakers", scope=scope.key)
            known = row["writes"], tuple(tuple(names) for names in row["speakers"])
            if len(self._known) >= MOST_USERS:
                self._known.clear()
            self._known[scope.key] = known
        return known[1]

    def seen(self, scope: Scope, writes: int | None) -> None:
        """Forgets them where a statement has seen another number of writes."""
        known = self._known.get(scope.key)
        if known is not None and known[0] != writes:
            self._known.pop(scope.key, None)
