"""Check that the graph holds of each user what their words make of it, and mend it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from adk_graph_memory import graph
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.records import Checkup
from adk_graph_memory.rewriting import Rewriter


class Checkups:
    """Checks memories; :class:`adk_graph_memory.GraphMemory` does."""

    connection: graph.Connection
    vectors: GraphVectors

    async def check_memories(
        self, *, app_name: str | None = None, user_id: str | None = None, mend: bool = False
    ) -> AsyncIterator[Checkup]:
        """Check one user after another.

        What a user's facts, names, endings and revisions are is derived again from what was read, and compared with
        the graph.

        Args:
            app_name: of this app only.
            user_id: of this user only.
            mend: also write what differs.
        """
        connection = await graph.prepare_connection(self.connection)
        rewriter = Rewriter(connection, self.vectors)
        async for scope in graph.knowledge.iterate_owners(connection, app_name, user_id):
            if mend:
                difference = await rewriter.restore_derivation(scope)
            else:
                difference = await rewriter.compare_derivation(scope)
            waiting, unembedded = await graph.knowledge.count_unfinished(connection, scope)
            yield Checkup(
                scope.app_name,
                scope.user_id,
                facts=len(difference.derived.facts),
                differences=difference.count,
                is_mended=mend and not difference.is_empty,
                waiting=waiting,
                unembedded=unembedded,
            )
