"""Ingest the turns of a session window by window: lease, extract, compare with the graph, write."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypedDict

from adk_graph_memory import errors
from adk_graph_memory.consolidation.comparison import Comparison, GraphLookup, compare_extraction
from adk_graph_memory.consolidation.decisions import JudgeDecisions
from adk_graph_memory.consolidation.judge import Judge
from adk_graph_memory.consolidation.readings import record_reading
from adk_graph_memory.consolidation.reconciliation import reconcile_claims
from adk_graph_memory.extraction.extractor import Extractor, keep_statements, mark_reported
from adk_graph_memory.graph import ingest_queue, writing
from adk_graph_memory.graph.candidates import fetch_candidates
from adk_graph_memory.graph.ingest_queue import Lease, LeasedWindows, PendingIngest
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.graph.writing import WindowPlan
from adk_graph_memory.language.text import format_count
from adk_graph_memory.memory.engine import Engine, Readers, UserContext
from adk_graph_memory.memory.guard import Guard, Screening
from adk_graph_memory.memory.pictures import describe_window
from adk_graph_memory.memory.rewriting import Erasure
from adk_graph_memory.records.extractions import Extraction, Usage
from adk_graph_memory.records.facts import Candidates, Delta
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.scopes import Scope, SharedMemory, check_items
from adk_graph_memory.records.turns import Passage, Turn, check_session_id, is_document
from adk_graph_memory.runtime import telemetry

logger = logging.getLogger(__name__)

QUEUED_REASON = "waits for its turn"
"""The reason stored with a pending request that has not been tried yet."""
RELEASE_SECONDS = 1.0
"""Time to release a lease after the database was away."""
STAYS_STORED = "The words are stored and pending: add them again, or run `adk-graph-memory ingest --pending`."
"""What an error says of words that could not be read."""
STAYS_PENDING = "What was said is not remembered yet; it stays queued in the graph"
"""How the log names what a failing ingest prevents."""
MAX_LEASED_TURNS = 10_000
"""Turns that one transaction stores."""
MAX_WRITE_ATTEMPTS = 10
"""Plans made for one window, at most, when other workers keep writing to the same user."""


class Stopwatch:
    """Adds up the milliseconds of each stage of an ingest."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._lap_start = time.perf_counter()

    def lap(self, stage: str) -> None:
        """End a stage and begin the next."""
        now = time.perf_counter()
        self.laps[stage] = round(self.laps.get(stage, 0.0) + (now - self._lap_start) * 1_000, 1)
        self._lap_start = now


class _Judgement(NamedTuple):
    """What a judge answered last, about which comparison, and what all its answers cost."""

    draft: Comparison | None = None
    answers: JudgeDecisions = JudgeDecisions()
    usage: Usage = Usage()

    async def ask_judge(self, judge: Judge, draft: Comparison) -> _Judgement:
        """Ask, unless the judge has answered these questions."""
        if self.draft is not None and self.draft.questions == draft.questions:
            return self
        answers, usage = await judge.decide(draft)
        return _Judgement(draft, answers, self.usage + usage)


class Ingestion:
    """Turns the words of a user's session into entities and facts.

    Args:
        user: whose words these are.
        readers: what extracts entities and facts from turns, and what decides where rules cannot.
        guard: is asked before a fact is written.
    """

    def __init__(self, user: UserContext, readers: Readers, guard: Guard | None) -> None:
        self._user, self._graph, self._vectors = user, user.graph, user.engine.vectors
        self._extractor, self._judge, self._describer = readers
        self._guard = guard

    async def ingest_turns(
        self,
        session_id: str,
        turns: Sequence[Turn],
        metadata: JsonMapDelta,
        topics: Sequence[str] = (),
        wait_seconds: float = 0.0,
    ) -> IngestReport:
        """Extract and store what is new in the turns; a window that fails stays pending with the reason.

        ``wait_seconds`` is the time since the request was made; it counts in the recorded duration.
        """
        extractor, lease_id = self._extractor.restrict_topics(topics), uuid.uuid4().hex
        start_time = time.monotonic() - wait_seconds
        try:
            leases = await self._lease_windows(session_id, turns, metadata, extractor.topics, lease_id)
            report = IngestReport(busy=leases.busy, extractor=self._extractor.version)
            if not leases.windows:
                return report
            await self._vectors.check_embedder()  # before paying a model for facts that could not be written
            return report + await self._ingest_windows(leases, extractor, start_time)
        except BaseException as error:
            await self._release_lease(lease_id, error)
            raise

    async def enqueue_turns(self, session_id: str, turns: Sequence[Turn]) -> int:
        """Store the new turns as pending, for a later resume; return how many there are."""
        leases = await self._lease_windows(
            session_id, turns, JsonMapDelta(), self._extractor.topics, uuid.uuid4().hex, QUEUED_REASON
        )
        return sum(len(window.turns) for window in leases.windows)

    async def _lease_windows(
        self,
        session_id: str,
        turns: Sequence[Turn],
        metadata: JsonMapDelta,
        topics: Sequence[str],
        lease_id: str,
        pending_reason: str | None = None,
    ) -> LeasedWindows:
        turns, leases = list({turn.id: turn for turn in turns}.values()), LeasedWindows()
        for start in range(0, len(turns), MAX_LEASED_TURNS):
            leases += await ingest_queue.lease_turns(
                self._graph,
                session_id,
                turns[start : start + MAX_LEASED_TURNS],
                split=self._extractor.split_turns,
                lease=lease_id,
                now=time.time(),
                lease_seconds=self._graph.connection.settings.limits.lease,
                metadata=metadata,
                topics=topics,
                model=self._extractor.model_name,
                pending_reason=pending_reason,
            )
        return leases

    async def _ingest_windows(self, leases: LeasedWindows, extractor: Extractor, start_time: float) -> IngestReport:
        """Extract the windows concurrently; write them one by one, in the order they were said.

        Each window is written on its own: when the model fails at one, the others are kept, and the error is raised at
        the end.
        """
        model_slots = asyncio.Semaphore(
            self._graph.connection.settings.limits.model_concurrency
        )  # so that no session takes all
        tasks = [asyncio.create_task(self._extract_window(extractor, window, model_slots)) for window in leases.windows]
        report, first_error = IngestReport(extractor=self._extractor.version), None
        try:
            for window, task in zip(leases.windows, tasks, strict=True):
                try:
                    window_report = await self._write_window(*await task)
                    self._user.engine.picture_cache.drop_contents(window.turns)
                    if not window_report.busy:
                        telemetry.record_ingest(window_report.facts, time.monotonic() - start_time)
                    report += window_report
                except errors.ModelError as error:
                    first_error = first_error or error
                    await self._release_lease(window.lease_id, error, window.ingest_id)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if first_error:
            raise first_error
        return report

    async def _extract_window(
        self, extractor: Extractor, window: Lease, model_slots: asyncio.Semaphore
    ) -> tuple[Lease, Extraction, Stopwatch]:
        async with model_slots:
            clock = Stopwatch()
            window, described = await describe_window(self._user, self._describer, window)
            result = await extractor.extract(window.turns, window.known_entities, window.context)
            if window.is_evidence:  # whoever resumes it may not know that it was added on purpose
                result = keep_statements(result, window.turns, {}, owner=self._user.scope.owner_name)
            clock.lap("extract")
            result = replace(
                result,
                authors=tuple(sorted({(turn.author, turn.role) for turn in window.turns})),
                usage=described.usage + result.usage,
                drop_counts=Counter(result.drop_counts) + Counter(described.drop_counts),
                unread={**described.unread, **result.unread},
            )
            return window, mark_reported(result) if is_document(window.session_id) else result, clock

    async def _write_window(self, window: Lease, result: Extraction, clock: Stopwatch) -> IngestReport:
        clock.lap("wait")
        await self._vectors.slot_tracker.follow_switch(window.live_slot_name)
        turn_passages = window.list_passages(result.forget_turn_ids).values()
        new_passages = {*turn_passages, *iterate_extracted_passages(result)}
        # Memories that an earlier ingest could not embed come last: the embedder may refuse them again.
        passages = [*sorted(new_passages), *sorted({*window.unembedded_passages.values()} - new_passages)]
        batch = await self._vectors.embed_passages(passages)
        clock.lap("embed")
        report = IngestReport(
            turns=len(window.turns),
            usage=result.usage,
            embedded=len(batch.embeddings),
            unembedded=len(passages) - len(batch.embeddings) if batch.has_embedder else 0,
            extractor=self._extractor.version,
        )
        await self._forget_on_request(window, result)
        async with self._graph.connection.locks.hold_lock(("write", self._user.scope.key)):
            return await self._consolidate_window(window, result, batch, report, clock)

    async def _forget_on_request(self, window: Lease, result: Extraction) -> None:
        """Forget the turns that their author asked to forget: of this window, or the turns before it."""
        turns = (*window.context, *window.turns)
        ids = [turn.make_memory_id(window.session_id) for turn in turns if turn.id in result.forget_turn_ids]
        if ids:
            await self._user.rewriter.erase_memories(lambda snapshot: Erasure.select_ids(snapshot, ids))

    async def _consolidate_window(
        self,
        window: Lease,
        result: Extraction,
        batch: EmbeddingBatch,
        report: IngestReport,
        clock: Stopwatch,
    ) -> IngestReport:
        """Fetch candidates, decide and write; start over if another process wrote to this user meanwhile."""
        turns, judgement = (*window.context, *window.turns), _Judgement()
        screening = Screening(self._guard, result, turns, self._user.scope, window.known_entities)
        await screening.check_facts()
        for _ in range(MAX_WRITE_ATTEMPTS):
            predicates = self._extractor.functional_predicates
            compare = partial(compare_extraction, screening.kept, functional_predicates=predicates)
            candidates, writes = await self._fetch_candidates(window, screening.kept, batch)
            draft = await asyncio.to_thread(compare, candidates)
            clock.lap("compare")
            decisions = JudgeDecisions()
            if self._judge and draft.has_open_questions:
                judgement = await judgement.ask_judge(self._judge, draft)
                report, answers = replace(report, judge=self._judge.version), judgement.answers
                clock.lap("decide")
                resolved_draft = await asyncio.to_thread(compare, candidates, doubt_answers=answers.doubt_answers)
                decisions = await asyncio.to_thread(answers.remap_ids, draft, resolved_draft)
                draft = resolved_draft
            reading = await asyncio.to_thread(self._record_reading, window, screening, draft, decisions, report)
            delta = await asyncio.to_thread(reconcile_claims, draft, decisions, reading)
            if await screening.check_changes(delta, candidates):
                continue
            total = _add_counts(report, draft, delta, judgement.usage, clock)
            planned = WindowPlan(delta, reading, total, writes, draft.remarks, draft.forget_turn_ids)
            outcome = await self._store_plan(window, planned, batch)
            clock.lap("write")
            if outcome == "written":
                _log_unread_turns(window, result)
                return replace(total, milliseconds=clock.laps)
            if outcome == "taken":
                return IngestReport(busy=len(window.turns), usage=total.usage, extractor=self._extractor.version)
        raise errors.WriteConflict(attempts=MAX_WRITE_ATTEMPTS)

    async def _store_plan(self, window: Lease, planned: WindowPlan, batch: EmbeddingBatch) -> writing.WriteOutcome:
        """Write the plan, unless somebody wrote to the user or took over the window meanwhile."""
        if window.edited_turn_ids:
            return await self._user.rewriter.apply_edit(window, planned, batch)
        return await writing.apply_plan(self._graph, window, planned, batch)

    async def _fetch_candidates(
        self, window: Lease, result: Extraction, batch: EmbeddingBatch
    ) -> tuple[Candidates, int]:
        lookup = GraphLookup(result, self._extractor.functional_predicates)
        is_judged = self._judge is not None
        return await fetch_candidates(self._graph, window, lookup, batch, is_judged=is_judged)

    def _record_reading(
        self,
        window: Lease,
        screening: Screening,
        comparison: Comparison,
        decisions: JudgeDecisions,
        report: IngestReport,
    ) -> Reading:
        return record_reading(
            screening.remembered,
            comparison,
            decisions,
            ingest_id=window.ingest_id,
            session_id=window.session_id,
            memory_ids=window.memory_ids,
            functional_predicates=self._extractor.functional_predicates,
            versions=(report.extractor, report.judge),
            withheld=screening.withheld,
        )

    async def _release_lease(self, lease_id: str, error: BaseException, ingest_id: str | None = None) -> None:
        """Make the windows pending again, with the reason; do not wait long for a database that is away."""
        reason = f"{type(error).__name__}: {error}"
        try:
            async with asyncio.timeout(RELEASE_SECONDS if isinstance(error, errors.DatabaseUnavailable) else None):
                await ingest_queue.release_lease(self._graph, lease_id, reason, ingest_id)
        except (errors.GraphMemoryError, TimeoutError) as failure:
            logger.warning("A lease could not be released; it ends by itself after its time: %r", failure)


def _log_unread_turns(window: Lease, result: Extraction) -> None:
    for reason, count in Counter(result.unread.values()).items():
        logger.warning(
            "%s of session %r could not be read, or not as a whole. `adk-graph-memory reextract` tries again. %s",
            format_count(count, "turn"),
            window.session_id,
            reason,
        )


def _group_by_session(ingests: Sequence[PendingIngest]) -> list[PendingIngest]:
    """Merge requests of one session and the same topics; a request that failed before is retried on its own."""
    groups: dict[tuple[Scope, str, tuple[str, ...], int], PendingIngest] = {}
    for number, ingest in enumerate(ingests, start=1):
        key = ingest.scope, ingest.session_id, ingest.topics, number if ingest.attempts else 0
        group = groups.get(key)
        groups[key] = replace(group, turns=(*group.turns, *ingest.turns)) if group else ingest
    return list(groups.values())


def iterate_extracted_passages(result: Extraction) -> Iterator[Passage]:
    """Iterate over the names and facts that were extracted."""
    yield from map(Passage, (*(entity.name for entity in result.entities), *(fact.text for fact in result.facts)))


def _add_counts(report: IngestReport, draft: Comparison, delta: Delta, usage: Usage, clock: Stopwatch) -> IngestReport:
    return replace(
        report,
        usage=report.usage + usage,
        milliseconds=clock.laps,
        entities_new=sum(entity.is_new for entity in delta.entities),
        entities_known=sum(not entity.is_new for entity in delta.entities),
        facts=delta.operation_counts,
        forgotten=len(draft.forget_turn_ids),
        dropped=delta.drop_counts,
    )


class RememberOptions(TypedDict, total=False):
    """What to store and read with the turns; :meth:`.UserMemory.remember` says what each option means."""

    metadata: Mapping[str, Any] | None
    allowed_topics: Sequence[str]
    replace_metadata: bool


@telemetry.trace_operation("upsert_memory")
async def remember_turns(
    user: UserContext,
    turns: Sequence[Turn],
    *,
    session_id: str,
    metadata: Mapping[str, Any] | None = None,
    allowed_topics: Sequence[str] = (),
    replace_metadata: bool = False,
) -> IngestReport:
    """Extract entities and facts from the new turns and store them; :meth:`.UserMemory.remember` says how.

    Raises:
        errors.InvalidArgument: this session id is reserved, or turns for a shared memory do not name their author.
        errors.RedactionFailed: the redaction failed; nothing is stored.
    """
    turns = await _clean_turns(user, session_id, turns)
    topics = check_items("allowed_topics", allowed_topics or (), str)
    redacted = await user.engine.redactor.redact_metadata(metadata)
    if not turns:
        return IngestReport(extractor=user.engine.extractor.version)
    delta = JsonMapDelta.from_values(redacted or {}, replaces=replace_metadata)
    return await ingest_turns(user, session_id, turns, delta, topics=topics)


@telemetry.trace_operation("queue_memory")
async def enqueue_turns(user: UserContext, turns: Sequence[Turn], *, session_id: str) -> int:
    """Store the new turns as pending, for a later :func:`resume_ingests`; return how many there are."""
    turns = await _clean_turns(user, session_id, turns)
    return await _make_ingestion(user).enqueue_turns(session_id, turns) if turns else 0


async def _clean_turns(user: UserContext, session_id: str, turns: Sequence[Turn]) -> list[Turn]:
    """The turns that say something, redacted and checked."""
    check_session_id(session_id)
    turns = await user.engine.redactor.redact_turns(check_items("turns", turns, Turn))
    turns = [turn for turn in turns if turn.author_text.strip() or _shows_something(turn, user.engine)]
    telemetry.annotate_memories(turns)
    user.scope.check_authors(turn.author for turn in turns)
    if user.engine.describer:
        user.engine.picture_cache.keep_contents(turns)
    return turns


def _shows_something(turn: Turn, engine: Engine) -> bool:
    """Whether what a turn shows has a name or a description, or may get one."""
    return any(part.name or part.description or (engine.describer and part.is_picture) for part in turn.shown)


async def ingest_turns(
    user: UserContext,
    session_id: str,
    turns: Sequence[Turn],
    metadata: JsonMapDelta | None = None,
    *,
    topics: Sequence[str] = (),
    extractor: Extractor | None = None,
    guard: Guard | None = None,
) -> IngestReport:
    """Ingest turns, with another extractor or guard than the memory's if one is given."""
    ingestion = _make_ingestion(user, extractor, guard)
    try:
        return await ingestion.ingest_turns(session_id, turns, metadata or JsonMapDelta(), topics)
    except (errors.EmbeddingError, errors.EmbedderMismatch, errors.ModelError, errors.WriteConflict) as error:
        raise error.add_sentence(STAYS_STORED) from error.__cause__


def _make_ingestion(user: UserContext, extractor: Extractor | None = None, guard: Guard | None = None) -> Ingestion:
    readers = user.engine.choose_readers()
    return Ingestion(user, readers._replace(extractor=extractor or readers.extractor), guard or user.engine.guard)


@telemetry.trace_operation("upsert_memory")
async def resume_ingests(
    engine: Engine,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    before: float | None = None,
    max_attempts: int | None = None,
    queued_for: str | None = None,
) -> list[IngestReport]:
    """Ingest pending requests, those of one session together; :meth:`.GraphMemory.resume` says which.

    A request that fails does not stop the others. The first such error is raised at the end, the others are logged.
    """
    SharedMemory.check_user_id(user_id)
    ingests = await ingest_queue.fetch_pending_ingests(
        engine.connection, app_name=app_name, user_id=user_id, before=before, max_attempts=max_attempts
    )
    if queued_for is not None:
        ingests = [ingest for ingest in ingests if ingest.model == queued_for]
    telemetry.annotate_memories([turn for ingest in ingests for turn in ingest.turns])
    readers, reports, first_error = engine.choose_readers(queued_for), list[IngestReport](), None
    for ingest in _group_by_session(ingests):
        ingestion = Ingestion(UserContext(engine, ingest.scope), readers, engine.guard)
        request = ingest.session_id, ingest.turns, JsonMapDelta(), ingest.topics
        try:
            reports.append(await ingestion.ingest_turns(*request, ingest.wait_seconds))
        except errors.DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  the others go on, and it is raised at the end
            if first_error is not None:
                engine.problems.report_problem(STAYS_PENDING, error, logging.ERROR)
            first_error = first_error or error
    if first_error:
        raise first_error
    return reports
