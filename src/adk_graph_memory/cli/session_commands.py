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

from adk_graph_memory.adk import Neo4jSessionService, session_codec
from adk_graph_memory.cli.application import (
    CONVERSATIONS_PANEL,
    AfterOption,
    AppOption,
    JsonOption,
    LimitOption,
    UserFilterOption,
    UserOption,
    app,
    check_user,
    console,
    load_session,
    print_hint,
    print_json,
    report_errors,
)
from adk_graph_memory.cli.layout import add_details, format_timestamp, make_grid, replace_controls


@app.command(rich_help_panel=CONVERSATIONS_PANEL)
def sessions(
    app_name: AppOption,
    user_id: UserFilterOption = None,
    limit: LimitOption = 20,
    after: AfterOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an app's sessions, most recently active first."""

    async def found_() -> list[Session]:
        async with Neo4jSessionService() as service:
            found = await service.list_sessions(
                app_name=app_name, user_id=user_id, limit=limit, after=after, newest_first=True
            )
            return found.sessions

    with report_errors(as_json):
        found = asyncio.run(found_())
        if not found and user_id is not None:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        print_json([one.model_dump(mode="json", by_alias=True) for one in found])
        return
    console.print(_make_session_table(found) if found else "No sessions.")
    if len(found) == limit:
        print_hint(f"There may be more: --after {found[-1].id}")


def _make_session_table(found: list[Session]) -> Table:
    """A session's id is what other commands take: it gets the room that it needs before anything else does."""
    table = Table("last active", show_edge=False)
    widest = max(cell_len("session"), *(cell_len(one.id) for one in found))
    table.add_column("session", overflow="fold", width=min(MAX_ID_WIDTH, widest))
    table.add_column("user", overflow="fold")
    for one in found:
        state = json.dumps(one.state, ensure_ascii=False, default=str) if one.state else ""
        table.add_row(
            format_timestamp(one.last_update_time),
            add_details(one.id, _truncate_text(state)),
            replace_controls(one.user_id),
        )
    return table


@app.command(rich_help_panel=CONVERSATIONS_PANEL)
def events(
    session_id: Annotated[str, typer.Argument(help="The session's id.")],
    app_name: AppOption,
    user_id: UserOption,
    limit: LimitOption = 50,
    after: Annotated[int | None, typer.Option(help="The number of the last event of the page before.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what was said and done in a session, oldest first."""

    async def page() -> tuple[list[Event], int | None]:
        async with Neo4jSessionService() as service:
            page = await service.list_events(
                app_name=app_name, user_id=user_id, session_id=session_id, after_seq=after, limit=limit
            )
            return page.events, page.last_seq

    with report_errors(as_json):
        found, last = asyncio.run(page())
        if not found:
            asyncio.run(load_session(app_name, user_id, session_id, recent=0))
    if as_json:
        named = {"session_id": session_id}
        print_json([named | one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found])
        return
    rows = (
        (format_timestamp(one.timestamp), replace_controls(one.author), replace_controls(_describe_event(one)))
        for one in found
    )
    console.print(make_grid(rows) if found else "No events.")
    if len(found) == limit:
        print_hint(f"There may be more: --after {last}")


MAX_ID_WIDTH = 36
"""Columns that an id may take of a line: those of a UUID."""


def _describe_event(event: Event) -> str:
    """What an event says, or does."""
    calls = [f"calls {call.name}" for call in event.get_function_calls()]
    answers = [f"{answer.name} has answered" for answer in event.get_function_responses()]
    return session_codec.get_event_text(event) or ", ".join(calls + answers) or (event.error_code or "…")


def _truncate_text(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"
