"""Re-embed every memory and entity of a database with another embedder, while searches go on.

The new vectors fill the slot that no search reads. When it is complete, one statement switches the searches to it.
Then the texts written meanwhile are embedded and the old slot is emptied. After an interruption, even ``kill -9``, the
same call continues: the database alone knows which texts are left.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import tenacity

from adk_graph_memory import embeddings, errors, graph
from adk_graph_memory.graph.reembed import NODE_KINDS, NodeKind, ReembedRun, ReembedTarget, TextCount
from adk_graph_memory.records import Embedding, Passage

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

    @property
    def is_done(self) -> bool:
        """Whether every text has its vector."""
        return not self.failed and not self.left


async def plan_reembedding(
    connection: graph.Connection, vectors: embeddings.EmbedderAdapter, *, batch: int, force: bool
) -> ReembedPlan:
    """Plan what :func:`reembed_texts` would do, without writing anything."""
    await graph.prepare_connection(connection)
    await vectors.wait_until_ready()
    [control] = await _embed_with_retries(vectors, [CONTROL_PASSAGE])
    target = await graph.reembed.find_reembed_target(connection, vectors.name, len(control.vector))
    live, configured = target.live, (vectors.name, len(control.vector))
    if live and (live.embedder, live.dimensions) == configured and not (target.is_begun or force):
        return ReembedPlan(target, (), 0, is_needed=False)
    counts = await graph.reembed.count_texts(connection, target.slot)
    if not target.is_begun:  # the slot holds another embedder's vectors, which will be deleted
        counts = [TextCount(count.kind, count.texts, count.texts, 0) for count in counts]
    size = min(batch, vectors.texts_per_call or batch)
    return ReembedPlan(target, counts, sum(math.ceil((count.left + count.failed) / size) for count in counts))


async def reembed_texts(
    connection: graph.Connection,
    vectors: embeddings.EmbedderAdapter,
    *,
    batch: int = 256,
    progress: Callable[[ProgressStep], None] = lambda step: None,
    force: bool = False,
    keep_old: bool = False,
) -> ReembedOutcome:
    """Embed every stored text with this embedder and switch the searches to the new vectors.

    Does nothing if the live vectors are this embedder's already.

    Args:
        connection: the database.
        vectors: the new embedder.
        batch: the number of texts that are read, embedded and written together.
        progress: called with every step.
        force: re-embed even if the live vectors are this embedder's, because the texts or the model have changed.
        keep_old: keep the old vectors.

    Raises:
        errors.EmbedderFailed: every retry failed; the same call continues later.
        errors.DatabaseError: the database cannot be used; the same call continues later.
    """
    start_time = time.monotonic()
    plan = await plan_reembedding(connection, vectors, batch=batch, force=force)
    if not plan.is_needed:
        return ReembedOutcome(plan.target.slot.embedder, plan.target.slot.dimensions)
    progress(ProgressStep("Emptying the new slot"))
    run = await graph.reembed.begin_reembedding(connection, plan.target)
    job = ReembedJob(connection, RefusalSorter(vectors, plan.target.slot.dimensions), run, batch, progress)
    await job.embed_missing("Embedding texts", rounds=2)
    await graph.reembed.switch_live_slot(connection, run)
    await job.await_running_ingests()
    await graph.reembed.clear_stale_vectors(connection, run)
    await job.embed_missing("Embedding new texts")
    if not keep_old:
        progress(ProgressStep("Emptying the old slot"))
        await graph.reembed.empty_slot(connection, plan.target.other_slot_name)
        await job.embed_missing("Embedding new texts")
    await graph.reembed.finish_reembedding(connection, run, is_done=job.outcome.is_done)
    job.outcome.seconds = round(time.monotonic() - start_time, 1)
    return job.outcome


@dataclass(slots=True)
class ReembedJob:
    """One run, which reads texts page by page, embeds them and writes the vectors."""

    connection: graph.Connection
    embedder: RefusalSorter
    run: ReembedRun
    batch: int
    progress: Callable[[ProgressStep], None]
    outcome: ReembedOutcome = field(init=False)

    def __post_init__(self) -> None:
        self.outcome = ReembedOutcome(self.run.target.slot.embedder, self.run.target.slot.dimensions)

    async def embed_missing(self, phase: str, rounds: int = MAX_ROUNDS) -> None:
        """Embed texts without a vector until the database counts none, in at most ``rounds`` passes."""
        while (total := await self._count_remaining()) and rounds:
            rounds, done, start_time = rounds - 1, 0, time.monotonic()
            for nodes in NODE_KINDS:
                async for size in self._embed_pages(nodes):
                    done += size
                    self.progress(ProgressStep(phase, done, max(done, total), time.monotonic() - start_time))

    async def await_running_ingests(self) -> None:
        """Wait for ingests that began before the switch, since they may still write to the old slot."""
        earlier = running = await graph.reembed.fetch_running_ingests(self.connection)
        while running := {lease: seconds for lease, seconds in running.items() if lease in earlier}:
            seconds = max(running.values())
            self.progress(ProgressStep(f"Waiting for ingests that run ({len(running)}), {seconds:.0f} s at most"))
            await asyncio.sleep(1.0)
            running = await graph.reembed.fetch_running_ingests(self.connection)

    async def _count_remaining(self) -> int:
        counts = await graph.reembed.count_texts(self.connection, self.run.target.slot)
        self.outcome.left = sum(count.left for count in counts)
        self.outcome.failed = sum(count.failed for count in counts)
        return self.outcome.left

    async def _embed_pages(self, nodes: NodeKind) -> AsyncIterator[int]:
        slot, after = self.run.target.slot, None
        while page := await graph.reembed.fetch_unembedded_texts(self.connection, nodes, slot, after, self.batch):
            by_passage = await self.embedder.embed_passages([text.passage for text in page])
            results = [by_passage[text.passage] for text in page]
            await graph.reembed.write_embeddings(self.connection, self.run, nodes, page, results)
            self.outcome.embedded += sum(not isinstance(result, str) for result in results)
            after = page[-1]
            yield len(page)


@dataclass(frozen=True, slots=True)
class RefusalSorter:
    """Embeds with retries, and tells texts that the embedder refuses from failures of the embedder."""

    vectors: embeddings.EmbedderAdapter
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


async def _embed_with_retries(vectors: embeddings.EmbedderAdapter, passages: list[Passage]) -> list[Embedding]:
    """Embed the passages, retrying after each of ``RETRY_PAUSES``; raise the error of the last attempt."""
    retry = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(errors.EmbedderFailed),
        wait=tenacity.wait_chain(*map(tenacity.wait_fixed, RETRY_PAUSES)),
        stop=tenacity.stop_after_attempt(len(RETRY_PAUSES) + 1),
        reraise=True,
    )
    return await retry(vectors.embed_passages, passages)
