"""What the JSON of the inspector and of the HTTP service share: the form of a memory, and what an error says."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from adk_graph_memory import errors
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.records.results import Share
from adk_graph_memory.records.turns import MemoryKind, Origin
from adk_graph_memory.servers.problems import log_failure

Limit = Annotated[int, Query(ge=1, le=200)]
UNAVAILABLE = "Memory cannot be read or changed at the moment. The log of the server says why."
"""What a caller is told of an error that names machines, accounts or settings."""
MAX_COMPLAINTS = 10
"""Fields of a request that one answer finds wrong."""
logger = logging.getLogger(__name__)


class ShownResult(BaseModel):
    """A picture or a file that a memory shows: an artifact by name and version, or a file by URI."""

    model_config = ConfigDict(from_attributes=True)

    mime_type: str
    name: str
    version: int | None
    uri: str
    description: str
    described_by: str


class SearchResult(BaseModel):
    """A memory that a search found, as a :class:`~adk_graph_memory.Recollection` describes it."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    kind: MemoryKind
    text: str
    prompt_text: str
    score: float
    at: datetime | None
    author: str | None
    origin: Origin | None
    session_id: str | None
    source_event_ids: list[str]
    quote: str | None
    valid_from: datetime | None
    valid_to: datetime | None
    is_current: bool
    is_stale: bool
    is_disputed: bool
    superseded_by: list[str]
    previously: list[str]
    shares: list[Share]
    metadata: dict[str, Any]
    degraded: str | None
    shared: str | None
    shown: list[ShownResult]


def describe_error(request: Request, memory: GraphMemory, error: Exception) -> tuple[int, str]:
    """Return the status of an error and what to tell the caller; log what they are not told."""
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, RequestValidationError):
        return 422, "; ".join(
            f"{'.'.join(map(str, one['loc'][1:])) or one['loc'][0]}: {one['msg']}"
            for one in error.errors()[:MAX_COMPLAINTS]
        )
    if isinstance(error, errors.NotFound):
        return 404, str(error)
    if isinstance(error, errors.InvalidArgument | errors.InvalidUnicode | errors.UnreadableTranscript):
        return 400, str(error)
    log_failure(logger, memory, f"{request.url.path} could not be answered", error)
    return 503, UNAVAILABLE
