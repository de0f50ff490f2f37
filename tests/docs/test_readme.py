"""Every code block and every command in the README is run, and its table of settings is the settings."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import socket
from pathlib import Path

import pytest
from google.adk.cli import service_registry
from google.adk.events import Event
from google.genai import types
from tests.documents import ROOT, blocks, run
from typer.testing import CliRunner

from adk_graph_memory import Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.cli import app
from adk_graph_memory.settings import SETTING_NAMES, Limits, Settings

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = blocks("README.md")
PYTHON = [block.text for block in BLOCKS if block.language == "python"]
COMMANDS = [
    line for block in BLOCKS if not block.language for line in block.text.splitlines() if line.startswith("adk-")
]


def test_the_agent_recalls_in_another_session(at_the_test_server, gemini, app_name, capsys):
    run(PYTHON[0], app_name)
    assert "afraid of thunder" in capsys.readouterr().out.splitlines()[-1]


def test_adk_knows_our_addresses_after_two_lines(monkeypatch, app_name):
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    run(PYTHON[1], app_name)
    assert isinstance(service_registry.get_service_registry().create_memory_service("neo4j://"), Neo4jMemoryService)


def test_the_memory_is_used_by_hand(at_the_test_server, app_name, capsys):
    run(PYTHON[2], app_name)
    out = capsys.readouterr().out
    assert "{'ADD': 1}" in out
    assert "My sister Inés moved to Porto." in out
    assert "Receipt(events=" in out


@pytest.mark.full
def test_a_server_of_ones_own(app_name, capsys):
    run(PYTHON[3], app_name)
    assert "ready at bolt://127.0.0.1:" in capsys.readouterr().out


def test_no_block_is_left_out():
    assert len(PYTHON) == 4


def test_the_commands_run(monkeypatch, tmp_path):
    monkeypatch.setenv("ADK_GRAPH_MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        arguments = shlex.split(command)[1:]
        if arguments == ["up"]:
            arguments += ["--port", str(free_port())]
        if "a-memory-id" in arguments:
            facts = CliRunner().invoke(app, ["facts", "--app", "home", "--user", "ana", "--json"])
            arguments[arguments.index("a-memory-id")] = json.loads(facts.stdout)[0]["id"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{command}: {result.output}"
        if arguments[0] == "up":
            asyncio.run(told_on_monday_and_friday(tmp_path))
        elif arguments[0] in ("recall", "facts"):
            assert "thunder" in result.output
    assert "adk-graph-memory down" in COMMANDS


async def told_on_monday_and_friday(folder: Path) -> None:
    """What the commands speak of: a session that is stored, and one that was saved to a file."""
    said = "My dog is called Rex and Rex is afraid of thunder."
    async with Neo4jSessionService() as sessions:
        for id in ("monday", "friday"):
            session = await sessions.create_session(app_name="home", user_id="ana", session_id=id)
            content = types.Content(role="user", parts=[types.Part(text=said)])
            await sessions.append_event(session, Event(author="user", content=content))
            (folder / f"{id}.session.json").write_text(session.model_dump_json(by_alias=True), encoding="utf-8")
        await sessions.delete_session(app_name="home", user_id="ana", session_id="friday")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_every_setting_stands_in_the_table_with_its_default():
    rows = dict(re.findall(r"^\| ([A-Z0-9_, ]+) \| ([^|]+) \|", README, re.MULTILINE))
    documented = {name for names in rows for name in names.split(", ")}
    for name, field in (Settings.model_fields | Limits.model_fields).items():
        if name == "limits":
            continue
        variable = field.validation_alias or f"ADK_GRAPH_MEMORY_{name.upper()}"
        assert variable in documented, variable
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert float(rows[variable]) == field.default, variable


def test_every_variable_in_the_table_is_read_somewhere():
    sources = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    known = {f"ADK_GRAPH_MEMORY_{name.upper()}" for name in SETTING_NAMES}
    for variable in set(re.findall(r"^\| ((?:NEO4J|ADK_GRAPH)[A-Z0-9_]+)", README, re.MULTILINE)):
        assert variable in known or variable in sources, variable


def test_the_environment_of_the_tests_holds_no_database_of_anybody():
    assert "NEO4J_URI" not in os.environ
