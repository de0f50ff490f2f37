"""A connection goes in; a database whose schema fits this release comes out, or the reason why not.

Migrations are numbered files of blocks, forward only and idempotent. A transaction that holds the Meta node keeps a
second process waiting while the first migrates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from adk_graph_memory import errors
from adk_graph_memory.graph import analyzers
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.queries import CypherBlock, fill_identifiers, load_cypher_files
from adk_graph_memory.graph.vector_slots import await_indexes, fetch_schema_state, make_index_options
from adk_graph_memory.settings import Settings


def get_schema_version() -> int:
    """The schema version of this release."""
    return max(parse_migration_number(name) for name in load_cypher_files("migrations"))


def parse_migration_number(file_name: str) -> int:
    """``0001_sessions_and_memory.cypher`` → 1."""
    return int(file_name.partition("_")[0])


async def prepare_connection(connection: Connection) -> Connection:
    """The connection, its schema made fit (or checked) at the first call as the settings' ``schema`` says.

    Raises:
        errors.UnsupportedServer: the server is older than we can use.
        errors.SchemaMissing: migrations are due and the settings forbid them.
        errors.SchemaTooNew: a newer release has migrated this database.
        errors.LabelConflict: somebody else's nodes carry our labels.
    """
    if connection.is_prepared:
        return connection
    async with connection.locks.hold_lock("prepare"):
        if not connection.is_prepared:
            connection.server_line = parse_server_line(await connection.fetch_server_agent())
            await _ensure_schema(connection)
            connection.is_prepared = True
    return connection


async def _ensure_schema(connection: Connection) -> None:
    mode = connection.settings.schema_mode
    if mode == "off":
        return
    found = await fetch_schema_state(connection)
    if found.version > get_schema_version():
        raise errors.SchemaTooNew(found=found.version, known=get_schema_version())
    missing = [
        *(name for name, _ in list_pending_migrations(found.version)),
        *analyzers.find_missing_indexes(found, connection.settings),
    ]
    if missing and mode == "auto":
        await migrate_schema(connection)
    elif missing:
        raise errors.SchemaMissing(database=connection.settings.database, missing=", ".join(missing))


def parse_server_line(agent: str) -> str:
    """``Neo4j/2026.08.1`` → ``2026``; ``Neo4j/5.26.30`` → ``5.26``.

    Raises:
        errors.UnsupportedServer: it is neither.
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
    """The migrations that a database at this version still needs, in order."""
    return (
        (name, blocks)
        for name, blocks in load_cypher_files("migrations").items()
        if parse_migration_number(name) > version
    )


async def migrate_schema(connection: Connection) -> None:
    """Brings the schema to this release's version; a second process that starts meanwhile waits.

    The Meta node's own constraint comes first: without it two processes could make two such nodes.

    Raises:
        errors.LabelConflict: the database holds nodes of somebody else's under our labels.
    """

    async def under_lock(lock: Transaction) -> None:
        await lock.run_statement("hold_schema")
        found = await fetch_schema_state(connection)
        for name, blocks in list_pending_migrations(found.version):
            for block in blocks:
                await connection.run_cypher(fill_identifiers(block.text, connection.settings), name=block.name)
            made = [block.name for block in blocks if block.text.startswith("CREATE")]
            await await_indexes(connection, made)
            await lock.run_statement(
                "record_migration", version=parse_migration_number(name), name=name, checksum=compute_checksum(blocks)
            )
        await analyzers.create_missing_indexes(connection, lock, found)

    if not connection.settings.shared_database and (await fetch_schema_state(connection)).version == 0:
        await _refuse_taken_labels(connection)
    first, *_ = load_cypher_files("migrations").values()
    await connection.run_cypher(fill_identifiers(first[0].text, connection.settings), name=first[0].name)
    await connection.transact(under_lock)


def compute_checksum(blocks: tuple[CypherBlock, ...]) -> str:
    """What a migration's statements were, in 16 hex characters."""
    return hashlib.blake2b("\n".join(block.text for block in blocks).encode(), digest_size=8).hexdigest()


async def _refuse_taken_labels(connection: Connection) -> None:
    if taken := [record["label"] for record in await connection.run_statement("foreign_labels")]:
        raise errors.LabelConflict(database=connection.settings.database, labels=", ".join(taken))


def make_migration_script(settings: Settings, dimensions: int | None = None) -> str:
    """All migrations as a script for ``cypher-shell``, for a DBA to read and run.

    Args:
        settings: what labels and indexes are called.
        dimensions: numbers a vector of your embedder, to make its vector indexes too (2026.x; 5.26 needs none).
    """
    schema = {
        block.name: fill_identifiers(block.text, settings) for block in load_cypher_files("cypher")["schema.cypher"]
    }
    lines = []
    for name, blocks in load_cypher_files("migrations").items():
        lines.append(f"// {name}")
        lines += [f"{fill_identifiers(block.text, settings)};" for block in blocks]
        version, checksum = parse_migration_number(name), compute_checksum(blocks)
        lines.append(f":param {{version: {version}, name: '{name}', checksum: '{checksum}'}}")
        lines += [f"{schema[block]};" for block in ("hold_schema", "record_migration")]
    lines += [f"{text};" for text in analyzers.make_index_statements(settings.analyzers, settings).values()]
    lines.append(f":param {{analyzers: {json.dumps(settings.analyzers)}}}")
    lines.append(f"{schema['record_analyzers']};")
    if dimensions is not None:
        options = make_index_options(dimensions)["indexConfig"].items()
        config = ", ".join(f"`{key}`: {json.dumps(value)}" for key, value in options)
        lines.append(f":param {{options: {{indexConfig: {{{config}}}}}}}")
        lines += [f"{schema[block]};" for block in ("memory_vectors_a", "entity_vectors_a")]
    return "\n".join(lines) + "\n"
