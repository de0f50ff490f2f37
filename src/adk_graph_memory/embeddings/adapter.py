"""Passages go in, embeddings come out: whatever embedder was chosen, counted, checked and never blocking a loop."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

from adk_graph_memory import errors
from adk_graph_memory.embeddings.embedders import (
    BatchEmbedder,
    EmbedderLike,
    FunctionEmbedder,
    LimitedBatchEmbedder,
    NamedEmbedder,
    TokenEmbedder,
    choose_embedder,
)
from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.local import CHUNK_SIZE, LocalEmbedder
from adk_graph_memory.embeddings.token_encoder import QuestionEmbedding, TokenEncoder
from adk_graph_memory.language.fluency import score_fluency
from adk_graph_memory.records import Embedding, Passage
from adk_graph_memory.settings import Settings

S = TypeVar("S")
T = TypeVar("T")


class EmbedderAdapter:
    """An embedder of any kind, as the memory uses it.

    It is asked in threads, never by a method that could be awaited: what such a method keeps open belongs to one event
    loop, and there are several.

    Args:
        choice: a neo4j-graphrag ``Embedder``, a function from text to numbers, or a name: of one of Gemini's models, or
            the name or path of a sentence-transformers model; None for the default model.
        concurrency: calls at a time to an embedder; one that takes any number of texts gets one.
        dimensions: numbers a vector, where one of Gemini's models is named.
        projection: path of a projection of token vectors that was fitted to the model.
    """

    def __init__(
        self, choice: EmbedderLike, *, concurrency: int, dimensions: int | None = None, projection: str | None = None
    ) -> None:
        self.embedder = choose_embedder(choice, dimensions)
        takes_all = isinstance(self.embedder, BatchEmbedder) and not isinstance(self.embedder, LimitedBatchEmbedder)
        self._thread_count = 1 if takes_all or isinstance(self.embedder, LocalEmbedder) else concurrency
        self._projection_path = projection
        self._loading_future: Future[object] | None = None
        self._loading_start = 0.0
        self._vector_length: int | None = None

    @classmethod
    def from_settings(cls, choice: EmbedderLike, settings: Settings) -> EmbedderAdapter:
        """As the settings say."""
        return cls(
            choice,
            concurrency=settings.limits.embed_concurrency,
            dimensions=settings.embed_dimensions,
            projection=settings.token_projection,
        )

    @property
    def texts_per_call(self) -> int | None:
        """How many texts one call takes at most; None for any number."""
        if isinstance(self.embedder, GeminiEmbedder):
            return self.embedder.texts_per_request
        return None if isinstance(self.embedder, BatchEmbedder) else 1

    @property
    def name(self) -> str:
        """What the database remembers its vectors by."""
        if isinstance(self.embedder, NamedEmbedder):
            return self.embedder.embedder_name
        chosen = self.embedder.function if isinstance(self.embedder, FunctionEmbedder) else self.embedder
        model = getattr(chosen, "model", None)
        kind = chosen if hasattr(chosen, "__qualname__") else type(chosen)
        return f"{kind.__module__}.{kind.__qualname__}" + (f":{model}" if isinstance(model, str) else "")

    def measure_fluency(self, text: str) -> float:
        """0…1: how well the embedder knows the text's language, as far as its tokenizer shows."""
        return score_fluency(text, self._tokenizer)

    @cached_property
    def _tokenizer(self) -> object:
        """One of our own: a tokenizer serves no two threads at a time, and the embedder's own is at work in another."""
        return copy.deepcopy(getattr(self._model, "tokenizer", None))

    def start_loading(self) -> None:
        """Loads a local model in the background, or sees to the key of a hosted one; again where that failed before."""
        if self._loading_future is not None and not (self._loading_future.done() and self._loading_future.exception()):
            return
        if isinstance(self.embedder, LocalEmbedder):
            self._loading_future = self._executor.submit(lambda: self.token_embedder)
        elif isinstance(self.embedder, GeminiEmbedder):
            self._loading_future = self._executor.submit(self.embedder.load_credentials)
        self._loading_start = time.monotonic()

    async def wait_until_ready(self, patience: float | None = None) -> bool:
        """Waits until the embedder is loaded, so that the first text's time is the text's own.

        Args:
            patience: seconds from when the loading began; without it as long as it takes.

        Returns:
            Whether it is.

        Raises:
            errors.EmbedderMissing, errors.CredentialsMissing, errors.ConfigurationError: it cannot be used.
        """
        self.start_loading()
        if self._loading_future is None:
            return True
        if not self._loading_future.done():
            left = None if patience is None else max(0.0, self._loading_start + patience - time.monotonic())
            loading = asyncio.wrap_future(self._loading_future)
            try:
                async with asyncio.timeout(left):
                    await asyncio.shield(loading)  # who waits no longer must not stop it
            except TimeoutError:
                return False
        self._loading_future.result()
        return True

    @cached_property
    def token_embedder(self) -> TokenEmbedder | None:
        """What makes token vectors beside the vectors; None of a model that does not show them. Loads a local model.

        Raises:
            errors.ConfigurationError: the projection that the settings name is none, or fits another model.
        """
        if isinstance(self.embedder, TokenEmbedder):
            return self.embedder
        name = self.embedder.model if isinstance(self.embedder, LocalEmbedder) else ""
        return TokenEncoder.from_model(self._model, name, self._projection_path)

    @property
    def _model(self) -> Any:
        """The model behind the embedder, as far as it shows one. Loads a local model."""
        if isinstance(self.embedder, LocalEmbedder):
            return self.embedder.loaded_model
        return getattr(self.embedder, "model", None)

    async def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        """An embedding of each passage that is to be stored, their vectors all of one length.

        Raises:
            errors.EmbedderMissing: the local model is not installed, or the hosted one has no key.
            errors.EmbedderFailed: the embedder raised, or gave not one usable vector a text.
        """
        return await self._wrap_errors(self._compute_passage_embeddings(list(passages))) if passages else []

    async def aembed_question(self, text: str) -> QuestionEmbedding:
        """A question's embedding: some models embed it in another way than the texts that it is compared with.

        Raises:
            errors.EmbedderMissing, errors.EmbedderFailed: as :meth:`embed_passages`.
        """
        return await self._wrap_errors(self._compute_question_embedding(text))

    def embed_question(self, text: str) -> QuestionEmbedding:
        """The same, unchecked, in the caller's thread."""
        if self.token_embedder is not None:
            return self.token_embedder.embed_question(text)
        return QuestionEmbedding([float(number) for number in self.embedder.embed_query(text)])

    async def _compute_question_embedding(self, text: str) -> QuestionEmbedding:
        [asked] = await self._run_concurrently(lambda texts: [self.embed_question(text) for text in texts], [[text]])
        [vector] = self._check_vectors([asked.vector], 1)
        return asked._replace(vector=vector)

    async def _compute_passage_embeddings(self, passages: list[Passage]) -> list[Embedding]:
        if (tokens := await self._run_in_thread(lambda: self.token_embedder)) is not None:
            portions = [passages[start : start + CHUNK_SIZE] for start in range(0, len(passages), CHUNK_SIZE)]
            made = await self._run_concurrently(tokens.embed_passages, portions)
            vectors = await asyncio.to_thread(self._check_vectors, [one.vector for one in made], len(passages))
            return [one._replace(vector=vector) for one, vector in zip(made, vectors, strict=True)]
        texts = list(dict.fromkeys(passage.text for passage in passages))
        if isinstance(self.embedder, BatchEmbedder):
            vectors = await self._run_concurrently(self.embedder.embed_documents, await self._split_batches(texts))
        else:
            vectors = await self._run_concurrently(self._embed_each, [[text] for text in texts])
        by_text = dict(zip(texts, await asyncio.to_thread(self._check_vectors, vectors, len(texts)), strict=True))
        return [Embedding(by_text[passage.text]) for passage in passages]

    async def _wrap_errors(self, making: Awaitable[T]) -> T:
        """What is made, or the embedder's error under our name."""
        try:
            return await making
        except errors.GraphMemoryError:
            raise
        except Exception as error:  # an embedder is anybody's code and may raise anything
            raise errors.EmbedderFailed(name=self.name, reason=f"{type(error).__name__}: {error}") from error

    async def _split_batches(self, texts: list[str]) -> list[list[str]]:
        if isinstance(self.embedder, LimitedBatchEmbedder):
            return await self._run_in_thread(self.embedder.split_batches, texts)
        return [texts]

    def _embed_each(self, texts: list[str]) -> list[list[float]]:
        return [self.embedder.embed_query(text) for text in texts]

    async def _run_concurrently(self, make: Callable[[list[S]], list[T]], batches: list[list[S]]) -> list[T]:
        """What is made of all batches: few are in line at a time, so that others get a turn; none follows a failure."""
        slots = asyncio.Semaphore(self._thread_count)

        async def made(batch: list[S]) -> list[T]:
            async with slots:
                return await self._run_in_thread(make, batch)

        tasks = [asyncio.create_task(made(batch)) for batch in batches]
        try:
            return [one for batch in await asyncio.gather(*tasks) for one in batch]
        finally:
            for task in tasks:
                task.cancel()

    async def _run_in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        """Threads of its own: an embedder that hangs must not take those of everybody else."""
        return ThreadPoolExecutor(self._thread_count, thread_name_prefix="embedder")

    def _check_vectors(self, made: Sequence[Sequence[float]], expected: int) -> list[list[float]]:
        vectors = [[float(number) for number in vector] for vector in made]
        if len(vectors) != expected:
            raise errors.EmbedderFailed(name=self.name, reason=f"{len(vectors)} vectors for {expected} texts")
        lengths = {len(vector) for vector in vectors}
        if len(lengths) != 1 or 0 in lengths:
            raise errors.EmbedderFailed(name=self.name, reason=f"vectors of lengths {sorted(lengths)}")
        [length] = lengths
        if self._vector_length not in (None, length):
            raise errors.EmbedderFailed(
                name=self.name, reason=f"{length} numbers a vector, {self._vector_length} before"
            )
        self._vector_length = length
        if not all(math.isfinite(math.hypot(*vector)) and any(vector) for vector in vectors):
            raise errors.EmbedderFailed(name=self.name, reason="a vector holds NaN or infinity, or nothing but zeros")
        return [_rescale_vector(vector) for vector in vectors]


def _rescale_vector(vector: list[float]) -> list[float]:
    """The vector as Neo4j can compare it, in single precision: of length one where its own is out of that range."""
    length = math.hypot(*vector)
    return vector if 1e-15 < length < 1e15 else [number / length for number in vector]
