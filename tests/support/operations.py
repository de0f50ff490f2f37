"""Operations on one user's memory for a process of their own, which may be killed after the n-th answer of the graph.

``python -m tests.support.operations`` reads its arguments as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.genai import types

from adk_graph_memory import GraphMemory, Neo4jArtifactService, Neo4jMemoryService, Neo4jSessionService, Turn
from adk_graph_memory.adk.importing import importer
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.adk.plugin import GraphMemoryPlugin
from adk_graph_memory.graph import erasing
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.memory.jobs.reembedding import reembed_texts
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings, load_settings
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

USER = "ada"
LONG_AGO = datetime(2024, 5, 4, 12, tzinfo=UTC)
LIFE = {
    "monday": ("My dog is called Rex.", "I live in Lisbon.", "My sister Inés keeps bees."),
    "friday": ("I work at a bakery.", "My dog Rex is afraid of thunder."),
}
SAID_TO_AN_AGENT = "My cat is called Miso."
IMPORTED = ("Ada plays the cello.", "Ada is allergic to nuts.", "Ada reads on trains.")
BATCH = 2
"""Nodes or texts in a batch: so few that there are many."""


class World:
    """One app's services, by rules and without a model of language."""

    def __init__(self, settings: Settings, app_name: str, folder: str) -> None:
        self.settings, self.app_name, self.folder = settings, app_name, Path(folder)
        self.service = Neo4jMemoryService(settings=settings, embedder=HashEmbedder(), model="rules")
        self.memory: GraphMemory = self.service.memory
        self.sessions = Neo4jSessionService(settings=settings)
        self.artifacts = Neo4jArtifactService(settings=settings)

    @property
    def owner(self) -> dict[str, str]:
        return {"app_name": self.app_name, "user_id": USER}

    async def live(self) -> None:
        """Two sessions of long ago, remembered, and an artifact."""
        for session_id, texts in LIFE.items():
            session = await self.sessions.create_session(**self.owner, session_id=session_id)
            for number, text in enumerate(texts):
                at = (LONG_AGO + timedelta(minutes=number)).timestamp()
                content = types.Content(role="user", parts=[types.Part(text=text)])
                event = Event(id=f"e{number}", author="user", timestamp=at, content=content)
                await self.sessions.append_event(session, event)
            await self.service.add_session_to_memory(session)
        part = types.Part(text="Rex at the sea")
        await self.artifacts.save_artifact(**self.owner, session_id="monday", filename="photo.txt", artifact=part)

    async def find_fact(self, word: str) -> str | None:
        facts = [fact async for fact in self.memory.facts(**self.owner)]
        return next((fact.id for fact in facts if word in fact.text), None)

    async def close(self) -> None:
        await self.artifacts.close()
        await self.sessions.close()
        await self.service.close()


async def forget_user(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erasing, "MAX_ERASED_NODES", 0)
        patch.setattr(erasing, "ERASED_AT_ONCE", BATCH)
        await world.memory.user(**world.owner).forget_user(sessions=True, artifacts=True)


async def forget(world: World) -> None:
    await world.memory.user(**world.owner).forget_event("e1", session_id="friday")
    if fact := await world.find_fact("Lisbon"):
        await world.memory.forget(fact, **world.owner)


async def undo(world: World) -> None:
    if fact := await world.find_fact("Lisbon"):
        [entry, *_] = (await world.memory.user(**world.owner).history(fact)).entries
        await world.memory.user(**world.owner).undo(entry.ingest_id)


async def prune(world: World) -> None:
    await world.memory.prune(app_name=world.app_name, older_than="1d")


async def bring_over(world: World) -> None:
    rows = [{"id": str(n), "memory": text, "user_id": USER} for n, text in enumerate(IMPORTED)]
    path = world.folder / "mem0.json"
    path.write_text(json.dumps({"results": rows}), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importer, "BATCH_SIZE", BATCH)
        await import_source(world.memory, str(path), ImportOptions("mem0", app_name=world.app_name, user_id=USER))


async def reembed(world: World) -> None:
    vectors = EmbedderAdapter(HashEmbedder(), world.settings)
    await reembed_texts(world.memory.connection, vectors, batch=BATCH, force=True)


async def reextract(world: World) -> None:
    sessions = [session async for session in world.memory.outdated_sessions(**world.owner, force=True)]
    for session in sessions:
        await world.memory.reextract(session, force=True)


async def run_plugin(world: World) -> None:
    """Tell an agent something, unless its session has it, and let the plugin remember; then read what waits."""
    plugin = GraphMemoryPlugin(every=1)
    agent = LlmAgent(name="companion", model=ScriptedLlm.from_replies("Noted.", "Noted."))
    services = {"session_service": world.sessions, "memory_service": world.service}
    async with Runner(agent=agent, app_name=world.app_name, plugins=[plugin], **services) as runner:
        session = await world.sessions.get_session(**world.owner, session_id="told")
        if session is None:
            session = await world.sessions.create_session(**world.owner, session_id="told")
        has_told = any(event.author == "user" for event in session.events)
        words = "Thank you!" if has_told else SAID_TO_AN_AGENT
        message = types.Content(role="user", parts=[types.Part(text=words)])
        async for _ in runner.run_async(user_id=USER, session_id="told", new_message=message):
            pass
        # Closing waits for some seconds only, and a dead process may hold some of it until its lease is over.
        while not await has_read_all(world):
            await world.memory.resume(app_name=world.app_name)
            await asyncio.sleep(0.1)


async def has_read_all(world: World) -> bool:
    """Whether memory holds all that was said to the agent, and nothing waits; these statements are not counted."""
    driver, prefix = await world.memory.connection.get_driver(), world.settings.label_prefix
    query = (
        f"RETURN COUNT {{ (:{prefix}Event {{scope: $scope, session_id: 'told'}}) }} > 0 AND NOT EXISTS {{ "
        f"MATCH (e:{prefix}Event {{scope: $scope, session_id: 'told'}}) WHERE e.extracted IS NULL }} AND NOT EXISTS {{ "
        f"MATCH (i:{prefix}Ingest {{scope: $scope}}) WHERE i.state IN ['pending', 'claimed'] }} AS is_so"
    )
    [record], _, _ = await driver.execute_query(query, scope=Scope(**world.owner).key)
    return bool(record["is_so"])


OPERATIONS: dict[str, Callable[[World], Awaitable[None]]] = {
    "forget_user": forget_user,
    "forget": forget,
    "undo": undo,
    "prune": prune,
    "import": bring_over,
    "reembed": reembed,
    "reextract": reextract,
    "plugin": run_plugin,
}


async def alternate(world: World, name: str, rounds: int, kinds: list[str]) -> None:
    """Each round remember something to keep, and something to take back by each kind of operation."""
    for number in range(rounds):
        for kind in ("keep", *kinds):
            text = tell_friend(kind, name, number)
            at = LONG_AGO + timedelta(minutes=number)
            turn = Turn(f"{name}-{kind}-{number}", "user", text, at)
            await world.memory.remember([turn], **world.owner, session_id=f"s{number % 3}")
            if kind != "keep":
                await TAKE_BACK[kind](world, turn, f"s{number % 3}")
    print("DONE", flush=True)


def tell_friend(kind: str, name: str, number: int) -> str:
    """What a process says in a round."""
    return f"My {kind} friend {name}{number} lives here."


def correct_friend(text: str) -> str:
    """What is so in place of what a process said."""
    return text.replace("lives here", "moved away")


async def undo_turn(world: World, turn: Turn, session_id: str) -> None:
    """Undo the ingest of a turn."""
    fact = await world.find_fact(turn.text)
    entries = (await world.memory.user(**world.owner).history(fact or "")).entries
    await world.memory.user(**world.owner).undo(entries[0].ingest_id)


async def forget_turn(world: World, turn: Turn, session_id: str) -> None:
    """Forget a turn."""
    await world.memory.user(**world.owner).forget_event(turn.id, session_id=session_id)


async def correct_turn(world: World, turn: Turn, session_id: str) -> None:
    """Correct what a turn says."""
    fact = await world.find_fact(turn.text)
    await world.memory.user(**world.owner).correct(fact or "", text=correct_friend(turn.text))


TAKE_BACK = {"undo": undo_turn, "forget": forget_turn, "correct": correct_turn}


class Counter:
    """Counts the answers of the graph, and kills this process after the one that it was told."""

    def __init__(self, fatal: int) -> None:
        self.fatal, self.count = fatal, 0

    def hook(self, owner: type, name: str) -> None:
        method = getattr(owner, name)

        async def call(*arguments: Any, **named: Any) -> Any:
            answer = await method(*arguments, **named)
            self.count += 1
            if self.count == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(owner, name, call)


async def main(given: dict[str, Any]) -> None:
    world = World(load_settings(**given["settings"]), given["app_name"], given["folder"])
    await world.memory.prepare()
    await world.sessions.get_session(**world.owner, session_id="none")
    if given["operation"] == "alternate":
        await alternate(world, given["name"], given["rounds"], given["kinds"])
    else:
        counter = Counter(given["fatal"])
        counter.hook(Transaction, "run_statement")
        for name in ("run_statement", "run_cypher", "transact"):
            counter.hook(Connection, name)
        await OPERATIONS[given["operation"]](world)
        print(counter.count, flush=True)
    await world.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
