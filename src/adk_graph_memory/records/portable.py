"""Describe a user's part of the graph apart from any graph: nodes by their keys, and their relationships."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adk_graph_memory.records.reports import ImportReceipt

NODE_KEYS: Mapping[str, tuple[str, ...]] = {
    "User": (),
    "Session": ("id",),
    "Event": ("session_uid", "id"),
    "Entity": ("key",),
    "Fact": ("id",),
    "Revision": ("fact_id", "n"),
    "Ingest": ("id",),
    "Artifact": ("session_id", "name"),
    "ArtifactVersion": ("session_id", "name", "version"),
    "Tombstone": ("key",),
}
"""What tells a user's nodes of one label apart, in the order in which they are exported."""
SECOND_LABELS = frozenset({"Memory"})
"""Labels that nodes have beside one of those."""
MEMORY_LABELS = frozenset({"Event", "Fact"})
"""Those that may have a second one."""
EDGE_PATTERNS = frozenset(
    (
        ("User", "HAS_SESSION", "Session"),
        ("Session", "HAS_EVENT", "Event"),
        ("Event", "NEXT", "Event"),
        ("Ingest", "READS", "Event"),
        ("Event", "MENTIONS", "Entity"),
        ("Entity", "MERGED_INTO", "Entity"),
        ("Fact", "SUBJECT", "Entity"),
        ("Fact", "OBJECT", "Entity"),
        ("Fact", "SUPPORTED_BY", "Event"),
        ("Fact", "SUPERSEDES", "Fact"),
        ("Fact", "WOULD_SUPERSEDE", "Fact"),
        ("Fact", "DEPENDS_ON", "Fact"),
        ("Fact", "HAS_REVISION", "Revision"),
        ("Revision", "BECAUSE_OF", "Event"),
        ("User", "HAS_ARTIFACT", "Artifact"),
        ("Session", "HAS_ARTIFACT", "Artifact"),
        ("Artifact", "HAS_VERSION", "ArtifactVersion"),
    )
)
"""Our relationships: the label that a type leads from, the type, and the label that it leads to."""
EDGE_TYPES = frozenset(type for _, type, _ in EDGE_PATTERNS)
LOCAL_PROPERTIES = frozenset(("scope", "lock", "lease", "lease_until", "import_id", "import_open"))
"""Properties that belong to one graph: locks, leases, and what an import has noted."""

NodeKey = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Which of a user's nodes is meant: its label, and the values of its key."""

    label: str
    key: NodeKey


@dataclass(frozen=True, slots=True)
class PortableEdge:
    """A relationship of a node with another one; ``is_outgoing`` if it begins at the node that carries it."""

    type: str
    is_outgoing: bool
    other: NodePlace
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PortableNode:
    """A node without its scope and without what is of one graph alone.

    ``vector`` and ``tokens`` are those of the live slot, whatever its name. ``refusals`` are the tombstones of a turn
    by their kind (``turn`` or ``facts``), each with the time it was made: their keys are of one graph alone too.
    """

    place: NodePlace
    labels: tuple[str, ...]
    properties: Mapping[str, Any]
    edges: tuple[PortableEdge, ...] = ()
    vector: list[float] | None = None
    tokens: bytes | None = None
    refusals: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """The first line of an export: what it is, what it covers, and whose vectors are in it."""

    id: str
    schema: int
    checksum: str | None
    """of the schema's last migration"""
    package: str
    at: str
    app_name: str | None = None
    user_id: str | None = None
    embedder: str | None = None
    dimensions: int | None = None
    recorded_at: str | None = None
    """as of when the memory is, if it is not that of now"""
    tombstone_key: str | None = None
    """of a backup: the secret of the graph's tombstones, which the graph that is restored has too"""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote, and what it did not."""

    apps: int = 0
    users: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict)
    """how many by label"""
    relationships: Mapping[str, int] = field(default_factory=dict)
    """how many by type"""
    bytes: int = 0
    outside_contents: Mapping[str, int] = field(default_factory=dict)
    """how many versions of artifacts have their content in a store, by its address; it is not in the file"""
    changed_users: tuple[tuple[str, str], ...] = ()
    """users, by app and id, to whom somebody wrote meanwhile: the file may hold a part of that"""
    missing_contents: int = 0
    """of a backup: versions of artifacts whose content the store has lost"""
    sha256: str = ""
    """the digest of all lines but the first and the last: equal graphs have equal ones"""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a backup brought back, and whether the graph is now what the backup was made of."""

    receipt: ImportReceipt
    is_equal: bool
    """whether a backup of the graph would now hold the same lines"""
    changed_users: int = 0
    """users who were written to while the backup was made: ``doctor --mend`` completes what it holds of them"""
