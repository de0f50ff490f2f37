"""Write the memories of a source into the graph as statements, so that a second import finds them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from adk_graph_memory import consolidation, graph
from adk_graph_memory.importing.source_records import SourceMemory
from adk_graph_memory.importing.tally import Tally
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope, Statement

BATCH_SIZE = 100
"""Memories that are embedded and written together."""


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """Writes memories of one source, whose name is part of their ids."""

    memory: GraphMemory
    tally: Tally
    source: str

    async def write_memories(self, rows: Sequence[SourceMemory]) -> None:
        """Write what the graph lacks of these memories; each names its app and user."""
        scopes: dict[Scope, dict[str, SourceMemory]] = {}
        for row in rows:
            # The later of two rows with one id is what counts, as if they came in different batches.
            scopes.setdefault(Scope(row.app_name or "", row.user_id or ""), {})[row.id] = row
        for scope, by_id in scopes.items():
            await self._write_scope(scope, list(by_id.values()))

    async def _write_scope(self, scope: Scope, rows: Sequence[SourceMemory]) -> None:
        now, redactor = datetime.now(UTC), self.memory.redactor
        statements = await redactor.redact_statements([self._make_statement(row, now) for row in rows])
        ids = [consolidation.make_statement_id(statement.id or "") for statement in statements]
        known = await graph.imports.fetch_told_memories(self.memory.connection, scope, ids)
        wanted = list[Statement]()
        for row, id, statement in zip(rows, ids, statements, strict=True):
            if (told := known.get(id)) is None:
                wanted.append(statement)
                self.tally.count("memories", "new")
            elif told.says(statement, is_timed=row.at is not None):
                self.tally.count("memories", "known")
            else:
                wanted.append(statement)
                self.tally.count("memories", "changed")
        if wanted:
            await self.memory.add_statements(wanted, app_name=scope.app_name, user_id=scope.user_id)

    def _make_statement(self, row: SourceMemory, now: datetime) -> Statement:
        return Statement(
            text=row.text,
            at=row.at or now,
            author=row.author,
            id=f"{self.source}:{row.id}",
            metadata={**row.metadata, "imported_from": self.source},
            origin=row.origin,
        )
