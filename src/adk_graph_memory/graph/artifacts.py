"""Store and fetch versions of artifacts. Of large content the graph holds only the store where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from adk_graph_memory.graph.blobs import BlobStore, open_configured_store
from adk_graph_memory.graph.connection import Connection, Transaction, UserGraph
from adk_graph_memory.records.scopes import Scope


@dataclass(frozen=True, slots=True)
class ArtifactName:
    """An artifact's name and the session it belongs to; an empty ``session_id`` if it belongs to the user."""

    scope: Scope
    session_id: str
    name: str

    @property
    def parameters(self) -> dict[str, str]:
        return {"session_id": self.session_id, "name": self.name}


class ContentKey(NamedTuple):
    """Content of a version in a blob store: the key of the owning scope, and the version's id."""

    scope: str
    id: str


class StoredVersion(NamedTuple):
    """A version as stored: the part without its content, and either the content or the URL of its blob store."""

    version: int
    id: str
    part: str
    store: str | None
    mime_type: str | None
    metadata: str
    create_time: float
    content: bytes | None = None


async def store_version(connection: Connection, name: ArtifactName, version: Mapping[str, Any]) -> int:
    """Add a version; its ``id`` keeps a retry after a lost connection from adding it twice.

    Returns:
        The version's number: 0, 1, 2 …
    """

    async def work(transaction: Transaction) -> int:
        [row] = await transaction.run_statement("save_artifact", name.parameters, version=dict(version))
        return int(row["version"])

    return await connection.user(name.scope).transact(work)


async def fetch_version(
    connection: Connection, name: ArtifactName, version: int | None, *, with_content: bool
) -> StoredVersion | None:
    """Fetch a version by number, or the latest if ``version`` is None; None if there is none."""
    rows = await connection.user(name.scope).run_statement(
        "artifact_version", name.parameters, version=version, with_content=with_content
    )
    return StoredVersion(**rows[0]["version"]) if rows else None


async def fetch_versions(connection: Connection, name: ArtifactName) -> list[StoredVersion]:
    """Fetch all versions without their content, oldest first."""
    rows = await connection.user(name.scope).run_statement("artifact_versions", name.parameters)
    return [StoredVersion(**row["version"]) for row in rows]


async def fetch_artifact_names(graph: UserGraph, session_id: str) -> list[ArtifactName]:
    """List the user's own artifacts and those of the session, if there is one."""
    rows = await graph.run_statement("artifact_names", session_id=session_id)
    return [ArtifactName(graph.scope, row["session_id"], row["name"]) for row in rows]


async def fetch_user_artifacts(graph: UserGraph) -> list[ArtifactName]:
    """List all that the user has artifacts or versions of, expired ones too."""
    rows = await graph.run_statement("user_artifacts")
    return [ArtifactName(graph.scope, row["session_id"], row["name"]) for row in rows]


async def fetch_latest_versions(graph: UserGraph, session_id: str | None) -> list[tuple[ArtifactName, StoredVersion]]:
    """Fetch the latest version of each artifact: the user's own and one session's, or with None every session's."""
    rows = await graph.run_statement("latest_artifact_versions", session_id=session_id)
    return [
        (ArtifactName(graph.scope, row["session_id"], row["name"]), StoredVersion(**row["version"])) for row in rows
    ]


async def delete_versions(connection: Connection, name: ArtifactName) -> list[tuple[ContentKey, str]]:
    """Delete all versions of an artifact.

    Returns:
        The content that no version has any more, each with the URL of its blob store.
    """
    rows = await connection.user(name.scope).run_statement("delete_artifact", name.parameters)
    return [(ContentKey(name.scope.key, row["id"]), row["store"]) for row in rows]


async def find_orphans(connection: Connection, contents: Sequence[ContentKey]) -> list[ContentKey]:
    """The contents that no version has."""
    rows = await connection.run_statement("known_contents", contents=[content._asdict() for content in contents])
    in_use = {ContentKey(row["scope"], row["id"]) for row in rows}
    return [content for content in contents if content not in in_use]


async def open_own_store(connection: Connection) -> BlobStore:
    """Open this graph's own part of the store for new content; other graphs may share the store."""
    [row] = await connection.run_statement("place_of_contents")
    return open_configured_store(connection.settings.artifact_store).open_substore(row["place"])
