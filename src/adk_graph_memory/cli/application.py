"""What all commands share: the Typer app, the consoles, options, and how errors are reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from pydantic_core import to_json
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from adk_graph_memory import errors, graph
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.cli.layout import replace_controls
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
console = Console(highlight=False, emoji=False, markup=False)
error_console = Console(stderr=True, highlight=False, emoji=False, markup=False)

SERVER_PANEL, CONVERSATIONS_PANEL, MEMORY_PANEL, EXAMPLE_PANEL = "Server", "Conversations", "Memory", "Example"
"""Headings of the help text."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and errors as JSON on stderr.")]
AppOption = Annotated[str, typer.Option("--app", help="The app's name.")]
UserOption = Annotated[str, typer.Option("--user", help="The user's id.")]
AppFilterOption = Annotated[str | None, typer.Option("--app", help="Of this app only.")]
UserFilterOption = Annotated[str | None, typer.Option("--user", help="Of this user only.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]
AfterOption = Annotated[str | None, typer.Option("--after", help="The last id of the page before.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]

EXPECTED_ERRORS = (errors.GraphMemoryError, InputValidationError)
"""This package's errors, and those that ADK's contract raises for invalid input; any other error is a bug."""


@app.callback()
def main() -> None:
    """Graph memory for agents built with Google's ADK, on Neo4j.

    The database is NEO4J_URI (with NEO4J_USERNAME, NEO4J_PASSWORD, NEO4J_DATABASE), or else the local server that
    `adk-graph-memory up` has started.

    Exit codes: 0 done, 1 failed or not confirmed (stderr says why), 2 wrong usage.
    """


@contextmanager
def report_errors(as_json: bool = False) -> Iterator[None]:
    """Print an expected error as one line on stderr and exit with code 1; a bug keeps its traceback."""
    try:
        yield
    except EXPECTED_ERRORS as error:
        print_error(error, as_json)
        raise typer.Exit(1) from error


def print_error(error: Exception, as_json: bool = False, *, of: str = "") -> None:
    """Print an error on stderr; ``of`` names the item that failed."""
    if as_json:
        typer.echo(json.dumps(describe_error(error) | ({"of": of} if of else {}), ensure_ascii=False), err=True)
        return
    prefix = f"{replace_controls(of)}: " if of else ""
    kind, message = describe_error(error).values()
    error_console.print(Text.assemble(prefix, (kind, "red"), f": {replace_controls(message)}"), soft_wrap=True)


def describe_error(error: Exception) -> dict[str, str]:
    """The error's class name and its message on one line, for JSON."""
    return {"error": type(error).__name__, "message": " ".join(str(error).split())}


def print_json(value: Any) -> None:
    """Print a value as JSON; dataclasses, models and times are converted."""
    typer.echo(to_json(value, indent=1))


def print_hint(text: str) -> None:
    """Print on stderr what to do next, without breaking lines, so that commands can be copied."""
    error_console.print(replace_controls(text), style="dim", soft_wrap=True)


def make_progress_bar(label: str, *columns: ProgressColumn) -> Progress:
    """A progress bar on stderr, shown only on a terminal; by default with the count and the elapsed time."""
    columns = (TextColumn(label), BarColumn(), *(columns or (MofNCompleteColumn(), TimeElapsedColumn())))
    return Progress(*columns, console=error_console, transient=True, disable=not error_console.is_terminal)


async def prepare_memory(memory: GraphMemory) -> None:
    """Load the embedder, showing a status line on a terminal."""
    with error_console.status("Loading the embedder"):
        await memory.prepare()


async def check_user(app_name: str, user_id: str) -> None:
    """After an empty result, make sure that the user exists.

    Raises:
        errors.NotFound: nothing was ever stored for the user.
    """
    async with graph.Connection() as connection:
        await graph.prepare_connection(connection)
        if not await graph.knowledge.is_known_user(connection, Scope(app_name, user_id)):
            where = "`adk-graph-memory sessions` and `adk-graph-memory stats`"
            raise errors.NotFound(what=f"user {user_id!r} in app {app_name!r}", where=where)


async def load_session(app_name: str, user_id: str, session_id: str, *, recent: int | None = None) -> Session:
    """Load a session with its events, or with only the ``recent`` latest ones.

    Raises:
        errors.NotFound: the user has no such session.
    """
    config = GetSessionConfig(num_recent_events=recent)
    async with Neo4jSessionService() as sessions:
        session = await sessions.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)
    if session is None:
        what = f"session {session_id!r} of user {user_id!r} in app {app_name!r}"
        raise errors.NotFound(what=what, where="`adk-graph-memory sessions`")
    return session
