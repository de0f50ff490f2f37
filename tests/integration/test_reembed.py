"""Another embedder's vectors take the place of the old ones, while people search, write, and pull the plug.

Slots belong to a whole database: each test has one of its own, made by a label prefix.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typing_extensions import override

from adk_graph_memory import GraphMemory, Statement, Turn, errors
from adk_graph_memory.cli.application import app
from adk_graph_memory.cli.output import StatusLine
from adk_graph_memory.graph import reembed, vector_slots
from adk_graph_memory.graph.reembed import TextSelection
from adk_graph_memory.memory.jobs import reembedding
from adk_graph_memory.memory.jobs.batches import Budget
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.runtime.settings import Limits, Settings
from adk_graph_memory.testing import HashEmbedder

pytestmark = [pytest.mark.schema, pytest.mark.xdist_group("reembed")]
PIPELINES = Path(__file__).parents[2] / "pipelines"

ADA = {"app_name": "app", "user_id": "ada"}
BOB = {"app_name": "app", "user_id": "bob"}
BATCH = 4


class Scripted(HashEmbedder):
    """An embedder that fails, refuses or waits where it is told to."""

    def __init__(self, dimensions: int = 32, *, fails: Sequence[int] = (), refuses: str = "\0") -> None:
        super().__init__(dimensions)
        self.fails, self.refuses = set(fails), refuses
        self.texts: Counter[str] = Counter()
        self.holds_at: int | None = None
        self.is_reached, self.may_go_on = threading.Event(), threading.Event()

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors = super().embed_documents(texts)
        if self.calls == self.holds_at:
            self.is_reached.set()
            assert self.may_go_on.wait(60)
        if self.calls in self.fails:
            raise ConnectionError("no route to the model")
        if any(self.refuses in text for text in texts):
            raise ValueError("this text is not to my taste")
        self.texts.update(texts)
        return vectors


class Failing:
    """All calls from this one on."""

    def __init__(self, first: int) -> None:
        self.first = first

    def __contains__(self, call: int) -> bool:
        return call >= self.first


class Stopped(Exception):
    """As if somebody had pulled the plug just here."""


class Deployment:
    """One database with services on it; ``memory`` is what remembers, with the old embedder."""

    def __init__(self, settings: Any, embedder: Any) -> None:
        self.settings = settings
        self._memories: list[GraphMemory] = []
        self.memory = self.service(embedder)
        self.connection = self.memory.connection

    def service(self, embedder: Any) -> GraphMemory:
        self._memories.append(GraphMemory(settings=self.settings, embedder=embedder))
        return self._memories[-1]

    async def reembed(self, embedder: Any, **options: Any) -> Any:
        vectors = EmbedderAdapter(embedder, Settings(limits=Limits(embed_concurrency=2)))
        return await reembedding.reembed_texts(self.connection, vectors, **{"batch": BATCH, **options})

    async def state(self) -> vector_slots.SchemaState:
        return await vector_slots.fetch_schema_state(self.connection)

    async def texts(self) -> list[str]:
        """The text of every node that has one."""
        rows = await self.connection.run_cypher(
            f"MATCH (n:{self.settings.label_prefix}Memory|{self.settings.label_prefix}Entity)"
            " RETURN coalesce(n.text, n.name) AS text"
        )
        return [row["text"] for row in rows]

    async def keys(self) -> list[str]:
        """The key of every node that has a text."""
        rows = await self.connection.run_cypher(
            f"MATCH (n:{self.settings.label_prefix}Memory|{self.settings.label_prefix}Entity)"
            " RETURN n.scope + coalesce(n.memory_id, n.key) AS key"
        )
        return [row["key"] for row in rows]

    async def vectors(self, slot: str = "b") -> dict[str, list[float] | None]:
        """Text → vector in this slot, for every text there is."""
        rows = await self.connection.run_cypher(
            f"MATCH (n:{self.settings.label_prefix}Memory|{self.settings.label_prefix}Entity)"
            " RETURN coalesce(n.text, n.name) AS text, n[$slot] AS vector",
            {"slot": f"embedding_{slot}"},
        )
        return {row["text"]: row["vector"] for row in rows}

    async def indexes(self) -> dict[str, int]:
        """Vector index → its dimensions."""
        rows = await self.connection.run_cypher(
            "SHOW VECTOR INDEXES YIELD name, labelsOrTypes, options WHERE labelsOrTypes[0] STARTS WITH $prefix"
            " RETURN name, options.indexConfig['vector.dimensions'] AS dimensions",
            {"prefix": self.settings.label_prefix},
        )
        return {row["name"]: row["dimensions"] for row in rows}

    async def everything(self) -> list[Any]:
        rows = await self.connection.run_cypher(
            "MATCH (n) WHERE any(l IN labels(n) WHERE l STARTS WITH $prefix)"
            " WITH n ORDER BY elementId(n) RETURN properties(n) AS n",
            {"prefix": self.settings.label_prefix},
        )
        return [[row["n"] for row in rows], await self.indexes()]

    async def close(self) -> None:
        for memory in self._memories:
            await memory.close()


def turns(*texts: str) -> list[Turn]:
    return [Turn(f"t{n}", "user", text, datetime(2026, 3, n + 1, tzinfo=UTC)) for n, text in enumerate(texts)]


SAID = turns("My sister Clara moved to Lisbon.", "I play the cello.", "Clara works for Northwind.", "I live in Berlin.")


def made(text: str, dimensions: int = 32) -> Any:
    return pytest.approx(HashEmbedder(dimensions).embed_query(text), abs=1e-6)


@pytest.fixture
async def deployed(neo4j_server: Any) -> AsyncIterator[Callable[..., Any]]:
    """Makes deployments that hold what two people said, with vectors of 64 numbers unless told otherwise."""
    made: list[Deployment] = []

    async def make(embedder: Any = None, *, is_empty: bool = False) -> Deployment:
        settings = neo4j_server.settings(label_prefix=f"R{uuid.uuid4().hex[:10]}")
        made.append(deployment := Deployment(settings, HashEmbedder() if embedder is None else embedder))
        if not is_empty:
            await deployment.memory.remember(SAID, **ADA, session_id="s")
            await deployment.memory.remember(SAID[1:3], **BOB, session_id="s")
        return deployment

    yield make
    for deployment in made:
        await deployment.close()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembedding, "RETRY_PAUSES", (0.01, 0.01, 0.01))


Deployed = Callable[..., Any]


# -- the way it goes --------------------------------------------------------------------------------------------


@pytest.mark.full
async def test_every_text_gets_its_vector_and_the_old_embedder_is_told(deployed: Deployed, caplog) -> None:
    db = await deployed()
    retriever = await db.memory.user(**ADA).make_retriever()
    outcome = await db.reembed(Scripted())
    found = await db.vectors("b")
    assert {"I play the cello.", "Clara"} < set(found)
    assert found == {text: made(text) for text in found}
    assert set((await db.vectors("a")).values()) == {None}
    assert (outcome.left, outcome.failed, outcome.is_done) == (0, 0, True)
    # A retriever handed out before goes by full text from now on, and says so once; a service is told at its start.
    for _ in range(2):
        result = await asyncio.to_thread(retriever.get_search_results, "Who plays the cello?")
        assert result.records[0]["text"] == "I play the cello."
    assert sum("Another embedder" in record.getMessage() for record in caplog.records) == 1
    with pytest.raises(errors.EmbedderMismatch):
        await db.service(HashEmbedder()).recall("cello", **ADA)


@pytest.mark.full
async def test_the_database_knows_its_new_embedder_alone(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(embedder := Scripted())
    state = await db.state()
    name = EmbedderAdapter(embedder, Settings()).name
    assert (state.live_slot_name, state.slots) == ("b", (vector_slots.VectorSlot("b", name, 32),))
    if db.connection.server_line == "2026":
        assert set((await db.indexes()).values()) == {32}


@pytest.mark.full
async def test_the_next_time_it_goes_back_to_the_first_slot(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(Scripted())
    await db.reembed(Scripted(48))
    found = await db.vectors("a")
    assert found == {text: made(text, 48) for text in found}
    assert (await db.state()).live_slot_name == "a"


@pytest.mark.slow
async def test_services_with_the_old_embedder_search_old_vectors_while_they_are_kept(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(Scripted(), keep_old=True)
    assert None not in (await db.vectors("a")).values()
    assert [slot.dimensions for slot in (await db.state()).slots] == [64, 32]
    assert await search_cello(db.memory) == (None, True)
    await db.memory.remember(turns("My dog is called Rex."), **ADA, session_id="later")
    assert (await db.vectors("a"))["My dog is called Rex."] is None
    assert next(found.text for found in await db.memory.recall("dog Rex", **ADA)) == "My dog is called Rex."

    outcome = await db.reembed(Scripted())
    assert (outcome.is_old_deleted, outcome.embedded) == (True, 0)
    assert [slot.dimensions for slot in (await db.state()).slots] == [32]
    assert await search_cello(db.memory) == ("the memories were re-embedded by another embedder", False)
    assert not (await db.reembed(Scripted())).is_old_deleted


@pytest.mark.full
async def test_kept_vectors_whose_deletion_was_interrupted_are_deleted_by_the_next_call(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = await deployed()
    await db.reembed(Scripted(), keep_old=True)

    async def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(reembed, "empty_slot", stop)
        with pytest.raises(Stopped):
            await db.reembed(Scripted())
    assert (await db.reembed(Scripted())).is_old_deleted
    assert [slot.dimensions for slot in (await db.state()).slots] == [32]
    assert set((await db.vectors("a")).values()) == {None}


@pytest.mark.slow
async def test_the_first_search_after_a_switch_has_vectors(deployed: Deployed) -> None:
    db = await deployed()
    assert await search_cello(db.memory) == (None, True)
    await db.reembed(HashEmbedder(), force=True)
    assert await search_cello(db.memory) == (None, True)


async def search_cello(memory: GraphMemory) -> tuple[str | None, bool]:
    """Why a search had no vectors, and whether a vector has a share in its first memory's score."""
    [found, *_] = await memory.recall("Who plays the cello?", **ADA, explain=True)
    assert "cello" in found.text
    return found.degraded, any(share.signal == "vector" for share in found.shares)


@pytest.mark.full
async def test_a_text_is_embedded_once_however_many_said_it(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(embedder := Scripted(), batch=100)
    # Once among memories, once among entities; and there is the control text.
    assert max(embedder.texts.values()) == 1
    assert embedder.calls == 3


# -- searches -------------------------------------------------------------------------------------------------


@pytest.mark.full
async def test_searches_go_on_throughout(deployed: Deployed) -> None:
    db = await deployed()
    new = Scripted()
    new.holds_at = 3
    job = asyncio.create_task(db.reembed(new))
    await asyncio.to_thread(new.is_reached.wait, 60)
    during = await db.memory.recall("Who plays the cello?", **ADA)
    with pytest.raises(errors.EmbedderMismatch):
        await db.service(Scripted()).recall("Who plays the cello?", **ADA)
    new.may_go_on.set()
    await job
    running, restarted = db.memory, db.service(Scripted())
    degraded = await running.recall("Who plays the cello?", **ADA)
    after = await restarted.recall("Who plays the cello?", **ADA)
    for found in (during, degraded, after):
        assert "cello" in found[0].text
    assert [found[0].degraded is not None for found in (during, degraded, after)] == [False, True, False]


@pytest.mark.full
async def test_a_service_with_the_new_embedder_finds_by_vectors(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(Scripted())
    retriever = await db.service(Scripted()).user(**ADA).make_retriever()
    result = retriever.get_search_results("Clara", HashEmbedder(32).embed_query("I play the cello."))
    assert "I play the cello." in [record["text"] for record in result.records]


# -- writing meanwhile ------------------------------------------------------------------------------------------


@pytest.mark.full
async def test_what_is_said_or_edited_meanwhile_is_not_lost(deployed: Deployed) -> None:
    db = await deployed()
    new = Scripted()
    new.holds_at = 5  # the first pages of memories are written
    job = asyncio.create_task(db.reembed(new))
    await asyncio.to_thread(new.is_reached.wait, 60)
    edited = Turn("t1", "user", "I play the viola.", SAID[1].at)
    for who in (ADA, BOB):
        await db.memory.remember(
            [edited, Turn("t9", "user", "My dog is called Rex.", SAID[1].at)], **who, session_id="s"
        )
    await db.memory.user(**ADA).add_statements([Statement("Tea, never coffee.", SAID[1].at)])
    new.may_go_on.set()
    await job
    found = await db.vectors("b")
    assert {"I play the viola.", "My dog is called Rex.", "Tea, never coffee."} < set(found)
    assert found == {text: made(text) for text in found}


@pytest.mark.full
async def test_ingests_that_began_before_the_switch_are_waited_for(deployed: Deployed) -> None:
    db = await deployed()
    claimed = (
        f"MATCH (i:{db.settings.label_prefix}Ingest) WITH i LIMIT 1 SET i.state = 'claimed', i.lease_until = $until"
    )
    await db.connection.run_cypher(claimed, {"until": time.time() + 3_600})
    is_waiting, said = asyncio.Event(), list[str]()

    def hear(step: Any) -> None:
        said.append(step.phase)
        if "Waiting for ingests that run (1)" in step.phase:
            is_waiting.set()

    job = asyncio.create_task(db.reembed(Scripted(), progress=hear))
    await is_waiting.wait()
    assert not job.done()
    await db.connection.run_cypher(claimed, {"until": 0.0})
    await job
    assert any("Waiting for ingests that run (1)" in phase for phase in said)


# -- a part of the texts, and a budget --------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_part_without_texts_changes_nothing(deployed: Deployed) -> None:
    db = await deployed()
    before = await db.everything()
    outcome = await db.reembed(Scripted(), selection=TextSelection(since=datetime(2030, 1, 1, tzinfo=UTC).timestamp()))
    assert (outcome.embedded, outcome.is_switched) == (0, False)
    assert await db.everything() == before


@pytest.mark.full
async def test_a_part_of_the_texts_waits_for_the_others(deployed: Deployed) -> None:
    db = await deployed()
    part = await db.reembed(first := Scripted(), selection=TextSelection(user_id="bob"))
    assert (part.is_switched, part.is_done, (await db.state()).live_slot_name) == (False, False, "a")
    assert part.left == len(await db.keys()) - part.embedded > 0
    assert {"I play the cello.", "Northwind"} < first.texts.keys() and "I live in Berlin." not in first.texts
    assert (await db.memory.recall("cello", **ADA))[0].degraded is None
    rest = await db.reembed(second := Scripted())
    assert (rest.is_switched, rest.is_done, rest.embedded) == (True, True, part.left)
    assert second.texts.total() == part.left + 1  # and the control text
    found = await db.vectors("b")
    assert found == {text: made(text) for text in found}


@pytest.mark.full
async def test_what_was_said_since_a_time_comes_first(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(embedder := Scripted(), selection=TextSelection(since=SAID[2].at.timestamp()))
    assert set(embedder.texts) == {"ready?", "Clara works for Northwind.", "I live in Berlin."}


@pytest.mark.full
async def test_words_edited_between_two_parts_are_embedded_again(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(Scripted(), selection=TextSelection(user_id="bob"))
    await db.memory.remember([Turn("t1", "user", "I play the viola.", SAID[1].at)], **BOB, session_id="s")
    await db.reembed(Scripted())
    found = await db.vectors("b")
    assert "I play the viola." in found
    assert found == {text: made(text) for text in found}


@pytest.mark.full
async def test_a_budget_of_calls_ends_a_run_and_the_next_one_goes_on(deployed: Deployed) -> None:
    db, budget = await deployed(), Budget(max_calls=2)
    spent = await db.reembed(first := Scripted(), budget=budget)
    assert (spent.is_budget_spent, spent.is_switched, spent.embedded) == (True, False, 2 * BATCH)
    assert (budget.usage.calls, first.calls) == (2, 3)  # the control text is not counted
    rest = await db.reembed(Scripted(), budget=Budget(max_calls=100))
    assert (rest.is_budget_spent, rest.is_switched, rest.is_done) == (False, True, True)
    assert rest.embedded == len(await db.keys()) - 2 * BATCH


@pytest.mark.full
async def test_the_command_keeps_to_a_budget_and_to_a_user(deployed: Deployed, run: Callable[..., Any]) -> None:
    db, embedder = await deployed(), ("--embedder", "adk_graph_memory.testing:HashEmbedder", "--force")
    part = await run(db, *embedder, "--user", "bob")
    assert part.exit_code == 0 and "until they are embedded too, searches keep the old vectors" in part.stdout
    spent = await run(db, *embedder, "--max-calls", "1", "--batch", "2")
    assert spent.exit_code == 3 and "The budget does not cover the rest" in spent.stdout
    priceless = await run(db, *embedder, "--max-cost", "1")
    assert priceless.exit_code == 2 and "has no price" in priceless.stderr
    unknown = await run(db, *embedder, "--app", "nobody's")
    assert unknown.exit_code == 1 and "nobody's" in unknown.stderr
    rest = await run(db, *embedder)
    assert rest.exit_code == 0 and "texts were embedded by" in rest.stdout


# -- stops and starts -------------------------------------------------------------------------------------------


@pytest.mark.full
async def test_an_embedder_that_fails_twice_is_asked_again(deployed: Deployed) -> None:
    db = await deployed()
    outcome = await db.reembed(Scripted(fails=(3, 4)))
    assert outcome.is_done


@pytest.mark.full
async def test_an_embedder_that_fails_for_good_leaves_the_searches_alone(deployed: Deployed) -> None:
    db = await deployed()
    broken = Scripted()
    broken.fails = Failing(4)  # type: ignore[assignment]
    with pytest.raises(errors.EmbedderFailed, match="no route"):
        await db.reembed(broken)
    assert (await db.state()).live_slot_name == "a"
    assert (await db.memory.recall("cello", **ADA))[0].degraded is None
    outcome = await db.reembed(Scripted())
    written = 2 * BATCH  # the first call was for the control text, the fourth failed
    assert (outcome.embedded, outcome.is_done) == (len(await db.keys()) - written, True)


@pytest.mark.full
async def test_what_another_embedder_had_begun_goes(deployed: Deployed) -> None:
    db = await deployed()
    broken = Scripted(16)
    broken.fails = Failing(4)  # type: ignore[assignment]
    with pytest.raises(errors.EmbedderFailed):
        await db.reembed(broken)
    outcome = await db.reembed(Scripted(32))
    found = await db.vectors("b")
    assert outcome.is_done
    assert found == {text: made(text, 32) for text in found}
    if db.connection.server_line == "2026":
        assert set((await db.indexes()).values()) == {32}


@pytest.mark.full
async def test_a_second_run_takes_over_from_the_first(deployed: Deployed) -> None:
    db = await deployed()
    first = Scripted()
    first.holds_at = 3
    job = asyncio.create_task(db.reembed(first))
    await asyncio.to_thread(first.is_reached.wait, 60)
    outcome = await db.reembed(Scripted(16))
    first.may_go_on.set()
    with pytest.raises(errors.GraphMemoryError, match="taken over"):
        await job
    found = await db.vectors("b")
    assert outcome.is_done
    assert found == {text: made(text, 16) for text in found}


COUNTING = """
import json, time
from pathlib import Path
from adk_graph_memory.testing import HashEmbedder
class Counting(HashEmbedder):
    def embed_documents(self, texts):
        time.sleep(0.2)
        with Path(__file__).with_suffix(".log").open("a") as log:
            log.write(json.dumps(texts) + "\\n")
        return super().embed_documents(texts)
"""


def command(db: Deployment, folder: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    settings = db.settings
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "NEO4J_URI": settings.uri,
        "NEO4J_USERNAME": settings.username,
        "NEO4J_PASSWORD": settings.password.get_secret_value(),
        "ADK_GRAPH_MEMORY_LABEL_PREFIX": settings.label_prefix,
    }
    script = str(PIPELINES / "reembed.py")
    return [sys.executable, script, "--embedder", "counting:Counting", "--batch", "2", *arguments], environment


@pytest.mark.slow
async def test_after_kill_9_the_same_command_goes_on_where_it_stopped(deployed: Deployed, tmp_path: Path) -> None:
    db = await deployed()
    (tmp_path / "counting.py").write_text(COUNTING)
    log = tmp_path / "counting.log"
    arguments, environment = command(db, tmp_path, "--json")

    def embedded() -> list[list[str]]:
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def kill_in_the_middle() -> None:
        with subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 120
            while len(embedded()) < 5 and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)

    await asyncio.to_thread(kill_in_the_middle)
    before = embedded()
    nodes = Counter(await db.texts())
    assert (await db.state()).live_slot_name == "a"
    assert (await db.memory.recall("cello", **ADA))[0].degraded is None
    done = await asyncio.to_thread(subprocess.run, arguments, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = embedded()[len(before) :]
    # The pages that were being embedded and written at the kill may be made again, and the control text is; others not.
    # A text may stand in several nodes, as a turn and as a fact, and is made for each.
    written = Counter(text for page in before[1:-2] for text in page)
    again = Counter(text for page in after[1:] for text in page)
    assert {text for text in written if written[text] + again[text] > nodes[text]} == set()
    outcome = json.loads(done.stdout)
    found = await db.vectors("b")
    assert found == {text: made(text, 64) for text in found}
    assert (outcome["left"], outcome["failed"], outcome["dimensions"]) == (0, 0, 64)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "moment", ["switch_live_slot", "await_running_ingests", "clear_stale_vectors", "empty_slot", "finish_reembedding"]
)
@pytest.mark.full
async def test_it_goes_on_from_every_later_moment_too(
    deployed: Deployed, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = await deployed()

    place = reembedding.ReembedJob if moment == "await_running_ingests" else reembed
    begins_with = reembed.empty_slot  # the slot to be filled is emptied first, before the old one at the end
    calls = iter([begins_with] if moment == "empty_slot" else [])

    async def stop(*arguments: Any, **options: Any) -> None:
        if (real := next(calls, None)) is None:
            raise Stopped
        await real(*arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(place, moment, stop)
        await db.reembed(Scripted())
    outcome = await db.reembed(again := Scripted())
    assert outcome.is_done
    assert sum(again.texts.values()) == 1  # the control text: nothing else was left to do
    state = await db.state()
    assert (state.live_slot_name, [slot.name for slot in state.slots]) == ("b", ["b"])
    assert set((await db.vectors("a")).values()) == {None}


# -- texts that cannot be embedded -----------------------------------------------------------------------------


@pytest.mark.full
async def test_a_poison_text_is_marked_and_the_rest_goes_on(deployed: Deployed) -> None:
    db = await deployed()
    outcome = await db.reembed(Scripted(refuses="cello"), batch=100)
    found = await db.vectors("b")
    assert {text for text, vector in found.items() if vector is None} == {"I play the cello."}
    assert (outcome.failed, outcome.left, outcome.is_done) == (4, 0, False)  # a turn and a fact, of two users
    rows = await reembed.fetch_embedding_failures(db.connection, 10)
    assert {row["text"] for row in rows} == {"I play the cello."}
    assert all("not to my taste" in row["error"] for row in rows)
    found_by_words = await db.service(Scripted()).recall("Who plays the cello?", **ADA)
    assert "I play the cello." in [memory.text for memory in found_by_words]


@pytest.mark.full
async def test_failed_texts_are_tried_again_by_the_same_command(deployed: Deployed) -> None:
    db = await deployed()
    await db.reembed(Scripted(refuses="cello"))
    outcome = await db.reembed(again := Scripted())
    assert outcome.is_done
    assert set(again.texts) == {"ready?", "I play the cello."}
    assert not await reembed.fetch_embedding_failures(db.connection, 10)


# -- what is there to begin with --------------------------------------------------------------------------------


@pytest.mark.full
async def test_an_empty_database(deployed: Deployed) -> None:
    db = await deployed(is_empty=True)
    outcome = await db.reembed(Scripted())
    assert (outcome.embedded, outcome.is_done) == (0, True)


@pytest.mark.full
async def test_a_database_without_vectors_gets_its_first_embedder(deployed: Deployed) -> None:
    db = await deployed(False)
    outcome = await db.reembed(Scripted())
    found = await db.vectors("a")
    assert found == {text: made(text) for text in found}
    assert outcome.is_done
    assert (await db.service(Scripted()).recall("cello", **ADA))[0].degraded is None


@pytest.mark.full
async def test_a_graph_whose_memories_are_gone_gets_another_embedder(deployed: Deployed) -> None:
    db = await deployed(Scripted(64))
    prefix = db.settings.label_prefix
    await db.memory.connection.run_cypher(f"MATCH (n:{prefix}Memory|{prefix}Entity) DETACH DELETE n")
    outcome = await db.reembed(Scripted())
    live = (await db.state()).live_slot
    assert (outcome.embedded, outcome.is_done, live and live.dimensions) == (0, True, 32)


@pytest.mark.full
async def test_the_same_embedder_again_only_by_force(deployed: Deployed) -> None:
    db = await deployed(Scripted(64))
    needless = await db.reembed(Scripted(64))
    assert (needless.is_done, needless.embedded, (await db.state()).live_slot_name) == (True, 0, "a")
    outcome = await db.reembed(Scripted(64), force=True)
    assert outcome.is_done
    assert ((await db.state()).live_slot_name, None in (await db.vectors("b")).values()) == ("b", False)
    assert (await db.memory.recall("cello", **ADA))[0].degraded is None


@pytest.mark.full
async def test_planning_writes_nothing(deployed: Deployed) -> None:
    db = await deployed()
    before = await db.everything()
    plan = await reembedding.plan_reembedding(
        db.connection, EmbedderAdapter(Scripted(), Settings()), batch=BATCH, force=False
    )
    assert await db.everything() == before
    assert {count.kind: count.left for count in plan.counts} == {"event": 6, "fact": 6, "entity": plan.counts[-1].texts}
    assert (plan.target.live.dimensions, plan.target.slot.dimensions) == (64, 32)
    assert plan.calls == 4 + -(-plan.counts[-1].texts // BATCH)


# -- at the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command in a thread, as it brings its own event loop."""

    async def invoke(db: Deployment, *arguments: str) -> Any:
        for name, value in command(db, PIPELINES)[1].items():
            if name.startswith(("NEO4J_", "ADK_GRAPH_MEMORY_")):
                monkeypatch.setenv(name, value)
        return await asyncio.to_thread(CliRunner().invoke, app, ["reembed", *arguments])

    return invoke


@pytest.mark.full
async def test_the_command_says_what_it_would_do_does_it_and_does_nothing_twice(
    deployed: Deployed, run: Callable[..., Any]
) -> None:
    db = await deployed()
    embedder = ("--embedder", "adk_graph_memory.testing:HashEmbedder")
    for options in ((), ("--dry-run",)):
        needless = await run(db, *embedder, *options)  # HashEmbedder() is what the database has
        assert needless.exit_code == 0 and "--force" in needless.stdout
        assert "Nothing was left to embed" in needless.stdout
    dry = await run(db, *embedder, "--force", "--dry-run")
    assert dry.exit_code == 0
    assert "HashEmbedder:hash-64, 64 numbers" in dry.stdout
    assert "6 of 6 texts of kind event" in dry.stdout
    done = await run(db, *embedder, "--force", "--json")
    assert (done.exit_code, json.loads(done.stdout)["left"]) == (0, 0)


@pytest.mark.full
async def test_the_command_names_what_failed(deployed: Deployed, run: Callable[..., Any]) -> None:
    db = await deployed()
    assert (await run(db, "--failed")).exit_code == 0
    await db.reembed(Scripted(refuses="cello"))
    listed = await run(db, "--failed")
    assert listed.exit_code == 1
    assert "I play the cello." in listed.stdout
    assert "not to my taste" in listed.stdout


@pytest.mark.slow
@pytest.mark.parametrize("embedder", ["nowhere:Embedder", "adk_graph_memory.testing:Nothing"])
async def test_the_command_says_which_embedder_it_lacks(
    deployed: Deployed, run: Callable[..., Any], embedder: str
) -> None:
    db = await deployed(is_empty=True)
    result = await run(db, "--embedder", embedder)
    assert result.exit_code == 2
    assert "--embedder" in result.stderr


@pytest.mark.slow
async def test_an_embedder_is_found_in_the_folder_where_the_command_runs(
    deployed: Deployed, run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = await deployed(is_empty=True)
    (tmp_path / "embedder_of_mine.py").write_text("def embed(text):\n    return [1.0, float(len(text))]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    result = await run(db, "--embedder", "embedder_of_mine:embed", "--json")
    assert (result.exit_code, json.loads(result.stdout)["dimensions"]) == (0, 2)


@pytest.mark.full
async def test_the_command_says_how_far_it_is_and_a_retriever_follows(
    deployed: Deployed, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    db, announced = await deployed(), list[str]()
    retriever = await db.memory.user(**ADA).make_retriever()
    monkeypatch.setattr(StatusLine, "show", lambda self, text: announced.append(text))
    assert (await run(db, "--embedder", "adk_graph_memory.testing:HashEmbedder", "--force")).exit_code == 0
    assert announced[:3] == ["Waiting for Neo4j …", "Loading the embedding model …", "Emptying the new slot …"]
    assert any(re.fullmatch(r"Embedding texts: 12 of \d+, [\d,]+/s, 0:00:0\d left …", text) for text in announced)
    question, vector = "Clara", HashEmbedder().embed_query("I play the cello.")
    for _ in range(2):
        found = await asyncio.to_thread(retriever.get_search_results, question, vector)
        assert "I play the cello." in [record["text"] for record in found.records]
    assert (await db.state()).live_slot_name == retriever.slot.name == "b"
