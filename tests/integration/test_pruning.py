"""Pruning takes away what has expired, kind by kind, and what it counts beforehand is what goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from benchmarks.latency import prune as prune_benchmark
from google.genai import types
from tests.integration.test_retention import FUTURE, LATELY, LONG_AGO, PAST, PREFIX, entities, facts, reply, said, turn

from adk_graph_memory import GraphMemory, Neo4jArtifactService, Neo4jSessionService, PruneReport, Statement, errors
from adk_graph_memory.graph import blobs, erasing
from adk_graph_memory.graph import erasing as graph_pruning
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

TTLS = ("session_ttl", "event_ttl", "memory_ttl", "revision_ttl", "artifact_ttl", "user_state_ttl")


class House:
    """All services of one app, without an end to what is kept, and memories with one."""

    def __init__(self, server: Any, app_name: str, folder: Path, stack: AsyncExitStack) -> None:
        self._server, self.app_name, self._stack = server, app_name, stack
        self._common = {"label_prefix": PREFIX, "artifact_store": str(folder / "blobs"), "artifact_inline_limit": 4}
        self.blobs = folder / "blobs"
        settings = server.settings(**self._common)
        self.sessions = self._open(Neo4jSessionService(settings=settings))
        self.artifacts = self._open(Neo4jArtifactService(settings=settings))

    def _open(self, service: Any) -> Any:
        self._stack.push_async_callback(service.close)
        return service

    def memory(self, *replies: str, **chosen: Any) -> GraphMemory:
        model = ScriptedLlm.from_replies(*replies) if replies else None
        settings = self._server.settings(**self._common, **chosen)
        return self._open(GraphMemory(settings=settings, embedder=HashEmbedder(), model=model))

    def owner(self, user_id: str) -> dict[str, str]:
        return {"app_name": self.app_name, "user_id": user_id}

    async def rows(self, user_id: str, query: str, **given: Any) -> list[list[Any]]:
        connection = self.sessions._connection
        await connection.prepare()
        scope = Scope(self.app_name, user_id).key
        rows = await connection.run_cypher(query.replace("@", PREFIX), {"scope": scope, **given})
        return [row.values() for row in rows]

    async def labels(self, user_id: str) -> dict[str, int]:
        """How many nodes of each label the user has; of a memory, what it is beside that."""
        rows = await self.rows(
            user_id,
            "MATCH (n {scope: $scope}) UNWIND labels(n) AS label WITH label WHERE label STARTS WITH '@' "
            "RETURN substring(label, size('@')) AS label, count(*) ORDER BY label",
        )
        return dict(rows)

    async def fill(self, user_id: str) -> None:
        """Give a user one old and one new thing of each kind."""
        owner = self.owner(user_id)
        for name, at in (("old", LONG_AGO), ("new", LATELY)):
            session = await self.sessions.create_session(**owner, session_id=name, state={"user:name": user_id})
            await self.sessions.append_event(session, said("Old words", LONG_AGO))
            await self.sessions.append_event(session, said(f"{name} words", at))
            await self.artifacts.save_artifact(
                filename=name, artifact=types.Part(text=f"content of {name}"), session_id=name, **owner
            )
        await self.rows(
            user_id,
            "MATCH (n {scope: $scope}) WHERE n:@User OR (n:@ArtifactVersion AND n.name = 'old') "
            "SET n.state_time = CASE WHEN n:@User THEN $at END, n.create_time = CASE WHEN NOT n:@User THEN $at END",
            at=LONG_AGO.timestamp(),
        )
        memory = self.memory(reply("Inés keeps bees", "Rui keeps goats", Inés=[0], Rui=[1]))
        turns = [turn("t1", "Inés keeps bees", LONG_AGO), turn("t2", "Rui keeps goats")]
        await memory.remember(turns, **owner, session_id="told")
        await memory.user(**owner).add_statements([Statement("Tom mews", LONG_AGO), Statement("Rex barks", LATELY)])
        await self.rows(
            user_id,
            "MATCH (f:@Fact {scope: $scope, text: 'Rui keeps goats'}) UNWIND [$old, $new] AS at "
            "CREATE (f)-[:HAS_REVISION]->(:@Revision {scope: $scope, fact_id: f.id, n: toString(at), "
            "recorded_at: datetime({epochSeconds: toInteger(at)})})",
            old=LONG_AGO.timestamp(),
            new=LATELY.timestamp(),
        )


EXPIRED = PruneReport(sessions=1, events=3, memory=3, revisions=1, artifacts=1, user_state=1)
"""What goes of a user: of a turn and of its fact each one, and a statement."""


@pytest.fixture
async def house(neo4j_server: Any, app_name: str, tmp_path: Path) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        yield House(neo4j_server, app_name, tmp_path, stack)


@pytest.mark.slow
async def test_prune_takes_of_each_kind_what_has_expired_and_dry_run_says_so_before(house):
    for user_id in ("ada", "bea"):
        await house.fill(user_id)
    before = await house.labels("bea")
    memory = house.memory(**dict.fromkeys(TTLS, "30d"))
    whose = {"app_name": house.app_name}
    assert await memory.prune(**whose, user_id="ada", dry_run=True) == EXPIRED
    assert await house.labels("ada") == before
    assert await memory.prune(**whose, dry_run=True) == EXPIRED + EXPIRED
    assert await memory.prune(**whose, user_id="ada") == EXPIRED
    assert await memory.prune(**whose, user_id="ada") == PruneReport()
    assert await house.labels("bea") == before
    assert await memory.prune(**whose, dry_run=True) == EXPIRED

    owner = house.owner("ada")
    assert [one.id for one in (await house.sessions.list_sessions(**owner)).sessions] == ["new"]
    session = await house.sessions.get_session(**owner, session_id="new")
    assert [event.content.parts[0].text for event in session.events] == ["new words"]
    assert await facts(house.memory(), owner) == {"Rui keeps goats", "Rex barks"}
    assert await entities(house.memory(), owner) == {"user", "Rui"}
    assert await house.sessions.get_user_state(**owner) == {}
    assert await house.artifacts.list_artifact_keys(**owner, session_id="new") == ["new"]
    assert await house.artifacts.list_artifact_keys(**owner, session_id="old") == []
    assert len([path for path in house.blobs.rglob("*") if path.is_file()]) == 3
    left = {"Fact": 2, "Session": 1, "Artifact": 1, "ArtifactVersion": 1, "User": 1}
    after = await house.labels("ada")
    assert {label: after[label] for label in left} == left
    await house.sessions.append_event(session, said("More"))


@pytest.mark.slow
async def test_prune_leaves_what_is_said_of_a_name_that_only_an_old_turn_tells(house):
    owner, memory = house.owner("ada"), house.memory(reply("Inés keeps bees"), reply("Inés keeps goats"), '{"ops": []}')
    await memory.remember([turn("t1", "Inés keeps bees", LONG_AGO)], **owner, session_id="s")
    await memory.remember([turn("t2", "Inés keeps goats")], **owner, session_id="s")
    await house.rows("ada", "MATCH (e:@Event {scope: $scope, id: 't2'}) SET e.text = 'She keeps goats'")
    assert await memory.prune(app_name=house.app_name, older_than="30d") == PruneReport(memory=2)
    assert await facts(house.memory(), owner) == {"Inés keeps goats"}


async def test_prune_leaves_the_revisions_that_are_still_kept(house):
    await house.fill("ada")
    memory = house.memory(**dict.fromkeys(TTLS, "30d"))
    assert await memory.prune(app_name=house.app_name, only=["revisions"]) == PruneReport(revisions=1)
    assert (await house.labels("ada"))["Revision"] == 1


async def test_what_was_pruned_is_forgotten_and_does_not_come_back(house):
    owner = house.owner("ada")
    told = [turn("t1", "Inés keeps bees", expires_at=PAST)]
    memory = house.memory(reply("Inés keeps bees"), reply("Inés keeps bees"))
    await memory.remember(told, **owner, session_id="s")
    assert await memory.prune(app_name=house.app_name) == PruneReport(memory=2)
    report = await memory.remember([turn("t1", "Inés keeps bees")], **owner, session_id="s")
    assert (report.turns, await facts(memory, owner)) == (0, set())


@pytest.mark.slow
async def test_a_fact_that_newer_words_support_loses_only_the_old_ones(house):
    owner = house.owner("ada")
    memory = house.memory(reply("Inés keeps bees"), reply("Inés keeps bees"))
    await memory.remember([turn("t1", "Inés keeps bees", LONG_AGO)], **owner, session_id="s")
    await memory.remember([turn("t2", "Inés keeps bees")], **owner, session_id="later")
    assert await memory.prune(app_name=house.app_name, older_than="30d", dry_run=True) == PruneReport(memory=1)
    assert await memory.prune(app_name=house.app_name, older_than="30d") == PruneReport(memory=1)
    [fact] = [fact async for fact in memory.facts(**owner)]
    assert [source.turn_id for source in fact.sources] == ["t2"]
    assert await house.rows("ada", "MATCH (f:@Fact {scope: $scope}) RETURN f.support") == [[1]]


@pytest.mark.slow
async def test_a_fact_that_is_left_with_expired_words_alone_goes_with_them_and_is_counted(house):
    owner, memory = house.owner("ada"), house.memory(reply("Inés keeps bees", "Inés keeps bees"))
    turns = [turn("t1", "Inés keeps bees"), turn("t2", "Inés keeps bees, still", expires_at=PAST)]
    await memory.remember(turns, **owner, session_id="s")
    assert await memory.prune(app_name=house.app_name, dry_run=True) == PruneReport(memory=1)
    await memory.forget(turns[0].make_memory_id("s"), **owner)
    assert await memory.prune(app_name=house.app_name, dry_run=True) == PruneReport(memory=2)
    assert await memory.prune(app_name=house.app_name) == PruneReport(memory=2)
    assert await facts(memory, owner) == set()


async def test_words_that_memory_holds_stay_when_their_event_goes(house):
    owner = house.owner("ada")
    session = await house.sessions.create_session(**owner, session_id="s")
    event = await house.sessions.append_event(session, said("Inés keeps bees", LONG_AGO))
    await house.sessions.append_event(session, said("Rui keeps goats"))
    memory = house.memory(reply("Inés keeps bees"), event_ttl="30d")
    await memory.remember([turn(event.id, "Inés keeps bees", LONG_AGO)], **owner, session_id="s")
    assert await memory.prune(app_name=house.app_name) == PruneReport(events=1)
    [fact] = [fact async for fact in memory.facts(**owner)]
    assert (fact.text, [source.turn_id for source in fact.sources]) == ("Inés keeps bees", [event.id])
    loaded = await house.sessions.get_session(**owner, session_id="s")
    assert [one.content.parts[0].text for one in loaded.events] == ["Rui keeps goats"]


@pytest.mark.parametrize("kind", list(asdict(EXPIRED)))
async def test_one_kind_at_a_time(house, kind):
    await house.fill("ada")
    memory = house.memory()
    chosen = {"app_name": house.app_name, "older_than": timedelta(days=30), "only": [kind]}
    expected = PruneReport(**{kind: getattr(EXPIRED, kind)})
    assert await memory.prune(**chosen, dry_run=True) == expected
    assert await memory.prune(**chosen) == expected
    assert await memory.prune(**chosen) == PruneReport()


@pytest.mark.slow
async def test_without_periods_only_an_own_expiry_counts(house):
    await house.fill("ada")
    owner, memory = house.owner("ada"), house.memory()
    assert await memory.prune(app_name=house.app_name) == PruneReport()
    await memory.user(**owner).add_statements([Statement("Eva naps", LATELY, expires_at=PAST)])
    await house.sessions.create_session(**owner, session_id="gone", expire_time=PAST)
    await house.sessions.create_session(**owner, session_id="kept", expire_time=FUTURE)
    assert await memory.prune(app_name=house.app_name) == PruneReport(sessions=1, memory=1)
    sessions = (await house.sessions.list_sessions(**owner)).sessions
    assert {one.id for one in sessions} == {"old", "new", "kept"}


class Interrupted(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sessions", "events", "memory", "artifacts"])
async def test_an_interrupted_prune_is_completed_by_the_next(house, monkeypatch, kind):
    monkeypatch.setattr(graph_pruning, "BATCH_SIZE", 2)
    monkeypatch.setattr(graph_pruning, "SESSIONS_PER_BATCH", 2)
    monkeypatch.setattr(graph_pruning, "FORGOTTEN_AT_ONCE", 2)
    owner, memory = house.owner("ada"), house.memory()
    for n in range(5):
        session = await house.sessions.create_session(**owner, session_id=f"s{n}")
        await house.sessions.append_event(session, said("Old", LONG_AGO))
        await house.artifacts.save_artifact(filename=f"a{n}", artifact=types.Part(text="content"), **owner)
        await memory.user(**owner).add_statements([Statement(f"Tom mews {n}", LONG_AGO)])
    await house.rows(
        "ada", "MATCH (v:@ArtifactVersion {scope: $scope}) SET v.create_time = $at", at=LONG_AGO.timestamp()
    )
    chosen: dict[str, Any] = {"app_name": house.app_name, "older_than": "30d", "only": [kind]}
    batches, run = 0, Connection.run_statement

    async def fail_at_third(self: Connection, name: str, *given: Any, **more: Any) -> Any:
        nonlocal batches
        batches += name.startswith(("prune_", "expired_facts", "expire_sessions"))
        if batches == 3:
            raise Interrupted
        return await run(self, name, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "run_statement", fail_at_third)
        with pytest.raises(Interrupted):
            await memory.prune(**chosen)
    left = getattr(await memory.prune(**chosen, dry_run=True), kind)
    assert 0 < left <= 5
    assert getattr(await memory.prune(**chosen), kind) == left
    assert await memory.prune(**chosen) == PruneReport()
    if kind == "sessions":
        assert (await house.sessions.list_sessions(**owner)).sessions == []
        assert (await house.labels("ada")).get("Event") is None


@pytest.mark.slow
async def test_appends_go_on_beside_a_prune_and_lose_nothing(house):
    owner, memory = house.owner("ada"), house.memory(event_ttl="30d", session_ttl="30d")
    live = await house.sessions.create_session(**owner, session_id="live")
    for n in range(30):
        await house.sessions.append_event(live, said(f"Old {n}", LONG_AGO))
        await house.sessions.create_session(**owner, session_id=f"s{n}", expire_time=PAST)

    async def append() -> None:
        for n in range(30):
            await house.sessions.append_event(live, said(f"New {n}"))

    report, _ = await asyncio.gather(memory.prune(app_name=house.app_name), append())
    report += await memory.prune(app_name=house.app_name)
    assert report == PruneReport(sessions=30, events=30)
    loaded = await house.sessions.get_session(**owner, session_id="live")
    assert [event.content.parts[0].text for event in loaded.events] == [f"New {n}" for n in range(30)]


@pytest.mark.slow
async def test_an_old_session_that_someone_wakes_meanwhile_stays(house, monkeypatch):
    owner, memory = house.owner("ada"), house.memory(session_ttl="30d")
    session = await house.sessions.create_session(**owner, session_id="s")
    await house.sessions.append_event(session, said("Old", LONG_AGO))
    count = erasing.iterate_expired

    async def count_and_wake(*given: Any) -> AsyncIterator[Any]:
        async for one in count(*given):
            await house.sessions.append_event(session, said("New"))
            yield one

    monkeypatch.setattr(graph_pruning, "iterate_expired", count_and_wake)
    assert await memory.prune(app_name=house.app_name) == PruneReport()
    assert len((await house.sessions.get_session(**owner, session_id="s")).events) == 2


async def test_content_that_its_store_does_not_let_go_is_logged(house, monkeypatch, caplog):
    await house.fill("ada")

    async def refuse(self: Any, contents: Any) -> None:
        raise errors.ArtifactStoreUnusable(url=self.url, reason="read only")

    monkeypatch.setattr(blobs.BlobStore, "delete_blobs", refuse)
    chosen: dict[str, Any] = {"app_name": house.app_name, "older_than": "30d", "only": ["artifacts"]}
    assert await house.memory().prune(**chosen) == PruneReport(artifacts=1)
    assert "read only" in caplog.text


@pytest.mark.parametrize("given", [{"only": ["bees"]}, {"older_than": "soon"}, {"older_than": 0}], ids=str)
async def test_what_cannot_be_pruned_is_refused(house, given):
    with pytest.raises(errors.InvalidArgument):
        await house.memory().prune(app_name=house.app_name, **given)


@pytest.mark.slow
async def test_the_benchmark_prunes_all_that_it_wrote_beside_its_appends(neo4j_server):
    extent = prune_benchmark.Extent(nodes=300, users=2, facts=100, writers=2, appends=3, warm_up=1)
    measured = await prune_benchmark.measure(neo4j_server.settings(label_prefix=PREFIX), extent)
    assert measured.pruned == PruneReport(sessions=4, memory=100)
    assert measured.nodes_left == 0
    assert len(measured.undisturbed) == 6 and measured.beside


# -- the command ------------------------------------------------------------------------------------------------


@pytest.fixture
async def old_and_new(neo4j_server: Any, app_name: str) -> str:
    """Two sessions of Ana's, and two facts; one of each is of long ago."""
    settings = neo4j_server.settings()
    owner = {"app_name": app_name, "user_id": "ana"}
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        GraphMemory(settings=settings, embedder=False) as memory,
    ):
        for name, at in (("old", LONG_AGO), ("new", LATELY)):
            session = await sessions.create_session(**owner, session_id=name)
            await sessions.append_event(session, said(f"{name} words", at))
            await memory.user(**owner).add_statements([Statement(f"{name} fact", at)])
    return app_name


@pytest.mark.slow
async def test_the_command_counts_asks_and_prunes(command, old_and_new):
    prune = ("prune", "--app", old_and_new, "--older-than", "90d")
    counted = await command(*prune, "--dry-run")
    assert (counted.exit_code, counted.stdout.strip()) == (0, "Expired: 1 session, 1 event and 1 memory.")
    declined = await command(*prune, stdin="n\n")
    assert declined.exit_code == 1 and "Delete 1 session, 1 event and 1 memory for good?" in declined.stderr
    asked = await command(*prune, "--json")
    assert asked.exit_code == 1 and json.loads(asked.stderr)["error"] == "ConfirmationMissing"
    only = await command(*prune, "--only", "memory", "--yes", "--json")
    assert json.loads(only.stdout) == asdict(PruneReport(memory=1))
    pruned = await command(*prune, "--yes")
    assert pruned.stdout.strip() == "Pruned: 1 session and 1 event."
    assert (await command(*prune, "--yes")).stdout.strip() == "Nothing has expired."
    assert "old" not in (await command("sessions", "--app", old_and_new)).stdout
    assert "old fact" not in (await command("facts", "--app", old_and_new, "--user", "ana")).stdout


@pytest.mark.slow
async def test_the_settings_of_the_environment_hide_at_once_and_prune(command, old_and_new, monkeypatch):
    for name in ("SESSION_TTL", "MEMORY_TTL"):
        monkeypatch.setenv(f"ADK_GRAPH_MEMORY_{name}", "30d")
    whose = ("--app", old_and_new, "--user", "ana")
    shown = (await command("facts", *whose)).stdout
    assert "new fact" in shown and "old fact" not in shown
    rows = json.loads((await command("sessions", "--app", old_and_new, "--json")).stdout)
    assert [row["id"] for row in rows] == ["new"]
    rows = json.loads((await command("users", "--app", old_and_new, "--json")).stdout)
    assert [(row["sessions"], row["facts"]) for row in rows] == [(1, 1)]
    assert (await command("events", "old", *whose)).exit_code == 1
    assert "1 session and 1 memory" in (await command("prune", *whose, "--dry-run")).stdout


async def test_the_command_refuses_what_it_does_not_know(command, app_name):
    for arguments in (("--only", "bees"), ("--older-than", "soon")):
        assert (await command("prune", "--app", app_name, *arguments)).exit_code == 2
    unknown = await command("prune", "--app", app_name)
    assert unknown.exit_code == 1 and "NotFound" in unknown.stderr
