"""Review what a guard holds back: list it, release it, or reject it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from adk_graph_memory import consolidation, errors, graph, telemetry
from adk_graph_memory.erasure import Erasure
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.records import Scope
from adk_graph_memory.records.guard import HeldFact
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.turns import is_evidence
from adk_graph_memory.rewriting import Rewriter


class Reviews:
    """What reviews held facts; :class:`adk_graph_memory.GraphMemory` does."""

    connection: graph.Connection
    vectors: GraphVectors

    @telemetry.trace_operation("list_memories")
    async def held_facts(self, *, app_name: str, user_id: str) -> list[HeldFact]:
        """List the facts that a guard holds back, in the order in which they were read."""
        connection = await graph.prepare_connection(self.connection)
        return await graph.held_facts.fetch_held_facts(connection, Scope(app_name, user_id))

    @telemetry.trace_operation("update_memory")
    async def release(self, id: str, *, app_name: str, user_id: str) -> HeldFact:
        """Remember a held fact, as if no guard had held it; return what was held.

        Args:
            id: as in ``HeldFact.id``.
            app_name, user_id: whose memory it is.

        Raises:
            errors.NotFound: nothing of this id is held of this user.
        """
        return await self._review(id, Scope(app_name, user_id), _release_fact)

    @telemetry.trace_operation("delete_memory")
    async def reject(self, id: str, *, app_name: str, user_id: str) -> HeldFact:
        """Delete a held fact for good; return what was held.

        The turns of a session that it was read from stay. A statement goes if nothing else was read in it. The errors
        are those of :meth:`release`.
        """
        scope = Scope(app_name, user_id)
        held = await self._review(id, scope, _reject_fact)
        if is_evidence(held.session_id):
            await Rewriter(self.connection, self.vectors).erase_memories(scope, Erasure.select_idle_evidence)
        return held

    async def _review(self, id: str, scope: Scope, change: Callable[[Reading, int], Reading]) -> HeldFact:
        connection = await graph.prepare_connection(self.connection)
        facts = await graph.held_facts.fetch_held_facts(connection, scope)
        held = next((fact for fact in facts if fact.id == id), None)
        if held is None:
            raise errors.NotFound(what=f"held fact {id!r} of this user", where="`adk-graph-memory review`")

        def revise(reading: Reading) -> Reading:
            refs = [fact.ref for fact in reading.held if graph.held_facts.make_held_id(reading.id, fact.ref) == id]
            return change(reading, refs[0]) if refs else reading

        await Rewriter(connection, self.vectors).revise_readings(scope, revise)
        return held


def _release_fact(reading: Reading, ref: int) -> Reading:
    return replace(reading, held=tuple(fact for fact in reading.held if fact.ref != ref), is_reviewed=True)


def _reject_fact(reading: Reading, ref: int) -> Reading:
    reading = _release_fact(reading, ref)
    return replace(reading, extraction=consolidation.withhold_facts(reading.extraction, {ref}))
