"""ADK's own servers, each in a process of its own: all its addresses on a real Neo4j, its model on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from neo4j import Driver
from tests.support.documents import blocks
from tests.support.fake_gemini import Part, Request, call, responses, said

SERVICES, AGENT = (block.text for block in blocks("docs/samples.md")[:3] if block.language == "python")


def answered(request: Request) -> Part:
    """What the model of these agents says."""
    if found := responses(request):
        return {"text": json.dumps(found, ensure_ascii=False)}
    if "note down" in said(request):
        return call("save_note", text="buy oats")
    if "called?" in said(request):
        return call("load_memory", query=said(request))
    return {"text": f"I heard: {said(request)}"}


def write_agent(agents: Path, name: str, agent: str = AGENT) -> Path:
    """The folder of a new agent, with ``services.py`` beside it."""
    folder = agents / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "agent.py").write_text(agent.replace('"companion"', f'"{name}"'))
    (agents / "services.py").write_text(SERVICES)
    return folder


@contextmanager
def started(
    command: str, agents: Path, address: str, environment: Mapping[str, str]
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """``adk web`` or ``adk api_server`` until the block ends; what it says is in ``server.log`` beside the agents."""
    options = [f"--{kind}_service_uri={address}" for kind in ("session", "memory", "artifact")]
    options += ["--extra_plugins", "adk_graph_memory.GraphMemoryPlugin"]
    with running([command, *options, agents.name], agents.parent, environment) as server:
        yield server


@contextmanager
def running(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of ``adk`` in a folder, on a free port, until the block ends."""
    port = _free_port()
    adk, url = str(Path(sys.executable).with_name("adk")), f"http://127.0.0.1:{port}"
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("NEO4J", "ADK_GRAPH")) or key.endswith("_TIMEOUT")
    }
    home = {"HOME": str(folder), "ADK_GRAPH_MEMORY_HOME": str(folder / "home")}
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(
            [adk, *arguments, f"--port={port}"],
            cwd=folder,
            env=inherited | home | dict(environment),
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for(url, server)
            yield url, server
        finally:
            _stop(server)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(30)
    finally:
        server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server ended by itself"
        try:
            httpx.get(f"{url}/list-apps", timeout=120, trust_env=False).raise_for_status()
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the server did not come up")


TURNS = """
MATCH (u:@User {app_name: $app_name})-[:HAS_SESSION]->(s:@Session)
RETURN s.id AS id, COUNT { MATCH (e:@Event&@Memory {scope: u.scope, session_uid: s.uid}) } AS turns
"""


def remembered(driver: Driver, app_name: str, prefix: str = "") -> dict[str, int]:
    """How many turns of each session are remembered."""
    rows, _, _ = driver.execute_query(TURNS.replace("@", prefix), app_name=app_name)
    return {row["id"]: row["turns"] for row in rows}
