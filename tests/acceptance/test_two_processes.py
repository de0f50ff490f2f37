"""Two processes that remember, correct, undo and forget for one user at a time lose nothing, and leave all sound."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.support.operations import LONG_AGO, World, correct_friend, tell_friend

from adk_graph_memory import Turn

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAMES = ("Left", "Right")
LAST = tell_friend("keep", "Last", 0)
KINDS = ["undo", "forget", "correct"]
"""What takes back what was remembered, each round."""


def start(server: Any, app_name: str, name: str, rounds: int) -> subprocess.Popen[str]:
    user, password = server.auth
    settings = {"uri": server.uri, "username": user, "password": password, "label_prefix": "TestHash"}
    given = {"settings": settings, "app_name": app_name, "folder": "", "operation": "alternate"}
    command = [
        sys.executable,
        "-m",
        "tests.support.operations",
        json.dumps({**given, "name": name, "rounds": rounds, "kinds": KINDS}),
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_side_by_side(server: Any, app_name: str, rounds: int) -> None:
    processes = [start(server, app_name, name, rounds) for name in NAMES]
    for process in processes:
        with process:
            output, problems = process.communicate(timeout=3600)
        assert (process.returncode, output) == (0, "DONE\n"), problems


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.full)])
async def test_two_processes_on_one_user_lose_nothing(
    neo4j_server: Any, app_name: str, tmp_path: Path, rounds: int
) -> None:
    await asyncio.to_thread(run_side_by_side, neo4j_server, app_name, rounds)
    world = World(neo4j_server.settings(label_prefix="TestHash"), app_name, str(tmp_path))
    # What an ingest could not embed in time has its vector from the next one.
    await world.memory.remember([Turn("last", "user", LAST, LONG_AGO)], **world.owner, session_id="last")
    facts = sorted([(fact.text, fact.state) async for fact in world.memory.facts(**world.owner, past=True)])
    [checkup] = [one async for one in world.memory.check_memories(**world.owner)]
    await world.close()
    kept, wrong = ([tell_friend(kind, *said) for said in product(NAMES, range(rounds))] for kind in ("keep", "correct"))
    held = [(text, "current") for text in (*kept, *map(correct_friend, wrong), LAST)]
    assert facts == sorted([*held, *((text, "retracted") for text in wrong)])
    assert (checkup.facts, checkup.differences, checkup.findings) == (len(facts), 0, ())
    assert (checkup.waiting, checkup.unembedded) == (0, 0)
