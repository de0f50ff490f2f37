"""The comparison runs from end to end with all peers whose packages are there, which are ours and most of ADK's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.compare import memories, sessions

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAIRS = 2


@pytest.mark.full
def test_every_peer_that_needs_no_installation_has_figures(tmp_path):
    of_memories = {peer.name for peer in memories.PEERS if not peer.lock}
    of_sessions = {peer.name for peer in sessions.PEERS if not peer.lock}
    chosen = [word for name in of_memories | of_sessions for word in ("--peer", name)]
    size = ("--first", "1", "--questions", "5", "--pairs", str(PAIRS), "--rounds", "1")
    files = ("--json", str(tmp_path / "a" / "compare.json"), "--markdown", str(tmp_path / "compare.md"))
    command = (sys.executable, "-m", "benchmarks.compare", *size, *files, *chosen)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    document = json.loads((tmp_path / "a" / "compare.json").read_text("utf-8"))
    told, stored = ({row["name"]: row for row in document[kind]} for kind in ("memories", "sessions"))
    assert (told.keys(), stored.keys()) == (of_memories, of_sessions)
    assert [row["error"] for row in (*told.values(), *stored.values()) if row["error"]] == []
    for row in told.values():
        assert row["figures"]["questions"] == 5 and 0 < row["figures"]["recall"] <= 100
        assert (row["figures"]["leaked"], row["figures"]["found"]) == (0, 2 * PAIRS)
    ours, in_memory = told["adk-graph-memory"]["figures"], told["ADK InMemoryMemoryService"]["figures"]
    assert (ours["search_statements"], in_memory["search_statements"], in_memory["session_statements"]) == (2, 0, 0)
    assert stored["adk-graph-memory"]["figures"]["append_statements"] == 1
    assert stored["ADK SqliteSessionService"]["figures"]["append_statements"] > 1

    page = (tmp_path / "compare.md").read_text("utf-8")
    assert page in done.stdout
    assert all(f"| {name} | " in page for name in of_memories | of_sessions)
