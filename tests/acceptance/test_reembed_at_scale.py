"""Twenty thousand facts get another embedder's vectors, while processes are killed and a cluster loses a machine."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Server

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records.scopes import Scope

pytestmark = [pytest.mark.full, pytest.mark.schema, pytest.mark.xdist_group("ray")]  # one cluster at a time

FACTS = 20_000
USERS = 20
ROWS = 1_000
KILLS, PAGE = 5, 100
PAGES_UNDER_WAY = 2
"""One is embedded while another is written."""
MODULE = """
import os
from functools import cached_property
from pathlib import Path
from neo4j_graphrag.embeddings.base import Embedder
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.runtime.settings import Settings
class Counting(Embedder):
    embedder_name = "counting"
    @cached_property
    def encoder(self):
        return EmbedderAdapter(None, Settings()).token_embedder
    def embed_query(self, text):
        return self.embed_question(text).vector
    def embed_documents(self, texts):
        raise NotImplementedError
    def embed_question(self, text, typed_text=None):
        return self.encoder.embed_question(text, typed_text)
    def embed_passages(self, passages):
        embeddings = self.encoder.embed_passages(passages)
        with Path(__file__).with_suffix(".log").open("a") as log:
            log.write(f"{os.getpid()} {'|'.join(passage.text for passage in passages)}\\n")
        return embeddings
"""
FILL = """
UNWIND $rows AS row
CREATE (:@Memory:@Fact {scope: row.scope, memory_id: row.id, id: row.id, kind: 'fact', text: row.text, open: true,
  state: 'current', timestamp: 0.0})
"""


class Deployment:
    """A graph of facts without vectors, behind labels of its own, and an embedder that writes down what it embeds."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self.connection, self.folder, self.log = connection, folder, folder / "counting.log"
        (folder / "counting.py").write_text(MODULE)

    @property
    def environment(self) -> dict[str, str]:
        settings = self.connection.settings
        return os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")]),
            "NEO4J_URI": str(settings.uri),
            "NEO4J_USERNAME": settings.username,
            "NEO4J_PASSWORD": settings.password.get_secret_value(),
            "ADK_GRAPH_MEMORY_LABEL_PREFIX": settings.label_prefix,
            "RAY_AUTH_MODE": "disabled",
        }

    async def run_cypher(self, cypher: str, **parameters: Any) -> list[Any]:
        text = cypher.replace("@", self.connection.settings.label_prefix)
        return [tuple(row) for row in await self.connection.run_cypher(text, parameters)]

    async def fill(self) -> None:
        scopes = [Scope("app", f"user-{number}").key for number in range(USERS)]
        rows = [
            {"scope": scopes[n % USERS], "id": f"fact-{n:06}", "text": f"Number {n} keeps {n % 97} goats in Lisbon."}
            for n in range(FACTS)
        ]
        for start in range(0, FACTS, ROWS):
            await self.run_cypher(FILL, rows=rows[start : start + ROWS])

    def start_command(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", "from adk_graph_memory.cli import app; app()", "reembed"]
        return subprocess.Popen(
            [*program, "--embedder", "counting:Counting", "--json", *options],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read_log(self) -> list[tuple[int, list[str]]]:
        """The process and the texts of each call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        calls = [line.partition(" ") for line in lines]
        return [(int(process), texts.split("|")) for process, _, texts in calls]

    async def wait_for_texts(self, count: int) -> None:
        while sum(len(texts) for _, texts in self.read_log()) < count:  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.1)

    async def check_end(self, process: subprocess.Popen[str]) -> Counter[str]:
        """Wait for the end; check that each fact has its vector; return how often each text was embedded."""
        output, problems = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, problems
        outcome = json.loads(output)
        assert (outcome["left"], outcome["failed"], outcome["is_switched"]) == (0, 0, True)
        [(facts, ids, vectors)] = await self.run_cypher(
            "MATCH (n:@Memory) RETURN count(n), count(DISTINCT n.memory_id), count(n.embedding_b)"
        )
        assert (facts, ids, vectors) == (FACTS, FACTS, FACTS)
        counts = Counter(text for _, texts in self.read_log() for text in texts if text != "ready?")
        assert len(counts) == FACTS
        return counts


@pytest.fixture
async def deployment(neo4j_server: Server, tmp_path: Path) -> AsyncIterator[Deployment]:
    settings = neo4j_server.settings(label_prefix=f"S{uuid.uuid4().hex[:10]}")
    async with Connection(settings=settings) as connection:
        await connection.prepare()
        # As if a first embedder had begun, and none of its vectors were left: slot a is live.
        deployment = Deployment(connection, tmp_path)
        await deployment.run_cypher(
            "MERGE (m:@Meta {key: 'schema'}) SET m.live = 'a', m.embedder_a = 'former', m.dimensions_a = 384"
        )
        await deployment.fill()
        yield deployment
        await deployment.run_cypher("MATCH (n:@Memory) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS")


async def test_killed_at_random_it_embeds_hardly_anything_twice(deployment: Deployment) -> None:
    moments = sorted(random.sample(range(FACTS // 20, FACTS * 19 // 20), KILLS))
    for moment in moments:
        process = deployment.start_command("--batch", str(PAGE))
        await deployment.wait_for_texts(moment)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
    counts = await deployment.check_end(deployment.start_command())
    assert counts.total() <= FACTS + KILLS * PAGES_UNDER_WAY * PAGE, moments


@contextmanager
def start_raylet(environment: dict[str, str], *options: str) -> Iterator[subprocess.Popen[bytes]]:
    ray = str(Path(sys.executable).with_name("ray"))
    program = [ray, "start", "--num-cpus=1", "--disable-usage-stats", "--block", *options]
    with subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


HOLD = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
head = next(node for node in ray.nodes() if "node:__internal_head__" in node["Resources"])
@ray.remote(num_cpus=1, resources={"node:__internal_head__": 0.001})
class Hold:
    def hold(self): return True
hold = Hold.remote()
ray.get(hold.hold.remote())
print("held", flush=True)
sys.stdin.read()
"""


def find_parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
async def test_a_cluster_that_loses_a_machine_finishes(deployment: Deployment) -> None:
    port = random.randint(20_000, 30_000)
    address, environment = f"127.0.0.1:{port}", deployment.environment
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))  # names of sockets must be short
        head_options = "--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}"
        stack.enter_context(start_raylet(environment, *head_options))
        await asyncio.sleep(10)
        stack.enter_context(start_raylet(environment, f"--address={address}"))
        await asyncio.sleep(10)
        # What holds the head's CPU sends the actor to the other machine.
        program = [sys.executable, "-c", HOLD, address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        hold = await asyncio.to_thread(partial(subprocess.Popen, program, env=environment, **pipes))
        stack.callback(hold.kill)
        assert hold.stdout is not None
        async with asyncio.timeout(120):
            assert await asyncio.to_thread(hold.stdout.readline) == b"held\n"
        start_time = time.monotonic()
        process = deployment.start_command("--engine", "ray", "--stall-timeout", "300", RAY_ADDRESS=address)
        await deployment.wait_for_texts(FACTS // 2)
        hold.communicate(b"")
        os.kill(find_parent(deployment.read_log()[-1][0]), signal.SIGKILL)
        counts = await deployment.check_end(process)
    print(f"{time.monotonic() - start_time:.0f} s, {counts.total() - FACTS} texts embedded twice")
    assert counts.total() <= 1.05 * FACTS
