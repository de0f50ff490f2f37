"""The command ``mcp``: a memory for any agent that speaks the Model Context Protocol, on stdio or over HTTP."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import MEMORY_PANEL, OWNER, AppOption, UsageError, command
from adk_graph_memory.cli.lazy_modules import mcp_server
from adk_graph_memory.cli.serving import listen, serve_until_interrupted
from adk_graph_memory.private_files import write_private_file

if TYPE_CHECKING:
    from adk_graph_memory.mcp_server import BearerAccess, TokenVerifier

TOKEN_BYTES = 32


class _Powers(TypedDict):
    """What the callers of a server may do."""

    speaks_for_user: bool
    allow_write: bool


@command(MEMORY_PANEL)
async def mcp(
    app_name: AppOption,
    user_id: Annotated[
        str | None, typer.Option("--user", **OWNER, help="The user's id; with --jwt-key the token says it.")
    ] = None,
    speaks_for_user: Annotated[
        bool, typer.Option("--speaks-for-user", help="What is remembered is the user's own word, not an agent's.")
    ] = False,
    allow_write: Annotated[
        bool,
        typer.Option("--allow-write", help="Offer correct and forget too, as proposals that you decide on."),
    ] = False,
    http: Annotated[int | None, typer.Option(min=0, max=65535, help="Serve HTTP on this port, not stdio.")] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name under which a proxy forwards requests, such as memory.example.org.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="The file with the token of --user; made if it is not there.")
    ] = None,
    jwt_key: Annotated[
        str | None, typer.Option(help="A public key (PEM file, or https:// address of a JWKS) that checks tokens.")
    ] = None,
    jwt_audience: Annotated[str | None, typer.Option(help="Whom the tokens have to be for.")] = None,
    jwt_issuer: Annotated[str | None, typer.Option(help="Who has to have issued them.")] = None,
) -> None:
    """Serve a memory to agents by the Model Context Protocol: recall, explain, profile and remember.

    With --allow-write agents may propose to correct and to forget; `proposals` lists what they propose.

    On stdio, and over HTTP with a token file, it is the memory of one user. With a public key, each request uses the
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
        verifier = _make_verifier(app_name, user_id, token_file, jwt_key, jwt_audience, jwt_issuer)
        server = mcp_server.make_mcp_server(memory, mcp_server.get_owner, **powers)
        security = mcp_server.allow_hosts(*allowed_host or ())
        app = server.streamable_http_app(json_response=True, stateless_http=True, transport_security=security)
        await _serve_http(mcp_server.BearerAccess(app, verifier), http)


def _make_verifier(
    app_name: str,
    user_id: str | None,
    token_file: Path | None,
    jwt_key: str | None,
    jwt_audience: str | None,
    jwt_issuer: str | None,
) -> TokenVerifier:
    """Make what tells from a request's token whose memory it may use."""
    if jwt_key is None:
        owner = _require_user(app_name, user_id, "without --jwt-key")
        return mcp_server.SecretVerifier(_read_token(token_file), owner)
    if user_id is not None or jwt_audience is None:
        raise UsageError("--jwt-key needs --jwt-audience, and no --user: the token's subject is the user.")
    return mcp_server.JwtVerifier(app_name, jwt_key, audience=jwt_audience, issuer=jwt_issuer)


async def _serve_http(app: BearerAccess, port: int) -> None:
    with listen(port) as listener:
        typer.echo(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        await serve_until_interrupted(app, listener)


def _require_user(app_name: str, user_id: str | None, where: str) -> tuple[str, str]:
    if user_id is None:
        raise UsageError(f"Name the user {where}: --user.")
    return app_name, user_id


def _read_token(file: Path | None) -> str:
    """Read the token; make the file, readable by its owner alone, if it is not there."""
    if file is None:
        raise UsageError("Name a file for the token: --token-file, or a public key: --jwt-key.")
    if not file.exists():
        with write_private_file(file) as output:
            output.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidArgument(reason=f"the token file {file} cannot be used ({error})") from error
