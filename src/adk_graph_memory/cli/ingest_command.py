"""The command ``ingest``: remember sessions from a file, a stored session, or pending requests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from google.adk.sessions.session import Session

from adk_graph_memory import errors, graph
from adk_graph_memory.adk import transcripts
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.cli.application import (
    EXPECTED_ERRORS,
    MEMORY_PANEL,
    JsonOption,
    app,
    console,
    describe_error,
    load_session,
    make_progress_bar,
    print_error,
    print_hint,
    print_json,
    report_errors,
)
from adk_graph_memory.cli.layout import replace_controls
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import IngestReport

STDIN_PATH = Path("-")
FATAL_ERRORS = (errors.DatabaseUnavailable, errors.AuthenticationFailed, errors.SchemaError, errors.EmbeddingError)
"""Errors that would fail every further session too."""


@dataclass(frozen=True, slots=True)
class IngestJob:
    """A session or a user's pending requests, and the outcome of ingesting them."""

    run_ingest: Callable[[], Awaitable[IngestReport]]
    app_name: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    is_empty: bool = False
    """whether the session has no events"""
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


@dataclass
class IngestBatch:
    """The planned and the finished jobs of one command."""

    planned_jobs: Sequence[IngestJob] | None = None
    """None until the input was read"""
    finished_jobs: list[IngestJob] = field(default_factory=list)

    @property
    def failed_jobs(self) -> list[IngestJob]:
        return [job for job in self.finished_jobs if job.error]


@app.command(rich_help_panel=MEMORY_PANEL)
def ingest(
    file: Annotated[
        Path | None, typer.Argument(help="Sessions as ADK writes them, JSON or JSON Lines; - for stdin.")
    ] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="A session that is stored in the graph.")] = None,
    pending: Annotated[bool, typer.Option("--pending", help="What was asked for and never finished.")] = False,
    app_name: Annotated[str | None, typer.Option("--app", help="Its app; of a FILE, instead of its own.")] = None,
    user_id: Annotated[str | None, typer.Option("--user", help="Its user; of a FILE, instead of its own.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Remember the sessions of a FILE, a stored one, or what waits because a process died or a model failed.

    What was remembered before costs nothing and changes nothing; what fails holds up nothing else.
    """
    if sum((file is not None, session_id is not None, pending)) != 1:
        raise typer.BadParameter("say what to ingest: a FILE, --session or --pending")
    if session_id is not None and not (app_name and user_id):
        raise typer.BadParameter("say whose session it is: --app and --user")

    batch = IngestBatch()

    async def run_batch() -> None:
        async with Neo4jMemoryService() as service:
            memory = service.memory
            if file is not None:
                batch.planned_jobs = [_make_job(service, entry) for entry in _read_sessions(file, app_name, user_id)]
            elif session_id is not None:
                batch.planned_jobs = [_make_job(service, await load_session(app_name or "", user_id or "", session_id))]
            else:
                batch.planned_jobs = await _list_pending_jobs(memory, app_name, user_id)
            if batch.planned_jobs:
                await memory.prepare()
            await _run_jobs(batch, memory)

    with report_errors(as_json):
        try:
            asyncio.run(run_batch())
        finally:
            if batch.finished_jobs or batch.planned_jobs == []:
                _print_batch(batch, as_json)
    if batch.failed_jobs:
        raise typer.Exit(1)


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
        raise errors.UnreadableTranscript(place=name, reason=f"it is no UTF-8 ({error})") from error
    return transcripts.parse_transcript(text, name, app_name=app_name, user_id=user_id)


def _make_job(service: Neo4jMemoryService, session: Session | errors.UnreadableTranscript) -> IngestJob:
    async def run_ingest() -> IngestReport:
        if isinstance(session, errors.UnreadableTranscript):
            raise session
        return await service.remember(session)

    if isinstance(session, errors.UnreadableTranscript):
        return IngestJob(run_ingest)
    return IngestJob(run_ingest, session.app_name, session.user_id, session.id, is_empty=not session.events)


async def _list_pending_jobs(memory: GraphMemory, app_name: str | None, user_id: str | None) -> list[IngestJob]:
    async def resume_user(app_name: str, user_id: str) -> IngestReport:
        return sum(await memory.resume(app_name=app_name, user_id=user_id), IngestReport())

    connection = await graph.prepare_connection(memory.connection)
    ingests = await graph.ingest_queue.fetch_pending_ingests(connection, app_name=app_name, user_id=user_id)
    scopes = dict.fromkeys((ingest.scope.app_name, ingest.scope.user_id) for ingest in ingests)
    return [IngestJob(partial(resume_user, *scope), *scope) for scope in scopes]


# -- running them -----------------------------------------------------------------------------------------------


async def _run_jobs(batch: IngestBatch, memory: GraphMemory) -> None:
    """Run the jobs one by one; go on after a failed job unless its error would fail every further one."""
    with make_progress_bar("Remembering") as bar:
        for job in bar.track(batch.planned_jobs or ()):
            try:
                batch.finished_jobs.append(replace(job, report=await job.run_ingest()))
            except FATAL_ERRORS:
                raise
            except EXPECTED_ERRORS as error:
                batch.finished_jobs.append(replace(job, error=error, is_pending=await _is_job_pending(job, memory)))


async def _is_job_pending(job: IngestJob, memory: GraphMemory) -> bool:
    if job.user_id is None:
        return False
    ingests = await graph.ingest_queue.fetch_pending_ingests(
        memory.connection, app_name=job.app_name, user_id=job.user_id
    )
    return any(job.session_id in (None, ingest.session_id) for ingest in ingests)


# -- printing the outcome ---------------------------------------------------------------------------------------


def _print_batch(batch: IngestBatch, as_json: bool) -> None:
    total = sum((job.report for job in batch.finished_jobs if job.report), IngestReport())
    if as_json:
        print_json({"total": total, "jobs": [job.to_dict() for job in batch.finished_jobs]})
    for job in batch.finished_jobs:
        if job.error:
            print_error(job.error, as_json, of=job.name)
        elif job.report and not as_json:
            summary = "no events in it." if job.is_empty else _summarize_report(job.report)
            console.print(f"{replace_controls(job.name)}: {summary}")
    if as_json:
        return
    if not batch.planned_jobs:
        console.print("Nothing was waiting.")
    elif len(batch.planned_jobs) > 1:
        success_count = len(batch.finished_jobs) - len(batch.failed_jobs)
        console.print(f"{success_count} of {len(batch.planned_jobs)} done; {_summarize_report(total)}")
    if any(job.is_pending for job in batch.failed_jobs):
        print_hint("What failed is stored and waits: `adk-graph-memory ingest --pending` takes it up.")


def _summarize_report(report: IngestReport) -> str:
    if not report.turns:
        return "another process is reading it." if report.busy else "nothing new."
    changes = ", ".join(f"{count} {op.lower()}" for op, count in sorted(report.facts.items())) or "no facts"
    return f"{report.turns} turns remembered: {changes}."
