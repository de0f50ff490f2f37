"""Re-embed every memory and entity of a database with another embedder, while searches go on.

The new vectors fill the slot that no search reads. When it is complete, one statement switches the searches to it.
Then the texts written meanwhile are embedded and the old slot is emptied. After an interruption, even ``kill -9``, the
same call continues: the database alone knows which texts are left. The work is cut into pages, which this process or
the actors of a cluster embed and write.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import tenacity

from adk_graph_memory import errors
from adk_graph_memory.graph import reembed
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.reembed import ALL_TEXTS, ReembedRun, ReembedTarget, TextCount, TextPage, TextSelection
from adk_graph_memory.memory.jobs import batches, ray_engine
from adk_graph_memory.models.embedder import EmbedderAdapter, EmbedderChoice
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.records.turns import Embedding, Passage

MAX_FAILED_PAGES = 20
"""Failed pages after which a pass is given up."""
MAX_ROUNDS = 10
"""Maximum passes over the texts that were written meanwhile; a busy database would never run out of them."""
CONTROL_PASSAGE = Passage("ready?")
"""A text that every working embedder accepts: if it fails too, the embedder is at fault, not the text."""
RETRY_PAUSES = (0.5, 2.0, 8.0)
"""Seconds before the second, third and fourth attempt of a call."""
MAX_REASON_CHARACTERS = 500
"""Length to which the stored reason of a failure is cut."""

EmbeddingOrReason = Embedding | str
"""An embedding, or why there is none."""
MapPages = Callable[[ReembedRun, AsyncIterator[TextPage]], AsyncIterator[tuple[TextPage, int | Exception]]]
"""Embeds pages, in any order; returns each with how many of its texts have a vector now, or with why it failed."""


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """Progress of a job: ``done`` of ``total`` items in ``seconds`` of this phase; without a count the total is 0."""

    phase: str
    done: int = 0
    total: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ReembedPlan:
    """The slot to fill, the texts by kind, and the calls of the embedder; needless if its vectors are live already."""

    target: ReembedTarget
    counts: Sequence[TextCount]
    calls: int
    is_needed: bool = True


@dataclass(slots=True)
class ReembedOutcome:
    """The result of a job: texts embedded by it, and texts that the database counts as failed or left over."""

    embedder: str
    dimensions: int
    embedded: int = 0
    failed: int = 0
    left: int = 0
    seconds: float = 0.0
    is_switched: bool = False
    """whether the searches read these vectors"""
    is_budget_spent: bool = False
    is_old_deleted: bool = False
    """whether old vectors that an earlier job kept were deleted"""

    @property
    def is_done(self) -> bool:
        """Whether every text has its vector."""
        return not self.failed and not self.left


async def plan_reembedding(
    connection: Connection,
    vectors: EmbedderAdapter,
    *,
    batch: int,
    force: bool,
    selection: TextSelection = ALL_TEXTS,
) -> ReembedPlan:
    """Plan what :func:`reembed_texts` would do, without writing anything."""
    await connection.prepare()
    await vectors.wait_until_ready()
    [control] = await _embed_with_retries(vectors, [CONTROL_PASSAGE])
    target = await reembed.find_reembed_target(connection, vectors.name, len(control.vector))
    live, configured = target.live, (vectors.name, len(control.vector))
    if live and (live.embedder, live.dimensions) == configured and not (target.is_begun or force):
        return ReembedPlan(target, (), 0, is_needed=False)
    counts = await reembed.count_texts(connection, target.slot, selection)
    if not target.is_begun:  # the slot holds another embedder's vectors, which will be deleted
        counts = [TextCount(count.kind, count.texts, count.texts, 0) for count in counts]
    calls = sum(_count_calls(vectors, count.left + count.failed, batch) for count in counts)
    return ReembedPlan(target, counts, calls)


def _count_calls(vectors: EmbedderAdapter, texts: int, batch: int) -> int:
    return math.ceil(texts / min(batch, vectors.texts_per_call or batch))


async def reembed_texts(
    connection: Connection,
    vectors: EmbedderAdapter,
    *,
    batch: int = 256,
    progress: Callable[[ProgressStep], None] = lambda step: None,
    force: bool = False,
    keep_old: bool = False,
    selection: TextSelection = ALL_TEXTS,
    budget: batches.Budget | None = None,
    workers: int = 2,
    map_pages: MapPages | None = None,
) -> ReembedOutcome:
    """Embed every stored text with this embedder and switch the searches to the new vectors.

    If the live vectors are this embedder's already, it only deletes old ones that an earlier call has kept. It does
    nothing if the selection has no text.

    Args:
        connection: the database.
        vectors: the new embedder.
        batch: the number of texts that are read, embedded and written together.
        progress: called with every step.
        force: re-embed even if the live vectors are this embedder's, because the texts or the model have changed.
        keep_old: keep the old vectors, for the services that still have the old embedder, until the next call.
        selection: embed these texts only; the searches switch once no text is left.
        budget: what may be spent; the searches do not switch if it ends before the texts.
        workers: pages in this process: while one is embedded, the one before is written and the next are read.
        map_pages: embeds the stored texts elsewhere, as :func:`map_pages_on_ray` does; None for this process. Texts
            that come in meanwhile are embedded in this process.

    Raises:
        errors.EmbedderFailed: every retry failed; the same call continues later.
        errors.BatchStalled: no page was finished for too long; likewise.
        errors.DatabaseError: the database cannot be used; likewise.
    """
    start_time = time.monotonic()
    plan = await plan_reembedding(connection, vectors, batch=batch, force=force, selection=selection)
    if not plan.is_needed:
        outcome = ReembedOutcome(plan.target.slot.embedder, plan.target.slot.dimensions, is_switched=True)
        if plan.target.kept and not keep_old:
            progress(ProgressStep("Emptying the old slot"))
            await reembed.delete_kept_vectors(connection, plan.target)
            outcome.is_old_deleted = True
        return outcome
    has_texts = selection == ALL_TEXTS or sum(count.texts for count in plan.counts) > 0
    if not (has_texts or plan.target.is_begun):
        return ReembedOutcome(plan.target.slot.embedder, plan.target.slot.dimensions)
    progress(ProgressStep("Emptying the new slot"))
    run = await reembed.begin_reembedding(connection, plan.target)
    embedder = PageEmbedder(connection, RefusalSorter(vectors, plan.target.slot.dimensions), run)
    job = ReembedJob(embedder, batch, progress, budget or batches.Budget(), workers)
    await job.embed_missing("Embedding texts", selection=selection, map_pages=map_pages)
    is_rest_left = selection != ALL_TEXTS and await job.count_remaining()
    if not (job.outcome.is_budget_spent or is_rest_left):
        await job.switch_searches(keep_old=keep_old)
    job.outcome.seconds = round(time.monotonic() - start_time, 1)
    return job.outcome


@dataclass(slots=True)
class ReembedJob:
    """One run, which plans pages, has them embedded and switches the searches."""

    embedder: PageEmbedder
    batch: int
    progress: Callable[[ProgressStep], None]
    budget: batches.Budget
    workers: int
    outcome: ReembedOutcome = field(init=False)

    def __post_init__(self) -> None:
        slot = self.embedder.run.target.slot
        self.outcome = ReembedOutcome(slot.embedder, slot.dimensions)

    async def embed_missing(
        self, phase: str, selection: TextSelection = ALL_TEXTS, map_pages: MapPages | None = None
    ) -> None:
        """Embed texts without a vector until the database counts none, in at most ``MAX_ROUNDS`` passes.

        Raises:
            Exception: what a page failed with, if it still fails when all that can be embedded is.
        """
        total, failure = await self.count_remaining(selection), None
        for _ in range(MAX_ROUNDS):
            if not total or self.outcome.is_budget_spent:
                return
            failure = await self._embed_pages(phase, total, selection, map_pages)
            total, former_total = await self.count_remaining(selection), total
            if failure and total >= former_total:
                break
        if failure:
            raise failure

    async def switch_searches(self, *, keep_old: bool) -> None:
        """Let searches read the new vectors, embed what came in meanwhile, and empty the old slot."""
        connection, run = self.embedder.connection, self.embedder.run
        await reembed.switch_live_slot(connection, run)
        self.outcome.is_switched = True
        await self.await_running_ingests()
        await reembed.clear_stale_vectors(connection, run)
        await self.embed_missing("Embedding new texts")
        if not keep_old:
            self.progress(ProgressStep("Emptying the old slot"))
            await reembed.empty_slot(connection, run.target.other_slot_name)
            await self.embed_missing("Embedding new texts")
        await reembed.finish_reembedding(connection, run, is_done=self.outcome.is_done)

    async def await_running_ingests(self) -> None:
        """Wait for ingests that began before the switch, since they may still write to the old slot."""
        connection = self.embedder.connection
        earlier = running = await reembed.fetch_running_ingests(connection)
        while running := {lease: seconds for lease, seconds in running.items() if lease in earlier}:
            seconds = max(running.values())
            self.progress(ProgressStep(f"Waiting for ingests that run ({len(running)}), {seconds:.0f} s at most"))
            await asyncio.sleep(1.0)
            running = await reembed.fetch_running_ingests(connection)

    async def count_remaining(self, selection: TextSelection = ALL_TEXTS) -> int:
        """Count the texts without a vector that were not refused."""
        connection, slot = self.embedder.connection, self.embedder.run.target.slot
        counts = await reembed.count_texts(connection, slot, selection)
        self.outcome.left = sum(count.left for count in counts)
        self.outcome.failed = sum(count.failed for count in counts)
        return self.outcome.left

    async def _embed_pages(
        self, phase: str, total: int, selection: TextSelection, map_pages: MapPages | None
    ) -> Exception | None:
        """Have each page embedded once; return why one failed, if one did."""
        done, failures, start_time = 0, list[Exception](), time.monotonic()
        pages = self._plan_pages(selection)
        async for page, result in (
            map_pages(self.embedder.run, pages)
            if map_pages
            else batches.map_pages(self.embedder.embed_page, pages, self.workers)
        ):
            if isinstance(result, Exception):
                failures.append(result)
                if len(failures) >= MAX_FAILED_PAGES:
                    raise result
                continue
            self.outcome.embedded += result
            done += page.texts
            self.progress(ProgressStep(phase, done, max(done, total), time.monotonic() - start_time))
        return failures[0] if failures else None

    async def _plan_pages(self, selection: TextSelection) -> AsyncIterator[TextPage]:
        """Plan pages as far as the budget allows."""
        connection, slot, vectors = (
            self.embedder.connection,
            self.embedder.run.target.slot,
            self.embedder.sorter.vectors,
        )
        async for page in reembed.iterate_pages(connection, slot, self.batch, selection):
            calls = _count_calls(vectors, page.texts, self.batch)
            if not self.budget.reserve_calls(calls):
                self.outcome.is_budget_spent = True
                return
            tokens = math.ceil(page.characters / batches.CHARACTERS_PER_TOKEN)
            self.budget.settle_calls(calls, Usage(calls=calls, input_tokens=tokens))
            yield page


@dataclass(frozen=True, slots=True)
class PageEmbedder:
    """Embeds the texts of a page for a run, and writes their vectors."""

    connection: Connection
    sorter: RefusalSorter
    run: ReembedRun
    embedding: asyncio.Lock = field(default_factory=asyncio.Lock)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """one page is embedded while one is written, so a kill loses the work of two at most"""

    async def embed_page(self, page: TextPage) -> int:
        """Embed the texts of a page that still lack a vector; return how many have one now.

        Raises:
            errors.EmbedderFailed: all attempts failed, those with the control passage too.
            errors.DatabaseError: the database cannot be used.
            errors.GraphMemoryError: another run has taken over.
        """
        texts = await reembed.fetch_unembedded_texts(self.connection, page, self.run.target.slot)
        if not texts:
            return 0
        async with self.embedding:
            by_passage = await self.sorter.embed_passages([text.passage for text in texts])
            results = [by_passage[text.passage] for text in texts]
            await self.writing.acquire()
        try:
            await reembed.write_embeddings(self.connection, self.run, page.nodes, texts, results)
        finally:
            self.writing.release()
        return sum(not isinstance(result, str) for result in results)


def map_pages_on_ray(
    options: ray_engine.RayOptions,
    choose_embedder: Callable[[], EmbedderChoice],
    run: ReembedRun,
    pages: AsyncIterator[TextPage],
) -> AsyncIterator[tuple[TextPage, int | Exception]]:
    """Embed pages on a Ray cluster.

    Args:
        options: the cluster, and how much of it to use.
        choose_embedder: called in each actor, as an embedder hardly travels; None for the actor's configured one.
        run: the run that the pages belong to.
        pages: the pages.
    """
    return ray_engine.map_pages(partial(open_page_embedder, choose_embedder, run), pages, options)


@asynccontextmanager
async def open_page_embedder(
    choose_embedder: Callable[[], EmbedderChoice], run: ReembedRun
) -> AsyncIterator[Callable[[TextPage], Awaitable[int]]]:
    """Open what embeds pages in another process, with the settings of its own environment."""
    async with Connection(schema="check") as connection:
        await connection.prepare()
        vectors = EmbedderAdapter(choose_embedder() or connection.settings.embedder, connection.settings)
        await vectors.wait_until_ready()
        slot = run.target.slot
        if vectors.name != slot.embedder:
            raise errors.ConfigurationError(
                reason=f"this node embeds with {vectors.name}, the run with {slot.embedder}"
            )
        yield PageEmbedder(connection, RefusalSorter(vectors, slot.dimensions), run).embed_page


@dataclass(frozen=True, slots=True)
class RefusalSorter:
    """Embeds with retries, and tells texts that the embedder refuses from failures of the embedder."""

    vectors: EmbedderAdapter
    dimensions: int

    async def embed_passages(self, passages: Sequence[Passage]) -> dict[Passage, EmbeddingOrReason]:
        """Embed each distinct passage once; a passage that the embedder refuses gets the reason instead.

        Raises:
            errors.EmbedderFailed: all attempts failed, those with the control passage too.
        """
        return await self._embed_halves(list(dict.fromkeys(passages)))

    async def _embed_halves(self, passages: list[Passage], *, retry: bool = True) -> dict[Passage, EmbeddingOrReason]:
        """Halve a failing batch until each failing passage is alone; only single passages are retried again."""
        try:
            return dict(zip(passages, await self._embed_checked(passages, retry=retry), strict=True))
        except errors.EmbedderFailed as error:
            if len(passages) == 1:
                await self._embed_checked([CONTROL_PASSAGE])
                return {passages[0]: str(error)[:MAX_REASON_CHARACTERS]}
        middle = len(passages) // 2
        halves = passages[:middle], passages[middle:]
        first, second = [await self._embed_halves(half, retry=len(half) == 1) for half in halves]
        return first | second

    async def _embed_checked(self, passages: list[Passage], *, retry: bool = True) -> list[Embedding]:
        embed = partial(_embed_with_retries, self.vectors) if retry else self.vectors.embed_passages
        results = await embed(passages)
        if len(results[0].vector) != self.dimensions:
            reason = f"{len(results[0].vector)} numbers instead of {self.dimensions}"
            raise errors.EmbedderFailed(name=self.vectors.name, reason=reason)
        return results


async def _embed_with_retries(vectors: EmbedderAdapter, passages: list[Passage]) -> list[Embedding]:
    """Embed the passages, retrying after each of ``RETRY_PAUSES``; raise the error of the last attempt."""
    retry = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(errors.EmbedderFailed),
        wait=tenacity.wait_chain(*map(tenacity.wait_fixed, RETRY_PAUSES)),
        stop=tenacity.stop_after_attempt(len(RETRY_PAUSES) + 1),
        reraise=True,
    )
    return await retry(vectors.embed_passages, passages)
