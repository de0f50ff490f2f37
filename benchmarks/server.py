"""Serve a Neo4j that a benchmark may fill: that of NEO4J_TEST_URI, or its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from adk_graph_memory.graph.local_neo4j.jars import get_cache_folder
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.runtime.settings import Settings, load_settings

KEPT = ("NEO4J_TEST_", "ADK_GRAPH_MEMORY_CACHE", "ADK_GRAPH_MEMORY_NEO4J")
CONFIGURED = ("NEO4J_", "ADK_GRAPH_MEMORY_", "GOOGLE_", "GEMINI_", "NAM_", "MEMORY_")
"""Variables that configure us, a model, or neo4j-agent-memory start so."""
PAGE_CACHE, HEAP = "512m", "1g"


@asynccontextmanager
async def serve(prefix: str) -> AsyncIterator[tuple[Settings, str]]:
    """Settings for the server, and a word on which it is; labels carry the prefix, and with them indexes.

    On a server that others share, the prefix keeps our embedder's vectors out of theirs.
    """
    _forget_configuration()
    if uri := os.environ.get("NEO4J_TEST_URI"):
        auth = os.environ.get("NEO4J_TEST_USERNAME", "neo4j"), os.environ["NEO4J_TEST_PASSWORD"]
        yield _make_settings(uri, auth, prefix), "the server of NEO4J_TEST_URI"
        return
    async with serve_own(prefix) as served:
        yield served


@asynccontextmanager
async def serve_own(
    prefix: str, *, home: Path | None = None, page_cache: str = PAGE_CACHE, heap: str = HEAP
) -> AsyncIterator[tuple[Settings, str]]:
    """The same on a server that nobody else has filled, whatever NEO4J_TEST_URI says; in a home, if given, it stays."""
    _forget_configuration()
    async with LocalNeo4j(home=home, page_cache=page_cache, heap=heap, jvm_flags=()) as server:
        yield _make_settings(server.uri, server.auth, prefix), describe_own(page_cache, heap)


def describe_own(page_cache: str = PAGE_CACHE, heap: str = HEAP) -> str:
    """Version and memory of the server that a benchmark starts."""
    return f"its own Neo4j {LocalNeo4j().version}, page cache {page_cache}, heap {heap}"


def set_apart(settings: Settings, name: str) -> Settings:
    """The same with labels and indexes of a measurement's own: what others left has an embedder of theirs."""
    return settings.model_copy(update={"label_prefix": f"{settings.label_prefix}{name}"})


def make_environment(settings: Settings) -> dict[str, str]:
    """What a process needs to use the same labels of the same server."""
    return os.environ | {
        "NEO4J_URI": str(settings.uri),
        "NEO4J_USERNAME": settings.username,
        "NEO4J_PASSWORD": settings.password.get_secret_value(),
        "ADK_GRAPH_MEMORY_LABEL_PREFIX": settings.label_prefix,
    }


def _make_settings(uri: str, auth: tuple[str, str], prefix: str) -> Settings:
    username, password = auth
    return load_settings(uri=uri, username=username, password=password, label_prefix=prefix)


def _forget_configuration() -> None:
    """A shell may hold a production database, a paid model's key or settings that are nobody else's."""
    os.environ.setdefault("ADK_GRAPH_MEMORY_CACHE", str(get_cache_folder()))
    for name in list(os.environ):
        if name.startswith(CONFIGURED) and not name.startswith(KEPT):
            del os.environ[name]
