"""Answer a request that is refused, as RFC 9457 says it: what is wrong, and what to do; log what it does not say."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse

from adk_graph_memory import errors
from adk_graph_memory.memory.graph_memory import GraphMemory


def make_problem(
    status: int, detail: str, headers: Mapping[str, str] | None = None, *, error: str | None = None
) -> JSONResponse:
    """Make the answer; ``error`` is the name of the error's class, where that tells more than the status."""
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    problem |= {"error": error} if error else {}
    return JSONResponse(problem, status, headers, media_type="application/problem+json")


def log_failure(logger: logging.Logger, memory: GraphMemory, failure: str, error: Exception) -> None:
    """Log what a caller is not told: one line for each outage of the database, the traceback of any other error."""
    if not isinstance(error, errors.DatabaseUnavailable):
        logger.error("%s", failure, exc_info=error)
    elif memory.connection.health.note_outage():
        logger.error("%s: %s", failure, error)
