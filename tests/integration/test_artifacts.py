"""What only our artifact service has, on a real Neo4j; what all of ADK's have is in tests/contract."""

from __future__ import annotations

import asyncio
import json
import os
import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from typer.testing import CliRunner

from adk_graph_memory import Neo4jArtifactService, Neo4jSessionService, errors
from adk_graph_memory.adk import artifact_service
from adk_graph_memory.cli.application import app
from adk_graph_memory.graph import artifacts as graph_artifacts
from adk_graph_memory.graph.artifacts import ArtifactName, store_version
from adk_graph_memory.graph.blobs import BlobStore
from adk_graph_memory.records.scopes import Scope

LARGE = b"\x89" * 200_000


@pytest.fixture
def configured(neo4j_server, tmp_path):
    return neo4j_server.settings(artifact_store=str(tmp_path / "store"))


@pytest.fixture
async def artifacts(configured):
    async with Neo4jArtifactService(settings=configured) as service:
        yield service


@pytest.fixture
def owner(app_name) -> dict[str, Any]:
    return {"app_name": app_name, "user_id": "ada", "session_id": "s1"}


def blob(data: bytes) -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type="image/png"))


def stored(folder: Path) -> list[Path]:
    return [path for path in (folder / "store").rglob("*") if path.is_file()]


@pytest.mark.slow
async def test_small_content_lies_in_the_graph_and_large_in_the_store(artifacts, owner, tmp_path):
    await artifacts.save_artifact(filename="small", artifact=blob(b"1" * 65_536), **owner)
    assert stored(tmp_path) == []
    await artifacts.save_artifact(filename="large", artifact=blob(b"1" * 65_537), **owner)
    assert [path.stat().st_size for path in stored(tmp_path)] == [65_537]
    assert oct((tmp_path / "store").stat().st_mode)[-3:] == "700"


@pytest.mark.slow
async def test_deleting_takes_the_stored_content_along(artifacts, owner, tmp_path):
    for _ in range(2):
        await artifacts.save_artifact(filename="a", artifact=blob(LARGE), **owner)
    await artifacts.delete_artifact(filename="a", **owner)
    assert stored(tmp_path) == []


@pytest.mark.slow
async def test_a_save_that_dies_before_its_version_leaves_an_orphan_that_is_listed_and_deleted(
    artifacts, owner, tmp_path, monkeypatch
):
    await artifacts.save_artifact(filename="kept", artifact=blob(LARGE), **owner)

    async def dies(*_: Any) -> int:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(graph_artifacts, "store_version", dies)
        with pytest.raises(ConnectionError):
            await artifacts.save_artifact(filename="lost", artifact=blob(LARGE), **owner)
    assert await artifacts.list_artifact_keys(**owner) == ["kept"]
    assert [id async for id in artifacts.list_orphans()] == []  # it might still be on its way
    monkeypatch.setattr(artifact_service, "MIN_ORPHAN_AGE", timedelta(seconds=-1))
    [orphan] = [id async for id in artifacts.list_orphans(delete=True)]
    assert orphan.id not in {path.name for path in stored(tmp_path)}
    assert (await artifacts.load_artifact(filename="kept", **owner)) == blob(LARGE)


@pytest.mark.slow
async def test_a_store_may_be_shared_and_each_graph_looks_after_its_own(
    artifacts, neo4j_server, owner, tmp_path, monkeypatch
):
    await artifacts.save_artifact(filename="a", artifact=blob(LARGE), **owner)
    (tmp_path / "store" / "holiday").mkdir()
    (tmp_path / "store" / "holiday" / "photo.jpg").write_bytes(b"x")
    monkeypatch.setattr(artifact_service, "MIN_ORPHAN_AGE", timedelta(seconds=-1))
    elsewhere = neo4j_server.settings(artifact_store=str(tmp_path / "store"), label_prefix="TestHash")
    async with Neo4jArtifactService(settings=elsewhere) as another:
        await another.save_artifact(filename="b", artifact=blob(LARGE), **owner)
        for service in (artifacts, another):
            assert [orphan async for orphan in service.list_orphans(delete=True)] == []
    assert len(stored(tmp_path)) == 3


async def test_what_was_being_written_when_the_process_was_killed_is_an_orphan(artifacts, owner, tmp_path, monkeypatch):
    await artifacts.save_artifact(filename="a", artifact=blob(LARGE), **owner)
    [path] = stored(tmp_path)
    path.with_name(f"{path.name}#1").write_bytes(LARGE)
    assert [orphan async for orphan in artifacts.list_orphans(delete=True)] == []  # it might still be written
    monkeypatch.setattr(artifact_service, "MIN_ORPHAN_AGE", timedelta(seconds=-1))
    assert [orphan.id async for orphan in artifacts.list_orphans(delete=True)] == [f"{path.name}#1"]
    assert stored(tmp_path) == [path]


async def test_what_is_deleted_while_it_is_loaded_is_not_there(artifacts, owner, monkeypatch):
    await artifacts.save_artifact(filename="a", artifact=blob(LARGE), **owner)
    get = BlobStore.get_blob

    async def late(self: BlobStore, *content: str) -> bytes:
        await artifacts.delete_artifact(filename="a", **owner)
        return await get(self, *content)

    monkeypatch.setattr(BlobStore, "get_blob", late)
    assert await artifacts.load_artifact(filename="a", **owner) is None


async def test_the_longest_names_that_are_accepted_are_stored(artifacts, owner):
    long = owner | {"session_id": "😀" * 1_000, "filename": "数" * 1_333}
    await artifacts.save_artifact(artifact=blob(LARGE), **long)
    assert await artifacts.load_artifact(**long) == blob(LARGE)


async def test_a_description_that_is_no_unicode_is_named(artifacts, owner):
    part = types.Part(inline_data=types.Blob(data=b"x", mime_type="text/plain", display_name="\ud800"))
    with pytest.raises(InputValidationError, match="no Unicode"):
        await artifacts.save_artifact(filename="a", artifact=part, **owner)


async def test_content_that_the_store_has_lost_is_an_error_that_names_it(artifacts, owner, tmp_path):
    await artifacts.save_artifact(filename="a", artifact=blob(LARGE), **owner)
    [path] = stored(tmp_path)
    path.unlink()
    with pytest.raises(errors.ContentMissing, match=path.name):
        await artifacts.load_artifact(filename="a", **owner)


@pytest.mark.parametrize("store", ["nowhere://bucket", "/proc/no/such/place"])
async def test_a_store_that_cannot_be_used_is_named_and_nothing_is_saved(neo4j_server, owner, store):
    async with Neo4jArtifactService(settings=neo4j_server.settings(artifact_store=store)) as service:
        with pytest.raises(errors.ArtifactStoreUnusable, match="ADK_GRAPH_MEMORY_ARTIFACT_STORE"):
            await service.save_artifact(filename="a", artifact=blob(LARGE), **owner)
        assert await service.list_versions(filename="a", **owner) == []


@pytest.mark.slow
async def test_versions_stay_where_they_were_saved_when_the_store_changes(artifacts, neo4j_server, owner, tmp_path):
    await artifacts.save_artifact(filename="a", artifact=blob(LARGE), **owner)
    other = neo4j_server.settings(artifact_store=(tmp_path / "other one").as_uri())
    async with Neo4jArtifactService(settings=other) as moved:
        await moved.save_artifact(filename="a", artifact=blob(LARGE[:-1]), **owner)
        assert await moved.load_artifact(filename="a", version=0, **owner) == blob(LARGE)
        assert await moved.load_artifact(filename="a", version=1, **owner) == blob(LARGE[:-1])
        await moved.delete_artifact(filename="a", **owner)
    assert stored(tmp_path) == [] and not [path for path in (tmp_path / "other one").rglob("*") if path.is_file()]


@pytest.mark.slow
async def test_a_save_sent_twice_is_one_version(artifacts, owner):
    name = ArtifactName(Scope(owner["app_name"], owner["user_id"]), "s1", "a")
    version = {"id": os.urandom(8).hex(), "part": '{"text": "x"}', "metadata": "{}", "create_time": 1.0}
    connection = artifacts._connection
    await connection.prepare()
    assert [await store_version(connection, name, version) for _ in range(2)] == [0, 0]
    assert await artifacts.list_versions(filename="a", **owner) == [0]


@pytest.mark.slow
async def test_an_artifact_hangs_on_its_session_or_else_its_user(artifacts, configured, owner):
    async with Neo4jSessionService(settings=configured) as sessions:
        await sessions.create_session(app_name=owner["app_name"], user_id="ada", session_id="s1")
    for name in ("in-session", "user:own"):
        await artifacts.save_artifact(filename=name, artifact=types.Part(text="x"), **owner)
    rows = await artifacts._connection.run_cypher(
        "MATCH (holder)-[:HAS_ARTIFACT]->(a:Artifact {scope: $scope})-[:HAS_VERSION]->(v) "
        "RETURN labels(holder) AS holder, a.name AS name ORDER BY name",
        {"scope": Scope(owner["app_name"], "ada").key},
    )
    assert [(row["holder"], row["name"]) for row in rows] == [(["Session"], "in-session"), (["User"], "own")]


async def test_metadata_that_json_cannot_hold_is_kept_as_adk_keeps_it(artifacts, owner):
    await artifacts.save_artifact(filename="a", artifact=types.Part(text="x"), custom_metadata={"f": len}, **owner)
    known = await artifacts.get_artifact_version(filename="a", **owner)
    assert "len" in known.custom_metadata["f"]


@pytest.mark.slow
async def test_ten_megabytes_are_not_held_twice(artifacts, owner):
    data = os.urandom(10_000_000)
    part = blob(data)
    tracemalloc.start()
    try:
        await artifacts.save_artifact(filename="a", artifact=part, **owner)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 2_000_000
        tracemalloc.reset_peak()
        loaded = await artifacts.load_artifact(filename="a", **owner)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 15_000_000
    finally:
        tracemalloc.stop()
    assert loaded == part


@pytest.mark.slow
async def test_more_than_five_hops_are_refused_and_five_are_not(artifacts, owner):
    def reference(to: str) -> types.Part:
        uri = f"artifact://apps/{owner['app_name']}/users/ada/sessions/s1/artifacts/{to}/versions/0"
        return types.Part(file_data=types.FileData(file_uri=uri))

    await artifacts.save_artifact(filename="0", artifact=types.Part(text="x"), **owner)
    for hop in range(6):
        await artifacts.save_artifact(filename=str(hop + 1), artifact=reference(str(hop)), **owner)
    assert (await artifacts.load_artifact(filename="5", **owner)).text == "x"
    with pytest.raises(ValueError, match="recursion depth"):
        await artifacts.load_artifact(filename="6", **owner)


@pytest.mark.slow
def test_two_event_loops_may_use_one_service(configured, owner):
    service = Neo4jArtifactService(settings=configured)

    async def save() -> int:
        try:
            return await service.save_artifact(filename="a", artifact=blob(LARGE), **owner)
        finally:
            await service.close()

    assert [asyncio.run(save()) for _ in range(2)] == [0, 1]


# -- the command ------------------------------------------------------------------------------------------------


@pytest.fixture
def command(configured, monkeypatch):
    monkeypatch.setenv("NEO4J_URI", configured.uri)
    monkeypatch.setenv("NEO4J_USERNAME", configured.username)
    monkeypatch.setenv("NEO4J_PASSWORD", configured.password.get_secret_value())
    monkeypatch.setenv("ADK_GRAPH_MEMORY_ARTIFACT_STORE", configured.artifact_store)

    async def run(*arguments: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, app, ["artifacts", *arguments])

    return run


@pytest.mark.slow
async def test_the_command_lists_a_users_artifacts(artifacts, owner, command):
    for name in ("user:own.png", "a.txt", "a.txt"):
        await artifacts.save_artifact(filename=name, artifact=types.Part(text="x"), **owner)
    whose = ("--app", owner["app_name"], "--user", "ada")
    shown = (await command(*whose, "--session", "s1")).output
    assert "a.txt" in shown and "user:own.png" in shown and "text/plain" in shown
    rows = json.loads((await command(*whose, "--json")).output)
    assert [(row["name"], row["version"]) for row in rows] == [("user:own.png", 0), ("a.txt", 1)]


@pytest.mark.slow
async def test_the_command_lists_and_deletes_orphans(artifacts, owner, command, monkeypatch, tmp_path):
    await artifacts.save_artifact(filename="a", artifact=blob(LARGE), **owner)
    [path] = stored(tmp_path)
    path.with_name("abandoned").write_bytes(b"x")
    monkeypatch.setattr(artifact_service, "MIN_ORPHAN_AGE", timedelta(seconds=-1))
    assert "abandoned" in (await command("--orphans")).output
    assert (await command("--orphans", "--delete")).exit_code == 1  # nobody said yes
    assert "1 orphan deleted." in (await command("--orphans", "--delete", "--yes")).output
    assert "No orphans" in (await command("--orphans")).output
    assert len(stored(tmp_path)) == 1


@pytest.mark.parametrize("arguments", [(), ("--app", "a"), ("--app", "a", "--user", "b", "--delete")])
async def test_the_command_says_what_it_wants(command, arguments):
    result = await command(*arguments)
    assert result.exit_code == 2
    assert "--orphans" in result.output
