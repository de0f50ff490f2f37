"""What ADK calls an artifact goes in; its whole name comes out, if it is one that is safe as a path."""

from __future__ import annotations

from google.adk.artifacts import artifact_util

from adk_graph_memory.adk import session_codec
from adk_graph_memory.graph.artifacts import ArtifactName
from adk_graph_memory.records import Scope

USER_NAMESPACE = "user:"
_USER_SESSION_ID = ""
"""Stands where a session's id would; none is empty."""


def make_artifact_scope(app_name: str, user_id: str) -> Scope:
    """Whose it is."""
    artifact_util.validate_path_segment(app_name, "app_name")
    artifact_util.validate_path_segment(user_id, "user_id")
    return Scope(session_codec.check_id("app_name", app_name), session_codec.check_id("user_id", user_id))


def normalize_session_id(session_id: str | None) -> str:
    """Of which session it is; of none, the user's own."""
    if session_id is None:
        return _USER_SESSION_ID
    artifact_util.validate_path_segment(session_id, "session_id")
    return session_codec.check_id("session_id", session_id)


def make_artifact_name(app_name: str, user_id: str, filename: str, session_id: str | None) -> ArtifactName:
    """All of it; ``user:`` before a name makes it the user's own, whatever the session."""
    name = filename.removeprefix(USER_NAMESPACE)
    artifact_util.validate_path_segment(name, "filename")
    of_session = _USER_SESSION_ID if name != filename else normalize_session_id(session_id)
    return ArtifactName(make_artifact_scope(app_name, user_id), of_session, session_codec.check_id("filename", name))
