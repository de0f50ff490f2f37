"""``python -m benchmarks.compare``: our services beside what else one would use, in one run, and one page of tables.

The same sessions are added to every memory service and the same questions asked, through ADK's interface, with the
same embedder; each that needs a Neo4j gets an empty one. Peers whose packages the environment lacks are installed by
``benchmarks/compare/locks`` into a folder of their own. One that cannot be installed, or fails, has a row that says so.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from adk_graph_memory.embeddings import LocalEmbedder
from benchmarks import machine, server
from benchmarks.compare import memories, report, sessions
from benchmarks.compare.counter import count_statements
from benchmarks.compare.rows import Measure, Peer, Row, Stage, make_row
from benchmarks.latency.clock import time_call
from benchmarks.quality import chats, locomo
from benchmarks.quality.dialogue import Conversation

PACKAGES = Path(__file__).parents[2] / ".venv-compare"
FIRST, PAIRS, ROUNDS = 4, 100, 20


async def compare(peers: Sequence[Peer], names: Sequence[str], stage: Stage, measure: Measure) -> list[Row]:
    """A row for each peer, or for each of those names."""
    rows = []
    for peer in peers:
        if not names or peer.name in names:
            print(f"{peer.name} …", file=sys.stderr, flush=True)
            rows.append(await make_row(peer, stage, measure))
    return rows


async def time_embedding(embedder: LocalEmbedder, conversations: Sequence[Conversation]) -> float:
    """Milliseconds in the median that the model alone takes for a question."""
    questions = [question.text for conversation in conversations for question in conversation.questions]
    embedder.embed_query(questions[0])  # loads it
    return statistics.median(
        [await time_call(partial(asyncio.to_thread, embedder.embed_query, question)) for question in questions]
    )


async def compare_all(arguments: argparse.Namespace, told: memories.Told, embedder: LocalEmbedder) -> list[list[Row]]:
    """The rows of the memory services, and those of the session services."""

    async def measure_memory(service: Any, peer: Peer) -> Mapping[str, float]:
        return await memories.measure(service, peer, told, counter)

    async def measure_sessions(service: Any, _: Peer) -> Mapping[str, float]:
        return await sessions.measure(service, arguments.rounds, counter)

    with tempfile.TemporaryDirectory(prefix="adk-graph-memory-") as folder, count_statements() as counter:
        stage = Stage(embedder, Path(folder), PACKAGES)
        return [
            await compare(memories.PEERS, arguments.peer, stage, measure_memory),
            await compare(sessions.PEERS, arguments.peer, stage, measure_sessions),
        ]


async def main(arguments: argparse.Namespace) -> int:
    """Compares, prints and writes; the exit status is 1 if a service of ours failed."""
    logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)  # peers use what is deprecated, in each search
    before, embedder = machine.read_load(), LocalEmbedder()
    conversations = (locomo.load(arguments.locomo) if arguments.locomo else chats.load())[: arguments.first]
    conversations = [select_questions(conversation, arguments.questions) for conversation in conversations]
    embedding = await time_embedding(embedder, conversations)
    of_memories, of_sessions = await compare_all(arguments, memories.Told(conversations, arguments.pairs), embedder)
    about = machine.describe_machine("sentence-transformers", "neo4j-agent-memory") | {
        "server": server.describe_own(),
        "embedder": f"{embedder.model}, {embedding:.1f} ms a question, which each search by vectors contains",
        "told": describe_conversations(conversations, arguments),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "load before": before,
        "load after": machine.read_load(),
    }
    write(arguments, of_memories, of_sessions, about)
    return int(has_ours_failed([*of_memories, *of_sessions]))


def has_ours_failed(rows: Sequence[Row]) -> bool:
    """Whether a service of this project has no figures."""
    ours = {peer.name for peer in (*memories.PEERS, *sessions.PEERS) if peer.is_ours}
    return any(row.error for row in rows if row.name in ours)


def select_questions(conversation: Conversation, count: int | None) -> Conversation:
    """The conversation with the first of its questions that somebody answered."""
    answerable = [question for question in conversation.questions if question.evidence]
    return replace(conversation, questions=tuple(answerable[:count]))


def describe_conversations(conversations: Sequence[Conversation], arguments: argparse.Namespace) -> str:
    """How much was told and asked."""
    sizes = [len(session.turns) for conversation in conversations for session in conversation.sessions]
    questions = sum(len(conversation.questions) for conversation in conversations)
    return (
        f"{len(conversations)} users of {'LoCoMo' if arguments.locomo else 'chats'}, {len(sizes)} sessions "
        f"of {statistics.median(sizes):g} turns in the median, {questions} questions; {2 * arguments.pairs} tenants"
    )


def write(
    arguments: argparse.Namespace, of_memories: Sequence[Row], of_sessions: Sequence[Row], about: dict[str, str]
) -> None:
    """Prints the page, and writes the files that were asked for."""
    page = report.format_markdown(of_memories, of_sessions, about)
    print(page)
    given = {name: str(value) if isinstance(value, Path) else value for name, value in vars(arguments).items()}
    files = {arguments.markdown: page, arguments.json: report.format_json(of_memories, of_sessions, about, given)}
    for path, text in files.items():
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def parse_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What is told to whom, and where the tables go."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    names = dict.fromkeys(peer.name for peer in (*memories.PEERS, *sessions.PEERS))
    parser.add_argument("--first", type=int, default=FIRST, metavar="N", help="users who are told, default %(default)s")
    parser.add_argument("--questions", type=int, metavar="N", help="only the first questions of each user")
    parser.add_argument("--locomo", type=Path, metavar="PATH", help="a file in LoCoMo's JSON format, instead of chats")
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N", help="of tenants, default %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="sessions stored, default %(default)s")
    parser.add_argument("--peer", action="append", default=[], choices=names, help="only this; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page there, too")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parse_arguments())))
