"""Measure what it costs to read a second memory: the evidence is one's own, or lies in what a group shares.

Each conversation is remembered for its own user, and for a group. Every question is asked of the user's memory alone;
of it and of the group that shares the next conversation; and by that conversation's user, of their own memory and of
the group that shares the evidence. By rules, with the default embedder.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from google.adk.memory.memory_entry import MemoryEntry
from rich.table import Table

from adk_graph_memory import GraphMemory, Neo4jSessionService, SharedMemory
from adk_graph_memory.adk import memory_codec
from benchmarks import machine, server
from benchmarks.quality import chats, ingest, locomo
from benchmarks.quality.answers import ask_questions, format_cells
from benchmarks.quality.dialogue import Conversation

APP = "shared-bench"


async def share(memory: GraphMemory, conversation: Conversation, sessions: Neo4jSessionService) -> None:
    """Remember a conversation for the group of its name, whose members have names."""
    async for session in ingest.store_sessions(conversation, sessions, app_name=f"{APP}-sessions"):
        turns = memory_codec.make_turns(session.events)
        named = [replace(turn, author=conversation.id) if turn.author == "user" else turn for turn in turns]
        group = SharedMemory(group=conversation.id)
        await memory.remember(named, app_name=APP, user_id=group, session_id=session.id)


async def measure(memory: GraphMemory, conversations: Sequence[Conversation], table: Table) -> None:
    """Ask all questions in each of the three ways."""
    nexts = {one.id: other.id for one, other in zip(conversations, [*conversations[1:], conversations[0]], strict=True)}

    def select(user_id: str, way: str) -> tuple[str, list[SharedMemory]]:
        if way == "own, another shared":
            return user_id, [SharedMemory(group=nexts[user_id])]
        if way == "shared, another one's own":
            return nexts[user_id], [SharedMemory(group=user_id)]
        return user_id, []

    for way in ("own alone", "own, another shared", "shared, another one's own"):

        async def search(user_id: str, query: str, way: str = way) -> list[MemoryEntry]:
            asker, shared = select(user_id, way)
            memories = await memory.recall(query, app_name=APP, user_id=asker, shared=shared)
            return [memory_codec.make_memory_entry(one) for one in memories]

        given = await ask_questions(search, conversations, first=10)
        table.add_row(way, *format_cells([answer for answer in given if answer.kind != "unanswerable"]))


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    conversations = locomo.load(arguments.locomo) if arguments.locomo else chats.load()
    table = Table(title="Evidence found by search_memory, percent")
    for i, column in enumerate(("the evidence is", "n", "R", "nDCG", "R in 1,024", "p50 ms", "p95 ms")):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    async with server.serve("Shared") as (settings, which), GraphMemory(settings=settings, model="rules") as memory:
        async with Neo4jSessionService(settings=settings) as sessions:
            for conversation in conversations[: arguments.first]:
                async for session in ingest.store_sessions(conversation, sessions, app_name=APP):
                    turns = memory_codec.make_turns(session.events)
                    await memory.remember(turns, app_name=APP, user_id=conversation.id, session_id=session.id)
                await share(memory, conversation, sessions)
        await measure(memory, conversations[: arguments.first], table)
    console = machine.make_console()
    console.print(table)
    machine.print_about(console, {"load before": before, "load after": machine.read_load(), "server": which})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.shared", description=__doc__)
    parser.add_argument("--locomo", type=Path, metavar="PATH", help="a file in LoCoMo's JSON format, instead of chats")
    parser.add_argument("--first", type=int, metavar="N", help="only the first conversations")
    asyncio.run(main(parser.parse_args()))
