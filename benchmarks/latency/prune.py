"""``python -m benchmarks.latency.prune``: what appends cost while 100,000 nodes that have expired are pruned.

Writers append to sessions of their own, first undisturbed and then beside the prune, on the same server in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from google.adk.sessions import Session

from adk_graph_memory import GraphMemory, Neo4jSessionService, PruneReport, Statement
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.latency import report
from benchmarks.latency.clock import time_call
from benchmarks.latency.result import Result
from benchmarks.latency.speech import Speaker
from benchmarks.percentile import compute_percentile

PAST = datetime(2020, 1, 1, tzinfo=UTC)
EVENTS_A_SESSION = 49
ROWS = 250
PAUSE = 0.02
"""Seconds between two appends of a writer."""
FILL = """
UNWIND $sessions AS session
MERGE (u:@User {scope: $scope}) ON CREATE SET u.app_name = $app_name, u.user_id = $user_id, u.state = []
CREATE (u)-[:HAS_SESSION]->(s:@Session {scope: $scope, id: session, uid: session, app_name: $app_name,
  user_id: $user_id, state: [], revision: $events, create_time: $at, last_update_time: $at, expires_at: $at})
WITH s
UNWIND range(1, $events) AS seq
CREATE (s)-[:HAS_EVENT]->(:@Event {scope: $scope, session_uid: s.uid, session_id: s.id, seq: seq, id: toString(seq),
  author: 'user', timestamp: $at, text: $text, body: $text})
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is pruned, and who writes beside it."""

    nodes: int = 100_000
    users: int = 20
    facts: int = 10_000
    """of the nodes; the others are sessions and their events"""
    writers: int = 4
    appends: int = 100
    """of each writer, undisturbed"""
    warm_up: int = 20

    @property
    def sessions(self) -> int:
        """Sessions that have expired."""
        return (self.nodes - self.facts) // (EVENTS_A_SESSION + 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds of each append, before the prune and beside it; what went, in how many seconds."""

    undisturbed: list[float]
    beside: list[float]
    pruned: PruneReport
    seconds: float
    nodes_left: int


async def fill(memory: GraphMemory, app_name: str, extent: Extent) -> None:
    """Write what has expired, and nothing else."""
    connection = memory.connection
    await connection.prepare()
    text = FILL.replace("@", connection.settings.label_prefix)
    given = {"events": EVENTS_A_SESSION, "at": PAST.timestamp(), "text": "What was said a long time ago. " * 8}
    for number in range(extent.users):
        owner = {"app_name": app_name, "user_id": f"user-{number}"}
        sessions = [f"{app_name}-{n}" for n in range(number, extent.sessions, extent.users)]
        for start in range(0, len(sessions), ROWS // 10):
            rows: dict[str, Any] = {"sessions": sessions[start : start + ROWS // 10], "scope": Scope(**owner).key}
            await connection.run_cypher(text, given | owner | rows)
        facts = [f"Fact {n} of long ago" for n in range(number, extent.facts, extent.users)]
        statements = [Statement(fact, PAST, id=fact, expires_at=PAST) for fact in facts]
        for start in range(0, len(statements), ROWS):
            await memory.user(**owner).add_statements(statements[start : start + ROWS])


async def count_nodes(memory: GraphMemory, app_name: str, extent: Extent) -> int:
    """How many nodes the users have whose things have expired, but for the nodes of the users themselves."""
    connection = memory.connection
    await connection.prepare()
    text = "MATCH (n) WHERE n.scope IN $scopes AND (n:@Session OR n:@Event OR n:@Memory) RETURN count(n) AS nodes"
    scopes = [Scope(app_name, f"user-{number}").key for number in range(extent.users)]
    [row] = await connection.run_cypher(text.replace("@", connection.settings.label_prefix), {"scopes": scopes})
    return int(row["nodes"])


async def append_until(
    service: Neo4jSessionService, session: Session, number: int, appends: int | None, end: asyncio.Event
) -> list[float]:
    """Append to a session, so many times or until the end; the milliseconds of each append."""
    spent: list[float] = []
    speaker = Speaker(number)
    while not end.is_set() and (appends is None or len(spent) < appends):
        [event] = speaker.make_events(1)
        event.id = uuid.uuid4().hex
        spent.append(await time_call(lambda event=event: service.append_event(session, event)))  # type: ignore[misc]
        await asyncio.sleep(PAUSE)
    return spent


async def measure(settings: Settings, extent: Extent) -> Measured:
    """Fill a graph, append undisturbed, and then beside the prune."""
    app_name, end = f"prune_{uuid.uuid4().hex[:12]}", asyncio.Event()
    async with (
        Neo4jSessionService(settings=settings) as service,
        GraphMemory(settings=settings, embedder=False, model="rules") as memory,
    ):
        await fill(memory, app_name, extent)
        sessions = [
            await service.create_session(app_name=app_name, user_id=f"writer-{n}") for n in range(extent.writers)
        ]

        async def write(appends: int | None) -> list[float]:
            writers = (append_until(service, session, n, appends, end) for n, session in enumerate(sessions))
            return [spent for writer in await asyncio.gather(*writers) for spent in writer]

        await write(extent.warm_up)
        undisturbed = await write(extent.appends)
        writing, start = asyncio.create_task(write(None)), time.perf_counter()
        pruned = await memory.prune(app_name=app_name)
        seconds = time.perf_counter() - start
        end.set()
        beside = await writing
        return Measured(undisturbed, beside, pruned, seconds, await count_nodes(memory, app_name, extent))


async def main(arguments: argparse.Namespace) -> None:
    about = machine.describe_machine() | {"load before": machine.read_load()}
    extent = Extent(nodes=arguments.nodes, facts=arguments.nodes // 10)
    async with server.serve("Prune") as (settings, which):
        print(f"{extent.nodes:,} nodes …", file=sys.stderr, flush=True)
        measured = await measure(settings, extent)
    results = [
        Result(
            f"append beside a prune of {extent.nodes:,} nodes, p{share}",
            "ms",
            (compute_percentile(measured.beside, share / 100),),
            bar,
            peer="undisturbed",
            theirs=(compute_percentile(measured.undisturbed, share / 100),),
        )
        for share, bar in ((50, None), (95, 2), (99, None))
    ]
    results.append(Result("  nodes pruned in a second", "", (extent.nodes / measured.seconds,), more_is_better=True))
    about |= {
        "load after": machine.read_load(),
        "server": which,
        "pruned": ", ".join(f"{count:,} {kind}" for kind, count in asdict(measured.pruned).items() if count)
        + f", {measured.nodes_left:,} nodes left",
        "appends": f"{len(measured.undisturbed):,} undisturbed, {len(measured.beside):,} beside, by {extent.writers}",
    }
    report.show(machine.make_console(), results, about)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.prune", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000, help="nodes that have expired")
    asyncio.run(main(parser.parse_args()))
