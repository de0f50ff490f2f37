"""Type the keyword arguments that say where the graph is."""

from __future__ import annotations

from typing import TypedDict

from neo4j import AsyncDriver, Driver

from adk_graph_memory.graph.connection import Auth
from adk_graph_memory.settings import Settings


class ConnectionOptions(TypedDict, total=False):
    """Keyword arguments of :class:`~adk_graph_memory.graph.Connection`."""

    auth: Auth
    database: str | None
    driver: AsyncDriver | None
    sync_driver: Driver | None
    settings: Settings | None
    schema: str | None
    timezone: str | None
