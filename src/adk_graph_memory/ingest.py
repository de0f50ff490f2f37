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
from adk_graph_memory.graph.ingests import Claim, Claims, Pending
from adk_graph_memory.graph.members import Delta
from adk_graph_memory.graph.slots import Embedded
from adk_graph_memory.records import Extraction, IngestReport, Passage, Plan, Scope, Turn, Usage
from adk_graph_memory.telemetry import Stopwatch
from adk_graph_memory.vectors import GraphVectors

logger = logging.getLogger(__name__)

QUEUED = "waits for its turn"
"""The reason why a request is pending that nobody has tried yet."""
ATTEMPTS = 10
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

    async def run(
        self,
        scope: Scope,
        session_id: str,
        turns: Sequence[Turn],
        metadata: Delta,
        topics: Sequence[str] = (),
        waited: float = 0.0,
    ) -> IngestReport:
        """Reads what is new in the turns and writes it down; whatever fails, the rest stays pending with the reason."""
        reader, lease, since = self._extractor.keeping_to(topics), uuid.uuid4().hex, time.monotonic() - waited
        try:
            claims = await self._claimed(scope, session_id, turns, metadata, reader.topics, lease)
            report = IngestReport(busy=claims.busy, extractor=self._extractor.version)
            if not claims.windows:
                return report
            await self._vectors.check()  # before a model is paid for what could not be written
            return report + await self._windows(scope, claims, reader, since)
        except BaseException as error:
            await self._release(scope, lease, f"{type(error).__name__}: {error}")
            raise

    async def queue(
        self, scope: Scope, session_id: str, turns: Sequence[Turn], metadata: Delta, topics: Sequence[str] = ()
    ) -> int:
        """Stores what is new in the turns for whoever resumes; says how many turns that are."""
        topics, lease = self._extractor.keeping_to(topics).topics, uuid.uuid4().hex
        claims = await self._claimed(scope, session_id, turns, metadata, topics, lease, QUEUED)
        return sum(len(window.turns) for window in claims.windows)

    async def _claimed(
        self,
        scope: Scope,
        session_id: str,
        turns: Sequence[Turn],
        metadata: Delta,
        topics: Sequence[str],
        lease: str,
        waits: str | None = None,
    ) -> Claims:
        return await graph.ingests.claim(
            self._connection,
            scope,
            session_id,
            list({turn.id: turn for turn in turns}.values()),
            split=self._extractor.split,
            lease=lease,
            now=time.time(),
            lease_seconds=self._connection.settings.lease,
            metadata=metadata,
            topics=topics,
            waits=waits,
        )

    async def resume(self, waiting: Sequence[Pending]) -> list[IngestReport]:
        """Takes up what waits, what was said in one session together.

        One that fails for a reason of its own holds up no other: its error is raised last.
        """
        telemetry.about([turn for one in waiting for turn in one.turns])
        reports, failure = list[IngestReport](), None
        for one in _by_session(waiting):
            try:
                reports.append(await self.run(one.scope, one.session_id, one.turns, Delta(), one.topics, one.waited))
            except errors.DatabaseUnavailable:
                raise
            except Exception as error:
                logger.warning("What was said in session %s stays pending.", one.session_id, exc_info=True)
                failure = failure or error
        if failure:
            raise failure
        return reports

    async def _windows(self, scope: Scope, claims: Claims, reader: extraction.Extractor, since: float) -> IngestReport:
        """Windows are read side by side and written one by one, in the order they were said.

        Each is written for itself, so a model that fails at one takes nothing from the others; its error is raised
        when all are through.
        """
        slots = asyncio.Semaphore(self._connection.settings.model_concurrency)  # a long session keeps no other waiting
        readings = [asyncio.create_task(_read(reader, claimed, slots)) for claimed in claims.windows]
        report, failure = IngestReport(extractor=self._extractor.version), None
        try:
            for claimed, reading in zip(claims.windows, readings, strict=True):
                try:
                    written = await self._write(scope, claimed, *await reading)
                    if not written.busy:
                        telemetry.ingested(written.facts, time.monotonic() - since)
                    report += written
                except errors.ModelError as error:
                    failure = failure or error
                    await self._release(scope, claimed.lease, f"{type(error).__name__}: {error}", claimed.ingest)
        finally:
            for reading in readings:
                reading.cancel()
            await asyncio.gather(*readings, return_exceptions=True)
        if failure:
            raise failure
        return report

    async def _write(self, scope: Scope, claimed: Claim, read: Extraction, clock: Stopwatch) -> IngestReport:
        """Compares what was read with what is known and writes what that changes, in one transaction."""
        clock.lap("wait")
        await self._vectors.live.check(claimed.live)
        new = set(_passages(claimed, read))
        passages = [*sorted(new), *sorted({*claimed.unembedded.values()} - new)]  # what was refused may be again
        embedded = await self._vectors.of_passages(passages)
        clock.lap("embed")
        report = IngestReport(
            turns=len(claimed.turns),
            usage=read.usage,
            embedded=len(embedded.embeddings),
            unembedded=len(passages) - len(embedded.embeddings) if embedded.wanted else 0,
            extractor=self._extractor.version,
        )
        async with self._connection.locks.hold(("write", scope.key)):
            return await self._consolidate(scope, claimed, read, embedded, report, clock)

    async def _consolidate(
        self, scope: Scope, claimed: Claim, read: Extraction, embedded: Embedded, report: IngestReport, clock: Stopwatch
    ) -> IngestReport:
        """Looks up what is known, decides, and writes; again if another process has written meanwhile."""
        single, usage = self._extractor.functional, Usage()
        wanted, resolve = consolidation.Lookup(read, single), partial(consolidation.resolve, read, functional=single)
        asked: consolidation.Draft | None = None
        for _ in range(ATTEMPTS):
            candidates, writes = await graph.candidates.looked_up(
                self._connection,
                scope,
                claimed,
                wanted,
                embedded,
                is_judged=self._judge is not None,
            )
            draft = await asyncio.to_thread(resolve, candidates)
            clock.lap("compare")
            decisions = consolidation.Decisions()
            if self._judge and draft.is_open:
                if asked is None or asked.questions != draft.questions:
                    decided, cost = await self._judge.decide(draft)
                    asked, usage, report = draft, usage + cost, replace(report, judge=self._judge.version)
                    clock.lap("decide")
                told = await asyncio.to_thread(resolve, candidates, same=decided.same)
                draft, decisions = told, await asyncio.to_thread(decided.about, draft, told)
            plan = await asyncio.to_thread(consolidation.reconcile, draft, decisions)
            done = replace(_told(report, plan), usage=report.usage + usage, milliseconds=clock.laps)
            outcome = await graph.memories.apply(self._connection, scope, claimed, plan, embedded, done, writes=writes)
            clock.lap("write")
            if outcome == "written":
                return replace(done, milliseconds=clock.laps)
            if outcome == "taken":
                return IngestReport(busy=len(claimed.turns), usage=done.usage, extractor=self._extractor.version)
        raise errors.Contended(attempts=ATTEMPTS)

    async def _release(self, scope: Scope, lease: str, reason: str, ingest: str | None = None) -> None:
        with suppressed_and_logged("The claim could not be released; it ends with its lease."):
            await graph.ingests.release(self._connection, scope, lease, reason, ingest)


async def _read(reader: extraction.Extractor, claimed: Claim, slots: asyncio.Semaphore) -> tuple[Extraction, Stopwatch]:
    async with slots:
        clock = Stopwatch()
        read = await reader.extract(claimed.turns, claimed.known, claimed.context)
        clock.lap("extract")
        return replace(read, authors=tuple(sorted({(turn.author, turn.role) for turn in claimed.turns}))), clock


def _by_session(waiting: Sequence[Pending]) -> list[Pending]:
    """Requests of one session for the same topics become one; what failed before is tried, and counted, by itself."""
    together: dict[tuple[Scope, str, tuple[str, ...], int], Pending] = {}
    for number, one in enumerate(waiting, start=1):
        key = one.scope, one.session_id, one.topics, number if one.attempts else 0
        earlier = together.get(key)
        together[key] = replace(earlier, turns=(*earlier.turns, *one.turns)) if earlier else one
    return list(together.values())


def _passages(claimed: Claim, read: Extraction) -> Iterator[Passage]:
    """What one ingest embeds, in one batch."""
    yield from claimed.passages(read.forget).values()
    yield from map(Passage, (*(entity.name for entity in read.entities), *(fact.text for fact in read.facts)))


def _told(report: IngestReport, plan: Plan) -> IngestReport:
    return replace(
        report,
        entities_new=sum(entity.is_new for entity in plan.entities),
        entities_known=sum(not entity.is_new for entity in plan.entities),
        facts=plan.ops,
        forgotten=len(plan.forget),
        dropped=plan.dropped,
    )


@contextmanager
def suppressed_and_logged(message: str) -> Iterator[None]:
    """Lets an error of ours pass with a line in the log, because a greater one is on its way up already."""
    try:
        yield
    except errors.GraphMemoryError:
        logger.warning(message, exc_info=True)
