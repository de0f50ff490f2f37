"""Commands around sessions: which there are, and what was said in one."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from rich.cells import cell_len
from rich.table import Table

from adk_graph_memory.adk import Neo4jSessionService, codec
from adk_graph_memory.cli.application import (
    CONVERSATIONS,
    After,
    AppName,
    AsJson,
    Limit,
    OfUser,
    UserId,
    app,
    check_user,
    console,
    failing_well,
    hint,
    show_json,
    stored_session,
)
from adk_graph_memory.cli.layout import listed, minute, plain, with_details


@app.command(rich_help_panel=CONVERSATIONS)
def sessions(
    app_name: AppName,
    user_id: OfUser = None,
    limit: Limit = 20,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List an app's sessions, most recently active first."""

    async def found_() -> list[Session]:
        async with Neo4jSessionService() as service:
            found = await service.list_sessions(
                app_name=app_name, user_id=user_id, limit=limit, after=after, newest_first=True
            )
            return found.sessions

    with failing_well(as_json):
        found = asyncio.run(found_())
        if not found and user_id is not None:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        show_json([one.model_dump(mode="json", by_alias=True) for one in found])
        return
    console.print(_table(found) if found else "No sessions.")
    if len(found) == limit:
        hint(f"There may be more: --after {found[-1].id}")


def _table(found: list[Session]) -> Table:
    """A session's id is what other commands take: it gets the room that it needs before anything else does."""
    table = Table("last active", show_edge=False)
    widest = max(cell_len("session"), *(cell_len(one.id) for one in found))
    table.add_column("session", overflow="fold", width=min(MOST_OF_AN_ID, widest))
    table.add_column("user", overflow="fold")
    for one in found:
        state = json.dumps(one.state, ensure_ascii=False, default=str) if one.state else ""
        table.add_row(minute(one.last_update_time), with_details(one.id, _short(state)), plain(one.user_id))
    return table


@app.command(rich_help_panel=CONVERSATIONS)
def events(
    session_id: Annotated[str, typer.Argument(help="The session's id.")],
    app_name: AppName,
    user_id: UserId,
    limit: Limit = 50,
    after: Annotated[int | None, typer.Option(help="The number of the last event of the page before.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what was said and done in a session, oldest first."""

    async def page() -> tuple[list[Event], int | None]:
        async with Neo4jSessionService() as service:
            page = await service.list_events(
                app_name=app_name, user_id=user_id, session_id=session_id, after_seq=after, limit=limit
            )
            return page.events, page.last_seq

    with failing_well(as_json):
        found, last = asyncio.run(page())
        if not found:
            asyncio.run(stored_session(app_name, user_id, session_id, recent=0))
    if as_json:
        named = {"session_id": session_id}
        show_json([named | one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found])
        return
    rows = ((minute(one.timestamp), plain(one.author), plain(_told(one))) for one in found)
    console.print(listed(rows) if found else "No events.")
    if len(found) == limit:
        hint(f"There may be more: --after {last}")


MOST_OF_AN_ID = 36
"""Columns that an id may take of a line: those of a UUID."""


def _told(event: Event) -> str:
    """What an event says, or does."""
    calls = [f"calls {call.name}" for call in event.get_function_calls()]
    answers = [f"{answer.name} has answered" for answer in event.get_function_responses()]
    return codec.text_of(event) or ", ".join(calls + answers) or (event.error_code or "…")


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"
