"""The pages on upgrades and deployment: their commands run in their order, and their errors are quoted word by word."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import neo4j
import pytest
from tests.support.adk_server import running
from tests.support.documents import ROOT, blocks

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.graph.local_neo4j.persistent import find_running_server, stop_server
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j

UPGRADING, DEPLOYMENT = "docs/upgrading.md", "docs/deployment.md"
SKIPPED = ("pip ",)
"""Commands of the pages that nothing runs."""
OWNER = {"app_name": "home", "user_id": "ana"}
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def list_lines(page: str) -> list[str]:
    """The commands of a page that are run in their order."""
    found = [block for block in blocks(page) if block.language == "sh"]
    lines = [line for block in found for line in block.text.replace("\\\n", "").splitlines()]
    return [line for line in lines if not line.startswith(SKIPPED)]


def run_line(line: str, folder: Path, **environment: str) -> str:
    result = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=os.environ | {"PATH": PATH, "HF_HUB_OFFLINE": "1"} | environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, f"{line}: {result.stdout}{result.stderr}"
    return result.stdout


async def remember_dog(**options: Any) -> None:
    async with GraphMemory(model="rules", **options) as memory:
        turn = Turn("1", "user", "My dog Rex is afraid of thunder.", datetime.now(UTC))
        await memory.remember([turn], session_id="monday", **OWNER)


@pytest.fixture
def port() -> int:
    return LocalNeo4j().port


@pytest.fixture
def local_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_HOME", str(tmp_path / "home"))
    yield tmp_path
    stop_server()


@pytest.mark.full
def test_the_upgrade_takes_all_from_526_to_2026_and_then_changes_the_password(local_home: Path, port: int) -> None:
    run_line(f"adk-graph-memory up --version 5.26 --port {port}", local_home)
    asyncio.run(remember_dog())
    passwords, versions = [], []
    for line in list_lines(UPGRADING):
        starts = line.startswith("adk-graph-memory up") and "--rotate" not in line
        run_line(f"{line} --port {port}" if starts else line, local_home)
        if server := find_running_server():
            passwords.append(server.password)
            versions.append(server.version)
    assert versions[0].startswith("5.26") and versions[-1].startswith("2026")
    assert passwords[-1] == passwords[-2] != passwords[-3]
    facts = json.loads(run_line("adk-graph-memory facts --app home --user ana --json", local_home))
    assert [fact["text"] for fact in facts] == ["My dog Rex is afraid of thunder."]


@pytest.mark.full
def test_a_server_of_ones_own_goes_from_526_to_2026_and_to_another_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [heal] = [block.text for block in blocks(UPGRADING) if block.language == "bash"]
    [alter] = [block.text for block in blocks(UPGRADING) if block.language == "cypher"]
    home = tmp_path / "home"
    with closing(LocalNeo4j(home=home, version="5.26").start()) as old:
        asyncio.run(remember_dog(uri=old.uri, auth=old.auth))
    monkeypatch.setenv("ADK_GRAPH_MEMORY_EMBEDDER", "none")
    with closing(LocalNeo4j(home=home, version="2026").start()) as new:
        given = {"NEO4J_URI": new.uri, "NEO4J_PASSWORD": new.auth[1]}
        with pytest.raises(AssertionError, match="2 indexes or constraints that are missing"):
            run_line("adk-graph-memory doctor", tmp_path, **given)
        run_line(heal, tmp_path, **given)
        run_line("adk-graph-memory doctor", tmp_path, **given)
        with neo4j.GraphDatabase.driver(new.uri, auth=new.auth) as driver:
            driver.execute_query(alter.replace("old password", new.auth[1]), database_="system")
        run_line("adk-graph-memory stats", tmp_path, **given | {"NEO4J_PASSWORD": "new password"})


@pytest.mark.parametrize(
    ("error", "data"),
    [
        (errors.SchemaMissing, {"database": "neo4j", "missing": "…"}),
        (errors.SchemaTooNew, {"found": 2, "known": 1}),
        (errors.SchemaUnknown, {"database": "neo4j", "found": 1}),
        (errors.UnsupportedServer, {"found": "Neo4j/5.25.1"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_the_page_quotes_the_error(error: type[errors.GraphMemoryError], data: dict[str, Any]) -> None:
    page = (ROOT / UPGRADING).read_text("utf-8")
    quoted = re.search(rf"`{error.__name__}`: (.+?) \|$", page, re.MULTILINE)
    assert quoted and str(error(**data)).startswith(quoted[1])


GCLOUD = """#!/bin/sh
while [ "$1" != --source ]; do shift; done
cp -r "$2" image
shift 2
printf '%s\\n' "$@" > options
"""
FORWARDED = {
    "Origin": "https://agents.example.com",
    "Host": "agents.example.com",
    "X-Forwarded-Host": "agents.example.com",
    "X-Forwarded-Proto": "https",
}
"""What Caddy forwards of a page's request."""


@pytest.mark.slow
def test_the_image_that_adk_deploys_finds_the_services(neo4j_server: Any, app_name: str, tmp_path: Path) -> None:
    """`gcloud` is a script that keeps what it would build, and the server is started as that image starts it."""
    [command] = list_lines(DEPLOYMENT)
    agent = tmp_path / "agents" / "companion"
    agent.mkdir(parents=True)
    (tmp_path / "agents" / "services.py").write_text("from adk_graph_memory import register; register()\n")
    (agent / "requirements.txt").write_text("adk-graph-memory[buckets]\n")
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(
        "from google.adk.agents import LlmAgent\n"
        "from google.adk.apps import App\n"
        "from adk_graph_memory import GraphMemoryPlugin\n"
        "root_agent = LlmAgent(name='companion', model='gemini-flash-latest')\n"
        "app = App(name='companion', root_agent=root_agent, plugins=[GraphMemoryPlugin()])\n"
    )
    gcloud = tmp_path / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text(GCLOUD)
    gcloud.chmod(0o755)
    run_line(command, tmp_path, PATH=f"{gcloud.parent}{os.pathsep}{PATH}")
    image, options = tmp_path / "image", (tmp_path / "options").read_text().splitlines()
    assert "--set-secrets=NEO4J_PASSWORD=neo4j-password:latest" in options and "--no-cpu-throttling" in options
    assert "NEO4J_URI=neo4j+s://my-server:7687" in options[options.index("--update-env-vars") + 1]
    recipe = (image / "Dockerfile").read_text()
    assert '"/app/agents/companion/requirements.txt"' in recipe and 'ENV PYTHONPATH="/app:$PYTHONPATH"' in recipe
    start = json.loads(recipe.rpartition("CMD ")[2])
    environment = {
        "PYTHONPATH": str(image),
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_USERNAME": neo4j_server.auth[0],
        "NEO4J_PASSWORD": neo4j_server.auth[1],
        "ADK_GRAPH_MEMORY_EMBEDDER": "none",
    }
    with running([word.replace("/app/", f"{image}/") for word in start[1:]], tmp_path, environment) as (url, _):
        sessions = f"{url}/apps/companion/users/{app_name}/sessions"
        with httpx.Client(trust_env=False, timeout=120) as client:
            client.post(f"{sessions}/monday", json={}, headers=FORWARDED).raise_for_status()
            headers = FORWARDED | {"X-Forwarded-Proto": "http"}
            assert client.post(f"{sessions}/friday", json={}, headers=headers).status_code == 403
    with neo4j.GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        rows = driver.execute_query("MATCH (u:User {user_id: $user})-[:HAS_SESSION]->(s) RETURN s.id", user=app_name)
    assert [row.values() for row in rows.records] == [["monday"]]
