"""Batch jobs on a Ray cluster: every page has a result, whatever fails, and the database tells what is left."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Server

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.memory.jobs import ray_engine
from adk_graph_memory.memory.jobs.ray_engine import RayOptions
from adk_graph_memory.testing import HashEmbedder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),  # the engine imports it, not the tests
    # A run that is given up ends in Ray's own thread when Ray does.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """A cluster for all tests here: starting one takes seconds."""
    with ray_engine.connect_ray("local"):
        yield


@asynccontextmanager
async def open_worker(folder: Path) -> AsyncIterator[Callable[[int], Awaitable[int]]]:
    """Opens what squares numbers: odd hundreds fail, 50 hangs, 7 kills its process once, 8 fails once."""

    async def square(number: int) -> int:
        mark = folder / str(number)
        if number in (7, 8) and not mark.exists():
            mark.touch()
            if number == 7:
                os._exit(9)
            raise ConnectionError("once")
        if number == 50:
            await asyncio.sleep(3_600)
        if number == 100:
            raise errors.EmbedderFailed(name="squares", reason="no luck")
        if number == 300:
            raise ValueError(lambda: "an error that cannot be pickled")
        return number * number

    yield square


async def collect_results(folder: Path, numbers: list[int], **options: Any) -> dict[int, Any]:
    async def iterate() -> AsyncIterator[int]:
        for number in numbers:
            yield number

    results = ray_engine.map_pages(partial(open_worker, folder), iterate(), RayOptions(retry_pause=0.01, **options))
    return {page: result async for page, result in results}


async def test_each_page_has_its_result_and_one_that_fails_costs_no_other(tmp_path: Path) -> None:
    numbers = [*(number for number in range(40) if number != 7), 100, 300]
    results = await collect_results(tmp_path, numbers, actors=2, cpus=0.5)
    assert isinstance(results.pop(100), errors.EmbedderFailed)
    assert "ValueError" in str(results.pop(300))
    assert results == {number: number * number for number in numbers[:-2]}  # 8 failed once
    assert await collect_results(tmp_path, []) == {}


@pytest.mark.full
async def test_a_page_whose_process_dies_is_processed_again(tmp_path: Path) -> None:
    assert await collect_results(tmp_path, [6, 7, 9]) == {6: 36, 7: 49, 9: 81}


@pytest.mark.full
@pytest.mark.parametrize(("numbers", "cpus"), [([1, 50], 0.5), ([1], 99.0)], ids=["hangs", "no room"])
async def test_a_run_that_stands_still_is_given_up(tmp_path: Path, numbers: list[int], cpus: float) -> None:
    with pytest.raises(errors.BatchStalled, match=r"pages left .*no page was finished for 5 s"):
        await collect_results(tmp_path, numbers, cpus=cpus, stall_timeout=5.0)


# -- the commands, each with a cluster of its own ----------------------------------------------------------------

SAID = ("My sister Clara moved to Lisbon.", "I play the cello.", "Clara works for Northwind.", "I live in Berlin.")
HASH_EMBEDDER = "adk_graph_memory.testing:HashEmbedder"


@asynccontextmanager
async def open_memory(server: Server, embedder: Any) -> AsyncIterator[GraphMemory]:
    """A memory of what two people said, behind labels of its own."""
    settings = server.settings(label_prefix=f"R{uuid.uuid4().hex[:10]}")
    async with GraphMemory(settings=settings, embedder=embedder, model="rules") as memory:
        for user in ("ada", "bob"):
            for number, text in enumerate(SAID):
                turn = Turn(f"t{number}", "user", text, datetime(2026, 3, number + 1, tzinfo=UTC))
                await memory.remember([turn], app_name="app", user_id=user, session_id=f"s{number % 2}")
        yield memory


async def run_command(memory: GraphMemory, *arguments: str) -> dict[str, Any]:
    """Run a command on Ray in a process of its own, as what it starts takes over that process's environment."""
    settings = memory.connection.settings
    environment = os.environ | {
        "NEO4J_URI": str(settings.uri),
        "NEO4J_USERNAME": settings.username,
        "NEO4J_PASSWORD": settings.password.get_secret_value(),
        "ADK_GRAPH_MEMORY_LABEL_PREFIX": settings.label_prefix,
        "ADK_GRAPH_MEMORY_MODEL": "rules",
    }
    program = [sys.executable, "-c", "from adk_graph_memory.cli import app; app()", *arguments]
    program += ["--engine", "ray", "--workers", "2", "--worker-cpus", "0.5", "--json"]
    done = await asyncio.to_thread(subprocess.run, program, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


async def run_cypher(memory: GraphMemory, cypher: str) -> list[Any]:
    text = cypher.replace("@", memory.connection.settings.label_prefix)
    return [tuple(row) for row in await memory.connection.run_cypher(text)]


async def test_reembed_makes_every_vector_on_ray(neo4j_server: Server) -> None:
    async with open_memory(neo4j_server, HashEmbedder(32)) as memory:
        outcome = await run_command(memory, "reembed", "--embedder", HASH_EMBEDDER, "--batch", "3")
        rows = await run_cypher(
            memory, "MATCH (n:@Memory|@Entity) RETURN coalesce(n.text, n.name), n.embedding_b, n.embedding_a"
        )
    assert (outcome["embedded"], outcome["left"], outcome["is_switched"]) == (len(rows), 0, True)
    assert all(vector == pytest.approx(HashEmbedder().embed_query(text), abs=1e-6) for text, vector, _ in rows)
    assert {old for _, _, old in rows} == {None}


@pytest.mark.full
async def test_reextract_and_ingest_read_on_ray(neo4j_server: Server) -> None:
    facts = "MATCH (f:@Fact) RETURN f.text, f.state ORDER BY f.text, f.scope"
    async with open_memory(neo4j_server, None) as memory:
        before = await run_cypher(memory, facts)
        await run_cypher(memory, "MATCH (i:@Ingest) SET i.extractor = 'old'")
        outcome = await run_command(memory, "reextract")
        assert (outcome["total"], outcome["done"], outcome["failed"], len(outcome["ingests"])) == (4, 4, {}, 4)
        assert await run_cypher(memory, facts) == before
        assert [session async for session in memory.outdated_sessions()] == []
        for user in ("ada", "bob"):
            turn = Turn("late", "user", "I keep three goats.", datetime(2026, 4, 1, tzinfo=UTC))
            await memory.user("app", user).enqueue([turn], session_id="s9")
        outcome = await run_command(memory, "ingest", "--pending")
        assert [(job["user_id"], job["report"]["turns"]) for job in outcome["jobs"]] == [("ada", 1), ("bob", 1)]
        assert len(await run_cypher(memory, "MATCH (f:@Fact) WHERE f.text CONTAINS 'goats' RETURN f.text")) == 2
