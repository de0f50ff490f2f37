"""The commands ``ingest`` and ``stats``: remember sessions and pending requests, and sum up what that came to."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Column
from rich.text import Text

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    OWNER,
    AppFilterOption,
    UsageError,
    UserFilterOption,
    check_owner,
    command,
    load_session,
)
from adk_graph_memory.cli.batch_options import (
    BUDGET_SPENT,
    EXIT_BUDGET_SPENT,
    FATAL_ERRORS,
    BatchOptions,
    EngineName,
    run_batch,
)
from adk_graph_memory.cli.lazy_modules import batches, connections, ingest_queue, session_codec, transcripts
from adk_graph_memory.cli.output import (
    Output,
    add_details,
    announce,
    describe_error,
    make_table,
    number_column,
    print_error,
    text_column,
)
from adk_graph_memory.language.text import format_count
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.turns import RULES

if TYPE_CHECKING:
    from google.adk.sessions.session import Session

    from adk_graph_memory.graph.ingest_queue import ClaimedIngest
    from adk_graph_memory.records.facts import FactOperation


STDIN_PATH = Path("-")
_CHANGES: dict[FactOperation, str] = {
    "ADD": "added",
    "REINFORCE": "reinforced",
    "REFINE": "refined",
    "SUPERSEDE": "ended",
    "RETRACT": "corrected",
    "ALREADY_KNOWN": "already known",
}
"""What the operations of a report are called, in the order of the summary."""


@dataclass(frozen=True, slots=True)
class IngestJob:
    """A session or a user's pending requests, and the outcome of ingesting them."""

    session: Session | errors.UnreadableTranscript | None = None
    """None for pending requests"""
    queued_model: str | None = None
    """the model that pending requests were queued for; None for any"""
    app_name: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    is_empty: bool = False
    """whether the session has no events"""
    characters: int = 0
    """of what is to be read, at most"""
    report: IngestReport | None = None
    error: Exception | None = None
    is_pending: bool = False
    """whether it failed but is stored, to be retried with ``--pending``"""

    @property
    def name(self) -> str:
        """The job's name in the output; empty for an unreadable session, whose error names its place."""
        return "" if self.user_id is None else self.session_id or f"user {self.user_id} of {self.app_name}"

    def to_dict(self) -> dict[str, Any]:
        """The job and its outcome for JSON."""
        return {
            "app_name": self.app_name,
            "user_id": self.user_id,
            "session_id": self.session_id,
            "report": self.report,
            "error": self.error and describe_error(self.error),
            "pending": self.is_pending,
        }


@command(MEMORY_PANEL)
async def ingest(
    batch: BatchOptions,
    file: Annotated[
        Path | None, typer.Argument(help="Sessions as ADK writes them, JSON or JSON Lines; - for stdin.")
    ] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="A session stored in the graph.")] = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="Unfinished requests, each with the model it was queued for.")
    ] = False,
    app_name: Annotated[str | None, typer.Option("--app", help="The app; overrides the one in FILE.")] = None,
    user_id: Annotated[str | None, typer.Option("--user", **OWNER, help="The user; overrides the one in FILE.")] = None,
    model: Annotated[str | None, typer.Option(help="What extracts facts this time: a model's name, or rules.")] = None,
) -> Output | None:
    """Remember the sessions in FILE, a stored session, or requests left over when a process died or a model failed.

    Turns that are already remembered cost nothing and change nothing; a session that fails does not hold up the others.
    Exit code 1 means that something failed, 3 that the budget is spent.
    """
    if sum((file is not None, session_id is not None, pending)) != 1:
        raise UsageError("Give one of FILE, --session and --pending.")
    if session_id is not None and not (app_name and user_id):
        raise UsageError("Give --app and --user with --session.")
    if batch.engine is EngineName.RAY and not pending:
        raise UsageError("--engine ray is only for pending requests: give --pending.")
    entries = _read_sessions(file, app_name, user_id) if file is not None else []
    announce("Waiting for Neo4j")
    async with adk_graph_memory.Neo4jMemoryService(model=model) as service:
        memory, claims = service.memory, list[ingest_queue.ClaimedIngest]()
        if pending:
            jobs, claims = await _list_pending_jobs(memory, app_name, user_id, model)
        else:
            if session_id is not None:
                entries = [await load_session(app_name or "", user_id or "", session_id)]
            jobs = [_plan_session_job(entry) for entry in entries]
        if jobs:
            announce("Loading the embedding model")
            await (
                memory.engine.vectors.check_embedder() if pending else memory.prepare()
            )  # each has a model of its own
        outcome = await _run_jobs(jobs, service, batch, model)
        finished = await _list_finished(jobs, outcome, memory)
    return _report_jobs(jobs, finished, outcome.fatal_error, claims)


# -- planning the jobs ------------------------------------------------------------------------------------------


def _read_sessions(
    file: Path, app_name: str | None, user_id: str | None
) -> list[Session | errors.UnreadableTranscript]:
    name = "stdin" if file == STDIN_PATH else str(file)
    try:
        text = (sys.stdin.buffer.read() if file == STDIN_PATH else file.read_bytes()).decode("utf-8-sig")
    except OSError as error:
        raise errors.UnreadableTranscript(place=name, reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise errors.UnreadableTranscript(place=name, reason=f"it is not UTF-8 ({error})") from error
    return transcripts.parse_transcript(text, name, app_name=app_name, user_id=user_id)


def _plan_session_job(session: Session | errors.UnreadableTranscript) -> IngestJob:
    if isinstance(session, errors.UnreadableTranscript):
        return IngestJob(session)
    characters = sum(len(session_codec.get_event_text(event)) for event in session.events)
    names = session.app_name, session.user_id, session.id
    return IngestJob(session, None, *names, is_empty=not session.events, characters=characters)


async def _list_pending_jobs(
    memory: adk_graph_memory.GraphMemory, app_name: str | None, user_id: str | None, model: str | None
) -> tuple[list[IngestJob], list[ClaimedIngest]]:
    """Make a job of each user's pending requests for one model; list those that are being read, too."""
    characters: dict[tuple[str | None, str, str], int] = {}
    async for ingest in ingest_queue.iterate_pending_ingests(memory.connection, app_name=app_name, user_id=user_id):
        key = None if model else ingest.model, ingest.scope.app_name, ingest.scope.user_id
        characters[key] = characters.get(key, 0) + sum(len(turn.text) for turn in ingest.turns)
    claims = await ingest_queue.fetch_claimed_ingests(memory.connection, app_name=app_name, user_id=user_id)
    if not (characters or claims):
        await check_owner(app_name, user_id)
    return [IngestJob(None, *key, characters=count) for key, count in characters.items()], claims


# -- running them -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_ingester(model: str | None) -> AsyncIterator[batches.RunTask]:
    """Open what ingests in another process, with the settings of its own environment."""
    async with adk_graph_memory.Neo4jMemoryService(model=model) as service:
        await service.memory.engine.vectors.check_embedder()
        yield _make_ingester(service)


def _make_ingester(service: adk_graph_memory.Neo4jMemoryService) -> batches.RunTask:
    async def run_ingest(job: IngestJob) -> batches.JobResult:
        if isinstance(job.session, errors.UnreadableTranscript):
            raise job.session
        if job.session is not None:
            return batches.JobResult(await service.remember(job.session))
        reports = await service.memory.resume(app_name=job.app_name, user_id=job.user_id, queued_for=job.queued_model)
        return batches.JobResult(sum(reports, IngestReport()))

    return run_ingest


def _plan_batch(jobs: Sequence[IngestJob], memory: adk_graph_memory.GraphMemory) -> list[batches.BatchJob]:
    """Plan the jobs: one user's run one after another, and a failed one holds up no other."""

    def plan_job(number: int, job: IngestJob) -> batches.BatchJob:
        window_tokens = memory.connection.settings.limits.window_tokens
        model = job.queued_model or memory.engine.extractor.model_name
        calls = 0 if model == RULES else batches.count_calls(job.characters, window_tokens)
        return batches.BatchJob(str(number), (job.app_name, job.user_id), job, calls)

    return [plan_job(number, job) for number, job in enumerate(jobs)]


async def _run_jobs(
    jobs: Sequence[IngestJob], service: adk_graph_memory.Neo4jMemoryService, options: BatchOptions, model: str | None
) -> batches.BatchOutcome:
    memory, settings = service.memory, service.memory.connection.settings
    models = [job.queued_model or memory.engine.extractor.model_name for job in jobs]
    return await run_batch(
        _plan_batch(jobs, memory),
        "Remembering",
        options,
        settings,
        run_task=_make_ingester(service),
        open_runner=partial(open_ingester, model),
        budget=options.make_budget(settings, models),
        attempts=1,
    )


async def _list_finished(
    jobs: Sequence[IngestJob], outcome: batches.BatchOutcome, memory: adk_graph_memory.GraphMemory
) -> list[IngestJob]:
    """The jobs that were done or failed, in order, with what they came to; not those that would fail all others."""
    finished = list[IngestJob]()
    for number, job in enumerate(jobs):
        if result := outcome.results.get(str(number)):
            finished.append(replace(job, report=result.report))
        elif (error := outcome.failures.get(str(number))) and not isinstance(error, FATAL_ERRORS):
            finished.append(replace(job, error=error, is_pending=await _is_job_pending(job, memory)))
    return finished


async def _is_job_pending(job: IngestJob, memory: adk_graph_memory.GraphMemory) -> bool:
    if job.user_id is None:
        return False
    connection, app_name = memory.connection, job.app_name
    async for ingest in ingest_queue.iterate_pending_ingests(connection, app_name=app_name, user_id=job.user_id):
        if job.session_id in (None, ingest.session_id):
            return True
    return False


# -- reporting the outcome --------------------------------------------------------------------------------------


def _report_jobs(
    jobs: Sequence[IngestJob],
    finished: Sequence[IngestJob],
    fatal_error: Exception | None,
    claims: Sequence[ClaimedIngest],
) -> Output | None:
    """Make the output, and print the errors."""
    failed = [job for job in finished if job.error]
    for job in failed:
        print_error(job.error or Exception(), of=job.name)
    if fatal_error:
        print_error(fatal_error)
        if not finished:
            raise typer.Exit(1)
    total = sum((job.report for job in finished if job.report), IngestReport())
    is_pending, is_spent = any(job.is_pending for job in failed), not fatal_error and len(finished) < len(jobs)
    lines = [*_summarize_jobs(jobs, finished, total), *_describe_claims(claims)]
    return Output(
        value={"total": total, "jobs": [job.to_dict() for job in finished], "claimed": claims},
        text="\n".join(lines) if lines or jobs else "Nothing is pending.",
        hints=[
            "Failed requests are stored: `adk-graph-memory ingest --pending` tries them again." if is_pending else None,
            BUDGET_SPENT if is_spent else None,
        ],
        exit_code=1 if failed or fatal_error else EXIT_BUDGET_SPENT if is_spent else 0,
    )


def _summarize_jobs(jobs: Sequence[IngestJob], finished: Sequence[IngestJob], total: IngestReport) -> list[str]:
    if not jobs:
        return []
    lines = [
        f"{job.name}: {'no events.' if job.is_empty else _summarize_report(job.report)}"
        for job in finished
        if job.report
    ]
    if len(jobs) > 1:
        success_count = sum(job.error is None for job in finished)
        lines.append(f"{success_count} of {len(jobs)} done; {_summarize_report(total)}")
    return lines


def _summarize_report(report: IngestReport) -> str:
    if not report.turns:
        return (
            "another process is reading it; `adk-graph-memory ingest --pending` says when it is free if that one died."
            if report.busy
            else "nothing new."
        )
    changes = ", ".join(f"{report.facts[op]} {word}" for op, word in _CHANGES.items() if report.facts.get(op))
    return f"{format_count(report.turns, 'turn')} remembered: {changes or 'no facts'}."


def _describe_claims(claims: Sequence[ClaimedIngest]) -> list[str]:
    """A line for each request that a process is reading, or was reading when it died."""
    return [
        f"{claim.session_id} of user {claim.user_id} of "
        f"{claim.app_name}: a process is reading it; if that process died, the request is free at "
        f"{claim.free_at:%Y-%m-%d %H:%M:%S} UTC."
        for claim in claims
    ]


@command(MEMORY_PANEL)
async def stats(app_name: AppFilterOption = None, user_id: UserFilterOption = None) -> Output:
    """Summarize what was remembered and what it cost, by user, day and extractor; prices come from the settings."""
    announce("Waiting for Neo4j")
    async with connections.Connection() as connection:
        rows = await ingest_queue.fetch_ingest_reports(connection, app_name=app_name, user_id=user_id)
        claims = await ingest_queue.fetch_claimed_ingests(connection, app_name=app_name, user_id=user_id)
        entries = batches.sum_reports(rows, connection.settings.prices)
    if not (entries or claims):
        await check_owner(app_name, user_id)
    columns = [Column("day"), text_column("user of app", ratio=1)]
    columns += map(number_column, ("turns", "facts", "calls", "tokens", "cost"))
    table = make_table(columns, map(_format_ledger_row, entries))
    text = table if entries else "Nothing has been remembered yet."
    return Output({"entries": entries, "claimed": claims}, Group(text, *_describe_claims(claims)))


def _format_ledger_row(entry: batches.CostEntry) -> tuple[str | Text, ...]:
    report, usage = entry.report, entry.report.usage
    counts = (report.turns, report.facts.get("ADD", 0), usage.calls)
    return (
        entry.day,
        add_details(f"{entry.user_id} of {entry.app_name}", entry.extractor),
        *(f"{count:,}" for count in counts),
        f"{usage.input_tokens:,} in\n{usage.output_tokens:,} out",
        "" if entry.cost is None else f"{entry.cost:.4f}",
    )
