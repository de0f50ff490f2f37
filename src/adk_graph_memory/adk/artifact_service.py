"""ADK's artifact contract on a graph: (User | Session)-[:HAS_ARTIFACT]->(Artifact)-[:HAS_VERSION]->(ArtifactVersion).

Small content lies in the graph. Large content lies in a store: it is written before the version that names it and
deleted after it, so a process that dies between the two leaves a content that nobody names, never the reverse.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.genai import types
from typing_extensions import override

from adk_graph_memory import errors, graph, telemetry
from adk_graph_memory.adk import agent_dotenv, artifact_names, artifact_parts, session_codec
from adk_graph_memory.blobs import BlobStore
from adk_graph_memory.closing import Closeable
from adk_graph_memory.graph.artifacts import ArtifactName, ContentKey, StoredVersion
from adk_graph_memory.settings import get_data_home

logger = logging.getLogger(__name__)

MIN_ORPHAN_AGE = timedelta(hours=1)
"""How long after its content was stored a version is there, or never will be."""


@telemetry.trace_methods
class Neo4jArtifactService(Closeable, BaseArtifactService):
    """Files of users and sessions, every version of them.

    A name that starts with ``user:``, and any name without a session, is the user's own; it is listed with ``user:``,
    by which it can be loaded from every session.

    Args:
        uri: an address, settings and all (``settings.of_address``); else NEO4J_URI, or ``adk-graph-memory up``'s.
        agents_dir: what ADK's command line passes: the folder of the agents, whose ``.env`` files are read.
        options: as :class:`adk_graph_memory.graph.Connection` takes them.
    """

    def __init__(
        self, uri: str | None = None, *, agents_dir: str | None = None, **options: Unpack[graph.ConnectionOptions]
    ) -> None:
        self._connection, self._agents_dir = graph.Connection(uri, **options), agents_dir
        self._own_blobs: BlobStore | None = None

    async def prepare(self) -> None:
        """Connects and makes the schema fit now rather than at the first request."""
        await graph.prepare_connection(self._connection)

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
        """Adds a version and returns its number: 0, 1, 2 …, each given once.

        Raises:
            InputValidationError: a name or an id is no safe path, or the part has no content of a kind that is kept.
            errors.ArtifactStoreUnusable: large content could not be stored; there is no new version then.
        """
        name = artifact_names.make_artifact_name(app_name, user_id, filename, session_id)
        part = ensure_part(artifact)
        id, content = platform_uuid.new_uuid(), artifact_parts.get_content(part)
        if artifact_util.is_artifact_ref(part):
            artifact_parts.resolve_reference(part, name.scope, session_id, hops=1)
        connection = await self._connect(app_name)
        is_large = content is not None and len(content) > connection.settings.artifact_inline_limit
        store = await self._open_own_store(connection) if is_large else None
        if store is not None and content is not None:
            await store.put_blob(name.scope.key, id, content)
        version = {
            "id": id,
            "part": artifact_parts.dump_without_content(part),
            "content": None if is_large else content,
            "store": store.url if store is not None else None,
            "mime_type": artifact_parts.get_mime_type(part),
            "metadata": json.dumps(session_codec.make_jsonable(custom_metadata or {})),
            "create_time": platform_time.get_time(),
        }
        return await graph.artifacts.store_version(connection, name, version)

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
        """A version, the latest without a number; None if there is none, or if a rewind took it back.

        Raises:
            InputValidationError: a reference leads out of the user's own, in a circle, or over more than five others.
            errors.ContentMissing: the store has lost the content.
        """
        connection = await self._connect(app_name)
        name, hops = (
            artifact_names.make_artifact_name(app_name, user_id, filename, session_id),
            artifact_util._MAX_ARTIFACT_REFERENCE_DEPTH,
        )
        while stored := await graph.artifacts.fetch_version(connection, name, version, with_content=True):
            part = types.Part.model_validate_json(stored.part)
            if not artifact_util.is_artifact_ref(part):
                whole = await self._load_content(connection, name, stored, part)
                return None if whole is None or artifact_util._is_rewind_tombstone(whole) else whole
            target = artifact_parts.resolve_reference(part, name.scope, session_id, hops)
            name, version = (
                artifact_names.make_artifact_name(app_name, user_id, target.filename, target.session_id),
                target.version,
            )
            session_id, hops = target.session_id, hops - 1
        return None

    @override
    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """Names of the user's own artifacts, each with ``user:``, and of the session's if one is given; sorted."""
        scope, session_id = (
            artifact_names.make_artifact_scope(app_name, user_id),
            artifact_names.normalize_session_id(session_id),
        )
        found = await graph.artifacts.fetch_artifact_names(await self._connect(app_name), scope, session_id)
        return sorted(one.name if one.session_id else f"{artifact_names.USER_NAMESPACE}{one.name}" for one in found)

    @override
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Deletes all versions of exactly this name; an unknown one is no error.

        Content that a store does not let go of is logged; ``adk-graph-memory artifacts --orphans`` lists it.
        """
        name = artifact_names.make_artifact_name(app_name, user_id, filename, session_id)
        for content, store in await graph.artifacts.delete_versions(await self._connect(app_name), name):
            try:
                await self._open_store_at(store).delete_blobs([content])
            except errors.ArtifactStoreUnusable as error:
                logger.warning("The content of a deleted artifact stays in its store: %s", error)

    @override
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The numbers of all versions, the first first."""
        name = artifact_names.make_artifact_name(app_name, user_id, filename, session_id)
        stored = await graph.artifacts.fetch_versions(await self._connect(app_name), name)
        return [one.version for one in stored]

    @override
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """All versions with what is known of them, the first first."""
        name = artifact_names.make_artifact_name(app_name, user_id, filename, session_id)
        stored = await graph.artifacts.fetch_versions(await self._connect(app_name), name)
        return [artifact_parts.make_artifact_version(name, one) for one in stored]

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
        """What is known of a version, the latest without a number; None if there is none."""
        name = artifact_names.make_artifact_name(app_name, user_id, filename, session_id)
        stored = await graph.artifacts.fetch_version(await self._connect(app_name), name, version)
        return artifact_parts.make_artifact_version(name, stored) if stored else None

    async def list_orphans(self, *, delete: bool = False) -> AsyncIterator[ContentKey]:
        """Contents in the store that no version names: left by a process that died, or not let go of.

        What was stored within the last hour is passed over: its version may just be on its way. Nobody else's are
        looked at, though others may use the same store.

        Args:
            delete: deletes each as well.
        """
        connection = await graph.prepare_connection(self._connection)
        store = await self._open_own_store(connection)
        async for contents in store.list_blobs(until=datetime.now(UTC) - MIN_ORPHAN_AGE):
            orphans = await graph.artifacts.find_orphans(connection, [ContentKey(*content) for content in contents])
            if delete:
                await store.delete_blobs(orphans)
            for orphan in orphans:
                yield orphan

    async def close(self) -> None:
        """Closes the connections this service opened in the running event loop; may be called again."""
        await self._connection.close()

    # -- content ----------------------------------------------------------------------------------------------

    async def _connect(self, app_name: str) -> graph.Connection:
        agent_dotenv.load_agent_dotenv(self._agents_dir, app_name, self._connection)
        return await graph.prepare_connection(self._connection)

    async def _open_own_store(self, connection: graph.Connection) -> BlobStore:
        """Where new content goes: a place of this graph's own in the store, which other graphs may use too."""
        if self._own_blobs is None:
            store = BlobStore(connection.settings.artifact_store or str(get_data_home() / "artifacts"))
            self._own_blobs = store.open_substore(await graph.artifacts.fetch_store_prefix(connection))
        return self._own_blobs

    def _open_store_at(self, url: str) -> BlobStore:
        """The store that a version names, which may not be the one that new ones go to."""
        return self._own_blobs if self._own_blobs is not None and url == self._own_blobs.url else BlobStore(url)

    async def _load_content(
        self, connection: graph.Connection, name: ArtifactName, stored: StoredVersion, part: types.Part
    ) -> types.Part | None:
        """The part with its content; None if it was deleted at this moment."""
        if stored.store is None:
            return artifact_parts.restore_content(part, stored.content)
        try:
            return artifact_parts.restore_content(
                part, await self._open_store_at(stored.store).get_blob(name.scope.key, stored.id)
            )
        except errors.ContentMissing:
            now = await graph.artifacts.fetch_version(connection, name, stored.version)
            if now is not None and now.id == stored.id:
                raise
            return None
