"""Read the messages of exported chats: WhatsApp, Slack, ChatGPT, Claude, OpenAI's message lists and CSV.

A form yields every message with its place, or what it is instead of one, so that a receipt accounts for all of them.
"""

from __future__ import annotations

import csv
import html
import io
import json
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.json_exports import describe_value
from adk_graph_memory.adk.importing.records import check_text, parse_moment
from adk_graph_memory.language.text import digest
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import MEDIA, SUPERSEDED_ANSWER, SYSTEM_LINE, SkippedRow

USER_AUTHOR, AGENT_AUTHOR = "user", "assistant"
_DATE_ORDERS = ("dmy", "mdy")
"""How a day may be written whose first number has less than three digits; with dashes, the year may come first."""


class Message(NamedTuple):
    """What somebody said; ``session_id`` is None where the chat is one, which is then parted by days."""

    place: str
    author: str
    text: str
    at: datetime
    is_agent: bool = False
    session_id: str | None = None
    id: str | None = None


Row = Message | SkippedRow


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What a chat's file may not say itself.

    Args:
        zone: of times without an offset.
        date_order: ``dmy``, ``mdy`` or ``ymd``; by default the whole file tells.
        columns: of a CSV file: the name of the column for ``text``, ``author``, ``time`` and ``session``.
        at: the time of messages that have none.
        me: which of the speakers is the user; by default the one who has the user's id.
        sets_zone: whether the zone becomes the user's, if they have none: not one that is only a default.
    """

    zone: tzinfo
    date_order: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None
    me: str | None = None
    sets_zone: bool = True


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

    def read_json(self, name: str, expected: str) -> Any:
        """Read a JSON file, or one with a JSON value on each line, which becomes a list.

        Raises:
            errors.UnreadableTranscript: it is neither.
        """
        text = self.read_text(name, expected)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            lines = [line for line in text.split("\n") if line.strip()]
            try:
                if len(lines) > 1:
                    return [json.loads(line) for line in lines]
            except (ValueError, RecursionError):
                pass
            raise make_format_error(self.describe_place(name), expected, f"it is no JSON ({error})") from error


# WhatsApp

_WHATSAPP = "a chat that WhatsApp exported: lines such as `31.12.24, 21:05 - Ana: Hello`"
_HALVES = {"am": 0, "pm": 12, "上午": 0, "下午": 12, "午前": 0, "午後": 12, "오전": 0, "오후": 12}
_HALF = r"[AaPp]\.?[\s\u202f\u00a0]?[Mm]\.?|" + "|".join(half for half in _HALVES if not half.isascii())
_HEADER = re.compile(
    rf"^[\u200e\u200f\ufeff]*(?P<bracket>\[)?(?P<date>\d{{1,4}}[./-]\s?\d{{1,2}}[./-]\s?\d{{1,4}})\.?,?[\s\u202f\u00a0]+"
    rf"(?:(?P<before>{_HALF})\s*)?(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})(?:[:.](?P<second>\d{{2}}))?"
    rf"(?:[\s\u202f\u00a0]*(?P<after>{_HALF}))?(?(bracket)\]\s?|[\s\u202f\u00a0]+[-–]\s)(?P<rest>.*)$",
    re.DOTALL,
)
_SPEAKER = re.compile(r"^[\u200e\u200f\s\u202f\u00a0]*([^:\n]{1,80}?): ?(.*)$", re.DOTALL)
_OPEN_QUOTE = re.compile(r'^[^"]*"(?:[^"]*"[^"]*")*[^"]*$|[“„«「『‘‚‹][^”“»」』’‘›]*$|^[^“„”]*”[^”]*$')
"""A name has none; the colon in a notice stands within a group's name."""
_ATTACHED = (
    "file attached|Datei angehängt|archivo adjunto|fichier joint|file allegato|arquivo anexado|bestand bijgevoegd"
)
_LEFT_OUT = (
    "Media omitted|Medien ausgeschlossen|Multimedia omitido|Archivo omitido|Médias omis|Media omessi|Mídia oculta"
    "|Arquivo de mídia oculto|Ficheiro não revelado|Media weggelaten|Без медиафайлов"
)
_OMITTED = re.compile(
    rf"^(?:<(?:{_LEFT_OUT})>|\u200e<[^<>\n]*: [^<>\n]+>"
    r"|\u200e?[A-Z]{3}-\d{8}-WA\d+\.\w{2,5} \([^()\n]*\)"
    rf"|\u200e?[^\n]+\.\w{{2,5}} \((?:{_ATTACHED})\))(?=\n|$)"
)
_EDITED = re.compile(r"(?:\u200e<[^<>]*>|<This message was edited>)$")
_DELETED = (
    "This message was deleted|You deleted this message|Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht"
    "|Se eliminó este mensaje|Eliminaste este mensaje|Ce message a été supprimé|Vous avez supprimé ce message"
    "|Questo messaggio è stato eliminato|Hai eliminato questo messaggio|Mensagem apagada|Você apagou esta mensagem"
    "|Dit bericht is verwijderd|U hebt dit bericht verwijderd"
)
_IS_DELETED = re.compile(rf"^(?:{_DELETED})\.?$")


def read_whatsapp(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read a chat that WhatsApp exported as text, alone or in its ZIP archive."""
    own_name = r"^_chat\.txt$" if "_chat.txt" in files.list_names() else r"\.txt$"  # what was attached is beside it
    name = files.find_only_name(own_name, _WHATSAPP)
    entries = list[tuple[str, re.Match[str], list[str]]]()
    for number, line in enumerate(files.read_text(name, _WHATSAPP).replace("\r\n", "\n").split("\n"), 1):
        place = f"{files.path}, line {number}"
        if match := _HEADER.match(line):
            entries.append((place, match, [match["rest"]]))
        elif entries:
            entries[-1][2].append(line)
        elif line.strip():
            raise make_format_error(place, _WHATSAPP, f"there is {line.strip()[:40]!r}")
    if not entries:
        raise make_format_error(str(files.path), _WHATSAPP, "no line is a message's")
    matches = [match for _, match, _ in entries]
    order = _choose_date_order(matches, options.date_order, str(files.path))
    for place, match, lines in entries:
        try:
            at = _parse_local_time(match, order, options.zone)
        except ValueError as error:
            yield SkippedRow(place, "unreadable", f"{match['date']!r} is no day ({error})")
            continue
        yield _read_whatsapp_message(place, "\n".join(lines).rstrip(), at)


def _read_whatsapp_message(place: str, text: str, at: datetime) -> Row:
    if (speaker := _SPEAKER.match(text)) is None or _OPEN_QUOTE.search(speaker[1]):
        return SkippedRow(place, SYSTEM_LINE, text[:80])
    author, said = speaker[1].strip(), speaker[2]
    if omitted := _OMITTED.match(said):
        said = said[omitted.end() :]  # its caption
    said = _EDITED.sub("", said.rstrip())
    plain = said.replace("\u200e", "").strip()
    is_omitted = said.lstrip().startswith("\u200e") and plain.endswith(" omitted")  # the mark is no person's
    if not plain or is_omitted:
        return SkippedRow(place, MEDIA, speaker[2].strip("\u200e \n")[:80])
    if said.startswith("\u200e") or _IS_DELETED.match(plain):
        return SkippedRow(place, SYSTEM_LINE, plain[:80])
    return Message(place, author, plain, at)


def _parse_clock(match: re.Match[str]) -> tuple[int, int, int]:
    half = re.sub(r"[.\s\u202f\u00a0]", "", match["before"] or match["after"] or "").lower()
    hour = int(match["hour"])
    if half:
        hour = hour % 12 + _HALVES[half]
    return hour, int(match["minute"]), int(match["second"] or 0)


def _parse_date(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", match["date"])))


def _choose_date_order(
    matches: Sequence[re.Match[str]], given: str | None, place: str, *, may_fall: bool = False
) -> str:
    """Choose how days are written: as given, or as the only way in which each is one and none is before the last.

    With ``may_fall`` the latest may also come first.

    Raises:
        errors.InvalidArgument: several ways are possible.
        errors.UnreadableTranscript: no way is.
    """
    matches = [match for match in matches if _parse_date(match)[0] < 1000]  # of others the year comes first
    if not matches:
        return "ymd"
    parts, clocks = [*map(_parse_date, matches)], [*map(_parse_clock, matches)]
    has_dashes = any("-" in match["date"] for match in matches)
    orders = [given] if given else [*_DATE_ORDERS, "ymd"] if has_dashes else [*_DATE_ORDERS]
    possible = [order for order in orders if all(_is_day(part, order) for part in parts)]
    if not possible:
        order = max(orders, key=lambda order: sum(_is_day(part, order) for part in parts))
        bad = next(match["date"] for match, part in zip(matches, parts, strict=True) if not _is_day(part, order))
        expected = "days that are all written alike, or their order as --date-order"
        raise make_format_error(place, expected, f"{bad!r} is no day in the order {order}")
    if len(possible) > 1:
        inversions = {order: _count_inversions(parts, clocks, order, may_fall=may_fall) for order in possible}
        least = min(inversions.values())
        possible = [order for order in possible if inversions[order] == least]
    if len({tuple(_order_parts(part, order) for part in parts) for order in possible}) > 1:
        example = next(match["date"] for match, part in zip(matches, parts, strict=True) if len({*part[:2]}) > 1)
        raise errors.InvalidArgument(
            reason=f"{example!r} in {place} may be two days, and no other line tells: "
            f"give --date-order {' or '.join(possible)}"
        )
    return possible[0]


def _order_parts(parts: Sequence[int], order: str) -> tuple[int, int, int]:
    order = "ymd" if parts[0] > 999 else order
    year, month, day = (parts[order.index(part)] for part in "ymd")
    return year + 2000 if year < 100 else year, month, day


def _is_day(parts: Sequence[int], order: str) -> bool:
    year, month, day = _order_parts(parts, order)
    return 1990 < year <= datetime.now(UTC).year + 1 and 1 <= month <= 12 and 1 <= day <= 31


def _count_inversions(
    parts: Sequence[tuple[int, ...]], clocks: Sequence[tuple[int, int, int]], order: str, *, may_fall: bool
) -> int:
    days = [(*_order_parts(part, order), *clock) for part, clock in zip(parts, clocks, strict=True)]
    falls, rises = sum(b < a for a, b in pairwise(days)), sum(b > a for a, b in pairwise(days))
    return min(falls, rises) if may_fall else falls


def _parse_local_time(match: re.Match[str], order: str, zone: tzinfo) -> datetime:
    return datetime(*_order_parts(_parse_date(match), order), *_parse_clock(match), tzinfo=zone)


# Assistants

_SILENT_ROLES = ("system", "developer", "tool", "function")


def _get(value: Any, *keys: str) -> Any:
    """Look a value up in nested objects; None if one of them is missing, or none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _get_id(value: Any, *keys: str) -> str | None:
    """Look up a text or a number that names something; None if there is none."""
    found = _get(value, *keys)
    return str(found) if isinstance(found, str | int) and found != "" else None


def _list_objects(value: Any, place: str, expected: str) -> list[tuple[str, dict[str, Any]]]:
    """List the objects of a list, or the only one, with their places.

    Raises:
        errors.UnreadableTranscript: one is none.
    """
    objects = [
        (f"{place} {number}", one) for number, one in enumerate(value if isinstance(value, list) else [value], 1)
    ]
    for here, one in objects:
        if not isinstance(one, dict):
            raise make_format_error(here, expected, f"there is {describe_value(one)}")
    return objects


def _skip_role(place: str, role: Any) -> SkippedRow:
    """Leave out what a system or a tool says; whatever has another role cannot be read."""
    is_silent = isinstance(role, str) and role in _SILENT_ROLES
    return SkippedRow(place, SYSTEM_LINE if is_silent else "unreadable", f"its role is {role!r}"[:80])


def _list_messages(chat: Mapping[str, Any], key: str, place: str, expected: str) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(messages := chat.get(key), list):
        raise make_format_error(place, expected, f"there is {describe_value(dict(chat))}")
    return _list_objects(messages, f"{place}, message", expected)


def _join_texts(parts: Any) -> str:
    """Join the texts of a message's parts: texts themselves, or objects with a text."""
    parts = parts if isinstance(parts, list) else []
    texts = (part if isinstance(part, str) else _get(part, "text") for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _list_conversations(files: ChatFiles, expected: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in files.find_names(r"^conversations.*\.json$", expected):
        place = f"{files.describe_place(name)}, conversation"
        yield from _list_objects(files.read_json(name, expected), place, expected)


def read_chatgpt(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read ``conversations.json`` of ChatGPT's export: of each conversation the branch that it shows."""
    expected = "ChatGPT's conversations.json"
    for place, chat in _list_conversations(files, expected):
        if not isinstance(nodes := chat.get("mapping"), dict):
            raise make_format_error(place, expected, f"there is {describe_value(chat)}")
        branch = _follow_branch(nodes, _get_id(chat, "current_node"))
        session_id = f"chatgpt-{_get_id(chat, 'conversation_id') or _get_id(chat, 'id') or digest(*branch)}"
        at = chat.get("create_time")
        for id in branch | dict.fromkeys(nodes):
            if not (message := _get(nodes[id], "message")):
                continue
            role, kind = _get(message, "author", "role"), _get(message, "content", "content_type")
            is_hidden = _get(message, "metadata", "is_visually_hidden_from_user")
            if role not in ("user", "assistant") or kind is None:
                yield _skip_role(place, role)
            elif kind not in ("text", "multimodal_text") or is_hidden:
                yield SkippedRow(place, SYSTEM_LINE, f"{role}, {kind}")
            elif id not in branch:
                yield SkippedRow(place, SUPERSEDED_ANSWER, id)
            else:
                at = _get(message, "create_time") or at
                text = _join_texts(_get(message, "content", "parts"))
                yield _make_message(place, text, at, options, role == "assistant", session_id, id)


def _follow_branch(nodes: Mapping[str, Any], shown: str | None) -> dict[str, None]:
    """List the ids from a conversation's root to the node that is shown, or, without one, to its last leaf."""
    ids = dict[str, None]()
    leaves = [id for id, node in nodes.items() if not _get(node, "children")]
    node = shown if shown in nodes else next(iter(leaves[::-1]), None)
    while node is not None and node in nodes and node not in ids:
        ids[node] = None
        node = _get_id(nodes[node], "parent")
    return dict.fromkeys(reversed(ids))


def read_claude(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read ``conversations.json`` of Claude's export."""
    expected = "Claude's conversations.json"
    for place, chat in _list_conversations(files, expected):
        id = _get_id(chat, "uuid") or digest(json.dumps(chat, sort_keys=True))[:16]
        for here, message in _list_messages(chat, "chat_messages", place, expected):
            blocks = message.get("content")
            said = [block for block in blocks if _get(block, "type") == "text"] if isinstance(blocks, list) else []
            text = _join_texts(said) or str(message.get("text") or "")
            if (sender := message.get("sender")) not in ("human", "user", "assistant"):
                yield _skip_role(here, sender)
                continue
            at = message.get("created_at") or chat.get("created_at")
            yield _make_message(
                here, text, at, options, sender == "assistant", f"claude-{id}", _get_id(message, "uuid")
            )


def read_openai(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read lists of messages as OpenAI's API takes them: one, several, or one on each line."""
    expected = 'messages such as {"role": "user", "content": "Hello"}'
    name = files.find_only_name(r"\.jsonl?$", expected)
    seen = Counter[str]()
    value = files.read_json(name, expected)
    if isinstance(value, list) and value and all(_get(one, "role") for one in value):
        value = {"messages": value}
    for place, chat in _list_objects(value, f"{files.path}, conversation", expected):
        messages = _list_messages(chat, "messages", place, expected)
        id = _get_id(chat, "id") or _get_id(chat, "conversation_id") or digest(*_first_said(messages))[:16]
        seen[id] += 1
        id = id if seen[id] == 1 else f"{id}-{seen[id]}"
        for here, message in messages:
            if (role := message.get("role")) not in ("user", "assistant"):
                yield _skip_role(here, role)
                continue
            content = message.get("content")
            text = content if isinstance(content, str) else _join_texts(content)
            times = (
                one.get(key) for key in ("created_at", "timestamp", "create_time", "created") for one in (message, chat)
            )
            at = next(filter(None, times), None)
            yield _make_message(here, text, at, options, role == "assistant", f"openai-{id}", _get_id(message, "id"))


def _first_said(messages: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The first message of the user, which tells conversations of one system prompt apart."""
    return [json.dumps(message.get("content")) for _, message in messages if message.get("role") == "user"][:1]


def _make_message(
    place: str, text: str, at: object, options: ChatOptions, is_agent: bool, session_id: str, id: str | None
) -> Row:
    if not text.strip():
        return SkippedRow(place, MEDIA, "a message without words")
    try:
        moment = parse_moment(at, options.zone, "time") or options.at
        text = check_text(text, "text")
    except errors.InvalidArgument as error:
        return SkippedRow(place, "unreadable", error.reason)
    if moment is None:
        return SkippedRow(place, "without a time", "it has no time: give --at, a day or a time for all of them")
    author = AGENT_AUTHOR if is_agent else USER_AUTHOR
    return Message(place, author, text, moment, is_agent, session_id, id)


# Teams and tables

_SLACK = "Slack's export: users.json, and a folder with a file for each day of each channel"
_SLACK_MENTION = re.compile(r"<@(\w+)(?:\|[^<>]*)?>")
_SLACK_LINK = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
_SAID_SUBTYPES = (None, "thread_broadcast", "me_message", "file_share", "bot_message")


def read_slack(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read Slack's export, in its ZIP archive or unpacked; each channel's day is a session."""
    users_file = files.find_only_name(r"^users\.json$", _SLACK)
    users = _list_objects(files.read_json(users_file, _SLACK), f"{files.path}, {users_file}, user", _SLACK)
    names = {id: _name_user(user) for _, user in users if (id := _get_id(user, "id"))}
    counts = Counter(names.values())
    names = {id: f"{name} ({id})" if name and counts[name] > 1 else name for id, name in names.items()}
    for name in files.list_names():
        path = PurePosixPath(name)
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}\.json", path.name):
            continue
        session_id = f"slack-{path.parent.name}-{path.stem}"
        for place, row in _list_objects(files.read_json(name, _SLACK), f"{files.path}, {name}, row", _SLACK):
            if _get_id(row, "subtype") not in _SAID_SUBTYPES:
                yield SkippedRow(place, SYSTEM_LINE, str(row.get("subtype")))
                continue
            text = _SLACK_MENTION.sub(lambda match: f"@{names.get(match[1]) or match[1]}", str(row.get("text") or ""))
            text = html.unescape(_SLACK_LINK.sub(lambda match: match[2] or match[1], text))
            id, at = _get_id(row, "client_msg_id") or _get_id(row, "ts"), str(row.get("ts"))
            at = datetime.fromtimestamp(float(at), UTC).isoformat() if re.fullmatch(r"\d{1,11}(\.\d+)?", at) else at
            is_agent = "bot_id" in row or row.get("subtype") == "bot_message"
            said = _make_message(place, text, at, options, is_agent, session_id, id)
            user = _get_id(row, "user") or ""
            bot_name = _get_id(row, "username") or _get_id(row, "bot_profile", "name")
            author = names.get(user) or bot_name or user
            yield _name_author(said, f"{author} (bot)" if is_agent and author in names.values() else author)


def _name_author(row: Row, author: str) -> Row:
    """Give a message its author; without one it is nobody's."""
    if not isinstance(row, Message):
        return row
    return row._replace(author=author) if author else SkippedRow(row.place, "unreadable", "it names no author")


def _name_user(user: Mapping[str, Any]) -> str | None:
    names = (
        _get(user, "profile", "display_name"),
        _get(user, "profile", "real_name"),
        *map(user.get, ("real_name", "name")),
    )
    return next((name for name in names if isinstance(name, str) and name.strip()), None)


COLUMNS = {
    "text": ("text", "message", "content", "body"),
    "author": ("author", "sender", "from", "user", "name"),
    "time": ("time", "timestamp", "date", "datetime", "at", "created_at"),
    "session": ("session", "session_id", "conversation", "conversation_id", "channel", "thread"),
}
"""What a column of a CSV file may be called if nobody names it."""


def read_csv(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read a table with a line for each message."""
    expected = "a CSV file with a line of column names"
    name = files.find_only_name(r"\.(?:csv|tsv)$", expected)
    text = files.read_text(name, expected)
    try:
        delimiter = csv.Sniffer().sniff(text.partition("\n")[0], ",;\t|").delimiter
    except csv.Error:
        delimiter = ","
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns = _find_columns([column or "" for column in rows.fieldnames or ()], options.columns, str(files.path))
    table = []
    try:
        for cells in rows:
            place = f"{files.path}, line {rows.line_num}"
            if None in cells:
                reason = "it has more columns than the first line: is a text without its quotes?"
                yield SkippedRow(place, "unreadable", reason)
            else:
                table.append((place, {what: cells.get(column) or "" for what, column in columns.items()}))
    except csv.Error as error:  # a quote that nobody closes would take in what others said
        raise make_format_error(f"{files.path}, line {rows.line_num}", expected, str(error)) from error
    matches = [_match_local_time(row["time"]) for _, row in table]
    dated = [match for match in matches if match]
    order = _choose_date_order(dated, options.date_order, str(files.path), may_fall=True)
    for (place, row), match in zip(table, matches, strict=True):
        at: object = row["time"].strip()
        try:
            if match:
                at = _parse_local_time(match, order, options.zone).isoformat()
            elif re.fullmatch(r"\d{9,11}(?:\.\d+)?", row["time"].strip()):
                at = float(row["time"])
        except ValueError as error:
            yield SkippedRow(place, "unreadable", f"{at!r} is no time ({error})")
            continue
        author, session = row["author"].strip(), row.get("session", "").strip()
        is_agent = author.casefold() == AGENT_AUTHOR
        said = _make_message(place, row["text"], at, options, is_agent, "", None)
        named = _name_author(said, author)
        session_id = f"csv-{session}" if session else None
        yield named._replace(session_id=session_id) if isinstance(named, Message) else named


def _match_local_time(value: str) -> re.Match[str] | None:
    """Match a day, with or without a time, as people write it."""
    return _HEADER.match(f"{value} - ") or _HEADER.match(f"{value} 00:00 - ")


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


FORMS: Mapping[str, Callable[[ChatFiles, ChatOptions], Iterator[Row]]] = {
    "whatsapp": read_whatsapp,
    "chatgpt": read_chatgpt,
    "claude": read_claude,
    "openai": read_openai,
    "slack": read_slack,
    "csv": read_csv,
}
"""How each form is read, by what `--from` calls it."""
