"""Import the private names of ADK that this package needs; no other module uses any.

tests/unit/test_compat.py says which are missing in the installed release.
"""

from __future__ import annotations

from google.adk import version as adk_version
from google.adk.agents.context import Context
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from adk_graph_memory import errors

TESTED_VERSION = "2.13.0"

try:
    from google.adk.artifacts.artifact_util import _MAX_ARTIFACT_REFERENCE_DEPTH as MAX_REFERENCE_DEPTH
    from google.adk.artifacts.artifact_util import _is_rewind_tombstone as is_rewind_tombstone
    from google.adk.sessions._session_util import extract_state_delta, make_json_safe_state
    from google.adk.tools._forwarding_artifact_service import ForwardingArtifactService

    Context._require_memory_service  # noqa: B018 (looked up, not called)
    _ = Session.__private_attributes__["_storage_update_marker"]
    for _inherited_name in ("_apply_temp_state", "_trim_temp_delta_state", "_commit_event_to_session"):
        getattr(BaseSessionService, _inherited_name)  # our session service calls them
except (AttributeError, ImportError, KeyError) as error:
    raise errors.UnsupportedAdk(
        version=adk_version.__version__, tested=TESTED_VERSION, reason=f"{type(error).__name__}: {error}"
    ) from error

__all__ = [
    "MAX_REFERENCE_DEPTH",
    "ForwardingArtifactService",
    "extract_state_delta",
    "get_memory_service",
    "get_update_marker",
    "is_rewind_tombstone",
    "make_json_safe_state",
    "set_update_marker",
]


def get_update_marker(session: Session) -> str | None:
    """Return what :func:`set_update_marker` has set; None if it has not."""
    return session._storage_update_marker


def set_update_marker(session: Session, marker: str) -> None:
    """Set the field in which a session service notes what it loaded; ADK copies it with the session."""
    session._storage_update_marker = marker


def get_memory_service(context: Context) -> BaseMemoryService:
    """Return the Runner's memory service.

    Raises:
        ValueError: the Runner has none.
    """
    return context._require_memory_service("There is no memory service: give the Runner one.")
