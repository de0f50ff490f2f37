"""Every command explains itself, speaks JSON, stands in the documentation and is tried in a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from adk_graph_memory.cli import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")
TESTS = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)}
COMMANDS: dict[str, Any] = dict(sorted(typer.main.get_group(app).commands.items()))
DESTROYING = {"forget", "artifacts"}
"""Commands that take away what nobody brings back."""

each_command = pytest.mark.parametrize("name", COMMANDS)


def options(name: str) -> set[str]:
    return {option for parameter in COMMANDS[name].params for option in parameter.opts}


@each_command
def test_the_command_says_what_it_does(name: str) -> None:
    told = (COMMANDS[name].help or "").strip()
    assert re.match(r"[A-Z][a-z]+ .*\.", told.partition("\n")[0])
    assert COMMANDS[name].rich_help_panel


@each_command
def test_so_does_everything_that_it_takes(name: str) -> None:
    unexplained = [parameter.name for parameter in COMMANDS[name].params if not parameter.help]
    assert unexplained == []


@each_command
def test_the_command_speaks_json(name: str) -> None:
    assert "--json" in options(name)


@each_command
def test_the_documentation_shows_the_command(name: str) -> None:
    assert re.search(rf"^adk-graph-memory {name}\b", PAGE, re.MULTILINE)


@each_command
def test_a_test_runs_the_command(name: str) -> None:
    run = re.compile(rf"""command\(\s*"{name}"|\("{name}",|\["{name}",|(?:command|invoke)\(.*"{name}\"""")
    assert [path.name for path, text in TESTS.items() if run.search(text)]


@each_command
def test_what_destroys_asks_first(name: str) -> None:
    assert ("--yes" in options(name)) == (name in DESTROYING)


def test_a_place_in_a_list_can_be_gone_on_from() -> None:
    paged = {name for name in COMMANDS if "--after" in options(name)}
    assert paged == {"apps", "users", "sessions", "events", "facts", "entities"}
    assert all("--limit" in options(name) for name in paged)


def test_exit_codes_are_told() -> None:
    assert re.search(r"Exit codes: 0 .*, 1 .*, 2 ", " ".join((typer.main.get_group(app).help or "").split()))
