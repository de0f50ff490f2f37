"""Group commit: appends that arrive while others are under way share a transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adk_graph_memory import errors
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime import telemetry

if TYPE_CHECKING:
    from adk_graph_memory.graph.connection import Connection


Append = Mapping[str, Any]
"""An append as the statement ``append_events`` takes it."""

TRANSACTIONS_AT_ONCE = 2
"""While the server commits one, this process packs the next one."""
APPENDS_PER_TRANSACTION = 100
SLOW_SECONDS = 0.25
"""A transaction that takes longer lets another one start: it probably waits for a lock."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The outcome of an append: ``new``, ``repeated``, ``taken``, ``stale`` or ``closed``.

    ``revision`` is the session's revision after this event was appended, ``latest_revision`` the one now.
    """

    outcome: str
    uid: str
    revision: int
    latest_revision: int
    closed_at: float | None


@dataclass(eq=False, slots=True)
class _WaitingAppend:
    append: Append
    result: asyncio.Future[AppendResult | None]
    links: Sequence[telemetry.Link] = field(default_factory=telemetry.link_current_span)


class AppendQueue:
    """The appends of one event loop to one graph.

    An append starts at once if no other is under way. Those that arrive meanwhile wait and share transactions. Appends
    that fail together run again one by one, so that none fails because of another: an append is safe to repeat.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting = deque[_WaitingAppend]()
        self._under_way = set[Callable[[], None]]()
        self._tasks = set[asyncio.Task[None]]()

    async def store_append(self, scope: Scope, event: Mapping[str, Any]) -> AppendResult | None:
        """Store an append to a session of this user; None if there is no such session.

        The caller stores no other append to the same session meanwhile.
        """
        await self._connection.prepare()
        append = {**event, "scope": scope.key, "app_name": scope.app_name, "user_id": scope.user_id}
        if append["app"]["keys"] or append["user"]["keys"]:  # others may hold these locks for long
            return await self._store_alone(append)
        if not self._under_way:
            end_transaction = self._begin_transaction()
            try:
                return await self._store_alone(append)
            finally:
                end_transaction()
        loop = asyncio.get_running_loop()
        waiting = _WaitingAppend(append, loop.create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            loop.call_soon(self._start_waiting)  # with those that arrive in this turn of the loop
        return await waiting.result

    def _begin_transaction(self) -> Callable[[], None]:
        """Count a transaction as under way; return what ends that, at the latest when the transaction is slow."""

        def end_transaction() -> None:
            timer.cancel()
            if end_transaction in self._under_way:
                self._under_way.remove(end_transaction)
                self._start_waiting()

        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, end_transaction)
        self._under_way.add(end_transaction)
        return end_transaction

    def _start_waiting(self) -> None:
        while self._waiting and len(self._under_way) < TRANSACTIONS_AT_ONCE:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), APPENDS_PER_TRANSACTION))]
            batch = [waiting for waiting in batch if not waiting.result.done()]  # the others were cancelled
            if not batch:
                continue
            work = self._store_together(batch, self._begin_transaction())
            # Not in the context of one append: its span would become the parent of what serves all.
            task = asyncio.get_running_loop().create_task(work, context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _store_together(self, batch: list[_WaitingAppend], end_transaction: Callable[[], None]) -> None:
        batch.sort(key=lambda waiting: (waiting.append["scope"], waiting.append["session_id"]))  # the order of locks
        links = [link for waiting in batch for link in waiting.links]
        try:
            with telemetry.trace_background("append_together", links):
                results = await self._run_statement([waiting.append for waiting in batch], self._half_time)
        except errors.GraphMemoryError:
            end_transaction()
            await asyncio.gather(*map(self._store_again, batch))
        else:
            for waiting, result in zip(batch, results, strict=True):
                if not waiting.result.done():
                    waiting.result.set_result(result)
        finally:
            end_transaction()
            for waiting in batch:
                waiting.result.cancel()  # it has its result, unless this task was cancelled

    async def _store_again(self, waiting: _WaitingAppend) -> None:
        try:
            result = await self._store_alone(waiting.append, self._half_time)
        except errors.GraphMemoryError as error:
            if not waiting.result.done():
                waiting.result.set_exception(error)
        else:
            if not waiting.result.done():
                waiting.result.set_result(result)

    async def _store_alone(self, append: Append, seconds: float | None = None) -> AppendResult | None:
        [result] = await self._run_statement([append], seconds)
        return result

    async def _run_statement(
        self, appends: Sequence[Append], seconds: float | None = None
    ) -> list[AppendResult | None]:
        rows = await self._connection.run_statement("append_events", {"appends": appends}, seconds)
        results: list[AppendResult | None] = [None] * len(appends)
        for row in rows:
            results[row["number"]] = AppendResult(
                row["outcome"], row["uid"], row["revision"], row["latest"], row["closed_at"]
            )
        return results

    @property
    def _half_time(self) -> float:
        """What each of two attempts has of the time that an operation has."""
        return self._connection.settings.limits.database_timeout / 2
