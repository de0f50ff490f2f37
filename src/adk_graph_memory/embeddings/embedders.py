"""Make an embedder from a caller's choice; protocols for what an embedder can do beyond embedding one text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.local import DEFAULT_MODEL, LocalEmbedder
from adk_graph_memory.embeddings.token_encoder import QuestionEmbedding
from adk_graph_memory.records import Embedding, Passage

EmbedderLike = Embedder | Callable[[str], Sequence[float]] | str | None
EmbedderChoice = EmbedderLike | Literal[False]


@runtime_checkable
class BatchEmbedder(Protocol):
    """An embedder that takes many texts in one call."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...


@runtime_checkable
class LimitedBatchEmbedder(BatchEmbedder, Protocol):
    """A batch embedder that limits the texts in a call, and takes several calls at a time."""

    def split_batches(self, texts: list[str]) -> list[list[str]]: ...


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that returns token vectors, and reads a passage together with what was said before it."""

    def embed_question(self, text: str) -> QuestionEmbedding: ...

    def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]: ...


@runtime_checkable
class NamedEmbedder(Protocol):
    """An embedder that names its vectors itself, so that its class may move."""

    @property
    def embedder_name(self) -> str: ...


class FunctionEmbedder(Embedder):
    """An embedder made of a function from text to a vector.

    Args:
        function: called with one text at a time.
    """

    def __init__(self, function: Callable[[str], Sequence[float]]) -> None:
        super().__init__()
        self.function = function

    def embed_query(self, text: str) -> list[float]:
        """Embed a text."""
        return [float(number) for number in self.function(text)]


def choose_embedder(choice: EmbedderLike, dimensions: int | None) -> Embedder:
    """Make the embedder for a choice; ``dimensions`` applies to Gemini models."""
    if isinstance(choice, Embedder):
        return choice
    if callable(choice):
        return FunctionEmbedder(choice)
    if choice and choice.removeprefix("models/").startswith("gemini-embedding"):
        return GeminiEmbedder(choice, dimensions) if dimensions else GeminiEmbedder(choice)
    return LocalEmbedder(choice or DEFAULT_MODEL)
