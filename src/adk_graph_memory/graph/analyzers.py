"""The analyzers of the settings go in; a full-text index of the memories comes out for each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.queries import fill_identifiers, load_cypher_files
from adk_graph_memory.graph.vector_slots import SchemaState, await_indexes
from adk_graph_memory.settings import Settings

_PROPERTY_ORDERS = tuple(itertools.permutations(("n.text", "n.words", "n.scope")))
"""Neo4j has one full-text index for the same properties in the same order, so these are as many as there can be."""


def name_text_index(analyzer: str) -> str:
    """What the index of an analyzer is called, before the deployment's prefix."""
    return f"memory_text_{analyzer.replace('-', '_')}"


def find_missing_indexes(found: SchemaState, settings: Settings) -> list[str]:
    """The indexes that the settings ask for and the database has not."""
    return [name_text_index(analyzer) for analyzer in settings.analyzers if analyzer not in found.analyzers]


def make_index_statements(chosen: Sequence[str], settings: Settings) -> dict[str, str]:
    """What makes the index of each analyzer, in their order."""
    [template] = (block.text for block in load_cypher_files("cypher")["schema.cypher"] if block.name == "memory_text")
    text = fill_identifiers(template, settings)
    return {
        analyzer: text.format(
            name=fill_identifiers(f"@{name_text_index(analyzer)}", settings),
            properties=", ".join(order),
            analyzer=analyzer,
        )
        for analyzer, order in zip(chosen, _PROPERTY_ORDERS, strict=False)
    }


async def create_missing_indexes(connection: Connection, lock: Transaction, found: SchemaState) -> None:
    """Makes what indexes are missing; those of analyzers that are not asked for any more stay.

    Args:
        connection: what makes them, and waits until they are ONLINE.
        lock: keeps other processes from making the same.
        found: what the database has.

    Raises:
        errors.ConfigurationError: there would be more analyzers than Neo4j can have indexes.
    """
    settings = connection.settings
    new = [analyzer for analyzer in settings.analyzers if analyzer not in found.analyzers]
    chosen = [*found.analyzers, *new]
    if len(chosen) > len(_PROPERTY_ORDERS):
        reason = f"the database has indexes for {', '.join(found.analyzers)}; there is no room for {', '.join(new)}"
        raise errors.ConfigurationError(reason=reason)
    texts = make_index_statements(chosen, settings)
    for analyzer in new:
        await connection.run_cypher(texts[analyzer], name=name_text_index(analyzer))
    if new:
        await await_indexes(connection, [name_text_index(analyzer) for analyzer in new])
        await lock.run_statement("record_analyzers", analyzers=chosen)
