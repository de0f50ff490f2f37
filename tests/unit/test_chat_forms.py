"""Every message of an exported chat is read, or named with what it is instead of one."""

from __future__ import annotations

import copy
import gc
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.chats.files import ChatFiles
from adk_graph_memory.adk.importing.chats.forms import FORMS
from adk_graph_memory.adk.importing.chats.messages import ChatOptions, Message
from adk_graph_memory.adk.importing.chats.source import ChatSource
from adk_graph_memory.records.reports import SkippedRow

ZONE = ZoneInfo("Europe/Berlin")


@pytest.fixture
def read_form(tmp_path: Path) -> Callable[..., tuple[list[tuple[str, str, str]], Counter[str]]]:
    """Write a file and read it: (author, local time, text) of each message, and the kinds of what is none."""

    def read_written(
        form: str, content: str | bytes, name: str = "chat.txt", **options: Any
    ) -> tuple[list[tuple[str, str, str]], Counter[str]]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        rows = list(FORMS[form].read(ChatFiles(path), ChatOptions(ZONE, **options)))
        messages = [row for row in rows if isinstance(row, Message)]
        skipped = Counter(row.kind for row in rows if isinstance(row, SkippedRow))
        assert len(messages) + skipped.total() == len(rows)
        return [(one.author, f"{one.at.astimezone(ZONE):%Y-%m-%d %H:%M}", one.text) for one in messages], skipped

    return read_written


ANDROID = """\
24.12.24, 21:05 - Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.
24.12.24, 21:05 - Ana: Frohe Weihnachten!
Und bis morgen.

PS: Zug um 9:10
24.12.24, 21:06 - Ben: <Medien ausgeschlossen>
24.12.24, 21:07 - Ben: IMG-20241224-WA0001.jpg (Datei angehängt)
Der Baum: schief wie immer
24.12.24, 21:08 - Ana hat die Gruppe „Feier: 2024“ erstellt
24.12.24, 21:09 - Ana: Diese Nachricht wurde gelöscht
24.12.24, 21:10 - Ben: Preis: 12 €, siehe https://example.org <oder so>
24.12.24, 21:11 - Ben: Doch 13 € <This message was edited>
25.12.24, 09:00 - +49 151 0000001: Wer ist das?
25.12.24, 09:01 - Ana:
25.12.24, 09:02 - Ben: What was omitted
25.12.24, 09:03 - Ben: <b>bold</b> and list.txt (a draft)
25.12.24, 09:04 - Ana: lease of 2024.pdf (Datei angehängt)
"""


def test_a_chat_of_an_android_phone(read_form: Callable[..., Any]) -> None:
    messages, skipped = read_form("whatsapp", ANDROID)
    assert messages == [
        ("Ana", "2024-12-24 21:05", "Frohe Weihnachten!\nUnd bis morgen.\n\nPS: Zug um 9:10"),
        ("Ben", "2024-12-24 21:07", "Der Baum: schief wie immer"),
        ("Ben", "2024-12-24 21:10", "Preis: 12 €, siehe https://example.org <oder so>"),
        ("Ben", "2024-12-24 21:11", "Doch 13 €"),
        ("+49 151 0000001", "2024-12-25 09:00", "Wer ist das?"),
        ("Ben", "2024-12-25 09:02", "What was omitted"),
        ("Ben", "2024-12-25 09:03", "<b>bold</b> and list.txt (a draft)"),
    ]
    assert skipped == {"of the service itself": 3, "without words": 3}


IPHONE = """\
[12/31/24, 9:05:33\u202fPM] Trip: \u200eMessages and calls are end-to-end encrypted.\r
[12/31/24, 9:06:00\u202fPM] Ana: Happy new year!\r
\u200e[12/31/24, 9:06:10\u202fPM] Ana: \u200eimage omitted\r
\u200e[12/31/24, 9:06:20\u202fPM] ~\u202fBen: \u200e<attached: 00000012-PHOTO.jpg>\r
[1/1/25, 12:00:01\u202fAM] ~\u202fBen: And to you \u200e<This message was edited>\r
[1/1/25, 12:10:00\u202fPM] Ana: \u200eThis message was deleted.\r
"""


def test_a_chat_of_an_iphone_in_its_archive(read_form: Callable[..., Any], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
        archive.writestr("_chat.txt", IPHONE)
        archive.writestr("00000012-PHOTO.jpg", b"\xff")
    messages, skipped = read_form("whatsapp", (tmp_path / "made.zip").read_bytes(), "chat.zip")
    assert messages == [
        ("Ana", "2024-12-31 21:06", "Happy new year!"),
        ("~\u202fBen", "2025-01-01 00:00", "And to you"),
    ]
    assert skipped == {"of the service itself": 2, "without words": 2}


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("[2025/3/14 下午3:07:12] 安娜: 你好", "2025-03-14 15:07"),
        ("14/03/2025 15:07 - Ana: hola", "2025-03-14 15:07"),
        ("3/14/25, 3:07 p. m. - Ana: hola", "2025-03-14 15:07"),
        ("2025-03-14, 15.07 - Ana: hej", "2025-03-14 15:07"),
        ("14. 3. 2025 15:07 - Ana: ahoj", "2025-03-14 15:07"),
        ("03.04.25, 00:30 - Ana: hallo\n13.04.25, 00:30 - Ana: hallo", "2025-04-03 00:30"),
        ("03/04/25, 00:30 - Ana: hi\n05/03/25, 00:30 - Ana: hi\n07/02/25, 00:30 - Ana: hi", "2025-03-04 00:30"),
    ],
)
def test_days_in_the_forms_of_other_places(read_form: Callable[..., Any], line: str, at: str) -> None:
    """The last two only the whole file tells: there is no 13th month, and no message is before the last."""
    assert read_form("whatsapp", line)[0][0][1] == at


def test_a_day_that_may_be_two_is_asked_for(read_form: Callable[..., Any]) -> None:
    chat = "03/04/25, 10:00 - Ana: hi\n03/04/25, 10:01 - Ben: hi"
    with pytest.raises(errors.InvalidArgument, match=r"'03/04/25' .* give --date-order dmy or mdy"):
        read_form("whatsapp", chat)
    assert read_form("whatsapp", chat, date_order="dmy")[0][0][1] == "2025-04-03 10:00"
    assert read_form("whatsapp", chat, date_order="mdy")[0][0][1] == "2025-03-04 10:00"


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("whatsapp", "Dear diary,\ntoday"),
        ("whatsapp", ""),
        ("whatsapp", b"\xff\x00\xfe"),
        ("whatsapp", "13/13/25, 10:00 - Ana: hi"),
        ("chatgpt", "{}"),
        ("chatgpt", "[1]"),
        ("chatgpt", '[{"mapping": []}]'),
        ("claude", '[{"uuid": "c", "chat_messages": "none"}]'),
        ("openai", "not json"),
        ("openai", '{"messages": {"role": "user"}}'),
        ("csv", ""),
    ],
)
def test_what_is_of_another_form_is_named(read_form: Callable[..., Any], form: str, content: str | bytes) -> None:
    with pytest.raises((errors.UnreadableTranscript, errors.InvalidArgument), match="chat"):
        read_form(form, content, "chat.csv" if form == "csv" else "chat.json")


def make_node(role: str, parent: str | None, children: list[str], at: float | None = None, **content: Any) -> Any:
    content = {"content_type": "text", "parts": []} | content
    metadata = {"is_visually_hidden_from_user": True} if content.pop("hidden", False) else {}
    message = {"author": {"role": role}, "create_time": at, "content": content, "metadata": metadata}
    return {"parent": parent, "children": children, "message": message}


def test_chatgpt_shows_one_branch(read_form: Callable[..., Any]) -> None:
    noon = datetime(2025, 3, 14, 12, tzinfo=ZONE).timestamp()
    nodes = {
        "root": {"parent": None, "children": ["s"], "message": None},
        "s": make_node("system", "root", ["u1"], hidden=True, parts=["You are helpful."]),
        "u1": make_node("user", "s", ["a1", "a2"], noon, parts=["My dog is called Rex.", ""]),
        "a1": make_node("assistant", "u1", [], noon + 60, parts=["Regenerated away"]),
        "a2": make_node("assistant", "u1", ["t"], noon + 60, parts=["What a name!"]),
        "t": make_node("tool", "a2", ["c"], parts=["{}"]),
        "c": make_node("assistant", "t", ["u2"], content_type="code", text="print()"),
        "u2": make_node("user", "c", ["u3"], content_type="multimodal_text", parts=[{"asset_pointer": "file"}]),
        "u3": make_node("user", "u2", [], None, content_type="multimodal_text", parts=[{"asset": 1}, "He is ill."]),
    }
    chat = {"conversation_id": "c1", "create_time": noon, "mapping": nodes, "current_node": "u3"}
    expected = [
        ("user", "2025-03-14 12:00", "My dog is called Rex."),
        ("assistant", "2025-03-14 12:01", "What a name!"),
        ("user", "2025-03-14 12:01", "He is ill."),
    ]
    kinds = {"of the service itself": 3, "replaced by another answer": 1, "without words": 1}
    assert read_form("chatgpt", json.dumps([chat]), "conversations.json") == (expected, kinds)
    del chat["current_node"]
    assert read_form("chatgpt", json.dumps([chat]), "conversations.json") == (expected, kinds)


def test_claude_has_blocks(read_form: Callable[..., Any]) -> None:
    blocks = [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "Nice."}, {"type": "tool_use"}]
    messages = [
        {"uuid": "m1", "sender": "human", "text": "I moved to Faro.", "created_at": "2025-03-14T11:00:00Z"},
        {"uuid": "m2", "sender": "assistant", "text": "", "created_at": "2025-03-14T11:01:00Z", "content": blocks},
        {"uuid": "m3", "sender": "human", "text": "", "attachments": [{"file_name": "lease.pdf"}]},
        {"uuid": "m4", "sender": "human", "text": "Thanks", "created_at": "yesterday"},
        {"uuid": "m5", "sender": "human", "text": "No time of its own"},
    ]
    chat = {"uuid": "c1", "created_at": "2025-03-14T10:59:00Z", "chat_messages": messages}
    assert read_form("claude", json.dumps([chat]), "conversations.json") == (
        [
            ("user", "2025-03-14 12:00", "I moved to Faro."),
            ("assistant", "2025-03-14 12:01", "Nice."),
            ("user", "2025-03-14 11:59", "No time of its own"),
        ],
        {"without words": 1, "unreadable": 1},
    )


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "I am Ana."},
    {"role": "assistant", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "Ana"}]},
    {"role": "assistant", "content": None, "tool_calls": [{}]},
    {"role": "tool", "content": "{}"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(MESSAGES),
        json.dumps({"messages": MESSAGES}),
        json.dumps([{"id": 7, "messages": MESSAGES}]),
        "\n".join(map(json.dumps, MESSAGES)),
        json.dumps({"messages": MESSAGES[:3]}) + "\n" + json.dumps({"messages": MESSAGES[3:]}),
    ],
)
def test_openai_s_lists_of_messages(read_form: Callable[..., Any], content: str) -> None:
    assert read_form("openai", content)[1] == {"of the service itself": 2, "without words": 2, "without a time": 2}
    assert read_form("openai", content, at=datetime(2025, 3, 14, tzinfo=ZONE)) == (
        [("user", "2025-03-14 00:00", "I am Ana."), ("assistant", "2025-03-14 00:00", "Hello\nAna")],
        {"of the service itself": 2, "without words": 2},
    )


@pytest.mark.parametrize("is_archive", [True, False])
def test_slack_names_its_people(tmp_path: Path, is_archive: bool) -> None:
    users = [
        {"id": "U1", "name": "ana", "profile": {"display_name": "", "real_name": "Ana Pinto"}},
        {"id": "U2", "name": "ben", "profile": {"display_name": "Ben"}},
    ]
    rows = [
        {"type": "message", "subtype": "channel_join", "user": "U2", "text": "joined", "ts": "1741950000.000100"},
        {
            "type": "message",
            "user": "U1",
            "text": "<@U2> see <https://example.org|this> &amp; that",
            "ts": "1741950000.1",
        },
        {"type": "message", "user": "U2", "text": "", "files": [{}], "subtype": "file_share", "ts": "1741950001.1"},
        {"type": "message", "user": "U9", "text": "who?", "ts": "1741950002.1"},
        {
            "type": "message",
            "bot_id": "B1",
            "username": "CI",
            "subtype": "bot_message",
            "text": "red",
            "ts": "1741950003.1",
        },
        {"type": "message", "user": "U1", "text": "no time"},
    ]
    files = {"users.json": users, "channels.json": [], "general/2025-03-14.json": rows, "general/canvas.json": {}}
    path = tmp_path / "slack"
    if is_archive:
        with zipfile.ZipFile(path, "w") as archive:
            for name, value in files.items():
                archive.writestr(name, json.dumps(value))
    else:
        (path / "general").mkdir(parents=True)
        for name, value in files.items():
            (path / name).write_text(json.dumps(value))
    found = list(FORMS["slack"].read(ChatFiles(path), ChatOptions(ZONE)))
    assert [(one.author, one.text, one.is_agent, one.session_id) for one in found if isinstance(one, Message)] == [
        ("Ana Pinto", "@Ben see this & that", False, "slack-general-2025-03-14"),
        ("U9", "who?", False, "slack-general-2025-03-14"),
        ("CI", "red", True, "slack-general-2025-03-14"),
    ]
    assert Counter(one.kind for one in found if isinstance(one, SkippedRow)) == {
        "of the service itself": 1,
        "without words": 1,
        "without a time": 1,
    }


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_has_columns(read_form: Callable[..., Any], separator: str) -> None:
    lines = [
        ("Time", "Sender", "Message"),
        ("2025-03-14T12:00:00+01:00", "Ana", '"Hello\nthere"'),
        ("2025-03-14 12:01", "Ben", "Hi"),
        ("14/03/2025 12:02", "Ana", "A day as written here"),
        ("1741950180", "Ben", "Seconds"),
        ("15/03/2025", "Assistant", "A day alone"),
        ("", "Ana", "no time"),
        ("2025-03-14 12:05", "", "nobody"),
        ("2025-03-14 12:06", "Ben", ""),
        ("soon", "Ben", "when?"),
    ]
    content = "\n".join(separator.join(line) for line in lines)
    messages, skipped = read_form("csv", content, "chat.csv")
    assert messages == [
        ("Ana", "2025-03-14 12:00", "Hello\nthere"),
        ("Ben", "2025-03-14 12:01", "Hi"),
        ("Ana", "2025-03-14 12:02", "A day as written here"),
        ("Ben", "2025-03-14 12:03", "Seconds"),
        ("Assistant", "2025-03-15 00:00", "A day alone"),
    ]
    assert skipped == {"without a time": 1, "unreadable": 2, "without words": 1}


def test_a_table_s_columns_may_be_named(read_form: Callable[..., Any]) -> None:
    content = "wann,wer,was\n2025-03-14 12:00,Ana,Hallo\n"
    with pytest.raises(errors.InvalidArgument, match=r"--column text=NAME\. Its columns are wann, wer, was"):
        read_form("csv", content, "chat.csv")
    named = {"text": "was", "author": "Wer", "time": "wann"}
    assert read_form("csv", content, "chat.csv", columns=named)[0] == [("Ana", "2025-03-14 12:00", "Hallo")]


NODES = {
    "a": make_node("user", None, ["b"], 1.7e9, parts=["hi", {"text": "x"}]),
    "b": make_node("assistant", "a", [], 1.7e9, parts=["yo"]),
}
CLAUDE_MESSAGE = {
    "uuid": "m",
    "sender": "human",
    "text": "",
    "created_at": "2025-01-01",
    "content": [{"type": "text", "text": "hi"}],
}
WHOLE: Mapping[str, Any] = {
    "conversation": {
        "timezone": "UTC",
        "sessions": [{"id": "s", "turns": [{"author": "user", "at": 1.7e9, "text": "hi"}]}],
    },
    "chatgpt": [{"conversation_id": "c", "create_time": 1.7e9, "current_node": "b", "mapping": NODES}],
    "claude": [{"uuid": "c", "created_at": "2025-01-01T00:00:00Z", "chat_messages": [CLAUDE_MESSAGE]}],
    "openai": [
        {"id": "x", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}], "created": 1.7e9}]}
    ],
    "slack": {
        "users.json": [{"id": "U1", "name": "a", "profile": {"real_name": "A"}}],
        "general/2025-01-01.json": [
            {"type": "message", "user": "U1", "text": "hi <@U1>", "ts": "1700000000.1"},
            {"type": "message", "user": "U1", "text": "ho", "ts": "1700000001.1"},
        ],
    },
}
ODD = (None, 1, -1e308, True, "", "\ud800", [], [None], {}, {"a": 1})


def break_each_part(value: Any) -> Iterator[Any]:
    """The value with each of its parts, at any depth, replaced by what does not belong there, or missing."""
    yield from ODD
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for part in break_each_part(value[key]):
            broken = copy.copy(value)
            broken[key] = part
            yield broken
    if isinstance(value, dict):
        for key in value:
            yield {other: part for other, part in value.items() if other != key}


@pytest.mark.parametrize("form", WHOLE)
async def test_whatever_stands_in_an_export_is_read_or_refused(tmp_path: Path, form: str) -> None:
    outcomes = Counter[str]()
    for number, broken in enumerate(break_each_part(WHOLE[form])):
        path = tmp_path / str(number)
        if form == "slack":
            (path / "general").mkdir(parents=True)
            for name, value in (broken if isinstance(broken, dict) else {}).items():
                (path / name).write_text(json.dumps(value))
        else:
            path.write_text(json.dumps(broken))
        source = ChatSource(path, form, "home", "a", ChatOptions(ZONE, at=datetime(2025, 1, 1, tzinfo=ZONE)))
        try:
            await source.read_chat()
            pages = [page async for one in source.iterate_sessions() async for page in source.iterate_event_pages(one)]
            outcomes["read"] += bool(pages)
        except errors.GraphMemoryError:
            outcomes["refused"] += 1
    assert outcomes["read"] > 10
    assert outcomes["refused"] > 5


def test_no_words_come_into_another_s_mouth(read_form: Callable[..., Any], tmp_path: Path) -> None:
    chat = (
        '[12/31/24, 9:05:33 PM] Ana: hi\n[12/31/24, 9:06:00 PM] ~ Ana: ho\n[12/31/24, 9:07:00 PM] J. "Pep" Roig: <hug>'
    )
    assert [one[0] for one in read_form("whatsapp", chat)[0]] == ["Ana", "~ Ana", 'J. "Pep" Roig']
    chats = [{"messages": [MESSAGES[0], {"role": "user", "content": text}]} for text in ("a", "b", "a")]
    path = tmp_path / "openai.json"
    path.write_text(json.dumps(chats))
    rows = FORMS["openai"].read(ChatFiles(path), ChatOptions(ZONE, at=datetime(2025, 1, 1, tzinfo=ZONE)))
    assert len({row.session_id for row in rows if isinstance(row, Message)}) == 3
    senders = [
        {"uuid": str(n), "sender": sender, "text": "t", "created_at": "2025-01-01"}
        for n, sender in enumerate((None, "user"))
    ]
    assert [one[0] for one in read_form("claude", json.dumps([{"uuid": "c", "chat_messages": senders}]))[0]] == ["user"]


def test_no_text_is_cut(read_form: Callable[..., Any]) -> None:
    table = 'time,author,text\n2025-03-14 12:00,Ana,Hello, you\n2025-03-14 12:01,Ana,"He said ""no"", twice"\n'
    assert read_form("csv", table, "chat.csv") == (
        [("Ana", "2025-03-14 12:01", 'He said "no", twice')],
        {"unreadable": 1},
    )


@pytest.mark.parametrize("day", ["25-03-14", "67/03/2510"])
def test_a_day_of_another_calendar_or_order_is_not_guessed(read_form: Callable[..., Any], day: str) -> None:
    with pytest.raises((errors.InvalidArgument, errors.UnreadableTranscript)):
        read_form("whatsapp", f"{day}, 10:00 - Ana: hi")


@pytest.mark.parametrize(
    "notice",
    [
        "Anaがグループ名を「旅: リスボン」に変更しました",
        "Ana ändrade gruppnamnet till ”Resa: Lissabon”",
        "Ana changed the subject to ‘Trip: Lisbon’",
        'Ana changed the subject to "Trip: Lisbon"',
    ],
)
def test_a_group_s_name_has_no_speaker(read_form: Callable[..., Any], notice: str) -> None:
    assert read_form("whatsapp", f"31/12/24, 21:05 - {notice}") == ([], {"of the service itself": 1})


def test_an_unclosed_quote_takes_in_nobody_s_words(read_form: Callable[..., Any]) -> None:
    table = 'author,time,text\nAna,2024-12-31T10:00:00Z,"hi\nBob,2024-12-31T10:01:00Z,I hate you\n'
    with pytest.raises(errors.UnreadableTranscript, match=r"line \d cannot be imported: unexpected end of data"):
        read_form("csv", table, "chat.csv")


def test_a_bot_is_no_person_and_nobody_s_row_is_left_out(tmp_path: Path) -> None:
    rows = [
        {"subtype": "bot_message", "username": "Ana", "text": "I resign", "ts": "1741950000.1"},
        {"text": "whose?", "ts": "1741950001.1"},
        {"user": "U1", "text": "hi", "ts": "1741950002.1"},
    ]
    for name, value in {
        "users.json": [{"id": "U1", "name": "Ana"}, {"name": "ghost"}],
        "c/2025-03-14.json": rows,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(value))
    found = list(FORMS["slack"].read(ChatFiles(tmp_path), ChatOptions(ZONE)))
    assert [(one.author, one.is_agent) if isinstance(one, Message) else one.kind for one in found] == [
        ("Ana (bot)", True),
        "unreadable",
        ("Ana", False),
    ]


@pytest.mark.parametrize(("form", "ending"), [("whatsapp", "txt"), ("csv", "csv"), ("openai", "json")])
def test_of_several_chats_none_is_left_out_silently(tmp_path: Path, form: str, ending: str) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.{ending}").write_text("31/12/24, 21:05 - Ana: hi")
    with pytest.raises(errors.InvalidArgument, match=f"holds a.{ending}, b.{ending}: import each by itself"):
        list(FORMS[form].read(ChatFiles(tmp_path), ChatOptions(ZONE)))


@pytest.mark.parametrize("text", ["<I love you, Bob>", "<爱>", "<3"])
def test_what_somebody_puts_in_brackets_is_said(read_form: Callable[..., Any], text: str) -> None:
    assert read_form("whatsapp", f"31/12/24, 21:05 - Ana: {text}")[0][0][2] == text


def test_a_message_of_no_known_role_is_named(read_form: Callable[..., Any]) -> None:
    messages = [
        {"role": role, "content": "hi", "created": 1.7e9} for role in ("user", "User", "human", 5, None, "tool")
    ]
    assert read_form("openai", json.dumps({"messages": messages}))[1] == {"unreadable": 4, "of the service itself": 1}
    node = {"m": {"message": "hello"}, "n": {"message": {"author": None, "content": {"parts": ["words"]}}}}
    assert read_form("chatgpt", json.dumps([{"mapping": node}]))[1] == {"unreadable": 2}


def test_one_bad_day_holds_up_no_others(read_form: Callable[..., Any]) -> None:
    table = (
        "author,time,text\nAna,2024-12-31 10:00,a\nAna,2024-13-31 10:00,b\nAna,05/12/2024 10:00,c\nAna,14/12/2024,d\n"
    )
    assert read_form("csv", table, "chat.csv")[1] == {"unreadable": 1}


def test_an_order_that_the_file_refutes_is_refused(read_form: Callable[..., Any]) -> None:
    chat = "11/12/24, 10:00 - Ana: a\n31/12/24, 10:00 - Ana: b"
    with pytest.raises(errors.UnreadableTranscript, match="'31/12/24' is no day in the order mdy"):
        read_form("whatsapp", chat, date_order="mdy")


ARABIC_DAY = "٣١\u200f/١٢\u200f/٢٠٢٤، ٩:٠٥\u00a0م"


@pytest.mark.parametrize(
    ("line", "at"),
    [
        (f"{ARABIC_DAY} - آنا: مرحبا", "2024-12-31 21:05"),
        ("31/12/2024 à 21:05 - Ana: salut", "2024-12-31 21:05"),
        ("2024-12-31 21 h 05 - Ana: salut", "2024-12-31 21:05"),
        ("[31/12/24, 9:05:33\u202fp.\u00a0m.] Ana: hola", "2024-12-31 21:05"),
        ("2024/12/31 晚上9:05 - 安娜: 你好", "2024-12-31 21:05"),
        ("2024/12/31 凌晨12:05 - 安娜: 你好", "2024-12-31 00:05"),
        ("[2024. 12. 31. 오전 12:05:33] 안나: 안녕", "2024-12-31 00:05"),
        ("31/12/2024, 9:05 μ.μ. - Άννα: γεια", "2024-12-31 21:05"),
        ("31.12.2024, 21.05.33 - Anna: hei", "2024-12-31 21:05"),
    ],
)
def test_clocks_and_digits_of_other_places(read_form: Callable[..., Any], line: str, at: str) -> None:
    assert read_form("whatsapp", line)[0][0][1] == at


@pytest.mark.parametrize(
    ("day", "calendar"),
    [("31/12/2567", "Buddhist"), ("1403/10/11", "Persian or the Islamic"), ("١٤٠٣/١٠/١١", "Persian or the Islamic")],
)
def test_another_calendar_is_named(read_form: Callable[..., Any], day: str, calendar: str) -> None:
    for form, content in (("whatsapp", f"{day}, 10:00 - Ana: hi"), ("csv", f"time,author,text\n{day},Ana,hi\n")):
        with pytest.raises(errors.UnreadableTranscript, match=f"is of the {calendar} calendar"):
            read_form(form, content, "chat.csv" if form == "csv" else "chat.txt")
    mixed = f"time,author,text\n{day},Ana,hi\n31/12/2024,Ana,ho\n"
    assert read_form("csv", mixed, "chat.csv")[1] == {"unreadable": 1}


QUOTING = """\
[31/12/24, 21:05:00] Ana: What you wrote:
31.12.24, 20:00 - Ben: I am late
[31/12/24, 8:00 PM] Ben: and lost
[31/12/24, 21:06:00] Ben: Sorry
[24/12/24, 20:00:00] Ana: Merry Christmas
and so on
[31/12/24, 21:07:00] Ana: You said it
"""


def test_a_quoted_header_begins_no_message(read_form: Callable[..., Any]) -> None:
    """In another form it is part of what quotes it; in the same form it cannot be told from a message: it is named."""
    quoting = "What you wrote:\n31.12.24, 20:00 - Ben: I am late\n[31/12/24, 8:00 PM] Ben: and lost"
    assert read_form("whatsapp", QUOTING) == (
        [
            ("Ana", "2024-12-31 21:05", quoting),
            ("Ben", "2024-12-31 21:06", "Sorry"),
            ("Ana", "2024-12-31 21:07", "You said it"),
        ],
        {"dated before the message above it": 1},
    )
    late = "31/12/24, 21:05 - Ana: a\n30/12/24, 10:00 - Ben: from before\n30/12/24, 11:00 - Ben: and after\n"
    assert len(read_form("whatsapp", late)[0]) == 3


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("\u200ePOLL:\nWhere?\n\u200eOPTION: Faro (\u200e2 votes)", "POLL:\nWhere?\nOPTION: Faro (2 votes)"),
        ("\u200eLocation: https://maps.google.com/?q=37.0,-7.9", "Location: https://maps.google.com/?q=37.0,-7.9"),
        ("\u200eStandort: https://maps.google.com/?q=37.0,-7.9", "Standort: https://maps.google.com/?q=37.0,-7.9"),
        ("\u200eصباح الخير", "صباح الخير"),
        ("\u200fשלום לכולם", "שלום לכולם"),
        ("\u200eالمشفى مغلق", "المشفى مغلق"),
        ("\u200ereport.pdf • \u200e2 pages \u200edocument omitted\nPlease read", "Please read"),
    ],
)
def test_an_iphone_marks_more_than_notices(read_form: Callable[..., Any], said: str, text: str) -> None:
    assert [one[2] for one in read_form("whatsapp", f"[31/12/24, 21:05:00] Ana: {said}")[0]] == [text]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("\u200eהודעות ושיחות מוצפנות מקצה לקצה.", "of the service itself"),
        ("\u200eمكالمة صوتية فائتة", "of the service itself"),
        ("\u200eVerpasster Sprachanruf", "of the service itself"),
        ("\u200eimagen omitida", "without words"),
        ("\u200eBild weggelassen", "without words"),
        ("report.pdf • \u200e2 pages \u200edocument omitted", "without words"),
        ("\u200eتم استبعاد الصورة", "without words"),
        ("<Без медиафайлов>", "without words"),
        ("<メディアは含まれていません>", "without words"),
        ("<تم استبعاد الوسائط>", "without words"),
        ("<Medya dahil edilmedi>", "without words"),
        ("Se eliminó este mensaje.", "of the service itself"),
        ("Esta mensagem foi apagada", "of the service itself"),
        ("Данное сообщение удалено.", "of the service itself"),
        ("此消息已删除", "of the service itself"),
        ("このメッセージは削除されました", "of the service itself"),
        ("Bu mesaj silindi", "of the service itself"),
        ("تم حذف هذه الرسالة", "of the service itself"),
        ("यह संदेश मिटाया गया", "of the service itself"),
        ("삭제된 메시지입니다.", "of the service itself"),
    ],
)
def test_what_is_left_out_in_other_languages(read_form: Callable[..., Any], said: str, kind: str) -> None:
    assert read_form("whatsapp", f"[31/12/24, 21:05:00] Ana: {said}") == ([], {kind: 1})


def test_a_notice_with_a_colon_has_no_speaker(read_form: Callable[..., Any]) -> None:
    notice = "الرسائل والمكالمات مشفّرة بالكامل: لا أحد خارج هذه الدردشة يستطيع قراءتها."
    assert read_form("whatsapp", f"{ARABIC_DAY} - {notice}") == ([], {"of the service itself": 1})


HUMAN = {"sender": "human", "text": "hi", "created_at": 1.7e9}
ASKED = {"role": "user", "content": "hi", "created": 1.7e9}
TURN = {"author": "user", "text": "hi", "at": 1.7e9}


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("claude", [None, {"uuid": "c", "chat_messages": [None, HUMAN]}]),
        ("claude", [{"uuid": "d"}, {"uuid": "c", "chat_messages": [3, HUMAN]}]),
        ("chatgpt", [None, {"mapping": []}, {"mapping": {"a": make_node("user", None, [], 1.7e9, parts=["hi"])}}]),
        ("openai", [None, [None, ASKED]]),
        ("openai", [None, 3, ASKED]),
        ("conversation", {"sessions": [None, {"id": "s", "turns": [None, TURN]}]}),
    ],
)
def test_a_null_holds_up_no_others(read_form: Callable[..., Any], form: str, content: Any) -> None:
    messages, skipped = read_form(form, json.dumps(content), "chat.json")
    assert [one[2] for one in messages] == ["hi"]
    assert skipped == {"unreadable": 2}


def test_a_broken_day_of_slack_holds_up_no_others(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "users.json").write_text('[null, {"id": "U1", "name": "Ana"}]')
    with pytest.raises(errors.UnreadableTranscript, match=r"no file of a channel's day, such as general/2025-03-14"):
        list(FORMS["slack"].read(ChatFiles(tmp_path), ChatOptions(ZONE)))
    row = {"user": "U1", "text": "hi", "ts": "1741950002.1"}
    for day, text in {13: "null", 14: json.dumps([None, row, row | {"text": {"a": 1}}]), 15: '[{"user": "U1'}.items():
        (tmp_path / f"c/2025-03-{day}.json").write_text(text)
    rows = list(FORMS["slack"].read(ChatFiles(tmp_path), ChatOptions(ZONE)))
    assert [row.text for row in rows if isinstance(row, Message)] == ["hi"]
    assert [row.place.removeprefix(f"{tmp_path}, ") for row in rows if isinstance(row, SkippedRow)] == [
        "users.json, row 1",
        "c/2025-03-13.json",
        "c/2025-03-14.json, row 1",
        "c/2025-03-14.json, row 3",
        "c/2025-03-15.json",
    ]


def test_one_message_alone_and_a_broken_line_of_openai_s(read_form: Callable[..., Any], tmp_path: Path) -> None:
    line = json.dumps(ASKED)
    assert len(read_form("openai", line)[0]) == 1
    path = tmp_path / "chat.jsonl"
    path.write_text(f'{line}\n\n{line}\n{{"role": "us\n{line}\n')
    rows = list(FORMS["openai"].read(ChatFiles(path), ChatOptions(ZONE)))
    [broken] = [row for row in rows if isinstance(row, SkippedRow)]
    assert (len(rows), broken.place) == (4, f"{path}, line 4")
    path.write_text(f"[\n{line}\n{line}\n]")
    with pytest.raises(errors.UnreadableTranscript, match="line 3 column 1"):
        list(FORMS["openai"].read(ChatFiles(path), ChatOptions(ZONE)))


def test_a_table_may_name_its_separator_and_count_its_times(read_form: Callable[..., Any]) -> None:
    content = "sep=;\r\ntime;author;text\r\n1741950000123;Ana;a, b\r\n1741950060;Ben;c\r\nsoon;Ben;d\r\n"
    messages, skipped = read_form("csv", content, "chat.csv")
    assert messages == [("Ana", "2025-03-14 12:00", "a, b"), ("Ben", "2025-03-14 12:01", "c")]
    assert skipped == {"unreadable": 1}


def test_the_newest_first_is_the_newest_last(read_form: Callable[..., Any]) -> None:
    said = ((2, "e"), (1, "d"), (1, "c"), (1, "b"), (0, "a"))
    rows = [f"2025-03-14 12:0{minute},Ana,{word}" for minute, word in said]
    for lines in (rows, rows[::-1]):
        messages, _ = read_form("csv", "\n".join(["time,author,text", *lines]), "chat.csv")
        assert "".join(text for _, _, text in messages) == "abcde"


def test_the_demo_s_own_form(read_form: Callable[..., Any]) -> None:
    turns = [
        {"author": "user", "at": "2025-03-14T12:00:00+01:00", "text": "Hello"},
        {"author": "companion", "at": "2025-03-14T11:01:00", "text": "Good morning"},
        {"author": "Ben", "at": "2025-03-14T12:02:00+01:00", "text": "Hi", "role": "user"},
        {"author": "Ben", "at": "2025-03-14T12:03:00+01:00", "text": "Hi", "role": "human"},
        {"author": "user", "at": "yesterday", "text": "When?"},
    ]
    content = json.dumps({"timezone": "Europe/Lisbon", "sessions": [{"id": "s", "turns": turns}], "questions": [{}]})
    assert read_form("conversation", content, sets_zone=False) == (
        [
            ("user", "2025-03-14 12:00", "Hello"),
            ("companion", "2025-03-14 12:01", "Good morning"),
            ("Ben", "2025-03-14 12:02", "Hi"),
        ],
        {"unreadable": 2},
    )
    assert read_form("conversation", content)[0][1][1] == "2025-03-14 11:01"
    with pytest.raises(errors.UnreadableTranscript, match="Mars"):
        read_form("conversation", content.replace("Europe/Lisbon", "Mars"), sets_zone=False)


async def test_an_archive_that_cannot_be_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "chat.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("chat.txt", "no chat")
    with pytest.raises(errors.UnreadableTranscript) as caught:
        await ChatSource(path, "whatsapp", "home", "ana", ChatOptions(ZONE)).read_chat()
    assert caught.tb is not None  # which keeps all that the reader had open
    archives = [one for one in gc.get_objects() if isinstance(one, zipfile.ZipFile) and one.filename == str(path)]
    assert [one.fp for one in archives if one is not archive] == [None]
