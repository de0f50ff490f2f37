"""A chat of each form in which every message is odd in another way, and what an import has to make of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

NOTICE, MEDIA, BAD, TIMELESS = "of the service itself", "without words", "unreadable", "without a time"
EARLIER = "dated before the message above it"
REPLACED = "replaced by another answer"


class Oddity(NamedTuple):
    """Rows of a file that are odd together: the texts that are stored of them, and the kinds of those that are not."""

    what: str
    rows: Sequence[Any]
    texts: Sequence[str] = ()
    kinds: Sequence[str] = ()


class OddChat(NamedTuple):
    """A form of `--from`, its oddities, how the rows of all become a file, and the option of the import."""

    form: str
    oddities: Sequence[Oddity]
    write: Callable[[Path, list[Any]], Path]
    me: str | None = None
    at: str | None = None

    def write_file(self, folder: Path) -> Path:
        """Write the file, or the folder, that an import reads."""
        return self.write(folder, [row for oddity in self.oddities for row in oddity.rows])


def _write_text(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def _write_json(folder: Path, value: Any, name: str = "chat.json") -> Path:
    return _write_text(folder, name, json.dumps(value))


WHATSAPP = OddChat(
    "whatsapp",
    [
        Oddity("a notice", ["24.12.24, 21:00 - Messages and calls are end-to-end encrypted."], [], [NOTICE]),
        Oddity("several lines", ["24.12.24, 21:01 - Ana: Merry", "", "Christmas: 9:10"], ["Merry\n\nChristmas: 9:10"]),
        Oddity("no media", ["24.12.24, 21:02 - Ben: <Medien ausgeschlossen>"], [], [MEDIA]),
        Oddity("a caption", ["24.12.24, 21:03 - Ben: IMG-20241224-WA0001.jpg (Datei angehängt)", "A tree"], ["A tree"]),
        Oddity("deleted", ["24.12.24, 21:04 - Ana: Se eliminó este mensaje."], [], [NOTICE]),
        Oddity("a group's name", ["24.12.24, 21:05 - Ana hat die Gruppe „Fest: 24“ erstellt"], [], [NOTICE]),
        Oddity("edited", ["24.12.24, 21:06 - Ben: 13 € <This message was edited>"], ["13 €"]),
        Oddity("a quote", ["24.12.24, 21:07 - Ana:", "[24.12.24, 20:00:00] Ben: hi"], ["[24.12.24, 20:00:00] Ben: hi"]),
        Oddity("said twice", ["24.12.24, 21:08 - Ana: Yes"] * 2, ["Yes", "Yes"]),
        Oddity("empty", ["24.12.24, 21:09 - Ana: "], [], [MEDIA]),
        Oddity("no such day", ["31.02.25, 21:00 - Ana: When?"], [], [BAD]),
        Oddity("a number", ["24.12.24, 21:10 - \u202a+49\u00a0151 01\u202c: Who?"], ["Who?"]),
        Oddity("from right to left", ["24.12.24, 21:11 - Ben: \u200eصباح الخير"], ["صباح الخير"]),
        Oddity("an old quote", ["25.12.23, 10:00 - Ana: Merry Christmas", "to all"], [], [EARLIER]),
        Oddity("after midnight", ["25.12.24, 00:01 - Ana: 🎄\u2028🎄"], ["🎄\u2028🎄"]),
    ],
    lambda folder, rows: _write_text(folder, "chat.txt", "\ufeff" + "\r\n".join(rows) + "\r\n"),
    me="Ana",
)


def _say(role: str | None, *parts: Any, kind: str = "text", at: Any = 1.7e9, **metadata: Any) -> dict[str, Any]:
    content = {"content_type": kind, "parts": list(parts)}
    return {"author": {"role": role}, "create_time": at, "content": content, "metadata": metadata}


def _write_chatgpt(folder: Path, rows: Iterable[Any]) -> Path:
    """A row that is a list is a branch that is not shown."""
    nodes, parent = {}, None
    for number, row in enumerate(rows):
        message, is_shown = (row[0], False) if isinstance(row, list) else (row, True)
        nodes[f"n{number}"] = {"parent": parent, "children": [f"n{number + 1}"], "message": message}
        parent = f"n{number}" if is_shown else parent
    chats = [{"conversation_id": "c", "create_time": 1.6e9, "mapping": nodes, "current_node": parent}, None]
    return _write_json(folder, chats, "conversations.json")


CHATGPT = OddChat(
    "chatgpt",
    [
        Oddity("a root, and a chat that is none", [None], [], [BAD]),
        Oddity("hidden", [_say("system", "Be brief.", is_visually_hidden_from_user=True)], [], [NOTICE]),
        Oddity("without any time", [_say("user", "Hello", at=None)], ["Hello"]),
        Oddity("several parts", [_say("user", "My dog", "", {"text": "is Rex."})], ["My dog\nis Rex."]),
        Oddity("a picture", [_say("user", {"asset_pointer": "file"}, kind="multimodal_text")], [], [MEDIA]),
        Oddity("a picture with words", [_say("user", {"a": 1}, "Rex", kind="multimodal_text")], ["Rex"]),
        Oddity("a tool", [_say("tool", "{}")], [], [NOTICE]),
        Oddity("code", [_say("assistant", "print()", kind="code")], [], [NOTICE]),
        Oddity("generated again", [[_say("assistant", "No")], _say("assistant", "Yes")], ["Yes"], [REPLACED]),
        Oddity("nobody's", [_say(None, "Who?")], [], [BAD]),
        Oddity("no Unicode", [_say("user", "\ud800")], [], [BAD]),
        Oddity("blank", [_say("user", " \n")], [], [MEDIA]),
        Oddity("milliseconds", [_say("user", "Later", at=1.7e12)], ["Later"]),
        Oddity("beyond time", [_say("user", "Never", at=1e300)], [], [BAD]),
    ],
    _write_chatgpt,
)


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _send(sender: Any, text: Any = "", at: Any = "2025-03-14T12:00:00Z", **more: Any) -> dict[str, Any]:
    return {"sender": sender, "text": text, "created_at": at, **more}


CLAUDE = OddChat(
    "claude",
    [
        Oddity("thoughts", [_send("assistant", content=[{"type": "thinking"}, _text("Hi")])], ["Hi"]),
        Oddity("a file", [_send("human", attachments=[{"file_name": "lease.pdf"}])], [], [MEDIA]),
        Oddity("no time", [_send("human", "Hello", None)], ["Hello"]),
        Oddity("a word for a time", [_send("human", "When?", "yesterday")], [], [BAD]),
        Oddity("a system", [_send("system", "Be brief.")], [], [NOTICE]),
        Oddity("nobody's", [_send(None, "Who?")], [], [BAD]),
        Oddity("null", [None], [], [BAD]),
        Oddity("a number", [3], [], [BAD]),
        Oddity("an offset", [_send("human", "In Lisbon", "2025-03-14T14:00:00+02:00")], ["In Lisbon"]),
        Oddity("one id twice", [_send("human", text, uuid="m") for text in "ab"], ["a", "b"]),
        Oddity("no blocks", [_send("user", "Old form", content=None)], ["Old form"]),
        Oddity("an object", [_send("human", {"a": 1})], [], [MEDIA]),
        Oddity("two blocks", [_send("human", content=[_text(one) for one in "xy"])], ["x\ny"]),
    ],
    lambda folder, rows: _write_json(
        folder, [{"uuid": "c", "created_at": "2025-03-14", "chat_messages": rows}], "conversations.json"
    ),
)


def _ask(role: Any, content: Any, created: Any = 1.7e9, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "created": created, **more}


_ASKED = [
    Oddity("a system", [_ask("system", "Be brief."), _ask("developer", "Briefer.")], [], [NOTICE, NOTICE]),
    Oddity("parts", [_ask("user", [_text("I am"), _text("Ana.")])], ["I am\nAna."]),
    Oddity("a picture", [_ask("user", [{"type": "image_url", "image_url": {}}])], [], [MEDIA]),
    Oddity("a call", [_ask("assistant", None, tool_calls=[{}]), _ask("tool", "{}")], [], [MEDIA, NOTICE]),
    Oddity("another role", [_ask("User", "hi"), _ask(5, "hi")], [], [BAD, BAD]),
    Oddity("null", [None], [], [BAD]),
    Oddity("a list", [["hi"]], [], [BAD]),
    Oddity("ISO 8601", [_ask("user", "On Friday", "2025-03-14T12:00:00Z")], ["On Friday"]),
    Oddity("milliseconds", [_ask("user", "Later", 1_741_950_000_123)], ["Later"]),
    Oddity("no time", [_ask("user", "Whenever", None)], ["Whenever"]),
    Oddity("a word for a time", [_ask("user", "When?", "soon")], [], [BAD]),
    Oddity("said twice", [_ask("assistant", "Yes")] * 2, ["Yes", "Yes"]),
    Oddity("a line separator", [_ask("user", "one\u2028line")], ["one\u2028line"]),
]
OPENAI = OddChat(
    "openai", _ASKED, lambda folder, rows: _write_json(folder, {"messages": rows}), at="2025-01-02T00:00:00+00:00"
)
OPENAI_LINES = OddChat(
    "openai",
    [*_ASKED, Oddity("a broken line", ['{"role": "us'], [], [BAD]), Oddity("a blank line", [""])],
    lambda folder, rows: _write_text(
        folder,
        "chat.jsonl",
        "".join(f"{row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)}\r\n" for row in rows),
    ),
    at="2025-01-02T00:00:00+00:00",
)


def _post(text: Any, user: str | None = "U1", ts: str | None = "1741950000.1", **more: Any) -> dict[str, Any]:
    return {"type": "message", "text": text, **({"user": user} if user else {}), **({"ts": ts} if ts else {}), **more}


def _write_slack(folder: Path, rows: list[Any]) -> Path:
    people = {"U1": "Ana", "U2": "Ben", "U3": "Ben"}
    path = folder / "slack"
    (path / "general").mkdir(parents=True)
    _write_json(path, [None, *({"id": id, "name": name} for id, name in people.items())], "users.json")
    _write_json(path / "general", rows, "2025-03-14.json")
    _write_text(path / "general", "2025-03-15.json", "null")
    return path


SLACK = OddChat(
    "slack",
    [
        Oddity("a person and a day that are none", [], [], [BAD, BAD]),
        Oddity("a join", [_post("joined", subtype="channel_join")], [], [NOTICE]),
        Oddity("links", [_post("<@U1|ana> &amp; <https://example.org|this> <@U9>")], ["@Ana & this @U9"]),
        Oddity("a file", [_post("", subtype="file_share", files=[{}])], [], [MEDIA]),
        Oddity("a file with words", [_post("The plan", subtype="file_share", files=[{}])], ["The plan"]),
        Oddity("a namesake", [_post("I am one", "U2"), _post("I am another", "U3")], ["I am one", "I am another"]),
        Oddity("a stranger", [_post("Who?", "U9")], ["Who?"]),
        Oddity("a bot", [_post("red", None, bot_id="B1", username="CI")], ["red"]),
        Oddity("a bot like a person", [_post("I resign", None, subtype="bot_message", username="Ana")], ["I resign"]),
        Oddity("nobody's", [_post("whose?", None)], [], [BAD]),
        Oddity("null", [None], [], [BAD]),
        Oddity("no time", [_post("when?", ts=None)], [], [TIMELESS]),
        Oddity("an object", [_post({"a": 1})], [], [BAD]),
        Oddity("from a thread", [_post("to all", subtype="thread_broadcast")], ["to all"]),
        Oddity("one id twice", [_post("Yes", client_msg_id="x")] * 2, ["Yes", "Yes"]),
    ],
    _write_slack,
    me="Ana",
)
CSV = OddChat(
    "csv",
    [
        Oddity("a line within", ['2025-03-14 12:00;Ana;"Hello\nthere"'], ["Hello\nthere"]),
        Oddity("quotes", ['2025-03-14 12:01;Ben;"He said ""no"", twice"'], ['He said "no", twice']),
        Oddity("too many columns", ["2025-03-14 12:02;Ana;Hello; you"], [], [BAD]),
        Oddity("a word for a time", ["soon;Ana;When?"], [], [BAD]),
        Oddity("seconds", ["1741950180;Ben;By clock"], ["By clock"]),
        Oddity("milliseconds", ["1741950180123;Ben;By a finer one"], ["By a finer one"]),
        Oddity("an offset", ["2025-03-14T12:04:00+01:00;Ana;In Berlin"], ["In Berlin"]),
        Oddity("nobody's", ["2025-03-14 12:05;;Who?"], [], [BAD]),
        Oddity("no time", [";Ana;Whenever"], [], [TIMELESS]),
        Oddity("no words", ["2025-03-14 12:06;Ana;"], [], [MEDIA]),
        Oddity("no such day", ["30/02/2025 12:00;Ana;When?"], [], [BAD]),
        Oddity("another calendar", ["1403/12/24 12:00;Ana;When?"], [], [BAD]),
        Oddity("said twice", ["14/03/2025 12:07;Ana;Yes"] * 2, ["Yes", "Yes"]),
        Oddity("an assistant", ["15/03/2025;Assistant;A day alone"], ["A day alone"]),
    ],
    lambda folder, rows: _write_text(
        folder, "chat.csv", "\r\n".join(["sep=;", "Time;Sender;Message", *rows[::-1]]) + "\r\n"
    ),
    me="Ana",
)


def _turn(author: Any, at: Any, text: Any, **more: Any) -> Mapping[str, Any]:
    return {"author": author, "at": at, "text": text, **more}


CONVERSATION = OddChat(
    "conversation",
    [
        Oddity("a session that is none", [], [], [BAD]),
        Oddity("an offset", [_turn("user", "2025-03-14T12:00:00+01:00", "Hello")], ["Hello"]),
        Oddity("no offset", [_turn("companion", "2025-03-14T12:01:00", "Good day")], ["Good day"]),
        Oddity("seconds", [_turn("user", 1_741_950_180, "By clock")], ["By clock"]),
        Oddity("a person", [_turn("Ben", "2025-03-14T12:04:00Z", "Hi", role="user")], ["Hi"]),
        Oddity("another role", [_turn("Ben", "2025-03-14T12:05:00Z", "Hi", role="human")], [], [BAD]),
        Oddity("null", [None], [], [BAD]),
        Oddity("a number", [3], [], [BAD]),
        Oddity("nobody's", [_turn(None, "2025-03-14T12:06:00Z", "Who?")], [], [BAD]),
        Oddity("no words", [_turn("user", "2025-03-14T12:07:00Z", "")], [], [MEDIA]),
        Oddity("no time", [_turn("user", None, "Whenever")], [], [TIMELESS]),
        Oddity("a word for a time", [_turn("user", "yesterday", "When?")], [], [BAD]),
        Oddity("a list", [_turn("user", "2025-03-14T12:08:00Z", ["a"])], [], [BAD]),
        Oddity("said twice", [_turn("user", "2025-03-14T12:09:00Z", "Yes", mood="good")] * 2, ["Yes", "Yes"]),
    ],
    lambda folder, rows: _write_json(
        folder, {"title": "Odd", "sessions": [{"id": "s1", "turns": rows[:6]}, None, {"id": "s2", "turns": rows[6:]}]}
    ),
)

ODD_CHATS = {
    "whatsapp": WHATSAPP,
    "chatgpt": CHATGPT,
    "claude": CLAUDE,
    "openai as JSON": OPENAI,
    "openai as lines": OPENAI_LINES,
    "slack": SLACK,
    "csv": CSV,
    "conversation": CONVERSATION,
}
