"""Measure what remembering sessions and searching a well-filled store cost."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions.session import Session
from typing_extensions import override

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.models import prompts
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm
from benchmarks.latency.clock import time_call
from benchmarks.latency.counting import count_sent
from benchmarks.latency.result import Result
from benchmarks.latency.scale import Scale
from benchmarks.latency.services import USER
from benchmarks.latency.speech import Speaker
from benchmarks.percentile import compute_percentile

INGESTS_AT_ONCE = 4
PEERS = (
    "for 20 events neo4j-agent-memory 0.8.0 makes 381 round trips and 20 calls of the model, "
    "graphiti-core 0.31.2 60 queries and 15 to 27 calls an episode (counted earlier, not in this run)"
)


class Meter(HashEmbedder):
    """A hash embedder of MiniLM's size that knows how long it took."""

    def __init__(self) -> None:
        super().__init__(384)
        self.milliseconds = 0.0

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        start = time.perf_counter()
        try:
            return super().embed_documents(texts)
        finally:
            self.milliseconds += (time.perf_counter() - start) * 1_000


async def remember(settings: Settings, scale: Scale) -> AsyncIterator[Result]:
    """add_session_to_memory with a scripted model: how much is asked of whom, and how long it takes."""
    async with Neo4jSessionService(settings=settings) as sessions:
        for size in scale.remembered:
            stored = [
                await _store_session(sessions, Speaker(seed).make_events(size)) for seed in range(_spread_times(scale))
            ]
            costs = await _measure_costs(settings, stored, scale)
            what = f"add_session_to_memory, {size} events"
            yield Result(what, "ms", costs.milliseconds, note=f"with a scripted model, which answers at once; {PEERS}")
            yield Result("  calls of the model", "", costs.calls, 1)
            yield Result("  batches to embed", "", costs.batches, 1)
            yield Result("  transactions", "", costs.transactions, 3)
            yield Result("  statements", "", costs.statements, 12)
            foreign = [_make_session(Speaker(seed).make_events(size)) for seed in range(_spread_times(scale))]
            costs = await _measure_costs(settings, foreign, scale)
            yield Result("  statements, session stored elsewhere", "", costs.statements, 12)


@dataclass(frozen=True, slots=True)
class Costs:
    """What adding each session cost."""

    milliseconds: tuple[float, ...]
    calls: tuple[int, ...]
    batches: tuple[int, ...]
    transactions: tuple[int, ...]
    statements: tuple[int, ...]


async def _measure_costs(settings: Settings, sessions: list[Session], scale: Scale) -> Costs:
    """Of the last sessions only, those that count; the others warm the server up."""
    model, embedder = ScriptedLlm.from_replies(*[_reply_with_facts] * len(sessions)), Meter()
    rows = []
    async with Neo4jMemoryService(memory=GraphMemory(settings=settings, model=model, embedder=embedder)) as service:
        await service.prepare()
        for session in sessions:
            requests, batches = len(model.requests), embedder.calls
            with count_sent() as sent:
                milliseconds = await time_call(partial(service.add_session_to_memory, session))
            requests, batches = len(model.requests) - requests, embedder.calls - batches
            rows.append((milliseconds, requests, batches, sent.transactions, sent.statements))
    return Costs(*zip(*rows[-scale.rounds :], strict=True))


def _spread_times(scale: Scale) -> int:
    return scale.warm_up + scale.rounds


async def search(settings: Settings, scale: Scale) -> AsyncIterator[Result]:
    """search_memory among the memories of many users."""
    embedder, app_name = Meter(), _make_app_name()
    memory = GraphMemory(settings=settings, model="rules", embedder=embedder)
    middle, slowest, statements = [], [], []
    async with Neo4jMemoryService(memory=memory) as service:
        await service.prepare()
        filled = await time_call(partial(fill_store, service, app_name, scale))
        for round_ in range(-scale.warm_up, scale.rounds):
            with count_sent() as sent:
                spent = [
                    await _time_question(service, embedder, app_name, scale, round_ * scale.searches + n)
                    for n in range(scale.searches)
                ]
            if round_ >= 0:
                middle.append(compute_percentile(spent, 0.50))
                slowest.append(compute_percentile(spent, 0.95))
                statements.append(sent.statements / scale.searches)
    what = f"search_memory, {scale.users * scale.events_a_user:,} events of {scale.users} users"
    note = f"store filled through add_session_to_memory (rules, HashEmbedder) in {filled / 1_000:.0f} s"
    yield Result(f"{what}, p50", "ms", tuple(middle), note=note)
    yield Result("  p95, beyond the embedding", "ms", tuple(slowest), 50)
    yield Result("  statements", "", tuple(statements), 2)


async def _time_question(
    service: Neo4jMemoryService, embedder: Meter, app_name: str, scale: Scale, number: int
) -> float:
    """Milliseconds that a question takes, without those of its embedding."""
    user, before = number % scale.users, embedder.milliseconds
    arguments = {"app_name": app_name, "user_id": f"user-{user}", "query": Speaker(user).make_question(number)}
    total = await time_call(partial(service.search_memory, **arguments))
    return total - (embedder.milliseconds - before)


async def fill_store(service: Neo4jMemoryService, app_name: str, scale: Scale) -> None:
    """Fill a store with the memories of many users."""
    slots = asyncio.Semaphore(INGESTS_AT_ONCE)

    async def fill(number: int) -> None:
        async with slots:
            events = Speaker(number).make_events(scale.events_a_user)
            await service.add_session_to_memory(_make_session(events, app_name, f"user-{number}"))

    await fill(0)  # alone, because it also makes the vector indexes
    await asyncio.gather(*(fill(number) for number in range(1, scale.users)))


async def _store_session(sessions: Neo4jSessionService, events: list[Event]) -> Session:
    """A session as it mostly comes to memory: its events are in the graph already."""
    session = await sessions.create_session(app_name=_make_app_name(), user_id=USER)
    for event in events:
        await sessions.append_event(session, event)
    return session


def _make_session(events: list[Event], app_name: str | None = None, user_id: str = USER) -> Session:
    return Session(id=uuid.uuid4().hex, app_name=app_name or _make_app_name(), user_id=user_id, events=events)


def _make_app_name() -> str:
    return f"bench-{uuid.uuid4().hex[:12]}"


def _reply_with_facts(request: LlmRequest) -> str:
    """What a model might read in these turns: a fact a user's turn, each about somebody that the turn names."""
    [prompt] = (part.text or "" for part in request.contents[0].parts or ())
    lines = prompts.decode_lines(prompt, "conversation")
    turns = [line for line in lines if line.get("turn", -1) >= 0 and "role" not in line]
    named = {turn["turn"]: max((w for w in turn["text"].split() if w.isalpha()), key=len) for turn in turns}
    refs = {name: ref for ref, name in enumerate(dict.fromkeys(named.values()), start=1)}
    facts = [
        {
            "subject": 0,
            "predicate": "speaks_of",
            "object": refs[named[turn["turn"]]],
            "text": f"The user says: {turn['text'][:80]}",
            "quote": turn["text"][:60],
            "turns": [turn["turn"]],
            "speaker": "user",
        }
        for turn in turns
    ]
    entities = [{"ref": ref, "name": name} for name, ref in {"user": 0, **refs}.items()]
    return json.dumps({"entities": entities, "facts": facts})
