"""What all commands share: the Typer app, options, how a command runs and fails, and the checks of who is meant."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from rich.console import RenderableType
from typer.core import TyperGroup

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.lazy_modules import asyncio, base_session_service, connections, graph_listings
from adk_graph_memory.cli.output import (
    Output,
    announce,
    hide_status,
    print_error,
    print_json_error,
    print_output,
    start_command,
)
from adk_graph_memory.records.scopes import Scope, SharedMemory

if TYPE_CHECKING:
    from google.adk.sessions.session import Session

    from adk_graph_memory.graph.connection import UserGraph
    from adk_graph_memory.memory.user_memory import UserMemory


T = TypeVar("T")

UsageError: type[Any] = typer.BadParameter.mro()[1]
"""What Typer raises for a wrong option or argument: the class has no public name."""
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


MODULES = {
    "database_commands": ("up", "down", "status", "migrate", "health"),
    "memory_commands": ("profile", "facts", "entities", "recall", "forget"),
    "conversation_commands": ("apps", "users", "sessions", "events", "artifacts"),
    "owner_commands": (
        *("history", "entity", "undo", "forget-user"),
        *("correct", "pin", "unpin", "retract", "rollback", "merge", "split"),
        *("proposals", "accept", "decline"),
        *("review", "release", "reject"),
    ),
    "serving_commands": ("inspect", "mcp", "serve"),
    "upkeep_commands": ("prune", "doctor"),
    "ingest_command": ("ingest", "stats"),
    "reread_commands": ("reextract", "reembed"),
    "transfer_commands": ("export", "export-html", "import"),
    "backup_commands": ("backup", "restore"),
    "document_commands": ("remember-document", "documents"),
    "demo.command": ("demo",),
}
"""The commands by their modules, in the order of the help text."""


class Commands(Mapping[str, Any]):
    """The commands by name; the module of one is imported when it is asked for."""

    def __init__(self) -> None:
        self._homes = {name: module for module, names in MODULES.items() for name in names}
        self._made: dict[str, Any] = {}

    def add(self, name: str, panel: str, function: Callable[..., None]) -> None:
        """Make a command of a function; the module of the command does it."""
        alone = typer.Typer(add_completion=False)
        alone.command(name, rich_help_panel=panel)(function)
        self._made[name] = typer.main.get_command(alone)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            import_module(f"adk_graph_memory.cli.{self._homes[name]}")
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


COMMANDS = Commands()


class CommandGroup(TyperGroup):
    """The commands; with ``--json`` a wrong option or argument is an error in JSON too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = COMMANDS  # type: ignore[assignment]  # which nobody changes

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names, without making the commands."""
        return list(COMMANDS)

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command."""
        if "--json" not in options.get("args", sys.argv[1:]):
            return super().main(*arguments, **options)
        try:
            sys.exit(super().main(*arguments, **options | {"standalone_mode": False}))
        except UsageError as error:
            print_json_error({"error": "UsageError", "message": error.format_message()})
            sys.exit(error.exit_code)


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SERVER_PANEL, CONVERSATIONS_PANEL, MEMORY_PANEL, EXAMPLE_PANEL = "Server", "Conversations", "Memory", "Example"
"""Headings of the help text."""
AppOption = Annotated[str, typer.Option("--app", help="The app's name.")]
OWNER: Any = {"parser": SharedMemory.parse, "metavar": "TEXT"}
"""An operator may name a shared memory where a user's id stands."""
UserArgument = Annotated[str, typer.Argument(**OWNER | {"metavar": "USER"}, help="The user's id.")]
UserOption = Annotated[
    str, typer.Option("--user", **OWNER, help="The user's id; :app: or :group:NAME for a shared memory.")
]
AppFilterOption = Annotated[str | None, typer.Option("--app", help="Only this app.")]
UserFilterOption = Annotated[str | None, typer.Option("--user", **OWNER, help="Only this user.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="The maximum number of entries.")]
AfterOption = Annotated[str | None, typer.Option("--after", help="The last id of the previous page.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and errors as JSON on stderr.")]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory a command is about."""

    app_name: AppOption
    user_id: UserOption

    @property
    def scope(self) -> Scope:
        """The scope of the memory."""
        return Scope(self.app_name, self.user_id)

    @asynccontextmanager
    async def open_memory(self, activity: str = "Waiting for Neo4j") -> AsyncIterator[UserMemory]:
        """Open the memory; the status line shows the activity meanwhile."""
        announce(activity)
        async with adk_graph_memory.GraphMemory() as memory:
            yield memory.user(self.app_name, self.user_id)

    @asynccontextmanager
    async def open_graph(self) -> AsyncIterator[UserGraph]:
        """Open the graph of the memory, which takes less time: for commands that only list."""
        announce("Waiting for Neo4j")
        async with connections.Connection() as connection:
            yield connection.user(self.scope)

    async def check(self) -> None:
        """After an empty result, make sure that there is such a user; the errors are those of :func:`check_owner`."""
        await check_owner(self.app_name, self.user_id)


def list_expected_errors() -> tuple[type[Exception], ...]:
    """List this package's errors, and what ADK's contract raises for invalid input; any other error is a bug.

    Where nobody has imported ADK, nobody can have raised its error.
    """
    adk_errors = sys.modules.get("google.adk.errors.input_validation_error")
    return (errors.GraphMemoryError, *([adk_errors.InputValidationError] if adk_errors else []))


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"adk-graph-memory {adk_graph_memory.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Graph memory for agents built with Google's ADK, on Neo4j.

    The database is NEO4J_URI (with NEO4J_USERNAME, NEO4J_PASSWORD, NEO4J_DATABASE), or else the local server that
    `adk-graph-memory up` started.

    Exit codes: 0 done, 1 failed or not confirmed (stderr says why), 2 wrong usage.
    """


def command(panel: str, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function, sync or async, that returns an :class:`Output` as a command, by its own name or another.

    The command gets the option ``--json`` and prints the output. The fields of a parameter that is a dataclass are
    options, which several commands may share. An expected error becomes one line on stderr and exit code 1, an argument
    that cannot be used a usage error and exit code 2; a bug keeps its traceback.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function, eval_str=True)
        option_classes: dict[str, Any] = {
            name: parameter.annotation
            for name, parameter in signature.parameters.items()
            if is_dataclass(parameter.annotation)
        }

        @wraps(function)
        def run_command(*, as_json: bool, **arguments: Any) -> None:
            start_command(as_json=as_json)
            for name, kind in option_classes.items():
                arguments[name] = kind(**{field.name: arguments.pop(field.name) for field in fields(kind)})
            try:
                result = function(**arguments)
                output: Output | None = asyncio.run(result) if inspect.iscoroutine(result) else result
            except errors.InvalidArgument as error:
                reason = error.reason
                if reason.partition(" ")[0].isalpha():  # else it begins with the name of a file or the like
                    reason = f"{reason[:1].upper()}{reason[1:]}"
                raise UsageError(f"{reason}.") from error
            except list_expected_errors() as error:
                print_error(error)
                raise typer.Exit(1) from error
            except KeyboardInterrupt:
                if any(kind is not Owner for kind in option_classes.values()):  # a batch job
                    typer.echo(
                        "\nInterrupted. Finished work is kept; run the same command again to continue.", err=True
                    )
                raise
            finally:
                hide_status()
            if output is not None:
                print_output(output)
                raise typer.Exit(output.exit_code)

        parameters, last = list[inspect.Parameter](), list[inspect.Parameter]()
        for parameter in signature.parameters.values():
            options = _list_options(option_classes.get(parameter.name)) or [parameter.replace(kind=KEYWORD_ONLY)]
            # Whose memory a command is about comes early; what tunes it comes last, whatever Python's syntax asks for.
            is_last = parameter.name in option_classes and all(one.default is not one.empty for one in options)
            (last if is_last else parameters).extend(options)
        parameters += [*last, _describe_option("as_json", JsonOption, False)]
        run_command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        COMMANDS.add(name or function.__name__, panel, run_command)
        return function

    return register


def _list_options(kind: type[Any] | None) -> list[inspect.Parameter]:
    if kind is None:
        return []
    hints = get_type_hints(kind, include_extras=True)
    return [_describe_option(field.name, hints[field.name], field.default) for field in fields(kind)]


def _describe_option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, KEYWORD_ONLY, default=default, annotation=annotation)


async def collect_page(items: AsyncIterator[T], *whose: str) -> list[T]:
    """Collect a page of a list; after an empty one, make sure that the app, or the app and user, ``whose`` it is exist.

    Raises:
        errors.NotFound: nothing was ever stored for them.
    """
    announce("Waiting for Neo4j")
    page = [item async for item in items]
    if not page:
        await check_owner(*whose)
    return page


def make_page(
    page: Sequence[T],
    text: RenderableType,
    *,
    limit: int,
    after: Callable[[T], object],
    value: Any = None,
    hint: str | None = None,
) -> Output:
    """Make the output of a page of a list (``value``, if JSON is to show another), which says if there may be more."""
    more = f"There may be more: --after {after(page[-1])}" if len(page) == limit else None
    return Output(page if value is None else value, text, [hint, more])


async def check_owner(app_name: str | None = None, user_id: str | None = None) -> None:
    """After an empty result, make sure that there are the app and the user it was asked for, whichever were named.

    Raises:
        errors.NotFound: nothing was ever stored for them.
    """
    if app_name is None and user_id is None:
        return
    async with connections.Connection() as connection:
        if await graph_listings.is_known_owner(connection, app_name, user_id):
            return
    user = None if user_id is None else f"user {user_id!r}"
    app = None if app_name is None else f"app {app_name!r}"
    where = "`adk-graph-memory apps`" + (" and `adk-graph-memory users`" if user else "")
    raise errors.NotFound(what=" in ".join(filter(None, (user, app))), where=where)


async def load_session(app_name: str, user_id: str, session_id: str, *, recent: int | None = None) -> Session:
    """Load a session with its events, or with only the ``recent`` latest ones.

    Raises:
        errors.NotFound: the user has no such session.
    """
    config = base_session_service.GetSessionConfig(num_recent_events=recent)
    async with adk_graph_memory.Neo4jSessionService() as sessions:
        session = await sessions.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)
    if session is None:
        what = f"session {session_id!r} of user {user_id!r} in app {app_name!r}"
        raise errors.NotFound(what=what, where="`adk-graph-memory sessions`")
    return session
