"""Whatever takes away, brings over or makes anew may be killed after any statement: run again, it completes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.operations import OPERATIONS, World

from adk_graph_memory.graph import erasing
from adk_graph_memory.records.scopes import Scope

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LEASE = 1.0
"""Seconds after which what a killed process held is free."""
POINTS = {
    "forget_user": 63,
    "forget": 34,
    "undo": 22,
    "prune": 25,
    "import": 9,
    "reembed": 44,
    "plugin": 36,
    "reextract": 75,
}
"""How many answers of the graph each operation gets, about: a point behind the last one is no kill."""
USUAL = {
    "forget_user": 30,
    "forget": 13,
    "undo": 16,
    "prune": 9,
    "import": 4,
    "reembed": 20,
    "plugin": 9,
    "reextract": 30,
}
CHANGES_SCHEMA = [pytest.mark.schema, pytest.mark.xdist_group("reembed")]
"""Re-embedding makes indexes anew, and one run at a time."""
CASES = [
    pytest.param(
        operation,
        fatal,
        marks=[
            *([] if fatal == USUAL[operation] and operation != "reembed" else [pytest.mark.full]),
            *(CHANGES_SCHEMA if operation == "reembed" else []),
        ],
    )
    for operation, count in POINTS.items()
    for fatal in range(1, count + 1)
]
UNDISTURBED: dict[str, dict[str, Any]] = {}
"""What each operation leaves behind if nobody kills it; kept, as it is the same for all points."""


def start(server: Any, prefix: str, world: World, operation: str, fatal: int, **more: Any) -> subprocess.Popen[str]:
    user, password = server.auth
    settings = {"uri": server.uri, "username": user, "password": password, "label_prefix": prefix, "lease": LEASE}
    given = {"settings": settings, "app_name": world.app_name, "folder": str(world.folder), "operation": operation}
    command = [sys.executable, "-m", "tests.support.operations", json.dumps({**given, "fatal": fatal, **more})]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_until_killed(process: subprocess.Popen[str]) -> int | None:
    """Run a process to its end; return how many answers it got, or None if it was killed."""
    with process:
        output, problems = process.communicate(timeout=300)
    assert process.returncode in (0, -signal.SIGKILL), problems
    return int(output) if process.returncode == 0 else None


async def read_state(world: World) -> dict[str, Any]:
    """What the graph holds of the user, but for when it was written."""
    connection = world.memory.connection
    await connection.prepare()
    counts = await erasing.count_user(connection.user(Scope(world.app_name, "ada")))
    facts = sorted([(fact.text, fact.state, len(fact.sources)) async for fact in world.memory.facts(**world.owner)])
    return {**counts, "texts": facts}


@pytest.fixture
async def make_world(neo4j_server: Any, tmp_path: Path) -> AsyncIterator[Any]:
    worlds: list[World] = []

    async def make(prefix: str, app_name: str) -> World:
        settings = neo4j_server.settings(label_prefix=prefix)
        worlds.append(World(settings, app_name, str(tmp_path)))
        await worlds[-1].live()
        return worlds[-1]

    yield make
    for world in worlds:
        await world.memory.user(**world.owner).forget_user(
            sessions=True, artifacts=True
        )  # the next re-embedding is no longer
        await world.close()


async def read_undisturbed(make_world: Any, prefix: str, app_name: str, operation: str) -> dict[str, Any]:
    if operation not in UNDISTURBED:
        calm = await make_world(prefix, f"{app_name}-calm")
        await OPERATIONS[operation](calm)
        UNDISTURBED[operation] = await read_state(calm)
    return UNDISTURBED[operation]


@pytest.mark.parametrize(("operation", "fatal"), CASES)
async def test_what_was_killed_completes_when_it_is_run_again(
    neo4j_server: Any, app_name: str, make_world: Any, operation: str, fatal: int
) -> None:
    prefix = "TestReembed" if operation == "reembed" else "TestHash"
    wanted = await read_undisturbed(make_world, prefix, app_name, operation)
    world = await make_world(prefix, app_name)
    answers = await asyncio.to_thread(run_until_killed, start(neo4j_server, prefix, world, operation, fatal))
    assert answers is None or fatal > USUAL[operation]
    if answers is None:
        await asyncio.sleep(LEASE)
    await OPERATIONS[operation](world)
    assert strip_run(operation, await read_state(world)) == strip_run(operation, wanted)
    checkups = [one async for one in world.memory.check_memories(app_name=app_name)]
    assert [one for one in checkups if one.is_ill or one.waiting or one.unembedded] == []


def strip_run(operation: str, state: dict[str, Any]) -> dict[str, Any]:
    """Of a run only what is known: who sends a message again after a kill may have sent it twice."""
    return {"texts": [text for text, _, _ in state["texts"]]} if operation == "plugin" else state
