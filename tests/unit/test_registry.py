"""ADK makes our services of the addresses that its command line is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.adk.cli import service_registry
from google.adk.cli.service_registry import get_service_registry, load_services_module

from adk_graph_memory import Neo4jArtifactService, Neo4jMemoryService, Neo4jSessionService, errors
from adk_graph_memory.settings import SCHEMES

SERVICES_PY = "from adk_graph_memory.adk import register\n\nregister()\n"
SERVICES_YAML = """
services:
  - {scheme: bolt, type: session, class: adk_graph_memory.Neo4jSessionService}
  - {scheme: bolt, type: memory, class: adk_graph_memory.Neo4jMemoryService}
  - {scheme: bolt, type: artifact, class: adk_graph_memory.Neo4jArtifactService}
"""


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("services", None)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_line_in_services_py_is_enough(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "services.py").write_text(SERVICES_PY)
    load_services_module(str(tmp_path))
    registry, uri = get_service_registry(), f"{scheme}://an:word@localhost:7687/db?model=rules"
    assert isinstance(registry.create_session_service(uri, agents_dir=str(tmp_path)), Neo4jSessionService)
    assert isinstance(registry.create_memory_service(uri, agents_dir=str(tmp_path)), Neo4jMemoryService)
    assert isinstance(registry.create_artifact_service(uri, agents_dir=str(tmp_path)), Neo4jArtifactService)


def test_services_yaml_may_name_the_classes(tmp_path: Path) -> None:
    (tmp_path / "services.yaml").write_text(SERVICES_YAML)
    load_services_module(str(tmp_path))
    registry = get_service_registry()
    assert isinstance(registry.create_session_service("bolt://h", agents_dir=str(tmp_path)), Neo4jSessionService)
    assert isinstance(registry.create_memory_service("bolt://h", agents_dir=str(tmp_path)), Neo4jMemoryService)
    assert isinstance(registry.create_artifact_service("bolt://h", agents_dir=str(tmp_path)), Neo4jArtifactService)


def test_what_stands_in_the_env_file_counts_though_it_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "services.py").write_text(SERVICES_PY)
    load_services_module(str(tmp_path))
    memory = get_service_registry().create_memory_service("neo4j://?token_budget=99")
    assert isinstance(memory, Neo4jMemoryService)
    monkeypatch.setenv("NEO4J_URI", "bolt://from-the-env-file")
    settings = memory.memory.connection.settings
    assert (settings.uri, settings.token_budget) == ("bolt://from-the-env-file", 99)


def test_an_address_that_says_nonsense_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "services.py").write_text(SERVICES_PY)
    load_services_module(str(tmp_path))
    with pytest.raises(errors.ConfigurationError, match="no setting 'modle'"):
        get_service_registry().create_memory_service("neo4j://u:word@localhost?modle=x")
