"""An export as of a time holds what memory had recorded then, and its import is a memory like any other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from benchmarks.quality import replies
from google.adk.events.event import Event
from google.genai import types
from tests.support.exported_graphs import digest_users, fill_user, make_memory

from adk_graph_memory import AsOf, GraphMemory, Neo4jArtifactService, Neo4jSessionService, Statement, Turn, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm
from adk_graph_memory.graph import export_lines
from adk_graph_memory.memory.imports import TAKEN, UNDERIVABLE, SectionWriter
from adk_graph_memory.records.results import Checkup, StoredFact
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
Owner = dict[str, str]


def make_reply(city: str, **fields: Any) -> str:
    entities = [{"ref": 1, "name": "user", "type": "person"}, {"ref": 2, "name": city, "type": "place"}]
    fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": f"The user lives in {city}", "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact | {"quote": f"I live in {city}"} | fields]})


@pytest.fixture
async def memory(neo4j_server: Any) -> AsyncIterator[GraphMemory]:
    cities = ("Faro", "Porto", "Braga", "Évora")
    model = ScriptedLlm.from_replies(*map(make_reply, cities))
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0, functional_predicates=("lives_in",))
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        yield memory


async def say(memory: GraphMemory, owner: Owner, day: int, city: str) -> datetime:
    """Say where one lives, and return a time after which memory knows it, and before whatever it hears next."""
    turn = Turn(f"t{day}", "user", f"I live in {city}", NOON + day * DAY)
    await memory.remember([turn], session_id=f"s{day}", **owner)
    return await pause(memory)


async def pause(memory: GraphMemory) -> datetime:
    """Return the server's time, once it is over."""
    [row] = await memory.connection.run_cypher("RETURN datetime() AS now", {})
    await asyncio.sleep(0.01)
    return row["now"].to_native() + timedelta(milliseconds=5)


async def list_facts(memory: GraphMemory, owner: Owner, as_of: AsOf | None = None) -> list[StoredFact]:
    return [fact async for fact in memory.facts(**owner, past=True, as_of=as_of)]


async def check(memory: GraphMemory, owner: Owner) -> Checkup:
    [checkup] = [checkup async for checkup in memory.check_memories(**owner)]
    return checkup


async def copy(memory: GraphMemory, owner: Owner, path: Path, recorded: datetime) -> Owner:
    """Export as of then, and import under another name; doctor finds nothing, and no text lacks its vector."""
    await memory.export(path, **owner, as_of=AsOf(recorded=recorded))
    copied = {**owner, "app_name": f"{owner['app_name']}-{path.name}"}
    receipt = await import_source(memory, str(path), ImportOptions("export", copied["app_name"]))
    assert (receipt.skipped, receipt.users) == ({}, {"new": 1, "read": 1})
    checkup = await check(memory, copied)
    assert (checkup.differences, checkup.findings, checkup.unembedded, checkup.waiting) == (0, (), 0, 0)
    return copied


def list_lines(path: Path, *, derived: bool = True) -> list[str]:
    """The lines of an export in an order of their own, without first and last, and what the user's node has of now.

    ``derived`` includes what follows from the readings: names, facts that were read, their revisions.
    """
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:-1]]
    for line in lines:
        for name in ("writes", "offset", "app_name") if line["node"] == ["User"] else ():
            line["properties"].pop(name, None)
        for name in () if is_said(line) else ("created_at", "recorded_at"):  # when it was written, here or there
            line["properties"].pop(name, None)
        line["edges"] = [edge for edge in line.get("edges", ()) if derived or edge[2] not in ("Entity", "Revision")]
        for edge in line["edges"]:
            edge[4].pop("at", None)
            edge[4].pop("recorded_at", None)
    return sorted(json.dumps(line, sort_keys=True) for line in lines if derived or is_said(line))


def is_said(line: dict[str, Any]) -> bool:
    """Whether a line is of what somebody said, added or read, from which the rest follows."""
    label = line["node"][0]
    return label not in ("Entity", "Revision") and (label != "Fact" or line["properties"]["direct"])


async def import_again(memory: GraphMemory, owner: Owner, path: Path) -> Path:
    """Import a file under another name, and export what that gave."""
    copied = {**owner, "app_name": f"{owner['app_name']}-{path.name}"}
    receipt = await import_source(memory, str(path), ImportOptions("export", copied["app_name"]))
    assert (receipt.skipped, receipt.users) == ({}, {"new": 1, "read": 1})
    await memory.export(again := path.with_name(f"{path.name}-again"), **copied)
    return again


@pytest.mark.slow
async def test_each_moment_of_a_life_is_what_it_was(memory: GraphMemory, owner: Owner, tmp_path: Path) -> None:
    moments = {"faro": await say(memory, owner, 0, "Faro"), "porto": await say(memory, owner, 5, "Porto")}
    [faro] = await list_facts(memory, owner, AsOf(recorded=moments["faro"]))
    [porto] = [fact.id async for fact in memory.facts(**owner)]
    change = await memory.user(**owner).correct(porto, text="The user lives in Lagos")
    moments["lagos"] = await pause(memory)
    await memory.user(**owner).add_statements([Statement("The door code is 1234", NOON)])
    moments["code"] = await pause(memory)
    await memory.user(**owner).pin(faro.id)
    moments["pinned"] = await pause(memory)
    moments["braga"] = await say(memory, owner, 9, "Braga")
    wanted = {name: await list_facts(memory, owner, AsOf(recorded=at)) for name, at in moments.items()}
    assert [len(facts) for facts in wanted.values()] == [1, 2, 3, 4, 4, 5]
    for name, at in moments.items():
        copied = await copy(memory, owner, tmp_path / name, at)
        assert await list_facts(memory, copied, AsOf(recorded=at)) == wanted[name], name
        assert sorted(fact.text for fact in await list_facts(memory, copied)) == sorted(f.text for f in wanted[name])
    assert "Porto" not in (tmp_path / "faro").read_text("utf-8")
    assert "Lagos" not in (tmp_path / "porto").read_text("utf-8")
    await memory.user(**owner).undo(change.ingest_id)
    undone = await copy(memory, owner, tmp_path / "undone", moments["lagos"])
    facts = await list_facts(memory, undone, AsOf(recorded=moments["lagos"]))
    assert facts == await list_facts(memory, owner, AsOf(recorded=moments["lagos"]))
    assert {fact.text for fact in facts} == {"The user lives in Faro", "The user lives in Porto"}


@pytest.mark.slow
async def test_the_import_of_then_is_the_import_of_what_was_written_then(
    memory: GraphMemory, owner: Owner, tmp_path: Path
) -> None:
    await say(memory, owner, 0, "Faro")
    at = await say(memory, owner, 5, "Porto")
    await memory.export(tmp_path / "written", **owner)
    [porto] = [fact.id async for fact in memory.facts(**owner)]
    await memory.user(**owner).correct(porto, text="The user lives in Lagos")
    await say(memory, owner, 2, "Braga")
    await memory.user(**owner).merge("Porto", "Faro")
    await memory.export(tmp_path / "then", **owner, as_of=AsOf(recorded=at))
    assert list_lines(tmp_path / "then") == list_lines(tmp_path / "written", derived=False)
    copies = [await import_again(memory, owner, tmp_path / name) for name in ("then", "written")]
    assert list_lines(copies[0]) == list_lines(copies[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["workshop", *(pytest.param(name, marks=pytest.mark.full) for name in ("demo", "shigoto"))]
)
async def test_so_it_is_of_a_conversation_that_a_model_read(
    neo4j_server: Any, owner: Owner, tmp_path: Path, name: str
) -> None:
    talk, model = replies.load_conversation(name), RecordedLlm.from_recording(replies.load_recording(name))
    moments = dict[str, datetime]()
    async with make_memory(neo4j_server, model=model) as memory:
        for told in talk.sessions:
            turns = memory_codec.make_turns(told.make_events(), zone=talk.zone)
            await memory.remember(turns, **owner, session_id=told.id)
            moments[f"{len(moments)}"] = await pause(memory)
            await memory.export(tmp_path / f"written-{len(moments) - 1}", **owner)
        for number, at in moments.items():
            copied = await copy(memory, owner, tmp_path / number, at)
            assert list_lines(tmp_path / number) == list_lines(tmp_path / f"written-{number}", derived=False)
            as_of = AsOf(recorded=at)
            assert await list_facts(memory, copied, as_of) == await list_facts(memory, owner, as_of)


@pytest.mark.slow
async def test_the_file_of_now_lacks_nothing(
    memory: GraphMemory, neo4j_server: Any, owner: Owner, tmp_path: Path
) -> None:
    await fill_user(neo4j_server, tmp_path, owner["app_name"], "ada")
    await memory.export(tmp_path / "all", **owner)
    await memory.export(tmp_path / "now", **owner, as_of=AsOf())
    assert list_lines(tmp_path / "now") == list_lines(tmp_path / "all", derived=False)


@pytest.mark.slow
async def test_what_was_forgotten_stays_forgotten(memory: GraphMemory, owner: Owner, tmp_path: Path) -> None:
    await say(memory, owner, 0, "Faro")
    at = await say(memory, owner, 5, "Porto")
    await memory.user(**owner).forget_session("s0")
    copied = await copy(memory, owner, tmp_path / "copy", at)
    assert "Faro" not in (tmp_path / "copy").read_text("utf-8")
    assert [fact.text for fact in await list_facts(memory, copied)] == ["The user lives in Porto"]
    nothing = await memory.export(tmp_path / "nothing", **owner, as_of=AsOf(recorded=NOON))
    assert (nothing.users, nothing.nodes) == (0, {})


async def test_what_is_derived_at_the_import_gets_its_vectors_there(
    neo4j_server: Any, monkeypatch: pytest.MonkeyPatch, owner: Owner, tmp_path: Path
) -> None:
    settings, longer = neo4j_server.settings(label_prefix="TestHash"), "The user lives in Faro near the river"
    refine = {"fact": 0, "op": "REFINE", "targets": [1], "reason": "more exact"}
    replies = make_reply("Faro"), make_reply("Faro", text=longer), json.dumps({"ops": [refine]})
    model = ScriptedLlm.from_replies(*replies)
    embedder, embedded = HashEmbedder(), list[str]()
    embed = embedder.embed_documents
    monkeypatch.setattr(embedder, "embed_documents", lambda texts: embedded.extend(texts) or embed(texts))
    async with GraphMemory(settings=settings, model=model, embedder=embedder) as memory:
        at = await say(memory, owner, 0, "Faro")
        await say(memory, owner, 5, "Faro")
        assert [fact.text for fact in await list_facts(memory, owner)] == [longer]
        embedded.clear()
        copied = await copy(memory, owner, tmp_path / "copy", at)
        names = {"user", "Faro"}
        assert set(embedded) == {"The user lives in Faro", *names}
        assert [fact.text for fact in await list_facts(memory, copied)] == ["The user lives in Faro"]
        embedded.clear()
        await copy(memory, owner, tmp_path / "again", datetime.now(UTC))
        assert set(embedded) == {longer, *names}  # what was said keeps the vector that the file has


# -- sessions, states and artifacts -------------------------------------------------------------------------------


def make_event(text: str) -> Event:
    return Event(author="user", content=types.Content(role="user", parts=[types.Part(text=text)]))


async def test_sessions_end_where_they_ended_then(
    memory: GraphMemory, neo4j_server: Any, owner: Owner, tmp_path: Path
) -> None:
    settings = memory.connection.settings
    async with Neo4jSessionService(settings=settings) as sessions, Neo4jArtifactService(settings=settings) as artifacts:
        state = {"app:mood": "fine", "user:diet": "vegan", "step": 1}
        quiet = await sessions.create_session(**owner, session_id="quiet", state=state)
        await sessions.append_event(quiet, make_event("I keep bees"))
        open_session = await sessions.create_session(**owner, session_id="open", state={"step": 1})
        await sessions.append_event(open_session, make_event("Good morning"))
        await save_note(artifacts, owner, "first")
        at = await pause(memory)
        await sessions.append_event(open_session, make_event("Good night"))
        await sessions.create_session(**owner, session_id="later")
        await save_note(artifacts, owner, "second")
        copied = await copy(memory, owner, tmp_path / "copy", at)
        assert {one.id for one in (await sessions.list_sessions(**copied)).sessions} == {"quiet", "open"}
        told = {id: await sessions.get_session(**copied, session_id=id) for id in ("quiet", "open")}
        assert [read_texts(session) for session in told.values()] == [["I keep bees"], ["Good morning"]]
        assert told["quiet"].state == {"user:diet": "vegan", "step": 1} and "step" not in told["open"].state
        await sessions.append_event(told["open"], make_event("Good day"))
        gone_on = await sessions.get_session(**copied, session_id="open")
        assert read_texts(gone_on) == ["Good morning", "Good day"]
        assert await artifacts.list_versions(**copied, filename="user:note") == [0]
        note = await artifacts.load_artifact(**copied, filename="user:note")
        assert note is not None and note.text == "first"


def read_texts(session: Any) -> list[str]:
    return [event.content.parts[0].text for event in session.events]


async def save_note(artifacts: Neo4jArtifactService, owner: Owner, text: str) -> None:
    await artifacts.save_artifact(**owner, filename="user:note", artifact=types.Part.from_text(text=text))


async def test_an_app_of_then_has_those_users_of_whom_something_was_there(
    memory: GraphMemory, owner: Owner, tmp_path: Path
) -> None:
    target, path = f"{owner['app_name']}-copy", tmp_path / "app"
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        await sessions.create_session(**owner, state={"app:mood": "fine", "user:diet": "vegan"})
        at = await say(memory, owner, 0, "Faro")
        await say(memory, {**owner, "user_id": "bea"}, 0, "Porto")
        report = await memory.export(path, app_name=owner["app_name"], as_of=AsOf(recorded=at))
        assert (report.apps, report.users) == (1, 1) and "bea" not in path.read_text("utf-8")
        await import_source(memory, str(path), ImportOptions("export", target))
        copied = await sessions.create_session(app_name=target, user_id="ada")
        assert copied.state == {"user:diet": "vegan"}
    assert await list_facts(memory, {**owner, "app_name": target}) == await list_facts(memory, owner)


@pytest.mark.slow
async def test_an_event_that_was_read_later_is_no_turn_of_then(
    memory: GraphMemory, owner: Owner, tmp_path: Path
) -> None:
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        session = await sessions.create_session(**owner, session_id="s0")
        event = await sessions.append_event(session, make_event("I live in Faro"))
        at = await pause(memory)
        turn = Turn(event.id, "user", "I live in Faro", datetime.fromtimestamp(event.timestamp, UTC))
        await memory.remember([turn], session_id="s0", **owner)
        assert len(await list_facts(memory, owner)) == 1
        copied = await copy(memory, owner, tmp_path / "copy", at)
        assert await list_facts(memory, copied) == [] == await memory.recall("Faro", **copied)
        told = await sessions.get_session(**copied, session_id="s0")
        assert read_texts(told) == ["I live in Faro"]
        report = await memory.remember([turn], session_id="s0", **copied)
    assert report.turns == 1


@pytest.mark.slow
async def test_the_words_of_a_session_that_is_gone_follow_each_other(
    memory: GraphMemory, owner: Owner, tmp_path: Path
) -> None:
    """The one between them was read later."""
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        session = await sessions.create_session(**owner, session_id="s")
        events = [await sessions.append_event(session, make_event(text)) for text in ("I live in Faro", "No", "Yes")]
        first, second, third = (
            Turn(one.id, "user", text, datetime.fromtimestamp(one.timestamp, UTC))
            for one, text in zip(events, read_texts(session), strict=True)
        )
        await memory.remember([first, third], session_id="s", **owner)
        at = await pause(memory)
        await memory.remember([second], session_id="s", **owner)
        await sessions.delete_session(**owner, session_id="s")
    copied = await copy(memory, owner, tmp_path / "copy", at)
    rows = await memory.connection.run_cypher(
        "MATCH (e:TestHashEvent {scope: $scope})-[:NEXT]->(later) RETURN e.text AS text, later.text AS next",
        {"scope": Scope(**copied).key},
    )
    assert [row.data() for row in rows] == [{"text": "I live in Faro", "next": "Yes"}]


# -- users whose memory cannot be derived, and what was forgotten where a file is imported --------------------------


def change_reading(path: Path, number: int, **changes: Any) -> None:
    """Change the fact that was read last of a user of a file, given the number that the user's lines carry."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    line = [line for line in lines if line.get("node") == ["Ingest"] and line["of"] == number][-1]
    reading = json.loads(line["properties"]["reading"])
    reading["extraction"]["facts"][0] |= changes
    line["properties"]["reading"] = json.dumps(reading)
    path.write_text("".join(export_lines.format_line(line) for line in lines), "utf-8")


@pytest.mark.parametrize(
    "wrong", [{"valid_from": "2026-01-01T00:00:00"}, {"valid_from": "9999-12-31T23:59:59-14:00"}], ids=str
)
async def test_a_user_whose_memory_cannot_be_derived_is_left_out_whole(
    memory: GraphMemory, owner: Owner, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    cities = {"ada": "Faro", "bea": "Porto", "cy": "Braga"}
    target, path = f"{owner['app_name']}-copy", tmp_path / "app"
    settings = memory.connection.settings
    async with Neo4jSessionService(settings=settings) as sessions, Neo4jArtifactService(settings=settings) as artifacts:
        for user_id, city in cities.items():
            known = {**owner, "user_id": user_id}
            session = await sessions.create_session(**known, session_id="chat", state={"user:diet": "vegan"})
            await sessions.append_event(session, make_event("Good morning"))
            await save_note(artifacts, known, "first")
            at = await say(memory, known, 0, city)
    await memory.export(path, app_name=owner["app_name"], as_of=AsOf(recorded=at))
    whole = path.read_text("utf-8")
    lines = [json.loads(line) for line in whole.splitlines()]
    heads = [number for number, line in enumerate(lines) if line.get("node") == ["User"]]
    nodes, [_, middle, end] = sum("node" in line for line in lines), heads
    broken = {"app_name": target, "user_id": lines[middle]["properties"]["user_id"]}
    change_reading(path, lines[middle]["of"], **wrong)
    for seen in ("new", "known"):
        receipt = await import_source(memory, str(path), ImportOptions("export", target))
        assert (receipt.users, receipt.skipped) == ({seen: 2, "read": 3}, {UNDERIVABLE: 1})
        assert receipt.nodes == dict.fromkeys((seen, "read"), nodes - (end - middle))
        [problem] = receipt.problems
        assert problem.place == f"{path}, line {middle + 1}" and f"{broken['user_id']!r}" in problem.reason
        assert "Put back the user's lines" in problem.reason and "doctor --mend" in problem.reason
        assert (await digest_users(memory, Scope(**broken)))[1:] == (0, 0)
    for user_id in cities.keys() - {broken["user_id"]}:
        copied = {"app_name": target, "user_id": user_id}
        assert [fact.text for fact in await list_facts(memory, copied)] == [f"The user lives in {cities[user_id]}"]
        checkup = await check(memory, copied)
        assert (checkup.differences, checkup.findings, checkup.unembedded) == (0, (), 0)
    path.write_text(whole, "utf-8")
    mended = await import_source(memory, str(path), ImportOptions("export", target))
    assert (mended.users, mended.skipped) == ({"known": 2, "new": 1, "read": 3}, {})
    [fact] = await list_facts(memory, broken)
    assert fact.text == f"The user lives in {cities[broken['user_id']]}"


async def forget_all_but_tombstones(memory: GraphMemory, owner: Owner) -> None:
    """Delete a user without a tombstone for what was not forgotten before."""
    await memory.connection.run_cypher(
        "MATCH (n {scope: $scope}) WHERE NOT n:TestHashTombstone DETACH DELETE n", {"scope": Scope(**owner).key}
    )


async def find_words(memory: GraphMemory, owner: Owner, word: str) -> list[str]:
    """The labels of all nodes of a user that hold a word, themselves or in a relationship."""
    rows = await memory.connection.run_cypher(
        "MATCH (n {scope: $scope}) OPTIONAL MATCH (n)-[r]->() "
        "RETURN labels(n)[0] AS label, properties(n) AS node, collect(properties(r)) AS edges",
        {"scope": Scope(**owner).key},
    )
    return sorted(row["label"] for row in rows if word in repr(row.data()))


@pytest.mark.slow
@pytest.mark.parametrize("is_past", [True, False])
async def test_nothing_forgotten_comes_back_with_a_user_who_is_left_out(
    memory: GraphMemory, owner: Owner, tmp_path: Path, is_past: bool
) -> None:
    await say(memory, owner, 0, "Faro")
    at = await say(memory, owner, 5, "Porto")
    await memory.export(path := tmp_path / "file", **owner, as_of=AsOf(recorded=at) if is_past else None)
    await memory.user(**owner).forget_session("s0")
    await forget_all_but_tombstones(memory, owner)
    change_reading(path, 1, valid_from="2026-01-01T00:00:00")
    for _ in range(2):
        receipt = await import_source(memory, str(path), ImportOptions("export"))
        assert (receipt.users, receipt.skipped, receipt.refused_turns) == ({"read": 1}, {UNDERIVABLE: 1}, 0)
        assert (await digest_users(memory, Scope(**owner)))[1:] == (1, 0)  # the tombstone
        assert await find_words(memory, owner, "Faro") == [] == await find_words(memory, owner, "Porto")


@pytest.mark.slow
async def test_what_a_user_says_during_the_import_stays_if_the_user_is_left_out(
    memory: GraphMemory, owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await say(memory, owner, 0, "Faro")
    await memory.export(path := tmp_path / "file", **owner, as_of=AsOf(recorded=at))
    change_reading(path, 1, valid_from="2026-01-01T00:00:00")
    copied, derive = {**owner, "app_name": f"{owner['app_name']}-copy"}, SectionWriter._derive

    async def speak(self: SectionWriter) -> None:
        await memory.user(**copied).enqueue([Turn("t9", "user", "I live in Porto", NOON)], session_id="s9")
        await derive(self)

    monkeypatch.setattr(SectionWriter, "_derive", speak)
    receipt = await import_source(memory, str(path), ImportOptions("export", copied["app_name"]))
    assert (receipt.users, receipt.skipped) == ({"read": 1}, {UNDERIVABLE: 1})
    await memory.resume(**copied)
    assert [fact.text for fact in await list_facts(memory, copied)] == ["The user lives in Porto"]
    assert await find_words(memory, copied, "Faro") == []
    again = await import_source(memory, str(path), ImportOptions("export", copied["app_name"]))
    assert again.skipped == {TAKEN: 1}


@pytest.mark.slow
async def test_what_was_forgotten_here_is_not_derived_from_a_file_of_then(
    memory: GraphMemory, owner: Owner, tmp_path: Path
) -> None:
    """A session that was forgotten, and a fact of another one whose turn stays."""
    for day, city in enumerate(("Faro", "Porto", "Braga")):
        at = await say(memory, owner, day, city)
    await memory.export(path := tmp_path / "file", **owner, as_of=AsOf(recorded=at))
    [porto] = [fact.id for fact in await list_facts(memory, owner) if "Porto" in fact.text]
    await memory.forget(porto, **owner)
    await memory.user(**owner).forget_session("s0")
    left = await find_words(memory, owner, "Porto")  # the turn, and whom it mentions
    await memory.export(tmp_path / "here", **owner)
    await forget_all_but_tombstones(memory, owner)
    receipt = await import_source(memory, str(path), ImportOptions("export"))
    assert (receipt.users, receipt.skipped, receipt.refused_turns) == ({"new": 1, "read": 1}, {}, 1)
    assert [fact.text for fact in await list_facts(memory, owner)] == ["The user lives in Braga"]
    assert await find_words(memory, owner, "Faro") == []
    assert await find_words(memory, owner, "Porto") == left
    checkup = await check(memory, owner)
    assert (checkup.differences, checkup.findings, checkup.unembedded) == (0, (), 0)
    await memory.export(tmp_path / "again", **owner)
    assert list_lines(tmp_path / "again") == list_lines(tmp_path / "here")
    again = await import_source(memory, str(path), ImportOptions("export"))
    assert again.users == {"known": 1, "read": 1}


# -- what is refused, and the command -----------------------------------------------------------------------------


async def test_half_a_history_is_refused(memory: GraphMemory, owner: Owner, tmp_path: Path) -> None:
    await say(memory, owner, 0, "Faro")
    with pytest.raises(errors.InvalidArgument, match=r"facts --valid-at TIME --json"):
        await memory.export(tmp_path / "file", **owner, as_of=AsOf(valid=NOON))
    assert list(tmp_path.iterdir()) == []


async def test_the_command_exports_as_of_a_time(
    command: Any, memory: GraphMemory, monkeypatch: pytest.MonkeyPatch, owner: Owner, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    at = await say(memory, owner, 0, "Faro")
    await say(memory, owner, 5, "Porto")
    whose, path = ("--app", owner["app_name"], "--user", "ada"), tmp_path / "ada.jsonl"
    result = await command("export", *whose, "--recorded-at", at.isoformat(), "--output", str(path))
    assert result.exit_code == 0 and "1 Event, 1 Ingest, 1 User" in result.stdout, result.output
    text = path.read_text("utf-8")
    assert json.loads(text.splitlines()[0])["recorded_at"] == at.isoformat() and "Porto" not in text
    piped = await command("export", "--app", owner["app_name"], "--recorded-at", "2020-01-01")
    assert [json.loads(line)["end"]["users"] for line in piped.stdout.splitlines()[-1:]] == [0]
    bad = await command("export", *whose, "--recorded-at", "yesterday")
    assert bad.exit_code == 2 and "is not a date" in bad.output
