"""What all commands have in common: where they are registered, where they print, and how they fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from google.adk.errors.input_validation_error import InputValidationError
from rich.console import Console
from rich.markup import escape

from adk_graph_memory import errors

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
console = Console(highlight=False)
complaints = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AppName = Annotated[str, typer.Option("--app", help="The app's name.")]
UserId = Annotated[str, typer.Option("--user", help="The user's id.")]
OfApp = Annotated[str | None, typer.Option("--app", help="Of this app only.")]
OfUser = Annotated[str | None, typer.Option("--user", help="Of this user only.")]


@app.callback()
def main() -> None:
    """Graph memory for agents built with Google's ADK, on Neo4j.

    The database is NEO4J_URI (with NEO4J_USERNAME, NEO4J_PASSWORD, NEO4J_DATABASE), or else the local server that
    `adk-graph-memory up` has started.
    """


@contextmanager
def failing_well() -> Iterator[None]:
    """An error of ours, or input that ADK's contract refuses, is one sentence on stderr and exit code 1.

    Anything else is a bug and keeps its traceback.
    """
    try:
        yield
    except (errors.GraphMemoryError, InputValidationError) as error:
        complaints.print(f"[red]{type(error).__name__}[/]: {escape(' '.join(str(error).split()))}")
        raise typer.Exit(1) from error
