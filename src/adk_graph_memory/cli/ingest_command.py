"""The command by which memory is filled: from a file, from a stored session, with what still waits."""

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
from adk_graph_memory.adk import Neo4jMemoryService, transcripts
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
FATAL_ERRORS = (errors.DatabaseUnavailable, errors.AuthenticationFailed, errors.SchemaError, errors.EmbedderMissing)
"""What every further session would fail for too."""


@dataclass(frozen=True, slots=True)
class IngestJob:
    """A session, or all that waits of a user, and what became of it."""

    run_ingest: Callable[[], Awaitable[IngestReport]]
    app_name: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    is_empty: bool = False
    """whether nothing was said or done in it"""
    report: IngestReport | None = None
    error: Exception | None = None
    is_pending: bool = False
    """whether it failed and is stored, to be taken up again"""

    @property
    def name(self) -> str:
        """What a line calls it; of what cannot be read the error says where it stands."""
        return "" if self.user_id is None else self.session_id or f"user {self.user_id} of {self.app_name}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON tells it."""
        whose = {name: getattr(self, name) for name in ("app_name", "user_id", "session_id")}
        return whose | {
            "report": self.report,
            "error": self.error and describe_error(self.error),
            "pending": self.is_pending,
        }


@dataclass
class IngestBatch:
    """What there is to do, and what is done."""

    planned_jobs: Sequence[IngestJob] | None = None
    """None until that is known"""
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

    async def ingested(jobs: IngestBatch) -> None:
        async with Neo4jMemoryService() as service:
            memory = service.memory
            if file is not None:
                jobs.planned_jobs = [_make_job(service, found) for found in _read_sessions(file, app_name, user_id)]
            elif session_id is not None:
                jobs.planned_jobs = [_make_job(service, await load_session(app_name or "", user_id or "", session_id))]
            else:
                jobs.planned_jobs = await _list_pending_jobs(memory, app_name, user_id)
            if jobs.planned_jobs:
                await memory.prepare()
            await _run_jobs(jobs, memory)

    jobs = IngestBatch()
    with report_errors(as_json):
        try:
            asyncio.run(ingested(jobs))
        finally:
            if jobs.finished_jobs or jobs.planned_jobs == []:
                _print_batch(jobs, as_json)
    if jobs.failed_jobs:
        raise typer.Exit(1)


# -- what there is to do ----------------------------------------------------------------------------------------


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


def _make_job(service: Neo4jMemoryService, found: Session | errors.UnreadableTranscript) -> IngestJob:
    async def remembered() -> IngestReport:
        if isinstance(found, errors.UnreadableTranscript):
            raise found
        return await service.remember(found)

    if isinstance(found, errors.UnreadableTranscript):
        return IngestJob(remembered)
    return IngestJob(remembered, found.app_name, found.user_id, found.id, is_empty=not found.events)


async def _list_pending_jobs(memory: GraphMemory, app_name: str | None, user_id: str | None) -> list[IngestJob]:
    async def resumed(app_name: str, user_id: str) -> IngestReport:
        return sum(await memory.resume(app_name=app_name, user_id=user_id), IngestReport())

    connection = await graph.prepare_connection(memory.connection)
    waiting = await graph.ingest_queue.fetch_pending_ingests(connection, app_name=app_name, user_id=user_id)
    scopes = dict.fromkeys(one.scope for one in waiting)
    return [IngestJob(partial(resumed, one.app_name, one.user_id), one.app_name, one.user_id) for one in scopes]


# -- doing it ---------------------------------------------------------------------------------------------------


async def _run_jobs(jobs: IngestBatch, memory: GraphMemory) -> None:
    """One after the other, past those that fail; what would fail all further ones ends it."""
    with make_progress_bar("Remembering") as bar:
        for job in bar.track(jobs.planned_jobs or ()):
            try:
                jobs.finished_jobs.append(replace(job, report=await job.run_ingest()))
            except FATAL_ERRORS:
                raise
            except EXPECTED_ERRORS as error:
                jobs.finished_jobs.append(replace(job, error=error, is_pending=await _is_job_pending(job, memory)))


async def _is_job_pending(job: IngestJob, memory: GraphMemory) -> bool:
    if job.user_id is None:
        return False
    waiting = await graph.ingest_queue.fetch_pending_ingests(
        memory.connection, app_name=job.app_name, user_id=job.user_id
    )
    return any(job.session_id in (None, one.session_id) for one in waiting)


# -- saying it --------------------------------------------------------------------------------------------------


def _print_batch(jobs: IngestBatch, as_json: bool) -> None:
    total = sum((job.report for job in jobs.finished_jobs if job.report), IngestReport())
    if as_json:
        print_json({"total": total, "jobs": [job.to_dict() for job in jobs.finished_jobs]})
    for job in jobs.finished_jobs:
        if job.error:
            print_error(job.error, as_json, of=job.name)
        elif job.report and not as_json:
            console.print(
                f"{replace_controls(job.name)}: {'no events in it.' if job.is_empty else _summarize_report(job.report)}"
            )
    if as_json:
        return
    if not jobs.planned_jobs:
        console.print("Nothing was waiting.")
    elif len(jobs.planned_jobs) > 1:
        done = len(jobs.finished_jobs) - len(jobs.failed_jobs)
        console.print(f"{done} of {len(jobs.planned_jobs)} done; {_summarize_report(total)}")
    if any(job.is_pending for job in jobs.failed_jobs):
        print_hint("What failed is stored and waits: `adk-graph-memory ingest --pending` takes it up.")


def _summarize_report(report: IngestReport) -> str:
    if not report.turns:
        return "another process is reading it." if report.busy else "nothing new."
    changes = ", ".join(f"{count} {op.lower()}" for op, count in sorted(report.facts.items())) or "no facts"
    return f"{report.turns} turns remembered: {changes}."
