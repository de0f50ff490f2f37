"""docker-compose.yml, which was never run here: its services are what ADK and we expect."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from google.adk.cli import cli_tools_click
from google.adk.cli.fast_api import get_fast_api_app
from starlette.testclient import TestClient

from adk_graph_memory.cli.application import COMMANDS, app
from adk_graph_memory.graph.local_neo4j import persistent
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.servers.health import READY_PATH

ROOT = Path(__file__).parents[2]


@pytest.fixture
def services() -> Any:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]


def test_the_container_has_as_much_memory_as_the_local_server(services: Any) -> None:
    environment = services["neo4j"]["environment"]
    assert environment["NEO4J_server_memory_pagecache_size"] == persistent.PAGE_CACHE
    for kind in ("initial", "max"):
        assert environment[f"NEO4J_server_memory_heap_{kind}__size"] == persistent.HEAP


def test_the_agents_container_runs_a_command_that_adk_knows(
    services: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = services["agent"]
    assert agent["profiles"] == ["agent"]
    assert agent["depends_on"] == {"neo4j": {"condition": "service_healthy"}}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    program, command, *arguments = agent["command"]
    options = cli_tools_click.main.commands[command].make_context(command, arguments).params
    assert (program, options["host"], options["port"]) == ("adk", "0.0.0.0", 8000)  # noqa: S104
    assert {options[f"{kind}_service_uri"] for kind in ("session", "memory", "artifact")} == {"neo4j://"}
    assert list(options["extra_plugins"]) == ["adk_graph_memory.GraphMemoryPlugin"]


def test_the_agents_container_is_healthy_if_memory_can_be_used_and_adk_answers(services: Any, tmp_path: Path) -> None:
    kind, line = services["agent"]["healthcheck"]["test"]
    program, command, both, interpreter, option, code = shlex.split(line)
    assert (kind, both, interpreter, option) == ("CMD-SHELL", "&&", "python", "-c")
    assert (program, command in COMMANDS) == ("adk-graph-memory", True)
    [address] = re.findall(r"'(http://127\.0\.0\.1:8000/\w+)'", code)
    with TestClient(get_fast_api_app(agents_dir=str(tmp_path), web=True, host="0.0.0.0")) as client:  # noqa: S104
        assert client.get(address).status_code == 200


def test_the_memorys_container_runs_a_command_of_ours(services: Any) -> None:
    memory = services["memory"]
    assert memory["profiles"] == ["memory"]
    assert memory["depends_on"] == {"neo4j": {"condition": "service_healthy"}}
    program, name, *arguments = memory["command"]
    options = typer.main.get_group(app).commands[name].make_context(name, arguments).params
    assert (program, options["host"], memory["ports"]) == (
        "adk-graph-memory",
        "0.0.0.0",  # noqa: S104
        [f"127.0.0.1:{options['port']}:{options['port']}"],
    )
    assert options["allowed_host"] == ["memory"]
    assert memory["volumes"] == [f"memory:{options['token_file'].parent}"]
    assert f"http://127.0.0.1:{options['port']}{READY_PATH}" in memory["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", ["agent", "memory"])
def test_a_container_is_told_where_neo4j_is(services: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    environment = services[name]["environment"]
    fields = Settings.model_fields.items()
    known = {field.validation_alias or f"ADK_GRAPH_MEMORY_{name.upper()}" for name, field in fields}
    assert {variable for variable in environment if variable.startswith(("NEO4J", "ADK_"))} <= known
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    settings = Settings()
    assert settings.uri == "neo4j://neo4j:7687"
    user, _, password = services["neo4j"]["environment"]["NEO4J_AUTH"].partition("/")
    assert (user, password) == (settings.username, settings.password.get_secret_value())
