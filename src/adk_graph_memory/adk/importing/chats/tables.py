"""Read messages from a table, such as a spreadsheet or a database exports."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.chats.files import ChatFiles
from adk_graph_memory.adk.importing.chats.messages import AGENT_AUTHOR, ChatOptions, Message, Row, make_message
from adk_graph_memory.adk.importing.chats.written_days import (
    CLOCK,
    DATE,
    GAP,
    choose_date_order,
    parse_local_time,
)
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import SkippedRow

_EXPECTED = "a CSV file with a line of column names"
_LOCAL_TIME = re.compile(rf"\s*{DATE}(?:{GAP}{CLOCK})?\s*")
COLUMNS = {
    "text": ("text", "message", "content", "body"),
    "author": ("author", "sender", "from", "user", "name"),
    "time": ("time", "timestamp", "date", "datetime", "at", "created_at"),
    "session": ("session", "session_id", "conversation", "conversation_id", "channel", "thread"),
}
"""What a column of a CSV file may be called if nobody names it."""


def read_csv(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read a table with a line for each message; they come in the order of their times."""
    text = files.read_text(files.find_only_name(r"\.(?:csv|tsv)$", _EXPECTED), _EXPECTED)
    rows = list(_read_lines(text, str(files.path), options))
    yield from (row for row in rows if isinstance(row, SkippedRow))
    messages = [row for row in rows if isinstance(row, Message)]
    falls = sum(later.at < earlier.at for earlier, later in pairwise(messages))
    rises = sum(later.at > earlier.at for earlier, later in pairwise(messages))
    yield from sorted(messages[::-1] if falls > rises else messages, key=lambda message: message.at)


def _read_lines(text: str, path: str, options: ChatOptions) -> Iterator[Row]:
    named = re.match(r"sep=(.)\r?\n", text)  # as Excel names the separator
    head, skipped_lines = (text[named.end() :], 1) if named else (text, 0)
    try:
        delimiter = named[1] if named else csv.Sniffer().sniff(head.partition("\n")[0], ",;\t|").delimiter
    except csv.Error:
        delimiter = ","
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    lines = csv.DictReader(io.StringIO(head, newline=""), delimiter=delimiter, strict=True)
    table = []
    try:
        columns = _find_columns([column or "" for column in lines.fieldnames or ()], options.columns, path)
        for cells in lines:
            place = f"{path}, line {lines.line_num + skipped_lines}"
            if None in cells:
                reason = "it has more columns than the first line: is a text without its quotes?"
                yield SkippedRow(place, "unreadable", reason)
            else:
                table.append((place, {what: cells.get(column) or "" for what, column in columns.items()}))
    except csv.Error as error:  # a quote that nobody closes would take in what others said
        place = f"{path}, line {lines.line_num + skipped_lines}"
        raise make_format_error(place, _EXPECTED, str(error)) from error
    matches = [_LOCAL_TIME.fullmatch(row["time"]) for _, row in table]
    order = choose_date_order([match for match in matches if match], options.date_order, path, may_fall=True)
    for (place, row), match in zip(table, matches, strict=True):
        try:
            local_time = parse_local_time(match, order, options.zone).replace(tzinfo=None) if match else None
            at = local_time.isoformat() if local_time else row["time"].strip()
        except ValueError as error:
            yield SkippedRow(place, "unreadable", f"{row['time']!r} is no time ({error})")
            continue
        author, session = row["author"].strip(), row.get("session", "").strip()
        is_agent, session_id = author.casefold() == AGENT_AUTHOR, f"csv-{session}" if session else None
        yield make_message(place, author, row["text"], at, options, is_agent=is_agent, session_id=session_id)


def _find_columns(present: Sequence[str], given: Mapping[str, str], place: str) -> dict[str, str]:
    by_name = {column.strip().casefold(): column for column in present}
    found = {}
    for what, names in COLUMNS.items():
        wanted = (given[what].strip().casefold(),) if what in given else names
        column = next((by_name[name] for name in wanted if name in by_name), None)
        if column is not None:
            found[what] = column
        elif what != "session" or what in given:
            raise errors.InvalidArgument(
                reason=f"{place} has no column for the {what}: name it with --column {what}=NAME. "
                f"Its columns are {', '.join(present) or 'none'}"
            )
    return found
