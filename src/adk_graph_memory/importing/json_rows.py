"""Read rows from a file of JSON Lines, a line at a time, or from one JSON document, which is read whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.importing.source_records import make_format_error


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
            first = next((line for line in file if line.strip()), "")
            if not first:
                raise make_format_error(str(path), expected, "it is empty")
            file.seek(0)
            if _is_whole_line(first):
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield from _split_value(_parse_json(f"{path}, line {number}", line), list_key)
                return
            document = _parse_json(str(path), file.read())
    except OSError as error:
        raise make_format_error(str(path), expected, error.strerror or str(error)) from error
    if document.problem:
        raise make_format_error(str(path), expected, document.problem)
    yield from _split_value(document, list_key)


def _is_whole_line(line: str) -> bool:
    """Whether the line is JSON by itself, or was meant to be."""
    line = line.strip()
    return not _parse_json("", line).problem or (line[:1] == "{" and line[-1:] == "}")


def _parse_json(place: str, text: str) -> JsonRow:
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
