"""Describe this machine and its libraries, as a reader of figures must know them."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping
from importlib import metadata

from rich.console import Console

_LIBRARIES = ("adk-graph-memory", "google-adk", "neo4j", "neo4j-graphrag", "neo4j-rust-ext", "SQLAlchemy", "aiosqlite")


WIDTH = 170


def make_console() -> Console:
    """A console wide enough for a table where nobody's terminal sets the width: in a file, a pipe, a CI log."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def read_load() -> str:
    """The load average over one, five and fifteen minutes."""
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def describe_machine(*others: str) -> dict[str, str]:
    """Cores, Python and library versions; ``neo4j-rust-ext`` is the driver's fast codec, or missing.

    Args:
        others: names of further packages.
    """
    libraries = ", ".join(f"{name} {_read_version(name)}" for name in (*_LIBRARIES, *others))
    python = f"{platform.python_version()} on {os.cpu_count()} cores, SQLite {sqlite3.sqlite_version}"
    return {"Python": python, "libraries": libraries}


def print_about(console: Console, about: Mapping[str, str]) -> None:
    """Prints what figures were taken on, a line each: :func:`describe_machine`, and what the caller adds."""
    for name, value in (describe_machine() | dict(about)).items():
        console.print(f"{name}: {value}", highlight=False, soft_wrap=True)


def _read_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
