"""Read an export of this package, user by user, and refuse one that is cut off or of a schema that we do not know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from adk_graph_memory import errors, graph
from adk_graph_memory.graph import export_lines
from adk_graph_memory.importing.source_records import SkippedRow, make_format_error
from adk_graph_memory.records import Scope
from adk_graph_memory.records.portable_rows import ExportHeader, PortableNode

EXPECTED = "a file that `adk-graph-memory export` wrote"
MEND = "Put back the line as the export wrote it, or export again, and import the file once more"
"""What to do about a line that cannot be read."""
EARLY_END = "it says that the file ends here, and more lines follow"


@dataclass(frozen=True, slots=True)
class ExportedApp:
    """An app's line."""

    place: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExportedNode:
    """A node's line, and how long it is."""

    place: str
    node: PortableNode
    size: int


@dataclass(slots=True)
class UserSection:
    """The lines of one user; each iteration over them starts anew.

    Args:
        file: the file, open.
        path: its name, for the places of what cannot be read.
        place: that of the user's own line.
        node: the user's own node.
        user_number: the number that the user's lines carry.
        start: where the lines behind the user's own begin.
        first_line: the number of the first of them.
    """

    file: BinaryIO
    path: Path
    place: str
    node: PortableNode
    user_number: int
    start: int
    first_line: int
    end: tuple[int, int] = field(default=(0, 0))
    """where the next section begins, and the number of its line, once this one was read"""

    def iterate_nodes(self) -> Iterator[ExportedNode | SkippedRow]:
        """Yield the user's nodes but the user's own, and what cannot be read."""
        self.file.seek(self.start)
        position, number = self.start, self.first_line
        while line := self.file.readline():
            place = f"{self.path}, line {number}"
            try:
                value = export_lines.parse_line(line)
                if _begins_section(value) or ("end" in value and not self.file.readline()):
                    break
                if "end" in value:
                    raise errors.InvalidArgument(reason=EARLY_END)
                if value.get("of") != self.user_number:
                    reason = "it is of a user whose own line cannot be read"
                    raise errors.InvalidArgument(reason=reason)
                row: ExportedNode | SkippedRow = ExportedNode(place, export_lines.decode_node(value), len(line))
            except errors.InvalidArgument as error:
                row = SkippedRow(place, "unreadable", f"{error.reason}. {MEND}")
            position, number = position + len(line), number + 1
            yield row
            self.file.seek(position)
        self.end = position, number


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file that an export wrote."""

    path: Path

    async def check(self) -> ExportHeader:
        """Check that the file is whole and of a schema that we know, and return what it says of itself.

        Raises:
            errors.NotFound: there is no such file.
            errors.UnreadableTranscript: it is no export, it is cut off, or it has a schema that we do not know.
        """
        if not self.path.is_file():
            raise errors.NotFound(f"There is no file {self.path}.", what=f"file {self.path}", where="the path")
        try:
            return await asyncio.to_thread(self._check)
        except OSError as error:
            raise make_format_error(str(self.path), EXPECTED, error.strerror or str(error)) from error

    def _check(self) -> ExportHeader:
        with self.path.open("rb") as file:
            first = last = file.readline()
            lines = 1
            header = self._read_header(first)
            for line in file:
                last, lines = line, lines + 1
        place = f"{self.path}, line {lines}"
        try:
            footer = export_lines.parse_line(last).get("end")
        except errors.InvalidArgument:
            footer = None
        again = "Nothing was imported: get the whole file, or export again."
        if not isinstance(footer, dict) or not last.endswith(b"\n"):
            reason = "the file ends here, and its export wrote more"
            raise errors.UnreadableTranscript(f"{place}: {reason}. {again}", place=place, reason=reason)
        if footer.get("lines") != lines - 1:
            reason = f"{footer.get('lines')} lines should stand before this one, and {lines - 1} do"
            raise errors.UnreadableTranscript(f"{place}: {reason}. {again}", place=place, reason=reason)
        return header

    def _read_header(self, line: bytes) -> ExportHeader:
        place = f"{self.path}, line 1"
        try:
            value = export_lines.parse_line(line)
        except errors.InvalidArgument as error:
            raise make_format_error(place, EXPECTED, error.reason) from error
        header = export_lines.decode_header(value)
        if header is None:
            raise make_format_error(place, EXPECTED, f"it has the keys {', '.join(list(value)[:8])}")
        if value["version"] > export_lines.FORMAT_VERSION or header.schema > graph.migrate.get_schema_version():
            reason = (
                f"adk-graph-memory {header.package} wrote it, in schema {header.schema} and format {value['version']}; "
                f"this release knows up to {graph.migrate.get_schema_version()} and {export_lines.FORMAT_VERSION}"
            )
            message = f"{place}: {reason}. Upgrade adk-graph-memory here to {header.package} or later."
            raise errors.UnreadableTranscript(message, place=place, reason=reason)
        if not graph.migrate.knows_schema(header.schema, header.checksum):
            reason = f"another development version of adk-graph-memory wrote it (schema {header.schema})"
            message = f"{place}: {reason}, and this one does not know it. Import it with the version that wrote it."
            raise errors.UnreadableTranscript(message, place=place, reason=reason)
        return header

    def iterate_sections(self) -> Iterator[ExportedApp | UserSection | SkippedRow]:
        """Yield apps and users in the order of the file, and what cannot be read between them."""
        with self.path.open("rb") as file:
            position, number = len(file.readline()), 2
            while True:
                file.seek(position)
                line, place = file.readline(), f"{self.path}, line {number}"
                position, number = position + len(line), number + 1
                try:
                    value = export_lines.parse_line(line)
                    if "end" in value:
                        if not file.readline():
                            return
                        raise errors.InvalidArgument(reason=EARLY_END)
                    if "app" in value:
                        properties = export_lines.decode_app(value)
                        Scope(properties["app_name"], "")
                        yield ExportedApp(place, properties)
                        continue
                    section = self._open_section(file, value, place, position, number)
                except errors.InvalidArgument as error:
                    yield SkippedRow(place, "unreadable", f"{error.reason}. {MEND}")
                    continue
                yield section
                if section.end == (0, 0):
                    for _ in section.iterate_nodes():
                        pass
                position, number = section.end

    def _open_section(
        self, file: BinaryIO, value: Mapping[str, Any], place: str, position: int, number: int
    ) -> UserSection:
        node = export_lines.decode_node(value)
        if node.place.label != "User":
            raise errors.InvalidArgument(reason="it is of a user whose own line cannot be read")
        Scope.from_graph(node.properties["app_name"], node.properties["user_id"])
        return UserSection(file, self.path, place, node, value.get("of", 0), position, number)


def _begins_section(value: Mapping[str, Any]) -> bool:
    """Whether a line is none of the user before it."""
    labels = value.get("node")
    return "app" in value or (isinstance(labels, list) and labels[:1] == ["User"])
