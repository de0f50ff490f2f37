"""Read the channels of a Slack workspace from its export."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.chats.files import ChatFiles, get_id, get_value, part_objects
from adk_graph_memory.adk.importing.chats.messages import ChatOptions, Row, make_message
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import SYSTEM_LINE, SkippedRow

_EXPECTED = "Slack's export: users.json, and a folder with a file for each day of each channel"
_MENTION = re.compile(r"<@(\w+)(?:\|[^<>]*)?>")
_LINK = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
_SAID_SUBTYPES = (None, "thread_broadcast", "me_message", "file_share", "bot_message")


def read_slack(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read Slack's export, in its ZIP archive or unpacked; each channel's day is a session."""
    users_file = files.find_only_name(r"^users\.json$", _EXPECTED)
    users, others = part_objects(files.read_rows(users_file, _EXPECTED)).check(_EXPECTED)
    yield from others
    names = {id: _name_user(user) for _, user in users if (id := get_id(user, "id"))}
    counts = Counter(names.values())
    names = {id: f"{name} ({id})" if name and counts[name] > 1 else name for id, name in names.items()}
    paths = map(PurePosixPath, files.list_names())
    days = [path for path in paths if re.fullmatch(r"\d{4}-\d\d-\d\d\.json", path.name)]
    if not days:
        reason = "it has no file of a channel's day, such as general/2025-03-14.json"
        raise make_format_error(str(files.path), _EXPECTED, reason)
    for day in days:
        session_id = f"slack-{day.parent.name}-{day.stem}"
        try:
            rows, others = part_objects(files.read_rows(str(day), _EXPECTED))
        except errors.UnreadableTranscript as error:
            rows, others = [], [SkippedRow(error.place, "unreadable", error.reason)]
        yield from others
        for place, row in rows:
            yield _read_row(place, row, names, options, session_id)


def _read_row(
    place: str, row: Mapping[str, Any], names: Mapping[str, str | None], options: ChatOptions, session_id: str
) -> Row:
    if get_id(row, "subtype") not in _SAID_SUBTYPES:
        return SkippedRow(place, SYSTEM_LINE, str(row.get("subtype")))
    text = row.get("text")
    if isinstance(text, str):
        text = _MENTION.sub(lambda match: f"@{names.get(match[1]) or match[1]}", text)
        text = html.unescape(_LINK.sub(lambda match: match[2] or match[1], text))
    is_agent = "bot_id" in row or row.get("subtype") == "bot_message"
    user = get_id(row, "user") or ""
    author = names.get(user) or get_id(row, "username") or get_id(row, "bot_profile", "name") or user
    if is_agent and author in names.values():
        author = f"{author} (bot)"
    id = get_id(row, "client_msg_id") or get_id(row, "ts")
    return make_message(place, author, text, row.get("ts"), options, is_agent=is_agent, session_id=session_id, id=id)


def _name_user(user: Mapping[str, Any]) -> str | None:
    names = (
        get_value(user, "profile", "display_name"),
        get_value(user, "profile", "real_name"),
        *map(user.get, ("real_name", "name")),
    )
    return next((name for name in names if isinstance(name, str) and name.strip()), None)
