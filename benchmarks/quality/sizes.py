"""``python -m benchmarks.quality.sizes``: how many bytes of token vectors a memory has, and what they add to a store.

Each set is told twice, each time to a Neo4j of its own: with the default embedder, and with one that gives the same
vectors and no tokens. Files are measured after a checkpoint, without transaction logs.

``--parts N`` tells the first N conversations of the chats instead: nothing of them, as sessions alone, remembered
without vectors, and with vectors from a hash. What each adds is what events, turns with facts, and vectors take.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from neo4j_graphrag.embeddings.base import Embedder
from rich.table import Table

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.runtime.settings import load_settings
from adk_graph_memory.testing import HashEmbedder
from benchmarks import machine, server
from benchmarks.quality import chats, ingest, locomo
from benchmarks.quality.dialogue import Conversation

BYTES = "MATCH (memory:Memory) RETURN coalesce(size(memory.tokens_a), 0) AS bytes, memory.kind = 'fact' AS is_fact"
ASKED_MEDIAN, ASKED_MOST, ASKED_RATIO = 1_536, 4_096, 1.35


class VectorsAlone(Embedder):
    """The default model, which shows no tokens this way."""

    def __init__(self) -> None:
        super().__init__()
        self._model = LocalEmbedder()

    def embed_query(self, text: str) -> list[float]:
        return self._model.embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.embed_documents(texts)


@dataclass(frozen=True, slots=True)
class Store:
    """What lies on disk, each memory's bytes of token vectors, and how many memories are facts."""

    bytes: int
    tokens: Sequence[int]
    facts: int


async def measure_store(
    conversations: Sequence[Conversation], embedder: Embedder | Literal[False], *, remembers: bool = True
) -> Store:
    """Tells a new server the conversations."""
    async with LocalNeo4j(page_cache=server.PAGE_CACHE, heap=server.HEAP) as neo4j:
        username, password = neo4j.auth
        settings = load_settings(uri=neo4j.uri, username=username, password=password)
        memory = GraphMemory(settings=settings, model="rules", embedder=embedder)
        async with Neo4jSessionService(settings=settings) as sessions, memory:
            service = Neo4jMemoryService(memory=memory)
            await memory.connection.prepare()
            for conversation in conversations:
                async for session in ingest.store_sessions(conversation, sessions, app_name="sizes"):
                    if remembers:
                        await service.add_session_to_memory(session)
            rows = await memory.connection.run_cypher(BYTES)
        await asyncio.to_thread(neo4j.stop)  # which makes a checkpoint
        size = await asyncio.to_thread(count_bytes, neo4j.home)
        return Store(size, [row["bytes"] for row in rows], sum(row["is_fact"] for row in rows))


def count_bytes(home: Path) -> int:
    """Of all files of the database in a server's home."""
    files = (home / "data" / "databases" / "neo4j").rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


async def measure_parts(conversations: Sequence[Conversation]) -> Table:
    """Measures stores that hold ever more of the same conversations."""
    stores = [
        await measure_store([], False),
        await measure_store(conversations, False, remembers=False),
        await measure_store(conversations, False),
        await measure_store(conversations, HashEmbedder(384)),
    ]
    memories, facts = len(stores[-1].tokens), stores[-1].facts
    events = sum(len(dialogue.turns) for conversation in conversations for dialogue in conversation.sessions)
    counts = {"schema": 1, "events": events, "turns and facts": memories, "vectors": memories}
    table = Table(title=f"What parts of a store take; of {memories:,} memories, {facts:,} are facts")
    for column in ("part", "number", "files, MB", "bytes each"):
        table.add_column(column, justify="left" if column == "part" else "right")
    added = [stores[0].bytes, *(after.bytes - before.bytes for before, after in pairwise(stores))]
    for (part, count), size in zip(counts.items(), added, strict=True):
        table.add_row(part, f"{count:,}", f"{size / 1e6:.2f}", f"{size / count:,.0f}")
    return table


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    console = machine.make_console()
    if arguments.parts:
        console.print(await measure_parts(chats.load()[: arguments.parts]))
        machine.print_about(console, {"load before": before, "load after": machine.read_load()})
        return
    data_sets = {"chats": chats.load()}
    if arguments.locomo:
        data_sets["locomo"] = locomo.load(arguments.locomo)
    table = Table(title="Bytes of token vectors a memory, and store files after a checkpoint")
    for column in ("told", "memories", "median", "most", "files, MB", "without tokens, MB", "ratio"):
        table.add_column(column, justify="left" if column == "told" else "right")
    for name, conversations in data_sets.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        store = await measure_store(conversations, LocalEmbedder())
        without = await measure_store(conversations, VectorsAlone())
        sizes = (f"{statistics.median(store.tokens):,.0f}", f"{max(store.tokens):,}")
        files = (f"{figures.bytes / 1e6:.1f}" for figures in (store, without))
        table.add_row(name, f"{len(store.tokens):,}", *sizes, *files, f"{store.bytes / without.bytes:.2f}")
    table.add_row("asked", "", f"≤ {ASKED_MEDIAN:,}", f"≤ {ASKED_MOST:,}", "", "", f"≤ {ASKED_RATIO}")
    console.print(table)
    machine.print_about(console, {"load before": before, "load after": machine.read_load()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.sizes", description=__doc__)
    parser.add_argument("--locomo", type=Path, metavar="PATH", help="a file in LoCoMo's JSON format")
    parser.add_argument("--parts", type=int, metavar="N", help="what parts of a store take, of N conversations")
    asyncio.run(main(parser.parse_args()))
