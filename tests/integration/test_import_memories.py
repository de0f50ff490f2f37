"""Memories of other services come over as statements, with their ids, times and metadata, once, and after a kill."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.import_sources import (
    NOON,
    SCRIPT,
    make_bank_export,
    make_mem0_export,
    write_sqlite_memory,
    write_sqlite_sessions,
)

from adk_graph_memory import GuardCandidate, GuardVerdict, errors
from adk_graph_memory.adk.importing import importer, json_exports
from adk_graph_memory.adk.importing.importer import Importer, ImportOptions, import_source
from adk_graph_memory.adk.importing.json_exports import MemoryExport
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder

MEMORY_COUNT = sum(map(len, SCRIPT.values()))


@pytest.fixture
async def memory(neo4j_server) -> AsyncIterator[GraphMemory]:
    async with GraphMemory(settings=neo4j_server.settings(label_prefix="TestHash"), embedder=HashEmbedder()) as memory:
        yield memory


def write_json(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return str(path)


async def read_facts(memory: GraphMemory, app_name: str, user_id: str) -> dict[str, Any]:
    """The user's facts by text, as they stand in the graph."""
    rows = await memory.connection.run_cypher(
        "MATCH (f:TestHashFact {scope: $scope}) RETURN elementId(f) AS id, properties(f) AS properties",
        {"scope": Scope(app_name, user_id).key},
    )
    return {row["properties"]["text"]: dict(row) for row in rows}


def read_metadata(row: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(f"{{{','.join(row['properties']['metadata'])}}}"))


@pytest.mark.slow
async def test_sqlite_memories_come_over_and_are_found(memory, app_name, tmp_path):
    path = tmp_path / "memory.db"
    await write_sqlite_memory(path, app_name)
    receipt = await import_source(memory, str(path), ImportOptions("adk-sqlite-memory"))
    assert (receipt.memories, receipt.skipped) == ({"new": MEMORY_COUNT, "read": MEMORY_COUNT}, {})
    facts = await read_facts(memory, app_name, "ana maría")
    assert facts.keys() == {*SCRIPT["ana maría", "monday: the 1st"], *SCRIPT["ana maría", "día/2"]}
    one = facts["Rex is six."]
    assert (one["properties"]["timestamp"], one["properties"]["author"]) == (NOON + 1, "user")
    assert read_metadata(one) == {
        "imported_from": "adk-sqlite-memory",
        "source_event_id": "e 1",
        "source_session_id": "monday: the 1st",
    }
    [best, *_] = await memory.recall("What is Rex afraid of?", app_name=app_name, user_id="ana maría")
    assert best.text == "My dog Rex is afraid of thunder."
    assert await read_facts(memory, app_name, "bea:2") != {}


async def test_a_row_of_a_shared_memory_holds_up_no_other(memory, app_name, tmp_path):
    rows = [
        {"id": str(n), "memory": f"I keep {n} goats.", "user_id": id} for n, id in enumerate(("kim", ":app:", "kim"))
    ]
    path = write_json(tmp_path / "mem0.json", rows)
    receipt = await import_source(memory, path, ImportOptions("mem0", app_name))
    assert (receipt.memories["new"], receipt.skipped) == (2, {"unreadable": 1})
    assert "cannot be a user's id" in receipt.problems[0].reason


async def test_a_row_that_no_memory_can_take_holds_up_no_other(memory, app_name, tmp_path):
    path = tmp_path / "memory.db"
    await write_sqlite_memory(path, app_name)
    with closing(sqlite3.connect(path)) as database, database:
        rows = database.execute("SELECT id FROM memory_events ORDER BY id LIMIT 2").fetchall()
        database.execute("UPDATE memory_events SET author = ' ' WHERE id = ?", rows[0])
        database.execute("UPDATE memory_events SET event_id = ? WHERE id = ?", ("x" * 9_000, *rows[1]))
    options = ImportOptions("adk-sqlite-memory")
    receipts = [await import_source(target, str(path), options) for target in (None, memory)]
    assert [receipt.skipped for receipt in receipts] == [{"unreadable": 2}] * 2
    assert receipts[1].memories["new"] == MEMORY_COUNT - 2
    reasons = sorted(row.reason for row in receipts[1].problems)
    assert "shorten it" in reasons[0]
    assert "names nobody" in reasons[1]


@pytest.mark.slow
async def test_mem0_memories_come_over(memory, app_name, tmp_path):
    path = write_json(tmp_path / "mem0.json", make_mem0_export())
    receipt = await import_source(memory, path, ImportOptions("mem0", app_name))
    assert (receipt.memories, receipt.skipped) == ({"new": 3, "read": 3}, {})
    facts = await read_facts(memory, app_name, "ana")
    assert facts.keys() == {"Rex is afraid of thunder", "Lives in Porto"}
    dog, town = (facts[text]["properties"] for text in ("Rex is afraid of thunder", "Lives in Porto"))
    assert (dog["timestamp"], dog["offset"]) == (1_767_634_200.123456, -8 * 3600)
    assert town["timestamp"] == 1_769_940_000.0  # its last change
    assert read_metadata(facts["Rex is afraid of thunder"]) == {
        "agent_id": "vet",
        "category": "pets",
        "created_at": "2026-01-05T09:30:00.123456-08:00",
        "imported_from": "mem0",
        "source_id": "0f1c: é",
    }
    await memory.forget("mem0:0f1c: é", app_name=app_name, user_id="ana")
    assert (await read_facts(memory, app_name, "ana")).keys() == {"Lives in Porto"}


async def test_memory_banks_memories_come_over(memory, app_name, tmp_path):
    path = write_json(tmp_path / "memories.json", make_bank_export(app_name))
    receipt = await import_source(memory, path, ImportOptions("memory-bank"))
    assert (receipt.memories, receipt.skipped) == ({"new": 2, "read": 2}, {})
    [fact] = (await read_facts(memory, app_name, "ana")).values()
    assert fact["properties"]["timestamp"] == 1_767_691_800.0
    assert read_metadata(fact) == {
        "source": "chat",
        "sure": 0.5,
        "seen": False,
        "display_name": "Rex",
        "memory_topics": ["USER_PREFERENCES", "pets"],
        "create_time": "2026-01-05T09:30:00.123456789Z",
        "update_time": "2026-01-06T09:30:00Z",
        "imported_from": "memory-bank",
        "source_id": "projects/p/locations/l/reasoningEngines/1/memories/11",
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adk-sqlite-memory", "mem0", "memory-bank"])
async def test_a_second_import_changes_nothing_and_embeds_nothing(neo4j_server, app_name, tmp_path, kind):
    path = tmp_path / "source"
    if kind == "adk-sqlite-memory":
        await write_sqlite_memory(path, app_name)
    else:
        write_json(path, make_mem0_export() if kind == "mem0" else make_bank_export(app_name))
    embedder, users = HashEmbedder(), ("ana", "bea", "ana maría", "bea:2")
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=embedder) as memory:
        first = await import_source(memory, str(path), ImportOptions(kind, app_name))
        before, count = [await read_facts(memory, app_name, user) for user in users], embedder.calls
        second = await import_source(memory, str(path), ImportOptions(kind, app_name))
        assert [await read_facts(memory, app_name, user) for user in users] == before
    assert sum(map(len, before)) == first.memories["new"] == second.memories["known"] > 0
    assert "new" not in second.memories
    assert embedder.calls == count > 0


@pytest.mark.slow
async def test_redaction_comes_first_and_a_second_import_still_changes_nothing(neo4j_server, app_name, tmp_path):
    path = write_json(tmp_path / "mem0.json", make_mem0_export())
    settings = neo4j_server.settings(label_prefix="TestHash")

    def redact(text: str) -> str:
        return text.replace("Porto", "somewhere").replace("pets", "animals")

    async with GraphMemory(settings=settings, embedder=HashEmbedder(), redact=redact) as memory:
        await import_source(memory, path, ImportOptions("mem0", app_name))
        second = await import_source(memory, path, ImportOptions("mem0", app_name))
        facts = await read_facts(memory, app_name, "ana")
    assert second.memories == {"known": 3, "read": 3}
    assert facts.keys() == {"Rex is afraid of thunder", "Lives in somewhere"}
    assert read_metadata(facts["Rex is afraid of thunder"])["category"] == "animals"


async def test_what_changed_at_the_source_changes_here(memory, app_name, tmp_path):
    export = make_mem0_export()
    await import_source(memory, write_json(tmp_path / "1.json", export), ImportOptions("mem0", app_name))
    export["results"][2] |= {"memory": "Kept bees", "updated_at": "2026-03-01T10:00:00Z"}
    receipt = await import_source(memory, write_json(tmp_path / "2.json", export), ImportOptions("mem0", app_name))
    assert receipt.memories == {"changed": 1, "known": 2, "read": 3}
    assert (await read_facts(memory, app_name, "bea")).keys() == {"Kept bees"}


class Killed(Exception):
    pass


@dataclass(frozen=True, slots=True)
class DyingExport(MemoryExport):
    """An export that is killed before it yields one more row."""

    rows_left: int = 0

    async def iterate_memories(self):
        number = 0
        async for row in MemoryExport.iterate_memories(self):
            if number == self.rows_left:
                raise Killed
            number += 1
            yield row


async def test_a_killed_import_goes_on(memory, app_name, tmp_path, monkeypatch):
    monkeypatch.setattr("adk_graph_memory.adk.importing.importer.BATCH_SIZE", 2)
    rows = [{"id": str(n), "memory": f"Likes the number {n}", "user_id": "ana"} for n in range(7)]
    path = tmp_path / "mem0.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(Killed):
        dying = DyingExport(path, json_exports.MEM0, rows_left=5)
        await Importer(memory, ImportOptions("mem0", app_name)).import_memories(dying)
    assert len(await read_facts(memory, app_name, "ana")) == 4
    receipt = await import_source(memory, str(path), ImportOptions("mem0", app_name))
    assert receipt.memories == {"known": 4, "new": 3, "read": 7}
    assert (await read_facts(memory, app_name, "ana")).keys() == {row["memory"] for row in rows}


@pytest.mark.slow
async def test_a_batch_may_be_of_many_users(memory, app_name, tmp_path):
    count = importer.BATCH_SIZE + 1
    rows = [{"id": "same", "memory": f"User {n} likes tea", "user_id": f"u{n}"} for n in range(count)]
    receipt = await import_source(memory, write_json(tmp_path / "m.json", rows), ImportOptions("mem0", app_name))
    assert receipt.memories == {"new": count, "read": count}
    facts = [await read_facts(memory, app_name, row["user_id"]) for row in rows]
    assert [list(found) for found in facts] == [[row["memory"]] for row in rows]


async def test_what_the_guard_refuses_is_named_and_counted_as_no_memory(neo4j_server, app_name, tmp_path):
    def guard(candidate: GuardCandidate) -> GuardVerdict | None:
        return GuardVerdict("drop", "no bees") if "bees" in candidate.text else None

    rows = [
        {"id": str(n), "memory": f"I keep {one}", "user_id": "kim"} for n, one in enumerate(("goats", "bees", "cats"))
    ]
    path = write_json(tmp_path / "m.json", rows)
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), guard=guard) as memory:
        receipt = await import_source(memory, path, ImportOptions("mem0", app_name))
        assert (receipt.memories, receipt.skipped) == ({"new": 2, "read": 3}, {"refused by the guard": 1})
        [refused] = receipt.problems
        assert refused.place.endswith("row 2")
        assert "no bees" in refused.reason
        again = await import_source(memory, path, ImportOptions("mem0", app_name))
        assert again.memories == {"known": 2, "read": 3}
        assert (await read_facts(memory, app_name, "kim")).keys() == {"I keep goats", "I keep cats"}


async def test_a_schema_that_is_newer_is_refused(app_name, tmp_path):
    path = tmp_path / "memory.db"
    await write_sqlite_memory(path, app_name)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE adk_memory_metadata SET value = '2'")
    with pytest.raises(errors.UnreadableTranscript, match="has the version 2, and this release knows 1"):
        await import_source(None, str(path), ImportOptions("adk-sqlite-memory"))


async def test_a_file_of_sessions_is_no_memory(app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    with pytest.raises(errors.UnreadableTranscript, match=r"it lacks them .its tables: app_states, events"):
        await import_source(None, str(path), ImportOptions("adk-sqlite-memory"))


async def test_rows_of_memory_that_cannot_be_read_are_named(memory, app_name, tmp_path):
    path = tmp_path / "memory.db"
    await write_sqlite_memory(path, app_name)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE memory_events SET content_json = '{' WHERE id = 1")
        database.execute("UPDATE memory_events SET content_json = CAST(x'ff' AS TEXT) WHERE id = 2")
        database.execute("UPDATE memory_events SET timestamp = 'then' WHERE id = 3")
    receipt = await import_source(memory, str(path), ImportOptions("adk-sqlite-memory"))
    assert (receipt.memories["new"], receipt.skipped) == (MEMORY_COUNT - 3, {"unreadable": 3})
    assert [row.place.rpartition(", ")[2] for row in receipt.problems] == ["row 1", "row 2", "row 3"]


@pytest.mark.slow
async def test_the_command_imports_memories(command, app_name, tmp_path, monkeypatch):
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestDemo")
    path = write_json(tmp_path / "memories.json", make_bank_export(app_name))
    result = await command("import", "--from", "memory-bank", path)
    assert (result.exit_code, result.stdout) == (0, "memories  2 read: 2 new\n")
    printed = (await command("facts", "--app", app_name, "--user", "ana")).stdout
    assert "Rex is afraid of thunder." in printed
    wrong = await command("import", "--from", "mem0", path, "--app", app_name)
    assert wrong.exit_code == 1
    assert "Expected what Mem0's get_all() returns" in wrong.stderr
