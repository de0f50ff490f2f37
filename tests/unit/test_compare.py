"""The comparison says in a row what a peer gave or why it gave nothing, and pins what it installs."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.compare import environment, memories, memory_bench, report, rows, sessions
from benchmarks.compare.__main__ import has_ours_failed
from benchmarks.latency.counting import count_sql
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

ROOT = Path(__file__).parents[2]
MEASURED = rows.Row(
    "theirs",
    "as it is",
    {
        "recall": 61.24,
        "ndcg": 50,
        "recall_in_tokens": 60,
        "session_statements": 17,
        "session_seconds": 0.0126,
        "search_statements": 3.5,
        "search_p50": 12.34,
        "search_p95": 20,
    },
)
FAILED = rows.Row("other", "its best", error="cannot be installed: ERROR: no a|b")


def make_peer(failure: Exception | None = None, service: str = "working", **options: Any) -> rows.Peer:
    @asynccontextmanager
    async def open_service(_: rows.Stage) -> AsyncIterator[str]:
        if failure and service != "closing":
            raise failure
        yield service
        if failure:
            raise failure

    return rows.Peer("peer", "as it is", open_service, **options)


class Steps:
    """Counts the steps that are done with a service."""

    def __init__(self, service: str) -> None:
        self.service, self.done = service, 0

    async def take(self) -> None:
        self.done += 1
        if self.service == "failing":
            raise sqlite3.OperationalError("database is locked\nsomewhere")

    def make_figures(self) -> dict[str, float]:
        return {"steps": self.done}


async def make_rows(folder: Path, *peers: rows.Peer) -> list[rows.Row]:
    contenders = [rows.Contender(peer, Steps) for peer in peers]
    for contender in contenders:
        await contender.open(rows.Stage(None, folder, folder))  # type: ignore[arg-type]
    await rows.do_in_turn(contenders, [Steps.take] * 3)
    return [await contender.close() for contender in contenders]


def test_a_table_has_a_row_for_each_peer_with_dashes_for_what_was_not_measured():
    assert report.format_table("memory service", report.MEMORY_COLUMNS, [MEASURED, FAILED]).splitlines() == [
        "| memory service | R | nDCG | R in 1,024 | finds another's words | finds its own | statements a session | s "
        "| statements a search | ms p50 | p95 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| theirs | 61.2 | 50.0 | 60.0 | – | – | 17 | 0.013 | 3.5 | 12.3 | 20.0 |",
        "| other | cannot be installed: ERROR: no a\\|b | – | – | – | – | – | – | – | – | – |",
    ]


def test_the_page_says_how_each_was_configured_and_on_what_it_was_measured():
    page = report.format_markdown([MEASURED], [FAILED], {"date": "2026-11-25"})
    assert "- theirs: as it is\n- other: its best\n\n- date: 2026-11-25\n" in page
    assert page.index("| memory service") < page.index("| session service")


def test_the_json_holds_every_figure_and_error():
    document = json.loads(report.format_json([MEASURED], [FAILED], {"date": "2026-11-25"}, {"first": 4}))
    assert document["about"] == {"date": "2026-11-25"} and document["arguments"] == {"first": 4}
    (memory,), (session,) = document["memories"], document["sessions"]
    assert memory["figures"] == MEASURED.figures and memory["error"] == ""
    assert session == {
        "name": "other",
        "about": "its best",
        "figures": {},
        "error": FAILED.error,
    }


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ModuleNotFoundError("No module named 'peer'"), "cannot be imported: No module named 'peer'"),
        (ValueError("two\nlines"), "failed: ValueError: two"),
        (sqlite3.OperationalError(), "failed: OperationalError: "),
    ],
)
async def test_a_peer_that_fails_gives_a_row_with_its_error(tmp_path, failure, error):
    [row] = await make_rows(tmp_path, make_peer(failure))
    assert (row.figures, row.error) == ({}, error)


async def test_the_others_go_on_when_a_peer_fails_in_the_middle_or_at_the_end(tmp_path):
    late = make_peer(RuntimeError("3 errors were logged"), "closing")
    first, failing, closing, last = await make_rows(
        tmp_path, make_peer(), make_peer(None, "failing"), late, make_peer()
    )
    assert first.figures == last.figures == {"steps": 3}
    assert (failing.figures, failing.error) == ({}, "failed: OperationalError: database is locked")
    assert (closing.figures, closing.error) == ({}, "failed: RuntimeError: 3 errors were logged")


async def test_each_step_is_taken_by_all_and_another_one_is_first_each_time():
    order: list[str] = []

    class Recorder(rows.Contender):
        async def do(self, step: rows.Step) -> None:
            order.append(f"{step}{self.peer.name}")

    contenders = [Recorder(rows.Peer(name, "", None), Steps) for name in "abc"]  # type: ignore[arg-type]
    await rows.do_in_turn(contenders, (1, 2, 3))  # type: ignore[arg-type]
    assert order == ["1a", "1b", "1c", "2c", "2a", "2b", "3b", "3c", "3a"]


@pytest.mark.slow
async def test_a_peer_that_cannot_be_installed_gives_a_row_with_the_last_line_of_pip(tmp_path, monkeypatch):
    (tmp_path / "nobody.txt").write_text("--no-index\nno-such-peer==1.0\n")
    monkeypatch.setattr(environment, "LOCKS", tmp_path)
    [row] = await make_rows(tmp_path, make_peer(lock="nobody"))
    assert row.error == "cannot be installed: ERROR: No matching distribution found for no-such-peer==1.0"


def test_only_a_failure_of_ours_fails_the_run():
    ours = rows.Row("adk-graph-memory", "", error="failed: ValueError: x")
    assert has_ours_failed([MEASURED, FAILED]) is False
    assert has_ours_failed([MEASURED, ours]) is True


def test_locks_pin_exact_versions_that_agree_with_the_projects_own():
    requirements = (ROOT / "requirements" / "all.txt").read_text("utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", requirements, re.MULTILINE))
    locks = {path.stem: path.read_text("utf-8") for path in environment.LOCKS.glob("*.txt")}
    assert locks.keys() == {peer.lock for peer in (*memories.PEERS, *sessions.PEERS) if peer.lock}
    for name, text in locks.items():
        pins = [line for line in text.splitlines() if not line.startswith("#")]
        assert pins and all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins), name
        for package, version in (pin.split("==") for pin in pins):
            assert pinned.get(package.lower(), version) == version


@pytest.mark.parametrize(
    ("about", "text", "sources"),
    [
        ({"source_event_ids": ["s1-2", "s1-4"]}, "Ana has a dog.", ["s1-2", "s1-4"]),
        ({"event_id": "s1-3"}, "Ana has a dog.", ["s1-3"]),
        (None, "My dog is Rex.", ["s1-1", "s2-1"]),
        (None, "What another user said.", ["its own id"]),
    ],
)
def test_an_entry_rests_on_the_events_it_names_or_else_on_the_users_turns_of_its_text(about, text, sources):
    content = types.Content(parts=[types.Part(text=text)])
    entry = MemoryEntry(id="its own id", content=content, custom_metadata=about or {})
    named = memory_bench.name_events(entry, {"My dog is Rex.": ["s1-1", "s2-1"]})
    assert named.custom_metadata["source_event_ids"] == sources


def test_statements_to_sqlite_are_counted_however_they_are_given():
    with count_sql() as given:
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE TABLE words (word)")
        connection.executemany("INSERT INTO words VALUES (?)", [("a",), ("b",)])
        cursor = connection.cursor()
        assert cursor.execute("SELECT count(*) FROM words").fetchone() == (2,)
        cursor.executescript("SELECT 1; SELECT 2;")
        connection.commit()
        connection.close()
    assert given.statements == 4
    sqlite3.connect(":memory:").close()
    assert given.statements == 4
