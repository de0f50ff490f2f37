"""Whether a memory can be used: what the check finds, what the command says, and what the probes tell anybody."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.graph.schema import get_schema_version
from adk_graph_memory.graph.statements import name_index
from adk_graph_memory.graph.vector_slots import fetch_unchecked_state
from adk_graph_memory.memory import health as memory_health
from adk_graph_memory.records.health import Health, QueueState
from adk_graph_memory.servers import health as server_health
from adk_graph_memory.servers.health import HealthProbes
from adk_graph_memory.servers.inspector import LocalAccess, inspector
from adk_graph_memory.servers.tokens import BearerAccess, SecretVerifier
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECRET = "x" * 40
Owner = dict[str, str]


@pytest.fixture
async def memory(neo4j_server: Any) -> AsyncIterator[GraphMemory]:
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        await memory.connection.prepare()
        yield memory


@pytest.fixture
def own_settings(neo4j_server: Any) -> Any:
    """Settings of a graph that no other test uses, and nobody has migrated."""
    return neo4j_server.settings(label_prefix=f"Health{uuid.uuid4().hex[:8]}", model_retries=0)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where connections are taken and nobody says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def dead_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def list_blocking(health: Health) -> list[str]:
    return [problem.kind for problem in health.problems if problem.is_blocking]


# -- the check --------------------------------------------------------------------------------------------------


async def test_a_memory_that_can_be_used_is_ready(memory: GraphMemory) -> None:
    health = await memory.health()
    assert list_blocking(health) == []  # other tests' requests may have failed
    assert health.ready
    assert health.address == memory.connection.settings.uri
    assert (health.server or "").startswith("Neo4j/")
    assert health.schema_version == get_schema_version()
    assert (health.embedder, health.embedder_state) == ("adk_graph_memory.testing.HashEmbedder:hash-64", "loaded")
    assert health.queue


async def test_the_check_leaves_a_database_as_nobody_has_migrated_it(own_settings: Any) -> None:
    async with GraphMemory(settings=own_settings, embedder=False) as memory:
        health = await memory.health()
        assert (health.ready, health.schema_version, health.queue) == (True, 0, None)
        assert (await fetch_unchecked_state(memory.connection)).version == 0


@pytest.mark.parametrize("mode", ["check", "off"])
async def test_a_schema_that_nobody_makes_is_missing(own_settings: Any, mode: str) -> None:
    async with GraphMemory(settings=own_settings, embedder=False, schema=mode) as memory:
        health = await memory.health()
    [problem] = health.problems
    assert (health.ready, problem.kind) == (False, "SchemaMissing")
    assert "Run `adk-graph-memory migrate`" in problem.text


@pytest.mark.schema
async def test_a_missing_index_makes_it_unready(own_settings: Any) -> None:
    index = name_index("event_memory_key", own_settings)
    async with GraphMemory(settings=own_settings, embedder=False) as memory:
        await memory.connection.prepare()
        assert (await memory.health()).problems == ()
        await memory.connection.run_cypher(f"DROP CONSTRAINT {index}")
        health = await memory.health()
        [problem] = health.problems
        assert (health.ready, problem.kind, problem.count) == (False, "missing_indexes", 1)
        assert f"({index}). `adk-graph-memory doctor --mend` mends it." in problem.text
        await memory.check_store(mend=True)
        assert (await memory.health()).ready


@pytest.mark.schema
async def test_pending_and_failed_requests_are_counted(own_settings: Any, owner: Owner, stranger: Owner) -> None:
    failing = ScriptedLlm.from_replies(RuntimeError("no quota"))
    async with GraphMemory(settings=own_settings, embedder=False, model=failing) as memory:
        await memory.user(**owner).enqueue([Turn("t1", "user", "I live in Porto.", NOON)], session_id="s1")
        health = await memory.health()
        assert health.queue
        assert (health.queue.pending, health.queue.failed, health.problems) == (1, 0, ())
        with pytest.raises(errors.ModelFailed):
            await memory.remember([Turn("t1", "user", "I live in Faro.", NOON)], session_id="s2", **stranger)
        health = await memory.health()
        assert health.queue
        assert (health.queue.pending, health.queue.failed) == (2, 1)
        assert health.queue.oldest_seconds is not None
        [problem] = health.problems
        assert (health.ready, problem.kind, problem.count) == (True, "failed_ingests", 1)
        assert "`adk-graph-memory ingest --pending` tries again" in problem.text
    async with GraphMemory(settings=own_settings, embedder=False, model="rules") as memory:
        await memory.resume()
        assert (await memory.health()).queue == QueueState(pending=0, failed=0, oldest_seconds=None)


async def test_another_embedders_vectors_make_a_new_process_unready(memory: GraphMemory, owner: Owner) -> None:
    await memory.remember([Turn("t1", "user", "I live in Porto.", NOON)], session_id="s1", **owner)
    async with GraphMemory(settings=memory.connection.settings, embedder=lambda text: [1.0] * 8) as memory:
        health = await memory.health()
        assert (health.ready, list_blocking(health)) == (False, ["EmbedderMismatch"])
        assert "adk-graph-memory reembed" in next(one.text for one in health.problems if one.is_blocking)
        memory.engine.vectors.slot_tracker.is_outdated = True  # as after a switch while the process runs
        health = await memory.health()
        assert health.ready
        assert "EmbedderMismatch" in {problem.kind for problem in health.problems}


async def test_an_embedder_counts_as_failed_only_once_its_loading_has_failed(
    own_settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GraphMemory(settings=own_settings, embedder=f"a-model={tmp_path}") as memory:
        health = await memory.health()
        assert (health.ready, health.embedder, health.embedder_state) == (True, "a-model", "not loaded yet")
        with pytest.raises(errors.EmbeddingError):
            await memory.engine.vectors.check_embedder()
        health = await memory.health()
        assert (health.ready, health.embedder_state) == (False, "failed")
        assert list_blocking(health) == ["EmbeddingModelMissing"]
        monkeypatch.setattr(memory_health, "LOAD_RETRY_PAUSE", 0.0)
        first_future = memory.engine.vectors.embedder._loading_future  # type: ignore[union-attr]
        await memory.health()
        assert memory.engine.vectors.embedder._loading_future is not first_future  # type: ignore[union-attr]


async def test_a_silent_database_is_given_up(silent_port: int, neo4j_server: Any) -> None:
    settings = neo4j_server.settings(database_timeout=0.3).model_copy(update={"uri": f"bolt://127.0.0.1:{silent_port}"})
    async with GraphMemory(settings=settings, embedder=False) as memory:
        assert list_blocking(await memory.health()) in (["DatabaseTimeout"], ["DatabaseUnavailable"])


# -- the command ------------------------------------------------------------------------------------------------
Command = Callable[..., Awaitable[Any]]


async def test_the_command_says_what_memory_stands_on_and_nobodys_words(
    command: Command, neo4j_server: Any, owner: Owner
) -> None:
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False) as memory:
        await memory.user(**owner).enqueue([Turn("t1", "user", "I live in Porto.", NOON)], session_id="s1")
    shown = await command("health")
    assert shown.exit_code == 0, shown.output
    assert {"ready", "database", "schema", "embedder", "queue"} <= {
        line.split()[0] for line in shown.stdout.splitlines()
    }
    assert "all-MiniLM-L6-v2, not loaded yet" in shown.stdout
    as_json = await command("health", "--json")
    value = json.loads(as_json.stdout)
    assert value["ready"] is True
    assert value["queue"].keys() == {"pending", "failed", "oldest_seconds"}
    assert value["queue"]["pending"] >= 1
    assert not [word for word in (*owner.values(), "Porto") if word in shown.output + as_json.output]


async def test_without_a_database_the_command_fails_and_says_what_to_do(
    command: Command, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_URI", f"bolt://127.0.0.1:{dead_port}")
    monkeypatch.setenv("ADK_GRAPH_MEMORY_DATABASE_TIMEOUT", "1")
    result = await command("health")
    assert result.exit_code == 1
    assert "Is the server running" in " ".join(result.stdout.split())
    as_json = await command("health", "--json")
    assert as_json.exit_code == 1
    value = json.loads(as_json.stdout)
    assert (value["ready"], value["server"], value["queue"]) == (False, None, None)
    assert [problem["kind"] for problem in value["problems"]] == ["DatabaseUnavailable"]


@pytest.mark.parametrize(
    ("variable", "value", "kind"),
    [
        ("NEO4J_URI", None, "NoDatabaseConfigured"),
        ("NEO4J_URI", "localhost:7687", "ConfigurationError"),
    ],
)
async def test_a_wrong_setting_is_a_problem_like_any_other(
    command: Command, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None, kind: str
) -> None:
    monkeypatch.delenv(variable) if value is None else monkeypatch.setenv(variable, value)
    result = await command("health", "--json")
    assert (result.exit_code, json.loads(result.stdout)["problems"][0]["kind"]) == (1, kind)
    assert (await command("health")).exit_code == 1


# -- the probes -------------------------------------------------------------------------------------------------


class CountedMemory(GraphMemory):
    """Counts its checks."""

    checks = 0

    async def health(self) -> Health:
        self.checks += 1
        return await super().health()


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("a probe reached the application")


def open_client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8001")


async def test_probes_need_no_token_and_tell_kinds_and_counts(memory: GraphMemory, owner: Owner) -> None:
    await memory.user(**owner).enqueue([Turn("t1", "user", "I live in Porto.", NOON)], session_id="s1")
    guarded = BearerAccess(refuse, SecretVerifier(SECRET, (owner["app_name"], owner["user_id"])))
    async with open_client(HealthProbes(guarded, memory, hosts=["memory.example.org"])) as client:
        assert (await client.get("/mcp")).status_code == 401
        assert (await client.get("/healthz")).json() == {"alive": True}
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.headers["Cache-Control"]) == (200, "no-store")
        assert ready.json().keys() == {"ready", "problems", "pending", "oldest_seconds"}
        assert ready.json()["pending"] >= 1
        assert not [word for word in (*owner.values(), "Porto", "127.0.0.1", "neo4j") if word in ready.text]
        assert (await client.post("/readyz")).status_code == 401
        for host, status_code in {"memory.example.org": 200, "localhost:1": 200, "evil.example": 421}.items():
            for path in ("/healthz", "/readyz"):
                assert (await client.get(path, headers={"Host": host})).status_code == status_code


async def test_without_a_database_the_process_is_alive_and_not_ready(
    neo4j_server: Any, dead_port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_health, "KEPT_SECONDS", 0.0)
    settings = neo4j_server.settings(database_timeout=1).model_copy(update={"uri": f"bolt://127.0.0.1:{dead_port}"})
    async with (
        GraphMemory(settings=settings, embedder=False) as memory,
        open_client(HealthProbes(refuse, memory)) as client,
    ):
        assert (await client.get("/healthz")).status_code == 200
        with caplog.at_level(logging.WARNING, server_health.logger.name):
            answers = [await client.get("/readyz") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [503, 503]
    nothing = {"pending": None, "oldest_seconds": None}
    assert answers[0].json() == {"ready": False, "problems": {"DatabaseUnavailable": 1}, **nothing}
    [record] = [record for record in caplog.records if record.name == server_health.logger.name]
    assert str(dead_port) in record.getMessage()


async def test_many_probes_share_one_check(neo4j_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with CountedMemory(settings=settings, embedder=HashEmbedder()) as memory:
        monkeypatch.setattr(server_health, "KEPT_SECONDS", 3_600.0)
        async with open_client(HealthProbes(refuse, memory)) as client:
            answers = await asyncio.gather(*(client.get("/readyz") for _ in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert memory.checks == 1
        monkeypatch.setattr(server_health, "KEPT_SECONDS", 0.0)
        async with open_client(HealthProbes(refuse, memory)) as client:
            for _ in range(2):
                await client.get("/readyz")
        assert memory.checks == 3


async def test_the_inspector_answers_probes_where_it_is_mounted_but_not_past_its_local_guard(
    memory: GraphMemory,
) -> None:
    app = inspector(memory, lambda request: None)
    outer = FastAPI()
    outer.mount("/memory", app)
    async with open_client(outer) as client:
        assert (await client.get("/memory/healthz")).json() == {"alive": True}
        assert (await client.get("/memory/readyz")).json()["ready"] is True
        assert (await client.get("/memory/")).status_code == 403
    async with open_client(LocalAccess(app, 8001)) as client:
        assert (await client.get("/readyz")).status_code == 403
