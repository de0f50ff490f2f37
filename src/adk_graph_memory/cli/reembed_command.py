"""The command ``reembed``: replace every vector by another embedder's, while searches go on."""

from __future__ import annotations

import pkgutil
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adk_graph_memory import errors, graph
from adk_graph_memory.cli.application import (
    SERVER_PANEL,
    AppFilterOption,
    UsageError,
    UserFilterOption,
    check_owner,
    command,
)
from adk_graph_memory.cli.batch_options import BUDGET_SPENT, EXIT_BUDGET_SPENT, BatchOptions, describe_progress
from adk_graph_memory.cli.lazy_modules import embeddings, reembedding
from adk_graph_memory.cli.memory_commands import MomentOption
from adk_graph_memory.cli.output import Output, announce

if TYPE_CHECKING:
    from adk_graph_memory.settings import Settings

MAX_LISTED_FAILURES = 100
"""Maximum number of failed texts to list."""


EmbedderOption = Annotated[
    str | None,
    typer.Option(help="A model's name, path or name=path, or module:name of a Python object; else the configured one."),
]
SinceOption = Annotated[
    datetime | None, MomentOption("--since", help="Only what was said since then; no names of entities.")
]


@command(SERVER_PANEL)
async def reembed(
    options: BatchOptions,
    embedder: EmbedderOption = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts that are read, embedded and written together.")] = 256,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even if the vectors are this embedder's already.")] = False,
    keep_old: Annotated[
        bool,
        typer.Option(
            "--keep-old", help="Keep the old vectors, which services with the old embedder search, until the next run."
        ),
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only list the texts that cannot be embedded.")] = False,
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    since: SinceOption = None,
) -> Output:
    """Replace every vector by one of the configured or another embedder, while searches go on.

    Searches switch to the new vectors once no text lacks one; until then those of a part, or of what a budget allows,
    are kept. Exit code 1 means that it failed, or that texts could not be embedded; 3 that the budget is spent.
    Whatever stopped it, the same command goes on from there.
    """
    choice = resolve_embedder(embedder)
    start = None if since is None else since.astimezone().timestamp()
    selection = graph.reembed.TextSelection(app_name, user_id, start)
    announce("Waiting for Neo4j")
    async with graph.Connection(schema="check" if dry_run or failed else None) as connection:
        await graph.prepare_connection(connection)
        if failed:
            return await _list_failures(connection)
        await check_owner(app_name, user_id)
        announce("Loading the embedding model")
        vectors = embeddings.EmbedderAdapter(choice or connection.settings.embedder, connection.settings)
        what: dict[str, Any] = {"batch": batch, "force": force, "selection": selection}
        if dry_run:
            plan = await reembedding.plan_reembedding(connection, vectors, **what)
            return Output(plan, _format_plan(plan))
        how = _choose_engine(options, connection.settings, vectors, embedder)
        outcome = await reembedding.reembed_texts(
            connection, vectors, progress=_announce_step, keep_old=keep_old, **what, **how
        )
        text = _format_outcome(outcome)
        if keep_old and outcome.is_switched and outcome.embedded:
            text += "\nThe old vectors are kept; the next `adk-graph-memory reembed` with this embedder deletes them."
        return Output(outcome, text, exit_code=_choose_exit_code(outcome))


async def _list_failures(connection: graph.Connection) -> Output:
    rows = await graph.reembed.fetch_embedding_failures(connection, MAX_LISTED_FAILURES)
    lines = [f"{row['id']}  {row['text'][:60]!r}\n    {row['error']}" for row in rows]
    text = "\n".join(lines) or "Every text could be embedded."
    return Output(rows, text, exit_code=1 if rows else 0)


def _choose_engine(
    options: BatchOptions, settings: Settings, vectors: embeddings.EmbedderAdapter, embedder: str | None
) -> dict[str, Any]:
    """Choose what :func:`reembedding.reembed_texts` may spend, and where it runs."""
    map_pages: reembedding.MapPages | None = None
    if ray_options := options.make_ray_options(settings):
        map_pages = partial(reembedding.map_pages_on_ray, ray_options, partial(resolve_embedder, embedder))
    budget = options.make_budget(settings, [_name_model(vectors)])
    return {"budget": budget, "map_pages": map_pages, "workers": options.workers}


def resolve_embedder(name: str | None) -> Any:
    """Resolve ``--embedder``: a Python object as ``module:name`` (a class is called), else a model's name or path."""
    if name is None or ":" not in name or "=" in name or Path(name).exists():
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
    announce(describe_progress(step.phase, step.done, step.total, step.seconds) if step.total else step.phase)


def _format_plan(plan: reembedding.ReembedPlan) -> str:
    live, slot = plan.target.live, plan.target.slot
    if not plan.is_needed:
        kept = f"\nThe old vectors of {plan.target.kept.embedder} will be deleted." if plan.target.kept else ""
        return _describe_done(slot.embedder) + errors.shorten_embedder_names(kept)
    old = f"from  {live.embedder}, {live.dimensions} numbers" if live else "from  no vectors"
    new = f"to    {slot.embedder}, {slot.dimensions} numbers" + (", begun already" if plan.target.is_begun else "")
    texts = [f"{count.left + count.failed:>9,} of {count.texts:,} texts of kind {count.kind}" for count in plan.counts]
    return errors.shorten_embedder_names("\n".join((old, new, *texts, f"{plan.calls:>9,} calls of the embedder")))


def _describe_done(embedder: str) -> str:
    name = errors.shorten_embedder_names(embedder)
    return f"Nothing was left to embed: every vector is {name}'s. --force makes all of them anew."


def _format_outcome(outcome: reembedding.ReembedOutcome) -> str:
    if outcome.is_old_deleted:
        return "The old vectors are deleted."
    if outcome.is_done and not outcome.embedded:
        return _describe_done(outcome.embedder) if outcome.is_switched else "Nothing to do: no text fits these options."
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
