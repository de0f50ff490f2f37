"""What all commands have in common: where they are registered, where they print, and how they fail."""

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
from adk_graph_memory.adk import Neo4jSessionService
from adk_graph_memory.cli.layout import replace_controls
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
console = Console(highlight=False, emoji=False, markup=False)
error_console = Console(stderr=True, highlight=False, emoji=False, markup=False)

SERVER_PANEL, CONVERSATIONS_PANEL, MEMORY_PANEL, EXAMPLE_PANEL = "Server", "Conversations", "Memory", "Example"
"""Headings of the help, under which commands are listed."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and errors as JSON on stderr.")]
AppOption = Annotated[str, typer.Option("--app", help="The app's name.")]
UserOption = Annotated[str, typer.Option("--user", help="The user's id.")]
AppFilterOption = Annotated[str | None, typer.Option("--app", help="Of this app only.")]
UserFilterOption = Annotated[str | None, typer.Option("--user", help="Of this user only.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]
AfterOption = Annotated[str | None, typer.Option("--after", help="The last id of the page before.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]

EXPECTED_ERRORS = (errors.GraphMemoryError, InputValidationError)
"""Errors of ours, and input that ADK's contract refuses; anything else is a bug."""


@app.callback()
def main() -> None:
    """Graph memory for agents built with Google's ADK, on Neo4j.

    The database is NEO4J_URI (with NEO4J_USERNAME, NEO4J_PASSWORD, NEO4J_DATABASE), or else the local server that
    `adk-graph-memory up` has started.

    Exit codes: 0 done, 1 failed or not confirmed (stderr says why), 2 wrong usage.
    """


@contextmanager
def report_errors(as_json: bool = False) -> Iterator[None]:
    """An error that is known is one line on stderr and exit code 1; a bug keeps its traceback."""
    try:
        yield
    except EXPECTED_ERRORS as error:
        print_error(error, as_json)
        raise typer.Exit(1) from error


def print_error(error: Exception, as_json: bool = False, *, of: str = "") -> None:
    """Says on stderr what is wrong, and of what it is."""
    if as_json:
        typer.echo(json.dumps(describe_error(error) | ({"of": of} if of else {}), ensure_ascii=False), err=True)
        return
    of = f"{of}: " if of else ""
    kind, message = describe_error(error).values()
    error_console.print(
        Text.assemble(replace_controls(of), (kind, "red"), f": {replace_controls(message)}"), soft_wrap=True
    )


def describe_error(error: Exception) -> dict[str, str]:
    """The error as JSON tells it, its message on one line."""
    return {"error": type(error).__name__, "message": " ".join(str(error).split())}


def print_json(value: Any) -> None:
    """Prints records, times and whatever else as JSON."""
    typer.echo(to_json(value, indent=1))


def print_hint(text: str) -> None:
    """Says on stderr how to go on; what is to be typed keeps together on one line."""
    error_console.print(replace_controls(text), style="dim", soft_wrap=True)


def make_progress_bar(what: str, *counts: ProgressColumn) -> Progress:
    """A bar on stderr, where that is a terminal; gone when all is done."""
    columns = (TextColumn(what), BarColumn(), *(counts or (MofNCompleteColumn(), TimeElapsedColumn())))
    return Progress(*columns, console=error_console, transient=True, disable=not error_console.is_terminal)


async def prepare_memory(memory: GraphMemory) -> None:
    """Loads the embedder, and says so meanwhile where somebody looks on."""
    with error_console.status("Loading the embedder"):
        await memory.prepare()


async def check_user(app_name: str, user_id: str) -> None:
    """Where nothing was found: tells a user who has nothing from one who does not exist.

    Raises:
        errors.NotFound: nothing was ever stored of the user.
    """
    async with graph.Connection() as connection:
        if not await graph.knowledge.is_known_user(
            await graph.prepare_connection(connection), Scope(app_name, user_id)
        ):
            lists = "`adk-graph-memory sessions` and `adk-graph-memory stats`"
            raise errors.NotFound(what=f"user {user_id!r} in app {app_name!r}", where=lists)


async def load_session(app_name: str, user_id: str, session_id: str, *, recent: int | None = None) -> Session:
    """A session with its events, or with so many of them.

    Raises:
        errors.NotFound: the user has no such session.
    """
    config = GetSessionConfig(num_recent_events=recent)
    async with Neo4jSessionService() as sessions:
        found = await sessions.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)
    if found is None:
        what = f"session {session_id!r} of user {user_id!r} in app {app_name!r}"
        raise errors.NotFound(what=what, where="`adk-graph-memory sessions`")
    return found
