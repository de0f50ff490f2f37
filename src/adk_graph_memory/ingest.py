"""Turns of a session go in; they are claimed, read, compared with what is known and written, a window at a time."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from adk_graph_memory import consolidation, errors, extraction, graph, telemetry
from adk_graph_memory.graph.ingest_queue import Lease, LeasedWindows, PendingIngest
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.records import Extraction, IngestReport, Passage, Scope, Turn, Usage, WritePlan
from adk_graph_memory.telemetry import Stopwatch

logger = logging.getLogger(__name__)

QUEUED_REASON = "waits for its turn"
"""The reason why a request is pending that nobody has tried yet."""
MAX_WRITE_ATTEMPTS = 10
"""How often a plan is made anew because somebody else wrote to the same user meanwhile."""


class Ingestion:
    """How turns become entities and facts.

    Args:
        connection: a prepared connection.
        vectors: the embedder and its slot.
        extractor: what reads turns.
        judge: what decides where rules cannot tell; without one, such facts stay side by side.
    """

    def __init__(
        self,
        connection: graph.Connection,
        vectors: GraphVectors,
        extractor: extraction.Extractor,
        judge: consolidation.Judge | None,
    ) -> None:
        self._connection, self._vectors, self._extractor, self._judge = connection, vectors, extractor, judge

    async def ingest_turns(
        self,
        scope: Scope,
        session_id: str,
        turns: Sequence[Turn],
        metadata: JsonMapDelta,
        topics: Sequence[str] = (),
        waited: float = 0.0,
    ) -> IngestReport:
        """Reads what is new in the turns and writes it down; whatever fails, the rest stays pending with the reason."""
        reader, lease, since = self._extractor.restrict_topics(topics), uuid.uuid4().hex, time.monotonic() - waited
        try:
            claims = await self._lease_windows(scope, session_id, turns, metadata, reader.topics, lease)
            report = IngestReport(busy=claims.busy, extractor=self._extractor.version)
            if not claims.windows:
                return report
            await self._vectors.check_embedder()  # before a model is paid for what could not be written
            return report + await self._ingest_windows(scope, claims, reader, since)
        except BaseException as error:
            await self._release_lease(scope, lease, f"{type(error).__name__}: {error}")
            raise

    async def enqueue_turns(
        self, scope: Scope, session_id: str, turns: Sequence[Turn], metadata: JsonMapDelta, topics: Sequence[str] = ()
    ) -> int:
        """Stores what is new in the turns for whoever resumes; says how many turns that are."""
        topics, lease = self._extractor.restrict_topics(topics).topics, uuid.uuid4().hex
        claims = await self._lease_windows(scope, session_id, turns, metadata, topics, lease, QUEUED_REASON)
        return sum(len(window.turns) for window in claims.windows)

    async def _lease_windows(
        self,
        scope: Scope,
        session_id: str,
        turns: Sequence[Turn],
        metadata: JsonMapDelta,
        topics: Sequence[str],
        lease: str,
        waits: str | None = None,
    ) -> LeasedWindows:
        return await graph.ingest_queue.lease_turns(
            self._connection,
            scope,
            session_id,
            list({turn.id: turn for turn in turns}.values()),
            split=self._extractor.split_turns,
            lease=lease,
            now=time.time(),
            lease_seconds=self._connection.settings.lease,
            metadata=metadata,
            topics=topics,
            waits=waits,
        )

    async def resume_pending(self, waiting: Sequence[PendingIngest]) -> list[IngestReport]:
        """Takes up what waits, what was said in one session together.

        One that fails for a reason of its own holds up no other: its error is raised last.
        """
        telemetry.annotate_memories([turn for one in waiting for turn in one.turns])
        reports, failure = list[IngestReport](), None
        for one in _group_by_session(waiting):
            try:
                reports.append(
                    await self.ingest_turns(
                        one.scope, one.session_id, one.turns, JsonMapDelta(), one.topics, one.wait_seconds
                    )
                )
            except errors.DatabaseUnavailable:
                raise
            except Exception as error:
                logger.warning("What was said in session %s stays pending.", one.session_id, exc_info=True)
                failure = failure or error
        if failure:
            raise failure
        return reports

    async def _ingest_windows(
        self, scope: Scope, claims: LeasedWindows, reader: extraction.Extractor, since: float
    ) -> IngestReport:
        """Windows are read side by side and written one by one, in the order they were said.

        Each is written for itself, so a model that fails at one takes nothing from the others; its error is raised
        when all are through.
        """
        slots = asyncio.Semaphore(self._connection.settings.model_concurrency)  # a long session keeps no other waiting
        readings = [asyncio.create_task(_extract_window(reader, claimed, slots)) for claimed in claims.windows]
        report, failure = IngestReport(extractor=self._extractor.version), None
        try:
            for claimed, reading in zip(claims.windows, readings, strict=True):
                try:
                    written = await self._write_window(scope, claimed, *await reading)
                    if not written.busy:
                        telemetry.record_ingest(written.facts, time.monotonic() - since)
                    report += written
                except errors.ModelError as error:
                    failure = failure or error
                    await self._release_lease(
                        scope, claimed.lease_id, f"{type(error).__name__}: {error}", claimed.ingest_id
                    )
        finally:
            for reading in readings:
                reading.cancel()
            await asyncio.gather(*readings, return_exceptions=True)
        if failure:
            raise failure
        return report

    async def _write_window(self, scope: Scope, claimed: Lease, read: Extraction, clock: Stopwatch) -> IngestReport:
        """Compares what was read with what is known and writes what that changes, in one transaction."""
        clock.lap("wait")
        await self._vectors.slot_tracker.follow_switch(claimed.live_slot_name)
        new = set(_iterate_passages(claimed, read))
        passages = [
            *sorted(new),
            *sorted({*claimed.unembedded_passages.values()} - new),
        ]  # what was refused may be again
        embedded = await self._vectors.embed_passages(passages)
        clock.lap("embed")
        report = IngestReport(
            turns=len(claimed.turns),
            usage=read.usage,
            embedded=len(embedded.embeddings),
            unembedded=len(passages) - len(embedded.embeddings) if embedded.has_embedder else 0,
            extractor=self._extractor.version,
        )
        async with self._connection.locks.hold_lock(("write", scope.key)):
            return await self._consolidate_window(scope, claimed, read, embedded, report, clock)

    async def _consolidate_window(
        self,
        scope: Scope,
        claimed: Lease,
        read: Extraction,
        embedded: EmbeddingBatch,
        report: IngestReport,
        clock: Stopwatch,
    ) -> IngestReport:
        """Looks up what is known, decides, and writes; again if another process has written meanwhile."""
        single, usage = self._extractor.functional_predicates, Usage()
        wanted, resolve = (
            consolidation.GraphLookup(read, single),
            partial(consolidation.compare_extraction, read, functional=single),
        )
        asked: consolidation.Comparison | None = None
        for _ in range(MAX_WRITE_ATTEMPTS):
            candidates, writes = await graph.candidates.fetch_candidates(
                self._connection,
                scope,
                claimed,
                wanted,
                embedded,
                is_judged=self._judge is not None,
            )
            draft = await asyncio.to_thread(resolve, candidates)
            clock.lap("compare")
            decisions = consolidation.JudgeDecisions()
            if self._judge and draft.has_open_questions:
                if asked is None or asked.questions != draft.questions:
                    decided, cost = await self._judge.decide(draft)
                    asked, usage, report = draft, usage + cost, replace(report, judge=self._judge.version)
                    clock.lap("decide")
                told = await asyncio.to_thread(resolve, candidates, same=decided.doubt_answers)
                draft, decisions = told, await asyncio.to_thread(decided.remap_ids, draft, told)
            plan = await asyncio.to_thread(consolidation.reconcile_claims, draft, decisions)
            done = replace(_add_plan_counts(report, plan), usage=report.usage + usage, milliseconds=clock.laps)
            outcome = await graph.memories.apply_plan(
                self._connection, scope, claimed, plan, embedded, done, writes=writes
            )
            clock.lap("write")
            if outcome == "written":
                return replace(done, milliseconds=clock.laps)
            if outcome == "taken":
                return IngestReport(busy=len(claimed.turns), usage=done.usage, extractor=self._extractor.version)
        raise errors.WriteConflict(attempts=MAX_WRITE_ATTEMPTS)

    async def _release_lease(self, scope: Scope, lease: str, reason: str, ingest: str | None = None) -> None:
        with suppress_and_log("The claim could not be released; it ends with its lease."):
            await graph.ingest_queue.release_lease(self._connection, scope, lease, reason, ingest)


async def _extract_window(
    reader: extraction.Extractor, claimed: Lease, slots: asyncio.Semaphore
) -> tuple[Extraction, Stopwatch]:
    async with slots:
        clock = Stopwatch()
        read = await reader.extract(claimed.turns, claimed.known_entities, claimed.context)
        clock.lap("extract")
        return replace(read, authors=tuple(sorted({(turn.author, turn.role) for turn in claimed.turns}))), clock


def _group_by_session(waiting: Sequence[PendingIngest]) -> list[PendingIngest]:
    """Requests of one session for the same topics become one; what failed before is tried, and counted, by itself."""
    together: dict[tuple[Scope, str, tuple[str, ...], int], PendingIngest] = {}
    for number, one in enumerate(waiting, start=1):
        key = one.scope, one.session_id, one.topics, number if one.attempts else 0
        earlier = together.get(key)
        together[key] = replace(earlier, turns=(*earlier.turns, *one.turns)) if earlier else one
    return list(together.values())


def _iterate_passages(claimed: Lease, read: Extraction) -> Iterator[Passage]:
    """What one ingest embeds, in one batch."""
    yield from claimed.make_passages(read.forget_turn_ids).values()
    yield from map(Passage, (*(entity.name for entity in read.entities), *(fact.text for fact in read.facts)))


def _add_plan_counts(report: IngestReport, plan: WritePlan) -> IngestReport:
    return replace(
        report,
        entities_new=sum(entity.is_new for entity in plan.entities),
        entities_known=sum(not entity.is_new for entity in plan.entities),
        facts=plan.operation_counts,
        forgotten=len(plan.forget_turn_ids),
        dropped=plan.drop_counts,
    )


@contextmanager
def suppress_and_log(message: str) -> Iterator[None]:
    """Lets an error of ours pass with a line in the log, because a greater one is on its way up already."""
    try:
        yield
    except errors.GraphMemoryError:
        logger.warning(message, exc_info=True)
