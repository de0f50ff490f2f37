"""Register Neo4j's URI schemes for ``adk web``, ``adk run`` and ``adk api_server``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from adk_graph_memory.adk.artifact_service import Neo4jArtifactService
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.runtime.settings import URI_SCHEMES

T = TypeVar("T")


def register() -> None:
    """Let ADK create our services from ``neo4j://`` and ``bolt://`` addresses; call this in your agents'
    ``services.py``.

    Settings that an address omits come from the environment and the agents' ``.env`` files, at the first request.
    """
    from google.adk.cli.service_registry import get_service_registry  # slow: imports ADK's whole command line

    registry = get_service_registry()
    for scheme in URI_SCHEMES:
        registry.register_session_service(scheme, partial(_create_service, Neo4jSessionService))
        registry.register_memory_service(scheme, partial(_create_service, Neo4jMemoryService))
        registry.register_artifact_service(scheme, partial(_create_service, Neo4jArtifactService))


def _create_service(service: Callable[..., T], uri: str, agents_dir: str | None = None, **_: Any) -> T:
    return service(uri, agents_dir=agents_dir)
