"""The graph as one memory sees it: every statement it runs is bound to that memory's scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from neo4j import Record

from adk_graph_memory.graph.connection import Connection, Parameters, Transaction
from adk_graph_memory.records.scopes import Scope

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UserGraph:
    """Runs the statements about one user, with the user's scope filled in, and no other statement.

    ``Connection`` runs what concerns nobody or everybody, and refuses a user's statements.
    """

    connection: Connection
    scope: Scope

    async def run_statement(
        self, name: str, parameters: Parameters | None = None, within: float | None = None, /, **more: Any
    ) -> list[Record]:
        """Run a statement about this user, as :meth:`Connection.run_statement` does.

        Raises:
            errors.ScopeError: the statement is not about one user, or a parameter names a scope.
        """
        return await self.connection.run_statement(name, parameters, within, self.scope, **more)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]], *, is_bounded: bool = True) -> T:
        """Run ``work`` in one transaction, whose statements are about this user too."""
        return await self.connection.transact(work, is_bounded=is_bounded, scope=self.scope)
