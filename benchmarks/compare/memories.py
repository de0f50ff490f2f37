"""The memory services that are compared, and what is measured of each through ADK's interface."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import neo4j
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session

from adk_graph_memory import GraphMemory, Neo4jMemoryService
from benchmarks.compare import agent_memory, hybrid
from benchmarks.compare.counter import Counter
from benchmarks.compare.rows import Peer, Stage
from benchmarks.percentile import compute_percentile
from benchmarks.quality import dialogue, ingest, tenants
from benchmarks.quality.answers import Answer, ask_questions
from benchmarks.quality.dialogue import Conversation

APP = "compare"
FIRST = 10
"""Event ids of an answer that count, as in every table of recall of RESULTS.md."""
SEED = 1


@asynccontextmanager
async def open_ours(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """Facts read by rules."""
    async with stage.serve() as settings:
        memory = GraphMemory(settings=settings, model="rules", embedder=stage.embedder)
        async with Neo4jMemoryService(memory=memory) as service:
            await service.prepare()
            yield service


@asynccontextmanager
async def open_in_memory(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """As it is."""
    yield InMemoryMemoryService()


@asynccontextmanager
async def open_sqlite(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """With full-text search, which it uses by default where SQLite has it."""
    from google.adk.memory import SqliteMemoryService

    service = SqliteMemoryService(stage.folder / "memory.db", fts="on", max_results=FIRST)
    try:
        yield service
    finally:
        await service.close()


@asynccontextmanager
async def open_hybrid(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """With a driver of its own."""
    async with stage.serve() as settings:
        auth = settings.username, settings.password.get_secret_value()
        with neo4j.GraphDatabase.driver(str(settings.uri), auth=auth) as driver:
            yield await asyncio.to_thread(hybrid.HybridMemoryService, driver, stage.embedder)


@asynccontextmanager
async def open_agent_memory(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """As a Runner calls it."""
    async with stage.serve() as settings, agent_memory.open_agent_memory(settings, stage.embedder) as service:
        yield service


@asynccontextmanager
async def open_agent_memory_apart(stage: Stage) -> AsyncIterator[BaseMemoryService]:
    """With no threshold."""
    async with (
        stage.serve() as settings,
        agent_memory.open_agent_memory(settings, stage.embedder, threshold=0.0) as service,
    ):
        yield service


LOCK = "neo4j-agent-memory"
PEERS = (
    Peer("adk-graph-memory", "facts read by rules", open_ours, is_ours=True),
    Peer("ADK InMemoryMemoryService", "as it is: words in common, in the process's memory", open_in_memory),
    Peer("ADK SqliteMemoryService", "`fts='on', max_results=10`: words by BM25, on a file in the process", open_sqlite),
    Peer(
        "plain HybridCypherRetriever",
        "`benchmarks/compare/hybrid.py`: a node a turn, the best 100 of each index, of these the user's best ten",
        open_hybrid,
    ),
    Peer("neo4j-agent-memory", "on Bolt, `llm=None`, no extraction; called as ADK calls it", open_agent_memory, LOCK),
    Peer(
        "neo4j-agent-memory, a user at a time",
        "the same with `threshold=0`, which ADK does not pass, and no other user's messages in the graph",
        open_agent_memory_apart,
        LOCK,
        forget=agent_memory.clear_session,
    ),
)


@dataclass(frozen=True, slots=True)
class Told:
    """Conversations whose questions are asked, and pairs of tenants who are hard to tell apart."""

    conversations: Sequence[Conversation]
    pairs: int


async def measure(service: BaseMemoryService, peer: Peer, told: Told, counter: Counter) -> Mapping[str, float]:
    """The figures of the peer's row."""
    return await _Bench(service, counter).measure(told, peer)


class _Bench:
    """One service that is told everything and asked everything.

    Args:
        service: ADK's interface.
        counter: counts the statements of the process.
    """

    def __init__(self, service: BaseMemoryService, counter: Counter) -> None:
        self._service, self._counter = service, counter
        self._adding: list[float] = []
        self._adding_statements: list[int] = []
        self._searching_statements: list[int] = []

    async def measure(self, told: Told, peer: Peer) -> Mapping[str, float]:
        """Recall and costs, and who sees whose words where users share a graph."""
        groups = [[one] for one in told.conversations] if peer.forget else [told.conversations]
        answers: list[Answer] = []
        for group in groups:
            sessions = [session for one in group for session in await make_sessions(one, APP)]
            for session in sessions:
                await self._add(session)
            await self._ask(group)  # until the server has planned and compiled what it runs
            answers += await self._ask(group)
            if peer.forget:
                for session in sessions:
                    await peer.forget(self._service, session)
        figures = self._make_figures(answers)
        return figures if peer.forget else figures | await self._count_leaks(told.pairs)

    async def _add(self, session: Session) -> None:
        start, before = time.perf_counter(), self._counter.statements
        await self._service.add_session_to_memory(session)
        self._adding.append(time.perf_counter() - start)
        self._adding_statements.append(self._counter.statements - before)

    async def _ask(self, conversations: Sequence[Conversation]) -> list[Answer]:
        turns = {one.id: _group_by_text(one) for one in conversations}

        async def search(user_id: str, query: str) -> list[MemoryEntry]:
            before = self._counter.statements
            response = await self._service.search_memory(app_name=APP, user_id=user_id, query=query)
            self._searching_statements.append(self._counter.statements - before)
            return [name_events(entry, turns[user_id]) for entry in response.memories]

        return await ask_questions(search, conversations, first=FIRST)

    def _make_figures(self, answers: Sequence[Answer]) -> dict[str, float]:
        milliseconds = [answer.milliseconds for answer in answers]
        return {
            "questions": len(answers),
            "recall": 100 * statistics.fmean(answer.recall for answer in answers),
            "ndcg": 100 * statistics.fmean(answer.ndcg for answer in answers),
            "recall_in_tokens": 100 * statistics.fmean(answer.recall_in_tokens for answer in answers),
            "session_statements": statistics.median(self._adding_statements),
            "session_seconds": statistics.median(self._adding),
            "search_statements": statistics.median(self._searching_statements),
            "search_p50": compute_percentile(milliseconds, 0.50),
            "search_p95": compute_percentile(milliseconds, 0.95),
        }

    async def _count_leaks(self, pairs: int) -> dict[str, float]:
        """How many tenants find what the other of their pair said, and how many what they said themselves."""
        leaked = found = 0
        for number in range(pairs):
            pair = tenants.make_pair(random.Random(f"{SEED} {number}"))
            for tenant in pair:
                for session in await make_sessions(_make_conversation(tenant), tenant.app_name):
                    await self._service.add_session_to_memory(session)
            for tenant, other in (pair, pair[::-1]):
                leaked += await self._finds(tenant, other)
                found += await self._finds(tenant, tenant)
        return {"tenants": 2 * pairs, "leaked": leaked, "found": found}

    async def _finds(self, tenant: tenants.Tenant, other: tenants.Tenant) -> bool:
        """Whether the tenant is given the words of the other, who may be the same, by asking for these very words."""
        response = await self._service.search_memory(
            app_name=tenant.app_name, user_id=tenant.user_id, query=other.texts[0]
        )
        return any(other.mark in repr(entry) for entry in response.memories)


async def make_sessions(conversation: Conversation, app_name: str) -> list[Session]:
    """The conversation's sessions as a Runner would hand them on; their ids are nobody else's, as ADK's own are."""
    own = (replace(session, id=f"{conversation.id}-{session.id}") for session in conversation.sessions)
    conversation = replace(conversation, sessions=tuple(own))
    return [one async for one in ingest.store_sessions(conversation, InMemorySessionService(), app_name=app_name)]


def name_events(entry: MemoryEntry, turns: Mapping[str, Sequence[str]]) -> MemoryEntry:
    """The entry with the ids of the events it rests on, where :mod:`benchmarks.quality.scores` looks for them.

    Args:
        entry: ours names its sources and ADK's the event; one that names none is known by its text.
        turns: the ids of the user's turns by their text.
    """
    about = entry.custom_metadata or {}
    if about.get("source_event_ids"):
        return entry
    text = "\n".join(part.text or "" for part in entry.content.parts or ())
    sources = [about["event_id"]] if "event_id" in about else list(turns.get(text, [entry.id]))
    return entry.model_copy(update={"custom_metadata": about | {"source_event_ids": sources}})


def _group_by_text(conversation: Conversation) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for session in conversation.sessions:
        for turn in session.turns:
            ids.setdefault(turn.text, []).append(turn.id)
    return ids


def _make_conversation(tenant: tenants.Tenant) -> Conversation:
    turns = tuple(dialogue.Turn(turn.id, turn.author, turn.text, turn.at) for turn in tenant.turns)
    return Conversation(tenant.user_id, (dialogue.Session(tenant.session_id, turns),), ())
