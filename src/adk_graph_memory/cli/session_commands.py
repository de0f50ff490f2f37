"""The commands ``sessions`` and ``events``: list sessions and print their events."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from rich.cells import cell_len
from rich.table import Table

from adk_graph_memory.adk import session_codec
from adk_graph_memory.adk.session_service import Neo4jSessionService
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

    async def fetch_page() -> list[Session]:
        async with Neo4jSessionService() as service:
            response = await service.list_sessions(
                app_name=app_name, user_id=user_id, limit=limit, after=after, newest_first=True
            )
            return response.sessions

    with report_errors(as_json):
        page = asyncio.run(fetch_page())
        if not page and user_id is not None:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        print_json([session.model_dump(mode="json", by_alias=True) for session in page])
        return
    console.print(_make_session_table(page) if page else "No sessions.")
    if len(page) == limit:
        print_hint(f"There may be more: --after {page[-1].id}")


def _make_session_table(page: list[Session]) -> Table:
    table = Table("last active", show_edge=False)
    # Other commands take the session's id as an argument, so its column gets its width first.
    id_width = max(cell_len("session"), *(cell_len(session.id) for session in page))
    table.add_column("session", overflow="fold", width=min(MAX_ID_WIDTH, id_width))
    table.add_column("user", overflow="fold")
    for session in page:
        state = json.dumps(session.state, ensure_ascii=False, default=str) if session.state else ""
        table.add_row(
            format_timestamp(session.last_update_time),
            add_details(session.id, _truncate_text(state)),
            replace_controls(session.user_id),
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

    async def fetch_page() -> tuple[list[Event], int | None]:
        async with Neo4jSessionService() as service:
            page = await service.list_events(
                app_name=app_name, user_id=user_id, session_id=session_id, after_seq=after, limit=limit
            )
            return page.events, page.last_seq

    with report_errors(as_json):
        page, last_seq = asyncio.run(fetch_page())
        if not page:
            asyncio.run(load_session(app_name, user_id, session_id, recent=0))
    if as_json:
        dumps = (event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in page)
        print_json([{"session_id": session_id} | dump for dump in dumps])
        return
    rows = (
        (format_timestamp(event.timestamp), replace_controls(event.author), replace_controls(_describe_event(event)))
        for event in page
    )
    console.print(make_grid(rows) if page else "No events.")
    if len(page) == limit:
        print_hint(f"There may be more: --after {last_seq}")


MAX_ID_WIDTH = 36
"""Maximum width of the id column: the length of a UUID."""


def _describe_event(event: Event) -> str:
    calls = [f"calls {call.name}" for call in event.get_function_calls()]
    answers = [f"{answer.name} has answered" for answer in event.get_function_responses()]
    return session_codec.get_event_text(event) or ", ".join(calls + answers) or (event.error_code or "…")


def _truncate_text(text: str, max_length: int = 60) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 2]} …"
