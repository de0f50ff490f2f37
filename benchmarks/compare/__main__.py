"""``python -m benchmarks.compare``: our services beside what else one would use, in one run, and one page of tables.

The same sessions are added to every memory service and the same questions asked, through ADK's interface, with the
same embedder, in turn. Each that needs a Neo4j has one to itself. Packages that the environment lacks are installed
from ``benchmarks/compare/locks`` into a folder of their own. A peer that cannot be installed, or fails, has a row that
says so.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from adk_graph_memory.models.local import LocalEmbedder
from benchmarks import machine, server
from benchmarks.compare import memories, memory_bench, report, sessions
from benchmarks.compare.counter import count_statements
from benchmarks.compare.rows import Peer, Row, Stage
from benchmarks.quality import chats, locomo
from benchmarks.quality.dialogue import Conversation

PACKAGES = Path(__file__).parents[2] / ".venv-compare"
FIRST, PAIRS, ROUNDS = 2, 50, 20


async def compare(
    arguments: argparse.Namespace, conversations: Sequence[Conversation], embedder: LocalEmbedder
) -> tuple[list[Row], list[Row], float]:
    """The rows of the memory services and of the session services, and the milliseconds of an embedding."""

    def choose(peers: Sequence[Peer]) -> list[Peer]:
        return [peer for peer in peers if not arguments.peer or peer.name in arguments.peer]

    material = memory_bench.Material(conversations, arguments.pairs)
    with tempfile.TemporaryDirectory(prefix="adk-graph-memory-") as folder, count_statements() as counter:
        stage = Stage(embedder, Path(folder), PACKAGES)
        of_memories, embedding = await memory_bench.compare(choose(memories.PEERS), stage, material, counter)
        of_sessions = await sessions.compare(choose(sessions.PEERS), stage, arguments.rounds, counter)
    return of_memories, of_sessions, embedding


async def main(arguments: argparse.Namespace) -> int:
    """Compares, prints and writes; the exit status is 1 if a service of ours failed."""
    logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)  # peers use what is deprecated, in each search
    before, embedder = machine.read_load(), LocalEmbedder()
    conversations = (locomo.load(arguments.locomo) if arguments.locomo else chats.load())[: arguments.first]
    conversations = [select_questions(conversation, arguments.questions) for conversation in conversations]
    embedder.embed_query("Is it loaded?")
    of_memories, of_sessions, embedding = await compare(arguments, conversations, embedder)
    about = machine.describe_machine("sentence-transformers", "neo4j-agent-memory") | {
        "server": server.describe_own(),
        "embedder": f"{embedder.model}, {embedding:.1f} ms a question, which each search by vectors contains",
        "threads of the embedder": os.environ.get("OMP_NUM_THREADS", "as many as cores"),
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
