"""Two processes that remember, undo and forget for one user at a time lose nothing, and leave a sound memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.operations import World

ROOT = Path(__file__).parents[2]
NAMES = ("Left", "Right")
KINDS = ["undo", "forget"]
"""What takes back what was remembered, each round."""


def start(server: Any, app_name: str, name: str, rounds: int) -> subprocess.Popen[str]:
    user, password = server.auth
    settings = {"uri": server.uri, "username": user, "password": password, "label_prefix": "TestHash"}
    given = {"settings": settings, "app_name": app_name, "folder": "", "operation": "alternate"}
    command = [
        sys.executable,
        "-m",
        "tests.operations",
        json.dumps({**given, "name": name, "rounds": rounds, "kinds": KINDS}),
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_side_by_side(server: Any, app_name: str, rounds: int) -> None:
    processes = [start(server, app_name, name, rounds) for name in NAMES]
    for process in processes:
        with process:
            output, problems = process.communicate(timeout=1200)
        assert (process.returncode, output) == (0, "DONE\n"), problems


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.full)])
async def test_two_processes_on_one_user_lose_nothing(
    neo4j_server: Any, app_name: str, tmp_path: Path, rounds: int
) -> None:
    await asyncio.to_thread(run_side_by_side, neo4j_server, app_name, rounds)
    world = World(neo4j_server.settings(label_prefix="TestHash"), app_name, str(tmp_path))
    facts = [fact async for fact in world.memory.facts(**world.owner)]
    [checkup] = [one async for one in world.memory.check_memories(**world.owner)]
    await world.close()
    kept = {f"My keep friend {name}{number} lives here." for name in NAMES for number in range(rounds)}
    assert {fact.text for fact in facts} == kept and len(facts) == len(kept)
    assert (checkup.facts, checkup.differences, checkup.findings) == (len(kept), 0, ())
    assert (checkup.waiting, checkup.unembedded) == (0, 0)
