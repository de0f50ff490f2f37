"""Migrate the database's schema to this release, or check that it fits.

Migrations are numbered files of Cypher blocks, forward only and idempotent. A transaction locks the Meta node, so
that a second process waits while the first migrates.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.statements import (
    CypherBlock,
    CypherStatements,
    fill_identifiers,
    load_cypher_files,
    name_index,
    parse_schema_version,
)
from adk_graph_memory.graph.vector_slots import SchemaState, await_indexes, fetch_unchecked_state, make_index_options
from adk_graph_memory.runtime.settings import Settings

_PROPERTY_ORDERS = tuple(itertools.permutations(("n.text", "n.words", "n.scope")))
"""Neo4j allows one full-text index per ordered list of properties, so each analyzer's index gets an order of its own.
That limits the number of analyzers."""


def name_text_index(analyzer: str) -> str:
    """The name of an analyzer's index, before :func:`~adk_graph_memory.graph.statements.name_index`."""
    return f"memory_text_{analyzer}"


def find_missing_indexes(state: SchemaState, settings: Settings) -> list[str]:
    """Names of the full-text indexes that the settings need and the database lacks."""
    return [name_text_index(analyzer) for analyzer in settings.analyzers if analyzer not in state.analyzers]


def format_index_statements(analyzers: Sequence[str], settings: Settings) -> dict[str, str]:
    """The statement that creates each analyzer's index; an index's property order follows from its place here."""
    [template] = (block.text for block in load_cypher_files("cypher")["schema.cypher"] if block.name == "memory_text")
    text = fill_identifiers(template, settings)
    return {
        analyzer: text.format(
            name=name_index(name_text_index(analyzer), settings),
            properties=", ".join(order),
            analyzer=analyzer,
        )
        for analyzer, order in zip(analyzers, _PROPERTY_ORDERS, strict=False)
    }


async def create_missing_indexes(connection: Connection, lock: Transaction, state: SchemaState) -> None:
    """Create the missing indexes and wait until they are ONLINE; indexes of former analyzers stay.

    Args:
        connection: creates the indexes.
        lock: the open transaction that keeps other processes from creating them too.
        state: what the database has.

    Raises:
        errors.ConfigurationError: there would be more analyzers than Neo4j can have indexes.
    """
    settings = connection.settings
    new = [analyzer for analyzer in settings.analyzers if analyzer not in state.analyzers]
    analyzers = [*state.analyzers, *new]
    if len(analyzers) > len(_PROPERTY_ORDERS):
        reason = f"the database has indexes for {', '.join(state.analyzers)}; there is no room for {', '.join(new)}"
        raise errors.ConfigurationError(reason=reason)
    statements = format_index_statements(analyzers, settings)
    for analyzer in new:
        await connection.run_cypher(statements[analyzer], name=name_text_index(analyzer))
    if new:
        await await_indexes(connection, [name_index(name_text_index(analyzer), settings) for analyzer in new])
        await lock.run_statement("record_analyzers", analyzers=analyzers)


_CREATED = re.compile(r"(?:(FULLTEXT|VECTOR) )?(INDEX|CONSTRAINT) `?([\w-]+)`? IF NOT EXISTS FOR \(n:(\w+)\)")
_PROPERTY = re.compile(r"\bn\.(\w+)")


class IndexShape(NamedTuple):
    """What tells two indexes apart beside their names."""

    type: str
    is_constraint: bool
    label: str
    properties: tuple[str, ...]

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> IndexShape:
        """Read the shape of an index from a row of ``indexes``."""
        return cls(row["type"], row["is_constraint"], row["label"], tuple(row["properties"]))


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """An index or constraint that a database should have, and the statement that creates it."""

    name: str
    shape: IndexShape
    statement: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


def get_schema_version() -> int:
    """The schema version of this release."""
    return max(map(parse_schema_version, load_cypher_files("migrations")))


def knows_schema(version: int, checksum: str | None) -> bool:
    """Whether a migration of this release makes this schema, given the version and the checksum of the migration."""
    return any(
        parse_schema_version(name) == version and compute_checksum(blocks) == checksum
        for name, blocks in load_cypher_files("migrations").items()
    )


async def prepare_schema(connection: Connection) -> str:
    """Check the server and migrate or check the schema, as the settings say.

    Returns:
        The key of the graph's tombstones; empty if nobody has migrated the database.

    Raises:
        errors.UnsupportedServer: the server is too old.
        errors.SchemaMissing: migrations are pending and the settings forbid them.
        errors.SchemaTooNew: a newer release has migrated this database.
        errors.SchemaUnknown: a checkout from before the first release made this schema, or one with another schema.
        errors.LabelConflict: the database has nodes with our labels that are not ours.
    """
    connection.server_line = parse_server_line(await connection.fetch_server_agent())
    await _ensure_schema(connection)
    return (await fetch_unchecked_state(connection)).tombstone_key


async def _ensure_schema(connection: Connection) -> None:
    mode = connection.settings.schema_mode
    if mode == "off":
        return
    missing = list_missing_parts(connection, await fetch_unchecked_state(connection))
    if missing and mode == "auto":
        await migrate_schema(connection)
    elif missing:
        raise errors.SchemaMissing(database=connection.settings.database, missing=", ".join(missing))


def list_missing_parts(connection: Connection, state: SchemaState) -> list[str]:
    """List what migrating would add to a schema in this state: migrations and full-text indexes.

    Raises:
        errors.SchemaTooNew, errors.SchemaUnknown: it is no schema of this release.
    """
    _refuse_other_schema(connection, state)
    return [
        *(name for name, _ in list_pending_migrations(state.version)),
        *find_missing_indexes(state, connection.settings),
    ]


def _refuse_other_schema(connection: Connection, state: SchemaState) -> None:
    if state.version > get_schema_version():
        raise errors.SchemaTooNew(found=state.version, known=get_schema_version())
    if state.version and not knows_schema(state.version, state.checksum):
        raise errors.SchemaUnknown(database=connection.settings.database, found=state.version)


def parse_server_line(agent: str) -> str:
    """The server line of an agent string: ``2026`` for ``Neo4j/2026.08.1``, ``5.26`` for ``Neo4j/5.26.30``.

    Raises:
        errors.UnsupportedServer: the server is of neither line.
    """
    version = agent.partition("/")[2]
    try:
        major, minor = (int(part) for part in version.replace("-", ".").split(".")[:2])
    except ValueError:
        raise errors.UnsupportedServer(found=agent) from None
    if (major, minor) >= (2026, 8):
        return "2026"
    if (major, minor) >= (5, 26):
        return "5.26"
    raise errors.UnsupportedServer(found=agent)


def list_pending_migrations(version: int) -> Iterator[tuple[str, tuple[CypherBlock, ...]]]:
    """The names and blocks of the migrations that a database at this version still needs, in order."""
    return (
        (name, blocks)
        for name, blocks in load_cypher_files("migrations").items()
        if parse_schema_version(name) > version
    )


async def migrate_schema(connection: Connection) -> None:
    """Run the pending migrations; a second process that migrates at the same time waits.

    Raises:
        errors.LabelConflict: the database has nodes with our labels that are not ours.
        errors.IndexNameTaken: another graph's index has a name that ours needs.
    """

    async def migrate_locked(lock: Transaction) -> None:
        await lock.run_statement("hold_schema")
        state = await fetch_unchecked_state(connection)
        _refuse_other_schema(connection, state)  # another process may have been first
        await connection.run_statement("create_names", connection.statements.list_names())
        for name, blocks in list_pending_migrations(state.version):
            texts = {block.name: fill_identifiers(block.text, connection.settings) for block in blocks}
            for block_name, text in texts.items():
                await create_definition(connection, block_name, text)
            await await_indexes(connection, [index.name for text in texts.values() for index in _find_definition(text)])
            await lock.run_statement(
                "record_migration", version=parse_schema_version(name), name=name, checksum=compute_checksum(blocks)
            )
        await create_missing_indexes(connection, lock, state)

    state = await fetch_unchecked_state(connection)
    if not connection.settings.shared_database and state.version == 0:
        await _refuse_taken_labels(connection)
    # The Meta node's constraint comes first: without it two processes could create two Meta nodes to lock.
    [meta_constraint, *_], *_ = load_cypher_files("migrations").values()
    text = fill_identifiers(meta_constraint.text, connection.settings)
    await create_definition(connection, meta_constraint.name, text)
    await connection.transact(migrate_locked, changes_schema=True)


async def create_definition(
    connection: Connection, block_name: str, text: str, parameters: Mapping[str, Any] | None = None
) -> None:
    """Create a constraint or an index, in place of an index that a constraint left behind.

    Neo4j first makes a constraint's index, and refuses the constraint while there is one of its name. A server that
    died in between leaves the index; one whose client went away takes a moment to drop it.
    """
    try:
        await connection.run_cypher(text, parameters, name=block_name)
    except errors.QueryFailed:
        definition = next(_find_definition(text), None)
        if definition is None or not definition.shape.is_constraint:
            raise
        rows = await connection.run_statement("indexes", names=[definition.name])
        if any(IndexShape.read(row)._replace(is_constraint=True) != definition.shape for row in rows):
            raise
        for row in rows:
            if not row["is_constraint"]:
                with suppress(errors.QueryFailed):  # by now its constraint is there, or the next statement says why not
                    await connection.run_cypher(row["drop_statement"])
        await connection.run_cypher(text, parameters, name=block_name)


def compute_checksum(blocks: tuple[CypherBlock, ...]) -> str:
    """A checksum of a migration's statements: 16 hex digits."""
    return hashlib.blake2b("\n".join(block.text for block in blocks).encode(), digest_size=8).hexdigest()


async def _refuse_taken_labels(connection: Connection) -> None:
    own = connection.statements.list_names()["labels"]
    if not await connection.run_statement("labels_in_use", {"labels": own}):
        return
    if labels := [row["label"] for row in await connection.run_statement("foreign_labels")]:
        raise errors.LabelConflict(database=connection.settings.database, labels=", ".join(labels))


def list_definitions(connection: Connection, state: SchemaState) -> list[IndexDefinition]:
    """The indexes and constraints that a database in this state should have."""
    settings = connection.settings
    statements: list[tuple[str, dict[str, Any]]] = [
        (fill_identifiers(block.text, settings), {})
        for name, blocks in load_cypher_files("migrations").items()
        if parse_schema_version(name) <= state.version
        for block in blocks
    ]
    statements += [(text, {}) for text in format_index_statements(state.analyzers, settings).values()]
    if connection.server_line == "2026":
        statements += [
            (connection.statements[f"{nodes}_vectors_{slot.name}"], {"options": make_index_options(slot.dimensions)})
            for slot in state.slots
            for nodes in ("memory", "entity")
        ]
    return [definition for text, parameters in statements for definition in _find_definition(text, parameters)]


def _find_definition(text: str, parameters: Mapping[str, Any] | None = None) -> Iterator[IndexDefinition]:
    """Yield the index or constraint that a statement creates, if it creates one."""
    if created := _CREATED.search(text):
        kind, rule, name, label = created.groups()
        shape = IndexShape(kind or "RANGE", rule == "CONSTRAINT", label, tuple(_PROPERTY.findall(text, created.end())))
        yield IndexDefinition(name, shape, text, parameters or {})


def render_migration_script(settings: Settings, dimensions: int | None = None) -> str:
    """Render all migrations as a ``cypher-shell`` script, for a DBA to read and run.

    Args:
        settings: names of labels and indexes, and the analyzers.
        dimensions: the embedder's numbers per vector, to create its vector indexes too (2026.x; 5.26 needs none).
    """
    schema = {
        block.name: fill_identifiers(block.text, settings) for block in load_cypher_files("cypher")["schema.cypher"]
    }
    names = CypherStatements.from_settings(settings, "2026").list_names()
    lines = [f":param {{{', '.join(f'{kind}: {json.dumps(listed)}' for kind, listed in names.items())}}}"]
    lines.append(f"{schema['create_names']};")
    for name, blocks in load_cypher_files("migrations").items():
        lines.append(f"// {name}")
        lines += [f"{fill_identifiers(block.text, settings)};" for block in blocks]
        version, checksum = parse_schema_version(name), compute_checksum(blocks)
        lines.append(f":param {{version: {version}, name: '{name}', checksum: '{checksum}'}}")
        lines += [f"{schema[block]};" for block in ("hold_schema", "record_migration")]
    lines += [f"{text};" for text in format_index_statements(settings.analyzers, settings).values()]
    lines.append(f":param {{analyzers: {json.dumps(settings.analyzers)}}}")
    lines.append(f"{schema['record_analyzers']};")
    if dimensions is not None:
        config = make_index_options(dimensions)["indexConfig"]
        options = ", ".join(f"`{key}`: {json.dumps(value)}" for key, value in config.items())
        lines.append(f":param {{options: {{indexConfig: {{{options}}}}}}}")
        lines += [f"{schema[block]};" for block in ("memory_vectors_a", "entity_vectors_a")]
    return "\n".join(lines) + "\n"
