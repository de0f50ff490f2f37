"""Register Neo4j's URI schemes for ``adk web``, ``adk run`` and ``adk api_server``."""

from __future__ import annotations

from typing import Any

from adk_graph_memory.adk.artifact_service import Neo4jArtifactService
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.settings import URI_SCHEMES


def register() -> None:
    """Let ADK create our services from ``neo4j://`` and ``bolt://`` addresses; call it in the agents' ``services.py``.

    Settings that an address omits come from the environment and the agents' ``.env`` files, at the first request.
    """
    from google.adk.cli.service_registry import get_service_registry  # slow: imports ADK's whole command line

    registry = get_service_registry()
    for scheme in URI_SCHEMES:
        registry.register_session_service(scheme, _make_session_service)
        registry.register_memory_service(scheme, _make_memory_service)
        registry.register_artifact_service(scheme, _make_artifact_service)


def _make_session_service(uri: str, agents_dir: str | None = None, **_: Any) -> Neo4jSessionService:
    return Neo4jSessionService(uri, agents_dir=agents_dir)


def _make_memory_service(uri: str, agents_dir: str | None = None, **_: Any) -> Neo4jMemoryService:
    return Neo4jMemoryService(uri, agents_dir=agents_dir)


def _make_artifact_service(uri: str, agents_dir: str | None = None, **_: Any) -> Neo4jArtifactService:
    return Neo4jArtifactService(uri, agents_dir=agents_dir)
