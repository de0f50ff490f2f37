"""Artifact requests go in as plain data; versions come out. Where large content lies is noted here, not what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.queries import scoped
from adk_graph_memory.records import Scope


@dataclass(frozen=True, slots=True)
class Name:
    """An artifact's own name, and the session it belongs to; none if it is the user's."""

    scope: Scope
    session_id: str
    name: str

    @property
    def parameters(self) -> dict[str, str]:
        return {**scoped(self.scope), "session_id": self.session_id, "name": self.name}


class Content(NamedTuple):
    """A version's content that lies in a store: the key of the scope whose it is, and the version's id."""

    scope: str
    id: str


class StoredVersion(NamedTuple):
    """A version as stored: the part without its content, and the content, or the store that holds it by the id."""

    version: int
    id: str
    part: str
    content: bytes | None
    store: str | None
    mime_type: str | None
    metadata: str
    create_time: float


async def save(connection: Connection, name: Name, version: Mapping[str, Any]) -> int:
    """Adds a version; its ``id`` tells one that a lost connection has sent twice.

    Returns:
        Its number: 0, 1, 2 …
    """

    async def work(transaction: Transaction) -> int:
        [row] = await transaction.run("save_artifact", name.parameters, version=dict(version))
        return int(row["version"])

    return await connection.transact(work)


async def get(
    connection: Connection, name: Name, version: int | None, *, with_content: bool = False
) -> StoredVersion | None:
    """A version, the latest without a number; None if there is none."""
    rows = await connection.run("artifact_version", name.parameters, version=version, with_content=with_content)
    return StoredVersion(**rows[0].data()) if rows else None


async def versions(connection: Connection, name: Name) -> list[StoredVersion]:
    """All versions without content, the first first."""
    return [StoredVersion(**row.data()) for row in await connection.run("artifact_versions", name.parameters)]


async def names(connection: Connection, scope: Scope, session_id: str) -> list[Name]:
    """The user's own artifacts, and those of the session if there is one."""
    rows = await connection.run("artifact_names", scoped(scope), session_id=session_id)
    return [Name(scope, row["session_id"], row["name"]) for row in rows]


async def delete(connection: Connection, name: Name) -> list[tuple[Content, str]]:
    """Deletes all versions.

    Returns:
        Each content that is now nobody's, and the store where it lies.
    """
    rows = await connection.run("delete_artifact", name.parameters)
    return [(Content(name.scope.key, row["id"]), row["store"]) for row in rows]


async def unknown(connection: Connection, contents: Sequence[Content]) -> list[Content]:
    """Those of the contents that no version has."""
    rows = await connection.run("known_contents", contents=[content._asdict() for content in contents])
    known = {Content(row["scope"], row["id"]) for row in rows}
    return [content for content in contents if content not in known]


async def place(connection: Connection) -> str:
    """A name of this graph's own, under which its contents lie in a store that others may use too."""
    [row] = await connection.run("place_of_contents")
    return str(row["place"])
