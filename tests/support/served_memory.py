"""The command that serves memories over HTTP, in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

RUN = "from adk_graph_memory.cli import app; app()"


@asynccontextmanager
async def serve(
    neo4j_server: Any, app_name: str, token_file: Path, *options: str, code: str = RUN
) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    """Run the command, or other code with its arguments; yield its process, and a client of the address it prints."""
    username, password = neo4j_server.auth
    environment = {"NEO4J_URI": neo4j_server.uri, "NEO4J_USERNAME": username, "NEO4J_PASSWORD": password}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", code, "serve", "--app", app_name, "--port", "0"),
        *("--token-file", str(token_file), *options),
        stdout=asyncio.subprocess.PIPE,
        env=environment | {"ADK_GRAPH_MEMORY_EMBEDDER": "none", "ADK_GRAPH_MEMORY_MODEL": "rules"},
    )
    assert process.stdout
    try:
        address = (await process.stdout.readline()).decode().strip()
        headers = {"Authorization": f"Bearer {token_file.read_text('utf-8').strip()}"}
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=120, limits=limits) as client:
            yield process, client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
