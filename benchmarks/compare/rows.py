"""What is compared, what was measured of it, and why there are no figures if there are none."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory.settings import Settings
from benchmarks import machine, server
from benchmarks.compare import environment

PREFIX = "Compare"


@dataclass(frozen=True, slots=True)
class Stage:
    """What every peer is given: the embedder, a folder for its files, and the packages of its lock."""

    embedder: Embedder
    folder: Path
    packages: Path

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[Settings]:
        """A Neo4j that holds nothing yet: the same version and memory for everybody, and nobody else's nodes."""
        async with server.serve_own(PREFIX) as (settings, _):
            yield settings


@dataclass(frozen=True, slots=True)
class Peer:
    """A service that is compared, and how it was configured."""

    name: str
    about: str
    open: Callable[[Stage], AbstractAsyncContextManager[Any]]
    lock: str = ""
    forget: Callable[[Any, Any], Awaitable[None]] | None = None
    """deletes a session; a peer that has it holds one user at a time"""
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A peer's figures, or its error."""

    name: str
    about: str
    figures: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    load: str = ""
    """the machine's over one minute, before and after"""

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


Measure = Callable[[Any, Peer], Awaitable[Mapping[str, float]]]


async def make_row(peer: Peer, stage: Stage, measure: Measure) -> Row:
    """Opens and measures a peer; whatever goes wrong becomes the row's error."""
    before = _read_load()
    figures, error = {}, ""
    try:
        if peer.lock:
            environment.add_packages(environment.LOCKS / f"{peer.lock}.txt", stage.packages)
        async with peer.open(stage) as service:
            figures = dict(await measure(service, peer))
    except Exception as failure:  # noqa: BLE001  # a peer may fail in any way, and the others are measured all the same
        traceback.print_exception(failure, file=sys.stderr)
        figures, error = {}, describe_failure(failure)
    return Row(peer.name, peer.about, figures, error, f"{before}, {_read_load()}")


def describe_failure(failure: Exception) -> str:
    """In one line, what was not possible and why."""
    lines = str(failure).strip().splitlines() or [""]
    if isinstance(failure, environment.CannotInstallError):
        return f"cannot be installed: {lines[0]}"
    if isinstance(failure, ImportError):
        return f"cannot be imported: {lines[0]}"
    return f"failed: {type(failure).__name__}: {lines[0]}"


def _read_load() -> str:
    return machine.read_load().split()[0]
