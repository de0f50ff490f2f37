"""How long each operation takes while the network or the server fails: ``python -m benchmarks.latency.outages``.

Every operation has to answer or raise within ``database_timeout`` and a second, and no event that a session service
accepted may be missing afterwards.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from google.adk.events import Event
from google.genai import types
from rich.table import Table

from adk_graph_memory import GraphMemory, Neo4jSessionService, Turn, errors
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.runtime.settings import Settings, load_settings
from benchmarks import machine
from benchmarks.wire import Wire

ROUNDS = 2
OWNER = {"app_name": "outages", "user_id": "ada"}


@dataclass
class Figures:
    """What became of one operation in one kind of outage."""

    seconds: list[float] = field(default_factory=list)
    answers: int = 0
    failures: int = 0


class Agent:
    """A session service and a memory whose every operation can be called once."""

    def __init__(self, settings: Settings) -> None:
        self.sessions = Neo4jSessionService(settings=settings)
        self.memory = GraphMemory(settings=settings, model="rules", embedder=False)
        self.session_id, self.accepted = uuid.uuid4().hex, set[str]()
        self.operations: dict[str, Callable[[], Awaitable[object]]] = {
            "append_event": self.append_event,
            "get_session": self.get_session,
            "remember": self.remember,
            "recall": lambda: self.memory.recall("Who keeps bees?", **OWNER),
        }

    async def start(self) -> None:
        await self.sessions.create_session(session_id=self.session_id, **OWNER)
        for operation in self.operations.values():
            await operation()

    async def get_session(self) -> object:
        return await self.sessions.get_session(session_id=self.session_id, **OWNER)

    async def append_event(self) -> None:
        session = await self.sessions.get_session(session_id=self.session_id, **OWNER)
        assert session
        event = Event(id=uuid.uuid4().hex, author="user", invocation_id="i", content=types.UserContent("Hello."))
        await self.sessions.append_event(session, event)
        self.accepted.add(event.id)

    async def remember(self) -> None:
        id = uuid.uuid4().hex
        turn = Turn(id, author="user", text=f"I keep bees in garden {id}.", at=datetime.now(UTC))
        await self.memory.remember([turn], session_id=self.session_id, **OWNER)

    async def count_lost(self) -> int:
        session = await self.sessions.get_session(session_id=self.session_id, **OWNER)
        return len(self.accepted - {event.id for event in session.events}) if session else len(self.accepted)

    async def close(self) -> None:
        await self.sessions.close()
        await self.memory.close()


async def call(agent: Agent, figures: dict[str, Figures]) -> None:
    """Calls all operations at once."""

    async def call_one(name: str) -> None:
        start, row = time.monotonic(), figures.setdefault(name, Figures())
        try:
            await agent.operations[name]()
            row.answers += 1
        except errors.DatabaseError:
            row.failures += 1
        row.seconds.append(time.monotonic() - start)

    await asyncio.gather(*(call_one(name) for name in agent.operations))


async def measure(server: LocalNeo4j, wire: Wire, settings: Settings) -> dict[str, dict[str, Figures]]:
    """Figures of each operation, by outage."""

    async def restart() -> None:
        await asyncio.to_thread(server.kill)
        returning = asyncio.create_task(asyncio.to_thread(server.start))
        await call(agent, figures["server killed and back"])
        await returning

    async def silence_all() -> None:
        wire.silence(new=True)
        await call(agent, figures["silent network"])

    async def silence_old() -> None:
        wire.silence()
        await call(agent, figures["old connections silent"])

    async def cut_old() -> None:
        wire.cut()
        wire.mend()
        await call(agent, figures["old connections dead"])

    outages = {
        "silent network": silence_all,
        "old connections silent": silence_old,
        "old connections dead": cut_old,
        "server killed and back": restart,
    }
    figures: dict[str, dict[str, Figures]] = {name: {} for name in outages}
    agent = Agent(settings)
    await agent.start()
    for outage in outages.values():
        for _ in range(ROUNDS):
            await call(agent, {})
            await outage()
            wire.mend()
    print("lost events:", await agent.count_lost(), "of", len(agent.accepted))
    await agent.close()
    return figures


async def main() -> None:
    before = machine.read_load()
    async with LocalNeo4j(jvm_flags=()) as server:
        with Wire(server.uri) as wire:
            username, password = server.auth
            settings = load_settings(uri=wire.uri, username=username, password=password, model="rules")
            figures = await measure(server, wire, settings)
    table = Table(title=f"Seconds with a timeout of {settings.limits.database_timeout:g} s")
    for column in ("outage", "operation", "most", "answers", "errors"):
        table.add_column(column)
    for outage, rows in figures.items():
        for name, row in rows.items():
            table.add_row(outage, name, f"{max(row.seconds):.1f}", str(row.answers), str(row.failures))
    console = machine.make_console()
    console.print(table)
    machine.print_about(console, {"load before": before, "load after": machine.read_load()})


if __name__ == "__main__":
    asyncio.run(main())
