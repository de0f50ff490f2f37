"""Create a full-text index of the memories for each analyzer of the settings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.queries import fill_identifiers, load_cypher_files, name_index
from adk_graph_memory.graph.vector_slots import SchemaState, await_indexes
from adk_graph_memory.settings import Settings

_PROPERTY_ORDERS = tuple(itertools.permutations(("n.text", "n.words", "n.scope")))
"""Neo4j allows one full-text index per ordered list of properties, so each analyzer's index gets an order of its own.
That limits the number of analyzers."""


def name_text_index(analyzer: str) -> str:
    """The name of an analyzer's index, before :func:`~adk_graph_memory.graph.queries.name_index`."""
    return f"memory_text_{analyzer}"


def find_missing_indexes(state: SchemaState, settings: Settings) -> list[str]:
    """Names of the full-text indexes that the settings need and the database lacks."""
    return [name_text_index(analyzer) for analyzer in settings.analyzers if analyzer not in state.analyzers]


def make_index_statements(analyzers: Sequence[str], settings: Settings) -> dict[str, str]:
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
    statements = make_index_statements(analyzers, settings)
    for analyzer in new:
        await connection.run_cypher(statements[analyzer], name=name_text_index(analyzer))
    if new:
        await await_indexes(connection, [name_index(name_text_index(analyzer), settings) for analyzer in new])
        await lock.run_statement("record_analyzers", analyzers=analyzers)
