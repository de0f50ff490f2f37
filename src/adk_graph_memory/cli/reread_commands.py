"""The commands ``reextract`` and ``reembed``: read again with another model or prompt, and replace every vector."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
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
    BatchOptions,
    describe_progress,
    run_batch,
)
from adk_graph_memory.cli.lazy_modules import (
    batches,
    connections,
    embedders,
    graph_reembed,
    ingest_queue,
    reembedding,
    reextraction,
)
from adk_graph_memory.cli.memory_commands import MomentOption
from adk_graph_memory.cli.output import Output, announce, describe_error, print_error
from adk_graph_memory.cli.owner_commands import list_change_lines
from adk_graph_memory.language.text import format_count

if TYPE_CHECKING:
    from adk_graph_memory.graph.rereads import OutdatedSession
    from adk_graph_memory.runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Estimate:
    """The work left and what it takes; ``cost`` is estimated from this model's earlier readings in this graph."""

    extractor: str
    users: int
    sessions: int
    turns: int
    max_calls: int
    cost: float | None


SampleOption = Annotated[
    int | None, typer.Option(min=1, help="Read this many sessions, show what would change, and write nothing.")
]


@command(MEMORY_PANEL)
async def reextract(
    batch: BatchOptions,
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    since: Annotated[datetime | None, MomentOption("--since", help="Only what was said since then.")] = None,
    model: Annotated[str | None, typer.Option(help="What extracts facts this time: a model's name, or rules.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Reread everything, even what this model and prompt have read.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    sample: SampleOption = None,
) -> Output:
    """Reread sessions that another model, or another version of the prompt, has read.

    The new reading replaces the old one; `undo` restores the old one. The owner's corrections, pins and retractions
    stay. Exit code 1 means that something failed, 3 that the budget is spent. Whatever stopped it, the same command
    continues from there.
    """
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory(model=model) as memory:
        timestamp = None if since is None else since.astimezone().timestamp()
        whose: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "since": timestamp, "force": force}
        sessions = [session async for session in memory.outdated_sessions(**whose)]
        if not sessions:
            await check_owner(app_name, user_id)
            return Output({"total": 0}, "Nothing to do: no session needs to be read again.")
        if dry_run:
            estimate = await _estimate(memory, sessions)
            return Output(estimate, _format_estimate(estimate))
        announce("Loading the embedding model")
        await memory.prepare()
        if sample is not None:
            return await _show_sample(memory, sessions[:sample], timestamp, force=force)
        settings = memory.connection.settings
        budget = batch.make_budget(settings, [memory.engine.extractor.model_name])
        outcome = await run_batch(
            [_plan_reextraction(memory, session) for session in sessions],
            "Reading sessions again",
            batch,
            settings,
            run_task=_make_rereader(memory, timestamp, force=force),
            open_runner=partial(open_rereader, model, timestamp, force=force),
            budget=budget,
            attempts=2,
        )
    return _report_outcome(outcome, budget)


@asynccontextmanager
async def open_rereader(model: str | None, since: float | None, *, force: bool) -> AsyncIterator[batches.RunTask]:
    """Open what reads sessions again in another process, with the settings of its own environment."""
    async with adk_graph_memory.GraphMemory(model=model) as memory:
        await memory.prepare()
        yield _make_rereader(memory, since, force=force)


def _make_rereader(memory: adk_graph_memory.GraphMemory, since: float | None, *, force: bool) -> batches.RunTask:
    async def reextract_session(session: OutdatedSession) -> batches.JobResult:
        report = await memory.reextract(session, since=since, force=force)
        return batches.JobResult(report.report, report)

    return reextract_session


def _plan_reextraction(memory: adk_graph_memory.GraphMemory, session: OutdatedSession) -> batches.BatchJob:
    scope = session.scope
    name = f"{session.session_id} of user {scope.user_id} of {scope.app_name}"
    return batches.BatchJob(name, scope.key, session, _count_calls(memory, session))


def _count_calls(memory: adk_graph_memory.GraphMemory, session: OutdatedSession) -> int:
    """How many calls a session takes at most, if no reply has to be asked for again."""
    window_tokens = memory.connection.settings.limits.window_tokens
    return 0 if memory.engine.judge is None else batches.count_calls(session.characters, window_tokens)


async def _estimate(memory: adk_graph_memory.GraphMemory, sessions: list[OutdatedSession]) -> Estimate:
    rows = await ingest_queue.fetch_ingest_reports(memory.connection)
    name, prices = memory.engine.extractor.model_name, memory.connection.settings.prices
    entries = [one for one in batches.sum_reports(rows, prices) if one.extractor.partition(" ")[0] == name]
    turns, read_turns = sum(session.turns for session in sessions), sum(one.report.turns for one in entries)
    costs = [one.cost for one in entries if one.cost is not None]
    cost = sum(costs) / read_turns * turns if read_turns and len(costs) == len(entries) else None
    return Estimate(
        memory.engine.extractor.version,
        len({session.scope for session in sessions}),
        len(sessions),
        turns,
        sum(_count_calls(memory, session) for session in sessions),
        0.0 if memory.engine.judge is None else cost,
    )


def _format_estimate(estimate: Estimate) -> str:
    counts = (estimate.users, "user"), (estimate.sessions, "session"), (estimate.turns, "turn")
    lines = [
        f"to    {estimate.extractor}",
        *(f"{count:>9,} {noun if count == 1 else f'{noun}s'}" for count, noun in counts),
        f"{estimate.max_calls:>9,} calls of the model at most (an estimate)",
    ]
    if not estimate.max_calls:
        return "\n".join(lines)
    if estimate.cost is None:
        lines.append("  The cost is unknown until the model has a price and has read something in this graph.")
    else:
        lines.append(f"{estimate.cost:>9,.2f} is the approximate cost")
    return "\n".join(lines)


async def _show_sample(
    memory: adk_graph_memory.GraphMemory, sessions: list[OutdatedSession], since: float | None, *, force: bool
) -> Output:
    reports, lines = list[reextraction.ReextractReport](), list[RenderableType]()
    for number, session in enumerate(sessions, start=1):
        announce(f"Reading {session.session_id} ({number} of {len(sessions)})")
        report = await memory.reextract(session, since=since, force=force, preview=True)
        reports.append(report)
        lines.append(f"{session.session_id} of user {session.scope.user_id} of {session.scope.app_name}")
        changes = [line for change in report.changes for line in list_change_lines(change)]
        lines += [f"  {line}" for line in changes]
        if report.report.forgotten:
            turns = format_count(report.report.forgotten, "turn")
            lines.append(f"  {turns} would be forgotten for good, as their author asked.")
    calls = sum(report.report.usage.calls for report in reports)
    lines.append(f"Nothing was written; {format_count(calls, 'call')} of the model.")
    return Output(reports, Group(*(str(line) for line in lines)))


def _report_outcome(outcome: batches.BatchOutcome, budget: batches.Budget) -> Output:
    if outcome.fatal_error:
        raise outcome.fatal_error
    reports: list[reextraction.ReextractReport] = [result.value for result in outcome.results.values()]
    for name, error in outcome.failures.items():
        print_error(error, of=name)
    changes = sum(len(change.facts) for report in reports for change in report.changes)
    cost = "" if budget.cost is None else f", {budget.cost:,.4f}"
    lines = [
        f"{outcome.done:,} of {format_count(outcome.total, 'session')} read again: {format_count(changes, 'fact')} "
        f"changed; {format_count(outcome.report.usage.calls, 'call')} of the model{cost}."
    ]
    if outcome.left:
        lines.append(BUDGET_SPENT)
    elif outcome.failures:
        lines.append("Failed sessions were not read to the end; the same command continues with them.")
    value = {
        "total": outcome.total,
        "done": outcome.done,
        "left": outcome.left,
        "failed": {name: describe_error(error) for name, error in outcome.failures.items()},
        "usage": asdict(budget.usage),
        "cost": budget.cost,
        "ingests": [report.ingest_id for report in reports],
    }
    return Output(
        value, "\n".join(lines), exit_code=1 if outcome.failures else EXIT_BUDGET_SPENT if outcome.left else 0
    )


MAX_LISTED_FAILURES = 100
"""Maximum number of failed texts to list."""


EmbedderOption = Annotated[
    str | None,
    typer.Option(
        help="A model's name, path or name=path, or module:name of a Python object; by default the configured one."
    ),
]
SinceOption = Annotated[
    datetime | None, MomentOption("--since", help="Only what was said since then; no entity names.")
]


@command(SERVER_PANEL)
async def reembed(
    options: BatchOptions,
    embedder: EmbedderOption = None,
    batch: Annotated[int, typer.Option(min=1, help="How many texts to read, embed and write together.")] = 256,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if the vectors already come from this embedder.")
    ] = False,
    keep_old: Annotated[
        bool,
        typer.Option(
            "--keep-old", help="Keep the old vectors until the next run, for services that still have the old embedder."
        ),
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only list the texts that cannot be embedded.")] = False,
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    since: SinceOption = None,
) -> Output:
    """Recompute every vector with the configured or another embedder, while searches go on.

    Searches switch to the new vectors when every text has one; until then, the vectors of a part, or of whatever a
    budget allowed, are kept. Exit code 1 means that it failed, or that texts could not be embedded; 3 that the budget
    is spent. Whatever stopped it, the same command continues from there.
    """
    choice = resolve_embedder(embedder)
    start = None if since is None else since.astimezone().timestamp()
    selection = graph_reembed.TextSelection(app_name, user_id, start)
    announce("Waiting for Neo4j")
    async with connections.Connection(schema="check" if dry_run or failed else None) as connection:
        if failed:
            return await _list_failures(connection)
        await check_owner(app_name, user_id)
        announce("Loading the embedding model")
        vectors = embedders.EmbedderAdapter(choice or connection.settings.embedder, connection.settings)
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
        is_incomplete = outcome.failed or (outcome.left and outcome.is_switched)
        exit_code = EXIT_BUDGET_SPENT if outcome.is_budget_spent else 1 if is_incomplete else 0
        return Output(outcome, text, exit_code=exit_code)


async def _list_failures(connection: connections.Connection) -> Output:
    rows = await graph_reembed.fetch_embedding_failures(connection, MAX_LISTED_FAILURES)
    lines = [f"{row['id']}  {row['text'][:60]!r}\n    {row['error']}" for row in rows]
    text = "\n".join(lines) or "Every text could be embedded."
    return Output(rows, text, exit_code=1 if rows else 0)


def _choose_engine(
    options: BatchOptions, settings: Settings, vectors: embedders.EmbedderAdapter, embedder: str | None
) -> dict[str, Any]:
    """Choose what :func:`reembedding.reembed_texts` may spend, and where it runs."""
    map_pages: reembedding.MapPages | None = None
    if ray_options := options.make_ray_options(settings):
        map_pages = partial(reembedding.map_pages_on_ray, ray_options, partial(resolve_embedder, embedder))
    priced_name = str(getattr(vectors.embedder, "model", None) or vectors.name)
    budget = options.make_budget(settings, [priced_name])
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


def _announce_step(step: reembedding.ProgressStep) -> None:
    announce(describe_progress(step.phase, step.done, step.total, step.seconds) if step.total else step.phase)


def _format_plan(plan: reembedding.ReembedPlan) -> str:
    live, slot = plan.target.live, plan.target.slot
    if not plan.is_needed:
        kept = f"\nThe old vectors of {plan.target.kept.embedder} will be deleted." if plan.target.kept else ""
        return _describe_done(slot.embedder) + errors.shorten_embedder_names(kept)
    old = f"from  {live.embedder}, {live.dimensions} numbers" if live else "from  no vectors"
    new = f"to    {slot.embedder}, {slot.dimensions} numbers" + (", already begun" if plan.target.is_begun else "")
    texts = [f"{count.left + count.failed:>9,} of {count.texts:,} texts of kind {count.kind}" for count in plan.counts]
    return errors.shorten_embedder_names("\n".join((old, new, *texts, f"{plan.calls:>9,} calls of the embedder")))


def _describe_done(embedder: str) -> str:
    name = errors.shorten_embedder_names(embedder)
    return f"Nothing was left to embed: every vector is {name}'s. --force recomputes all of them."


def _format_outcome(outcome: reembedding.ReembedOutcome) -> str:
    if outcome.is_old_deleted:
        return "The old vectors are deleted."
    if outcome.is_done and not outcome.embedded:
        return (
            _describe_done(outcome.embedder) if outcome.is_switched else "Nothing to do: no text matches these options."
        )
    embedder = errors.shorten_embedder_names(outcome.embedder)
    text = f"{outcome.embedded:,} texts were embedded by {embedder} in {outcome.seconds:,} s."
    if outcome.failed:
        text += (
            f"\n{outcome.failed:,} could not be embedded; searches find them by their words alone. "
            "`adk-graph-memory reembed --failed` lists them; repeating this command tries them again."
        )
    if outcome.is_budget_spent:
        text += f"\n{BUDGET_SPENT}"
    if outcome.left and not outcome.is_switched:
        text += f"\n{outcome.left:,} are left; until they are embedded too, searches keep the old vectors."
    elif outcome.left:
        text += (
            f"\n{outcome.left:,} arrived without a vector in the meantime: stop the services with the old embedder, "
            "then run the same command again."
        )
    return text
