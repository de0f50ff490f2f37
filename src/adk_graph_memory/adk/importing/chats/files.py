"""Read the files of an exported chat: one, or those of a folder or a ZIP archive."""

from __future__ import annotations

import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.json_exports import JsonRow, describe_value, parse_json
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import SkippedRow


class PartedRows(NamedTuple):
    """The objects among some rows with their places, and what else stands there."""

    objects: list[tuple[str, dict[str, Any]]]
    others: list[SkippedRow]

    def check(self, expected: str) -> PartedRows:
        """Return them, or refuse rows that are all something else.

        Raises:
            errors.UnreadableTranscript: they are.
        """
        if self.others and not self.objects:
            raise make_format_error(self.others[0].place, expected, self.others[0].reason)
        return self


class ChatFiles:
    """The files of an export: one file, or those of a folder or a ZIP archive, read by name.

    Raises:
        errors.NotFound: nothing has this path.
        errors.UnreadableTranscript: it is a broken archive.
    """

    def __init__(self, path: Path) -> None:
        try:
            if not path.exists():
                raise errors.NotFound(f"There is no file {path}.", what=f"file {path}", where="the path")
            self.path = path
            self._archive = zipfile.ZipFile(path) if path.is_file() and zipfile.is_zipfile(path) else None
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise make_format_error(str(path)[:200], "a file, a folder or a ZIP archive", str(error)[:200]) from error

    def close(self) -> None:
        """Close the archive, if it is one."""
        if self._archive:
            self._archive.close()

    def list_names(self) -> list[str]:
        """List the files' names, with the folders that they are in."""
        if self._archive:
            names = (name for name in self._archive.namelist() if not name.startswith("__MACOSX/"))
            return sorted(name for name in names if not name.endswith("/"))
        if self.path.is_dir():
            return sorted(file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file())
        return [self.path.name]

    def find_names(self, pattern: str, expected: str) -> list[str]:
        """Find the files whose names match the pattern, or the only one.

        Raises:
            errors.UnreadableTranscript: there is none.
        """
        names = self.list_names()
        if not self._archive and self.path.is_file():
            return names
        found = [name for name in names if re.search(pattern, PurePosixPath(name).name)]
        if not found:
            raise make_format_error(str(self.path), expected, f"it holds {', '.join(names[:5]) or 'nothing'}")
        return found

    def find_only_name(self, pattern: str, expected: str) -> str:
        """Find the one file whose name matches the pattern.

        Raises:
            errors.UnreadableTranscript: there is none.
            errors.InvalidArgument: there are several.
        """
        name, *others = self.find_names(pattern, expected)
        if others:
            more = " and more" if others[1:] else ""
            reason = f"{self.path} holds {name}, {others[0]}{more}: import each by itself"
            raise errors.InvalidArgument(reason=reason)
        return name

    def describe_place(self, name: str) -> str:
        """Say where a file is: in an archive or a folder, or the path itself."""
        return f"{self.path}, {name}" if self._archive or self.path.is_dir() else str(self.path)

    def read_text(self, name: str, expected: str) -> str:
        """Read a file, which is UTF-8, or UTF-16 if it begins with its mark.

        Raises:
            errors.UnreadableTranscript: it cannot be read, or is no text.
        """
        try:
            if self._archive:
                content = self._archive.read(name)
            else:
                content = (self.path / name if self.path.is_dir() else self.path).read_bytes()
            return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError as error:
            kind = "a broken ZIP archive" if content[:2] == b"PK" else f"no UTF-8 text ({error.reason})"
            raise make_format_error(self.describe_place(name), expected, f"it is {kind}") from error
        except (OSError, RuntimeError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise make_format_error(self.describe_place(name), expected, str(error)) from error

    def read_rows(self, name: str, expected: str) -> list[JsonRow]:
        """Read the rows of a JSON file: those of its list, its only value, or one on each line.

        Raises:
            errors.UnreadableTranscript: it is no JSON.
        """
        text, place = self.read_text(name, expected), self.describe_place(name)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
            rows = [parse_json(f"{place}, line {number}", line) for number, line in lines]
            if len(rows) > 1 and isinstance(rows[0].value, dict | list):
                return rows
            raise make_format_error(place, expected, f"it is no JSON ({error})") from error
        return list_rows(value, place) if isinstance(value, list) else [JsonRow(place, value)]


def list_rows(values: Sequence[Any], place: str, what: str = "row") -> list[JsonRow]:
    """List values with their places."""
    return [JsonRow(f"{place}, {what} {number}", value) for number, value in enumerate(values, 1)]


def part_objects(rows: Iterable[JsonRow], key: str | None = None, kind: type = object) -> PartedRows:
    """Part the objects, or those with such a value under the key, from whatever else stands there."""
    parted = PartedRows([], [])
    for row in rows:
        if isinstance(row.value, dict) and (key is None or isinstance(row.value.get(key), kind)):
            parted.objects.append((row.place, row.value))
        else:
            reason = row.problem or f"there is {describe_value(row.value)}"
            parted.others.append(SkippedRow(row.place, "unreadable", reason))
    return parted


def get_value(value: Any, *keys: str) -> Any:
    """Look a value up in nested objects; None if one of them is missing, or none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def get_id(value: Any, *keys: str) -> str | None:
    """Look up a text or a number that names something; None if there is none."""
    found = get_value(value, *keys)
    return str(found) if isinstance(found, str | int) and found != "" else None
