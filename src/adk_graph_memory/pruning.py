"""Delete what has expired, or count it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import get_args

from adk_graph_memory import errors, graph, telemetry
from adk_graph_memory.blobs import delete_contents
from adk_graph_memory.graph.pruning import PrunedBatch, PruneRequest
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.language.durations import parse_duration
from adk_graph_memory.records import PruneKind, PruneReport, SharedMemory
from adk_graph_memory.rewriting import Rewriter

logger = logging.getLogger(__name__)


class Pruning:
    """Takes away what has expired; :class:`adk_graph_memory.GraphMemory` does."""

    connection: graph.Connection
    vectors: GraphVectors

    @telemetry.trace_operation("prune_memory")
    async def prune(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        older_than: float | str | timedelta | None = None,
        only: Sequence[PruneKind] = (),
        dry_run: bool = False,
    ) -> PruneReport:
        """Delete for good what has expired; nobody sees that any more, but it still takes up room.

        This goes by short transactions with rests between them, so that agents go on. It may be interrupted and begun
        again at any time. Memories are forgotten as :meth:`~adk_graph_memory.GraphMemory.forget` forgets them.

        Args:
            app_name: of this app only.
            user_id: of this user only.
            older_than: also what is older, whatever its own expiry: seconds, a timedelta, or a text such as ``90d``.
            only: these kinds only; all of them if empty.
            dry_run: only count.

        Returns:
            How much of each kind went, or would go.

        Raises:
            errors.InvalidArgument: there is no such kind, ``older_than`` is no length of time, or ``user_id`` looks
                like a shared memory and is none.
        """
        SharedMemory.check_user_id(user_id)
        if isinstance(only, str):
            raise errors.InvalidArgument(reason=f"only={only!r} is no list of kinds: give [{only!r}]")
        if unknown := [kind for kind in only if kind not in get_args(PruneKind)]:
            kinds = ", ".join(get_args(PruneKind))
            raise errors.InvalidArgument(reason=f"there is no kind {', '.join(map(repr, unknown))}: give {kinds}")
        seconds = None if older_than is None else parse_duration(older_than)
        request = PruneRequest(graph.pruning.sort_kinds(only), app_name, user_id, seconds)
        connection, total = await graph.prepare_connection(self.connection), PruneReport()
        rewriter = Rewriter(connection, self.vectors)
        async for scope, expired in graph.pruning.iterate_expired(connection, request):
            if dry_run:
                total += expired
                continue
            async for batch in graph.pruning.prune_user(connection, scope, request, expired, rewriter.erase_expired):
                total += batch.report
                await _delete_contents(batch)
        return total


async def _delete_contents(batch: PrunedBatch) -> None:
    try:
        await delete_contents(batch.contents)
    except errors.ArtifactStoreUnusable as error:
        logger.warning("The contents of pruned artifacts could not be removed from their store: %s", error)
