"""A backup made while agents work, the loss of server and artifacts, and a restore that brings all of it back."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.genai import types
from tests.support.exported_graphs import USER, digest_users, fill_user, make_memory

from adk_graph_memory import GraphMemory, Neo4jArtifactService, Neo4jSessionService, Turn, errors
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.graph.transfer import begin_restore
from adk_graph_memory.memory import export
from adk_graph_memory.memory.export import Export
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings, load_settings
from adk_graph_memory.testing import HashEmbedder

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("backup")]

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
APP, BUSY = "clinic", "bo"
ZOË = "My sister Zoë lives in Rome."
PICTURE = bytes(range(256)) * 10_000
"""More than one line of a backup holds."""


class Deployment:
    """A server of its own and a store of artifacts, which can be lost and set up again empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = LocalNeo4j(home=folder / "home").start()

    def settings(self, **chosen: Any) -> Settings:
        username, password = self.server.auth
        given = {"artifact_store": str(self.folder / "store"), "label_prefix": "TestHash"} | chosen
        return load_settings(uri=self.server.uri, username=username, password=password, **given)

    def lose_everything(self) -> None:
        self.server.close()
        shutil.rmtree(self.folder)
        self.server = LocalNeo4j(home=self.folder / "home").start()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path_factory.mktemp("deployment"))
    yield deployment
    deployment.server.close()


@pytest.fixture
async def memory(deployment: Deployment) -> AsyncIterator[GraphMemory]:
    async with make_memory(deployment) as memory:
        yield memory


@asynccontextmanager
async def keep_talking(deployment: Deployment) -> AsyncIterator[list[str]]:
    """Append and remember for a user until the block ends; yields the texts that were acknowledged."""
    told, has_begun = list[str](), asyncio.Event()
    settings = deployment.settings()
    async with Neo4jSessionService(settings=settings) as sessions, make_memory(deployment) as memory:
        session = await sessions.create_session(app_name=APP, user_id=BUSY, session_id="work")

        async def talk() -> None:
            while True:
                text = f"My friend Friend{len(told)} lives in Town{len(told)}."
                content = types.Content(role="user", parts=[types.Part(text=text)])
                await sessions.append_event(session, Event(author="user", invocation_id="i", content=content))
                turn = Turn(f"t{len(told)}", "user", text, NOON + timedelta(minutes=len(told)))
                await memory.remember([turn], app_name=APP, user_id=BUSY, session_id="calls")
                told.append(text)
                if len(told) == 5:
                    has_begun.set()

        task = asyncio.create_task(talk())
        await has_begun.wait()
        yield told
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def find_ill(memory: GraphMemory) -> list[Any]:
    users = [one async for one in memory.check_memories() if one.is_ill]
    return [*users, *await memory.check_store()]


async def recall_all(memory: GraphMemory, question: str, owner: dict[str, str]) -> set[str]:
    """All that a search finds: its order depends on how rare a word is, and so on what others say meanwhile."""
    return {one.prompt_text for one in await memory.recall(question, **owner, limit=1_000, token_budget=1_000_000)}


async def test_what_was_acknowledged_before_a_backup_survives_the_loss_of_everything(
    deployment: Deployment, tmp_path: Path
) -> None:
    path, owner = tmp_path / "clinic.backup", {"app_name": APP, "user_id": USER}
    await fill_user(deployment, deployment.folder, APP)
    async with make_memory(deployment) as memory, Neo4jArtifactService(settings=deployment.settings()) as artifacts:
        part = types.Part(inline_data=types.Blob(data=PICTURE, mime_type="image/png"))
        await artifacts.save_artifact(**owner, filename="user:scan", artifact=part)
        secret = [Turn("s1", "user", "My brother Igor is in prison.", NOON)]
        await memory.remember(secret, **owner, session_id="secret")
        [igor] = [fact async for fact in memory.facts(**owner, about="Igor")]
        await memory.forget(igor.id, **owner, with_turns=True)
        gone = memory.user(APP, "gone")
        await gone.remember(secret, session_id="secret")
        await gone.forget_user(sessions=True, artifacts=True)
        async with keep_talking(deployment) as told:
            before = list(told)
            report = await memory.back_up(path)
        wanted = await digest_users(memory, Scope(**owner), without=("store",))
        questions = ["Who is the doctor?", "What is the diet?"]
        answers = [await recall_all(memory, question, owner) for question in questions]
    assert (report.missing_contents, report.outside_contents) == (0, {})

    await asyncio.to_thread(deployment.lose_everything)
    async with make_memory(deployment) as memory, Neo4jArtifactService(settings=deployment.settings()) as artifacts:
        restored = await memory.restore(path)
        assert (restored.is_equal, restored.receipt.skipped) == (True, {})
        assert await find_ill(memory) == []
        assert await digest_users(memory, Scope(**owner), without=("store",)) == wanted
        assert [await recall_all(memory, question, owner) for question in questions] == answers
        loaded = await artifacts.load_artifact(**owner, filename="user:scan")
        assert loaded is not None and loaded.inline_data is not None and loaded.inline_data.data == PICTURE
        facts = {fact.text async for fact in memory.facts(app_name=APP, user_id=BUSY)}
        assert facts.issuperset(before) and len(before) >= 5
        async with Neo4jSessionService(settings=deployment.settings()) as sessions:
            session = await sessions.get_session(app_name=APP, user_id=BUSY, session_id="work")
            assert session is not None
            texts = [event.content.parts[0].text for event in session.events if event.content and event.content.parts]
            assert texts[: len(before)] == before and len(texts) == len(set(texts))
            content = types.Content(role="user", parts=[types.Part(text="Once more.")])
            await sessions.append_event(session, Event(author="user", invocation_id="i", content=content))
        for user_id in (USER, "gone"):
            again = await memory.user(APP, user_id).remember(secret, session_id="secret")
            assert (again.turns, again.facts) == (0, {}), "it was forgotten"


async def test_a_user_who_is_written_to_meanwhile_is_read_again_as_at_one_moment(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app_name: str
) -> None:
    memory = make_memory(deployment, "TestMeeting")
    owner, path, write = {"app_name": app_name, "user_id": "ada"}, tmp_path / "backup", Export._write_nodes
    written, tasks = list[str](), list[asyncio.Task[Any]]()

    async def write_and_meet_somebody(self: Export, scope: Scope, live: Any, transaction: Any) -> None:
        if scope == Scope(**owner) and len(written) < 9:
            written.append(f"My friend Friend{len(written)} lives in Town{len(written)}.")
            turn = Turn(f"t{len(written)}", "user", written[-1], NOON)
            tasks.append(asyncio.create_task(memory.remember([turn], **owner, session_id="calls")))
            if transaction is None:
                await tasks[-1]  # while writers have to wait, it ends after the transaction
        await write(self, scope, live, transaction)
        if transaction is not None:
            assert not tasks[-1].done()

    async def back_up(*, is_whole: bool) -> list[Any]:
        report = await memory.back_up(path)
        await asyncio.gather(*tasks)
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        events = [
            text for line in lines if "Event" in line.get("node", ()) and (text := line["properties"].get("text"))
        ]
        events = [text for text in events if text in {*written, ZOË}]
        assert len(events) == len(set(events)) and lines[-1]["end"]["lines"] == len(lines) - 1
        assert (lines[-1]["end"]["nodes"], report.changed_users == ()) == (report.nodes, is_whole)
        return events

    await memory.remember([Turn("t0", "user", ZOË, NOON)], **owner, session_id="calls")
    monkeypatch.setattr(Export, "_write_nodes", write_and_meet_somebody)
    assert set(await back_up(is_whole=True)) & set(written) == {written[0]}
    monkeypatch.setattr(export, "MOST_HELD_BYTES", 0)
    monkeypatch.setattr(export, "PAUSES", (0.0, 0.0))
    assert set(await back_up(is_whole=False)).issuperset(written[:-1])
    async with make_memory(deployment, "TestTorn") as other:
        assert (await other.restore(path)).changed_users == 1
        assert [one async for one in other.check_memories(mend=True) if one.is_ill] == []
        facts = {fact.text async for fact in other.facts(**owner)}
    assert facts >= {ZOË, *written[:-1]}
    await memory.close()


async def test_a_user_who_goes_meanwhile_leaves_nothing_to_another(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app_name: str
) -> None:
    path, write = tmp_path / "backup", Export._write_user
    async with make_memory(deployment, "TestGoing") as memory:
        for user_id in ("ada", "bo", "cy"):
            turn = Turn("t0", "user", f"The pet of {user_id} is called Rex.", NOON)
            await memory.user(app_name, user_id).remember([turn], session_id="calls")

        async def write_and_forget(self: Export, scope: Scope, live: Any) -> None:
            if scope.user_id == "bo":
                await memory.user(app_name, "bo").forget_user(sessions=True, artifacts=True)
            await write(self, scope, live)

        monkeypatch.setattr(Export, "_write_user", write_and_forget)
        report = await memory.back_up(path)
    assert (report.users, report.nodes["User"], "Tombstone" in report.nodes) == (2, 2, False)
    async with make_memory(deployment, "TestGone") as other:
        assert (await other.restore(path)).is_equal
        assert sorted([user.user_id async for user in other.users(app_name=app_name)]) == ["ada", "cy"]


async def test_two_backups_do_not_become_one_graph(deployment: Deployment) -> None:
    connection = GraphMemory(settings=deployment.settings(label_prefix="TestTwo")).connection
    await connection.prepare()
    outcomes = [await begin_restore(connection, id, f"key of {id}") for id in ("one", "two", "one")]
    await connection.close()
    assert outcomes == [True, False, True]


KILLED = """
import asyncio, os, sys
from adk_graph_memory import GraphMemory
from adk_graph_memory.runtime.settings import load_settings
from adk_graph_memory.testing import HashEmbedder

uri, user, password, store, path = sys.argv[1:]

def die_between_nodes_and_relationships(text):
    os._exit(9)

async def restore():
    settings = load_settings(uri=uri, username=user, password=password, artifact_store=store, label_prefix="TestKilled")
    async with GraphMemory(settings=settings, embedder=HashEmbedder()) as memory:
        await memory.restore(path, on_progress=die_between_nodes_and_relationships)

asyncio.run(restore())
"""


async def test_a_restore_that_was_killed_continues(
    deployment: Deployment, memory: GraphMemory, tmp_path: Path, app_name: str
) -> None:
    path, source = tmp_path / "backup", Scope(app_name, USER)
    await fill_user(deployment, deployment.folder, app_name)
    await memory.back_up(path)
    store = str(deployment.folder / "other-store")
    given = [deployment.server.uri, *deployment.server.auth, store, str(path)]
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, *given], check=False)
    assert killed.returncode == 9
    settings = deployment.settings(label_prefix="TestKilled", artifact_store=store)
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as other:
        assert [problem.kind for problem in (await other.health()).problems] == ["unfinished_restore"]
        restored = await other.restore(path)
        assert restored.is_equal and "continued" in restored.receipt.users and (await other.health()).ready
        wanted = await digest_users(memory, source, without=("store",))
        assert await digest_users(other, source, without=("store",)) == wanted
        assert (await other.restore(path)).receipt.nodes.keys() == {"read", "known"}, "once more changes nothing"


async def test_a_backup_goes_into_no_graph_with_users_and_no_changed_one_anywhere(
    deployment: Deployment, memory: GraphMemory, tmp_path: Path, app_name: str
) -> None:
    path = tmp_path / "backup"
    owner = {"app_name": app_name, "user_id": "ada"}
    await memory.remember([Turn("t0", "user", ZOË, NOON)], **owner, session_id="calls")
    await memory.back_up(path)
    with pytest.raises(errors.GraphNotEmpty, match="ADK_GRAPH_MEMORY_LABEL_PREFIX"):
        await memory.restore(path)
    async with make_memory(deployment, "TestRefusing") as other:
        whole = path.read_bytes()
        for wrong, reason in (
            (b"{}\n", "cannot be restored.*adk-graph-memory backup"),
            (whole[:-30], "its backup wrote more. Nothing was restored"),
            (whole.replace(b"Rome", b"Roma", 1), "not as it was written"),
            (b"".join(whole.splitlines(keepends=True)[:-2]), "the file ends here"),
        ):
            path.write_bytes(wrong)
            with pytest.raises(errors.UnreadableTranscript, match=reason):
                await other.restore(path)
        await memory.export(path, app_name=app_name)
        with pytest.raises(errors.UnreadableTranscript, match="import --from export"):
            await other.restore(path)
        assert [app async for app in other.apps()] == []


@pytest.mark.parametrize("path", [None, 5, b"backup"])
async def test_what_is_no_path_is_refused(path: Any) -> None:
    memory = GraphMemory("bolt://127.0.0.1:9")
    for call in (memory.back_up, memory.restore):
        with pytest.raises(errors.InvalidArgument, match="no path"):
            await call(path)


async def test_content_that_the_store_has_lost_is_told(deployment: Deployment, tmp_path: Path) -> None:
    settings = deployment.settings(label_prefix="TestLost", artifact_store=str(tmp_path / "store"))
    async with Neo4jArtifactService(settings=settings) as artifacts, GraphMemory(settings=settings) as memory:
        part = types.Part(inline_data=types.Blob(data=PICTURE, mime_type="image/png"))
        await artifacts.save_artifact(app_name=APP, user_id=USER, filename="user:scan", artifact=part)
        shutil.rmtree(tmp_path / "store")
        report = await memory.back_up(tmp_path / "backup")
    assert report.missing_contents == 1 and list(report.outside_contents.values()) == [1]


async def test_the_commands_backup_and_restore(
    deployment: Deployment, memory: GraphMemory, command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in zip(
        ("URI", "USERNAME", "PASSWORD"), (deployment.server.uri, *deployment.server.auth), strict=True
    ):
        monkeypatch.setenv(f"NEO4J_{name}", value)
    monkeypatch.setenv("ADK_GRAPH_MEMORY_ARTIFACT_STORE", str(deployment.folder / "store"))
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    path, owner = str(tmp_path / "backup"), {"app_name": "shell", "user_id": "ada"}
    await memory.remember([Turn("t0", "user", "My dog Rex fears thunder.", NOON)], **owner, session_id="calls")
    result = await command("backup", path)
    assert "sha256" in result.stdout and "users" in result.stdout, result.output
    taken = await command("restore", path)
    assert taken.exit_code == 1 and "has users" in " ".join(taken.stderr.split())
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestShell")
    restored = await command("restore", path, "--json")
    assert json.loads(restored.stdout)["is_equal"] is True, restored.output
