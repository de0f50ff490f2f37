"""The command ``reextract``: read again what another model, or another version of the prompt, has read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

import adk_graph_memory
from adk_graph_memory import graph
from adk_graph_memory.cli.application import MEMORY_PANEL, AppFilterOption, UserFilterOption, check_owner, command
from adk_graph_memory.cli.batch_options import BUDGET_SPENT, EXIT_BUDGET_SPENT, BatchOptions, run_batch
from adk_graph_memory.cli.correction_commands import list_change_lines
from adk_graph_memory.cli.lazy_modules import batches, ledger, reextraction
from adk_graph_memory.cli.memory_commands import MomentOption
from adk_graph_memory.cli.output import Output, announce, describe_error, print_error
from adk_graph_memory.language.wording import format_count

if TYPE_CHECKING:
    from adk_graph_memory.graph.rereads import OutdatedSession


@dataclass(frozen=True, slots=True)
class Estimate:
    """What there is to read again, and what that takes; ``cost`` goes by what this model has read in this graph."""

    extractor: str
    users: int
    sessions: int
    turns: int
    max_calls: int
    cost: float | None


SampleOption = Annotated[
    int | None, typer.Option(min=1, help="Read that many sessions, show what would change, and write nothing.")
]


@command(MEMORY_PANEL)
async def reextract(
    batch: BatchOptions,
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    since: Annotated[datetime | None, MomentOption("--since", help="Only what was said since then.")] = None,
    model: Annotated[str | None, typer.Option(help="What reads it now: a model's name, or rules.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what this model and prompt have read: all.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    sample: SampleOption = None,
) -> Output:
    """Read sessions again that another model, or another version of the prompt, has read.

    What is read now counts instead of what was read before; `undo` returns to that. What the owner corrected, pinned or
    retracted stays. Exit code 1 means that something failed, 3 that the budget is spent. Whatever stopped it, the same
    command goes on from there.
    """
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory(model=model) as memory:
        timestamp = None if since is None else since.astimezone().timestamp()
        whose: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "since": timestamp, "force": force}
        sessions = [session async for session in memory.outdated_sessions(**whose)]
        if not sessions:
            await check_owner(app_name, user_id)
            return Output({"total": 0}, "Nothing to do: there is nothing to be read again.")
        if dry_run:
            estimate = await _estimate(memory, sessions)
            return Output(estimate, _format_estimate(estimate))
        announce("Loading the embedding model")
        await memory.prepare()
        if sample is not None:
            return await _show_sample(memory, sessions[:sample], timestamp, force=force)
        settings = memory.connection.settings
        budget = batch.make_budget(settings, [memory.extractor.model_name])
        outcome = await run_batch(
            [_make_job(memory, session) for session in sessions],
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


def _make_job(memory: adk_graph_memory.GraphMemory, session: OutdatedSession) -> batches.BatchJob:
    scope = session.scope
    name = f"{session.session_id} of user {scope.user_id} of {scope.app_name}"
    return batches.BatchJob(name, scope.key, session, _count_calls(memory, session))


def _count_calls(memory: adk_graph_memory.GraphMemory, session: OutdatedSession) -> int:
    """How many calls a session takes at most, if no reply has to be asked for again."""
    window_tokens = memory.connection.settings.limits.window_tokens
    return 0 if memory.judge is None else batches.count_calls(session.characters, window_tokens)


async def _estimate(memory: adk_graph_memory.GraphMemory, sessions: list[OutdatedSession]) -> Estimate:
    rows = await graph.ingest_queue.fetch_ingest_reports(memory.connection)
    name, prices = memory.extractor.model_name, memory.connection.settings.prices
    entries = [one for one in ledger.sum_reports(rows, prices) if one.extractor.partition(" ")[0] == name]
    turns, read_turns = sum(session.turns for session in sessions), sum(one.report.turns for one in entries)
    costs = [one.cost for one in entries if one.cost is not None]
    cost = sum(costs) / read_turns * turns if read_turns and len(costs) == len(entries) else None
    return Estimate(
        memory.extractor.version,
        len({session.scope for session in sessions}),
        len(sessions),
        turns,
        sum(_count_calls(memory, session) for session in sessions),
        0.0 if memory.judge is None else cost,
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
        lines.append(f"{estimate.cost:>9,.2f} is about what it costs")
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
        lines.append("What failed was not read to its end; the same command goes on with it.")
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
