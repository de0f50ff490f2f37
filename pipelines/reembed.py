"""Re-embed every memory and entity of a database with another embedder, while searches go on.

    python pipelines/reembed.py --embedder all-MiniLM-L12-v2

The new vectors fill the slot that no search reads. When it is complete, one statement switches the searches to it.
Then the texts written meanwhile are embedded and the old slot is emptied. After an interruption, even ``kill -9``, the
same command continues: the database alone knows which texts are left.
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
"""Maximum passes over the texts that were written meanwhile; a busy database would never run out of them."""
MAX_LISTED_FAILURES = 100
"""Maximum number of failed texts to list."""


@dataclass(frozen=True, slots=True)
class ReembedPlan:
    """The slot to fill, the texts by kind, and the number of calls of the embedder."""

    target: ReembedTarget
    counts: Sequence[TextCount]
    calls: int


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
    """Plan what :func:`reembed` would do, without writing anything.

    Raises:
        errors.ConfigurationError: the live vectors are this embedder's already.
    """
    await graph.prepare_connection(connection)
    await vectors.wait_until_ready()
    [control] = await embed_with_retries(vectors, [CONTROL_PASSAGE])
    target = await graph.reembed.find_reembed_target(connection, vectors.name, len(control.vector))
    live, configured = target.live, (vectors.name, len(control.vector))
    if live and (live.embedder, live.dimensions) == configured and not (target.is_begun or force):
        reason = f"the vectors are {live.embedder}'s already; --force makes every one of them anew"
        raise errors.ConfigurationError(reason=reason)
    counts = await graph.reembed.count_texts(connection, target.slot)
    if not target.is_begun:  # the slot holds another embedder's vectors, which will be deleted
        counts = [TextCount(count.kind, count.texts, count.texts, 0) for count in counts]
    size = min(batch, vectors.texts_per_call or batch)
    return ReembedPlan(target, counts, sum(math.ceil((count.left + count.failed) / size) for count in counts))


async def reembed(
    connection: graph.Connection,
    vectors: embeddings.EmbedderAdapter,
    *,
    batch: int = 256,
    progress: StepCallback = lambda step: None,
    force: bool = False,
    keep_old: bool = False,
) -> ReembedOutcome:
    """Embed every stored text with this embedder and switch the searches to the new vectors.

    Args:
        connection: the database.
        vectors: the new embedder.
        batch: the number of texts that are read, embedded and written together.
        progress: called with every step.
        force: re-embed even if the live vectors are this embedder's, because the texts or the model have changed.
        keep_old: keep the old vectors.

    Raises:
        errors.ConfigurationError: the live vectors are this embedder's already.
        errors.EmbedderFailed: every retry failed; the same call continues later.
        errors.DatabaseError: the database cannot be used; the same call continues later.
    """
    start_time = time.monotonic()
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
    job.outcome.seconds = round(time.monotonic() - start_time, 1)
    return job.outcome


@dataclass(slots=True)
class ReembedJob:
    """One run, which reads texts page by page, embeds them and writes the vectors."""

    connection: graph.Connection
    embedder: RetryingEmbedder
    run: ReembedRun
    batch: int
    progress: StepCallback
    outcome: ReembedOutcome = field(init=False)

    def __post_init__(self) -> None:
        self.outcome = ReembedOutcome(self.run.target.slot.embedder, self.run.target.slot.dimensions)

    async def embed_missing(self, phase: str, rounds: int = MAX_ROUNDS) -> None:
        """Embed texts without a vector until the database counts none, in at most ``rounds`` passes."""
        while (total := await self._count_remaining()) and rounds:
            rounds, done = rounds - 1, 0
            for nodes in NODE_KINDS:
                async for size in self._embed_pages(nodes):
                    done += size
                    self.progress(ProgressStep(phase, done, max(done, total)))

    async def await_running_ingests(self) -> None:
        """Wait for ingests that began before the switch, since they may still write to the old slot."""
        earlier = running = await graph.reembed.fetch_running_ingests(self.connection)
        while running := {lease: seconds for lease, seconds in running.items() if lease in earlier}:
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
            by_passage = await self.embedder.embed_passages([text.passage for text in page])
            results = [by_passage[text.passage] for text in page]
            await graph.reembed.write_embeddings(self.connection, self.run, nodes, page, results)
            self.outcome.embedded += sum(not isinstance(result, str) for result in results)
            after = page[-1]
            yield len(page)


# -- command line -----------------------------------------------------------------------------------------------


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

    async def run_command() -> tuple[Any, str, bool]:
        connection = graph.Connection(schema="check" if dry_run or failed else None)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(connection.close)
            if failed:
                return await _list_failures(connection)
            vectors = embeddings.EmbedderAdapter.from_settings(resolve_embedder(embedder), connection.settings)
            if dry_run:
                plan = await plan_reembedding(connection, vectors, batch=batch, force=force)
                return asdict(plan), _format_plan(plan), True
            progress = stack.enter_context(show_progress())
            outcome = await reembed(connection, vectors, batch=batch, progress=progress, force=force, keep_old=keep_old)
            return asdict(outcome), _format_outcome(outcome), outcome.is_done

    try:
        data, text, is_success = asyncio.run(run_command())
    except errors.GraphMemoryError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    typer.echo(json.dumps(data, indent=2) if as_json else text)
    raise typer.Exit(0 if is_success else 1)


def resolve_embedder(embedder: str) -> Any:
    """Resolve ``--embedder``: a Python object as ``module:name`` (a class is called), else a model's name or path."""
    if not embedder:
        raise errors.ConfigurationError(reason="name the embedder with --embedder")
    if ":" not in embedder or Path(embedder).exists():
        return embedder
    try:
        value = pkgutil.resolve_name(embedder)
    except (ImportError, AttributeError, ValueError) as error:
        raise errors.ConfigurationError(reason=f"--embedder {embedder}: {error}") from error
    return value() if isinstance(value, type) else value


async def _list_failures(connection: graph.Connection) -> tuple[Any, str, bool]:
    await graph.prepare_connection(connection)
    rows = await graph.reembed.fetch_embedding_failures(connection, MAX_LISTED_FAILURES)
    lines = [f"{row['id']}  {row['text'][:60]!r}\n    {row['error']}" for row in rows]
    return rows, "\n".join(lines) or "Every text could be embedded.", not rows


def _format_plan(plan: ReembedPlan) -> str:
    live, slot = plan.target.live, plan.target.slot
    old = f"from  {live.embedder}, {live.dimensions} numbers" if live else "from  no vectors"
    new = f"to    {slot.embedder}, {slot.dimensions} numbers" + (", begun already" if plan.target.is_begun else "")
    texts = [f"{count.left + count.failed:>9,} of {count.texts:,} texts of kind {count.kind}" for count in plan.counts]
    return "\n".join((old, new, *texts, f"{plan.calls:>9,} calls of the embedder"))


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
