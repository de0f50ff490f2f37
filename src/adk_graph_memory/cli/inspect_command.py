"""The command ``inspect``: a page on the loopback interface that shows what memory holds of a user."""

from __future__ import annotations

import html
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import MEMORY_PANEL, OWNER, check_owner, command
from adk_graph_memory.cli.lazy_modules import asyncio, inspector
from adk_graph_memory.cli.output import Output, announce, hide_status, replace_controls
from adk_graph_memory.cli.serving import listen, serve_until_interrupted

DEFAULT_PORT = 7688


@command(MEMORY_PANEL, name="inspect")
async def inspect_memory(
    app_name: Annotated[
        str | None, typer.Option("--app", help="The app's name; may be left out if there is one.")
    ] = None,
    user_id: Annotated[
        str | None, typer.Option("--user", **OWNER, help="The user's id; may be left out if there is one.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Also correct, pin, merge, split, forget and undo.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any.")] = DEFAULT_PORT,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> Output:
    """Look into a user's memory in a browser: ask, see why, see where each fact comes from, correct and forget.

    The address works once, in one browser of this machine. Ctrl-C ends it.
    """
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        owner = await _choose_owner(memory, app_name, user_id)
        with listen(port) as listener:
            port = listener.getsockname()[1]
            access = inspector.LocalAccess(inspector.inspector(memory, lambda request: owner, write=write), port)
            hide_status()
            powers = "It may be changed" if write else "It is read-only; --write allows changes"
            typer.echo(replace_controls(f"The memory of {owner[1]} in {owner[0]}, for one browser:\n{access.address}"))
            typer.echo(f"{powers}. Ctrl-C ends it.")
            redirect = _open_browser(access.address) if browser and sys.stdout.isatty() else None
            loading = asyncio.create_task(_load_embedder(memory))
            await serve_until_interrupted(access, listener)
            loading.cancel()
            if redirect:
                redirect.unlink(missing_ok=True)
    return Output({"stopped": True}, "Stopped.")


def _open_browser(address: str) -> Path:
    """Open the address by way of a file of this user alone: others can see what a command is started with."""
    with tempfile.NamedTemporaryFile("w", prefix="inspect-", suffix=".html", delete=False) as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">')
    typer.launch(file.name)
    return Path(file.name)


async def _load_embedder(memory: adk_graph_memory.GraphMemory) -> None:
    """Load the embedder before the first question; what is wrong with it, an answer's page says."""
    with suppress(errors.GraphMemoryError):
        await memory.vectors.prepare_embedder()


async def _choose_owner(
    memory: adk_graph_memory.GraphMemory, app_name: str | None, user_id: str | None
) -> tuple[str, str]:
    """Choose the app and the user; those that were not named, if there is one.

    Raises:
        errors.NotFound: there are no such app and user.
        errors.InvalidArgument: there are several.
    """
    if app_name is None:
        apps = [app.app_name async for app in memory.apps(limit=10)]
        app_name = _choose_only(apps, "app", "adk-graph-memory apps")
    if user_id is None:
        users = [user.user_id async for user in memory.users(app_name=app_name, limit=10)]
        user_id = _choose_only(users, "user", f"adk-graph-memory users --app {app_name}")
    await check_owner(app_name, user_id)
    return app_name, user_id


def _choose_only(names: list[str], what: str, where: str) -> str:
    if len(names) == 1:
        return names[0]
    if not names:
        raise errors.NotFound(what=f"{what} in this database", where="`adk-graph-memory demo`, which stores one")
    known = ", ".join(map(repr, names))
    raise errors.InvalidArgument(reason=f"there are several {what}s ({known}; `{where}`): name one with --{what}")
