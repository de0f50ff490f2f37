"""A user goes in; the names of everybody who speaks in what memory holds of them come out."""

from __future__ import annotations

from collections import OrderedDict

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
        self._known: OrderedDict[str, tuple[int, Names]] = OrderedDict()

    async def of(self, scope: Scope) -> Names:
        """The names of everybody who speaks."""
        if scope.key not in self._known:
            [row] = await self._connection.run("speakers", scope=scope.key)
            self._known[scope.key] = row["writes"], tuple(tuple(names) for names in row["speakers"])
            if len(self._known) > MOST_USERS:
                self._known.popitem(last=False)
        return self._known[scope.key][1]

    def seen(self, scope: Scope, writes: int | None) -> None:
        """Forgets them where a statement has seen another number of writes."""
        if scope.key in self._known and self._known[scope.key][0] != writes:
            del self._known[scope.key]
