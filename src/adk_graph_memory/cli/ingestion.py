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
    KNOWN_ERRORS,
    MEMORY,
    AsJson,
    app,
    complain,
    console,
    failing_well,
    hint,
    progress,
    show_json,
    stored_session,
    told,
)
from adk_graph_memory.cli.layout import plain
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import IngestReport

STDIN = Path("-")
OF_THEM_ALL = (errors.DatabaseUnavailable, errors.AuthenticationFailed, errors.SchemaError, errors.EmbedderMissing)
"""What every further session would fail for too."""


@dataclass(frozen=True, slots=True)
class Job:
    """A session, or all that waits of a user, and what became of it."""

    work: Callable[[], Awaitable[IngestReport]]
    app_name: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    is_empty: bool = False
    """whether nothing was said or done in it"""
    report: IngestReport | None = None
    error: Exception | None = None
    waits: bool = False
    """whether it failed and is stored, to be taken up again"""

    @property
    def name(self) -> str:
        """What a line calls it; of what cannot be read the error says where it stands."""
        return "" if self.user_id is None else self.session_id or f"user {self.user_id} of {self.app_name}"

    def row(self) -> dict[str, Any]:
        """As JSON tells it."""
        whose = {name: getattr(self, name) for name in ("app_name", "user_id", "session_id")}
        return whose | {"report": self.report, "error": self.error and told(self.error), "pending": self.waits}


@dataclass
class Jobs:
    """What there is to do, and what is done."""

    todo: Sequence[Job] | None = None
    """None until that is known"""
    done: list[Job] = field(default_factory=list)

    @property
    def failed(self) -> list[Job]:
        return [job for job in self.done if job.error]


@app.command(rich_help_panel=MEMORY)
def ingest(
    file: Annotated[
        Path | None, typer.Argument(help="Sessions as ADK writes them, JSON or JSON Lines; - for stdin.")
    ] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="A session that is stored in the graph.")] = None,
    pending: Annotated[bool, typer.Option("--pending", help="What was asked for and never finished.")] = False,
    app_name: Annotated[str | None, typer.Option("--app", help="Its app; of a FILE, instead of its own.")] = None,
    user_id: Annotated[str | None, typer.Option("--user", help="Its user; of a FILE, instead of its own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Remember the sessions of a FILE, a stored one, or what waits because a process died or a model failed.

    What was remembered before costs nothing and changes nothing; what fails holds up nothing else.
    """
    if sum((file is not None, session_id is not None, pending)) != 1:
        raise typer.BadParameter("say what to ingest: a FILE, --session or --pending")
    if session_id is not None and not (app_name and user_id):
        raise typer.BadParameter("say whose session it is: --app and --user")

    async def ingested(jobs: Jobs) -> None:
        async with Neo4jMemoryService() as service:
            memory = service.memory
            if file is not None:
                jobs.todo = [_job(service, found) for found in _read(file, app_name, user_id)]
            elif session_id is not None:
                jobs.todo = [_job(service, await stored_session(app_name or "", user_id or "", session_id))]
            else:
                jobs.todo = await _waiting(memory, app_name, user_id)
            if jobs.todo:
                await memory.prepare()
            await _do(jobs, memory)

    jobs = Jobs()
    with failing_well(as_json):
        try:
            asyncio.run(ingested(jobs))
        finally:
            if jobs.done or jobs.todo == []:
                _show(jobs, as_json)
    if jobs.failed:
        raise typer.Exit(1)


# -- what there is to do ----------------------------------------------------------------------------------------


def _read(file: Path, app_name: str | None, user_id: str | None) -> list[Session | errors.Unreadable]:
    name = "stdin" if file == STDIN else str(file)
    try:
        text = (sys.stdin.buffer.read() if file == STDIN else file.read_bytes()).decode("utf-8-sig")
    except OSError as error:
        raise errors.Unreadable(place=name, reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise errors.Unreadable(place=name, reason=f"it is no UTF-8 ({error})") from error
    return transcripts.read(text, name, app_name=app_name, user_id=user_id)


def _job(service: Neo4jMemoryService, found: Session | errors.Unreadable) -> Job:
    async def remembered() -> IngestReport:
        if isinstance(found, errors.Unreadable):
            raise found
        return await service.remember(found)

    if isinstance(found, errors.Unreadable):
        return Job(remembered)
    return Job(remembered, found.app_name, found.user_id, found.id, is_empty=not found.events)


async def _waiting(memory: GraphMemory, app_name: str | None, user_id: str | None) -> list[Job]:
    async def resumed(app_name: str, user_id: str) -> IngestReport:
        return sum(await memory.resume(app_name=app_name, user_id=user_id), IngestReport())

    connection = await graph.prepared(memory.connection)
    waiting = await graph.ingests.pending(connection, app_name=app_name, user_id=user_id)
    scopes = dict.fromkeys(one.scope for one in waiting)
    return [Job(partial(resumed, one.app_name, one.user_id), one.app_name, one.user_id) for one in scopes]


# -- doing it ---------------------------------------------------------------------------------------------------


async def _do(jobs: Jobs, memory: GraphMemory) -> None:
    """One after the other, past those that fail; what would fail all further ones ends it."""
    with progress("Remembering") as bar:
        for job in bar.track(jobs.todo or ()):
            try:
                jobs.done.append(replace(job, report=await job.work()))
            except OF_THEM_ALL:
                raise
            except KNOWN_ERRORS as error:
                jobs.done.append(replace(job, error=error, waits=await _is_waiting(job, memory)))


async def _is_waiting(job: Job, memory: GraphMemory) -> bool:
    if job.user_id is None:
        return False
    waiting = await graph.ingests.pending(memory.connection, app_name=job.app_name, user_id=job.user_id)
    return any(job.session_id in (None, one.session_id) for one in waiting)


# -- saying it --------------------------------------------------------------------------------------------------


def _show(jobs: Jobs, as_json: bool) -> None:
    total = sum((job.report for job in jobs.done if job.report), IngestReport())
    if as_json:
        show_json({"total": total, "jobs": [job.row() for job in jobs.done]})
    for job in jobs.done:
        if job.error:
            complain(job.error, as_json, of=job.name)
        elif job.report and not as_json:
            console.print(f"{plain(job.name)}: {'no events in it.' if job.is_empty else _came_to(job.report)}")
    if as_json:
        return
    if not jobs.todo:
        console.print("Nothing was waiting.")
    elif len(jobs.todo) > 1:
        console.print(f"{len(jobs.done) - len(jobs.failed)} of {len(jobs.todo)} done; {_came_to(total)}")
    if any(job.waits for job in jobs.failed):
        hint("What failed is stored and waits: `adk-graph-memory ingest --pending` takes it up.")


def _came_to(report: IngestReport) -> str:
    if not report.turns:
        return "another process is reading it." if report.busy else "nothing new."
    changes = ", ".join(f"{count} {op.lower()}" for op, count in sorted(report.facts.items())) or "no facts"
    return f"{report.turns} turns remembered: {changes}."
