"""``python -m benchmarks.latency.reembed``: re-embedding beside the bare loop of the embedder over the same texts.

Both embed the same texts in the same batches, one after the other in each round; the loop neither reads nor writes. A
round before the first one, in which the server's JVM compiles what it runs, does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from dataclasses import dataclass

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.memory.jobs.reembedding import reembed_texts
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.local import CHUNK_SIZE
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Passage
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.latency import report
from benchmarks.latency.result import Result
from benchmarks.latency.speech import Speaker

USERS = 20
ROWS = 1_000
FILL = """
UNWIND $rows AS row
CREATE (:@Memory:@Fact {scope: row.scope, memory_id: row.id, id: row.id, kind: 'fact', text: row.text, open: true,
  state: 'current', timestamp: $at})
"""


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of the bare loop and of the re-embedding, and the process's peak memory in MB after both."""

    loop: float
    reembedding: float
    peak_mb: float


def make_texts(count: int) -> list[str]:
    """Texts as long as facts are, no two alike."""
    events = Speaker(7).make_events(count)
    words = (str(event.content and event.content.parts and event.content.parts[0].text).split() for event in events)
    return [f"{' '.join(text[: 6 + number % 14])} ({number})" for number, text in enumerate(words)]


async def fill_graph(connection: Connection, texts: list[str]) -> None:
    """Write facts without vectors, spread over users."""
    scopes = [Scope("reembed", f"user-{number}").key for number in range(USERS)]
    rows = [
        {"scope": scopes[number % USERS], "id": f"fact-{number:08}", "text": text} for number, text in enumerate(texts)
    ]
    statement = FILL.replace("@", connection.settings.label_prefix)
    for start in range(0, len(rows), ROWS):
        await connection.run_cypher(statement, {"rows": rows[start : start + ROWS], "at": time.time()})


def run_bare_loop(vectors: EmbedderAdapter, texts: list[str]) -> float:
    """Embed the texts as the adapter does, call by call, and return the seconds."""
    start_time, encoder = time.monotonic(), vectors.token_embedder
    assert encoder is not None
    for start in range(0, len(texts), CHUNK_SIZE):
        encoder.embed_passages([Passage(text) for text in texts[start : start + CHUNK_SIZE]])
    return time.monotonic() - start_time


async def measure_rounds(settings: Settings, count: int, rounds: int) -> list[Round]:
    """Fill a graph; in each round run the loop, and then re-embed everything."""
    texts, measured = make_texts(count), list[Round]()
    async with Connection(settings=settings) as connection:
        await connection.prepare()
        await fill_graph(connection, texts)
        vectors = EmbedderAdapter(None, settings)
        await vectors.wait_until_ready()
        run_bare_loop(vectors, texts[:ROWS])  # the first calls of a model are slow
        for number in range(rounds + 1):
            print(f"round {number} of {rounds} …" if number else "warm-up …", file=sys.stderr, flush=True)
            seconds = await asyncio.to_thread(run_bare_loop, vectors, texts)
            start_time = time.monotonic()
            outcome = await reembed_texts(connection, vectors, force=True)
            assert (outcome.embedded, outcome.left, outcome.failed) == (count, 0, 0)
            measured.append(Round(seconds, time.monotonic() - start_time, _read_peak()))
    return measured[1:]


def _read_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


async def main(arguments: argparse.Namespace) -> None:
    about = machine.describe_machine() | {"load before": machine.read_load()}
    async with server.serve("Reembed") as (settings, which):
        rounds = await measure_rounds(settings, arguments.texts, arguments.rounds)
    result = Result(
        f"re-embed {arguments.texts:,} facts",
        "/s",
        tuple(arguments.texts / one.reembedding for one in rounds),
        0.9,
        peer="bare loop of the embedder",
        theirs=tuple(arguments.texts / one.loop for one in rounds),
        more_is_better=True,
    )
    peaks = ", ".join(f"{one.peak_mb:,.0f}" for one in rounds)
    about |= {"load after": machine.read_load(), "server": which, "peak memory after each round, MB": peaks}
    report.show(machine.make_console(), [result], about)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.reembed", description=__doc__)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    asyncio.run(main(parser.parse_args()))
