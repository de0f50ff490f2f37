"""What ADK calls an artifact goes in; its whole name comes out, if it is one that is safe as a path."""

from __future__ import annotations

from google.adk.artifacts import artifact_util

from adk_graph_memory.adk import codec
from adk_graph_memory.graph.artifacts import Name
from adk_graph_memory.records import Scope

USER_NAMESPACE = "user:"
_OF_USER = ""
"""Stands where a session's id would; none is empty."""


def scope(app_name: str, user_id: str) -> Scope:
    """Whose it is."""
    artifact_util.validate_path_segment(app_name, "app_name")
    artifact_util.validate_path_segment(user_id, "user_id")
    return Scope(codec.checked_id("app_name", app_name), codec.checked_id("user_id", user_id))


def session(session_id: str | None) -> str:
    """Of which session it is; of none, the user's own."""
    if session_id is None:
        return _OF_USER
    artifact_util.validate_path_segment(session_id, "session_id")
    return codec.checked_id("session_id", session_id)


def full(app_name: str, user_id: str, filename: str, session_id: str | None) -> Name:
    """All of it; ``user:`` before a name makes it the user's own, whatever the session."""
    name = filename.removeprefix(USER_NAMESPACE)
    artifact_util.validate_path_segment(name, "filename")
    of_session = _OF_USER if name != filename else session(session_id)
    return Name(scope(app_name, user_id), of_session, codec.checked_id("filename", name))
