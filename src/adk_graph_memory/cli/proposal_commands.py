"""The commands ``proposals``, ``accept`` and ``decline``: what agents propose to change, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import adk_graph_memory
from adk_graph_memory.cli.application import MEMORY_PANEL, AppOption, UserOption, YesOption, check_owner, command
from adk_graph_memory.cli.correction_commands import change_memory
from adk_graph_memory.cli.output import Output, add_details, announce, format_day, make_grid
from adk_graph_memory.language.wording import join_lines

if TYPE_CHECKING:
    from adk_graph_memory.records.proposals import Proposal

ProposalId = Annotated[str, typer.Argument(metavar="ID", help="The id of a proposal, as `proposals` prints it.")]


@command(MEMORY_PANEL)
async def proposals(app_name: AppOption, user_id: UserOption) -> Output:
    """List what agents propose to correct or to forget; nothing of it changes until you accept it."""
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        listed = await memory.proposals(app_name=app_name, user_id=user_id)
    if not listed:
        await check_owner(app_name, user_id)
        return Output(listed, "Nothing is proposed.")
    rows = [(format_day(proposal.at), proposal.action, _describe_proposal(proposal)) for proposal in listed]
    return Output(listed, make_grid(rows), ["Do one with `accept ID`; leave everything as it is with `decline ID`."])


@command(MEMORY_PANEL)
async def accept(id: ProposalId, app_name: AppOption, user_id: UserOption, yes: YesOption = False) -> Output:
    """Do what an agent proposed: correct a fact, or forget a memory for good."""
    return await change_memory(
        adk_graph_memory.GraphMemory.accept_proposal, id, app_name=app_name, user_id=user_id, yes=yes
    )


@command(MEMORY_PANEL)
async def decline(id: ProposalId, app_name: AppOption, user_id: UserOption) -> Output:
    """Drop what an agent proposed; memory stays as it is."""
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        proposal = await memory.decline_proposal(id, app_name=app_name, user_id=user_id)
    return Output(proposal, join_lines(f"Declined; memory still says: {proposal.memory_text}"))


def _describe_proposal(proposal: Proposal) -> Text:
    wording = f"→ {proposal.text}" if proposal.action == "correct" else ""
    said = f"{proposal.by}: {proposal.reason}" if proposal.reason else proposal.by
    pinned = "You pinned it." if proposal.is_pinned else ""
    return add_details(proposal.memory_text, *filter(None, (wording, said, pinned)), proposal.id)
