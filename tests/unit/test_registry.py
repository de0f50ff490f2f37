"""ADK makes our services of the addresses that its command line is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from google.adk.cli import service_registry
from google.adk.cli.service_registry import get_service_registry, load_services_module
from google.adk.cli.utils import envs

from adk_graph_memory import Neo4jArtifactService, Neo4jMemoryService, Neo4jSessionService, errors
from adk_graph_memory.runtime.settings import URI_SCHEMES

SERVICES_PY = "from adk_graph_memory import register\n\nregister()\n"
SERVICES_YAML = """
services:
  - {scheme: bolt, type: session, class: adk_graph_memory.Neo4jSessionService}
  - {scheme: bolt, type: memory, class: adk_graph_memory.Neo4jMemoryService}
  - {scheme: bolt, type: artifact, class: adk_graph_memory.Neo4jArtifactService}
"""


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_EMBEDDER", "none")  # a service begins to load its model when it is made
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("services", None)


@pytest.mark.parametrize("scheme", URI_SCHEMES)
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


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Path]:
    """A folder of agents, two of which have a ``.env``; each names another port at which nobody listens."""
    (tmp_path / "services.py").write_text(SERVICES_PY)
    for folder, port in {".": 1, "pal": 2, "team/scout": 3}.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / ".env").write_text(
            f"NEO4J_URI=bolt://127.0.0.1:{port}\nADK_GRAPH_MEMORY_DATABASE_TIMEOUT=0.5\n"
        )
    envs._get_explicit_env_keys.cache_clear()
    with patch.dict(os.environ):
        yield tmp_path
    envs._get_explicit_env_keys.cache_clear()


@pytest.mark.parametrize(
    ("agent", "port"), {"pal": 2, "team.scout": 3, "nobody": 1, "../pal": 1, "..": 1, "a/b": 1, "a\0": 1, "": 1}.items()
)
async def test_an_agents_env_file_counts_though_the_agent_is_not_loaded(agents: Path, agent: str, port: int) -> None:
    load_services_module(str(agents))
    sessions = get_service_registry().create_session_service("neo4j://", agents_dir=str(agents))
    with pytest.raises(errors.DatabaseUnavailable, match=rf"bolt://127\.0\.0\.1:{port} "):
        await sessions.list_sessions(app_name=agent, user_id="u")
    await sessions.close()


async def test_it_counts_for_all_three_services(agents: Path) -> None:
    load_services_module(str(agents))
    registry, folder = get_service_registry(), str(agents)
    memory = registry.create_memory_service("neo4j://?token_budget=99", agents_dir=folder)
    artifacts = registry.create_artifact_service("neo4j://", agents_dir=folder)
    with pytest.raises(errors.DatabaseUnavailable, match=r"bolt://127\.0\.0\.1:2 "):
        await memory.search_memory(app_name="pal", user_id="u", query="Rex")
    assert memory.memory.connection.settings.token_budget == 99
    with pytest.raises(errors.DatabaseUnavailable, match=r"bolt://127\.0\.0\.1:2 "):
        await artifacts.list_artifact_keys(app_name="pal", user_id="u")
    await memory.close()
    await artifacts.close()


def test_an_address_that_says_nonsense_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "services.py").write_text(SERVICES_PY)
    load_services_module(str(tmp_path))
    with pytest.raises(errors.ConfigurationError, match="no setting 'modle'"):
        get_service_registry().create_memory_service("neo4j://u:word@localhost?modle=x")
