"""Look up the indexes of a database, and check that a search can use one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import neo4j

from adk_graph_memory import errors
from adk_graph_memory.index_retrieval.fulltext_retriever import STATEMENTS

_MEMORY_INDEX = re.compile(r"adk_(memory|entity)_(text|vector)")
KIND_NAMES = {"vector": "vector", "fulltext": "full-text"}


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """A vector or full-text index."""

    name: str
    type: str
    is_of_nodes: bool
    labels: Sequence[str]
    properties: Sequence[str]
    dimensions: int | None

    @property
    def is_of_memory(self) -> bool:
        """Whether this package made it, for a memory."""
        return _MEMORY_INDEX.match(self.name) is not None

    def __str__(self) -> str:
        pattern = f":{'|'.join(self.labels)}"
        place = f"{f'({pattern})' if self.is_of_nodes else f'[{pattern}]'} {', '.join(self.properties)}"
        size = f", {self.dimensions} dimensions" if self.dimensions else ""
        return f"{KIND_NAMES[self.type]} {self.name!r} on {place}{size}"


def fetch_indexes(driver: neo4j.Driver) -> list[SearchIndex]:
    """Fetch the vector and full-text indexes of the database; those of memory hold the words of all its users."""
    records, _, _ = driver.execute_query(STATEMENTS["search_indexes"])
    return [index for record in records if not (index := SearchIndex(**record)).is_of_memory]


def check_index(
    indexes: Sequence[SearchIndex], name: str, kind: str, vector: Sequence[float] | None, embedder: str = ""
) -> None:
    """Check that there is an index of this name which a search can use.

    Args:
        indexes: the indexes that there are.
        name: the index's name.
        kind: its type, ``vector`` or ``fulltext``.
        vector: a vector of the embedder's, whose dimension a vector index has to have.
        embedder: the embedder's name.

    Raises:
        errors.ConfigurationError: there is none, or it is another kind of index; the message lists the indexes.
    """
    index = next((index for index in indexes if index.name == name), None)
    if index is None or index.type != kind:
        problem = f"there is no {KIND_NAMES[kind]} index {name!r}"
        there_are = "; ".join(map(str, indexes)) or "none"
        raise errors.ConfigurationError(reason=f"{problem}. The database has these indexes to search: {there_are}")
    if not index.is_of_nodes:
        raise errors.ConfigurationError(
            reason=f"the index {name!r} is one of relationships: {index}; name one of nodes"
        )
    if kind == "vector" and vector is not None and index.dimensions not in (None, len(vector)):
        reason = (
            f"the vector index {name!r} has {index.dimensions} dimensions, but the embedder {embedder} makes vectors"
        )
        raise errors.ConfigurationError(
            reason=f"{reason} of {len(vector)}: pass the embedder that the index was filled by"
        )
