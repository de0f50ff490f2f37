"""``python -m benchmarks.light``: the light embedder beside sentence-transformers, on the same texts.

Vectors and token vectors are compared over turns of the chats, each read after the one before it, and over their
questions. Times are taken by turns, a round of one after a round of the other, so that whatever else the machine does
meets both.
"""

from __future__ import annotations

import argparse
import runpy
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table

from adk_graph_memory.embeddings import LightEmbedder, LocalEmbedder, QuestionEmbedding, TokenEncoder
from adk_graph_memory.records import Embedding, Passage
from benchmarks import machine
from benchmarks.percentile import compute_percentile
from benchmarks.quality import chats

EXPORT = Path(__file__).parents[1] / "pipelines" / "export_onnx.py"
PASSAGES, QUESTIONS, ROUNDS, BATCH = 320, 100, 3, 32
ASKED_COSINE, ASKED_MAXSIM = 0.999, 0.01


def load_texts() -> tuple[list[Passage], list[str]]:
    """Turns with what was said before them, and questions, spread over all users of the chats."""
    conversations = chats.load()
    sessions = [session for conversation in conversations for session in conversation.sessions]
    turns = [
        Passage(turn.text, before.text if before else "")
        for session in sessions
        for before, turn in zip([None, *session.turns], session.turns, strict=False)
    ]
    questions = [question.text for conversation in conversations for question in conversation.questions]
    return turns[:: len(turns) // PASSAGES][:PASSAGES], questions[:QUESTIONS]


def compute_cosines(vectors: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> np.ndarray:
    """The cosine of each vector with the other's of the same text."""
    one, other = np.array(vectors), np.array(others)
    return (one * other).sum(axis=1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1))


def compute_maxsims(questions: Sequence[QuestionEmbedding], passages: Sequence[Embedding]) -> np.ndarray:
    """The mean MaxSim of each question with each passage."""
    packed = {str(number): passage.tokens for number, passage in enumerate(passages) if passage.tokens}
    rows = [question.tokens.compute_maxsim(packed)[1].mean(axis=1) for question in questions if question.tokens]
    return np.array(rows)


def time_by_turns(calls: dict[str, Callable[[int], object]], repetitions: int) -> dict[str, list[float]]:
    """The milliseconds of each call, by who made it."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for number in range(repetitions):
                start = time.perf_counter()
                call(number)
                times[name].append(1_000 * (time.perf_counter() - start))
    return times


def load_encoders(export: Path) -> dict[str, TokenEncoder]:
    """The default model on both runtimes."""
    encoders: dict[str, TokenEncoder] = {}
    for name, embedder in {"sentence-transformers": LocalEmbedder(), "light": LightEmbedder(folder=export)}.items():
        encoder = TokenEncoder.from_model(embedder.loaded_model, embedder.model)
        assert encoder
        encoders[name] = encoder
    return encoders


def compare_embeddings(encoders: dict[str, TokenEncoder], passages: list[Passage], questions: list[str]) -> Table:
    """How far the vectors and MaxSim of one are from the other's."""
    theirs, ours = (encoder.embed_passages(passages) for encoder in encoders.values())
    asked_theirs, asked_ours = (
        [encoder.embed_question(question) for question in questions] for encoder in encoders.values()
    )
    table = Table(title=f"The same {len(passages)} turns and {len(questions)} questions")
    for column in ("compared", "median", "worst", "asked"):
        table.add_column(column, justify="left" if column == "compared" else "right")
    for what, one, other in (("turns", theirs, ours), ("questions", asked_theirs, asked_ours)):
        cosines = compute_cosines([item.vector for item in one], [item.vector for item in other])
        figures = (f"{np.median(cosines):.5f}", f"{cosines.min():.5f}", f"≥ {ASKED_COSINE}")
        table.add_row(f"cosine of {what}", *figures)
    for what, stored in (("light alone", ours), ("light, in a graph of sentence-transformers", theirs)):
        differences = np.abs(compute_maxsims(asked_ours, stored) - compute_maxsims(asked_theirs, theirs))
        figures = (f"{np.median(differences):.5f}", f"{differences.max():.5f}", f"≤ {ASKED_MAXSIM}")
        table.add_row(f"difference of MaxSim: {what}", *figures)
    are_equal = [len(one.tokens or b"") == len(other.tokens or b"") for one, other in zip(theirs, ours, strict=True)]
    table.add_row("turns with the same number of tokens", "", f"{sum(are_equal)}", f"{len(are_equal)}")
    return table


def compare_times(encoders: dict[str, TokenEncoder], passages: list[Passage], questions: list[str]) -> Table:
    """How long a question takes, and a batch of turns."""
    batches = [passages[start : start + BATCH] for start in range(0, len(passages), BATCH)]
    by_question = {name: partial(_embed_question, encoder, questions) for name, encoder in encoders.items()}
    by_batch = {name: partial(_embed_batch, encoder, batches) for name, encoder in encoders.items()}
    times = time_by_turns(by_question, len(questions)), time_by_turns(by_batch, len(batches))
    table = Table(title="Milliseconds, by turns")
    for column in ("embedder", "question p50", "p95", f"{BATCH} turns p50", "p95"):
        table.add_column(column, justify="left" if column == "embedder" else "right")
    for name in encoders:
        row = [(statistics.median(values[name]), compute_percentile(values[name], 0.95)) for values in times]
        table.add_row(name, *(f"{figure:.1f}" for pair in row for figure in pair))
    return table


def _embed_question(encoder: TokenEncoder, questions: list[str], number: int) -> object:
    return encoder.embed_question(questions[number])


def _embed_batch(encoder: TokenEncoder, batches: list[list[Passage]], number: int) -> object:
    return encoder.embed_passages(batches[number])


def main(export: Path) -> None:
    before, console = machine.read_load(), machine.make_console()
    passages, questions = load_texts()
    encoders = load_encoders(export)
    console.print(compare_embeddings(encoders, passages, questions))
    console.print(compare_times(encoders, passages, questions))
    machine.print_about(console, {"load before": before, "load after": machine.read_load()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.light", description=__doc__)
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="an export that exists; otherwise one is made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        export = arguments.export or Path(folder) / "minilm"
        if not arguments.export:
            runpy.run_path(str(EXPORT))["export_model"]("all-MiniLM-L6-v2", export)
        main(export)
