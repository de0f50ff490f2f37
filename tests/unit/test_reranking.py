"""A reranker orders the best anew, and costs nobody a memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from adk_graph_memory import CrossEncoderReranker, Recollection, Reranker
from adk_graph_memory.retrieval import reranking
from adk_graph_memory.retrieval.reranking import RERANK_LIMIT
from adk_graph_memory.runtime.telemetry import ProblemLog

PROBLEMS = ProblemLog(logging.getLogger("adk_graph_memory.tests"))


class Reversed:
    """The last is the best."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.texts = list(texts)
        return [float(place) for place in range(len(texts))]


class Wrong:
    def __init__(self, made: Any) -> None:
        self.made = made

    async def score(self, query: str, texts: Sequence[str]) -> Any:
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


class Slow:
    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        await asyncio.sleep(60)
        return [0.0] * len(texts)


def memories(count: int) -> list[Recollection]:
    return [Recollection(f"m{n}", "event", f"text {n}", 1.0 - n / 100, None) for n in range(count)]


async def rerank(
    memories: Sequence[Recollection], reranker: Reranker, seconds: float = 1.0, problems: ProblemLog = PROBLEMS
) -> list[Recollection]:
    return await reranking.rerank_recollections(memories, "q", reranker, seconds=seconds, problems=problems)


async def test_the_best_come_in_the_rerankers_order_and_the_rest_behind_them() -> None:
    reranker, before = Reversed(), memories(RERANK_LIMIT + 5)
    after = await rerank(before, reranker)
    assert len(reranker.texts) == RERANK_LIMIT
    order = [*range(RERANK_LIMIT - 1, -1, -1), *range(RERANK_LIMIT, RERANK_LIMIT + 5)]
    assert [memory.id for memory in after] == [f"m{n}" for n in order]
    assert [one.score for one in after] == [memory.score for memory in before]


async def test_two_memories_change_places() -> None:
    assert [memory.id for memory in await rerank(memories(2), Reversed())] == ["m1", "m0"]


async def test_of_equal_scores_the_order_stays() -> None:
    assert await rerank(memories(4), Wrong([1.0, 1.0, 1.0, 1.0])) == memories(4)


@pytest.mark.parametrize(
    ("reranker", "reason"),
    [
        (Slow(), "The reranker Slow failed: no scores within 0.01 s"),
        (Wrong(ConnectionError("no\nroute")), "The reranker Wrong failed: ConnectionError: no route"),
        (Wrong([1.0]), "1 scores for 3 texts"),
        (Wrong([1.0, float("nan"), 2.0]), "not a number"),
        (Wrong(None), "TypeError"),
    ],
)
async def test_one_that_fails_leaves_the_order_and_says_so_once_on_one_line(
    reranker: Reranker, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    problems = ProblemLog(logging.getLogger("adk_graph_memory.tests"))
    for _ in range(2):
        assert await rerank(memories(3), reranker, 0.01, problems) == memories(3)
    [record] = caplog.records
    assert reason in record.getMessage()
    assert (record.exc_info, "\n" in record.getMessage()) == (None, False)


async def test_one_that_works_again_may_fail_anew(caplog: pytest.LogCaptureFixture) -> None:
    for scores in ([1.0], [1.0, 2.0, 3.0], [1.0]):
        await rerank(memories(3), Wrong(scores))
    assert len(caplog.records) == 2


@pytest.mark.parametrize("count", [0, 1])
async def test_one_memory_needs_no_order(count: int) -> None:
    assert await rerank(memories(count), Wrong(ValueError())) == memories(count)


@pytest.fixture
def cross_encoder(tmp_path: Path) -> str:
    """A tiny one with random weights."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, set_seed

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "bees", "ships", "who", "keeps", "text"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    set_seed(1)
    BertForSequenceClassification(
        BertConfig(vocab_size=len(words), num_labels=1, initializer_range=1.0, **shape)
    ).save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.mark.slow
async def test_a_cross_encoder_scores_each_text_with_the_question(cross_encoder: str) -> None:
    reranker = CrossEncoderReranker(cross_encoder)
    first, second = await reranker.score("who keeps bees", ["bees", "ships"])
    assert first != second
    assert await reranker.score("who keeps bees", ["ships", "bees"]) == pytest.approx([second, first], abs=1e-5)
