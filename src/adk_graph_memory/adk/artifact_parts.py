"""A part of ADK goes in and is taken apart into content and all the rest; or the other way round."""

from __future__ import annotations

import json

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from pydantic_core import PydanticSerializationError

from adk_graph_memory.graph.artifacts import ArtifactName, StoredVersion
from adk_graph_memory.records import Scope


def resolve_reference(
    part: types.Part, scope: Scope, session_id: str | None, hops: int
) -> artifact_util.ParsedArtifactUri:
    """What a reference leads to, if that is the same user's, and of no other session."""
    return artifact_util.resolve_artifact_reference(
        file_uri=str(part.file_data and part.file_data.file_uri),
        app_name=scope.app_name,
        user_id=scope.user_id,
        session_id=session_id,
        remaining_depth=hops,
    )


def get_content(part: types.Part) -> bytes | None:
    """The part's bytes or its text; None of a part that only says where its content is."""
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
    """The part's JSON but for its content; a blob of no bytes stands where one was."""
    kept = part.model_copy()
    if part.inline_data is not None:
        kept.inline_data = part.inline_data.model_copy(update={"data": b""})
    else:
        kept.text = None
    try:
        return kept.model_dump_json(exclude_none=True)
    except PydanticSerializationError as error:
        raise InputValidationError(f"The artifact's description is no Unicode: {error}") from error


def restore_content(part: types.Part, content: bytes | None) -> types.Part:
    """The part with the content that was taken from it."""
    if content is not None and part.inline_data is not None:
        part.inline_data.data = content
    elif content is not None:
        part.text = content.decode()
    return part


def get_mime_type(part: types.Part) -> str | None:
    """What kind of content it is, as far as it says."""
    if part.inline_data is not None:
        return part.inline_data.mime_type or "application/octet-stream"
    if part.text is not None:
        return "text/plain"
    return part.file_data.mime_type if part.file_data else None


def make_artifact_version(name: ArtifactName, stored: StoredVersion) -> ArtifactVersion:
    """A stored version as ADK describes it."""
    place = artifact_util.get_artifact_uri(
        name.scope.app_name, name.scope.user_id, name.name, stored.version, name.session_id or None
    )
    return ArtifactVersion(
        version=stored.version,
        canonical_uri=place.replace("artifact://", "neo4j://", 1),
        custom_metadata=json.loads(stored.metadata),
        create_time=stored.create_time,
        mime_type=stored.mime_type,
    )
