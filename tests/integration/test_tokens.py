"""Packed tokens beside the vectors: written with them, moved with them, gone with them, missed without harm."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adk_graph_memory import GraphMemory, LightEmbedder, Recollection, Turn
from adk_graph_memory.memory.jobs.reembedding import reembed_texts
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.models.projection import Projection, QuestionTokens
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Embedding, Passage
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import HashEmbedder

pytestmark = pytest.mark.slow

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
TOLD = ["Do you keep bees?", "Yes, two hives of them.", "I paint ships on the harbour wall.", "My boat is called Rex."]
SIZE = 64


class TokenHash(HashEmbedder):
    """One token a word, beside HashEmbedder's vectors; what was read, and after what, is kept in mind."""

    embedder_name = "adk_graph_memory.testing.HashEmbedder:hash-64"

    def __init__(self, projection: str = "hash") -> None:
        super().__init__(SIZE)
        matrix = np.eye(SIZE, dtype=np.float32)
        self.projection = Projection(projection, np.zeros(SIZE, np.float32), matrix, spread=0.1)
        self.read: list[Passage] = []

    def embed_question(self, text: str, typed_text: str | None = None) -> QuestionEmbedding:
        typed = None if typed_text is None else self.embed_question(typed_text)
        return QuestionEmbedding(self.embed_query(text), QuestionTokens(self._tokens(text), self.projection), typed)

    def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        self.read += passages
        texts = [passage.text for passage in passages]
        return [Embedding(self._hash_words(text), self.projection.pack_vectors(self._tokens(text))) for text in texts]

    def _tokens(self, text: str) -> np.ndarray:
        return np.array([self._hash_words(word) for word in text.split()], np.float32)


class Deployment:
    def __init__(self, server: Any, app_name: str, prefix: str = "TestHash") -> None:
        self.prefix, self.settings = prefix, server.settings(label_prefix=prefix)
        self.owner = {"app_name": app_name, "user_id": "ada"}

    async def remember(self, embedder: Any, told: Sequence[str] = TOLD, **more: Any) -> None:
        turns = [Turn(f"t{n}", "ada", text, START + timedelta(minutes=n)) for n, text in enumerate(told)]
        async with GraphMemory(settings=self.settings, embedder=embedder, model="rules") as memory:
            await memory.remember(turns, session_id="s", **self.owner, **more)

    async def shares(self, embedder: Any, question: str) -> dict[str, set[str]]:
        found = await self.recall(embedder, question)
        return {one.text: {share.signal for share in one.shares} for one in found}

    async def recall(self, embedder: Any, question: str) -> list[Recollection]:
        async with GraphMemory(settings=self.settings, embedder=embedder) as memory:
            return await memory.recall(question, explain=True, **self.owner)

    async def stored(self) -> dict[tuple[str, str], tuple[int | None, int | None, bool]]:
        """By kind and text: bytes of its tokens in either slot, and whether it waits to be embedded."""
        async with GraphMemory(settings=self.settings, embedder=False) as memory:
            rows = await memory.connection.run_cypher(
                f"MATCH (n:{self.prefix}Memory {{scope: $scope}}) RETURN n.kind AS kind, n.text AS text, "
                "size(n.tokens_a) AS a, size(n.tokens_b) AS b, coalesce(n.unembedded, false) AS waits",
                {"scope": Scope(**self.owner).key},
            )
        return {(row["kind"], row["text"]): (row["a"], row["b"], row["waits"]) for row in rows}


@pytest.fixture
def deployment(neo4j_server: Any, app_name: str) -> Deployment:
    return Deployment(neo4j_server, app_name)


async def test_turns_and_facts_have_tokens_and_are_found_by_them(deployment: Deployment) -> None:
    await deployment.remember(TokenHash())
    stored = await deployment.stored()
    assert all(a == 4 + len(text.split()) * SIZE // 2 and b is None for (_, text), (a, b, _) in stored.items())
    shares = await deployment.shares(TokenHash(), "What is the boat called?")
    assert all("tokens" in signals for signals in shares.values())
    assert next(iter(shares)) == "My boat is called Rex."


async def test_a_turn_is_read_after_the_one_before_it_and_a_fact_by_itself(deployment: Deployment) -> None:
    embedder = TokenHash()
    await deployment.remember(embedder)
    turns = {Passage(later, earlier) for earlier, later in zip(["", *TOLD], TOLD, strict=False)}
    assert turns <= set(embedder.read)
    assert {passage.preceding_text for passage in set(embedder.read) - turns} == {""}


async def test_a_turn_of_a_later_session_portion_is_read_after_what_memory_knows(deployment: Deployment) -> None:
    embedder = TokenHash()
    await deployment.remember(TokenHash(), TOLD[:2])
    await deployment.remember(embedder)
    assert Passage(TOLD[2], TOLD[1]) in embedder.read


async def test_an_embedder_without_tokens_works_as_ever_and_beside_it(deployment: Deployment) -> None:
    """The same vectors under the same name: what the one wrote has tokens, what the other wrote has none."""
    plain, tokens = HashEmbedder(SIZE), TokenHash()
    await deployment.remember(plain, TOLD[:2])
    assert all("tokens" not in signals for signals in (await deployment.shares(tokens, "bees hives")).values())
    await deployment.remember(tokens)
    with_tokens = await deployment.shares(tokens, "bees hives boat")
    assert "tokens" in with_tokens[TOLD[3]] and "tokens" not in with_tokens[TOLD[1]]
    assert all("tokens" not in signals for signals in (await deployment.shares(plain, "bees hives boat")).values())


@pytest.mark.schema
@pytest.mark.xdist_group("reembed")
@pytest.mark.full
async def test_tokens_of_another_projection_count_as_none_until_all_are_embedded_again(
    neo4j_server: Any, app_name: str
) -> None:
    deployment = Deployment(neo4j_server, app_name, prefix=f"Tokens{uuid.uuid4().hex[:8]}")
    await deployment.remember(TokenHash("before"))
    after = TokenHash("after")
    assert all("tokens" not in signals for signals in (await deployment.shares(after, "boat")).values())
    async with GraphMemory(settings=deployment.settings, embedder=False) as memory:
        await reembed_texts(memory.connection, EmbedderAdapter(after, Settings()), batch=2, force=True)
    assert all(a is None and b for a, b, _ in (await deployment.stored()).values())
    assert all("tokens" in signals for signals in (await deployment.shares(after, "boat")).values())
    assert {Passage(later, earlier) for earlier, later in zip(["", *TOLD], TOLD, strict=False)} <= set(after.read)


async def test_what_answered_a_turn_that_is_forgotten_is_embedded_anew_without_it(deployment: Deployment) -> None:
    await deployment.remember(TokenHash())
    async with GraphMemory(settings=deployment.settings, embedder=TokenHash()) as memory:
        [asked] = [one for one in await memory.recall(TOLD[1], **deployment.owner) if one.text == TOLD[1]]
        await memory.forget(asked.id, **deployment.owner)
    stored = await deployment.stored()
    assert ("event", TOLD[1]) not in stored
    assert stored["event", TOLD[2]] == (None, None, True)
    assert stored["fact", TOLD[2]][2] is False  # it was embedded by itself
    embedder = TokenHash()
    await deployment.remember(embedder, [*TOLD, "Something new."])
    assert [passage.preceding_text for passage in embedder.read if passage.text == TOLD[2]] == [TOLD[0]]
    assert (await deployment.stored())["event", TOLD[2]][0]


async def test_a_graph_that_pytorch_filled_is_searched_and_filled_on_with_the_onnx_runtime(
    neo4j_server: Any, app_name: str, minilm_export: Path
) -> None:
    deployment, light = Deployment(neo4j_server, app_name, prefix=""), LightEmbedder(folder=minilm_export)
    await deployment.remember(LocalEmbedder())
    for question in ("Who keeps bees?", "What hangs in my studio?", "What do I sail?"):
        by_torch, by_onnx = [await deployment.recall(embedder, question) for embedder in (LocalEmbedder(), light)]
        assert by_onnx[0].id == by_torch[0].id
        expected_scores = {memory.id: pytest.approx(memory.score, abs=0.02) for memory in by_torch}
        assert {memory.id: memory.score for memory in by_onnx} == expected_scores
        assert all({"vector", "tokens"} <= {share.signal for share in memory.shares} for memory in by_onnx)
        assert {memory.degraded for memory in by_onnx} == {None}
    await deployment.remember(light, [*TOLD, "A swarm moved into the hedge."])
    [first, *_] = await deployment.recall(LocalEmbedder(), "Where is the swarm?")
    assert first.text == "A swarm moved into the hedge."
    assert "tokens" in {share.signal for share in first.shares}
