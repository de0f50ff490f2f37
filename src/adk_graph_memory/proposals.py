"""Let agents propose what they must not do: to correct or forget what memory holds. Its owner accepts, or declines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from adk_graph_memory import errors, graph, telemetry
from adk_graph_memory.corrections import Corrections
from adk_graph_memory.forgetting import Forgetting
from adk_graph_memory.records import Scope
from adk_graph_memory.records.history import MemoryChange
from adk_graph_memory.records.proposals import Proposal, ProposalAction
from adk_graph_memory.records.scopes import check_text

AGENT = "agent"
"""Who proposes something, unless the caller says who."""


class Proposals(Corrections, Forgetting):
    """What keeps proposals for the owner; :class:`adk_graph_memory.GraphMemory` does.

    A memory has at most one proposal, the latest, which goes with it.
    """

    @telemetry.trace_operation("propose_update")
    async def propose_correction(
        self, id: str, *, text: str, app_name: str, user_id: str, reason: str = "", by: str = AGENT
    ) -> Proposal:
        """Propose to replace a fact that is wrong; :meth:`accept_proposal` corrects it.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            text: what is true.
            app_name, user_id: whose memory it is.
            reason: why, for the owner.
            by: who proposes it.

        Raises:
            errors.NotFound: this user's memory holds nothing of this id.
            errors.InvalidArgument: it is no fact that can be corrected, or says so already.
        """
        check_text("the text", text)
        if not (new_text := (await self.redactor.redact_text(text)).strip()):
            raise errors.InvalidArgument(reason="the correction is empty: say what is true")
        return await self._propose("correct", id, Scope(app_name, user_id), new_text, reason, by)

    @telemetry.trace_operation("propose_update")
    async def propose_forgetting(
        self, id: str, *, app_name: str, user_id: str, reason: str = "", by: str = AGENT
    ) -> Proposal:
        """Propose to forget a memory for good; :meth:`accept_proposal` forgets it.

        The arguments are those of :meth:`propose_correction`.

        Raises:
            errors.NotFound: this user's memory holds nothing of this id.
        """
        return await self._propose("forget", id, Scope(app_name, user_id), "", reason, by)

    @telemetry.trace_operation("list_memories")
    async def proposals(self, *, app_name: str, user_id: str) -> list[Proposal]:
        """List what agents propose to the owner of a memory, oldest first."""
        connection = await graph.prepare_connection(self.connection)
        return await graph.proposals.fetch_proposals(connection, Scope(app_name, user_id))

    @telemetry.trace_operation("update_memory")
    async def accept_proposal(self, id: str, *, app_name: str, user_id: str, preview: bool = False) -> MemoryChange:
        """Do what an agent proposed, in the owner's name: only call it when the owner says so.

        Args:
            id: as in ``Proposal.id``. A proposal that was replaced since the owner saw it has another one.
            app_name, user_id: whose memory it is.
            preview: only return what would change.

        Returns:
            What changes. :meth:`~adk_graph_memory.GraphMemory.undo` takes a correction back; nothing takes back what
            is forgotten, so its ``ingest_id`` is empty.

        Raises:
            errors.NotFound: nothing of this id is proposed to this user.
        """
        proposal = await self._find_proposal(id, Scope(app_name, user_id))
        if proposal.action == "correct":
            reason = f"proposed by {proposal.by}" + (f": {proposal.reason}" if proposal.reason else "")
            change = await self.correct(
                proposal.memory_id,
                app_name=app_name,
                user_id=user_id,
                text=proposal.text,
                reason=reason,
                preview=preview,
            )
        else:
            change = await self.preview_forget(proposal.memory_id, app_name=app_name, user_id=user_id)
            if not preview:
                await self.forget(proposal.memory_id, app_name=app_name, user_id=user_id)
        if not preview:
            await graph.proposals.withdraw_proposals(self.connection, Scope(app_name, user_id), [id])
        return change

    @telemetry.trace_operation("update_memory")
    async def decline_proposal(self, id: str, *, app_name: str, user_id: str) -> Proposal:
        """Leave everything as it is, and drop a proposal; return what was proposed.

        The errors are those of :meth:`accept_proposal`.
        """
        scope = Scope(app_name, user_id)
        proposal = await self._find_proposal(id, scope)
        await graph.proposals.withdraw_proposals(self.connection, scope, [id])
        return proposal

    async def _propose(
        self, action: ProposalAction, id: str, scope: Scope, text: str, reason: str, by: str
    ) -> Proposal:
        check_text("the id", id)
        check_text("who proposes it", by)
        why = await self._redact_reason(reason)
        connection = await graph.prepare_connection(self.connection)
        target = await graph.proposals.fetch_target(connection, scope, id)
        if action == "correct":
            _check_correction(id, target, text)
        now, is_pinned = datetime.now(UTC), target["is_pinned"]
        proposal = Proposal(uuid4().hex, action, id, target["text"], text, why, by, now, is_pinned)
        await graph.proposals.write_proposal(connection, scope, proposal)
        return proposal

    async def _find_proposal(self, id: str, scope: Scope) -> Proposal:
        check_text("the id", id)
        connection = await graph.prepare_connection(self.connection)
        for proposal in await graph.proposals.fetch_proposals(connection, scope):
            if proposal.id == id:
                return proposal
        raise errors.NotFound(what=f"proposal {id!r} of this user", where="`adk-graph-memory proposals`")


def _check_correction(id: str, target: Mapping[str, Any], text: str) -> None:
    """Refuse to propose what :meth:`Corrections.correct` would refuse to do."""
    if target["kind"] != "fact":
        raise errors.InvalidArgument(reason=f"{id} is what somebody said, and no fact: propose to forget it")
    if target["is_direct"]:
        raise errors.InvalidArgument(reason=f"{id} was added directly, word for word: propose to forget it")
    if target["state"] == "retracted":
        raise errors.InvalidArgument(reason=f"{id} was retracted already: recall what stands in its place")
    if target["text"] == text:
        raise errors.InvalidArgument(reason=f"{id} says so already")
