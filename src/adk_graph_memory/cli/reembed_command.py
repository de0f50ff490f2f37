"""The command ``reembed``: replace every vector by another embedder's, while searches go on."""

from __future__ import annotations

import pkgutil
import sys
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from adk_graph_memory import embeddings, errors, graph, reembedding
from adk_graph_memory.cli.application import (
    SERVER_PANEL,
    AppFilterOption,
    UsageError,
    UserFilterOption,
    check_owner,
    command,
)
from adk_graph_memory.cli.batch_options import (
    BUDGET_SPENT,
    EXIT_BUDGET_SPENT,
    EngineName,
    EngineOption,
    EngineOptions,
    MaxCostOption,
    StallTimeoutOption,
    WorkerCpusOption,
    WorkerGpusOption,
    make_budget,
)
from adk_graph_memory.cli.memory_commands import MomentOption
from adk_graph_memory.cli.output import Output, announce, replace_controls
from adk_graph_memory.graph.reembed import TextSelection

MAX_LISTED_FAILURES = 100
"""Maximum number of failed texts to list."""


@command(SERVER_PANEL)
async def reembed(
    embedder: Annotated[
        str | None,
        typer.Option(help="A model's name or path, or module:name of a Python object; by default the configured one."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts that are read, embedded and written together.")] = 256,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even if the vectors are this embedder's already.")] = False,
    keep_old: Annotated[bool, typer.Option("--keep-old", help="Leave the old vectors in place.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only list the texts that cannot be embedded.")] = False,
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    since: Annotated[
        datetime | None, MomentOption("--since", help="Only what was said since then; no names of entities.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(min=0, help="Calls of the embedder in all, each of up to --batch texts.")
    ] = None,
    max_cost: MaxCostOption = None,
    engine: EngineOption = EngineName.LOCAL,
    workers: Annotated[int, typer.Option(min=1, help="With --engine ray: actors at most.")] = 1,
    worker_cpus: WorkerCpusOption = 1.0,
    worker_gpus: WorkerGpusOption = 0.0,
    stall_timeout: StallTimeoutOption = 1_800.0,
) -> Output:
    """Replace every vector by one of the configured or another embedder, while searches go on.

    Searches switch to the new vectors once no text lacks one; until then those of a part, or of what a budget allows,
    are kept. Exit code 1 means that texts are left or that it failed, 3 that the budget is spent. Whatever stopped it,
    the same command goes on from there.
    """
    choice = resolve_embedder(embedder)
    timestamp = None if since is None else since.astimezone().timestamp()
    selection = TextSelection(app_name, user_id, timestamp)
    announce("Waiting for Neo4j")
    async with graph.Connection(schema="check" if dry_run or failed else None) as connection:
        if failed:
            await graph.prepare_connection(connection)
            rows = await graph.reembed.fetch_embedding_failures(connection, MAX_LISTED_FAILURES)
            lines = [f"{row['id']}  {row['text'][:60]!r}\n    {row['error']}" for row in rows]
            text = replace_controls("\n".join(lines)) or "Every text could be embedded."
            return Output(rows, text, exit_code=1 if rows else 0)
        await graph.prepare_connection(connection)
        await check_owner(app_name, user_id)
        announce("Loading the embedding model")
        vectors = embeddings.EmbedderAdapter(choice or connection.settings.embedder, connection.settings)
        if dry_run:
            plan = await reembedding.plan_reembedding(
                connection, vectors, batch=batch, force=force, selection=selection
            )
            return Output(plan, _format_plan(plan))
        ray_options = EngineOptions(engine, workers, worker_cpus, worker_gpus, stall_timeout).make_ray_options(
            connection.settings
        )
        on_ray = ray_options and partial(reembedding.map_pages_on_ray, ray_options, partial(resolve_embedder, embedder))
        outcome = await reembedding.reembed_texts(
            connection,
            vectors,
            batch=batch,
            progress=_announce_step,
            force=force,
            keep_old=keep_old,
            selection=selection,
            budget=make_budget(connection.settings, [_name_model(vectors)], max_calls, max_cost),
            map_pages=on_ray or None,
        )
        return Output(outcome, _format_outcome(outcome), exit_code=_choose_exit_code(outcome))


def resolve_embedder(name: str | None) -> Any:
    """Resolve ``--embedder``: a Python object as ``module:name`` (a class is called), else a model's name or path."""
    if name is None or ":" not in name or Path(name).exists():
        return name
    sys.path.append(str(Path.cwd()))  # a program that pip installed does not look for modules where it is run
    try:
        value = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"--embedder {name}: {error}.") from error
    return value() if isinstance(value, type) else value


def _name_model(vectors: embeddings.EmbedderAdapter) -> str:
    """The name by which the settings may give a price."""
    return str(getattr(vectors.embedder, "model", None) or vectors.name)


def _choose_exit_code(outcome: reembedding.ReembedOutcome) -> int:
    if outcome.is_budget_spent:
        return EXIT_BUDGET_SPENT
    return 1 if outcome.failed or (outcome.left and outcome.is_switched) else 0


def _announce_step(step: reembedding.ProgressStep) -> None:
    text = f"{step.phase}: {step.done:,} of {step.total:,}" if step.total else step.phase
    if step.done and step.seconds:
        rate = step.done / step.seconds
        text += f", {rate:,.0f}/s, {timedelta(seconds=round((step.total - step.done) / rate))} left"
    announce(text)


def _format_plan(plan: reembedding.ReembedPlan) -> str:
    live, slot = plan.target.live, plan.target.slot
    if not plan.is_needed:
        return _describe_done(slot.embedder)
    old = f"from  {live.embedder}, {live.dimensions} numbers" if live else "from  no vectors"
    new = f"to    {slot.embedder}, {slot.dimensions} numbers" + (", begun already" if plan.target.is_begun else "")
    texts = [f"{count.left + count.failed:>9,} of {count.texts:,} texts of kind {count.kind}" for count in plan.counts]
    return errors.shorten_embedder_names("\n".join((old, new, *texts, f"{plan.calls:>9,} calls of the embedder")))


def _describe_done(embedder: str) -> str:
    name = errors.shorten_embedder_names(embedder)
    return f"Nothing to do: the vectors are {name}'s already; --force makes every one of them anew."


def _format_outcome(outcome: reembedding.ReembedOutcome) -> str:
    if outcome.is_done and not outcome.embedded:
        return _describe_done(outcome.embedder)
    embedder = errors.shorten_embedder_names(outcome.embedder)
    text = f"{outcome.embedded:,} texts were embedded by {embedder} in {outcome.seconds:,} s."
    if outcome.failed:
        text += (
            f"\n{outcome.failed:,} could not be embedded; searches find them by their words alone. "
            "`adk-graph-memory reembed --failed` lists them; the same command as before tries them again."
        )
    if outcome.is_budget_spent:
        text += f"\n{BUDGET_SPENT}"
    if outcome.left and not outcome.is_switched:
        text += f"\n{outcome.left:,} are left; until they are embedded too, searches keep the old vectors."
    elif outcome.left:
        text += (
            f"\n{outcome.left:,} came in without a vector meanwhile: stop the services that have the old embedder, "
            "then run the same command again."
        )
    return text
