"""Files of sessions are read in every form in which ADK writes them, and what is wrong in one has a place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from adk_graph_memory import errors
from adk_graph_memory.adk.importing import transcripts


def event(id: str = "e1", text: str = "I keep bees.") -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=id, author="user", timestamp=1_780_000_000.0, content=content)


def session(id: str = "monday", *events: Event) -> Session:
    return Session(id=id, app_name="home", user_id="ana", state={"k": 1}, events=list(events) or [event()])


def written(one: Session, **more: Any) -> str:
    """As ``adk run --save_session`` writes it, on one line unless told otherwise."""
    return one.model_dump_json(exclude_none=True, by_alias=True, **more)


def read_sessions(text: str, **owner: str) -> list[Session | errors.UnreadableTranscript]:
    return transcripts.parse_transcript(text, "talk.json", **owner)


def told(text: str, **owner: str) -> list[tuple[str, str, str, list[str]]]:
    return [
        (transcript.app_name, transcript.user_id, transcript.id, [e.id for e in transcript.events])
        for transcript in read_sessions(text, **owner)
    ]


MONDAY = ("home", "ana", "monday", ["e1"])
FRIDAY = ("home", "ana", "friday", ["e1"])


@pytest.mark.parametrize(
    "text",
    [
        written(session(), indent=2),
        f"[{written(session())}]",
        f"\n{written(session())}\n\n",
        session().model_dump_json(by_alias=True),
        session().model_dump_json(),
    ],
    ids=["saved", "a list", "a line", "with nulls", "by field names"],
)
def test_one_session_in_any_form(text: str) -> None:
    [transcript] = read_sessions(text)
    assert isinstance(transcript, Session)
    assert (transcript.app_name, transcript.user_id, transcript.id) == MONDAY[:3]
    assert transcript.events == [event()]


def test_several_sessions_in_a_list_or_one_a_line() -> None:
    texts = [written(session()), written(session("friday"))]
    assert told(f"[{','.join(texts)}]") == told("\n".join(texts)) == [MONDAY, FRIDAY]


def test_whose_it_is_can_be_said_instead() -> None:
    assert told(written(session()), app_name="work", user_id="bea") == [("work", "bea", "monday", ["e1"])]
    bare = json.dumps({"id": "monday", "events": [json.loads(event().model_dump_json(by_alias=True))]})
    assert told(bare, app_name="home", user_id="ana") == [MONDAY]


def test_events_that_name_their_session_are_put_together() -> None:
    def line(id: str, session_id: str) -> str:
        return json.dumps({"session_id": session_id} | event(id).model_dump(mode="json", by_alias=True))

    lines = [line("e1", "monday"), line("e1", "friday"), line("e2", "monday")]
    expected = [("home", "ana", "monday", ["e1", "e2"]), FRIDAY]
    for text in ("\n".join(lines), f"[{','.join(lines)}]"):
        assert told(text, app_name="home", user_id="ana") == expected


def test_what_a_newer_adk_adds_is_passed_over() -> None:
    later = json.loads(written(session())) | {"somethingNew": 1}
    later["events"][0]["somethingNew"] = 1
    later["events"][0]["actions"]["somethingNew"] = 1
    assert told(json.dumps(later)) == [MONDAY]


def without(*keys: str) -> str:
    """A session whose only event lacks these."""
    data = json.loads(written(session()))
    for key in keys:
        del data["events"][0][key]
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (f"{written(session())}\n{{broken\n", "talk.json, line 2", "not JSON"),
        (f"{written(session())}\n7\n", "talk.json, line 2", "not a JSON object"),
        (f"[{written(session())}, null]", "talk.json, session 2", "not a JSON object"),
        ("{}", "talk.json", 'no "id"'),
        ('{"id": 7, "appName": "home", "userId": "ana"}', "talk.json", 'no "id"'),
        ('{"id": "monday", "userId": "ana"}', "talk.json", 'no "appName" (or --app)'),
        ('{"id": "monday", "appName": "home", "userId": " "}', "talk.json", 'no "userId" (or --user)'),
        ('{"id": "monday", "appName": "home", "userId": "ana", "events": {}}', "talk.json", "not a list"),
        (
            '{"id": "monday", "appName": "home", "userId": "ana", "events": [7]}',
            "talk.json, event 1",
            "not a JSON object",
        ),
        (without("id", "timestamp"), "talk.json, event 1", "no id and no timestamp"),
        (written(session()).replace('"author":"user"', '"author":" "'), "talk.json, event 1", "no author"),
        (written(session()).replace("1780000000.0", '"noon"'), "talk.json, event 1", "timestamp"),
        (
            written(session()).replace("1780000000.0", '"noon"').replace('"author":"user"', '"author":5'),
            "talk.json, event 1",
            "author",
        ),
        (event().model_dump_json(by_alias=True), "talk.json", 'no "session_id"'),
        (written(session()).replace("bees", "\\ud800"), "talk.json, event 1", "hex escape"),
        (f"{written(session())}\n{'[' * 100_000}", "talk.json, line 2", "not JSON"),
    ],
    ids=range(16),
)
def test_what_is_wrong_is_said_with_its_place(text: str, place: str, reason: str) -> None:
    unreadable = [
        transcript for transcript in read_sessions(text) if isinstance(transcript, errors.UnreadableTranscript)
    ]
    assert [transcript.place for transcript in unreadable] == [place]
    assert reason in unreadable[0].reason and "adk run --save_session" in str(unreadable[0])


def test_a_line_ends_where_json_lines_say_and_nowhere_else() -> None:
    texts = [written(session("monday", event(text="one\u2028two\x85three"))), written(session("friday"))]
    assert told("\n".join(texts)) == [MONDAY, FRIDAY]


def test_the_others_are_read_all_the_same() -> None:
    sessions = read_sessions(f"{written(session())}\n{{broken\n{written(session('friday'))}\n")
    assert [getattr(transcript, "id", None) for transcript in sessions] == ["monday", None, "friday"]


@pytest.mark.parametrize("text", ["", "  \n", "[]", "hello\nworld", "{", '{"id":\n"monday"'])
def test_a_file_that_holds_no_session_at_all_is_refused(text: str) -> None:
    with pytest.raises(errors.UnreadableTranscript, match=r"talk\.json cannot be read"):
        read_sessions(text)


@pytest.mark.parametrize("zone", [None, "America/Sao_Paulo"])
def test_of_a_state_the_time_zone_alone_is_read(zone: str | None) -> None:
    original = session()
    original.state = {"k": 1, "user:k": 2, **({"user:timezone": zone} if zone else {})}
    [transcript] = read_sessions(written(original))
    assert isinstance(transcript, Session)
    assert transcript.state == ({"user:timezone": zone} if zone else {})
