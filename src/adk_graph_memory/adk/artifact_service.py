"""Implement ADK's artifact service: (User|Session)-[:HAS_ARTIFACT]->(Artifact)-[:HAS_VERSION]->(ArtifactVersion).

Small content lies in the graph, large content in a store. It is written there before its version and deleted after it,
so a process that dies in between leaves an orphaned blob, never a version without content.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.genai import types
from pydantic_core import PydanticSerializationError
from typing_extensions import override

from adk_graph_memory import errors
from adk_graph_memory.adk import _compat, session_codec
from adk_graph_memory.adk.graph_service import GraphService
from adk_graph_memory.graph import artifacts
from adk_graph_memory.graph.artifacts import ArtifactName, ContentKey, StoredVersion
from adk_graph_memory.graph.blobs import BlobStore, delete_contents
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records.scopes import Scope, check_flags
from adk_graph_memory.runtime import telemetry

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


def parse_artifact_name(app_name: str, user_id: str, filename: str, session_id: str | None) -> ArtifactName:
    """Parse the full name; the prefix ``user:`` makes it the user's own, whatever the session."""
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


def describe_artifact_version(name: ArtifactName, record: StoredVersion) -> ArtifactVersion:
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


logger = logging.getLogger(__name__)

MIN_ORPHAN_AGE = timedelta(hours=1)
"""After this time, content without a version is an orphan: its version is no longer being written."""


class LatestVersion(NamedTuple):
    """The latest version of an artifact, the session that it belongs to (None: the user), and its name there."""

    session_id: str | None
    name: str
    version: ArtifactVersion


@telemetry.trace_methods
class Neo4jArtifactService(GraphService, BaseArtifactService):
    """Versioned files of users and sessions.

    A file whose name starts with ``user:``, or that is saved without a session, belongs to the user. It is listed with
    ``user:`` and can be loaded in every session.

    Args:
        uri, auth, database, driver, settings, schema, agents_dir: as
            :class:`adk_graph_memory.Neo4jSessionService` takes them.

    Example:
        owner = {"app_name": "home", "user_id": "ana", "session_id": "monday"}
        async with Neo4jArtifactService() as artifacts:
            await artifacts.save_artifact(filename="rex.txt", artifact=types.Part.from_text(text="A dog."), **owner)
            print(await artifacts.list_artifact_keys(**owner))
    """

    _own_blobs: BlobStore | None = None

    @override
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Add a version and return its number: 0, 1, 2 …; numbers are never reused.

        Raises:
            InputValidationError: a name or id is unsafe as a path, or the part has no content of a supported kind.
            errors.ArtifactStoreUnusable: large content could not be stored, so no version was added.
        """
        name = parse_artifact_name(app_name, user_id, filename, session_id)
        part = ensure_part(artifact)
        id, content = platform_uuid.new_uuid(), get_content(part)
        if artifact_util.is_artifact_ref(part):
            resolve_reference(part, name.scope, session_id, hops=1)
        connection = await self._connect(app_name)
        is_large = content is not None and len(content) > connection.settings.limits.artifact_inline_limit
        store = await self._open_own_store(connection) if is_large else None
        if store is not None and content is not None:
            await store.put_blob(name.scope.key, id, content)
        version = {
            "id": id,
            "part": dump_without_content(part),
            "content": None if is_large else content,
            "store": store.url if store is not None else None,
            "mime_type": get_mime_type(part),
            "metadata": json.dumps(session_codec.convert_to_jsonable(custom_metadata or {})),
            "create_time": platform_time.get_time(),
        }
        return await artifacts.store_version(connection, name, version)

    @override
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Load a version, by default the latest; None if it does not exist or a rewind has undone it.

        Raises:
            InputValidationError: a reference leads to another user or session, in a circle, or over too many hops.
            errors.ContentMissing: the store has lost the content.
        """
        connection = await self._connect(app_name)
        name = parse_artifact_name(app_name, user_id, filename, session_id)
        hops = _compat.MAX_REFERENCE_DEPTH
        while record := await artifacts.fetch_version(connection, name, version, with_content=True):
            part = types.Part.model_validate_json(record.part)
            if not artifact_util.is_artifact_ref(part):
                loaded_part = await self._load_content(connection, name, record, part)
                is_undone = loaded_part is not None and _compat.is_rewind_tombstone(loaded_part)
                return None if is_undone else loaded_part
            target = resolve_reference(part, name.scope, session_id, hops)
            session_id, version, hops = target.session_id, target.version, hops - 1
            name = parse_artifact_name(app_name, user_id, target.filename, session_id)
        return None

    @override
    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """List the names of the user's artifacts (with ``user:``) and, if one is given, the session's; sorted."""
        scope = make_artifact_scope(app_name, user_id)
        session_id = normalize_session_id(session_id)
        names = await artifacts.fetch_artifact_names((await self._connect(app_name)).user(scope), session_id)
        return sorted(map(format_filename, names))

    @override
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions of exactly this name; an unknown name is ignored.

        Content that the store fails to delete is logged; ``adk-graph-memory artifacts --orphans`` lists it.
        """
        name = parse_artifact_name(app_name, user_id, filename, session_id)
        try:
            await delete_contents(await artifacts.delete_versions(await self._connect(app_name), name))
        except errors.ArtifactStoreUnusable as error:
            logger.warning("The content of a deleted artifact could not be removed from its store: %s", error)

    @override
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """List the numbers of all versions in ascending order."""
        name = parse_artifact_name(app_name, user_id, filename, session_id)
        versions = await artifacts.fetch_versions(await self._connect(app_name), name)
        return [version.version for version in versions]

    @override
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """List all versions with their metadata, by ascending number."""
        name = parse_artifact_name(app_name, user_id, filename, session_id)
        versions = await artifacts.fetch_versions(await self._connect(app_name), name)
        return [describe_artifact_version(name, version) for version in versions]

    @override
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return the metadata of a version, by default the latest; None if it does not exist."""
        name = parse_artifact_name(app_name, user_id, filename, session_id)
        record = await artifacts.fetch_version(await self._connect(app_name), name, version, with_content=False)
        return describe_artifact_version(name, record) if record else None

    async def list_latest_versions(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[LatestVersion]:
        """List the latest version of each artifact of a user: the user's own, and then those of the sessions.

        Args:
            app_name: the app.
            user_id: the user.
            session_id: only the user's own artifacts and this session's.
        """
        scope = make_artifact_scope(app_name, user_id)
        session_id = None if session_id is None else normalize_session_id(session_id)
        versions = await artifacts.fetch_latest_versions((await self._connect(app_name)).user(scope), session_id)
        return [
            LatestVersion(
                name.session_id or None,
                format_filename(name),
                describe_artifact_version(name, version),
            )
            for name, version in versions
        ]

    async def list_orphans(self, *, delete: bool = False) -> AsyncIterator[ContentKey]:
        """Yield the stored contents that no version refers to, left by a dead process or a failed deletion.

        Content from the last hour is skipped, because its version may not be written yet. Only this graph's part of a
        shared store is searched.

        Args:
            delete: also delete each orphan.
        """
        check_flags(delete=delete)
        store = await self._open_own_store(self._connection)
        async for contents in store.list_blobs(until=datetime.now(UTC) - MIN_ORPHAN_AGE):
            orphans = await artifacts.find_orphans(self._connection, [ContentKey(*content) for content in contents])
            if delete:
                await store.delete_blobs(orphans)
            for orphan in orphans:
                yield orphan

    # -- content ----------------------------------------------------------------------------------------------

    async def _open_own_store(self, connection: Connection) -> BlobStore:
        if self._own_blobs is None:
            self._own_blobs = await artifacts.open_own_store(connection)
        return self._own_blobs

    async def _load_content(
        self, connection: Connection, name: ArtifactName, record: StoredVersion, part: types.Part
    ) -> types.Part | None:
        """Put the content into the part; None if the version is being deleted concurrently."""
        if record.store is None:
            return restore_content(part, record.content)
        try:
            own = self._own_blobs
            # The store that a version names may differ from the one for new content.
            store = own if own is not None and record.store == own.url else BlobStore(record.store)
            return restore_content(part, await store.get_blob(name.scope.key, record.id))
        except errors.ContentMissing:
            current = await artifacts.fetch_version(connection, name, record.version, with_content=False)
            if current is not None and current.id == record.id:
                raise
            return None
