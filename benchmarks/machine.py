"""Nothing goes in; this machine and its libraries, as a reader of figures must know them, come out."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping
from importlib import metadata

from rich.console import Console

_LIBRARIES = ("adk-graph-memory", "google-adk", "neo4j", "neo4j-graphrag", "neo4j-rust-ext", "SQLAlchemy", "aiosqlite")


WIDTH = 170


def console() -> Console:
    """A console wide enough for a table where nobody's terminal sets the width: in a file, a pipe, a CI log."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def load() -> str:
    """The load average over one, five and fifteen minutes."""
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def described() -> dict[str, str]:
    """Cores, Python and library versions; ``neo4j-rust-ext`` is the driver's fast codec, or missing."""
    libraries = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    python = f"{platform.python_version()} on {os.cpu_count()} cores, SQLite {sqlite3.sqlite_version}"
    return {"Python": python, "libraries": libraries}


def print_about(console: Console, about: Mapping[str, str]) -> None:
    """Prints what figures were taken on, a line each: :func:`described`, and what the caller adds."""
    for name, value in (described() | dict(about)).items():
        console.print(f"{name}: {value}", highlight=False, soft_wrap=True)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
