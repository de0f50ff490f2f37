"""A reranker orders the best anew, and costs nobody a memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from adk_graph_memory import CrossEncoderReranker, Recollection, Reranker
from adk_graph_memory.retrieval.reranking import RERANK_LIMIT, rerank_recollections


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


async def test_the_best_come_in_the_rerankers_order_and_the_rest_behind_them() -> None:
    reranker, before = Reversed(), memories(RERANK_LIMIT + 5)
    after = await rerank_recollections(before, "q", reranker, seconds=1.0)
    assert len(reranker.texts) == RERANK_LIMIT
    order = [*range(RERANK_LIMIT - 1, -1, -1), *range(RERANK_LIMIT, RERANK_LIMIT + 5)]
    assert [memory.id for memory in after] == [f"m{n}" for n in order]
    assert [one.score for one in after] == [memory.score for memory in before]


async def test_of_equal_scores_the_order_stays() -> None:
    assert await rerank_recollections(memories(4), "q", Wrong([1.0, 1.0, 1.0, 1.0]), seconds=1.0) == memories(4)


@pytest.mark.parametrize(
    ("reranker", "reason"),
    [
        (Slow(), "took longer than 0.01 s"),
        (Wrong(ConnectionError("no route")), "no route"),
        (Wrong([1.0]), "1 scores for 3 texts"),
        (Wrong([1.0, float("nan"), 2.0]), "not a number"),
        (Wrong(None), "failed"),
    ],
)
async def test_one_that_fails_leaves_the_order_and_says_so(
    reranker: Reranker, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await rerank_recollections(memories(3), "q", reranker, seconds=0.01) == memories(3)
    assert reason in caplog.text


@pytest.mark.parametrize("count", [0, 1])
async def test_one_memory_needs_no_order(count: int) -> None:
    assert await rerank_recollections(memories(count), "q", Wrong(ValueError()), seconds=1.0) == memories(count)


@pytest.fixture
def cross_encoder(tmp_path: Path) -> str:
    """A tiny one with random weights."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "bees", "ships", "who", "keeps", "text"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForSequenceClassification(BertConfig(vocab_size=len(words), num_labels=1, **shape)).save_pretrained(tmp_path)
    return str(tmp_path)


async def test_a_cross_encoder_scores_each_text_with_the_question(cross_encoder: str) -> None:
    reranker = CrossEncoderReranker(cross_encoder)
    first, second = await reranker.score("who keeps bees", ["bees", "ships"])
    assert first != second
    assert await reranker.score("who keeps bees", ["ships", "bees"]) == pytest.approx([second, first], abs=1e-5)
