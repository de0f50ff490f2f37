"""The commands over sessions and memories, as people type them, on a real Neo4j."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.adk.events import Event
from google.genai import types
from rich.cells import cell_len
from rich.console import Group
from rich.text import Text
from tests.support.loaded_modules import list_foreign_packages, list_loaded_by_commands, list_own_parts

from adk_graph_memory import GraphMemory, Neo4jArtifactService, Neo4jSessionService, Turn
from adk_graph_memory.cli import output
from adk_graph_memory.graph.local_neo4j import persistent
from adk_graph_memory.graph.local_neo4j.persistent import RunningServer
from adk_graph_memory.testing import ScriptedLlm

NOON = 1_780_000_000.0


def whose(app_name: str, user_id: str = "ana") -> tuple[str, ...]:
    return "--app", app_name, "--user", user_id


def one_line(text: str) -> str:
    return " ".join(text.split())


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


LIFE = (
    "My dog is called Rex.",
    "I live in Lisbon.",
    "My sister Inés keeps bees in Braga.",
    "I live in Porto.",
)


@pytest.fixture
async def known(neo4j_server, app_name):
    """Ana has told something of her life, a day each, and moved in the course of it."""
    settings = neo4j_server.settings(functional_predicates=("lives_in",))
    entities = [("user", "person"), ("Rex", "animal"), ("Lisbon", "place"), ("Inés", "person"), ("Porto", "place")]
    named = [{"ref": ref, "name": name, "type": kind} for ref, (name, kind) in enumerate(entities)]
    facts = [
        {"subject": subject, "predicate": predicate, "object": object, "text": text, "quote": text, "turns": [turn]}
        for turn, (text, subject, predicate, object) in enumerate(
            zip(LIFE, (1, 0, 3, 0), ("is_called", "lives_in", "keeps", "lives_in"), (None, 2, None, 4), strict=True)
        )
    ]
    model = ScriptedLlm.from_replies(json.dumps({"entities": named, "facts": facts}))
    async with GraphMemory(settings=settings, embedder=False, model=model) as memory:
        start = datetime.fromtimestamp(NOON, UTC)
        turns = [Turn(f"t{n}", "user", text, start + timedelta(days=n)) for n, text in enumerate(LIFE)]
        await memory.remember(turns, app_name=app_name, user_id="ana", session_id="life")
    return app_name


# -- sessions and events ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_sessions_are_listed(command, told):
    shown = (await command("sessions", "--app", told)).output
    assert shown.count("monday") == 2 and "friday" in shown and "bea" in shown
    assert "bea" not in (await command("sessions", *whose(told))).output
    rows = json.loads((await command("sessions", "--app", told, "--json")).stdout)
    assert {(row["userId"], row["id"]) for row in rows} == {("ana", "monday"), ("ana", "friday"), ("bea", "monday")}


async def test_sessions_come_in_pages(command, told):
    some = ("sessions", *whose(told), "--limit", "1")
    first = (await command(*some)).stderr.split("--after ")[1].strip()
    second = (await command(*some, "--after", first)).stderr.split("--after ")[1].strip()
    assert {first, second} == {"monday", "friday"}
    assert "No sessions." in (await command(*some, "--after", second)).output


async def test_a_page_after_nothing_is_told_in_a_line(command, told):
    result = await command("sessions", "--app", told, "--after", "no-such-session")
    assert result.exit_code == 1
    assert "NotFound: after='no-such-session' names no session." in result.output


async def test_events_are_printed_as_they_were_said(command, told):
    monday = ("events", "monday", *whose(told))
    shown = (await command(*monday)).output
    assert "My dog is [called] Rex." in shown and "calls save" in shown
    rows = json.loads((await command(*monday, "--json")).stdout)
    assert [(row["author"], row["session_id"]) for row in rows] == [("user", "monday"), ("agent", "monday")]
    first = (await command(*monday, "--limit", "1")).output
    assert "calls save" not in first and "--after 1" in first
    assert "calls save" in (await command(*monday, "--after", "1")).output
    assert "No events." in (await command(*monday, "--after", "2")).output


@pytest.mark.slow
async def test_sessions_show_their_display_names_and_no_state(command, neo4j_server, app_name):
    async with Neo4jSessionService(settings=neo4j_server.settings()) as sessions:
        user = {"app_name": app_name, "user_id": "ana"}
        await sessions.create_session(**user, session_id="monday", display_name="Bees", state={"hive": "inner"})
        await sessions.create_session(**user, session_id="friday")
    for owner in (whose(app_name), ("--app", app_name)):
        shown = (await command("sessions", *owner)).stdout
        assert "Bees" in shown and "hive" not in shown
        rows = json.loads((await command("sessions", *owner, "--json")).stdout)
        assert {row["id"]: row.get("displayName") for row in rows} == {"monday": "Bees", "friday": None}


async def test_sessions_are_the_json_that_adk_makes_of_them(command, neo4j_server, app_name):
    state = {"hive": {"frames": [10, 2.5]}, "app:season": "May", "user:name": "Inés"}
    async with Neo4jSessionService(settings=neo4j_server.settings()) as sessions:
        await sessions.create_session(app_name=app_name, user_id="ana", session_id="monday", state=state)
        [session] = (await sessions.list_sessions(app_name=app_name)).sessions
    [row] = json.loads((await command("sessions", "--app", app_name, "--json")).stdout)
    assert row == session.model_dump(mode="json", by_alias=True) and row["state"] == state


# -- apps and users ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_users_are_counted_page_by_page(command, told, known):
    listing = ("users", "--app", told)
    rows = json.loads((await command(*listing, "--json")).stdout)
    counts = [(row["user_id"], row["sessions"], row["turns"], row["facts"]) for row in rows]
    assert counts == [("ana", 2, len(LIFE), len(LIFE)), ("bea", 1, 0, 0)]
    facts = json.loads((await command("facts", "--all", *whose(told), "--json")).stdout)
    assert len(facts) == len(LIFE) > sum(fact["holds"] for fact in facts)
    first = await command(*listing, "--limit", "1")
    assert "ana" in first.stdout and "bea" not in first.stdout and "--after ana" in first.stderr
    second = (await command(*listing, "--limit", "1", "--after", "ana")).stdout
    assert "bea" in second and "ana" not in second
    assert "No users." in (await command(*listing, "--after", "bea")).stdout


async def test_apps_are_counted_page_by_page(command, told, known):
    page = ("apps", "--limit", "1", "--after", told[:-1])  # that sorts right before it
    [app] = json.loads((await command(*page, "--json")).stdout)
    assert app == {"app_name": told, "users": 2, "sessions": 3, "facts": len(LIFE)}
    shown = await command(*page)
    assert told in shown.stdout and f"--after {told}" in shown.stderr


async def test_python_lists_as_many_as_it_is_asked_for(known, neo4j_server, monkeypatch):
    monkeypatch.setattr("adk_graph_memory.graph.listings.PAGE_SIZE", 1)
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False) as memory:
        user = memory.user(app_name=known, user_id="ana")
        for limit in range(len(LIFE)):
            assert len([entity async for entity in user.entities(limit=limit)]) == limit


@pytest.mark.slow
async def test_python_lists_what_the_command_line_lists(command, known, neo4j_server, monkeypatch):
    monkeypatch.setattr("adk_graph_memory.graph.listings.PAGE_SIZE", 2)  # several pages
    user = {"app_name": known, "user_id": "ana"}
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False) as memory:
        facts = [fact.id async for fact in memory.facts(**user, past=True)]
        about_ines = [fact.text async for fact in memory.facts(**user, about="Inés")]
        entities = [entity.key async for entity in memory.user(**user).entities(limit=3)]
        places = {entity.name async for entity in memory.user(**user).entities(type="place")}
        users = [user.user_id async for user in memory.users(app_name=known)]
        apps = [app async for app in memory.apps(limit=1, after=known[:-1])]
    options = (*whose(known), "--json")
    assert facts == [row["id"] for row in json.loads((await command("facts", "--all", *options)).stdout)]
    assert about_ines == ["My sister Inés keeps bees in Braga."]
    assert entities == [row["key"] for row in json.loads((await command("entities", *options)).stdout)][:3]
    assert places == {"Lisbon", "Porto"}
    assert (users, [app.app_name for app in apps]) == (["ana"], [known])


# -- artifacts --------------------------------------------------------------------------------------------------


async def test_artifacts_of_sessions_are_listed_with_the_users_own(command, neo4j_server, app_name):
    user = {"app_name": app_name, "user_id": "ana"}
    part = types.Part.from_bytes(data=b"x", mime_type="text/plain")
    async with Neo4jArtifactService(settings=neo4j_server.settings()) as artifacts:
        for session_id, name in (("monday", "map.txt"), ("friday", "list.txt"), ("friday", "user:face.png")):
            await artifacts.save_artifact(**user, session_id=session_id, filename=name, artifact=part)
        await artifacts.save_artifact(**user, session_id="monday", filename="map.txt", artifact=part)
        await artifacts.save_artifact(app_name=app_name, user_id="bea", filename="hers.txt", artifact=part)
    rows = json.loads((await command("artifacts", *whose(app_name), "--json")).stdout)
    assert [(row["session_id"], row["name"], row["version"]) for row in rows] == [
        (None, "user:face.png", 0),
        ("friday", "list.txt", 0),
        ("monday", "map.txt", 1),
    ]
    shown = (await command("artifacts", *whose(app_name))).stdout
    assert "session monday" in shown and "map.txt" in shown and "hers.txt" not in shown
    of_monday = (await command("artifacts", *whose(app_name), "--session", "monday")).stdout
    assert "user:face.png" in of_monday and "map.txt" in of_monday and "list.txt" not in of_monday


# -- facts and entities -----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_facts_are_listed_newest_first_and_what_ended_only_on_request(command, known):
    shown = (await command("facts", *whose(known))).stdout
    places = [shown.find(words) for words in ("Porto", "bees in Braga", "called Rex")]
    assert -1 not in places and places == sorted(places)
    assert "Lisbon" not in shown and "2026-05-31" in shown
    everything = one_line((await command("facts", *whose(known), "--all")).stdout)
    assert "I live in Lisbon. fact:" in everything and "· ended 2026-05-31" in everything


async def test_a_fact_says_who_said_it_unless_it_was_the_user(command, app_name, neo4j_server):
    words = [("user", "I keep bees in Porto."), ("Bo", "I live in Braga.")]
    turns = [Turn(author, author, text, datetime(2024, 5, 1, tzinfo=UTC)) for author, text in words]
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False, model="rules") as memory:
        await memory.remember(turns, app_name=app_name, user_id="ana", session_id="chat")
    shown = one_line((await command("facts", *whose(app_name))).stdout)
    rows = json.loads((await command("facts", *whose(app_name), "--json")).stdout)
    ids = {row["author"]: row["id"] for row in rows}
    assert f"{ids['Bo']} · Bo" in shown and f"{ids['user']} ·" not in shown


@pytest.mark.slow
async def test_facts_as_json_say_what_they_rest_on(command, known):
    rows = json.loads((await command("facts", *whose(known), "--all", "--json")).stdout)
    [lisbon] = [row for row in rows if "Lisbon" in row["text"]]
    assert (lisbon["state"], lisbon["holds"], lisbon["object"]) == ("superseded", False, "Lisbon")
    assert datetime.fromisoformat(lisbon["valid_to"]) == datetime.fromtimestamp(NOON, UTC) + timedelta(days=3)
    [source] = lisbon["sources"]
    assert (source["turn_id"], source["session_id"], source["quote"]) == ("t1", "life", "I live in Lisbon")
    assert sum(row["holds"] for row in rows) == len(rows) - 1


@pytest.mark.slow
async def test_facts_that_lie_behind_are_listed_apart_from_what_is_so(command, known, neo4j_server):
    def make_fact(text, **more):
        return {"subject": 1, "predicate": text, "text": text, "quote": "so", "turns": [0], **more}

    facts = [
        make_fact("Ana walked in the Alps", valid_from="2024-02-03", valid_to="2024-02-09"),
        make_fact("Ana plans to see Lima", valid_from="2024-10", modality="planned"),
    ]
    reply = json.dumps({"entities": [{"ref": 1, "name": "Ana"}], "facts": facts})
    model, settings = ScriptedLlm.from_replies(reply, '{"ops": []}'), neo4j_server.settings()
    async with GraphMemory(settings=settings, embedder=False, model=model) as memory:
        turn = Turn("t9", "user", "so", datetime(2024, 5, 1, tzinfo=UTC))
        await memory.remember([turn], app_name=known, user_id="ana", session_id="s")
    shown = one_line((await command("facts", *whose(known))).stdout)
    so, _, rest = shown.partition("Planned, and nothing was heard of it since:")
    lapsed, _, happened = rest.partition("Happened:")
    assert "Porto" in so and "Lima" not in so and "Alps" not in so
    assert "Lima" in lapsed and "· for 2024-10" in lapsed
    assert "Alps" in happened and "· from 2024-02-03 · until 2024-02-09" in happened
    rows = json.loads((await command("facts", *whose(known), "--json")).stdout)
    status = {row["text"]: row["status"] for row in rows}
    assert (status["Ana walked in the Alps"], status["Ana plans to see Lima"]) == ("happened", "lapsed")
    assert status["I live in Porto."] == "holds"


@pytest.mark.slow
async def test_facts_about_somebody(command, known):
    shown = (await command("facts", *whose(known), "--about", "inés")).stdout
    assert "bees" in shown and "Rex" not in shown
    decomposed = "Ine\u0301s"
    assert (await command("facts", *whose(known), "--about", decomposed)).stdout == shown
    assert (await command("facts", *whose(known), "--about", "Ines")).stdout == shown
    nothing = complaint(await command("facts", *whose(known), "--about", "Inez", "--json"))
    assert nothing["error"] == "NotFound" and "the nearest names are Inés" in nothing["message"]
    [key] = [
        e["key"] for e in json.loads((await command("entities", *whose(known), "--json")).stdout) if "In" in e["name"]
    ]
    assert (await command("facts", *whose(known), "--about", key)).stdout == shown


@pytest.mark.parametrize(("name", "id"), [("facts", "id"), ("entities", "key")])
async def test_pages_hold_everything_once(command, known, name, id):
    options = (name, *whose(known), *(["--all"] if name == "facts" else []))
    all_of_it = [row[id] for row in json.loads((await command(*options, "--json")).stdout)]
    paged, after = [], []
    while rows := json.loads((await command(*options, "--json", "--limit", "2", *after)).stdout):
        paged += [row[id] for row in rows]
        after = ["--after", paged[-1]]
    assert paged == all_of_it and len(all_of_it) > 3
    assert f"--after {all_of_it[1]}" in (await command(*options, "--limit", "2")).stderr
    wrong = await command(*options, "--after", "nobody")
    assert wrong.exit_code == 1 and "'nobody'" in wrong.stderr


@pytest.mark.slow
async def test_a_profile_tells_what_is_so_section_by_section(command, known):
    shown = (await command("profile", *whose(known))).stdout
    assert "Home:\n- I live in Porto.\n" in shown and "Lisbon" not in shown and "bees" not in shown
    rows = json.loads((await command("profile", *whose(known), "--json")).stdout)
    [home] = [row for row in rows if row["section"] == "home"]
    assert (home["text"], home["fact"]["sources"][0]["quote"]) == ("I live in Porto.", "I live in Porto")
    unknown = await command("profile", "--user", "nobody", "--app", known)
    assert unknown.exit_code == 1 and "'nobody'" in unknown.stderr


async def test_a_user_who_told_nothing_has_no_profile(command, told):
    assert "Nothing is known yet." in (await command("profile", *whose(told, "bea"))).stdout


async def test_entities_are_counted_by_what_is_so_and_chosen_by_type(command, known):
    rows = json.loads((await command("entities", *whose(known), "--json")).stdout)
    counts = {row["name"]: row["facts"] for row in rows}
    assert counts["Porto"] == 1 and counts["Lisbon"] == 0
    assert [row["facts"] for row in rows] == sorted(counts.values(), reverse=True)
    shown = (await command("entities", *whose(known), "--type", "Place")).stdout
    assert "Porto" in shown and "Rex" not in shown and "1 fact " in shown
    assert "No entities." in (await command("entities", *whose(known), "--type", "galaxy")).stdout


# -- recalling and forgetting -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "is_found"),
    [
        (("--since", "2026-05-29"), True),
        (("--until", "2026-05-29"), True),
        (("--until", "2026-05-28"), False),
        (("--until", "2026-05-29T04:59:59"), False),
        (("--since", "2026-05-29T05:00:01"), False),
        (("--since", "2026-05-28T20:00:00Z"), True),
        (("--until", "2026-05-28T19:59:59Z"), False),
        (("--until", "2026-05-28T21:00:00+01:00"), True),
    ],
)
async def test_days_are_those_of_the_user(command, neo4j_server, app_name, bounds, is_found):
    early = datetime(2026, 5, 29, 5, tzinfo=ZoneInfo("Asia/Tokyo"))  # the 28th in UTC
    settings = neo4j_server.settings()
    async with GraphMemory(settings=settings, embedder=False) as memory:
        told = [Turn("t", "user", LIFE[0], early)]
        await memory.remember(told, app_name=app_name, user_id="ana", session_id="s")
    shown = (await command("recall", "dog", *whose(app_name), *bounds)).output
    assert ("Rex" in shown) == is_found


@pytest.mark.slow
async def test_a_day_beyond_the_calendar_is_refused(command, known):
    for bound in ("--since", "--until"):
        error = complaint(await command("recall", "dog", *whose(known), bound, "9999-12-31", "--json"), code=2)
        assert "not between the years" in error["message"]


async def test_a_day_that_is_none_is_refused_with_an_example(command):
    for bound in ("--since", "--until"):
        error = complaint(await command("recall", "dog", *whose("home"), bound, "yesterday", "--json"), code=2)
        assert bound in error["message"] and "'yesterday' is not a date" in error["message"]
        assert "2026-05-29" in error["message"]


@pytest.mark.slow
async def test_what_is_recalled_shows_where_it_comes_from(command, known):
    question = ("recall", "What is my dog called?", *whose(known), "--limit", "1")
    explained = await command(*question, "--explain")
    shown = explained.stdout
    assert "My dog is called Rex." in shown and "text +" in shown
    assert "how much a signal adds" in explained.stderr
    assert (await command(*question)).stderr == ""
    unquoted = await command("recall", "What", "is", "my", "dog", "called?", *whose(known), "--limit", "1")
    assert unquoted.stdout == (await command(*question)).stdout
    [memory] = json.loads((await command(*question, "--json")).stdout)
    assert memory["id"] in shown
    assert datetime.fromisoformat(memory["at"]) == datetime.fromtimestamp(NOON, UTC)


async def test_history_tells_where_a_fact_and_a_name_come_from(command, known):
    [fact] = json.loads((await command("facts", *whose(known), "--about", "Rex", "--json")).stdout)
    shown = (await command("history", fact["id"], *whose(known))).stdout
    assert "said" in shown and "“My dog is called Rex" in shown and "session life" in shown
    named = (await command("entity", "rex", *whose(known))).stdout
    assert "Rex" in named and fact["id"] in named and "named" in named
    wrong = complaint(await command("history", "fact:0", *whose(known), "--json"))
    assert "adk-graph-memory facts" in wrong["message"]
    assert (
        "adk-graph-memory entities" in complaint(await command("entity", "Nobody", *whose(known), "--json"))["message"]
    )


@pytest.mark.slow
async def test_what_an_ingest_wrote_can_be_taken_back(command, known):
    [fact] = json.loads((await command("facts", *whose(known), "--about", "Rex", "--json")).stdout)
    [entry, *_] = json.loads((await command("history", fact["id"], *whose(known), "--json")).stdout)["entries"]
    assert (await command("undo", entry["ingest_id"], *whose(known), stdin="n\n")).exit_code == 1
    assert "Taken back: " in (await command("undo", entry["ingest_id"], *whose(known), "--yes")).stdout
    assert complaint(await command("facts", *whose(known), "--about", "Rex", "--json"))["error"] == "NotFound"


@pytest.mark.slow
async def test_a_doctor_finds_every_memory_as_derived(command, known):
    examined = await command("doctor", *whose(known))
    assert "1 user checked: all as derived." in examined.stdout
    assert "no app 'nobody'" in complaint(await command("doctor", "--app", "nobody", "--json"))["message"]


async def test_a_user_is_forgotten_with_a_receipt(command, known):
    given = ("forget-user", "ana", "--app", known)
    assert (await command(*given, stdin="n\n")).exit_code == 1
    receipt = json.loads((await command(*given, "--sessions", "--artifacts", "--yes", "--json")).stdout)
    assert receipt["facts"] and set(receipt["stays"]) == {"tombstones"}
    complaint(await command("facts", *whose(known), "--json"))


async def test_what_is_forgotten_is_gone_and_only_if_somebody_says_yes(command, known):
    facts = ("facts", *whose(known), "--about", "Rex", "--json")
    ids = [row["id"] for row in json.loads((await command(*facts)).stdout)]
    assert (await command("forget", *ids, *whose(known))).exit_code == 1
    assert (await command("forget", *ids, *whose(known), stdin="n\n")).exit_code == 1
    assert len(json.loads((await command(*facts)).stdout)) == len(ids) == 1
    forgotten = await command("forget", *ids, *whose(known), stdin="y\n")
    assert "Forgotten: 1 fact, 0 turns and 0 entities.\nWhat was said in 1 turn stays" in forgotten.stdout
    assert json.loads((await command(*facts)).stdout) == []


@pytest.mark.slow
async def test_there_is_no_such_memory(command, known):
    error = complaint(await command("forget", "fact:0", "turn:0", *whose(known), "--yes", "--json"))
    assert error["error"] == "NotFound"
    assert error["message"].startswith("There is no memory 'fact:0' or 'turn:0' of user 'ana'")
    assert len(json.loads((await command("facts", *whose(known), "--json")).stdout)) > 0


async def test_as_json_nobody_is_asked(command, known):
    for arguments in (("forget", "--session", "life", *whose(known)), ("artifacts", "--orphans", "--delete")):
        error = complaint(await command(*arguments, "--json", stdin="y\n"))
        assert error["error"] == "ConfirmationMissing" and "--yes" in error["message"]


@pytest.mark.parametrize("target", [("fact:0",), ("--session", "no")])
async def test_nobody_is_asked_about_what_is_not_there(command, known, target):
    result = await command("forget", *target, *whose(known), stdin="n\n")
    assert result.exit_code == 1 and "NotFound" in result.stderr and "[y/N]" not in result.output


@pytest.mark.slow
async def test_the_question_counts_what_would_be_forgotten(command, known):
    [rex] = [
        row
        for row in json.loads((await command("facts", *whose(known), "--json")).stdout)
        if row["text"] == "My dog is called Rex."
    ]
    turn_id = rex["sources"][0]["turn_id"]
    [turn] = json.loads(
        (await command("recall", "dog", *whose(known), "--kind", "event", "--limit", "1", "--json")).stdout
    )
    assert turn_id in turn["source_event_ids"]
    asked = await command("forget", rex["id"], turn["id"], "fact:0", *whose(known), stdin="n\n")
    assert "Forget 2 memories for good" in asked.stderr
    asked = await command("forget", rex["id"], *whose(known), stdin="n\n")
    assert "Stays, unless you give --with-turns: My dog is called Rex." in asked.stderr
    asked = await command("forget", rex["id"], "--with-turns", *whose(known), stdin="n\n")
    assert "Stays" not in asked.stderr
    asked = await command("forget", "--session", "life", *whose(known), stdin="n\n")
    assert f"Forget {len(LIFE)} memories of session 'life' for good" in asked.stderr


@pytest.mark.slow
async def test_a_sessions_memory_is_forgotten_and_the_session_stays(command, told):
    ingest, forget = (("ingest", "--session", "monday"), ("forget", "--session", "monday", "--yes", "--json"))
    assert "1 turn remembered" in (await command(*ingest, *whose(told))).stdout
    assert (await command(*ingest, *whose(told, "bea"))).exit_code == 0
    assert json.loads((await command(*forget, *whose(told))).stdout)["events"] == 1
    assert "No facts." in (await command("facts", *whose(told))).stdout
    assert "[called] Rex" in (await command("events", "monday", *whose(told))).stdout
    assert "nothing new" in (await command(*ingest, *whose(told))).stdout
    assert "[called] Rex" in (await command("facts", *whose(told, "bea"))).stdout


async def test_what_remembering_came_to_is_summed_up(command, known):
    shown = (await command("stats", "--app", known)).stdout
    assert f"ana of {known}" in one_line(shown) and "scripted extract@" in shown
    [entry] = json.loads((await command("stats", "--app", known, "--json")).stdout)["entries"]
    assert entry["report"]["turns"] == len(LIFE)


@pytest.mark.slow
async def test_of_a_user_who_told_memory_nothing_there_is_nothing_to_sum_up(command, told):
    assert "Nothing has been remembered yet." in (await command("stats", "--app", told)).stdout


# -- the server -------------------------------------------------------------------------------------------------


async def test_the_schemas_version_is_told(command, neo4j_server):
    shown = await command("migrate")
    told = json.loads((await command("migrate", "--json")).stdout)
    assert f"is at version {told['version']}." in shown.stdout and told["uri"] == neo4j_server.uri
    assert "CREATE CONSTRAINT" in json.loads((await command("migrate", "--print", "--json")).stdout)["cypher"]


async def test_a_server_that_does_not_run_is_told(command):
    assert json.loads((await command("down", "--json")).stdout) == {"stopped": False}
    result = await command("status", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"running": False})
    assert "adk-graph-memory up" in (await command("status")).stdout


async def test_up_says_what_it_fetches_and_what_comes_next(command, monkeypatch):
    announced = []

    def start_server(port, *, version, progress):
        progress(45_000_000, 158_000_000)
        progress(158_000_000, 158_000_000)
        return RunningServer("bolt://127.0.0.1:7687", "neo4j", "secret", 1, "2026.08.1", "data")

    monkeypatch.setattr(persistent, "start_server", start_server)
    monkeypatch.setattr(output.StatusLine, "show", lambda self, text: announced.append(text))
    elsewhere = await command("up")
    assert "bolt://127.0.0.1:7687" in elsewhere.stdout and "NEO4J_URI is set" in elsewhere.stderr
    assert announced == ["Starting Neo4j …", "Fetching Neo4j, once: 45 of 158 MB …", "Starting Neo4j …"]
    monkeypatch.delenv("NEO4J_URI")
    assert (await command("up")).stderr.endswith("adk-graph-memory demo\n")
    assert (await command("up", "--json")).stderr == "" and len(announced) == 6


@pytest.fixture
def running(monkeypatch):
    """A local server that runs, whatever is asked for."""
    server = RunningServer("bolt://127.0.0.1:7001", "neo4j", "hunter2", 1, "2026.08.1", "data")
    monkeypatch.setattr(persistent, "start_server", lambda port, **options: server)
    monkeypatch.setattr(persistent, "find_running_server", lambda: server)


@pytest.mark.parametrize("options", [("--port", "7002"), ("--version", "5.26")])
async def test_a_server_that_runs_otherwise_is_no_success(command, running, options):
    error = complaint(await command("up", *options, "--json"))
    assert error["error"] == "LocalServerError"
    assert "2026.08.1 at bolt://127.0.0.1:7001" in error["message"] and "adk-graph-memory down" in error["message"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--port", "7001"), ("--port", "0"), ("--version", "2026")])
async def test_a_server_that_runs_as_asked_is_found(command, running, options):
    assert json.loads((await command("up", *options, "--json")).stdout)["uri"] == "bolt://127.0.0.1:7001"


async def test_the_password_is_shown_on_request_only(command, running):
    for arguments in (("up",), ("status",), ("up", "--json"), ("status", "--json")):
        assert "hunter2" not in (await command(*arguments)).output
    assert "adk-graph-memory status --password" in (await command("up")).stdout
    assert "hunter2" in (await command("status", "--password")).stdout
    assert json.loads((await command("status", "--password", "--json")).stdout)["password"] == "hunter2"


async def test_a_server_of_no_known_version_is_not_started(command):
    assert "65535" in complaint(await command("up", "--port", "70000", "--json"), code=2)["message"]
    error = complaint(await command("up", "--version", "1.9", "--json"), code=2)
    assert "1.9" in error["message"] and "2026" in error["message"]


# -- the demo ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_demo_takes_a_conversation_of_ones_own(command, tmp_path, app_name):
    turn = {"author": "user", "at": "2026-05-01T12:00:00Z", "text": "My dog is called Rex."}
    question = {"question": "What is my dog called?", "answer": "Rex", "evidence": ["monday#0"]}
    talk = {"title": "[Ana]", "app_name": app_name, "user_id": "ana", "questions": [question]}
    (tmp_path / "talk.json").write_text(json.dumps(talk | {"sessions": [{"id": "monday", "turns": [turn]}]}))
    demo = ("demo", "--data", str(tmp_path / "talk.json"), "--model", "rules")
    result = json.loads((await command(*demo, "--json")).stdout)
    assert (result["memory_counts"]["turns"], result["answerable_questions"], result["hits_in_three"]) == (1, 1, 1)
    shown = (await command(*demo, "--embedder", "none")).stdout
    assert "[Ana]" in shown and "My dog is called Rex." in shown
    assert f"facts --app {result['app_name']} --user ana --all\n" in shown
    wrong = await command("demo", "--data", str(tmp_path / "nothing.json"), "--json")
    assert "nothing.json cannot be read" in complaint(wrong, code=2)["message"]


# -- what goes wrong --------------------------------------------------------------------------------------------

OF_A_USER = {
    "facts": ("facts",),
    "entities": ("entities",),
    "recall": ("recall", "Where does Inés live?"),
    "forget": ("forget", "fact:0", "--yes"),
    "sessions": ("sessions",),
    "events": ("events", "monday"),
    "artifacts": ("artifacts",),
    "ingest --session": ("ingest", "--session", "monday"),
    "forget --session": ("forget", "--session", "monday", "--yes"),
}
each_of_a_user = pytest.mark.parametrize("arguments", OF_A_USER.values(), ids=OF_A_USER)
OF_ANYBODY = {
    "stats": ("stats",),
    "migrate": ("migrate",),
    "ingest --pending": ("ingest", "--pending"),
    "artifacts --orphans": ("artifacts", "--orphans"),
    "apps": ("apps",),
    "users": ("users", "--app", "home"),
    "reembed --failed": ("reembed", "--failed"),
}
each_of_anybody = pytest.mark.parametrize("arguments", OF_ANYBODY.values(), ids=OF_ANYBODY)


def complaint(result: Any, code: int = 1) -> dict[str, str]:
    """The one line on stderr by which a command has failed."""
    assert result.exit_code == code and isinstance(result.exception, SystemExit)
    [line] = result.stderr.splitlines()
    assert result.stdout == ""
    return dict(json.loads(line))


@pytest.fixture
def nobody_listens(command, monkeypatch):
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:9")
    monkeypatch.setenv("ADK_GRAPH_MEMORY_DATABASE_TIMEOUT", "0.5")


@pytest.mark.slow
@each_of_a_user
async def test_nobody_knows_this_user(command, app_name, arguments):
    error = complaint(await command(*arguments, *whose(app_name), "--json"))
    assert error["error"] == "NotFound"
    assert "'ana'" in error["message"] and app_name in error["message"] and "adk-graph-memory" in error["message"]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("users",), ("sessions",), ("stats",), ("ingest", "--pending")], ids=" ".join)
async def test_nobody_knows_this_app(command, app_name, arguments):
    error = complaint(await command(*arguments, "--app", app_name, "--json"))
    assert error["error"] == "NotFound" and error["message"].startswith(f"There is no app '{app_name}'")


@pytest.mark.parametrize("arguments", [("stats",), ("ingest", "--pending")], ids=" ".join)
async def test_nobody_knows_a_user_of_any_app(command, app_name, arguments):
    error = complaint(await command(*arguments, "--user", app_name, "--json"))
    assert error["error"] == "NotFound" and error["message"].startswith(f"There is no user '{app_name}': see")


@pytest.mark.slow
@each_of_a_user
async def test_the_server_is_down(command, nobody_listens, arguments):
    error = complaint(await command(*arguments, *whose("home"), "--json"))
    assert error["error"] == "DatabaseUnavailable" and "Is the server running" in error["message"]


@pytest.mark.slow
@each_of_anybody
async def test_the_server_is_down_for_an_operator_too(command, nobody_listens, arguments):
    assert complaint(await command(*arguments, "--json"))["error"] == "DatabaseUnavailable"
    result = await command(*arguments)
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1


@pytest.mark.slow
async def test_the_credentials_are_wrong(command, monkeypatch):
    monkeypatch.setenv("NEO4J_USERNAME", "nobody")  # a wrong password would lock the real user out for a while
    error = complaint(await command("stats", "--json"))
    assert error["error"] == "AuthenticationFailed" and "NEO4J_PASSWORD" in error["message"]


@pytest.mark.slow
async def test_the_password_is_missing(command, neo4j_server, monkeypatch):
    monkeypatch.delenv("NEO4J_PASSWORD")
    monkeypatch.setenv("NEO4J_USERNAME", "nobody")
    error = complaint(await command("stats", "--json"))
    assert error["error"] == "AuthenticationFailed" and "NEO4J_PASSWORD is not set" in error["message"]


async def test_there_is_no_such_database(command, monkeypatch):
    monkeypatch.setenv("NEO4J_DATABASE", "nowhere")
    for arguments in (("stats",), ("recall", "dog", *whose("home"))):
        error = complaint(await command(*arguments, "--json"))
        assert error["error"] == "DatabaseMissing"
        assert "'nowhere'" in error["message"] and "NEO4J_DATABASE" in error["message"]


async def test_no_server_is_named(command, monkeypatch):
    monkeypatch.delenv("NEO4J_URI")
    error = complaint(await command("stats", "--json"))
    assert error["error"] == "NoDatabaseConfigured" and "adk-graph-memory up" in error["message"]


@pytest.mark.parametrize("arguments", [("events", "no"), ("ingest", "--session", "no"), ("forget", "--session", "no")])
async def test_there_is_no_such_session(command, told, arguments):
    yes = ["--yes"] if arguments[0] == "forget" else []
    error = complaint(await command(*arguments, *whose(told), *yes, "--json"))
    assert error["error"] == "NotFound" and "session 'no'" in error["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest",),
        ("ingest", "file.json", "--pending"),
        ("ingest", "--session", "monday"),
        ("ingest", "--session", "monday", "--pending", *whose("home")),
        ("forget", *whose("home")),
        ("forget", "fact:0", "--session", "monday", *whose("home")),
        ("facts", "--app", "home"),
        ("facts", *whose("home"), "--limit", "0"),
        ("artifacts", "--orphans", *whose("home")),
        ("migrate", "--dimensions", "3"),
        ("facts", *whose("home"), "--bogus"),
        ("--bogus",),
        ("no-such-command",),
    ],
    ids=" ".join,
)
async def test_wrong_usage_has_an_exit_code_of_its_own(command, arguments):
    result = await command(*arguments)
    assert result.exit_code == 2 and "Usage:" in result.stderr
    error = complaint(await command(*arguments, "--json"), code=2)
    assert error["error"] == "UsageError" and error["message"]


async def test_an_argument_that_cannot_be_is_no_setting(command, known):
    bounds = ("--since", "2026-02-02", "--until", "2026-01-01")
    error = complaint(await command("recall", "dog", *whose(known), *bounds, "--json"), code=2)
    assert error["error"] == "UsageError" and error["message"].startswith("Since 2026-02-02")
    assert "Usage:" in (await command("recall", "dog", *whose(known), *bounds)).stderr
    assert "Give a question" in (await command("recall", "  ", *whose(known))).stderr


async def test_the_version_and_help_are_a_word_away(command):
    assert (await command("--version")).stdout == f"adk-graph-memory {metadata.version('adk-graph-memory')}\n"
    for arguments in (["-h"], ["facts", "-h"]):
        assert "Usage: adk-graph-memory" in (await command(*arguments)).stdout


@pytest.mark.slow
async def test_a_bug_keeps_its_traceback(command, monkeypatch):
    monkeypatch.setattr("adk_graph_memory.graph.connection.Connection", None)
    assert isinstance((await command("stats")).exception, TypeError)


READS_NEED = (
    "anyascii, neo4j, opentelemetry.metrics, platformdirs, pydantic_settings, stop_words, tenacity, typer.rich_utils"
)
"""What a look at memory may import."""
OF_LISTS = {"cli", "errors", "graph", "language", "memory", "records", "runtime"}
OF_HISTORIES = OF_LISTS | {"consolidation"}
"""What of this package it may load: nothing that embeds, asks a model or searches, and none of ADK's services."""


@pytest.mark.slow
async def test_a_look_at_memory_loads_no_adk(command, known):
    [fact, *_] = json.loads((await command("facts", *whose(known), "--json")).stdout)
    lists = [("apps",), ("users", "--app", known), ("sessions", "--app", known)]
    lists += [(name, *whose(known), *form) for name in ("facts", "entities") for form in ((), ("--json",))]
    loaded = list_loaded_by_commands(lists)
    assert list_foreign_packages(loaded, brought_by=READS_NEED) == set()
    assert list_own_parts(loaded) == OF_LISTS
    assert not {"pandas", "pyarrow"} & loaded  # which the driver loads where they are installed, as here
    loaded = list_loaded_by_commands([("history", fact["id"], *whose(known)), ("entity", "Rex", *whose(known))])
    assert list_foreign_packages(loaded, brought_by=READS_NEED) == set()
    assert list_own_parts(loaded) == OF_HISTORIES


@pytest.mark.slow
def test_ctrl_c_ends_a_command_that_still_imports():
    interrupt = """
import sys

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "google.adk":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from adk_graph_memory.cli import app

app(["recall", "dogs", "--app", "home", "--user", "ana"])
"""
    ended = subprocess.run([sys.executable, "-c", interrupt], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "")


# -- 80 columns -------------------------------------------------------------------------------------------------

UUID = "3f2a9c1e-8b7d-4c5a-9e1f-0123456789ab"
LONG = "a" * 300
SAID = (
    "My name is Inés Álvarez-Quintanilla and I live in Lisbon.",
    "My dog is [red]Rex[/red] :dog: and \x1b[31mhe\x1b[0m is afraid of thunder\\",
    "我住在上海，我的猫叫小明，她非常害怕打雷和闪电，每天晚上都要睡在我的床上，否则就会一直叫个不停。",
    f"I work at https://example.org/{LONG} every day of the week.",
)


@pytest.fixture
async def awkward(neo4j_server, app_name, command):
    """A user of long ids who says what no table likes."""
    user = {"app_name": app_name, "user_id": UUID}
    async with Neo4jSessionService() as sessions, Neo4jArtifactService() as artifacts:
        for session_id in (UUID, LONG, "长" * 80):
            session = await sessions.create_session(**user, session_id=session_id, display_name=SAID[2])
            for n, text in enumerate(SAID):
                content = types.Content(role="user", parts=[types.Part(text=text)])
                event = Event(author="[red]agent" if n == 2 else "user", timestamp=NOON + n, content=content)
                await sessions.append_event(session, event)
        part = types.Part.from_bytes(data=b"x", mime_type=f"application/{'x' * 80}")
        await artifacts.save_artifact(**user, filename=f"user:[red]{LONG}", artifact=part)
    assert (await command("ingest", "--session", UUID, *whose(app_name, UUID))).exit_code == 0
    return app_name


@pytest.mark.slow
async def test_everything_fits_80_columns_and_no_id_is_cut(command, awkward):
    user = whose(awkward, UUID)
    ids = {row["id"] for row in json.loads((await command("facts", *user, "--json")).stdout)}
    for arguments, words in {
        ("sessions",): {UUID, LONG, "长" * 80, SAID[2]},
        ("users",): {UUID},
        ("events", UUID): {"[red]Rex[/red] :dog:", SAID[2]},
        ("artifacts",): {f"user:[red]{LONG}"},
        ("facts", "--all"): {*ids, "[red]Rex[/red] :dog:", SAID[2], "thunder\\"},
        ("entities",): {"Inés", "Álvarez-Quintanilla"},
        ("recall", "dog thunder", "--explain"): {"[red]Rex[/red] :dog:"},
        ("stats",): {UUID, awkward},
    }.items():
        result = await command(*arguments, *(("--app", awkward) if arguments == ("users",) else user))
        assert result.exit_code == 0, result.output
        assert max(map(cell_len, result.stdout.splitlines())) <= 80
        assert "\x1b" not in result.stdout
        shown = columns(result.stdout)
        assert [word for word in words if not any(unspaced(word) in column for column in shown)] == []


def columns(shown: str) -> list[str]:
    """What stands in each column of a table, or in all of a list, as if nothing had been folded."""
    lines = [line.split("│") for line in shown.splitlines() if "│" in line] or [[line] for line in shown.splitlines()]
    return [unspaced("".join(cells)) for cells in zip(*lines, strict=True)]


def unspaced(text: str) -> str:
    return "".join(text.split())


@pytest.mark.slow
async def test_what_is_to_be_typed_again_stands_on_one_line(command, awkward):
    result = await command("sessions", *whose(awkward, UUID), "--limit", "2")
    after = result.stderr.split("--after ")[1].removesuffix("\n")
    assert after in (UUID, LONG, "长" * 80)
    assert (await command("sessions", *whose(awkward, UUID), "--after", after)).exit_code == 0


# -- waiting ----------------------------------------------------------------------------------------------------


def make_screen(*, is_terminal: bool) -> tuple[output.StatusLine, io.StringIO]:
    written = io.StringIO()
    console = output.SafeConsole(file=written, force_terminal=is_terminal, width=80, markup=False)
    return output.StatusLine(console), written


def test_a_terminal_shows_what_takes_long_and_forgets_it(monkeypatch):
    monkeypatch.setattr(output.StatusLine, "TERMINAL_DELAY", 0.0)
    line, written = make_screen(is_terminal=True)
    line.show("Loading [the] model\x1b[31m")
    line._timer.join()
    line.hide()
    assert "Loading [the] model\ufffd[31m" in written.getvalue()
    assert written.getvalue().endswith("\x1b[1A\x1b[2K")  # up, and the line erased
    line.hide()  # again changes nothing
    assert written.getvalue().endswith("\x1b[1A\x1b[2K")


@pytest.mark.slow
def test_what_is_quick_is_not_announced(monkeypatch):
    monkeypatch.setattr(output.StatusLine, "TERMINAL_DELAY", 3600.0)
    line, written = make_screen(is_terminal=True)
    line.show("Loading the model")
    line.hide()
    assert written.getvalue() == ""


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "lines"), [(3600.0, []), (-1.0, ["text 1", "text 2"])])
def test_elsewhere_there_is_a_plain_line_now_and_then(monkeypatch, interval, lines):
    monkeypatch.setattr(output.StatusLine, "LINE_INTERVAL", interval)
    line, written = make_screen(is_terminal=False)
    line.show("text 1")
    line.show("text 2")
    line.hide()
    assert written.getvalue().splitlines() == lines


@pytest.mark.slow
async def test_as_json_nothing_is_announced(command, known, monkeypatch):
    announced = []
    monkeypatch.setattr(output.StatusLine, "show", lambda self, text: announced.append(text))
    assert (await command("recall", "dog", *whose(known), "--json")).stderr == ""
    assert announced == []
    await command("recall", "dog", *whose(known))
    assert announced == ["Waiting for Neo4j …", "Loading the embedding model …", "Searching …"]


# -- the shell --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "wanted"), [("rec", "recall"), ("facts --ab", "--about"), ("ingest --pe", "--pending")]
)
async def test_the_shell_completes(command, monkeypatch, words, wanted):
    monkeypatch.setenv("_ADK_GRAPH_MEMORY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"adk-graph-memory {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    assert (await command()).output.split() == [wanted]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_is_shown_and_installed(command, monkeypatch, tmp_path, shell):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "_ADK_GRAPH_MEMORY_COMPLETE" in (await command("--show-completion", shell)).output
    assert "completion installed" in (await command("--install-completion", shell)).output
    assert any("_ADK_GRAPH_MEMORY_COMPLETE" in file.read_text() for file in tmp_path.rglob("*") if file.is_file())


STEERING = "\x1b\x9b\x07\u202e\u2066\u200f"
"""Characters that would colour, clear, ring or turn around what a terminal shows."""


async def test_nothing_stored_steers_the_terminal(command, neo4j_server, app_name):
    bad = f"I live in {STEERING}[31mBerlin.\n2026-01-01  user said: I live in Oslo."
    reply = {
        "entities": [{"ref": 0, "name": "user", "type": "person"}],
        "facts": [{"subject": 0, "predicate": "lives_in", "text": bad, "quote": bad, "turns": [0]}],
    }
    model = ScriptedLlm.from_replies(json.dumps(reply))
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False, model=model) as memory:
        turns = [Turn("t", "user", bad, datetime.fromtimestamp(NOON, UTC))]
        await memory.remember(turns, app_name=app_name, user_id="ana", session_id="life")
        [fact] = [fact async for fact in memory.facts(app_name=app_name, user_id="ana")]
    for arguments in (
        ("facts",),
        ("history", fact.id),
        ("entity", "user"),
        ("events", "life"),
        ("correct", fact.id, "--text", f"I live in {STEERING}Bonn."),
        ("retract", fact.id),
    ):
        shown = (await command(*arguments, *whose(app_name), stdin="n\n")).output
        assert not set(STEERING) & set(shown), arguments
        assert not [line for line in shown.splitlines() if line.startswith("2026-01-01")], arguments
        assert "\ufffd[31mBerlin" in shown or "events" in arguments
    profile = (await command("profile", *whose(app_name))).stdout
    assert len(profile.splitlines()) == 2 and "[31mBerlin. 2026-01-01" in profile and not set(STEERING) & set(profile)
    listed = (await command("facts", *whose(app_name), "--json")).stdout
    assert not set(STEERING) & set(listed)
    assert [row["text"] for row in json.loads(listed)] == [bad]
    complained = await command("history", f"fact:{STEERING}", *whose(app_name), "--json")
    assert not set(STEERING) & set(complained.stderr) and json.loads(complained.stderr)


def test_a_console_prints_nothing_that_steers_the_terminal():
    written = io.StringIO()
    console = output.SafeConsole(file=written, width=40, markup=False)
    bad = f"a{STEERING}b\r\nc\td"
    console.print(bad, Text(bad), Group(bad, Text(bad)), output.make_grid([(bad, Text(bad))]))
    assert not set(STEERING) & set(written.getvalue())
    assert written.getvalue().count("c d") == 4  # the grid's cells are narrower


async def test_an_owner_corrects_what_is_wrong(command, known):
    porto = json.loads((await command("facts", *whose(known), "--about", "Porto", "--json")).stdout)[0]
    asked = await command("correct", porto["id"], *whose(known), "--text", "I live in Lisbon.", stdin="n\n")
    assert asked.exit_code == 1 and "I live in Porto. → I live in Porto. (retracted" in one_line(asked.output)
    done = await command("correct", porto["id"], *whose(known), "--text", "I live in Lisbon.", "--yes", "--json")
    change = json.loads(done.stdout)
    [lisbon] = [fact for fact in change["facts"] if fact["after"]["state"] == "current"]
    assert lisbon["after"]["text"] == "I live in Lisbon."
    assert "pinned" in (await command("pin", lisbon["id"], *whose(known), "--yes")).stdout
    assert "To take it back" in (await command("unpin", lisbon["id"], *whose(known), "--yes")).stdout
    assert "retracted" in (await command("retract", lisbon["id"], *whose(known), "--yes")).stdout
    assert "retracted" in (await command("history", porto["id"], *whose(known))).stdout
    assert "(nothing) → Inés" not in (await command("merge", "Rex", "Inés", *whose(known), "--yes")).stdout
    complained = complaint(await command("split", "Rex", *whose(known), "--yes", "--json"), code=2)
    assert "is no alias of 'Rex'; its aliases: 'Inés'" in complained["message"]
    complained = complaint(await command("rollback", porto["id"], "1", *whose(known), "--yes", "--json"))
    assert "revision '1'" in complained["message"]


@pytest.mark.slow
async def test_facts_are_listed_as_of_a_time(command, known):
    then = datetime.fromtimestamp(NOON, UTC) + timedelta(days=2)
    shown = (await command("facts", *whose(known), "--valid-at", then.date().isoformat())).stdout
    assert "I live in Lisbon." in shown and "I live in Porto." not in shown
    assert "No facts." in (await command("facts", *whose(known), "--recorded-at", "2026-01-01")).stdout
    found = (await command("recall", "Where do I live?", *whose(known), "--valid-at", then.date().isoformat())).stdout
    assert "I live in Lisbon." in found and "I live in Porto." not in found
