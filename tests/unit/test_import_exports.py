"""Exports are read in every form they come in; a row that cannot be read is named and holds up nothing."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.import_sources import make_bank_export, make_mem0_export

from adk_graph_memory import errors
from adk_graph_memory.adk.importing import json_exports
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.adk.importing.json_exports import MemoryExport
from adk_graph_memory.adk.importing.records import SourceMemory
from adk_graph_memory.records.reports import ImportReceipt, SkippedRow

ROW = {"id": "1", "memory": "Likes tea", "user_id": "ana"}


def read_export(path: Path, format: json_exports.ExportFormat = json_exports.MEM0) -> list[SourceMemory | SkippedRow]:
    async def collect() -> list[SourceMemory | SkippedRow]:
        return [row async for row in MemoryExport(path, format).iterate_memories()]

    return asyncio.run(collect())


def import_dry(path: Path, **options: Any) -> ImportReceipt:
    return asyncio.run(import_source(None, str(path), ImportOptions("mem0", **options)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "export.json"


FORMS = {
    "an object": lambda rows: json.dumps({"results": rows}),
    "an object on many lines": lambda rows: json.dumps({"results": rows}, indent=2),
    "a list": json.dumps,
    "a list on many lines": lambda rows: json.dumps(rows, indent=2),
    "lines": lambda rows: "\n".join(map(json.dumps, rows)),
    "lines with a mark, and empty ones": lambda rows: "\ufeff\n" + "\n\n".join(map(json.dumps, rows)) + "\n\n",
    "pages on lines": lambda rows: "\n".join(json.dumps({"results": [row]}) for row in rows),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(path: Path, form: str) -> None:
    rows = make_mem0_export()["results"]
    path.write_text(FORMS[form](rows), encoding="utf-8")
    memories = [row for row in read_export(path) if isinstance(row, SourceMemory)]
    assert [(one.id, one.text, one.user_id) for one in memories] == [
        (row["id"], row["memory"], row["user_id"]) for row in rows
    ]


def test_lines_are_read_one_at_a_time(path: Path) -> None:
    """The first rows are there before a later line is found to be broken."""
    path.write_text(json.dumps(ROW) + "\n{broken}\n" + json.dumps(ROW | {"id": "2"}) + "\n[1\n", encoding="utf-8")
    rows = read_export(path)
    assert [type(row) for row in rows] == [SourceMemory, SkippedRow, SourceMemory, SkippedRow]
    assert [row.place for row in rows] == [f"{path}, line {number}" for number in (1, 2, 3, 4)]


def test_line_separators_in_a_text_end_no_line(path: Path) -> None:
    text = "one\u2028two\u0085three"
    path.write_text(json.dumps(ROW | {"memory": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    [row] = read_export(path)
    assert isinstance(row, SourceMemory)
    assert row.text == text


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROW | {"memory": " "}, 'it has no "memory"'),
        (ROW | {"memory": 7}, 'it has no "memory"'),
        (ROW | {"memory": "half \ud83d"}, 'its "memory" holds what is no Unicode'),
        (ROW | {"created_at": "yesterday"}, "its \"created_at\" 'yesterday' is no ISO 8601 time"),
        (ROW | {"created_at": "0001-01-01T00:00:00Z"}, "is not between the years 2 and 9998"),
        (7, "it is the value 7"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(path: Path, row: Any, reason: str) -> None:
    path.write_text(json.dumps({"results": [ROW, row, ROW]}), encoding="utf-8")
    rows = read_export(path)
    assert [type(one) for one in rows] == [SourceMemory, SkippedRow, SourceMemory]
    assert isinstance(rows[1], SkippedRow)
    assert reason in rows[1].reason
    assert rows[1].place.endswith(", row 2")


@pytest.mark.parametrize(
    ("text", "stood"),
    [
        ("", "it is empty"),
        ("hello", "it is not JSON"),
        ('{"results": [\n{"memory": 1', "it is not JSON"),
        ('{"memories": []}', "an object with the keys memories"),
        ('[{"name": "1", "fact": "Likes tea."}]', "an object with the keys name, fact"),
        ('"memory"', "it is a text"),
    ],
)
def test_what_is_no_such_export_says_what_it_is(path: Path, text: str, stood: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(errors.UnreadableTranscript, match=r"Expected what Mem0's get_all\(\) returns") as caught:
        read_export(path)
    assert stood in str(caught.value)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(errors.NotFound, match=r"There is no file .*export\.json"):
        read_export(path)


def test_an_export_of_nothing_is_no_error(path: Path) -> None:
    path.write_text('{"results": []}', encoding="utf-8")
    assert read_export(path) == []


def test_without_an_app_the_option_is_asked_for(path: Path) -> None:
    path.write_text(json.dumps(make_mem0_export()), encoding="utf-8")
    with pytest.raises(errors.InvalidArgument, match=r"row 1, and 2 more: it names no app \(give --app\)"):
        import_dry(path)
    assert import_dry(path, app_name="home").memories == {"read": 3}


def test_a_user_stands_in_for_those_that_are_not_named(path: Path) -> None:
    path.write_text(json.dumps([ROW, {"id": "2", "memory": "Is an agent"}]), encoding="utf-8")
    receipt = import_dry(path, app_name="home")
    assert (receipt.memories, receipt.skipped) == ({"read": 1}, {"without an app or user": 1})
    assert receipt.has_problems
    assert import_dry(path, app_name="home", user_id="ana").memories == {"read": 2}
    other = import_dry(path, app_name="home", user_id="bea")
    assert (other.memories, other.skipped) == ({"read": 1}, {"of another app or user": 1})


def test_what_has_expired_stays_behind(path: Path) -> None:
    today = datetime.now(UTC).date()
    dates = {"yesterday": today - timedelta(days=1), "tomorrow": today + timedelta(days=1)}
    rows = [ROW | {"id": name, "expiration_date": day.isoformat()} for name, day in dates.items()]
    path.write_text(json.dumps(rows), encoding="utf-8")
    gone, kept = read_export(path)
    assert isinstance(gone, SkippedRow)
    assert (gone.kind, isinstance(kept, SourceMemory)) == ("expired", True)


def test_the_two_spellings_of_memory_bank_mean_the_same(path: Path) -> None:
    rest = make_bank_export("home")["memories"][0]
    python = {
        "name": rest["name"],
        "fact": rest["fact"],
        "create_time": rest["createTime"],
        "update_time": rest["updateTime"],
        "scope": rest["scope"],
        "topics": [{"managed_memory_topic": "USER_PREFERENCES"}, {"custom_memory_topic_label": "pets"}],
        "metadata": {"source": {"string_value": "chat"}, "sure": {"double_value": 0.5}, "seen": {"bool_value": False}},
        "display_name": "Rex",
    }
    path.write_text(json.dumps({"memories": [rest, python]}), encoding="utf-8")
    one, other = (row for row in read_export(path, json_exports.MEMORY_BANK) if isinstance(row, SourceMemory))
    assert (one.text, one.at, one.metadata, one.user_id) == (other.text, other.at, other.metadata, other.user_id)
    assert (one.app_name, one.user_id) == ("home", "ana")


def test_a_profile_without_a_fact_stays_behind(path: Path) -> None:
    profile = {"name": "1", "scope": {"user": "ana"}, "memoryType": "STRUCTURED_PROFILE", "structuredContent": {}}
    fact = {"fact": "Likes tea.", "scope": {"user": "ana", "team": "red"}}
    path.write_text(json.dumps([profile, fact]), encoding="utf-8")
    skipped, kept = read_export(path, json_exports.MEMORY_BANK)
    assert isinstance(skipped, SkippedRow) and skipped.kind == "without a fact"
    assert isinstance(kept, SourceMemory)
    assert (kept.user_id, kept.metadata["scope"]) == ("ana", {"team": "red"})
