"""Rename indexes and constraints that an earlier version of this package named by another rule.

Neo4j cannot rename an index, so it is dropped and created again. Which index is ours follows from its type, label and
properties, whatever its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adk_graph_memory.graph import analyzers
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.queries import CypherBlock, fill_identifiers, load_cypher_files, parse_migration_number
from adk_graph_memory.graph.vector_slots import SchemaState, await_indexes, fetch_index_states, make_index_options
from adk_graph_memory.settings import Settings

_CREATED = re.compile(r"(?:(FULLTEXT|VECTOR) )?(INDEX|CONSTRAINT) `?([\w-]+)`? IF NOT EXISTS FOR \(n:(\w+)\)")
_DROPPED = re.compile(r"INDEX (\w+) IF EXISTS")
_PROPERTY = re.compile(r"\bn\.(\w+)")


class _IndexSchema(NamedTuple):
    """What Neo4j tells two indexes apart by, their names aside."""

    type: str
    is_constraint: bool
    label: str
    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """An index or constraint that a database should have, and the statement that creates it."""

    name: str
    schema: _IndexSchema
    statement: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Renaming:
    """An index or constraint to create, and the statement that drops the one of another name, if there is one."""

    definition: IndexDefinition
    drop_statement: str | None


def list_created(blocks: Iterable[CypherBlock], settings: Settings) -> list[str]:
    """The names of the indexes and constraints that these blocks create."""
    return [match[3] for block in blocks if (match := _CREATED.search(fill_identifiers(block.text, settings)))]


def list_definitions(connection: Connection, state: SchemaState) -> list[IndexDefinition]:
    """The indexes and constraints that a database in this state should have."""
    settings = connection.settings
    statements: list[tuple[str, dict[str, Any]]] = [
        (fill_identifiers(block.text, settings), {})
        for file, blocks in load_cypher_files("migrations").items()
        if parse_migration_number(file) <= state.version
        for block in blocks
    ]
    statements += [(text, {}) for text in analyzers.make_index_statements(state.analyzers, settings).values()]
    if connection.server_line == "2026":
        statements += [
            (connection.statements[f"{nodes}_vectors_{slot.name}"], {"options": make_index_options(slot.dimensions)})
            for slot in state.slots
            for nodes in ("memory", "entity")
        ]
    definitions: dict[str, IndexDefinition] = {}
    for text, parameters in statements:
        if created := _CREATED.search(text):
            kind, rule, name, label = created.groups()
            properties = tuple(_PROPERTY.findall(text, created.end()))
            schema = _IndexSchema(kind or "RANGE", rule == "CONSTRAINT", label, properties)
            definitions[name] = IndexDefinition(name, schema, text, parameters)
        elif dropped := _DROPPED.search(text):
            del definitions[dropped[1]]
    return list(definitions.values())


async def list_renamings(connection: Connection, state: SchemaState) -> list[Renaming]:
    """The indexes and constraints that have another name in the database, or are missing from it."""
    [lookup] = load_cypher_files("migrations")["0006_index_names.cypher"]
    rows = await connection.run_cypher(fill_identifiers(lookup.text, connection.settings))
    existing = {
        _IndexSchema(row["type"], row["is_constraint"], "|".join(row["labels"]), tuple(row["properties"])): row
        for row in rows
    }
    renamings = []
    for definition in list_definitions(connection, state):
        row = existing.get(definition.schema)
        if row is None or row["name"] != definition.name:
            renamings.append(Renaming(definition, row["drop_statement"] if row else None))
    return renamings


async def rename_indexes(connection: Connection, state: SchemaState) -> None:
    """Give every index and constraint its name and wait until they are ONLINE; may run in two processes at once.

    Each is created right after the one of the former name is dropped: Neo4j takes no constraint's successor in the
    transaction that drops it. A process that dies in between leaves one that is missing, and the next one creates it.

    Raises:
        errors.IndexNameTaken: another graph's index has a name that ours needs.
    """
    renamings = await list_renamings(connection, state)
    names = [renaming.definition.name for renaming in renamings]
    await fetch_index_states(connection, names)  # before anything is dropped: raises if a name is taken
    for renaming in renamings:
        if renaming.drop_statement:
            await connection.run_cypher(renaming.drop_statement, name="drop_index")
        await connection.run_cypher(renaming.definition.statement, renaming.definition.parameters, name="create_index")
    await await_indexes(connection, names)
