"""Tell the memory services the same sessions, ask the same questions, and measure what comes back and what it costs."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from neo4j_graphrag.embeddings.base import Embedder

from benchmarks.compare.counter import Counter
from benchmarks.compare.rows import Contender, Peer, Row, Stage, Step, do_in_turn
from benchmarks.latency.clock import time_call
from benchmarks.percentile import compute_percentile
from benchmarks.quality import dialogue, ingest, tenants
from benchmarks.quality.answers import Answer, ask_questions
from benchmarks.quality.dialogue import Conversation, Question

APP = "compare"
FIRST = 10
"""Event ids of an answer that count, as in every table of recall of RESULTS.md."""
WARM_UP = 20
"""Questions that are asked before those that count, until the servers have planned and compiled what they run."""
SEED = 1


@dataclass(frozen=True, slots=True)
class Material:
    """Conversations whose questions are asked, and pairs of tenants who are hard to tell apart."""

    conversations: Sequence[Conversation]
    pairs: int

    @property
    def questions(self) -> list[tuple[Conversation, Question]]:
        """All of them."""
        return [(conversation, question) for conversation in self.conversations for question in conversation.questions]


class MemoryBench:
    """What one service is told and asked.

    Args:
        service: ADK's interface.
        counter: counts the statements of the process.
    """

    def __init__(self, service: BaseMemoryService, counter: Counter) -> None:
        self.service, self._counter = service, counter
        self._seconds: list[float] = []
        self._session_statements: list[int] = []
        self._search_statements: list[int] = []
        self._answers: list[Answer] = []
        self._tenants = self._leaked = self._found = 0

    async def add(self, session: Session) -> None:
        """Adds a session to memory."""
        before = self._counter.statements
        self._seconds.append(await time_call(partial(self.service.add_session_to_memory, session)) / 1_000)
        self._session_statements.append(self._counter.statements - before)

    async def warm_up(self, conversation: Conversation, question: Question) -> None:
        """Asks a question that does not count."""
        await self.service.search_memory(app_name=APP, user_id=conversation.id, query=question.text)

    async def ask(self, conversation: Conversation, question: Question) -> None:
        """Asks one of the user's questions."""
        turns = _group_by_text(conversation)

        async def search(user_id: str, query: str) -> list[MemoryEntry]:
            response = await self.service.search_memory(app_name=APP, user_id=user_id, query=query)
            return [name_events(entry, turns) for entry in response.memories]

        before = self._counter.statements
        self._answers += await ask_questions(search, [replace(conversation, questions=(question,))], first=FIRST)
        self._search_statements.append(self._counter.statements - before)

    async def try_tenants(self, pair: tuple[tenants.Tenant, tenants.Tenant]) -> None:
        """Adds what both said, and asks for each other's words and for their own."""
        for tenant in pair:
            for session in await make_sessions(_make_conversation(tenant), tenant.app_name):
                await self.service.add_session_to_memory(session)
        for tenant, other in (pair, pair[::-1]):
            self._leaked += await self._finds(tenant, other)
            self._found += await self._finds(tenant, tenant)
            self._tenants += 1

    async def _finds(self, tenant: tenants.Tenant, other: tenants.Tenant) -> bool:
        """Whether the tenant is given the words of the other, who may be the same, by asking for these very words."""
        response = await self.service.search_memory(
            app_name=tenant.app_name, user_id=tenant.user_id, query=other.texts[0]
        )
        return any(other.mark in repr(entry) for entry in response.memories)

    def make_figures(self) -> dict[str, float]:
        """Recall, costs, and who sees whose words."""
        milliseconds = [answer.milliseconds for answer in self._answers]
        return self.make_recall_figures() | {
            "tenants": self._tenants,
            "leaked": self._leaked,
            "found": self._found,
            "session_statements": statistics.median(self._session_statements),
            "session_seconds": statistics.median(self._seconds),
            "search_statements": statistics.median(self._search_statements),
            "search_p50": compute_percentile(milliseconds, 0.50),
            "search_p95": compute_percentile(milliseconds, 0.95),
        }

    def make_recall_figures(self) -> dict[str, float]:
        """In percent."""
        return {"questions": len(self._answers)} | {
            name: 100 * statistics.fmean(getattr(answer, name) for answer in self._answers)
            for name in ("recall", "ndcg", "recall_in_tokens")
        }


class RecallBench(MemoryBench):
    """A service that is told one user after the other, whose times and statements nothing is compared with."""

    def make_figures(self) -> dict[str, float]:
        """Recall alone."""
        return self.make_recall_figures()


async def compare(peers: Sequence[Peer], stage: Stage, material: Material, counter: Counter) -> tuple[list[Row], float]:
    """A row for each peer, in their order, and the milliseconds in the median that the model takes for a question."""
    together = [Contender(peer, partial(MemoryBench, counter=counter)) for peer in peers if not peer.forget]
    for contender in together:
        await contender.open(stage)
    sessions = [one for conversation in material.conversations for one in await make_sessions(conversation, APP)]
    await do_in_turn(together, _report("sessions", [methodcaller("add", session) for session in sessions]))
    questions = [methodcaller("warm_up", *asked) for asked in material.questions[:WARM_UP]]
    questions += [methodcaller("ask", *asked) for asked in material.questions]
    await do_in_turn(together, _report("questions", questions))
    embedding = await _time_embedding(stage.embedder, material)
    pairs = (tenants.make_pair(random.Random(f"{SEED} {number}")) for number in range(material.pairs))
    await do_in_turn(together, _report("tenants", [methodcaller("try_tenants", pair) for pair in pairs]))
    rows = {contender.peer.name: await contender.close() for contender in together}
    for peer in peers:
        if peer.forget:
            contender = Contender(peer, partial(RecallBench, counter=counter))
            await contender.open(stage)
            visits = [_make_visit(peer, conversation) for conversation in material.conversations]
            await do_in_turn([contender], _report(peer.name, visits))
            rows[peer.name] = await contender.close()
    return [rows[peer.name] for peer in peers], embedding


def _make_visit(peer: Peer, conversation: Conversation) -> Step:
    """One user alone: all sessions, all questions, and away again."""

    async def visit(bench: MemoryBench) -> None:
        sessions = await make_sessions(conversation, APP)
        for session in sessions:
            await bench.add(session)
        for question in conversation.questions:
            await bench.ask(conversation, question)
        for session in sessions:
            await peer.forget(bench.service, session)

    return visit


def _report(what: str, steps: Sequence[Step]) -> Iterator[Step]:
    """The steps, saying now and then on standard error how far they are."""
    for number, step in enumerate(steps):
        if number % 20 == 0:
            print(f"{what}: {number} of {len(steps)}", file=sys.stderr, flush=True)
        yield step


async def _time_embedding(embedder: Embedder, material: Material) -> float:
    calls = [partial(asyncio.to_thread, embedder.embed_query, question.text) for _, question in material.questions]
    return statistics.median([await time_call(call) for call in calls])


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
