"""The commands ``apps``, ``users``, ``sessions``, ``events`` and ``artifacts``: who stored what."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.table import Column

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import (
    CONVERSATIONS_PANEL,
    AfterOption,
    AppFilterOption,
    AppOption,
    LimitOption,
    Owner,
    UsageError,
    UserFilterOption,
    YesOption,
    check_owner,
    collect_page,
    command,
    load_session,
    make_page,
)
from adk_graph_memory.cli.lazy_modules import connections, graph_sessions, listings, session_codec
from adk_graph_memory.cli.output import (
    Output,
    add_details,
    announce,
    confirm,
    format_timestamp,
    make_grid,
    make_table,
    number_column,
    text_column,
)
from adk_graph_memory.language.text import format_count

if TYPE_CHECKING:
    from adk_graph_memory.graph.sessions import StoredSession


MAX_ID_WIDTH = 36
"""Maximum width of the id column: the length of a UUID."""


@command(CONVERSATIONS_PANEL)
async def apps(limit: LimitOption = 50, after: AfterOption = None) -> Output:
    """List the apps, with the number of their users, sessions and facts."""
    async with connections.Connection() as connection:
        page = await collect_page(listings.iterate_apps(connection, limit=limit, after=after))
    columns = [text_column("app"), *map(number_column, ("users", "sessions", "facts"))]
    rows = ((app.app_name, f"{app.users:,}", f"{app.sessions:,}", f"{app.facts:,}") for app in page)
    text = make_table(columns, rows) if page else "No apps."
    return make_page(page, text, limit=limit, after=lambda app: app.app_name)


@command(CONVERSATIONS_PANEL)
async def users(app_name: AppOption, limit: LimitOption = 50, after: AfterOption = None) -> Output:
    """List an app's users, with the number of their sessions, turns in memory and facts (including ended ones)."""
    async with connections.Connection() as connection:
        page = await collect_page(listings.iterate_users(connection, app_name, limit=limit, after=after), app_name)
    columns = [text_column("user"), *map(number_column, ("sessions", "turns", "facts"))]
    rows = ((user.user_id, f"{user.sessions:,}", f"{user.turns:,}", f"{user.facts:,}") for user in page)
    text = make_table(columns, rows) if page else "No users."
    return make_page(page, text, limit=limit, after=lambda user: user.user_id)


@command(CONVERSATIONS_PANEL)
async def sessions(
    app_name: AppOption, user_id: UserFilterOption = None, limit: LimitOption = 20, after: AfterOption = None
) -> Output:
    """List an app's sessions, most recently active first."""
    announce("Waiting for Neo4j")
    async with connections.Connection() as connection:
        try:
            page = await graph_sessions.fetch_sessions(
                connection, app_name, user_id, now=time.time(), limit=limit, after=after, newest_first=True
            )
        except LookupError as error:
            raise errors.NotFound(str(error)) from error
    if not page:
        await check_owner(app_name, user_id)
    # Other commands take the session's id as an argument, so its column gets its width first.
    id_width = max(cell_len("session"), *(cell_len(session.id) for session in page), 0)
    columns = [Column("last active"), text_column("session", width=min(MAX_ID_WIDTH, id_width)), text_column("user")]
    rows = [
        (
            format_timestamp(session.last_update_time),
            add_details(session.id, session.display_name or ""),
            session.user_id,
        )
        for session in page
    ]
    value = [_describe_session(app_name, session) for session in page]
    text = make_table(columns, rows) if rows else "No sessions."
    return make_page(page, text, limit=limit, after=lambda session: session.id, value=value)


def _describe_session(app_name: str, session: StoredSession) -> dict[str, Any]:
    """Describe a session as ADK's JSON does: to import ADK would take longer than to list them."""
    state = dict(session.session_state)
    state |= {f"app:{key}": value for key, value in session.app_state.items()}
    state |= {f"user:{key}": value for key, value in session.user_state.items()}
    described = {
        "id": session.id,
        "appName": app_name,
        "userId": session.user_id,
        "state": state,
        "events": [],
        "lastUpdateTime": session.last_update_time,
    }
    return described | ({"displayName": session.display_name} if session.display_name else {})


@command(CONVERSATIONS_PANEL)
async def events(
    session_id: Annotated[str, typer.Argument(help="The session's id.")],
    owner: Owner,
    limit: LimitOption = 50,
    after: Annotated[int | None, typer.Option(help="The number of the last event on the previous page.")] = None,
) -> Output:
    """Print what was said and done in a session, oldest first."""
    announce("Waiting for Neo4j")
    async with adk_graph_memory.Neo4jSessionService() as service:
        page = await service.list_events(
            app_name=owner.app_name, user_id=owner.user_id, session_id=session_id, after_seq=after, limit=limit
        )
    if not page.events:
        await load_session(owner.app_name, owner.user_id, session_id, recent=0)
    value = [
        {"session_id": session_id} | event.model_dump(mode="json", by_alias=True, exclude_none=True)
        for event in page.events
    ]
    rows = []
    for event in page.events:
        calls = [f"calls {call.name}" for call in event.get_function_calls()]
        answers = [f"{answer.name} has answered" for answer in event.get_function_responses()]
        words = session_codec.get_event_text(event) or ", ".join(calls + answers) or event.error_code or "…"
        rows.append((format_timestamp(event.timestamp), event.author, words))
    text = make_grid(rows) if page.events else "No events."
    return make_page(page.events, text, limit=limit, after=lambda event: page.last_seq, value=value)


@command(CONVERSATIONS_PANEL)
async def artifacts(
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    session_id: Annotated[
        str | None, typer.Option("--session", help="Only this session's artifacts and the user's own.")
    ] = None,
    orphans: Annotated[bool, typer.Option("--orphans", help="List stored content that no artifact refers to.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="With --orphans: also delete it.")] = False,
    yes: YesOption = False,
) -> Output:
    """List a user's artifacts with their latest versions, or stored content that no artifact refers to."""
    if orphans == bool(app_name and user_id) or (delete and not orphans):
        raise UsageError("Give either --app and --user, or --orphans, with --delete or without.")
    if orphans:
        return await _list_orphans(delete=delete, yes=yes)
    announce("Waiting for Neo4j")
    async with adk_graph_memory.Neo4jArtifactService() as service:
        versions = await service.list_latest_versions(
            app_name=app_name or "", user_id=user_id or "", session_id=session_id
        )
    if not versions:
        await check_owner(app_name, user_id)
    value = [{"name": name, "session_id": session, **version.model_dump()} for session, name, version in versions]
    rows = (
        (
            format_timestamp(version.create_time),
            add_details(name, f"session {session}" if session else ""),
            version.mime_type or "",
            str(version.version + 1),
        )
        for session, name, version in versions
    )
    columns = [Column("saved"), text_column("name"), text_column("type"), number_column("versions")]
    return Output(value, make_table(columns, rows) if versions else "No artifacts.")


async def _list_orphans(*, delete: bool, yes: bool) -> Output:
    if delete:
        confirm("Delete all content in the store that no artifact in this database refers to?", yes=yes)
    announce("Comparing the store with the database")
    async with adk_graph_memory.Neo4jArtifactService() as service:
        orphans = [orphan async for orphan in service.list_orphans(delete=delete)]
    outcome = "deleted." if delete else "found; --delete removes them."
    summary = f"{format_count(len(orphans), 'orphan')} {outcome}" if orphans else "No orphans."
    lines = [f"{orphan.scope}/{orphan.id}" for orphan in orphans]
    return Output([orphan._asdict() for orphan in orphans], "\n".join([*lines, summary]))
