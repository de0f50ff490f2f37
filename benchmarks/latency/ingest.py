"""``python -m benchmarks.latency.ingest``: a long history read by rules, beside the bare loop of the embedder.

The loop embeds the same passages in the same batches, and neither reads nor writes. Each round is a new user's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import GraphMemory, Turn
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.tokens import QuestionEmbedding, TokenEncoder
from adk_graph_memory.records.turns import Embedding, Passage
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.latency import report
from benchmarks.latency.result import Result
from benchmarks.quality import chats, locomo

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class RecordingEmbedder(Embedder):
    """The default model, with a record of the batches that it embeds."""

    encoder: TokenEncoder
    batches: list[list[Passage]] = field(default_factory=list)

    @property
    def embedder_name(self) -> str:
        """A name of its own."""
        return "recording"

    def embed_query(self, text: str) -> list[float]:
        """Embed a question."""
        return self.encoder.embed_question(text).vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; with it the adapter takes one call at a time, as of any local model."""
        return [embedding.vector for embedding in self.embed_passages([Passage(text) for text in texts])]

    def embed_question(self, text: str, typed_text: str | None = None) -> QuestionEmbedding:
        """Embed a question, with its tokens."""
        return self.encoder.embed_question(text, typed_text)

    def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        """Embed passages, and record them."""
        self.batches.append(list(passages))
        return self.encoder.embed_passages(passages)


def load_turns(count: int, locomo_path: str | None) -> list[Turn]:
    """The first so many turns of the chats or of LoCoMo as one history, each said a minute after the one before."""
    conversations = chats.load() if locomo_path is None else locomo.load(locomo_path)
    sessions = [session for conversation in conversations for session in conversation.sessions]
    turns = [turn for session in sessions for turn in session.turns][:count]
    return [
        Turn(f"t{number}", turn.author, turn.text, START + timedelta(minutes=number), turn.role)
        for number, turn in enumerate(turns)
    ]


async def measure_round(settings: Settings, encoder: TokenEncoder, turns: list[Turn], user: str) -> tuple[float, float]:
    """Seconds of the ingest, and of the loop over what it embedded."""
    recorder = RecordingEmbedder(encoder)
    async with GraphMemory(settings=settings, embedder=recorder, model="rules") as memory:
        await memory.prepare()
        recorder.batches.clear()
        start_time = time.monotonic()
        report = await memory.remember(turns, app_name="ingest", user_id=user, session_id="history")
        ingest_seconds = time.monotonic() - start_time
        assert report.turns == len(turns)

    def run_loop() -> float:
        start_time = time.monotonic()
        for batch in recorder.batches:
            encoder.embed_passages(batch)
        return time.monotonic() - start_time

    return ingest_seconds, await asyncio.to_thread(run_loop)


async def main(arguments: argparse.Namespace) -> None:
    about = machine.describe_machine() | {"load before": machine.read_load()}
    turns = load_turns(arguments.turns, arguments.locomo)
    async with server.serve("Ingest") as (settings, which):
        encoder = EmbedderAdapter(None, settings).token_embedder
        assert isinstance(encoder, TokenEncoder)
        encoder.embed_passages([Passage(turn.text) for turn in turns[:64]])  # the first calls of a model are slow
        rounds = list[tuple[float, float]]()
        for number in range(arguments.rounds):
            print(f"round {number + 1} of {arguments.rounds} …", file=sys.stderr, flush=True)
            rounds.append(await measure_round(settings, encoder, turns, f"user-{number}"))
    ingests, loops = zip(*rounds, strict=True)
    result = Result(
        f"remember {len(turns):,} turns by rules", "s", ingests, 1.5, peer="bare loop of the embedder", theirs=loops
    )
    about |= {"load after": machine.read_load(), "server": which}
    report.show(machine.make_console(), [result], about)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.ingest", description=__doc__)
    parser.add_argument("--turns", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--locomo", metavar="PATH", help="turns of LoCoMo instead of the chats'")
    asyncio.run(main(parser.parse_args()))
