"""Check that each user's graph follows from their words, mend it, and delete what has expired."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, get_args

from adk_graph_memory import errors
from adk_graph_memory.graph import erasing, invariants, listings
from adk_graph_memory.graph.blobs import delete_contents
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.erasing import PrunedBatch, PruneRequest
from adk_graph_memory.graph.invariants import MENDED_FIRST, MENDED_LAST, InvariantCounts
from adk_graph_memory.language.dates import parse_duration
from adk_graph_memory.memory.engine import Engine, UserContext
from adk_graph_memory.memory.rewriting import Rewrite
from adk_graph_memory.records.reports import Finding, Invariant
from adk_graph_memory.records.results import Checkup, PruneKind, PruneReport
from adk_graph_memory.records.scopes import SharedMemory
from adk_graph_memory.runtime import telemetry

T = TypeVar("T")
logger = logging.getLogger(__name__)

EMBEDDED_AT_ONCE = 100
"""Texts without a vector that one step of mending embeds."""


async def iterate_checkups(
    engine: Engine, *, app_name: str | None = None, user_id: str | None = None, mend: bool = False
) -> AsyncIterator[Checkup]:
    """Check one user after another, and mend on request; :meth:`.GraphMemory.check_memories` says how."""
    SharedMemory.check_user_id(user_id)
    async for scope in listings.iterate_owners(engine.connection, app_name, user_id):
        checker = UserChecker(UserContext(engine, scope))
        yield await (checker.mend() if mend else checker.check())


async def check_store(connection: Connection, *, mend: bool = False, owners: bool = True) -> list[Finding]:
    """Check what belongs to no user: indexes, constraints and, with ``owners``, nodes of unknown users."""
    reason = None
    faults = await invariants.find_schema_faults(connection)
    left = faults
    if mend and (faults.missing or faults.offline) and connection.settings.schema_mode == "auto":
        reason = await invariants.mend_schema(connection, faults)
        left = await invariants.find_schema_faults(connection)
    cases: tuple[tuple[Invariant, tuple[str, ...], tuple[str, ...]], ...] = (
        ("missing_indexes", faults.missing, left.missing),
        ("offline_indexes", faults.offline, left.offline),
    )
    findings = [
        Finding.make(
            invariant,
            len(names),
            is_mended=mend and not left_names,
            details=(*(left_names or names), *([reason] if reason and left_names else [])),
        )
        for invariant, names, left_names in cases
        if names
    ]
    if owners and (nodes := await invariants.count_ownerless_nodes(connection)):
        findings.append(Finding.make("ownerless_nodes", nodes))
    return findings


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found of one user; without a derivation, memory cannot be derived."""

    counts: InvariantCounts
    derivation: Rewrite | None
    unreadable_ids: tuple[str, ...] = ()

    @property
    def broken(self) -> dict[Invariant, int]:
        """How often each invariant is broken."""
        broken = dict(self.counts.broken)
        if self.unreadable_ids:
            broken["unreadable_readings"] = len(self.unreadable_ids)
        elif self.derivation is None:
            broken["underivable"] = 1
        return broken

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to mend."""
        is_derived = self.derivation is not None and not self.derivation.delta.count
        return is_derived and not self.broken and not self.counts.unembedded


class UserChecker:
    """Checks and mends the memory of one user."""

    def __init__(self, user: UserContext) -> None:
        self._user, self._graph, self._rewriter = user, user.graph, user.rewriter

    async def check(self) -> Checkup:
        """Check without writing anything."""
        examination = await self._examine()
        return await self._make_checkup(examination, examination, examination.derivation)

    async def mend(self) -> Checkup:
        """Check, mend what can be mended, and check again."""
        before = await self._examine()
        if before.is_clean:
            return await self._make_checkup(before, before, before.derivation)
        kinds = [kind for kind in MENDED_FIRST if kind in before.broken]
        if kinds:
            await invariants.mend_user(self._graph, kinds)
        if before.unreadable_ids:
            await self._derive(self._rewriter.salvage_readings)
        restored = await self._derive(self._rewriter.restore_derivation)
        after = await invariants.count_broken_invariants(self._graph)
        if kinds := [kind for kind in MENDED_LAST if kind in after.broken]:
            await invariants.mend_user(self._graph, kinds)
        if after.unembedded:
            await embed_missing_nodes(self._user)
        return await self._make_checkup(before, await self._examine(), before.derivation or restored)

    async def _examine(self) -> Examination:
        derivation = await self._derive(self._rewriter.compare_derivation)
        unreadable = await invariants.find_unreadable_readings(self._graph) if derivation is None else ()
        counts = await invariants.count_broken_invariants(self._graph)
        return Examination(counts, derivation, tuple(unreadable))

    async def _derive(self, derive: Callable[[], Awaitable[T]]) -> T | None:
        """Derive the memory; None, and a line in the log, if that is impossible."""
        try:
            return await derive()
        except errors.DatabaseError:
            raise
        except Exception:
            logger.warning("The memory of user %r cannot be derived", self._graph.scope.user_id, exc_info=True)
            return None

    async def _make_checkup(self, before: Examination, after: Examination, derivation: Rewrite | None) -> Checkup:
        waiting, _, unread = await listings.count_unfinished(self._graph)
        differences = derivation.delta.count if derivation else 0
        is_mended = bool(differences and after.derivation and not after.derivation.delta.count)
        return Checkup(
            self._graph.scope.app_name,
            self._graph.scope.user_id,
            facts=len(derivation.derived.facts) if derivation else before.counts.facts,
            differences=differences,
            is_mended=is_mended and before is not after,
            waiting=waiting,
            unembedded=after.counts.unembedded,
            unread=unread,
            findings=tuple(
                Finding.make(
                    kind,
                    count,
                    is_mended=kind not in after.broken,
                    details=before.unreadable_ids if kind == "unreadable_readings" else (),
                )
                for kind, count in before.broken.items()
            ),
        )


async def embed_missing_nodes(user: UserContext) -> None:
    """Embed what lacks its vector of a user; what cannot be embedded now is marked for the next ingest."""
    graph = user.graph
    with suppress(errors.EmbeddingError, errors.EmbedderMismatch, errors.ConfigurationError):
        while nodes := await invariants.fetch_unembedded_nodes(graph, EMBEDDED_AT_ONCE):
            batch = await user.engine.vectors.embed_passages([node.passage for node in nodes])
            if not await invariants.write_missing_vectors(graph, nodes, batch):
                break
    await invariants.mark_unembedded_memories(graph)


@telemetry.trace_operation("prune_memory")
async def prune(
    engine: Engine,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    older_than: float | str | timedelta | None = None,
    only: Sequence[PruneKind] = (),
    dry_run: bool = False,
) -> PruneReport:
    """Delete expired data for good; :meth:`.GraphMemory.prune` says which."""
    SharedMemory.check_user_id(user_id)
    if isinstance(only, str):
        raise errors.InvalidArgument(reason=f"only={only!r} is no list of kinds: give [{only!r}]")
    if unknown := [kind for kind in only if kind not in get_args(PruneKind)]:
        kinds = ", ".join(get_args(PruneKind))
        raise errors.InvalidArgument(reason=f"there is no kind {', '.join(map(repr, unknown))}: give {kinds}")
    seconds = None if older_than is None else parse_duration(older_than)
    request = PruneRequest(erasing.sort_kinds(only), app_name, user_id, seconds)
    total = PruneReport()
    async for scope, expired in erasing.iterate_expired(engine.connection, request):
        if dry_run:
            total += expired
            continue
        user = UserContext(engine, scope)
        async for batch in erasing.prune_user(user.graph, request, expired, user.rewriter.erase_expired):
            total += batch.report
            await _delete_contents(batch)
    return total


async def _delete_contents(batch: PrunedBatch) -> None:
    try:
        await delete_contents(batch.contents)
    except errors.ArtifactStoreUnusable as error:
        logger.warning("The contents of pruned artifacts could not be removed from their store: %s", error)
