"""Every command explains itself, speaks JSON, stands in the documentation and is tried in a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from adk_graph_memory.cli.application import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")
COMMANDS: dict[str, Any] = dict(sorted(typer.main.get_group(app).commands.items()))
DESTROYING = {"forget", "forget-user", "undo", "artifacts", "prune", "reject"}
"""Commands that take away what nobody brings back."""
CORRECTING = {"correct", "pin", "unpin", "retract", "rollback", "merge", "split", "accept"}
"""Commands that show what they would change."""


def options(name: str) -> set[str]:
    return {option for parameter in COMMANDS[name].params for option in parameter.opts}


def test_commands_say_what_they_do() -> None:
    first_lines = {name: (command.help or "").strip().partition("\n")[0] for name, command in COMMANDS.items()}
    assert [name for name, line in first_lines.items() if not re.match(r"[A-Z][a-z]+ .*\.", line)] == []
    assert [name for name, command in COMMANDS.items() if not command.rich_help_panel] == []


def test_so_does_everything_that_they_take() -> None:
    assert [
        f"{name}: {parameter.name}"
        for name, command in COMMANDS.items()
        for parameter in command.params
        if not parameter.help
    ] == []


def test_commands_speak_json() -> None:
    assert [name for name in COMMANDS if "--json" not in options(name)] == []


def test_the_documentation_shows_the_commands() -> None:
    assert [name for name in COMMANDS if not re.search(rf"^adk-graph-memory {name}\b", PAGE, re.MULTILINE)] == []


def test_a_test_runs_each_command() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    run = r"""command\(\s*"{0}"|\("{0}",|\["{0}",|(?:command|invoke)\(.*"{0}\""""
    assert [name for name in COMMANDS if not any(re.search(run.format(name), text) for text in texts)] == []


def test_what_destroys_asks_first() -> None:
    assert {name for name in COMMANDS if "--yes" in options(name)} == DESTROYING | CORRECTING


def test_a_place_in_a_list_can_be_gone_on_from() -> None:
    paged = {name for name in COMMANDS if "--after" in options(name)}
    assert paged == {"apps", "users", "sessions", "events", "facts", "entities", "documents"}
    assert all("--limit" in options(name) for name in paged)


def test_whose_memory_it_is_is_named_by_the_same_options() -> None:
    named = {
        name for name, command in COMMANDS.items() if {"app_name", "user_id"} & {one.name for one in command.params}
    }
    assert {name for name in named if "--app" not in options(name)} == set()
    assert {name for name in named if "--user" not in options(name)} == {"users", "forget-user"}


def test_exit_codes_are_told() -> None:
    assert re.search(r"Exit codes: 0 .*, 1 .*, 2 ", " ".join((typer.main.get_group(app).help or "").split()))
