"""Convert ADK's artifact names, parts and versions to what the graph stores, and back."""

from __future__ import annotations

import json

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from pydantic_core import PydanticSerializationError

from adk_graph_memory.adk import session_codec
from adk_graph_memory.graph.artifacts import ArtifactName, StoredVersion
from adk_graph_memory.records import Scope

_USER_NAMESPACE = "user:"
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
    name = filename.removeprefix(_USER_NAMESPACE)
    artifact_util.validate_path_segment(name, "filename")
    session = _USER_SESSION_ID if name != filename else normalize_session_id(session_id)
    session_codec.check_id("an artifact's filename with its session_id", name, session)
    return ArtifactName(make_artifact_scope(app_name, user_id), session, name)


def format_filename(name: ArtifactName) -> str:
    """Return the artifact's name in ADK: with the prefix ``user:`` if it is the user's own."""
    return name.name if name.session_id else f"{_USER_NAMESPACE}{name.name}"


# -- parts ------------------------------------------------------------------------------------------------------


def resolve_reference(
    part: types.Part, scope: Scope, session_id: str | None, hops: int
) -> artifact_util.ParsedArtifactUri:
    """Resolve a reference to an artifact of the same user and no other session; ``hops`` more may be followed."""
    return artifact_util.resolve_artifact_reference(
        file_uri=str(part.file_data and part.file_data.file_uri),
        app_name=scope.app_name,
        user_id=scope.user_id,
        session_id=session_id,
        remaining_depth=hops,
    )


def get_content(part: types.Part) -> bytes | None:
    """Return the part's bytes or encoded text; None for a part that only links to its content."""
    if part.inline_data is not None:
        if part.inline_data.data is None:
            raise InputValidationError("Artifact inline_data must contain data.")
        return part.inline_data.data
    if part.text is not None:
        try:
            return part.text.encode()
        except UnicodeEncodeError as error:
            raise InputValidationError("Artifact text is no Unicode (a lone surrogate).") from error
    if part.file_data is None or not part.file_data.file_uri:
        raise InputValidationError("Not supported artifact type: neither inline_data, nor text, nor file_data.")
    return None


def dump_without_content(part: types.Part) -> str:
    """Dump the part to JSON without its content; an empty blob marks inline data."""
    description = part.model_copy()
    if part.inline_data is not None:
        description.inline_data = part.inline_data.model_copy(update={"data": b""})
    else:
        description.text = None
    try:
        return description.model_dump_json(exclude_none=True)
    except PydanticSerializationError as error:
        raise InputValidationError(f"The artifact's description is no Unicode: {error}") from error


def restore_content(part: types.Part, content: bytes | None) -> types.Part:
    """Put content back into the part that :func:`dump_without_content` described."""
    if content is not None and part.inline_data is not None:
        part.inline_data.data = content
    elif content is not None:
        part.text = content.decode()
    return part


def get_mime_type(part: types.Part) -> str | None:
    """Return the part's MIME type, with a default for untyped bytes and text; None if a link names none."""
    if part.inline_data is not None:
        return part.inline_data.mime_type or "application/octet-stream"
    if part.text is not None:
        return "text/plain"
    return part.file_data.mime_type if part.file_data else None


def make_artifact_version(name: ArtifactName, record: StoredVersion) -> ArtifactVersion:
    """Describe a stored version in ADK's form."""
    uri = artifact_util.get_artifact_uri(
        name.scope.app_name, name.scope.user_id, name.name, record.version, name.session_id or None
    )
    return ArtifactVersion(
        version=record.version,
        canonical_uri=uri.replace("artifact://", "neo4j://", 1),
        custom_metadata=json.loads(record.metadata),
        create_time=record.create_time,
        mime_type=record.mime_type,
    )
