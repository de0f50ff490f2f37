"""What is compared, what was measured of it, and why there are no figures if there are none."""

from __future__ import annotations

import sys
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory.runtime.settings import Settings
from benchmarks import server
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
    """deletes a session; a peer that has it is told one user after the other, alone, and nothing of it is timed"""
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A peer's figures, or its error."""

    name: str
    about: str
    figures: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


class Bench(Protocol):
    """What is measured of one service, step by step."""

    def make_figures(self) -> dict[str, float]:
        """The figures of its row, after the last step."""


class Contender:
    """A peer that takes part until it fails: whatever goes wrong ends up in its row, and the others go on.

    Args:
        peer: who takes part.
        make_bench: from its service to what the steps are done with.
    """

    def __init__(self, peer: Peer, make_bench: Callable[[Any], Bench]) -> None:
        self.peer, self._make_bench = peer, make_bench
        self._bench: Any = None
        self._error = ""
        self._stack = AsyncExitStack()

    async def open(self, stage: Stage) -> None:
        """Installs what it needs and opens its service."""
        with self._catch_failure():
            if self.peer.lock:
                environment.add_packages(environment.LOCKS / f"{self.peer.lock}.txt", stage.packages)
            self._bench = self._make_bench(await self._stack.enter_async_context(self.peer.open(stage)))

    async def do(self, step: Step) -> None:
        """Does a step, unless one has failed."""
        if not self._error:
            with self._catch_failure():
                await step(self._bench)

    async def close(self) -> Row:
        """Closes its service, which may tell of errors only now."""
        figures: dict[str, float] = {}
        with self._catch_failure():
            await self._stack.aclose()
            if not self._error:
                figures = self._bench.make_figures()
        return Row(self.peer.name, self.peer.about, figures, self._error)

    @contextmanager
    def _catch_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as failure:  # noqa: BLE001  # a peer may fail in any way
            traceback.print_exception(failure, file=sys.stderr)
            self._error = self._error or describe_failure(failure)


Step = Callable[[Any], Awaitable[None]]
"""What is done with a bench."""


async def do_in_turn(contenders: Sequence[Contender], steps: Iterable[Step]) -> None:
    """Each step with each contender, one after the other and each time another one first.

    So whatever else the machine does meets all of them alike.
    """
    waiting = deque(contenders)
    for step in steps:
        for contender in waiting:
            await contender.do(step)
        waiting.rotate()


def describe_failure(failure: Exception) -> str:
    """In one line, what was not possible and why."""
    lines = str(failure).strip().splitlines() or [""]
    if isinstance(failure, environment.CannotInstallError):
        return f"cannot be installed: {lines[0]}"
    if isinstance(failure, ImportError):
        return f"cannot be imported: {lines[0]}"
    return f"failed: {type(failure).__name__}: {lines[0]}"
