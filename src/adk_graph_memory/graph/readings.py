"""Fetch what memory has read of a user's turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from neo4j import Record

from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.fact_rows import convert_datetime
from adk_graph_memory.records import Scope
from adk_graph_memory.records.readings import Reading, decode_reading


async def fetch_readings(connection: Connection | Transaction, scope: Scope) -> list[Reading]:
    """Fetch the user's readings in the order in which they were written."""
    rows = await connection.run_statement("readings", scope=scope.key)
    return await asyncio.to_thread(_decode_rows, rows)


def _decode_rows(rows: Sequence[Record]) -> list[Reading]:
    return [decode_reading(row["reading"], convert_datetime(row["at"])) for row in rows]
