"""Answer the probes of whatever runs a server: whether its process answers, and whether its memory is ready."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.records.health import Health
from adk_graph_memory.runtime.concurrency import Throttle
from adk_graph_memory.servers.access import is_allowed_host

KEPT_SECONDS = 5.0
"""How long the result of a check answers further probes."""
LIVE_PATH, READY_PATH = "/healthz", "/readyz"
logger = logging.getLogger(__name__)


class HealthProbes:
    """Answers ``GET /healthz`` and ``GET /readyz``, to anybody, and hands all other requests on.

    ``/healthz`` touches nothing. ``/readyz`` answers 200 or 503 with kinds and counts of problems, and with no address,
    account or word of a user, because nobody has to show a token; the log says the rest. However many ask, one check
    runs at a time, and its result is kept for a few seconds.

    Args:
        app: the application whose probes these are.
        memory: the memory to check.
        hosts: the names, besides those of this machine, under which a probe may ask; any other may be a trick of a web
            page. By default, every name will do.

    Example:
        app.add_middleware(HealthProbes, memory=memory)
    """

    def __init__(self, app: ASGIApp, memory: GraphMemory, *, hosts: Collection[str] | None = None) -> None:
        self._app, self._memory = app, memory
        self._hosts = hosts
        self._lock, self._health, self._kept_until = Throttle(1), Health(), 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe, or hand the request on."""
        is_get = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        path = scope["path"].removeprefix(scope.get("root_path", "")) if is_get else None
        response: Response
        if path not in (LIVE_PATH, READY_PATH):
            await self._app(scope, receive, send)
            return
        if self._hosts is not None and not is_allowed_host(Headers(scope=scope).get("host", ""), self._hosts):
            response = PlainTextResponse("This server is not known under this name.", 421)
        elif path == LIVE_PATH:
            response = JSONResponse({"alive": True})
        else:
            health = await self._check_health()
            response = JSONResponse(describe_health(health), 200 if health.ready else 503)
        response.headers["Cache-Control"] = "no-store"
        await response(scope, receive, send)

    async def _check_health(self) -> Health:
        async with self._lock.hold_permit():
            if time.monotonic() >= self._kept_until:
                known_kinds = {problem.kind for problem in self._health.problems}
                self._health = await self._memory.health()
                self._kept_until = time.monotonic() + KEPT_SECONDS
                for problem in self._health.problems:
                    if problem.kind not in known_kinds:
                        logger.warning("A health check found: %s", problem.text)
            return self._health


def describe_health(health: Health) -> dict[str, Any]:
    """Describe a memory's health to anybody: kinds and counts, and nothing that names a machine or a person."""
    return {
        "ready": health.ready,
        "problems": {problem.kind: problem.count for problem in health.problems},
        "pending": health.queue and health.queue.pending,
        "oldest_seconds": health.queue and health.queue.oldest_seconds,
    }
