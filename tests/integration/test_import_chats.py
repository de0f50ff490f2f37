"""Exported chats become sessions of one user: once, and later only what came since."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from adk_graph_memory import Neo4jSessionService, SharedMemory, errors
from adk_graph_memory.adk.importing.chats.messages import ChatOptions
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.cli.application import app
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.testing import HashEmbedder

CHAT = """\
24.12.24, 23:50 - Ana: My dog is called Rex.
24.12.24, 23:55 - Ben: What a name!
25.12.24, 00:05 - Ana: He is afraid of thunder.
25.12.24, 00:06 - Ben: <Media omitted>
25.12.24, 00:07 - Ana: Yes
25.12.24, 00:07 - Ana: Yes
"""
LATER = CHAT + "25.12.24, 09:00 - Ben: I moved to Faro.\n26.12.24, 10:00 - Ana: When?\n"


@pytest.fixture
async def memory(neo4j_server: Any) -> AsyncIterator[GraphMemory]:
    async with GraphMemory(settings=neo4j_server.settings(label_prefix="TestHash"), embedder=HashEmbedder()) as memory:
        yield memory


def make_options(app_name: str, **more: Any) -> ImportOptions:
    chat = ChatOptions(ZoneInfo("Europe/Berlin"), me="Ana")
    return ImportOptions("whatsapp", app_name, "ana", **{"chat": chat, **more})


async def test_a_chat_comes_once_and_then_what_is_new(memory: GraphMemory, app_name: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(CHAT)
    options = make_options(app_name, remembers=True)
    dry = await import_source(None, str(path), options)
    assert (dry.sessions, dry.events, dry.speakers) == ({"read": 2}, {"read": 5}, {"Ana": 4, "Ben": 1})
    assert dry.period is not None
    assert [moment.astimezone(UTC).isoformat() for moment in dry.period] == [
        "2024-12-24T22:50:00+00:00",
        "2024-12-24T23:07:00+00:00",
    ]
    first = await import_source(memory, str(path), options)
    assert (first.sessions, first.events) == ({"new": 2, "read": 2}, {"new": 5, "read": 5})
    assert (first.skipped, first.has_problems, first.waiting_turns) == ({"without words": 1}, False, 5)
    again = await import_source(memory, str(path), options)
    assert (again.sessions, again.events) == ({"known": 2, "read": 2}, {"known": 5, "read": 5})

    path.write_text(LATER)
    later = await import_source(memory, str(path), options)
    assert later.sessions == {"extended": 1, "known": 1, "new": 1, "read": 3}
    assert later.events == {"known": 5, "new": 2, "read": 7}

    service = Neo4jSessionService(settings=memory.connection.settings)
    async with service:
        listed = await service.list_sessions(app_name=app_name, user_id="ana")
        stored = [
            await service.get_session(app_name=app_name, user_id="ana", session_id=session.id)
            for session in sorted(listed.sessions, key=lambda session: session.id)
        ]
    assert [[(event.author, event.content.parts[0].text) for event in one.events] for one in stored if one] == [
        [("user", "My dog is called Rex."), ("Ben", "What a name!")],
        [("user", "He is afraid of thunder."), ("user", "Yes"), ("user", "Yes"), ("Ben", "I moved to Faro.")],
        [("user", "When?")],
    ]
    assert {session.state["user:timezone"] for session in stored if session} == {"Europe/Berlin"}
    await memory.resume(app_name=app_name)
    [found, *_] = await memory.user(app_name, "ana").recall("I moved to Faro")
    assert (found.author, found.at) == ("Ben", datetime(2024, 12, 25, 9, tzinfo=ZoneInfo("Europe/Berlin")))


TABLE = """\
time,author,text
2025-03-14T23:30:00+01:00,Ana,Rex hides.
1741993200,Ben,So does Tom.
2025-03-15 00:10,Ana,Good night!
"""


@pytest.mark.parametrize(("form", "content"), [("whatsapp", CHAT), ("csv", TABLE)], ids=["whatsapp", "csv"])
async def test_a_chat_comes_once_whatever_its_zone_is_said_to_be(
    memory: GraphMemory, app_name: str, tmp_path: Path, form: str, content: str
) -> None:
    path = tmp_path / "chat"
    path.write_text(content)
    receipts = [
        await import_source(
            memory, str(path), ImportOptions(form, app_name, "ana", chat=ChatOptions(ZoneInfo(zone), me="Ana"))
        )
        for zone in ("Europe/Berlin", "America/Los_Angeles", "Asia/Tokyo")
    ]
    first, *others = (receipt.sessions | {"messages": receipt.events["read"]} for receipt in receipts)
    assert first.pop("new") == 2
    assert others == [first | {"known": 2}] * 2


def test_a_line_that_may_be_a_quote_is_named_and_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(CHAT + "01.02.24, 09:00 - Cid: I moved to Faro.\n25.12.24, 09:00 - Ana: He wrote this.\n")
    owner = ("--app", "home", "--user", "ana", "--me", "Ana")
    result = CliRunner().invoke(app, ["import", "--from", "whatsapp", str(path), *owner, "--dry-run"])
    assert (result.exit_code, "line 7" in result.stderr, "it is a quote there" in result.stderr) == (0, True, True)


async def test_two_chats_that_begin_alike_stay_apart(memory: GraphMemory, app_name: str, tmp_path: Path) -> None:
    for name, minute in (("Ben", 5), ("Cid", 7)):
        path = tmp_path / f"{name}.txt"
        path.write_text(f"31.12.24, 21:0{minute} - Ana: Happy new year!\n31.12.24, 21:08 - {name}: And to you\n")
        receipt = await import_source(memory, str(path), make_options(app_name))
        assert receipt.sessions == {"new": 1, "read": 1}


async def list_texts(memory: GraphMemory, app_name: str) -> list[list[str]]:
    """What was said in each of Ana's sessions, by their ids."""
    async with Neo4jSessionService(settings=memory.connection.settings) as service:
        listed = await service.list_sessions(app_name=app_name, user_id="ana")
        stored = [
            await service.get_session(app_name=app_name, user_id="ana", session_id=session.id)
            for session in sorted(listed.sessions, key=lambda session: session.id)
        ]
    return [[event.content.parts[0].text for event in one.events] for one in stored if one]


async def test_a_greeting_to_two_people_makes_no_chat_of_two(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    for _ in range(2):
        for name in ("Ben", "Cid"):
            path = tmp_path / f"{name}.txt"
            path.write_text(f"31.12.24, 21:05 - Ana: Happy new year!\n31.12.24, 21:08 - {name}: {name} thanks you\n")
            await import_source(memory, str(path), make_options(app_name))
    assert await list_texts(memory, app_name) == [
        ["Happy new year!", "Ben thanks you"],
        ["Happy new year!", "Cid thanks you"],
    ]


DAY = "31.12.24, 21:05 - Ana: {}\n31.12.24, 21:06 - Ben: Happy new year!\n31.12.24, 21:07 - Ana: And to you\n"
NEXT = "31.12.24, 22:00 - Ben: Are you there?\n"


@pytest.mark.parametrize(
    ("first", "events", "skipped"),
    [
        ("Diese Nachricht wurde gelöscht", {"known": 2, "new": 1, "read": 3}, {"of the service itself": 1}),
        ("Helo?", {"known": 2, "new": 1, "read": 4}, {"in conflict with the graph": 1}),
        (None, {"known": 2, "new": 1, "read": 3}, {}),
    ],
    ids=["deleted", "edited", "before the export begins"],
)
async def test_a_day_stays_one_when_its_first_message_changes(
    memory: GraphMemory, app_name: str, tmp_path: Path, first: str | None, events: Any, skipped: Any
) -> None:
    path, options = tmp_path / "chat.txt", make_options(app_name)
    path.write_text(DAY.format("Hello?"))
    await import_source(memory, str(path), options)
    path.write_text((DAY.format(first) if first else DAY.partition("\n")[2]) + NEXT)
    receipt = await import_source(memory, str(path), options)
    assert (receipt.sessions, receipt.events, receipt.skipped) == ({"extended": 1, "read": 1}, events, skipped)
    reason = "the graph has what follows it, but not “Helo?”: was it edited or forgotten since?"
    assert [row.reason for row in receipt.problems] == [reason] * (first == "Helo?")
    again = await import_source(memory, str(path), options)
    assert (again.sessions, again.events.get("new")) == ({"known": 1, "read": 1}, None)
    assert await list_texts(memory, app_name) == [["Hello?", "Happy new year!", "And to you", "Are you there?"]]


@pytest.mark.parametrize(("me", "user_id"), [("ANA", "u1"), (None, "ana")])
async def test_the_user_is_one_of_the_speakers(
    memory: GraphMemory, app_name: str, tmp_path: Path, me: str | None, user_id: str
) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(CHAT)
    options = ImportOptions("whatsapp", app_name, user_id, chat=ChatOptions(UTC, me=me))
    assert (await import_source(None, str(path), options)).events == {"read": 5}
    for chat in (ChatOptions(UTC, me="Zoe"), ChatOptions(UTC)):
        with pytest.raises(errors.InvalidArgument, match="Give --me with one of its speakers: Ana, Ben"):
            await import_source(memory, str(path), ImportOptions("whatsapp", app_name, "u1", chat=chat))


async def test_somebody_called_user_is_not_the_user(memory: GraphMemory, app_name: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.csv"
    path.write_text(
        "time,author,text\n2025-01-02 10:00,User,I am Ben.\n2025-01-02 10:01,ANA,Hi\n2025-01-02 10:02,Ana,Ho\n"
    )
    options = ImportOptions("csv", app_name, "u1", chat=ChatOptions(UTC, me="Ana"))
    await import_source(memory, str(path), options)
    async with Neo4jSessionService(settings=memory.connection.settings) as service:
        [listed] = (await service.list_sessions(app_name=app_name, user_id="u1")).sessions
        stored = await service.get_session(app_name=app_name, user_id="u1", session_id=listed.id)
    assert stored is not None
    assert [event.author for event in stored.events] == ["another user", "ANA", "user"]


@pytest.mark.parametrize(
    ("speakers", "me", "problem"),
    [
        (("\u202a+49\u00a0170 1\u202c", "Ben"), "+49 170 1", None),
        (("~\u202fAna", "Ben"), "~ ana", None),
        (("Jose\u0301", "Ben"), "JOS\u00c9", None),
        (("ANA", "Ana"), "ana", "'ana' may be several of its speakers. Give --me with one of its speakers: ANA, Ana"),
        (("assistant",), None, None),
    ],
)
async def test_me_is_typed_as_it_looks(
    tmp_path: Path, speakers: tuple[str, ...], me: str | None, problem: str | None
) -> None:
    path = tmp_path / "chat.csv"
    path.write_text("time,author,text\n" + "".join(f"2025-01-02 10:00,{name},hi\n" for name in speakers))
    options = ImportOptions("csv", "home", "u1", chat=ChatOptions(UTC, me=me))
    if problem is None:
        assert (await import_source(None, str(path), options)).events == {"read": len(speakers)}
        return
    with pytest.raises(errors.InvalidArgument, match=problem):
        await import_source(None, str(path), options)


async def test_a_zone_that_nobody_named_is_not_the_user_s(memory: GraphMemory, app_name: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(CHAT)
    chat = ChatOptions(ZoneInfo("UTC"), me="Ana", sets_zone=False)
    assert (await import_source(memory, str(path), make_options(app_name, chat=chat))).state_keys == 0
    assert (await import_source(memory, str(path), make_options(app_name))).state_keys == 1


async def test_whose_a_chat_becomes_must_be_said(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    with pytest.raises(errors.InvalidArgument, match="give --app and --user"):
        await import_source(None, str(path), ImportOptions("openai", "home"))
    with pytest.raises(errors.InvalidArgument, match="a memory that users share has none: give --user"):
        await import_source(None, str(path), ImportOptions("openai", "home", SharedMemory()))


def test_the_command_says_what_it_understood(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(CHAT)
    command = ["import", "--from", "whatsapp", str(path), "--app", "home", "--user", "u1", "--dry-run"]
    shown = CliRunner().invoke(app, [*command, "--me", "Ana", "--timezone", "Europe/Berlin"])
    assert shown.exit_code == 0
    assert [" ".join(line.split()) for line in shown.output.splitlines() if line.strip()][:5] == [
        "sessions 2 read",
        "events 5 read",
        "people Ana (4), Ben (1)",
        "days 2024-12-24 to 2024-12-25",
        "left out 1 without words",
    ]
    command[2] = "csv"
    wrong = CliRunner().invoke(app, [*command, "--me", "Ana", "--column", "words=x"])
    assert (wrong.exit_code, "not 'words'" in wrong.output) == (2, True)


@pytest.mark.parametrize(
    ("kind", "option", "problem"),
    [
        ("mem0", "--me", "--me is not for --from mem0, but for chats."),
        ("whatsapp", "--at", "--at is not for --from whatsapp, which takes --me, --timezone, --date-order."),
        ("slack", "--column", "--column is not for --from slack"),
        ("chatgpt", "--me", "--me is not for --from chatgpt, which takes --timezone, --at."),
        ("conversation", "--date-order", "--date-order is not for --from conversation"),
    ],
)
def test_an_option_that_a_form_has_no_use_for_is_refused(kind: str, option: str, problem: str) -> None:
    refused = CliRunner().invoke(app, ["import", "--from", kind, "chat", option, "dmy"])
    assert (refused.exit_code, problem in " ".join(refused.output.replace("│", "").split())) == (2, True)
