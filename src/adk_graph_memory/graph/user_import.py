"""Write the nodes and relationships of an export into the graph: what it has already stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adk_graph_memory.graph import forgetting
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.queries import make_scope_parameters
from adk_graph_memory.graph.vector_slots import VectorSlot
from adk_graph_memory.records import Scope
from adk_graph_memory.records.portable_rows import NodePlace, PortableEdge, PortableNode
from adk_graph_memory.records.turns import make_memory_id

UserOutcome = Literal["new", "open", "done", "taken"]


@dataclass(frozen=True, slots=True)
class VectorTarget:
    """What becomes of the vectors of an import.

    Without a slot they are dropped; ``marks_missing`` says whether the next ingest is to make them anew.
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


async def import_app(connection: Connection, properties: Mapping[str, Any]) -> bool:
    """Import an app with its state, unless the graph has it; return whether it was new."""
    rows = await connection.run_statement("import_app", app_name=properties["app_name"], properties=dict(properties))
    return bool(rows[0]["is_new"])


async def begin_user(
    connection: Connection, scope: Scope, import_id: str, properties: Mapping[str, Any]
) -> tuple[UserOutcome, bool]:
    """Begin to import a user, or go on.

    Returns:
        Whether the user is new, half imported (``open``), imported to the end (``done``), or has something here that is
        of no import or of another one (``taken``); and whether something of the user was forgotten here.
    """
    own = {**properties, "app_name": scope.app_name, "user_id": scope.user_id}
    [row] = await connection.run_statement("import_user", make_scope_parameters(scope), id=import_id, properties=own)
    return row["outcome"], row["has_tombstones"]


async def import_nodes(
    connection: Connection,
    scope: Scope,
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
            turns, readings = await _find_refused(connection, transaction, scope, nodes)
        rows = [_make_row(connection, scope, node, target, turns) for node in nodes]
        slot = target.slot.vector_property if target.slot else None
        [row] = await transaction.run_statement("import_nodes", scope=scope.key, rows=rows, slot=slot)
        refused = [node.properties for node in nodes if node.properties.get("memory_id") in turns]
        await transaction.run_rows("import_refused", [dict(properties) for properties in refused], scope=scope.key)
        await transaction.run_rows("import_entombed", _list_refusals(connection, nodes), scope=scope.key)
        return NodeCounts(row["new"], turns, readings)

    return await connection.transact(work)


async def _find_refused(
    connection: Connection, transaction: Transaction, scope: Scope, nodes: Sequence[PortableNode]
) -> tuple[frozenset[str], frozenset[str]]:
    """Find the turns of memory that were forgotten here, and those from which a fact was."""
    turns = [node for node in nodes if node.place.label == "Event" and node.properties.get("memory_id")]
    ids = {"turn": dict[str, str](), "facts": dict[str, str]()}
    for node in turns:
        id = node.properties["memory_id"]
        ids["turn"][forgetting.make_turn_tombstone(connection, id)] = id
        if "facts" not in node.refusals:  # what the file itself refuses is derived without it
            ids["facts"][forgetting.make_fact_tombstone(connection, id)] = id
    keys = [*ids["turn"], *ids["facts"]]
    rows = await transaction.run_statement("tombstones", scope=scope.key, keys=keys)
    found = {row["key"] for row in rows}
    turn_ids, fact_turn_ids = (frozenset(id for key, id in kind.items() if key in found) for kind in ids.values())
    return turn_ids, fact_turn_ids - turn_ids


def _make_row(
    connection: Connection, scope: Scope, node: PortableNode, target: VectorTarget, refused_turns: frozenset[str]
) -> dict[str, Any]:
    properties = dict(node.properties)
    owner = {"app_name": scope.app_name, "user_id": scope.user_id}
    properties |= {name: value for name, value in owner.items() if name in properties}
    if properties.get("memory_id") in refused_turns:
        properties["body"] = None
    if target.slot and node.tokens is not None:
        properties[target.slot.token_property] = node.tokens
    is_embedded = node.vector is not None and target.slot is not None
    if not is_embedded and node.vector is not None and "Memory" in node.labels and target.marks_missing:
        properties["unembedded"] = True
    prefix = connection.settings.label_prefix
    return {
        "place": {"label": node.place.label, "key": list(node.place.key)},
        "labels": [f"{prefix}{label}" for label in node.labels],
        "properties": properties,
        "vector": node.vector if is_embedded else None,
    }


def _list_refusals(connection: Connection, nodes: Sequence[PortableNode]) -> list[dict[str, Any]]:
    """List tombstones that the file tells of, under the keys that they have in this graph."""
    makers = {"turn": forgetting.make_turn_tombstone, "facts": forgetting.make_fact_tombstone}
    rows = []
    for node in nodes:
        for kind, at in node.refusals.items():
            memory_id = make_memory_id(node.properties["session_id"], node.properties["id"])
            rows.append({"key": makers[kind](connection, memory_id), "at": at})
    return rows


async def import_edges(
    connection: Connection, scope: Scope, edges: Sequence[tuple[NodePlace, PortableEdge]]
) -> tuple[int, list[int]]:
    """Import relationships in one transaction, each given with the node that carries it.

    Returns:
        How many were new, and the numbers of those whose nodes the graph lacks, by their place in ``edges``.
    """
    rows = []
    for number, (place, edge) in enumerate(edges):
        ends = [_make_place(place), _make_place(edge.other)]
        start, end = ends if edge.is_outgoing else reversed(ends)
        row = {"number": number, "type": edge.type, "properties": dict(edge.properties), "from": start, "to": end}
        rows.append(row)

    async def work(transaction: Transaction) -> tuple[int, list[int]]:
        [row] = await transaction.run_statement("import_edges", scope=scope.key, rows=rows)
        present = set(row["numbers"])
        return row["new"], [number for number in range(len(edges)) if number not in present]

    return await connection.transact(work)


def _make_place(place: NodePlace) -> dict[str, Any]:
    return {"label": place.label, "key": list(place.key)}


async def finish_user(connection: Connection, scope: Scope, import_id: str) -> None:
    """Note that all of a user is imported, so that the same file changes nothing any more."""
    await connection.run_statement("import_finished", scope=scope.key, id=import_id)
