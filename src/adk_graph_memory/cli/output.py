"""Print what commands return, fail with and wait for, safely for a terminal of 80 columns."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from adk_graph_memory import errors
from adk_graph_memory.cli.lazy_modules import pydantic_core
from adk_graph_memory.language.text import join_lines

wants_json: ContextVar[bool] = ContextVar("wants_json", default=False)
"""Whether the running command was called with ``--json``."""
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that would control the terminal or turn the text around them."""


class SafeConsole(Console):
    """A console that replaces the control characters in whatever it prints."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render what is to be printed; parts of tables and groups come through here too."""
        if isinstance(renderable, str):
            renderable = replace_controls(renderable)
        elif isinstance(renderable, Text) and (safe := replace_controls(renderable.plain)) != renderable.plain:
            renderable = renderable.copy()
            renderable.plain = safe
        return super().render(renderable, options)


console = SafeConsole(highlight=False, emoji=False, markup=False)
error_console = SafeConsole(stderr=True, highlight=False, emoji=False, markup=False)


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a command: a value for ``--json``, a text for people, and hints for them on what to do next."""

    value: Any
    text: RenderableType
    hints: Sequence[str | None] = ()
    exit_code: int = 0
    is_script: bool = False
    """whether the text is printed as it is, to be piped into a file"""


def print_output(output: Output) -> None:
    """Print a result on stdout; the hints go to stderr, without line breaks, so that commands can be copied."""
    hide_status()
    if wants_json.get():
        typer.echo(_escape_controls(pydantic_core.to_json(output.value, indent=1).decode()))
        return
    if output.is_script:
        typer.echo(output.text, nl=False)
    elif output.text:
        console.print(output.text)
    for hint in filter(None, output.hints):
        error_console.print(hint, style="dim", soft_wrap=True)


def print_error(error: Exception, *, of: str = "") -> None:
    """Print an error on stderr in one line; ``of`` names the item that failed."""
    hide_status()
    kind, message = describe_error(error).values()
    if wants_json.get():
        print_json_error(describe_error(error) | ({"of": of} if of else {}))
        return
    error_console.print(Text.assemble(f"{of}: " if of else "", (kind, "red"), f": {message}"), soft_wrap=True)


def print_json_error(description: dict[str, str]) -> None:
    """Print the description of an error on stderr, as JSON in one line."""
    typer.echo(_escape_controls(json.dumps(description, ensure_ascii=False)), err=True)


def describe_error(error: Exception) -> dict[str, str]:
    """The error's class name and its message on one line, for JSON."""
    return {"error": type(error).__name__, "message": " ".join(str(error).split())}


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone, unless ``--yes`` was given; "no" ends the command with exit code 1.

    Raises:
        errors.ConfirmationMissing: with ``--json`` nobody is asked.
    """
    if yes:
        return
    if wants_json.get():
        raise errors.ConfirmationMissing(question=question)
    hide_status()
    typer.confirm(replace_controls(question), abort=True, err=True)


# -- while a command runs ---------------------------------------------------------------------------------------


class StatusLine:
    """Says on stderr what a command waits for.

    A terminal shows it after a second and forgets it at the end; elsewhere a plain line is printed now and then.
    """

    TERMINAL_DELAY, LINE_INTERVAL = 1.0, 10.0
    """Seconds until a terminal shows the line, and between two plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console, self._status = console, Status("", console=console)
        self._timer: threading.Timer | None = None
        self._last_print = time.monotonic()

    def show(self, text: str) -> None:
        """Replace the text."""
        line = Text(text, no_wrap=True, overflow="ellipsis")
        if not self._console.is_terminal:
            if time.monotonic() > self._last_print + self.LINE_INTERVAL:
                self._last_print = time.monotonic()
                self._console.print(line, soft_wrap=True)
            return
        self._status.update(line)
        if self._timer is None:
            self._timer = threading.Timer(self.TERMINAL_DELAY, self._status.start)
            self._timer.daemon = True
            self._timer.start()

    def hide(self) -> None:
        """Take the line off the screen until there is another text."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        self._status.stop()


_status_line: ContextVar[StatusLine] = ContextVar("status_line")


def start_command(*, as_json: bool) -> None:
    """Get ready for the output of a command."""
    wants_json.set(as_json)
    _status_line.set(StatusLine(error_console))


def announce(text: str) -> None:
    """Say what the command waits for from now on; with ``--json`` nothing is said."""
    if not wants_json.get():
        _status_line.get().show(f"{text} …")


def hide_status() -> None:
    """Take what :func:`announce` said off the screen, before anything else is printed."""
    _status_line.get().hide()


# -- laying out -------------------------------------------------------------------------------------------------


def replace_controls(text: str) -> str:
    """Replace the control characters in a text; markup needs no escape, because the consoles have it switched off."""
    return _CONTROL_CHARACTERS.sub("\ufffd", text.replace("\r\n", "\n").replace("\t", " "))


def _escape_controls(encoded: str) -> str:
    """Escape in JSON what :func:`replace_controls` replaces in a text."""
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def format_day(moment: datetime | None) -> str:
    """The date in the time zone where it was said."""
    return moment.date().isoformat() if moment else ""


def format_timestamp(timestamp: float) -> str:
    """The date and time of day in UTC, of a time in epoch seconds."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M")


def text_column(heading: str, **options: Any) -> Column:
    """A column whose cells wrap anywhere, so that nothing is cut off."""
    return Column(heading, overflow="fold", **options)


def number_column(heading: str) -> Column:
    """A column of numbers."""
    return Column(heading, justify="right", no_wrap=True)


def make_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Make a table with headings."""
    table = Table(*columns, show_edge=False)
    for row in rows:
        table.add_row(*row)
    return table


def make_grid(rows: Iterable[tuple[str | Text, ...]]) -> Table:
    """Make a table without a frame, with narrow columns and a last one that takes the remaining width.

    Cells that are too wide wrap; nothing is cut off.
    """
    table, rows = Table.grid(padding=(0, 2, 0, 0)), list(rows)
    for _ in rows[0][:-1]:
        table.add_column(overflow="fold", max_width=20)
    table.add_column(overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*row)
    return table


def add_details(text: str, *details: str) -> Text:
    """A text with dim lines of detail below it; empty details are left out."""
    return Text("\n").join([Text(join_lines(text)), *(Text(join_lines(one), "dim") for one in details if one)])
