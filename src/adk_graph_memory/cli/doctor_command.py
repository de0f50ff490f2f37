"""The command ``doctor``: whether memory holds what was said makes of it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from adk_graph_memory.cli.application import MEMORY_PANEL, check_owner, command
from adk_graph_memory.cli.output import Output, announce, format_count, make_table, number_column, text_column
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Checkup


@command(MEMORY_PANEL)
async def doctor(
    app_name: Annotated[str | None, typer.Option("--app", help="Of this app only.")] = None,
    user_id: Annotated[str | None, typer.Option("--user", help="Of this user only.")] = None,
    mend: Annotated[bool, typer.Option("--mend", help="Also write what differs.")] = False,
) -> Output:
    """Check that the graph holds of each user what their words make of it; exit code 1 if it does not."""
    announce("Waiting for Neo4j")
    checkups: list[Checkup] = []
    async with GraphMemory() as memory:
        async for checkup in memory.check_memories(app_name=app_name, user_id=user_id, mend=mend):
            checkups.append(checkup)
            announce(f"Checked {format_count(len(checkups), 'user')}")
    if not checkups and (app_name or user_id):
        await check_owner(app_name, user_id)
    ill = [checkup for checkup in checkups if checkup.differences and not checkup.is_mended]
    columns = [
        *map(text_column, ("app", "user")),
        *map(number_column, ("facts", "differences", "waiting", "no vector")),
    ]
    rows = [
        (one.app_name, one.user_id, *map(str, (one.facts, one.differences, one.waiting, one.unembedded)))
        for one in checkups
        if one.differences or one.waiting or one.unembedded
    ]
    summary = f"{format_count(len(checkups), 'user')} checked: {_describe(checkups, ill)}"
    hint = "`adk-graph-memory doctor --mend` writes what differs." if ill else None
    text = make_table(columns, rows) if rows else Text(summary)
    return Output(checkups, text, [summary if rows else None, hint], exit_code=1 if ill else 0)


def _describe(checkups: list[Checkup], ill: list[Checkup]) -> str:
    mended = sum(checkup.is_mended for checkup in checkups)
    if ill:
        return f"{format_count(len(ill), 'memory', 'memories')} not as derived."
    return f"{format_count(mended, 'memory', 'memories')} mended." if mended else "all as derived."
