"""Read a user's nodes for an export, and write those of an import; what the graph already has stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from neo4j import Record

from adk_graph_memory.graph import erasing
from adk_graph_memory.graph.connection import Connection, Transaction, UserGraph
from adk_graph_memory.graph.export_lines import SLOT_PROPERTIES
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.records.portable import (
    LOCAL_PROPERTIES,
    NODE_KEYS,
    SECOND_LABELS,
    NodeKey,
    NodePlace,
    PortableEdge,
    PortableNode,
)
from adk_graph_memory.records.turns import Statement, make_memory_id

NODES_PER_PAGE = 100
"""Nodes that one statement returns; a page of artifacts has 100 times 64 KiB at most."""
APPS_PER_PAGE = 100

_BLOCKS = {
    "Session": "sessions",
    "Event": "events",
    "Entity": "entities",
    "Fact": "facts",
    "Revision": "revisions",
    "Ingest": "ingests",
    "Artifact": "artifacts",
    "ArtifactVersion": "artifact_versions",
    "Tombstone": "tombstones",
}


async def iterate_apps(connection: Connection, app_name: str | None) -> AsyncIterator[dict[str, Any]]:
    """Yield the properties of an app, or of all, by name."""
    after = ""
    while rows := await connection.run_statement("exported_apps", app_name=app_name, after=after, limit=APPS_PER_PAGE):
        for row in rows:
            yield _drop_local(row["properties"])
        after = rows[-1]["properties"]["app_name"]


async def iterate_stray_tombstones(connection: Connection) -> AsyncIterator[dict[str, Any]]:
    """Yield the tombstones of users who have gone: their scope, their key, and when they were made."""
    after = ["", ""]
    while rows := await connection.run_statement("stray_tombstones", after=after, limit=ROWS_PER_STATEMENT):
        for row in rows:
            yield dict(row)
        after = [rows[-1]["scope"], rows[-1]["key"]]


async def fetch_marks(graph: UserGraph) -> list[float]:
    """Fetch numbers that differ as soon as somebody wrote to the user."""
    [row] = await graph.run_statement("exported_marks")
    return list(row["marks"])


async def hold_user(transaction: Transaction) -> None:
    """Keep everybody else from writing to the user until the transaction ends."""
    await transaction.run_statement("hold_user_whole")


async def iterate_nodes(
    graph: UserGraph,
    live: VectorSlot | None,
    *,
    without: Collection[str] = (),
    transaction: Transaction | None = None,
) -> AsyncIterator[PortableNode]:
    """Yield all nodes of a user: label by label, in the order of their keys; the user's own node comes first.

    Labels in ``without`` are left out. Pages are read in ``transaction``, or each in one of its own.

    A node carries the relationships that begin at it, but for those that say what has it: these end at it. So no node
    carries many, however many sessions a user has and events a session.
    """
    run = (transaction or graph).run_statement
    for row in await run("exported_user"):
        yield _read_node(graph.connection, row, "User", live, {})
    for label, block in ((label, block) for label, block in _BLOCKS.items() if label not in without):
        after: Sequence[Any] = [-1 if name == "version" else "" for name in NODE_KEYS[label]]
        while rows := await run(f"exported_{block}", after=after, limit=NODES_PER_PAGE):
            refusals = await _fetch_refusals(graph.connection, run, rows) if label == "Event" else {}
            for row in rows:
                yield _read_node(graph.connection, row, label, live, refusals)
            after = [rows[-1]["properties"][name] for name in NODE_KEYS[label]]


async def _fetch_refusals(
    connection: Connection, run: Callable[..., Awaitable[list[Record]]], rows: Sequence[Record]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Fetch what was forgotten of these events, by session and id: in another graph tombstones have other keys."""
    kinds: dict[str, tuple[tuple[str, str], str]] = {}
    for row in rows:
        event = row["properties"]["session_id"], row["properties"]["id"]
        memory_id = make_memory_id(*event)
        kinds[erasing.make_turn_tombstone(connection, memory_id)] = event, "turn"
        kinds[erasing.make_fact_tombstone(connection, memory_id)] = event, "facts"
    refusals: dict[tuple[str, str], dict[str, Any]] = {}
    for row in await run("tombstones", keys=list(kinds)):
        event, kind = kinds[row["key"]]
        refusals.setdefault(event, {})[kind] = row["at"]
    return refusals


def _read_node(
    connection: Connection,
    row: Record,
    label: str,
    live: VectorSlot | None,
    refusals: Mapping[tuple[str, str], Mapping[str, Any]],
) -> PortableNode:
    properties = row["properties"]
    kept = _drop_local(properties)
    if label == "Ingest" and kept.get("state") == "claimed":
        kept["state"] = "pending"  # what somebody reads at the moment waits elsewhere
    edges = filter(None, (_read_edge(connection, edge) for edge in row["edges"]))
    return PortableNode(
        NodePlace(label, _read_key(label, properties)),
        tuple(name for name in (label, *sorted(SECOND_LABELS)) if name in _list_labels(connection, row["labels"])),
        kept,
        sort_edges(edges),
        properties.get(live.vector_property) if live else None,
        properties.get(live.token_property) if live else None,
        refusals.get((properties.get("session_id", ""), properties.get("id", "")), {}) if label == "Event" else {},
    )


def sort_edges(edges: Iterable[PortableEdge]) -> tuple[PortableEdge, ...]:
    """Sort the relationships of a node, so that the same node makes the same line."""
    return tuple(sorted(edges, key=lambda edge: (edge.type, repr(edge.other.key), str(edge.properties.get("key")))))


def _read_edge(connection: Connection, edge: Mapping[str, Any]) -> PortableEdge | None:
    """Read a relationship; None if the other node is nothing of ours."""
    labels = [label for label in _list_labels(connection, edge["labels"]) if label in NODE_KEYS]
    if len(labels) != 1:
        return None
    place = NodePlace(labels[0], _read_key(labels[0], edge["other"]))
    return PortableEdge(edge["type"], edge["is_outgoing"], place, edge["properties"])


def _list_labels(connection: Connection, labels: Sequence[str]) -> list[str]:
    prefix = connection.settings.label_prefix
    return [label.removeprefix(prefix) for label in labels if label.startswith(prefix)]


def _read_key(label: str, properties: Mapping[str, Any]) -> NodeKey:
    return tuple(properties[name] for name in NODE_KEYS[label])


def _drop_local(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what belongs to this graph alone; vectors go beside the properties."""
    return {name: value for name, value in properties.items() if name not in LOCAL_PROPERTIES | SLOT_PROPERTIES}


UserOutcome = Literal["new", "open", "done", "taken"]


@dataclass(frozen=True, slots=True)
class VectorTarget:
    """What becomes of the vectors of an import.

    Without a slot they are dropped; ``marks_missing`` says whether the next ingest makes new ones.
    """

    slot: VectorSlot | None = None
    marks_missing: bool = False


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """How many nodes of a batch were new, and which turns memory was told here to forget."""

    new: int
    refused_turns: frozenset[str] = frozenset()
    refused_readings: frozenset[str] = frozenset()
    """turns from which a fact was forgotten here"""


async def begin_restore(connection: Connection, import_id: str, tombstone_key: str) -> bool:
    """Give an empty graph the tombstone key of the one that was backed up; return whether the graph was empty.

    A graph in which the same restore has begun, and that holds nothing else, counts as empty.
    """
    [row] = await connection.run_statement("begin_restore", id=import_id, key=tombstone_key)
    connection.forget_schema()
    return bool(row["is_empty"])


async def finish_restore(connection: Connection) -> None:
    """Note that all of a backup is there."""
    await connection.run_statement("finish_restore")


async def restore_stray_tombstones(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a few tombstones of users who have gone, as a backup has them."""
    await connection.run_statement("restore_tombstones", rows=[dict(row) for row in rows])


async def import_app(connection: Connection, properties: Mapping[str, Any]) -> bool:
    """Import an app with its state, unless the graph has it; return whether it was new."""
    rows = await connection.run_statement("import_app", app_name=properties["app_name"], properties=dict(properties))
    return bool(rows[0]["is_new"])


async def begin_user(graph: UserGraph, import_id: str, properties: Mapping[str, Any]) -> tuple[UserOutcome, bool]:
    """Begin to import a user, or go on.

    Returns:
        Whether the user is new, half imported (``open``), imported to the end (``done``), or has something here that is
        of no import or of another one (``taken``); and whether something of the user was forgotten here.
    """
    own = {**properties, "app_name": graph.scope.app_name, "user_id": graph.scope.user_id}
    [row] = await graph.run_statement("import_user", id=import_id, properties=own)
    return row["outcome"], row["has_tombstones"]


async def import_nodes(
    graph: UserGraph,
    nodes: Sequence[PortableNode],
    target: VectorTarget,
    *,
    checks_tombstones: bool,
) -> NodeCounts:
    """Import nodes in one transaction.

    Turns that were forgotten here are written without the words of their session, for :func:`erase` to find them.
    """

    async def work(transaction: Transaction) -> NodeCounts:
        turns, readings = frozenset[str](), frozenset[str]()
        if checks_tombstones:
            turns, readings = await _find_refused(graph, transaction, nodes)
        rows = [_convert_node(graph, node, target, turns) for node in nodes]
        slot = target.slot.vector_property if target.slot else None
        [row] = await transaction.run_statement("import_nodes", rows=rows, slot=slot)
        refused = [node.properties for node in nodes if node.properties.get("memory_id") in turns]
        await transaction.run_rows("import_refused", [dict(properties) for properties in refused])
        await transaction.run_rows("import_entombed", _list_refusals(graph.connection, nodes))
        return NodeCounts(row["new"], turns, readings)

    return await graph.transact(work)


async def _find_refused(
    graph: UserGraph, transaction: Transaction, nodes: Sequence[PortableNode]
) -> tuple[frozenset[str], frozenset[str]]:
    """Find the turns of memory that were forgotten here, and those from which a fact was."""
    turns = [node for node in nodes if node.place.label == "Event" and node.properties.get("memory_id")]
    ids = {"turn": dict[str, str](), "facts": dict[str, str]()}
    for node in turns:
        id = node.properties["memory_id"]
        ids["turn"][erasing.make_turn_tombstone(graph.connection, id)] = id
        if "facts" not in node.refusals:  # what the file itself refuses is derived without it
            ids["facts"][erasing.make_fact_tombstone(graph.connection, id)] = id
    keys = [*ids["turn"], *ids["facts"]]
    rows = await transaction.run_statement("tombstones", keys=keys)
    found = {row["key"] for row in rows}
    turn_ids, fact_turn_ids = (frozenset(id for key, id in kind.items() if key in found) for kind in ids.values())
    return turn_ids, fact_turn_ids - turn_ids


def _convert_node(
    graph: UserGraph, node: PortableNode, target: VectorTarget, refused_turns: frozenset[str]
) -> dict[str, Any]:
    properties = dict(node.properties)
    owner = {"app_name": graph.scope.app_name, "user_id": graph.scope.user_id}
    properties |= {name: value for name, value in owner.items() if name in properties}
    if properties.get("memory_id") in refused_turns:
        properties["body"] = None
    if target.slot and node.tokens is not None:
        properties[target.slot.token_property] = node.tokens
    is_embedded = node.vector is not None and target.slot is not None
    if not is_embedded and node.vector is not None and "Memory" in node.labels and target.marks_missing:
        properties["unembedded"] = True
    prefix = graph.connection.settings.label_prefix
    return {
        "place": {"label": node.place.label, "key": list(node.place.key)},
        "labels": [f"{prefix}{label}" for label in node.labels],
        "properties": properties,
        "vector": node.vector if is_embedded else None,
    }


def _list_refusals(connection: Connection, nodes: Sequence[PortableNode]) -> list[dict[str, Any]]:
    """List tombstones that the file tells of, under the keys that they have in this graph."""
    makers = {"turn": erasing.make_turn_tombstone, "facts": erasing.make_fact_tombstone}
    rows = []
    for node in nodes:
        for kind, at in node.refusals.items():
            memory_id = make_memory_id(node.properties["session_id"], node.properties["id"])
            rows.append({"key": makers[kind](connection, memory_id), "at": at})
    return rows


async def import_edges(graph: UserGraph, edges: Sequence[tuple[NodePlace, PortableEdge]]) -> tuple[int, list[int]]:
    """Import relationships in one transaction, each given with the node that carries it.

    Returns:
        How many were new, and the numbers of those whose nodes the graph lacks, by their place in ``edges``.
    """
    rows = []
    for number, (place, edge) in enumerate(edges):
        ends = [_encode_place(place), _encode_place(edge.other)]
        start, end = ends if edge.is_outgoing else reversed(ends)
        row = {"number": number, "type": edge.type, "properties": dict(edge.properties), "from": start, "to": end}
        rows.append(row)

    async def work(transaction: Transaction) -> tuple[int, list[int]]:
        [row] = await transaction.run_statement("import_edges", rows=rows)
        present = set(row["numbers"])
        return row["new"], [number for number in range(len(edges)) if number not in present]

    return await graph.transact(work)


def _encode_place(place: NodePlace) -> dict[str, Any]:
    return {"label": place.label, "key": list(place.key)}


async def finish_user(graph: UserGraph, import_id: str) -> None:
    """Note that all of a user is imported, so that the same file changes nothing any more."""
    await graph.run_statement("import_finished", id=import_id)


async def withdraw_nodes(graph: UserGraph, places: Sequence[NodePlace]) -> None:
    """Delete nodes that were imported; tombstones stay, for what is forgotten somewhere is not to come back."""
    rows = [_encode_place(place) for place in places if place.label != "Tombstone"]
    await graph.run_statement("import_withdrawn", rows=rows)


async def forsake_user(graph: UserGraph, import_id: str) -> None:
    """Delete the user whose nodes were withdrawn; one to whom somebody wrote meanwhile stays, as if never imported."""
    await graph.run_statement("import_forsaken", id=import_id)


@dataclass(frozen=True, slots=True)
class ToldMemory:
    """What the graph has of a statement: its text, time, author and metadata members."""

    text: str
    timestamp: float
    author: str | None
    members: frozenset[str]

    def says(self, statement: Statement, *, is_timed: bool = True) -> bool:
        """Whether the graph has exactly this; without ``is_timed`` the statement's time does not count."""
        return (
            (self.text, self.author) == (statement.text, statement.author)
            and (not is_timed or self.timestamp == statement.at.timestamp())
            and self.members.issuperset(JsonMapDelta.from_values(statement.metadata).members)
        )


async def add_app_state(connection: Connection, app_name: str, state: JsonMapDelta) -> int:
    """Add keys that the app's state lacks, and return how many there were."""
    rows = await connection.run_statement("import_app_state", app_name=app_name, state=state.to_parameter())
    return int(rows[0]["added"])


async def add_user_state(graph: UserGraph, state: JsonMapDelta) -> int:
    """Add keys that the user's state lacks, and return how many there were."""
    rows = await graph.run_statement("import_user_state", state=state.to_parameter())
    return int(rows[0]["added"])


async def finish_session(
    graph: UserGraph, *, id: str, uid: str, revision: int, state: JsonMapDelta, update_time: float
) -> None:
    """Give a session its final state and time, unless it has gone beyond this revision."""
    await graph.run_statement(
        "finish_session_import",
        id=id,
        uid=uid,
        revision=revision,
        state=state.to_parameter(),
        update_time=update_time,
    )


async def fetch_told_memories(graph: UserGraph, ids: Sequence[str]) -> dict[str, ToldMemory]:
    """Fetch those of the memories that the user has, by id."""
    rows = await graph.run_statement("told_memories", ids=list(ids))
    return {
        row["id"]: ToldMemory(row["text"], row["timestamp"], row["author"], frozenset(row["metadata"])) for row in rows
    }
