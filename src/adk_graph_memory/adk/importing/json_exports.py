"""Read memories from JSON exports of Mem0 and Vertex AI Memory Bank."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.records import SourceMemory, check_text, parse_moment
from adk_graph_memory.language.text import digest
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import SkippedRow


class JsonRow(NamedTuple):
    """A row: its place, and its value or the problem with it."""

    place: str
    value: Any = None
    problem: str = ""


def iterate_rows(path: Path, list_key: str, expected: str) -> Iterator[JsonRow]:
    """Iterate over the rows of a file: of a JSON list, of an object's list ``list_key``, or one on each line.

    Each line may also be a list or such an object, as if the pages of an export were put one below the other.

    Raises:
        errors.NotFound: there is no such file.
        errors.UnreadableTranscript: it is neither; the error says what stands there.
    """
    if not path.is_file():
        raise errors.NotFound(f"There is no file {path}.", what=f"file {path}", where="the path")
    try:
        # Not the default line ends: JSON strings may contain other line separators.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            first = next((line for line in file if line.strip()), "").strip()
            if not first:
                raise make_format_error(str(path), expected, "it is empty")
            file.seek(0)
            # It is JSON Lines if the first line is JSON by itself, or was meant to be.
            if not parse_json("", first).problem or (first[:1] == "{" and first[-1:] == "}"):
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield from _split_value(parse_json(f"{path}, line {number}", line), list_key)
                return
            document = parse_json(str(path), file.read())
    except OSError as error:
        raise make_format_error(str(path), expected, error.strerror or str(error)) from error
    if document.problem:
        raise make_format_error(str(path), expected, document.problem)
    yield from _split_value(document, list_key)


def parse_json(place: str, text: str) -> JsonRow:
    """Parse a row's JSON, or say what is wrong with it."""
    try:
        return JsonRow(place, json.loads(text))
    except (ValueError, RecursionError) as error:
        return JsonRow(place, problem=f"it is not JSON ({error})")


def _split_value(row: JsonRow, list_key: str) -> Iterator[JsonRow]:
    rows = row.value.get(list_key) if isinstance(row.value, dict) else row.value
    if isinstance(rows, list):
        for number, value in enumerate(rows, 1):
            yield JsonRow(f"{row.place}, row {number}", value)
    else:
        yield row


def describe_value(value: object) -> str:
    """Say in a few words what stands where something else was expected."""
    if isinstance(value, dict):
        return f"an object with the keys {', '.join(list(map(str, value))[:8])}" if value else "an empty object"
    return "a text" if isinstance(value, str) else f"the value {str(value)[:40]}"


_MEM0_READ = {"id", "memory", "user_id", "app_id", "hash", "score"}
"""Keys of a Mem0 memory that become more than metadata, or follow from its text or from a search."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """What an export looks like, and how one of its rows is read."""

    expected: str
    list_key: str
    row_keys: frozenset[str]
    """every row has one of these keys; a first row without them is of another format"""
    read_row: Callable[[Mapping[str, Any], str], SourceMemory | SkippedRow]


@dataclass(frozen=True, slots=True)
class MemoryExport:
    """The memories in an export."""

    path: Path
    format: ExportFormat

    async def iterate_memories(self) -> AsyncIterator[SourceMemory | SkippedRow]:
        """Iterate over the memories in the order of the file.

        Raises:
            errors.NotFound: there is no such file.
            errors.UnreadableTranscript: the file, or its first row, is of another format.
        """
        is_first = True
        for row in iterate_rows(self.path, self.format.list_key, self.format.expected):
            if row.problem:
                yield SkippedRow(row.place, "unreadable", row.problem)
                continue
            if is_first and not (isinstance(row.value, dict) and self.format.row_keys.intersection(row.value)):
                raise make_format_error(row.place, self.format.expected, f"it is {describe_value(row.value)}")
            is_first = False
            if not isinstance(row.value, dict):
                yield SkippedRow(row.place, "unreadable", f"it is {describe_value(row.value)}")
                continue
            try:
                yield self.format.read_row(row.value, row.place)
            except errors.InvalidArgument as error:
                yield SkippedRow(row.place, "unreadable", error.reason)


def _read_mem0_row(row: Mapping[str, Any], place: str) -> SourceMemory | SkippedRow:
    """Read a memory as Mem0's ``get_all()`` returns it; it says what was so at its last change."""
    text, user_id = check_text(row.get("memory"), "memory"), _read_owner(row, "user_id")
    if _is_past(row.get("expiration_date")):
        return SkippedRow(place, "expired", f"it expired at {row['expiration_date']}")
    moments = [parse_moment(row.get(name), UTC, name) for name in ("updated_at", "created_at")]
    metadata = {key: value for key, value in row.items() if key not in _MEM0_READ and value is not None}
    if isinstance(own := metadata.get("metadata"), dict):
        metadata = {key: value for key, value in metadata.items() if key != "metadata"} | own
    metadata |= _name_source(row.get("id"))
    return SourceMemory(
        place,
        str(row["id"]) if row.get("id") else digest(user_id or "", text),
        text,
        _read_owner(row, "app_id"),
        user_id,
        next(filter(None, moments), None),
        _read_owner(row, "actor_id"),
        metadata,
        "import",
    )


def _read_bank_row(row: Mapping[str, Any], place: str) -> SourceMemory | SkippedRow:
    """Read a memory as Memory Bank's REST API lists it; the SDK's names with underscores are read too."""
    if not row.get("fact"):
        return SkippedRow(place, "without a fact", 'it has no "fact"')
    text, expires_at = check_text(row["fact"], "fact"), _get_either(row, "expireTime")
    if _is_past(expires_at):
        return SkippedRow(place, "expired", f"it expired at {expires_at}")
    scope = row["scope"] if isinstance(row.get("scope"), dict) else {}
    moments = [parse_moment(_get_either(row, name), UTC, name) for name in ("updateTime", "createTime")]
    kept = ("displayName", "description", "createTime", "updateTime", "expireTime")
    metadata = {_to_snake_case(key): value for key in kept if (value := _get_either(row, key)) is not None}
    if topics := [_read_topic(topic) for topic in row.get("topics") or ()]:
        metadata["memory_topics"] = topics
    more = {key: value for key, value in scope.items() if key not in ("user_id", "user", "app_name", "app")}
    metadata |= {"scope": more} if more else {}
    if isinstance(row.get("metadata"), dict):
        metadata |= {key: _read_typed_value(value) for key, value in row["metadata"].items()}
    metadata |= _name_source(row.get("name"))
    user_id = _read_owner(scope, "user_id") or _read_owner(scope, "user")
    return SourceMemory(
        place,
        str(row["name"]) if row.get("name") else digest(user_id or "", text),
        text,
        _read_owner(scope, "app_name") or _read_owner(scope, "app"),
        user_id,
        next(filter(None, moments), None),
        metadata=metadata,
        origin="import",
    )


MEM0 = ExportFormat(
    'what Mem0\'s get_all() returns, as JSON: {"results": [{"id": …, "memory": …, "user_id": …}]}, the list alone, or '
    "a memory on each line",
    "results",
    frozenset({"memory"}),
    _read_mem0_row,
)
MEMORY_BANK = ExportFormat(
    'what Memory Bank\'s REST API lists, as JSON: {"memories": [{"name": …, "fact": …, "scope": …}]}, the list alone, '
    "or a memory on each line",
    "memories",
    frozenset({"fact", "scope"}),
    _read_bank_row,
)


def _read_owner(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    return check_text(str(value), key) if value not in (None, "") else None


def _name_source(id: object) -> dict[str, Any]:
    return {"source_id": str(id)} if id else {}


def _is_past(moment: object) -> bool:
    parsed = parse_moment(moment, UTC, "expiration")
    if parsed and isinstance(moment, str) and len(moment) <= len("2026-05-04"):
        parsed += timedelta(days=1)  # a date includes its day
    return parsed is not None and parsed < datetime.now(UTC)


def _get_either(row: Mapping[str, Any], key: str) -> Any:
    """Return a field by its name in REST, or by that in Python."""
    return row.get(key, row.get(_to_snake_case(key)))


def _to_snake_case(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _read_topic(topic: object) -> Any:
    if not isinstance(topic, dict):
        return topic
    names = [_get_either(topic, key) for key in ("managedMemoryTopic", "customMemoryTopicLabel")]
    return next(filter(None, names), topic)


def _read_typed_value(value: object) -> Any:
    """Unwrap one of Memory Bank's values, an object whose one key says its type."""
    if isinstance(value, dict):
        for key in ("stringValue", "doubleValue", "boolValue", "timestampValue"):
            if (plain := _get_either(value, key)) is not None:
                return plain
    return value
