"""Check whether a memory can be used: its database, schema, embedder and queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.graph import ingest_queue, invariants, schema
from adk_graph_memory.graph.vector_slots import VectorSlot, check_slot_owner, fetch_unchecked_state
from adk_graph_memory.language.text import format_count
from adk_graph_memory.memory.engine import Engine
from adk_graph_memory.memory.vectors import LOAD_RETRY_PAUSE
from adk_graph_memory.records.health import Health, HealthProblem
from adk_graph_memory.records.reports import Finding


async def check_health(engine: Engine) -> Health:
    """Check a memory; :meth:`.GraphMemory.health` says how."""
    return await _HealthCheck(engine).check_memory()


class _HealthCheck:
    """Collects what is known of a memory, and what is wrong with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._connection = engine, engine.connection
        self._known, self._problems = dict[str, Any](), list[HealthProblem]()
        self._live_slot: VectorSlot | None = None

    async def check_memory(self) -> Health:
        with self._collect_error():
            settings = self._connection.settings
            self._known |= {"address": self._connection.shown_uri, "database": settings.database}
            # A statement that waits in vain ends before this does, and drops its dead connections.
            async with asyncio.timeout(settings.limits.database_timeout + 1.0):
                await self._check_database()
        if self._known:  # else the settings cannot be read
            with self._collect_error():
                await self._check_embedder()
        return Health(**self._known, problems=tuple(self._problems))

    @contextmanager
    def _collect_error(self, *, is_blocking: bool = True) -> Iterator[None]:
        try:
            yield
        except (errors.GraphMemoryError, TimeoutError) as error:
            problem = self._connection.make_timeout_error() if isinstance(error, TimeoutError) else error
            self._problems.append(HealthProblem(type(problem).__name__, str(problem), is_blocking=is_blocking))

    async def _check_database(self) -> None:
        connection = self._connection
        self._known["server"] = agent = await connection.fetch_server_agent()
        connection.server_line = schema.parse_server_line(agent)
        state, mode = await fetch_unchecked_state(connection), connection.settings.schema_mode
        self._known["schema_version"], self._live_slot = state.version, state.live_slot
        missing = [] if mode == "off" and state.version else schema.list_missing_parts(connection, state)
        if missing and mode != "auto":
            raise errors.SchemaMissing(database=connection.settings.database, missing=", ".join(missing))
        if missing:  # the first use migrates; a check changes nothing
            return
        if state.is_restoring:
            text = "A backup is not restored to its end. Run the same `adk-graph-memory restore` again: it continues."
            self._problems.append(HealthProblem("unfinished_restore", text))
        if mode != "off":
            faults = await invariants.find_schema_faults(connection, state)
            self._add_finding(Finding.make("missing_indexes", len(faults.missing), details=faults.missing))
            self._add_finding(Finding.make("offline_indexes", len(faults.offline), details=faults.offline))
        self._known["queue"] = queue = await ingest_queue.count_waiting_ingests(connection)
        if queue.failed:
            text = (
                f"{format_count(queue.failed, 'request')} to remember failed and stay pending. "
                "`adk-graph-memory ingest --pending` tries again, and says why they fail."
            )
            self._problems.append(HealthProblem("failed_ingests", text, queue.failed, is_blocking=False))

    def _add_finding(self, finding: Finding) -> None:
        if finding.count:
            text = f"{finding.count} {finding.text} ({', '.join(finding.details)}). {finding.way_out}"
            self._problems.append(HealthProblem(finding.invariant, text, finding.count))

    async def _check_embedder(self) -> None:
        vectors = self._engine.vectors
        if (embedder := vectors.embedder) is None:
            return
        self._known["embedder"] = errors.shorten_embedder_names(embedder.name)
        # A process that outlives a switch to another embedder goes on, with the old vectors or by full text.
        goes_on = vectors.slot_tracker.slot is not None or vectors.slot_tracker.is_outdated
        with self._collect_error(is_blocking=not goes_on):
            check_slot_owner(self._live_slot, embedder.name)
        with self._collect_error():
            if embedder.loading_state == "failed":  # nobody asks a memory that is not ready, so the check tries again
                await embedder.wait_until_ready(0.0, retry_pause=LOAD_RETRY_PAUSE)
        self._known["embedder_state"] = embedder.loading_state
