"""The commands ``inspect``, ``mcp`` and ``serve``, and how they serve."""

from __future__ import annotations

import errno
import html
import secrets
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import MEMORY_PANEL, OWNER, AppOption, UsageError, check_owner, command
from adk_graph_memory.cli.lazy_modules import asyncio, hosts, http_server, inspector, mcp_server, server_health, tokens
from adk_graph_memory.cli.output import Output, announce, hide_status, replace_controls
from adk_graph_memory.runtime.private_files import open_private_file

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from adk_graph_memory.servers.access import Owner
    from adk_graph_memory.servers.tokens import TokenVerifier


LOOPBACK = "127.0.0.1"


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """Listen at an address of this machine.

    Raises:
        errors.PortTaken: another process does.
        errors.InvalidArgument: the address or the port cannot be used.
    """
    try:
        return socket.create_server((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise errors.PortTaken(port=port) from error
        reason = f"port {port} of {host} cannot be used ({error.strerror or error}); choose another (`--port`)"
        raise errors.InvalidArgument(reason=reason) from error


KEEP_ALIVE_SECONDS, GRACE_SECONDS = 15, 30
"""How long an idle connection stays: longer than clients keep theirs, so that none sends into one that closes.
How long running requests have to end, once a server is told to stop."""


async def serve_until_interrupted(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application on a socket that listens; once told to stop, end what runs and take nothing new."""
    import uvicorn

    from adk_graph_memory.cli.bounded_http import BoundedH11Protocol, PatientServer

    config = uvicorn.Config(
        app,
        http=BoundedH11Protocol,
        ws="none",
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    with suppress(asyncio.CancelledError):  # uvicorn hands Ctrl-C on when it has ended
        await PatientServer(config).serve(sockets=[listener])
        await asyncio.sleep(0)


DEFAULT_PORT = 7688


@command(MEMORY_PANEL, name="inspect")
async def inspect_memory(
    app_name: Annotated[
        str | None, typer.Option("--app", help="The app's name; optional if there is only one.")
    ] = None,
    user_id: Annotated[
        str | None, typer.Option("--user", **OWNER, help="The user's id; optional if there is only one.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Also allow changes: correct, pin, merge, split, forget and undo.")
    ] = False,
    all_users: Annotated[
        bool, typer.Option("--all-users", help="Show all apps and users instead: counts, pending requests and cost.")
    ] = False,
    show_content: Annotated[
        bool, typer.Option("--show-content", help="With --all-users: also open what is remembered of each user.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any free one.")] = DEFAULT_PORT,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> Output:
    """Look into a user's memory in a browser: ask questions, see where each fact comes from, correct and forget.

    With --all-users, an operator sees whose memories there are, what waits and what it costs, and nobody's words.

    The address works once, in one browser on this machine. Press Ctrl-C to stop.
    """
    shows_content = show_content or not all_users
    if all_users and (app_name or user_id):
        raise UsageError("--all-users shows everybody: leave out --app and --user.")
    if show_content and not all_users:
        raise UsageError("--show-content needs --all-users: without it, one user's memory is shown anyway.")
    if write and not shows_content:
        raise UsageError("With --all-users, --write needs --show-content: counts cannot be changed.")
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        if all_users:
            may_read = _allow_request if show_content else None
            app = inspector.operators_inspector(memory, _allow_request, may_read=may_read, write=write)
            what = "All apps and users"
        else:
            owner = await _choose_owner(memory, app_name, user_id)
            app = inspector.inspector(memory, lambda request: owner, write=write)
            what = f"The memory of {owner[1]} in {owner[0]}"
        with listen(port) as listener:
            access = inspector.LocalAccess(app, listener.getsockname()[1])
            hide_status()
            powers = "Changes are allowed" if write else "It is read-only; --write allows changes"
            powers = powers if shows_content else "It shows counts; --show-content also opens memories"
            typer.echo(replace_controls(f"{what}, for one browser:\n{access.address}"))
            typer.echo(f"{powers}. Ctrl-C ends it.")
            redirect = _open_browser(access.address) if browser and sys.stdout.isatty() else None
            loading = asyncio.create_task(_load_embedder(memory)) if shows_content else None
            await serve_until_interrupted(access, listener)
            if loading:
                loading.cancel()
            if redirect:
                redirect.unlink(missing_ok=True)
    return Output({"stopped": True}, "Stopped.")


def _allow_request(request: object) -> bool:
    """Allow whatever the address's token has let in."""
    return True


def _open_browser(address: str) -> Path:
    """Open the address by way of a file of this user alone: others can see what a command is started with."""
    with tempfile.NamedTemporaryFile("w", prefix="inspect-", suffix=".html", delete=False) as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">')
    typer.launch(file.name)
    return Path(file.name)


async def _load_embedder(memory: adk_graph_memory.GraphMemory) -> None:
    """Load the embedder before the first question; what is wrong with it, an answer's page says."""
    with suppress(errors.GraphMemoryError):
        await memory.engine.vectors.prepare_embedder()


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


TOKEN_BYTES = 32
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", help="A host under which a proxy forwards requests, such as memory.example.org."),
]
TokenFileOption = Annotated[
    Path | None, typer.Option("--token-file", help="The file with the token; created if it does not exist.")
]
JwtKeyOption = Annotated[
    str | None,
    typer.Option("--jwt-key", help="A public key to check tokens (PEM file, or https:// address of a JWKS)."),
]
AudienceOption = Annotated[str | None, typer.Option("--jwt-audience", help="The audience that tokens must name.")]
IssuerOption = Annotated[str | None, typer.Option("--jwt-issuer", help="The issuer that tokens must name.")]


class _Powers(TypedDict):
    """What the callers of a server may do."""

    speaks_for_user: bool
    allow_write: bool


@command(MEMORY_PANEL)
async def mcp(
    app_name: AppOption,
    user_id: Annotated[
        str | None, typer.Option("--user", **OWNER, help="The user's id; with --jwt-key, the token names the user.")
    ] = None,
    speaks_for_user: Annotated[
        bool, typer.Option("--speaks-for-user", help="Remembered statements are the user's own word, not an agent's.")
    ] = False,
    allow_write: Annotated[
        bool,
        typer.Option("--allow-write", help="Also offer correct and forget, as proposals that you decide on."),
    ] = False,
    http: Annotated[int | None, typer.Option(min=0, max=65535, help="Serve HTTP on this port, not stdio.")] = None,
    allowed_host: HostsOption = None,
    token_file: TokenFileOption = None,
    jwt_key: JwtKeyOption = None,
    jwt_audience: AudienceOption = None,
    jwt_issuer: IssuerOption = None,
) -> None:
    """Serve a memory to agents through the Model Context Protocol: recall, explain, profile and remember.

    With --allow-write, agents can also propose corrections and deletions; `proposals` lists them.

    On stdio, and over HTTP with a token file, it serves one user's memory. With a public key, each request uses the
    memory of its token's subject.
    """
    powers: _Powers = {"speaks_for_user": speaks_for_user, "allow_write": allow_write}
    async with adk_graph_memory.GraphMemory() as memory:
        if http is None:
            if token_file or jwt_key:
                raise UsageError("--token-file and --jwt-key need --http: on stdio nobody sends a token.")
            owner = _require_user(app_name, user_id, "on stdio")
            server = mcp_server.make_mcp_server(memory, lambda request: owner, **powers)
            await server.run_stdio_async()
            return
        if jwt_key is None:
            _require_user(app_name, user_id, "without --jwt-key")
        verifier = _choose_verifier((app_name, user_id), token_file, jwt_key, jwt_audience, jwt_issuer)
        server = mcp_server.make_mcp_server(memory, tokens.get_owner, **powers)
        names = allowed_host or ()
        security = mcp_server.allow_hosts(*names)
        app = server.streamable_http_app(json_response=True, stateless_http=True, transport_security=security)
        with listen(http) as listener:
            typer.echo(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
            guarded = tokens.BearerAccess(app, verifier)
            await serve_until_interrupted(server_health.HealthProbes(guarded, memory, hosts=names), listener)


DEFAULT_HTTP_PORT = 7690


@command(MEMORY_PANEL)
async def serve(
    app_name: AppOption,
    user_id: Annotated[
        str | None,
        typer.Option(
            "--user", **OWNER, help="Only this user; else all users of the app, or with --jwt-key the token's subject."
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only recall, list and export.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = DEFAULT_HTTP_PORT,
    host: Annotated[
        str, typer.Option(help="The address to listen on. What comes from other machines needs a proxy with TLS.")
    ] = LOOPBACK,
    allowed_host: HostsOption = None,
    token_file: TokenFileOption = None,
    jwt_key: JwtKeyOption = None,
    jwt_audience: AudienceOption = None,
    jwt_issuer: IssuerOption = None,
) -> Output:
    """Serve memories to applications in any language, as JSON over HTTP: turns in, memories out.

    A token file opens the memory of --user or, for an application's backend, those of all users of the app. With a
    public key, each request may use the memory of its token's subject alone. Press Ctrl-C to stop.
    """
    verifier = _choose_verifier((app_name, user_id), token_file, jwt_key, jwt_audience, jwt_issuer)
    async with adk_graph_memory.GraphMemory() as memory:
        app = http_server.make_http_app(memory, tokens.get_owner, write=not read_only)
        guarded = hosts.HostCheck(tokens.BearerAccess(app, verifier), *allowed_host or ())
        # What probes a container from outside calls it by an address that nobody knows before.
        probed = server_health.HealthProbes(guarded, memory, hosts=(allowed_host or ()) if host == LOOPBACK else None)
        with listen(port, host) as listener:
            typer.echo(f"http://{host}:{listener.getsockname()[1]}")
            loading = asyncio.create_task(_load_embedder(memory))
            await serve_until_interrupted(probed, listener)
            loading.cancel()
    return Output({"stopped": True}, "Stopped.")


def _choose_verifier(
    owner: Owner, token_file: Path | None, jwt_key: str | None, jwt_audience: str | None, jwt_issuer: str | None
) -> TokenVerifier:
    """Choose what tells from a request's token whose memory it may use."""
    app_name, user_id = owner
    if jwt_key is None:
        if jwt_audience or jwt_issuer:
            raise UsageError("--jwt-audience and --jwt-issuer need --jwt-key.")
        return tokens.SecretVerifier(_read_token(token_file), owner)
    if token_file is not None or user_id is not None or jwt_audience is None:
        raise UsageError(
            "--jwt-key needs --jwt-audience, no --user and no --token-file: the token's subject is the user."
        )
    return tokens.JwtVerifier(app_name, jwt_key, audience=jwt_audience, issuer=jwt_issuer)


def _require_user(app_name: str, user_id: str | None, where: str) -> tuple[str, str]:
    if user_id is None:
        raise UsageError(f"Name the user {where}: --user.")
    return app_name, user_id


def _read_token(file: Path | None) -> str:
    """Read the token; make the file, readable by its owner alone, if it is not there."""
    if file is None:
        raise UsageError("Name a file for the token: --token-file, or a public key: --jwt-key.")
    if not file.exists():
        with open_private_file(file) as output:
            output.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidArgument(reason=f"the token file {file} cannot be used ({error})") from error
