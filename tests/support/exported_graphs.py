"""Graphs to export, and a digest of what a graph holds of some users that knows nothing of exports."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.quality import replies
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adk_graph_memory import GraphMemory, Neo4jArtifactService, Neo4jSessionService
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm
from adk_graph_memory.graph.statements import LABELS
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Passage
from adk_graph_memory.testing import HashEmbedder

USER = "ada: é"
LOCAL = {"scope", "lock", "lease", "lease_until", "import_id", "import_open"}
"""Properties that belong to one graph."""


def make_memory(server: Any, prefix: str = "TestHash", store: Path | None = None, **options: Any) -> GraphMemory:
    options.setdefault("model", "rules")
    options.setdefault("embedder", HashEmbedder())
    chosen = {"artifact_store": str(store)} if store else {}
    return GraphMemory(settings=server.settings(label_prefix=prefix, **chosen), **options)


async def fill_user(server: Any, folder: Path, app_name: str, user_id: str = USER) -> None:
    """A conversation with a model's recorded replies, its sessions with states, and artifacts here and in a store."""
    settings = server.settings(label_prefix="TestHash", artifact_store=str(folder / "store"))
    owner, talk = {"app_name": app_name, "user_id": user_id}, replies.load_conversation("clinic")
    model = RecordedLlm.from_recording(replies.load_recording("clinic"))
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        Neo4jArtifactService(settings=settings) as artifacts,
        make_memory(server, model=model) as memory,
    ):
        for number, told in enumerate(talk.sessions):
            state = {"app:mood": "fine", "user:diet": "vegan", "step": number}
            session = await sessions.create_session(**owner, session_id=told.id, state=state)
            for event in told.make_events():
                await sessions.append_event(session, event)
            turns = memory_codec.make_turns(told.make_events(), zone=talk.zone)
            await memory.remember(turns, **owner, session_id=told.id, metadata={"from": "clinic"})
        actions = EventActions(state_delta={"user:diet": "steak", "step": 99})
        await sessions.append_event(session, Event(author="agent", invocation_id="last", actions=actions))
        for size in (10, 200_000):
            part = types.Part(inline_data=types.Blob(data=b"\x89" * size, mime_type="image/png"))
            await artifacts.save_artifact(**owner, session_id=session.id, filename="x-ray", artifact=part)
        text = types.Part.from_text(text="a note")
        await artifacts.save_artifact(**owner, filename="user:note", artifact=text)


async def digest_users(memory: GraphMemory, *scopes: Scope, without: Sequence[str] = ()) -> tuple[str, int, int]:
    """A digest of all nodes and relationships of users, and how many there are.

    Nodes are told apart by nothing but their labels and properties, so two graphs with equal digests are equal.
    """
    connection = memory.connection
    await connection.prepare()
    prefix = connection.settings.label_prefix
    given = {"scopes": [scope.key for scope in scopes], "labels": [f"{prefix}{label}" for label in LABELS]}
    nodes = await connection.run_cypher(
        "MATCH (n) WHERE n.scope IN $scopes AND any(l IN labels(n) WHERE l IN $labels) "
        "RETURN elementId(n) AS id, labels(n) AS labels, properties(n) AS properties",
        given,
    )
    edges = await connection.run_cypher(
        "MATCH (n)-[r]->(m) WHERE n.scope IN $scopes AND any(l IN labels(n) WHERE l IN $labels) "
        "RETURN elementId(n) AS start, type(r) AS type, properties(r) AS properties, elementId(m) AS end",
        given,
    )
    dropped = {*LOCAL, *without}
    known = {
        row["id"]: repr(
            (
                sorted(label.removeprefix(prefix) for label in row["labels"]),
                sorted((name, repr(value)) for name, value in row["properties"].items() if name not in dropped),
            )
        )
        for row in nodes
    }
    lines = [
        repr((known[row["start"]], row["type"], sorted(row["properties"].items()), known[row["end"]])) for row in edges
    ]
    text = "\n".join(sorted([*known.values(), *lines]))
    return hashlib.sha256(text.encode()).hexdigest(), len(nodes), len(edges)


FILL = """
UNWIND range(1, $turns) AS n
CREATE (e:@Event {scope: $scope, session_uid: 'u1', session_id: 's1', seq: n, id: 'e' + toString(n), author: 'user',
  role: 'user', timestamp: 1.75e9 + n / 7.0, offset: 3600, text: 'I saw bird number ' + toString(n)})
WITH e, n
CALL (e, n) {
  WITH e, n WHERE n % 2 = 0
  SET e:@Memory, e.memory_id = 'event:' + e.id, e.kind = 'event', e.origin = 'user', e.open = true, e.tokens_a = $bytes
  WITH e, n
  CALL db.create.setNodeVectorProperty(e, 'embedding_a', [i IN range(1, 64) | toFloat(n % (i + 1)) / 64])
  CREATE (f:@Fact:@Memory {scope: $scope, id: 'f' + toString(n), memory_id: 'fact:' + toString(n), kind: 'fact',
    open: true, direct: false, support: 1, text: 'Bird ' + toString(n), predicate: 'saw', modality: 'asserted',
    author: 'user', origin: 'user', timestamp: 1.75e9 + n, state: 'current',
    recorded_at: datetime('2026-03-02T12:00:00.123456789Z') + duration({nanoseconds: n}),
    valid_from: datetime({year: 2026, month: 3, timezone: '+05:30'}), valid_from_precision: 'about'})
  CREATE (f)-[:SUPPORTED_BY {key: 'k', quote: 'bird number ' + toString(n), start: 6, end: 20, verified: true}]->(e)
}
WITH e, n
MATCH (s:@Session {scope: $scope, id: 's1'})
CREATE (s)-[:HAS_EVENT]->(e)
"""
CHAIN = """
MATCH (e:@Event {scope: $scope, session_uid: 'u1'})
MATCH (next:@Event {scope: $scope, session_uid: 'u1', id: 'e' + toString(e.seq + 1)})
CREATE (e)-[:NEXT]->(next)
"""


async def fill_birds(memory: GraphMemory, scope: Scope, turns: int) -> None:
    """A user of one session: half of the turns are remembered, each of them with a fact."""
    connection = memory.connection
    await connection.prepare()
    await memory.engine.vectors.embed_passages([Passage("bird")])  # from now on slot a is live
    prefix = connection.settings.label_prefix
    start = (
        "CREATE (u:@User {scope: $scope, app_name: $app_name, user_id: $user_id, state: [], writes: 1}) "
        "CREATE (u)-[:HAS_SESSION]->(:@Session {scope: $scope, id: 's1', uid: 'u1', app_name: $app_name, "
        "user_id: $user_id, state: [], revision: $turns, create_time: 1.0, last_update_time: 2.0})"
    )
    given = {"scope": scope.key, "app_name": scope.app_name, "user_id": scope.user_id, "turns": turns}
    for text in (start, FILL, CHAIN):
        await connection.run_cypher(text.replace("@", prefix), given | {"bytes": bytes(range(200))})
