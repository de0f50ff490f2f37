"""What a sentence-transformers model makes of texts, token by token: of the real default model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.models.projection import TOKEN_DIMENSIONS
from adk_graph_memory.models.tokens import MAX_TEXT_PARTS, TokenEncoder
from adk_graph_memory.records.turns import Passage
from adk_graph_memory.runtime.settings import Settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture(scope="module")
def encoder(embedder: LocalEmbedder) -> TokenEncoder:
    token_encoder = TokenEncoder.from_model(embedder.loaded_model, embedder.model)
    assert token_encoder is not None
    return token_encoder


def near(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


def count(packed: bytes | None) -> int:
    assert packed is not None
    return (len(packed) - 4) * 2 // TOKEN_DIMENSIONS


def compared(encoder: TokenEncoder, question: str, *texts: str) -> list[float]:
    tokens = encoder.embed_question(question).tokens
    assert tokens is not None
    embeddings = encoder.embed_passages([Passage(text) for text in texts])
    _, nearest = tokens.compute_maxsim(
        {str(n): embedding.tokens for n, embedding in enumerate(embeddings) if embedding.tokens}
    )
    return [float(score) for score in nearest.mean(axis=1)]


def test_a_question_has_the_vector_that_the_model_gives_it(encoder: TokenEncoder, embedder: LocalEmbedder) -> None:
    vector = encoder.embed_question("Where do I keep the bees?").vector
    assert near(vector, embedder.embed_query("Where do I keep the bees?")) == pytest.approx(1.0, abs=1e-5)


def test_a_question_in_two_wordings_has_the_vectors_of_each(encoder: TokenEncoder) -> None:
    words, typed_words = "Where do I keep the bees?", "Where does Ann Lindqvist, of all people, keep the bees?"
    both = encoder.embed_question(words, typed_words)
    assert both.typed is not None
    for embedding, text in ((both, words), (both.typed, typed_words)):
        assert near(embedding.vector, encoder.embed_question(text).vector) == pytest.approx(1.0, abs=1e-5)
        assert embedding.tokens is not None
    assert both.typed.typed is None


def test_a_text_has_almost_the_vector_that_the_model_gives_it(encoder: TokenEncoder, embedder: LocalEmbedder) -> None:
    text = "I keep the bees in the garden behind the house, next to the old shed."
    [embedding] = encoder.embed_passages([Passage(text)])
    assert (
        near(embedding.vector, embedder.embed_documents([text])[0]) > 0.98
    )  # without what stands around its own tokens


def test_an_answer_is_read_with_what_it_answers(encoder: TokenEncoder) -> None:
    answer, bees = "Yes, since last May.", encoder.embed_question("Who keeps bees?").vector
    alone, with_question = encoder.embed_passages(
        [Passage(answer), Passage(answer, preceding_text="Do you still keep bees?")]
    )
    assert near(with_question.vector, bees) > near(alone.vector, bees) + 0.1
    assert count(with_question.tokens) == count(alone.tokens) == 4  # what was asked is not its own


def test_each_text_is_itself_whatever_stands_beside_it_in_a_batch(encoder: TokenEncoder) -> None:
    texts = [Passage(text) for text in ("Bees.", "A long story about a ship. " * 30, "", "My dog is called Rex.", "!?")]
    together = encoder.embed_passages(texts)
    for passage, embedding in zip(texts, together, strict=True):
        [alone] = encoder.embed_passages([passage])
        assert near(alone.vector, embedding.vector) > 0.999
        assert count(alone.tokens) == count(embedding.tokens)


def test_nothing_is_embedded_of_nothing(encoder: TokenEncoder) -> None:
    assert encoder.embed_passages([]) == []


def test_the_words_that_answer_are_nearest(encoder: TokenEncoder) -> None:
    fits, other = compared(
        encoder, "What pets do you have?", "Our two cats sleep on the sofa.", "The train to Porto leaves at noon."
    )
    assert fits > other + 0.05


def test_the_end_of_a_long_text_counts_too(encoder: TokenEncoder) -> None:
    story = "The ship sailed along the coast and nobody spoke of it. " * 60
    with_end, without = compared(encoder, "Who keeps bees?", story + "My aunt Clara keeps bees.", story)
    assert with_end > without + 0.05


def test_what_stands_far_behind_in_an_endless_text_is_not_read(encoder: TokenEncoder) -> None:
    read = []
    passed = encoder._encode_parts
    encoder._encode_parts = lambda parts: read.extend(parts) or passed(parts)  # type: ignore[method-assign, func-returns-value]
    try:
        encoder.embed_passages([Passage("word " * 100_000)])
    finally:
        del encoder._encode_parts
    assert len(read) == MAX_TEXT_PARTS


@pytest.mark.parametrize(
    "model", [None, object(), type("Sparse", (), {"tokenizer": None, "get_max_seq_length": lambda self: 8})()]
)
def test_what_shows_no_tokens_has_no_encoder(model: Any) -> None:
    assert TokenEncoder.from_model(model, "any") is None


async def test_an_embedder_of_graphrag_with_such_a_model_shows_its_tokens_too(embedder: LocalEmbedder) -> None:
    from neo4j_graphrag.embeddings import SentenceTransformerEmbeddings

    theirs = SentenceTransformerEmbeddings.__new__(SentenceTransformerEmbeddings)
    theirs.model = embedder.loaded_model
    vectors = EmbedderAdapter(theirs, Settings())
    [embedding] = await vectors.embed_passages([Passage("My dog is called Rex.")])
    question = await vectors.aembed_question("What is my dog called?")
    assert count(embedding.tokens) == 5
    assert question.tokens is not None
    assert question.tokens.compute_maxsim({"a": embedding.tokens or b""})[0] == ["a"]
