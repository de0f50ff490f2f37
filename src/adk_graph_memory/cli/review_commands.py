"""The commands ``review``, ``release`` and ``reject``: what a guard holds back, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import adk_graph_memory
from adk_graph_memory.cli.application import MEMORY_PANEL, AppOption, UserOption, YesOption, check_owner, command
from adk_graph_memory.cli.output import Output, add_details, announce, confirm, format_day, make_grid
from adk_graph_memory.language.wording import join_lines

if TYPE_CHECKING:
    from adk_graph_memory.records.guard import HeldFact

HeldId = Annotated[str, typer.Argument(metavar="ID", help="The id of a held fact, as `review` prints it.")]


@command(MEMORY_PANEL)
async def review(app_name: AppOption, user_id: UserOption) -> Output:
    """List the facts that a guard holds back, each with the rule and the words that it rests on."""
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        facts = await memory.held_facts(app_name=app_name, user_id=user_id)
    if not facts:
        await check_owner(app_name, user_id)
        return Output(facts, "Nothing is held.")
    rows = [(format_day(fact.said_at), fact.rule, _describe_fact(fact)) for fact in facts]
    return Output(facts, make_grid(rows), ["Remember one with `release ID`; delete it for good with `reject ID`."])


@command(MEMORY_PANEL)
async def release(id: HeldId, app_name: AppOption, user_id: UserOption) -> Output:
    """Remember a fact that a guard held back."""
    announce("Releasing")
    async with adk_graph_memory.GraphMemory() as memory:
        fact = await memory.release(id, app_name=app_name, user_id=user_id)
    return Output(fact, join_lines(f"Remembered: {fact.text}"))


@command(MEMORY_PANEL)
async def reject(id: HeldId, app_name: AppOption, user_id: UserOption, yes: YesOption = False) -> Output:
    """Delete a fact that a guard held back; the turn that it was read from stays."""
    confirm(f"Delete the held fact {id} for good?", yes=yes)
    announce("Rejecting")
    async with adk_graph_memory.GraphMemory() as memory:
        fact = await memory.reject(id, app_name=app_name, user_id=user_id)
    return Output(fact, join_lines(f"Deleted: {fact.text}"))


def _describe_fact(fact: HeldFact) -> Text:
    quotes = (f"“{quote}”" for quote in fact.quotes)
    said = f"{fact.author} ({fact.origin}) in session {fact.session_id}"
    return add_details(fact.text, fact.reason, *quotes, said, fact.id)
