"""An export holds all of a user and nothing of anybody else, and an import makes the same graph of it, once."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.genai import types
from tests.support.exported_graphs import USER, digest_users, fill_birds, fill_user, make_memory
from tests.support.ingests import fetch_ingests

from adk_graph_memory import GraphMemory, Neo4jArtifactService, Neo4jSessionService, Turn, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.graph import export_lines
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.statements import PARAMETER_MAP
from adk_graph_memory.records.reports import ImportReceipt
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
async def memory(neo4j_server: Any, tmp_path: Path) -> AsyncIterator[GraphMemory]:
    async with make_memory(neo4j_server, store=tmp_path / "store") as memory:
        yield memory


def say(*texts: str) -> list[Turn]:
    return [Turn(f"t{n}", "user", text, NOON + timedelta(minutes=n)) for n, text in enumerate(texts)]


async def take_over(memory: GraphMemory | None, path: Path, *names: str) -> ImportReceipt:
    return await import_source(memory, str(path), ImportOptions("export", *names))


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_lines(path: Path, lines: list[Any]) -> None:
    path.write_text("".join(export_lines.format_line(line) for line in lines), "utf-8")


@pytest.mark.slow
@pytest.mark.schema
@pytest.mark.full
async def test_the_copy_in_another_graph_equals_the_user_and_goes_on(
    memory: GraphMemory, neo4j_server: Any, app_name: str, tmp_path: Path
) -> None:
    owner, path = {"app_name": app_name, "user_id": USER}, tmp_path / "ada.jsonl"
    await fill_user(neo4j_server, tmp_path, app_name)
    await fill_birds(memory, Scope(app_name, "somebody else"), 10)
    report = await memory.export(path, **owner)
    wanted = await digest_users(memory, Scope(**owner))
    assert (report.users, sum(report.nodes.values()), sum(report.relationships.values())) == (1, *wanted[1:])
    assert {"Revision", "Ingest", "ArtifactVersion", "Session"} <= report.nodes.keys()
    assert sum(report.outside_contents.values()) == 1
    async with make_memory(neo4j_server, "TestCopy", store=tmp_path / "store") as copy:
        receipt = await take_over(copy, path)
        assert (receipt.users, receipt.skipped) == ({"new": 1, "read": 1}, {})
        assert (receipt.nodes, receipt.relationships) == (count_new(wanted[1]), count_new(wanted[2]))
        assert (receipt.dropped_vectors, receipt.outside_contents) == (0, 1)
        assert await digest_users(copy, Scope(**owner)) == wanted
        again = await take_over(copy, path)
        assert (again.users, again.nodes) == ({"known": 1, "read": 1}, {"known": wanted[1], "read": wanted[1]})
        assert await digest_users(copy, Scope(**owner)) == wanted
        await copy.export(tmp_path / "again", **owner)
        assert path.read_text("utf-8").splitlines()[1:] == (tmp_path / "again").read_text("utf-8").splitlines()[1:]
        await check_that_memory_goes_on(copy, owner)


def count_new(number: int) -> dict[str, int]:
    return {"new": number, "read": number}


async def check_that_memory_goes_on(memory: GraphMemory, owner: dict[str, str]) -> None:
    """Doctor, recall, history, undo, forget, a session and its artifacts."""
    [checkup] = [checkup async for checkup in memory.check_memories(**owner)]
    assert checkup.facts > 30 and checkup.differences == 0
    facts = [fact async for fact in memory.facts(**owner)]
    assert (await memory.recall(facts[0].text, **owner))[0].score > 0.5
    history = await memory.user(**owner).history(facts[0].id)
    assert history.entries
    await memory.forget(facts[0].id, **owner)
    assert facts[0].id not in [fact.id async for fact in memory.facts(**owner, past=True)]
    [ingest, *_] = [ingest for ingest in await fetch_ingests(memory.connection, Scope(**owner)) if ingest["report"]]
    assert (await memory.user(**owner).undo(ingest["id"])).events > 0
    [checkup] = [checkup async for checkup in memory.check_memories(**owner)]
    assert checkup.differences == 0
    async with (
        Neo4jSessionService(settings=memory.connection.settings) as sessions,
        Neo4jArtifactService(settings=memory.connection.settings) as artifacts,
    ):
        listed = (await sessions.list_sessions(**owner)).sessions
        session = await sessions.get_session(**owner, session_id=listed[-1].id)
        assert session is not None and session.events
        assert (session.state["user:diet"], session.state["step"]) == ("steak", 99)
        note = await artifacts.load_artifact(**owner, filename="user:note")
        small = await artifacts.load_artifact(**owner, filename="x-ray", session_id=session.id, version=0)
        assert note is not None and note.text == "a note"
        assert small is not None and small.inline_data is not None and small.inline_data.data == b"\x89" * 10


@pytest.mark.slow
async def test_an_app_is_copied_with_its_state_and_each_user_apart(
    memory: GraphMemory, neo4j_server: Any, app_name: str, tmp_path: Path
) -> None:
    path, target = tmp_path / "app.jsonl", f"{app_name}-copy"
    scopes = [Scope(app_name, user_id) for user_id in ("ada", "bo")]
    for scope in scopes:
        await fill_birds(memory, scope, 12)
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        await sessions.create_session(app_name=app_name, user_id="cy", state={"app:mood": "fine", "user:diet": "vegan"})
        report = await memory.export(path, app_name=app_name)
        assert (report.apps, report.users) == (1, 3)
        await take_over(memory, path, target)
        session = await sessions.create_session(app_name=target, user_id="cy")
        assert session.state == {"app:mood": "fine", "user:diet": "vegan"}
    for scope in scopes:
        copied = replace(scope, app_name=target)
        names = ("app_name",)
        assert await digest_users(memory, copied, without=names) == await digest_users(memory, scope, without=names)


@pytest.mark.slow
async def test_two_exports_of_one_graph_differ_in_their_first_line_alone(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    await fill_birds(memory, Scope(app_name, "ada"), 250)
    for name in ("first", "second"):
        await memory.export(tmp_path / name, app_name=app_name)
    first, second = ((tmp_path / name).read_text("utf-8").splitlines() for name in ("first", "second"))
    assert first[0] != second[0] and first[1:] == second[1:]
    assert json.loads(first[-1])["end"]["lines"] == len(first) - 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]
    assert oct((tmp_path / "first").stat().st_mode)[-3:] == "600"


@pytest.mark.slow
async def test_a_missing_app_or_user_leaves_no_file(memory: GraphMemory, app_name: str, tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound, match="user 'ada' of app"):
        await memory.export(tmp_path / "file", app_name=app_name, user_id="ada")
    assert list(tmp_path.iterdir()) == []


# -- files that are not as an export wrote them -----------------------------------------------------------------


@pytest.fixture
async def birds(memory: GraphMemory, app_name: str, tmp_path: Path) -> Path:
    """An export of ten turns and five facts."""
    await fill_birds(memory, Scope(app_name, "ada"), 10)
    await memory.export(tmp_path / "birds.jsonl", app_name=app_name, user_id="ada")
    return tmp_path / "birds.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("end", [-1, -30, -400])
async def test_a_file_that_is_cut_off_is_refused_by_its_last_line(
    memory: GraphMemory, birds: Path, app_name: str, end: int
) -> None:
    text = birds.read_text("utf-8")[:end]
    birds.write_text(text, "utf-8")
    last = len(text.splitlines())
    with pytest.raises(errors.UnreadableTranscript, match=f"line {last}: .*Nothing was") as error:
        await take_over(memory, birds, f"{app_name}-copy")
    assert error.value.place.endswith(f"line {last}")
    assert await digest_users(memory, Scope(f"{app_name}-copy", "ada")) == await digest_users(memory)


async def test_so_is_a_file_that_lacks_lines_and_one_cut_off_at_a_line_s_end(memory: GraphMemory, birds: Path) -> None:
    lines = read_lines(birds)
    write_lines(birds, lines[:4] + lines[6:])
    with pytest.raises(errors.UnreadableTranscript, match=f"{len(lines) - 1} lines should stand before"):
        await take_over(memory, birds)
    write_lines(birds, lines[:-3])
    with pytest.raises(errors.UnreadableTranscript, match=f"line {len(lines) - 3}: the file ends here"):
        await take_over(memory, birds)


@pytest.mark.parametrize("newer", ["schema", "version"])
async def test_a_file_of_a_later_release_says_what_to_upgrade(memory: GraphMemory, birds: Path, newer: str) -> None:
    header, *lines = read_lines(birds)
    write_lines(birds, [header | {newer: header[newer] + 1, "package": "9.1.0"}, *lines])
    with pytest.raises(errors.UnreadableTranscript, match=r"line 1: .*Upgrade adk-graph-memory here to 9\.1\.0"):
        await take_over(memory, birds)


@pytest.mark.parametrize("other", [{"schema": 9}, {"checksum": None}, {"checksum": "of another file"}], ids=str)
async def test_so_is_a_file_of_another_schema(memory: GraphMemory, birds: Path, other: dict[str, Any]) -> None:
    header, *lines = read_lines(birds)
    write_lines(birds, [header | other, *lines])
    with pytest.raises(errors.UnreadableTranscript, match=r"line 1: another development version .* that wrote it\."):
        await take_over(memory, birds)


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "\x00\n", '{"results": []}\n'])
async def test_what_is_no_export_is_refused(memory: GraphMemory, tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, "utf-8")
    with pytest.raises(errors.UnreadableTranscript, match=r"line 1 cannot be imported: .*adk-graph-memory export"):
        await take_over(memory, path)
    with pytest.raises(errors.NotFound, match="There is no file"):
        await take_over(memory, tmp_path / "none")


@pytest.mark.slow
async def test_a_bad_line_costs_nothing_else_and_can_be_mended(memory: GraphMemory, birds: Path, app_name: str) -> None:
    lines = birds.read_text("utf-8").splitlines()
    number = next(number for number, line in enumerate(lines) if '"bird number 4"' in line)
    bad = [*lines[:number], lines[number][:-9], *lines[number + 1 :]]
    birds.write_text("\n".join(bad) + "\n", "utf-8")
    receipt = await take_over(memory, birds, f"{app_name}-copy")
    [problem] = receipt.problems
    assert (problem.kind, problem.place) == ("unreadable", f"{birds}, line {number + 1}")
    assert "Put back the line" in problem.reason and receipt.has_problems
    read = json.loads(lines[-1])["end"]["nodes"]
    assert receipt.nodes["new"] == sum(read.values()) - 1
    birds.write_text("\n".join(lines) + "\n", "utf-8")
    mended = await take_over(memory, birds, f"{app_name}-copy")
    assert (mended.users, mended.nodes["new"], mended.skipped) == ({"continued": 1, "read": 1}, 1, {})
    copied, names = Scope(f"{app_name}-copy", "ada"), ("app_name",)
    assert await digest_users(memory, copied, without=names) == await digest_users(
        memory, Scope(app_name, "ada"), without=names
    )


def damage(line: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return line | {"properties": line["properties"] | change.pop("properties", {})} | change


@pytest.mark.parametrize(
    "change",
    [
        {"node": ["Company"]},
        {"node": ["Event", "Company"]},
        {"node": []},
        {"properties": {"id": 7}},
        {"properties": {"text": {"date": "yesterday"}}},
        {"properties": {"text": {"unknown": 1}}},
        {"properties": {"seq": 2**70}},
        {"properties": {"text": [1, "a"]}},
        {"edges": [["NEXT`]->() DETACH DELETE n //", ">", "Event", ["u1", "e1"], {}]]},
        {"edges": [["NEXT", ">", "Event", ["e1"], {}]]},
        {"vector": "no base64"},
        {"vector": [0.0] * 64},
        {"vector": [1.0, 2.0]},
        {"of": 2},
        {"node": 5},
        {"end": {"lines": 3}},
        {"properties": {"memory_id": 7}},
        {"properties": {"text": 5}},
        {"properties": {"timestamp": "x"}},
        {"properties": {"timestamp": None}},
        {"properties": {"metadata": "x"}},
    ],
)
async def test_no_damaged_line_gets_into_the_graph(
    memory: GraphMemory, birds: Path, app_name: str, change: dict[str, Any]
) -> None:
    lines = read_lines(birds)
    number = next(number for number, line in enumerate(lines) if line.get("node") == ["Event"])
    lines[number] = damage(lines[number], json.loads(json.dumps(change)))
    write_lines(birds, lines)
    receipt = await take_over(memory, birds, f"{app_name}-copy")
    assert {problem.place for problem in receipt.problems} == {f"{birds}, line {number + 1}"}
    assert receipt.nodes["new"] == sum(lines[-1]["end"]["nodes"].values()) - 1


async def test_a_file_names_no_content_of_others(memory: GraphMemory, app_name: str, tmp_path: Path) -> None:
    """An import that could point at any file would have ``forget_user`` delete it."""
    ada, copy = {"app_name": app_name, "user_id": "ada"}, {"app_name": f"{app_name}-copy", "user_id": "ada"}
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "notes").write_text("mine")
    part = types.Part(inline_data=types.Blob(data=b"x" * 200_000, mime_type="image/png"))
    async with Neo4jArtifactService(settings=memory.connection.settings) as artifacts:
        for filename in ("a", "b", "c"):
            await artifacts.save_artifact(**ada, session_id="s", filename=filename, artifact=part)
    await memory.export(tmp_path / "ada.jsonl", **ada)
    lines = read_lines(tmp_path / "ada.jsonl")
    first, second, _ = [line["properties"] for line in lines if line.get("node") == ["ArtifactVersion"]]
    first["store"] = tmp_path.as_uri()
    second["id"] = "../../../../victim/notes"
    write_lines(tmp_path / "ada.jsonl", lines)
    receipt = await take_over(memory, tmp_path / "ada.jsonl", copy["app_name"])
    assert [problem.kind for problem in receipt.problems] == ["not of this graph's vectors or artifact store"]
    assert "ADK_GRAPH_MEMORY_FORMER_ARTIFACT_STORES" in receipt.problems[0].reason
    with pytest.raises(errors.ArtifactStoreUnusable, match="outside"):
        await memory.user(**copy).forget_user(sessions=True, artifacts=True)
    assert (tmp_path / "victim" / "notes").read_text() == "mine"
    receipt = await memory.user(**copy).forget_user(sessions=True, artifacts=True)
    assert not receipt.stays


async def test_content_of_a_former_store_is_found_if_the_settings_name_it(
    memory: GraphMemory, neo4j_server: Any, app_name: str, tmp_path: Path
) -> None:
    ada, copy = {"app_name": app_name, "user_id": "ada"}, {"app_name": f"{app_name}-copy", "user_id": "ada"}
    part = types.Part(inline_data=types.Blob(data=b"x" * 200_000, mime_type="image/png"))
    async with Neo4jArtifactService(settings=memory.connection.settings) as artifacts:
        await artifacts.save_artifact(**ada, filename="user:scan", artifact=part)
    await memory.export(tmp_path / "ada.jsonl", **ada)
    async with make_memory(neo4j_server, store=tmp_path / "other") as other:
        receipt = await take_over(other, tmp_path / "ada.jsonl", copy["app_name"])
        assert [problem.kind for problem in receipt.problems] == ["not of this graph's vectors or artifact store"]
        assert "ADK_GRAPH_MEMORY_FORMER_ARTIFACT_STORES" in receipt.problems[0].reason
    settings = other.connection.settings.model_copy(update={"former_artifact_stores": (str(tmp_path / "store"),)})
    async with GraphMemory(settings=settings, embedder=HashEmbedder(), model="rules") as other:
        mended = await take_over(other, tmp_path / "ada.jsonl", copy["app_name"])
        assert (mended.problems, mended.outside_contents) == ((), 1)


@pytest.mark.slow
async def test_a_file_writes_to_its_own_user_alone(memory: GraphMemory, birds: Path, app_name: str) -> None:
    victim = Scope(app_name, "victim")
    await fill_birds(memory, victim, 4)
    before = await digest_users(memory, victim)
    lines = read_lines(birds)
    for line in lines[1:-1]:
        line["properties"] |= {"scope": victim.key, "lock": 1, "import_open": True, "embedding_b": [1.0], "lease": "x"}
    write_lines(birds, lines)
    await take_over(memory, birds, f"{app_name}-copy")
    assert await digest_users(memory, victim) == before
    rows = await memory.connection.run_cypher(
        "MATCH (n {scope: $scope}) RETURN n.lease AS lease, n.embedding_b AS b",
        {"scope": Scope(f"{app_name}-copy", "ada").key},
    )
    assert {tuple(row.values()) for row in rows} == {(None, None)} and len(rows) == before[1] + 9


# -- users who are here already, and what was forgotten ----------------------------------------------------------


@pytest.mark.slow
async def test_a_user_who_is_here_already_stays_as_is_and_the_others_come(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    for user_id in ("ada", "bo"):
        await fill_birds(memory, Scope(app_name, user_id), 6)
    path, target = tmp_path / "app.jsonl", f"{app_name}-copy"
    await memory.export(path, app_name=app_name)
    await memory.remember(say("I keep bees."), app_name=target, user_id="ada", session_id="s")
    before = await digest_users(memory, Scope(target, "ada"))
    receipt = await take_over(memory, path, target)
    assert receipt.users == {"new": 1, "read": 2} and receipt.has_problems
    [problem] = receipt.problems
    assert "forget-user USER --app APP" in problem.reason and "'ada'" in problem.reason
    assert await digest_users(memory, Scope(target, "ada")) == before
    with pytest.raises(errors.InvalidArgument, match="--user renames"):
        await take_over(memory, path, target, "cy")
    header, *lines = read_lines(path)
    write_lines(path, [header | {"app_name": None}, *lines])
    with pytest.raises(errors.InvalidArgument, match="--app renames"):
        await take_over(memory, path, target)


async def make_session(memory: GraphMemory, owner: dict[str, str], *texts: str, pet: str = "Rex") -> Any:
    """A session with these words of the user, all of which are remembered."""
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        session = await sessions.create_session(**owner, session_id="s", state={"user:pet": pet})
        for number, text in enumerate(texts):
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await sessions.append_event(session, Event(id=f"e{number}", author="user", content=content))
    await memory.remember(memory_codec.make_turns(session.events), **owner, session_id="s")
    return session


async def list_texts(memory: GraphMemory, owner: dict[str, str]) -> list[str]:
    return sorted([fact.text async for fact in memory.facts(**owner)])


@pytest.mark.slow
async def test_what_was_forgotten_is_refused_in_a_graph_with_another_secret(
    memory: GraphMemory, neo4j_server: Any, app_name: str, tmp_path: Path
) -> None:
    owner, path = {"app_name": app_name, "user_id": "ada"}, tmp_path / "ada.jsonl"
    session = await make_session(memory, owner, "I keep bees in Zanzibar.", "I live in Porto.")
    await memory.user(**owner).forget_event("e0", session_id="s")
    await memory.export(path, **owner)
    async with make_memory(neo4j_server, "", embedder=False) as copy:
        receipt = await take_over(copy, path)
        assert (receipt.foreign_tombstones, receipt.skipped) == (0, {})
        assert copy.connection.tombstone_key != memory.connection.tombstone_key
        await copy.remember(memory_codec.make_turns(session.events), **owner, session_id="s")
        assert await list_texts(copy, owner) == ["I live in Porto."]


@pytest.mark.slow
async def test_a_fact_that_was_forgotten_is_not_read_again_elsewhere(
    memory: GraphMemory, neo4j_server: Any, app_name: str, tmp_path: Path
) -> None:
    owner, path = {"app_name": app_name, "user_id": "ada"}, tmp_path / "ada.jsonl"
    session = await make_session(memory, owner, "I keep bees in Zanzibar.", "I live in Porto.")
    [bees] = [fact.id async for fact in memory.facts(**owner) if "bees" in fact.text]
    await memory.forget(bees, **owner)
    await memory.export(path, **owner)
    async with make_memory(neo4j_server, "", embedder=False) as copy:
        await take_over(copy, path)
        # A request of its own, as if another window read the turn again.
        turns = [replace(turn, text=f"{turn.text} ") for turn in memory_codec.make_turns(session.events)]
        await copy.remember(turns, **owner, session_id="s")
        assert await list_texts(copy, owner) == ["I live in Porto."]


@pytest.mark.slow
async def test_an_old_file_does_not_bring_back_what_was_forgotten_since(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    owner, path = {"app_name": app_name, "user_id": "ada"}, tmp_path / "ada.jsonl"
    await make_session(memory, owner, "I keep bees in Zanzibar.", "I live in Porto.", "My dog is called Rex.")
    await memory.export(path, **owner)
    await memory.user(**owner).forget_event("e0", session_id="s")
    receipt = await take_over(memory, path)  # the user is here
    assert receipt.has_problems and await list_texts(memory, owner) == ["I live in Porto.", "My dog is called Rex."]
    await memory.connection.run_cypher(
        "MATCH (n {scope: $scope}) WHERE NOT n:TestHashTombstone DETACH DELETE n", {"scope": Scope(**owner).key}
    )
    receipt = await take_over(memory, path)
    assert (receipt.refused_turns, receipt.skipped) == (1, {})
    assert await list_texts(memory, owner) == ["I live in Porto.", "My dog is called Rex."]
    assert await find_words(memory, owner, "Zanzibar") == []
    [checkup] = [checkup async for checkup in memory.check_memories(**owner)]
    assert (checkup.differences, checkup.facts) == (0, 2)
    # The same file again: it is imported to the end, so it changes nothing, whatever was forgotten meanwhile.
    await memory.user(**owner).forget_event("e1", session_id="s")
    assert (await take_over(memory, path)).users == {"known": 1, "read": 1}
    assert await list_texts(memory, owner) == ["My dog is called Rex."]


async def find_words(memory: GraphMemory, owner: dict[str, str], *words: str) -> list[str]:
    """All nodes of a user, and relationships, that hold one of these words."""
    rows = await memory.connection.run_cypher(
        "MATCH (n {scope: $scope}) OPTIONAL MATCH (n)-[r]->() "
        "RETURN properties(n) AS node, collect(properties(r)) AS edges",
        {"scope": Scope(**owner).key},
    )
    return [text for row in rows for text in [repr(row.data())] if any(word in text for word in words)]


ADA = ("Zanzibar", "Quentin", "Rex", "passport")
"""Where Ada lives, whom she knows, her dog, and what she kept."""


@pytest.mark.slow
async def test_no_word_of_a_forgotten_user_is_in_an_export_of_the_app(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    ada, bo = ({"app_name": app_name, "user_id": user_id} for user_id in ("ada", "bo"))
    async with Neo4jArtifactService(settings=memory.connection.settings) as artifacts:
        for owner in (ada, bo):
            place, name, pet, kept = ADA if owner is ada else ("Faro", "Kim", "Tom", "ticket")
            texts = f"I keep bees with {name}.", f"I live in {place}.", f"My dog is called {pet}."
            await make_session(memory, owner, *texts, pet=pet)
            part = types.Part(inline_data=types.Blob(data=kept.encode(), mime_type="text/plain"))
            await artifacts.save_artifact(**owner, session_id="s", filename="scan", artifact=part)
    await memory.export(tmp_path / "before", app_name=app_name)
    before = read_all(tmp_path / "before")
    assert [word for word in (*ADA, "Faro", "ticket") if word not in before] == []
    await memory.user(**ada).forget_user(sessions=True, artifacts=True)
    await memory.export(tmp_path / "after", app_name=app_name)
    after = read_all(tmp_path / "after")
    assert [word for word in (*ADA, '"ada"', Scope(**ada).key) if word in after] == []
    assert [word for word in ("Faro", "Kim", "Tom", "ticket") if word not in after] == []


def read_all(path: Path) -> str:
    """The file, and after it the bytes that stand in it as base64."""
    text = path.read_text("utf-8")
    packed = re.findall(r'\{"bytes":"([^"]*)"\}', text)
    return text + "".join(base64.b64decode(one).decode("latin-1") for one in packed)


# -- vectors, other people's nodes, and what is of one graph alone -----------------------------------------------


@pytest.mark.slow
async def test_another_embedder_s_vectors_are_dropped_and_made_anew(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    owner, path = {"app_name": app_name, "user_id": "ada"}, tmp_path / "ada.jsonl"
    await memory.remember(say("My dog Rex is afraid of thunder.", "I live in Porto."), **owner, session_id="s")
    await memory.export(path, **owner)
    header, *lines = read_lines(path)
    write_lines(path, [header | {"embedder": "another"}, *lines])
    owner["app_name"] = f"{app_name}-copy"
    receipt = await take_over(memory, path, owner["app_name"])
    assert receipt.dropped_vectors == 4
    [checkup] = [checkup async for checkup in memory.check_memories(**owner)]
    assert (checkup.unembedded, checkup.differences) == (4 + 3, 0)  # turns and facts, and three names
    assert (await memory.recall("Who is afraid of thunder?", **owner))[0].text == "My dog Rex is afraid of thunder."
    await memory.remember(say("", "", "I keep bees."), **owner, session_id="s")
    [checkup] = [checkup async for checkup in memory.check_memories(**owner)]
    assert checkup.unembedded == 3
    [checkup] = [checkup async for checkup in memory.check_memories(**owner, mend=True)]
    assert checkup.unembedded == 0
    rows = await memory.connection.run_cypher(
        "MATCH (n:TestHashMemory {scope: $scope}) RETURN size(n.embedding_a) AS size", {"scope": Scope(**owner).key}
    )
    assert [row["size"] for row in rows] == [64] * 6


class BrokenEmbedder(HashEmbedder):
    """Has the name of the one that made the vectors, and cannot be loaded."""

    embedder_name = "testing.hash"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise ImportError("no module named torch")


class MendedEmbedder(HashEmbedder):
    embedder_name = BrokenEmbedder.embedder_name


@pytest.mark.slow
@pytest.mark.schema
async def test_an_embedder_that_cannot_be_loaded_costs_the_vectors_alone(
    memory: GraphMemory, neo4j_server: Any, app_name: str, tmp_path: Path
) -> None:
    owner, path = {"app_name": app_name, "user_id": "ada"}, tmp_path / "ada.jsonl"
    await memory.remember(say("My dog Rex is afraid of thunder.", "I live in Porto."), **owner, session_id="s")
    await memory.export(path, **owner)
    header, *lines = read_lines(path)
    write_lines(path, [header | {"embedder": BrokenEmbedder.embedder_name}, *lines])
    prefix = f"Unloaded{app_name[-8:]}"
    async with make_memory(neo4j_server, prefix, embedder=BrokenEmbedder()) as copy:
        receipt = await take_over(copy, path)
        assert (receipt.users["new"], receipt.dropped_vectors, receipt.problems) == (1, 4, ())
        [checkup] = [checkup async for checkup in copy.check_memories(**owner)]
        assert (checkup.unembedded, checkup.differences) == (4, 0)
    async with make_memory(neo4j_server, prefix, embedder=MendedEmbedder()) as copy:
        await copy.remember(say("", "", "I keep bees."), **owner, session_id="s")
        rows = await copy.connection.run_cypher(
            f"MATCH (n:{prefix}Memory {{scope: $scope}}) RETURN size(n.embedding_a) AS size",
            {"scope": Scope(**owner).key},
        )
        assert [row["size"] for row in rows] == [64] * 6


async def test_nodes_of_others_locks_and_leases_stay(memory: GraphMemory, app_name: str, tmp_path: Path) -> None:
    owner, path = {"app_name": app_name, "user_id": "ada"}, tmp_path / "ada.jsonl"
    await memory.user(**owner).enqueue(say("I keep bees."), session_id="s")
    await memory.connection.run_cypher(
        """
        MATCH (i:TestHashIngest {scope: $scope}) SET i.state = 'claimed', i.lease = 'mine', i.lease_until = 9e9
        WITH i MATCH (u:TestHashUser {scope: $scope})
        CREATE (i)-[:SEEN_BY]->(:Auditor {name: 'Xavier', scope: $scope})<-[:KNOWS]-(u), (u)-[:KNOWS]->(:Stranger)
        SET u.liked = [1.5, 2.0], u.when = datetime('2026-03-02T12:00:00.123456789+05:30'), u:Vip
        """,
        {"scope": Scope(**owner).key},
    )
    report = await memory.export(path, **owner)
    text = path.read_text("utf-8")
    others = ("Xavier", "Auditor", "SEEN_BY", "KNOWS", "mine", "lease", "Vip", "lock")
    assert [word for word in others if word in text] == []
    assert memory.connection.tombstone_key not in text
    assert report.nodes == {"Event": 1, "Ingest": 1, "User": 1}
    await take_over(memory, path, f"{app_name}-copy")
    copied = Scope(f"{app_name}-copy", "ada")
    [ingest] = await fetch_ingests(memory.connection, copied)
    assert ingest["state"] == "pending"
    rows = await memory.connection.run_cypher(
        "MATCH (u:TestHashUser {scope: $scope}) RETURN u.liked AS liked, toString(u.when) AS when",
        {"scope": copied.key},
    )
    assert rows[0].data() == {"liked": [1.5, 2.0], "when": "2026-03-02T12:00:00.123456789+05:30"}
    assert [report.turns for report in await memory.resume(app_name=copied.app_name)] == [1]


# -- a kill, and the size ---------------------------------------------------------------------------------------

KILLED = """
import asyncio, sys, time
from adk_graph_memory import GraphMemory, Settings
from adk_graph_memory.graph.connection import Transaction
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.testing import HashEmbedder

uri, user, password, path, app, block, times = sys.argv[1:]
run, seen = Transaction.run_statement, []

async def running(self, name, *parameters, **more):
    result = await run(self, name, *parameters, **more)
    seen.append(name)
    if seen.count(block) == int(times):
        print("READY", flush=True)
        time.sleep(600)
    return result

Transaction.run_statement = running
settings = Settings(uri=uri, username=user, password=password, label_prefix="TestHash")
memory = GraphMemory(settings=settings, embedder=HashEmbedder())
asyncio.run(import_source(memory, path, ImportOptions("export", app)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "times"),
    [("import_nodes", 2), pytest.param("import_nodes", 4, marks=pytest.mark.full), ("import_edges", 3)],
)
async def test_an_import_that_was_killed_goes_on(
    memory: GraphMemory, neo4j_server: Any, app_name: str, tmp_path: Path, block: str, times: int
) -> None:
    path, target = tmp_path / "app.jsonl", f"{app_name}-copy"
    scopes = [Scope(app_name, user_id) for user_id in ("ada", "bo")]
    for scope in scopes:
        await fill_birds(memory, scope, 300)
    await memory.export(path, app_name=app_name)
    given = [neo4j_server.uri, *neo4j_server.auth, str(path), target, block, str(times)]

    def kill() -> None:
        with subprocess.Popen([sys.executable, "-c", KILLED, *given], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "READY"
            process.send_signal(signal.SIGKILL)
            assert process.wait(30) == -signal.SIGKILL

    await asyncio.to_thread(kill)
    receipt = await take_over(memory, path, target)
    assert receipt.users["continued"] == 1 and receipt.nodes["known"] >= 250 and receipt.nodes["new"] > 0
    for scope in scopes:
        copied = replace(scope, app_name=target)
        wanted = await digest_users(memory, scope, without=("app_name",))
        assert await digest_users(memory, copied, without=("app_name",)) == wanted


@pytest.mark.slow
async def test_no_statement_takes_or_returns_more_rows_for_a_larger_user(
    memory: GraphMemory, app_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: dict[str, list[int]] = {}
    read, write = Connection.run_statement, Transaction.run_statement

    async def reading(self: Any, name: str, *parameters: Any, **more: Any) -> Any:
        rows = await read(self, name, *parameters, **more)
        sizes.setdefault(name, []).append(len(rows) + sum(len(row["edges"]) for row in rows if "edges" in dict(row)))
        return rows

    async def writing(self: Any, name: str, *parameters: Any, **more: Any) -> Any:
        sizes.setdefault(name, []).append(len(more.get("rows", ())))
        return await write(self, name, *parameters, **more)

    await fill_birds(memory, Scope(app_name, "ada"), 900)
    monkeypatch.setattr(Connection, "run_statement", reading)
    monkeypatch.setattr(Transaction, "run_statement", writing)
    await memory.export(tmp_path / "file", app_name=app_name)
    await take_over(memory, tmp_path / "file", f"{app_name}-copy")
    assert len(sizes["exported_events"]) == 10 and max(sizes["exported_events"]) <= 100 * 3
    assert sizes["exported_facts"] == [200, 200, 200, 200, 100, 0]
    assert sizes["import_nodes"] == [250] * 5 + [101] and max(sizes["import_edges"]) == 250


@pytest.mark.slow
async def test_a_late_page_of_a_long_session_reads_no_more_than_the_first(memory: GraphMemory, app_name: str) -> None:
    scope = Scope(app_name, "ada")
    await fill_birds(memory, scope, 900)
    statement = f"PROFILE {memory.connection.statements['exported_events']}"

    async def count_hits(*after: str) -> int:
        given = {"scope": scope.key, "after": after, "limit": 100}
        run = memory.connection.sync_driver.execute_query
        done = await asyncio.to_thread(run, statement, {PARAMETER_MAP: given})
        assert len(done.records) == 100
        return add_up_hits(done.summary.profile)

    assert await count_hits("u1", "e75") < 1.05 * await count_hits("", "")


def add_up_hits(plan: Any) -> int:
    return int(plan.get("dbHits", 0)) + sum(map(add_up_hits, plan.get("children", ())))


@pytest.mark.full
async def test_twenty_thousand_nodes_take_no_more_memory_than_two_thousand(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    peaks: dict[int, list[int]] = {}
    for turns in (1_333, 13_333):
        scope, path = Scope(f"{app_name}-{turns}", "ada"), tmp_path / str(turns)
        copied = replace(scope, app_name=f"{app_name}-{turns}-copy")
        await fill_birds(memory, scope, turns)
        for step in (memory.export(path, app_name=scope.app_name), take_over(memory, path, copied.app_name)):
            tracemalloc.start()
            await step
            peaks.setdefault(turns, []).append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        wanted = await digest_users(memory, scope, without=("app_name",))
        assert await digest_users(memory, copied, without=("app_name",)) == wanted
    assert wanted[1:] == (20_001, 33_332)
    print(f"peaks in bytes: {peaks}")
    small, large = peaks.values()
    assert [after < 1.3 * before + 1_000_000 for before, after in zip(small, large, strict=True)] == [True, True], peaks


async def test_the_commands_export_and_import(
    command: Any, memory: GraphMemory, monkeypatch: pytest.MonkeyPatch, app_name: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    await fill_birds(memory, Scope(app_name, "ada"), 10)
    path = tmp_path / "ada.jsonl"
    result = await command("export", "--app", app_name, "--user", "ada", "--output", str(path))
    assert result.exit_code == 0 and "10 Event" in result.stdout, result.output
    piped = await command("export", "--app", app_name, "--user", "ada")
    assert piped.stdout.splitlines()[1:] == path.read_text("utf-8").splitlines()[1:]
    assert (await command("export", "--json")).exit_code == 2
    dry = await command("import", "--from", "export", str(path), "--dry-run", "--json")
    assert json.loads(dry.stdout)["nodes"] == {"read": 17}
    imported = await command("import", "--from", "export", str(path), "--app", f"{app_name}-copy", "--user", "bo")
    assert imported.exit_code == 0 and "17 read: 17 new" in imported.stdout, imported.output
    taken = await command("import", "--from", "export", str(path))
    assert taken.exit_code == 1 and "line 2" in taken.stderr and "forget-user" in taken.stderr
    missing = await command("export", "--app", f"{app_name}-none", "--output", str(path))
    assert missing.exit_code == 1 and path.is_file()
