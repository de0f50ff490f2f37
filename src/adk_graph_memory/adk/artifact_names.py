"""Build full artifact names from ADK's arguments, and reject names that are not safe as a path."""

from __future__ import annotations

from google.adk.artifacts import artifact_util

from adk_graph_memory.adk import session_codec
from adk_graph_memory.graph.artifacts import ArtifactName
from adk_graph_memory.records import Scope

USER_NAMESPACE = "user:"
_USER_SESSION_ID = ""
"""Marks the user's own artifacts; no session has an empty id."""


def make_artifact_scope(app_name: str, user_id: str) -> Scope:
    """Return the artifact's owner; the app name and user id must be safe as a path."""
    artifact_util.validate_path_segment(app_name, "app_name")
    artifact_util.validate_path_segment(user_id, "user_id")
    return Scope(session_codec.check_id("app_name", app_name), session_codec.check_id("user_id", user_id))


def normalize_session_id(session_id: str | None) -> str:
    """Return the checked session id; without a session, the marker of the user's own artifacts."""
    if session_id is None:
        return _USER_SESSION_ID
    artifact_util.validate_path_segment(session_id, "session_id")
    return session_codec.check_id("session_id", session_id)


def make_artifact_name(app_name: str, user_id: str, filename: str, session_id: str | None) -> ArtifactName:
    """Return the full name; the prefix ``user:`` makes it the user's own, whatever the session."""
    name = filename.removeprefix(USER_NAMESPACE)
    artifact_util.validate_path_segment(name, "filename")
    session = _USER_SESSION_ID if name != filename else normalize_session_id(session_id)
    return ArtifactName(make_artifact_scope(app_name, user_id), session, session_codec.check_id("filename", name))
