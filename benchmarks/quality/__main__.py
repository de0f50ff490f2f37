"""``python -m benchmarks.quality PATH``: LoCoMo is ingested through ADK's interface and all its questions are asked."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from rich.table import Table

from adk_graph_memory import Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.settings import Settings
from benchmarks import machine, server
from benchmarks.percentile import percentile
from benchmarks.quality import ingest, locomo, scores

FIRST, TOKENS = 10, 1_024
PREFIX = "Locomo"


@dataclass(frozen=True, slots=True)
class Answer:
    """How well one question was answered, and how fast."""

    category: int
    recall: float
    ndcg: float
    recall_in_tokens: float
    milliseconds: float


async def asked(question: locomo.Question, service: BaseMemoryService, *, app_name: str, user_id: str) -> Answer:
    """What the service finds for the question, scored."""
    start = time.perf_counter()
    response = await service.search_memory(app_name=app_name, user_id=user_id, query=question.text)
    milliseconds = (time.perf_counter() - start) * 1_000
    first = scores.event_ids(response.memories)[:FIRST]
    affordable = scores.event_ids(scores.within(response.memories, TOKENS))
    return Answer(
        question.category,
        scores.recall(first, question.evidence),
        scores.ndcg(first, question.evidence, FIRST),
        scores.recall(affordable, question.evidence),
        milliseconds,
    )


async def measured(
    settings: Settings, conversations: Sequence[locomo.Conversation]
) -> tuple[dict[str, list[Answer]], float]:
    """Every service's answers, asked in turn, and the seconds that ours took to ingest."""
    app_name = f"locomo-{uuid.uuid4().hex[:12]}"
    in_memory, seconds = InMemoryMemoryService(), 0.0
    answers: dict[str, list[Answer]] = {"Neo4jMemoryService": [], "InMemoryMemoryService": []}
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        Neo4jMemoryService(settings=settings, model="rules") as graph,
    ):
        await graph.prepare()
        for conversation in conversations:
            start = time.perf_counter()
            added = await ingest.remember(conversation, sessions, graph, app_name=app_name)
            seconds += time.perf_counter() - start
            for session in added:
                await in_memory.add_session_to_memory(session)
        services: Mapping[str, BaseMemoryService] = dict(zip(answers, (graph, in_memory), strict=True))
        for conversation in conversations:
            for question in conversation.answerable:
                for name, service in services.items():
                    answer = await asked(question, service, app_name=app_name, user_id=conversation.id)
                    answers[name].append(answer)
    return answers, seconds


def table(answers: Mapping[str, Sequence[Answer]]) -> Table:
    """A line a service and category, percent; and all of them together."""
    shown = Table(title="LoCoMo, evidence found by search_memory, percent")
    columns = (
        "service",
        "questions",
        "n",
        f"R@{FIRST}",
        f"nDCG@{FIRST}",
        f"R in {TOKENS:,} tokens",
        "p50 ms",
        "p95 ms",
    )
    for i, column in enumerate(columns):
        shown.add_column(column, justify="right" if i > 1 else "left", no_wrap=True)
    for name, of_service in answers.items():
        for category in (*locomo.ANSWERABLE, None):
            chosen = [answer for answer in of_service if category in (None, answer.category)]
            if chosen:
                shown.add_row(name, locomo.CATEGORIES.get(category or 0, "all"), *_cells(chosen))
        shown.add_section()
    return shown


def _cells(answers: Sequence[Answer]) -> list[str]:
    shares = [statistics.fmean(getattr(a, field) for a in answers) for field in ("recall", "ndcg", "recall_in_tokens")]
    spent = [answer.milliseconds for answer in answers]
    times = [percentile(spent, share) for share in (0.50, 0.95)]
    return [str(len(answers)), *(f"{100 * share:.1f}" for share in shares), *(f"{value:.1f}" for value in times)]


async def main(path: Path) -> None:
    conversations, before = locomo.load(path), machine.load()
    async with server.serving(PREFIX) as (settings, which):
        answers, seconds = await measured(settings, conversations)
    console = machine.console()
    console.print(table(answers))
    turns = sum(len(session.turns) for conversation in conversations for session in conversation.sessions)
    about = machine.described() | {"load before": before, "load after": machine.load(), "server": which}
    about["ingest"] = f"{seconds:.0f} s for {turns:,} turns (append_event and add_session_to_memory, rules and MiniLM)"
    for name, value in about.items():
        console.print(f"{name}: {value}", highlight=False, soft_wrap=True)


parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
parser.add_argument("path", type=Path, help="a file in LoCoMo's JSON format")
asyncio.run(main(parser.parse_args().path))
