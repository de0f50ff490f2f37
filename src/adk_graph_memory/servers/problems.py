"""Answer a request that is refused, as RFC 9457 says it: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse


def make_problem(
    status: int, detail: str, headers: Mapping[str, str] | None = None, *, error: str | None = None
) -> JSONResponse:
    """Make the answer; ``error`` is the name of the error's class, where that tells more than the status."""
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    problem |= {"error": error} if error else {}
    return JSONResponse(problem, status, headers, media_type="application/problem+json")
