"""Every code block and every command in the README is run, and its table of settings is the settings."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.adk.cli import service_registry
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from typer.testing import CliRunner

from adk_graph_memory import Neo4jMemoryService
from adk_graph_memory.cli import app
from adk_graph_memory.settings import Settings
from adk_graph_memory.testing import ScriptedLlm, called, spoken

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
PYTHON = [text for language, text in FENCED if language == "python"]
COMMANDS = [line for language, text in FENCED if not language for line in text.splitlines() if line.startswith("adk-")]


class Companion(ScriptedLlm):
    """Stands in for Gemini: looks into its memory when asked about a dog, and says what it found."""

    @classmethod
    def supported_models(cls) -> list[str]:
        return [r"gemini-.*"]

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Iterator[LlmResponse]:  # type: ignore[override]
        last = llm_request.contents[-1].parts[0]
        if last.function_response:
            memories = last.function_response.response["result"].memories
            yield spoken(" / ".join(entry.content.parts[0].text for entry in memories))
        elif "afraid of?" in (last.text or ""):
            yield called("load_memory", query=last.text)
        else:
            yield spoken("I will remember that.")


@pytest.fixture
def at_the_test_server(neo4j_server, monkeypatch):
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.auth[0])
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.auth[1])


@pytest.fixture
def without_gemini():
    LLMRegistry.register(Companion)
    yield
    LLMRegistry.register(Gemini)


def run(block: str, app_name: str) -> None:
    exec(compile(block.replace('"home"', f'"{app_name}"'), "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102


def test_the_agent_recalls_in_another_session(at_the_test_server, without_gemini, app_name, capsys):
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


def test_a_server_of_ones_own(app_name, capsys):
    run(PYTHON[3], app_name)
    assert "ready at bolt://127.0.0.1:" in capsys.readouterr().out


def test_no_block_is_left_out():
    assert len(PYTHON) == 4


def test_the_commands_run(monkeypatch, tmp_path):
    monkeypatch.setenv("ADK_GRAPH_MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for command in COMMANDS:
        arguments = shlex.split(command)[1:]
        if arguments == ["up"]:
            arguments += ["--port", str(free_port())]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{command}: {result.output}"
    assert "adk-graph-memory down" in COMMANDS


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_every_setting_stands_in_the_table_with_its_default():
    rows = dict(re.findall(r"^\| ([A-Z0-9_, ]+) \| ([^|]+) \|", README, re.MULTILINE))
    documented = {name for names in rows for name in names.split(", ")}
    for name, field in Settings.model_fields.items():
        variable = field.validation_alias or f"ADK_GRAPH_MEMORY_{name.upper()}"
        assert variable in documented, variable
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert float(rows[variable]) == field.default, variable


def test_every_variable_in_the_table_is_read_somewhere():
    sources = "".join(p.read_text() for p in (Path(__file__).parents[2] / "src").rglob("*.py"))
    known = {f"ADK_GRAPH_MEMORY_{name.upper()}" for name in Settings.model_fields}
    for variable in set(re.findall(r"^\| ((?:NEO4J|ADK_GRAPH)[A-Z0-9_]+)", README, re.MULTILINE)):
        assert variable in known or variable in sources, variable


def test_the_environment_of_the_tests_holds_no_database_of_anybody():
    assert "NEO4J_URI" not in os.environ
