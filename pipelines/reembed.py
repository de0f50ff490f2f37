"""An embedder goes in; a database whose every memory and entity carries that embedder's vectors comes out.

    python pipelines/reembed.py --embedder all-MiniLM-L12-v2

The new vectors fill the slot that no search reads. Once none is missing one statement switches, what was written
meanwhile is made up for, and the old slot is emptied. Searches go on throughout. Stopped at any point, even by
``kill -9``, the same command goes on where this one ended: what is left is asked of the database, never kept here.
"""

from __future__ import annotations

import asyncio
import json
import math
import pkgutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from adk_graph_memory import embeddings, errors, graph
from adk_graph_memory.graph.reembed import NODE_KINDS, NodeKind, ReembedRun, ReembedTarget, TextCount
from progress import ProgressStep, StepCallback, show_progress
from retrying_embedder import CONTROL_PASSAGE, RetryingEmbedder, embed_with_retries

MAX_ROUNDS = 10
"""Times that what came in meanwhile is made up for, on a database that never rests."""
MAX_LISTED_FAILURES = 100
"""Failed texts that are listed at most."""


@dataclass(frozen=True, slots=True)
class ReembedPlan:
    """What there is to do: where the vectors go, the texts by kind, and the embedder's calls."""

    target: ReembedTarget
    counts: Sequence[TextCount]
    calls: int


@dataclass(slots=True)
class ReembedOutcome:
    """What became of the job: texts written, and by the database's word those that failed or are left over."""

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
    """What :func:`reembed` would do; nothing is written."""
    await graph.prepare_connection(connection)
    await vectors.wait_until_ready()
    [control] = await embed_with_retries(vectors, [CONTROL_PASSAGE])
    found = await graph.reembed.find_reembed_target(connection, vectors.name, len(control.vector))
    live = found.live
    if (
        live
        and (live.embedder, live.dimensions) == (vectors.name, len(control.vector))
        and not (found.is_begun or force)
    ):
        reason = f"the vectors are {live.embedder}'s already; --force makes every one of them anew"
        raise errors.ConfigurationError(reason=reason)
    counts = await graph.reembed.count_texts(connection, found.slot)
    if not found.is_begun:  # whatever the slot holds is another embedder's, and goes
        counts = [TextCount(count.kind, count.texts, count.texts, 0) for count in counts]
    size = min(batch, vectors.texts_per_call or batch)
    return ReembedPlan(found, counts, sum(math.ceil((count.left + count.failed) / size) for count in counts))


async def reembed(
    connection: graph.Connection,
    vectors: embeddings.EmbedderAdapter,
    *,
    batch: int = 256,
    progress: StepCallback = lambda step: None,
    force: bool = False,
    keep_old: bool = False,
) -> ReembedOutcome:
    """Gives every stored text this embedder's vector, and switches the searches over to them.

    Args:
        connection: the database.
        vectors: the new embedder.
        batch: texts that are read, embedded and written together.
        progress: told of every step.
        force: even if the live vectors are this embedder's already, because its texts or the model have changed.
        keep_old: leave the old vectors where they are.

    Raises:
        errors.ConfigurationError: the live vectors are this embedder's already.
        errors.EmbedderFailed: the embedder fails for good; the same call goes on later.
        errors.DatabaseError: the database cannot be used; the same call goes on later.
    """
    began = time.monotonic()
    plan = await plan_reembedding(connection, vectors, batch=batch, force=force)
    progress(ProgressStep("making room", total=sum(count.left + count.failed for count in plan.counts)))
    run = await graph.reembed.begin_reembedding(connection, plan.target)
    job = ReembedJob(connection, RetryingEmbedder(vectors, plan.target.slot.dimensions), run, batch, progress)
    await job.embed_missing("embedding", rounds=2)
    await graph.reembed.switch_live_slot(connection, run)
    await job.await_running_ingests()
    await graph.reembed.clear_stale_vectors(connection, run)
    await job.embed_missing("making up")
    if not keep_old:
        progress(ProgressStep("emptying the old slot"))
        await graph.reembed.empty_slot(connection, plan.target.other_slot_name)
        await job.embed_missing("making up")
    await graph.reembed.finish_reembedding(connection, run, is_done=job.outcome.is_done)
    job.outcome.seconds = round(time.monotonic() - began, 1)
    return job.outcome


@dataclass(slots=True)
class ReembedJob:
    """One run: pages of texts through the embedder and back."""

    connection: graph.Connection
    embedder: RetryingEmbedder
    run: ReembedRun
    batch: int
    progress: StepCallback
    outcome: ReembedOutcome = field(init=False)

    def __post_init__(self) -> None:
        self.outcome = ReembedOutcome(self.run.target.slot.embedder, self.run.target.slot.dimensions)

    async def embed_missing(self, phase: str, rounds: int = MAX_ROUNDS) -> None:
        """Embeds what lacks a vector until the database says that nothing does."""
        while (total := await self._count_remaining()) and rounds:
            rounds, done = rounds - 1, 0
            for nodes in NODE_KINDS:
                async for size in self._embed_pages(nodes):
                    done += size
                    self.progress(ProgressStep(phase, done, max(done, total)))

    async def await_running_ingests(self) -> None:
        """Waits for ingests that began before the switch: they may still write into the slot that was live."""
        begun = running = await graph.reembed.fetch_running_ingests(self.connection)
        while running := {lease: seconds for lease, seconds in running.items() if lease in begun}:
            self.progress(ProgressStep(f"waiting for {len(running)} ingests, {max(running.values()):.0f} s at most"))
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
            made = await self.embedder.embed_passages([text.passage for text in page])
            embeddings = [made[text.passage] for text in page]
            await graph.reembed.write_embeddings(self.connection, self.run, nodes, page, embeddings)
            self.outcome.embedded += sum(not isinstance(one, str) for one in embeddings)
            after = page[-1]
            yield len(page)


# -- at the command line ----------------------------------------------------------------------------------------


def main(
    embedder: Annotated[str, typer.Option(help="A model's name or path, or module:name of one in Python.")] = "",
    batch: Annotated[int, typer.Option(min=1, help="Texts that are read, embedded and written together.")] = 256,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even if the vectors are this embedder's.")] = False,
    keep_old: Annotated[bool, typer.Option("--keep-old", help="Leave the old vectors in place.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only list the texts that cannot be embedded.")] = False,
) -> None:
    """Make every vector anew with another embedder, while searches go on.

    The database is NEO4J_URI, or else the local server that `adk-graph-memory up` has started. Exit code 1: texts are
    left over; 2: it could not be done. Whatever stopped it, the same command goes on where it ended.
    """

    async def work() -> tuple[Any, str, bool]:
        connection = graph.Connection(schema="check" if dry_run or failed else None)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(connection.close)
            if failed:
                return await _list_failures(connection)
            vectors = embeddings.EmbedderAdapter.from_settings(resolve_embedder(embedder), connection.settings)
            if dry_run:
                plan = await plan_reembedding(connection, vectors, batch=batch, force=force)
                return asdict(plan), _format_plan(plan), True
            tell = stack.enter_context(show_progress())
            outcome = await reembed(connection, vectors, batch=batch, progress=tell, force=force, keep_old=keep_old)
            return asdict(outcome), _format_outcome(outcome), outcome.is_done

    try:
        data, text, is_well = asyncio.run(work())
    except errors.GraphMemoryError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    typer.echo(json.dumps(data, indent=2) if as_json else text)
    raise typer.Exit(0 if is_well else 1)


def resolve_embedder(embedder: str) -> Any:
    """What ``--embedder`` names: ``module:name`` of something in Python (a class is called), or else a model."""
    if not embedder:
        raise errors.ConfigurationError(reason="name the embedder with --embedder")
    if ":" not in embedder or Path(embedder).exists():
        return embedder
    try:
        found = pkgutil.resolve_name(embedder)
    except (ImportError, AttributeError, ValueError) as error:
        raise errors.ConfigurationError(reason=f"--embedder {embedder}: {error}") from error
    return found() if isinstance(found, type) else found


async def _list_failures(connection: graph.Connection) -> tuple[Any, str, bool]:
    await graph.prepare_connection(connection)
    rows = await graph.reembed.fetch_embedding_failures(connection, MAX_LISTED_FAILURES)
    lines = [f"{row['id']}  {row['text'][:60]!r}\n    {row['error']}" for row in rows]
    return rows, "\n".join(lines) or "Every text could be embedded.", not rows


def _format_plan(plan: ReembedPlan) -> str:
    live, slot = plan.target.live, plan.target.slot
    before = f"from  {live.embedder}, {live.dimensions} numbers" if live else "from  no vectors"
    after = f"to    {slot.embedder}, {slot.dimensions} numbers" + (", begun already" if plan.target.is_begun else "")
    texts = [f"{count.left + count.failed:>9,} of {count.texts:,} texts of kind {count.kind}" for count in plan.counts]
    return "\n".join((before, after, *texts, f"{plan.calls:>9,} calls of the embedder"))


def _format_outcome(outcome: ReembedOutcome) -> str:
    text = f"{outcome.embedded:,} texts were embedded by {outcome.embedder} in {outcome.seconds:,} s."
    if outcome.failed:
        text += (
            f"\n{outcome.failed:,} could not be embedded and are found by their words alone. See them with "
            "`python pipelines/reembed.py --failed`; the same command as before tries them again."
        )
    if outcome.left:
        text += (
            f"\n{outcome.left:,} came in without a vector meanwhile: stop the services that have the old embedder, "
            "then run the same command again."
        )
    return text


if __name__ == "__main__":
    typer.run(main)
