"""Commands around sessions: which there are, and what was said in one."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Annotated

import typer
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from rich.markup import escape
from rich.table import Table

from adk_graph_memory.adk import Neo4jSessionService, codec
from adk_graph_memory.cli.application import AppName, AsJson, OfUser, UserId, app, console, failing_well


@app.command()
def sessions(
    app_name: AppName,
    user_id: OfUser = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    after: Annotated[str | None, typer.Option(help="The last id of the page before.")] = None,
    as_json: AsJson = False,
) -> None:
    """List an app's sessions, most recently active first."""

    async def listed() -> list[Session]:
        async with Neo4jSessionService() as service:
            found = await service.list_sessions(
                app_name=app_name, user_id=user_id, limit=limit, after=after, newest_first=True
            )
            return found.sessions

    with failing_well():
        found = asyncio.run(listed())
    if as_json:
        typer.echo(json.dumps([one.model_dump(mode="json", by_alias=True) for one in found], ensure_ascii=False))
        return
    table = Table("session", "user", "last active", "state", show_edge=False)
    for one in found:
        state = json.dumps(one.state, ensure_ascii=False, default=str) if one.state else ""
        table.add_row(escape(one.id), escape(one.user_id), _time(one.last_update_time), escape(_short(state)))
    console.print(table if found else "No sessions.")
    if len(found) == limit:
        console.print(f"There may be more: --after {escape(found[-1].id)}")


@app.command()
def events(
    session_id: str,
    app_name: AppName,
    user_id: UserId,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    after: Annotated[int | None, typer.Option(help="The number of the last event of the page before.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what was said and done in a session, oldest first."""

    async def listed() -> tuple[list[Event], int | None]:
        async with Neo4jSessionService() as service:
            page = await service.list_events(
                app_name=app_name, user_id=user_id, session_id=session_id, after_seq=after, limit=limit
            )
            return page.events, page.last_seq

    with failing_well():
        found, last = asyncio.run(listed())
    if as_json:
        told = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found]
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    table = Table(show_edge=False, show_header=False, padding=(0, 1))
    for one in found:
        table.add_row(_time(one.timestamp), escape(one.author), escape(_told(one)))
    console.print(table if found else "No events.")
    if len(found) == limit:
        console.print(f"There may be more: --after {last}")


def _told(event: Event) -> str:
    """What an event says, or does."""
    calls = [f"calls {call.name}" for call in event.get_function_calls()]
    answers = [f"{answer.name} has answered" for answer in event.get_function_responses()]
    return codec.text_of(event) or ", ".join(calls + answers) or (event.error_code or "…")


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _time(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M")
