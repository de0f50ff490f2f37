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
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from adk_graph_memory.models.light import LightEmbedder
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.models.projection import Projection
from adk_graph_memory.models.tokens import QuestionEmbedding, TokenEncoder, TorchModel
from adk_graph_memory.records.turns import Embedding, Passage
from benchmarks import machine
from benchmarks.percentile import compute_percentile
from benchmarks.quality import chats

EXPORT = Path(__file__).parents[1] / "pipelines" / "export_onnx.py"
PASSAGES, QUESTIONS, ROUNDS, BATCH = 320, 100, 3, 32
LOCAL, FLOAT32, LIGHT = "sentence-transformers", "the same in float32", "light"
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


class Float32Model(TorchModel):
    """The model on PyTorch, on a CPU that does not compute in bfloat16."""

    def reduce_precision(self) -> AbstractContextManager[Any]:
        return nullcontext()


def load_encoders(export: Path) -> dict[str, TokenEncoder]:
    """The default model on PyTorch, as it is and in float32, and on the ONNX runtime."""
    local, light = LocalEmbedder(), LightEmbedder(folder=export)
    projection = Projection.from_model(local.model, light.loaded_model.dimension)
    exact = Float32Model(local.loaded_model, light.loaded_model.dimension)
    as_it_is = TorchModel(local.loaded_model, light.loaded_model.dimension)
    models = {LOCAL: as_it_is, FLOAT32: exact, LIGHT: light.loaded_model}
    return {name: TokenEncoder(model, projection) for name, model in models.items()}


def compare_embeddings(encoders: dict[str, TokenEncoder], passages: list[Passage], questions: list[str]) -> Table:
    """How far the vectors and MaxSim of one are from the other's."""
    stored = {name: encoder.embed_passages(passages) for name, encoder in encoders.items()}
    asked = {name: [encoders[name].embed_question(text) for text in questions] for name in (LOCAL, LIGHT)}
    table = Table(title=f"The same {len(passages)} turns and {len(questions)} questions")
    for column in ("compared", "median", "worst of 1,000", "worst", "asked"):
        table.add_column(column, justify="left" if column == "compared" else "right")
    pairs = ((LIGHT, LOCAL), (LIGHT, FLOAT32), (FLOAT32, LOCAL))
    for one, other in pairs:
        cosines = compute_cosines([item.vector for item in stored[one]], [item.vector for item in stored[other]])
        table.add_row(f"cosine of turns: {one} and {other}", *describe_spread(cosines, -1), f"≥ {ASKED_COSINE}")
    cosines = compute_cosines([item.vector for item in asked[LIGHT]], [item.vector for item in asked[LOCAL]])
    table.add_row(f"cosine of questions: {LIGHT} and {LOCAL}", *describe_spread(cosines, -1), f"≥ {ASKED_COSINE}")
    for one, other in pairs:
        maxsims = compute_maxsims(asked[LIGHT], stored[one]), compute_maxsims(asked[LOCAL], stored[other])
        difference = np.abs(maxsims[0] - maxsims[1]).ravel()
        table.add_row(f"MaxSim of turns: {one} and {other}", *describe_spread(difference), f"≤ {ASKED_MAXSIM}")
    sizes = [[len(item.tokens or b"") for item in stored[name]] for name in (LIGHT, LOCAL)]
    equal_count = sum(one == other for one, other in zip(*sizes, strict=True))
    table.add_row("turns with the same number of tokens", "", "", f"{equal_count}", f"{len(passages)}")
    return table


def describe_spread(values: np.ndarray, sign: int = 1) -> list[str]:
    """The median, the worst of a thousand and the worst; with a negative sign, less is worse."""
    return [f"{sign * np.quantile(sign * values, share):.5f}" for share in (0.5, 0.999, 1.0)]


def compare_times(encoders: dict[str, TokenEncoder], passages: list[Passage], questions: list[str]) -> Table:
    """How long a question takes, which is in float32 always, and a batch of turns."""
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
