"""Sessions go into memory from files, from the graph and from what waits; what fails holds up nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

import pytest
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.adk.sessions import Session
from google.genai import types

from adk_graph_memory import Neo4jSessionService, Turn, errors
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.testing import ScriptedLlm, make_text_response

NOON = 1_780_000_000.0


class Moody(ScriptedLlm):
    """Reads nothing out of what it is shown, and fails at Timbuktu until it has calmed down."""

    calm: ClassVar[bool] = False

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["moody"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if "Timbuktu" in str(llm_request.contents) and not Moody.calm:
            raise RuntimeError("not Timbuktu again")
        yield make_text_response('{"entities": [], "facts": []}')


@pytest.fixture
def moody(monkeypatch):
    LLMRegistry.register(Moody)
    monkeypatch.setattr(Moody, "calm", False)
    monkeypatch.setenv("ADK_GRAPH_MEMORY_MODEL", "moody")


def session(app_name: str, id: str, text: str, user_id: str = "ana") -> Session:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    event = Event(id=f"{id}-1", author="user", timestamp=NOON, content=content)
    return Session(id=id, app_name=app_name, user_id=user_id, events=[event])


def saved(one: Session) -> str:
    return one.model_dump_json(exclude_none=True, by_alias=True)


@pytest.fixture
def lines(tmp_path, app_name):
    """A file of three sessions and a line that is none."""
    texts = {
        "monday": "I keep bees in the garden.",
        "tuesday": "I live in Timbuktu.",
        "friday": "My dog is called Rex.",
    }
    written = [saved(session(app_name, id, text)) for id, text in texts.items()]
    file = tmp_path / "talk.jsonl"
    file.write_text("\n".join([*written[:2], "{broken", written[2]]), encoding="utf-8")
    return str(file)


def one_line(text: str) -> str:
    return " ".join(text.split())


async def facts(command, app_name: str, user_id: str = "ana") -> set[str]:
    rows = json.loads((await command("facts", "--app", app_name, "--user", user_id, "--json")).stdout)
    return {row["text"] for row in rows}


@pytest.mark.slow
async def test_a_saved_session_is_remembered_once(command, tmp_path, app_name):
    file = tmp_path / "monday.session.json"
    file.write_text(session(app_name, "monday", "I keep bees in the garden.").model_dump_json(indent=2, by_alias=True))
    assert (await command("ingest", str(file))).stdout == "monday: 1 turn remembered: 1 added.\n"
    assert (await command("ingest", str(file))).stdout == "monday: nothing new.\n"
    assert await facts(command, app_name) == {"I keep bees in the garden."}


@pytest.mark.slow
async def test_a_file_may_come_from_stdin_and_be_somebody_elses(command, app_name):
    piped = saved(session("other", "monday", "I keep bees in the garden."))
    told = json.loads((await command("ingest", "-", "--app", app_name, "--user", "bea", "--json", stdin=piped)).stdout)
    assert [(job["app_name"], job["user_id"], job["session_id"]) for job in told["jobs"]] == [
        (app_name, "bea", "monday")
    ]
    assert told["total"]["facts"] == told["jobs"][0]["report"]["facts"] == {"ADD": 1}
    assert await facts(command, app_name, "bea") == {"I keep bees in the garden."}


@pytest.mark.slow
async def test_what_our_own_commands_print_can_be_read_again(command, neo4j_server, app_name):
    stored = session(app_name, "monday", "I keep bees in the garden.")
    async with Neo4jSessionService() as sessions:
        created = await sessions.create_session(app_name=app_name, user_id="ana", session_id="monday")
        await sessions.append_event(created, stored.events[0])
    ana = ("--app", app_name, "--user", "ana")
    printed = (await command("sessions", "--app", app_name, "--json")).stdout
    assert (await command("ingest", "-", stdin=printed)).stdout == "monday: no events.\n"
    printed = (await command("events", "monday", *ana, "--json")).stdout
    assert "1 turn remembered" in (await command("ingest", "-", *ana, stdin=printed)).stdout
    assert (await command("ingest", "--session", "monday", *ana)).stdout == "monday: nothing new.\n"


@pytest.mark.slow
async def test_a_bad_line_holds_up_nothing_and_is_named(command, lines, app_name):
    result = await command("ingest", lines)
    assert result.exit_code == 1
    assert [line.partition(":")[0] for line in result.stdout.splitlines()][:3] == ["monday", "tuesday", "friday"]
    assert "3 of 4 done; 3 turns remembered: 3 added." in result.stdout
    assert f"{lines}, line 3 cannot be read: it is not JSON" in result.stderr
    assert len(await facts(command, app_name)) == 3


@pytest.mark.slow
async def test_what_a_model_fails_at_waits_and_holds_up_nothing(command, moody, lines, app_name, monkeypatch, caplog):
    result = await command("ingest", lines, "--json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)["jobs"]
    assert [(row["session_id"], row["report"] is None, row["pending"]) for row in rows] == [
        ("monday", False, False),
        ("tuesday", True, True),
        (None, True, False),
        ("friday", False, False),
    ]
    complaints = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(one.get("of"), one["error"]) for one in complaints] == [
        ("tuesday", "ModelFailed"),
        (None, "UnreadableTranscript"),
    ]
    assert "not Timbuktu again" in rows[1]["error"]["message"]

    pending = ("ingest", "--pending", "--app", app_name)
    again = await command(*pending)
    assert again.exit_code == 1 and f"user ana of {app_name}: ModelFailed" in again.stderr
    assert again.stdout.strip() == ""
    assert "stays queued" not in caplog.text  # the error is printed, and need not be logged too
    assert "adk-graph-memory ingest --pending" in again.stderr
    monkeypatch.setattr(Moody, "calm", True)
    assert "1 turn remembered" in (await command(*pending)).stdout
    assert (await command(*pending)).stdout == "Nothing is pending.\n"
    assert json.loads((await command(*pending, "--json")).stdout)["jobs"] == []


async def test_what_fails_for_all_ends_it_and_what_was_done_is_told(command, lines, monkeypatch):
    real = UserMemory.remember

    async def remember(self, turns, *, session_id):
        if session_id == "tuesday":
            raise errors.DatabaseUnavailable(uri="bolt://db.example.org", reason="it went away")
        return await real(self, turns, session_id=session_id)

    monkeypatch.setattr(UserMemory, "remember", remember)
    result = await command("ingest", lines)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("1 of 4 done;")
    assert "DatabaseUnavailable" in result.stderr and "friday" not in result.output


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"\xff\xfe[", "not UTF-8"), (b"hello", "not JSON"), (b"[]", "nothing")],
)
async def test_a_file_that_cannot_be_read_is_told_in_a_line(command, tmp_path, content, reason):
    file = tmp_path / "talk.json"
    if content is not None:
        file.write_bytes(content)
    result = await command("ingest", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert f"{file} cannot be read" in line and reason in line and "adk run --save_session" in line


async def test_a_time_that_is_no_time_is_told_with_its_event(command, app_name):
    wrong = session(app_name, "monday", "I keep bees.")
    wrong.events[0].timestamp = NOON * 1_000_000
    result = await command("ingest", "-", stdin=saved(wrong))
    assert result.exit_code == 1
    assert "monday: InputValidationError: Event monday-1 has the timestamp" in result.stderr


class Watched(ScriptedLlm):
    """Runs commands while it is asked, and finds nothing."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.extend([await run() for run in self.commands])
        yield make_text_response('{"entities": [], "facts": []}')

    commands: list[Any] = []  # noqa: RUF012  a pydantic field
    seen: list[Any] = []  # noqa: RUF012


@pytest.mark.slow
async def test_what_is_being_read_is_listed_with_the_time_when_it_is_free(command, neo4j_server, app_name):
    pending, stats = ("ingest", "--pending", "--app", app_name), ("stats", "--app", app_name)
    calls = [(*pending,), (*pending, "--json"), (*stats,), (*stats, "--json")]
    model = Watched(commands=[partial(command, *arguments) for arguments in calls])
    settings = neo4j_server.settings(lease=3600.0)
    before = datetime.now(UTC)
    async with GraphMemory(settings=settings, embedder=False, model=model) as memory:
        turn = Turn("t", "user", "I keep bees.", datetime(2026, 5, 1, tzinfo=UTC))
        await memory.remember([turn], app_name=app_name, user_id="ana", session_id="monday")
    assert [result.exit_code for result in model.seen] == [0] * len(calls)
    listed, listed_json, summed, summed_json = (result.stdout for result in model.seen)
    [claim], [same_claim] = json.loads(listed_json)["claimed"], json.loads(summed_json)["claimed"]
    assert (claim["app_name"], claim["user_id"], claim["session_id"]) == (app_name, "ana", "monday")
    free_at = datetime.fromisoformat(claim["free_at"])
    assert same_claim == claim and before + timedelta(hours=1) <= free_at <= datetime.now(UTC) + timedelta(hours=1)
    for shown in map(one_line, (listed, summed)):
        assert (
            f"monday of user ana of {app_name}: a process is reading it" in shown and "Nothing is pending" not in shown
        )
        assert f"free at {free_at:%Y-%m-%d %H:%M:%S} UTC" in shown
    for arguments in (pending, stats):
        assert json.loads((await command(*arguments, "--json")).stdout)["claimed"] == []


# -- the model of a request -------------------------------------------------------------------------------------


async def enqueue(neo4j_server, app_name: str, model: str | ScriptedLlm, text: str = "I keep bees.") -> None:
    settings = neo4j_server.settings()
    async with GraphMemory(settings=settings, embedder=False, model=model) as memory:
        turn = Turn(text, "user", text, datetime(2026, 5, 1, tzinfo=UTC))
        await memory.user(app_name, "ana").enqueue([turn], session_id="monday")


async def test_a_request_is_read_with_its_own_model(command, neo4j_server, moody, app_name, monkeypatch):
    await enqueue(neo4j_server, app_name, "moody")
    await enqueue(neo4j_server, app_name, "rules", "I keep goats.")
    monkeypatch.delenv("ADK_GRAPH_MEMORY_MODEL")
    result = await command("ingest", "--pending", "--app", app_name, "--json")
    extractors = {job["report"]["extractor"].partition(" ")[0] for job in json.loads(result.stdout)["jobs"]}
    assert extractors == {"moody", "rules@4"}
    assert await facts(command, app_name) == {"I keep goats."}  # the model finds no facts


@pytest.mark.slow
async def test_a_request_for_a_model_that_is_not_here_is_refused(command, neo4j_server, app_name):
    await enqueue(neo4j_server, app_name, ScriptedLlm.from_replies())
    pending = ("ingest", "--pending", "--app", app_name)
    result = await command(*pending)
    assert result.exit_code == 1 and "Traceback" not in result.stderr
    assert "QueuedModelMissing" in result.stderr and "'scripted'" in result.stderr and "--model NAME" in result.stderr
    assert await facts(command, app_name) == set()
    assert "1 turn remembered: 1 added." in (await command(*pending, "--model", "rules")).stdout
    assert await facts(command, app_name) == {"I keep bees."}


@pytest.mark.slow
async def test_a_budget_ends_it_and_the_same_command_goes_on(command, neo4j_server, moody, app_name):
    async with GraphMemory(settings=neo4j_server.settings(), model="moody") as memory:
        for n in range(3):
            turn = Turn("t", "user", f"I keep {n} goats.", datetime.now(UTC))
            await memory.user(app_name, f"u{n}").enqueue([turn], session_id="s")
    pending = ("ingest", "--pending", "--app", app_name, "--json")
    spent = await command(*pending, "--max-calls", "3", "--workers", "1")  # each may take two calls, and takes one
    outcome = json.loads(spent.stdout)
    assert (spent.exit_code, outcome["total"]["usage"]["calls"], len(outcome["jobs"])) == (3, 2, 2)
    shown = await command("ingest", "--pending", "--app", app_name, "--max-calls", "1")
    assert shown.exit_code == 3 and "run the same command again" in shown.output
    assert "moody has no price" in (await command(*pending, "--max-cost", "1")).stderr
    done = await command(*pending, "--workers", "8")
    assert done.exit_code == 0
    assert json.loads((await command(*pending)).stdout)["jobs"] == []
