"""The commands over sessions and memories, as people type them, on a real Neo4j."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types
from typer.testing import CliRunner

from adk_graph_memory import GraphMemory, Neo4jSessionService, Turn, cli

NOON = 1_780_000_000.0


@pytest.fixture
def command(neo4j_server, monkeypatch):
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.auth[0])
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.auth[1])

    async def run(*arguments: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, cli.app, list(arguments))

    return run


@pytest.fixture
async def told(neo4j_server, app_name):
    """Two sessions of Ana and one of Bea; in Ana's first an agent has used a tool."""
    async with Neo4jSessionService(settings=neo4j_server.settings()) as sessions:
        for user_id, session_id in (("ana", "monday"), ("ana", "friday"), ("bea", "monday")):
            session = await sessions.create_session(app_name=app_name, user_id=user_id, session_id=session_id)
            parts = [types.Part(text="My dog is [called] Rex."), types.Part.from_function_call(name="save", args={})]
            for author, part in zip(("user", "agent"), parts, strict=True):
                event = Event(author=author, timestamp=NOON, content=types.Content(role="user", parts=[part]))
                await sessions.append_event(session, event)
    return app_name


async def test_sessions_are_listed(command, told):
    shown = (await command("sessions", "--app", told)).output
    assert shown.count("monday") == 2 and "friday" in shown and "bea" in shown
    assert "bea" not in (await command("sessions", "--app", told, "--user", "ana")).output
    rows = json.loads((await command("sessions", "--app", told, "--json")).output)
    assert {(row["userId"], row["id"]) for row in rows} == {("ana", "monday"), ("ana", "friday"), ("bea", "monday")}


async def test_sessions_come_in_pages(command, told):
    whose = ("sessions", "--app", told, "--user", "ana", "--limit", "1")
    first = (await command(*whose)).output.split("--after ")[1].strip()
    second = (await command(*whose, "--after", first)).output.split("--after ")[1].strip()
    assert {first, second} == {"monday", "friday"}
    assert "No sessions." in (await command(*whose, "--after", second)).output


async def test_a_page_after_nothing_is_told_in_a_line(command, told):
    result = await command("sessions", "--app", told, "--after", "no-such-session")
    assert result.exit_code == 1
    assert "InputValidationError" in result.output and "Traceback" not in result.output


async def test_events_are_printed_as_they_were_said(command, told):
    whose = ("events", "monday", "--app", told, "--user", "ana")
    shown = (await command(*whose)).output
    assert "My dog is [called] Rex." in shown and "calls save" in shown
    assert [row["author"] for row in json.loads((await command(*whose, "--json")).output)] == ["user", "agent"]
    first = (await command(*whose, "--limit", "1")).output
    assert "calls save" not in first and "--after 1" in first
    assert "calls save" in (await command(*whose, "--after", "1")).output
    assert "No events." in (await command("events", "nothing", "--app", told, "--user", "ana")).output


async def test_what_is_forgotten_is_gone_and_only_if_somebody_says_yes(command, neo4j_server, app_name, monkeypatch):
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestMini")
    owner, whose = {"app_name": app_name, "user_id": "ana"}, ("--app", app_name, "--user", "ana")
    async with GraphMemory(settings=neo4j_server.settings(label_prefix="TestMini")) as memory:
        turns = [Turn("t1", "user", "My dog is called Rex.", datetime.now(UTC))]
        await memory.remember(turns, session_id="s", **owner)
        ids = [one.id for one in await memory.recall("What is my dog called?", **owner)]
        assert (await command("forget", *ids, *whose)).exit_code == 1
        assert await memory.recall("What is my dog called?", **owner)
        assert "1 facts" in (await command("forget", *ids, *whose, "--yes")).output
        assert await memory.recall("What is my dog called?", **owner) == []
    receipt = json.loads((await command("forget", *ids, *whose, "--yes", "--json")).output)
    assert receipt == {"events": 0, "facts": 0, "entities": 0}
