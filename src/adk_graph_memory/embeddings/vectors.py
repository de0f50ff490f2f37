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
from adk_graph_memory.embeddings.choice import (
    Batching,
    Chosen,
    FunctionEmbedder,
    Known,
    Splitting,
    TokenEmbedder,
    choose_embedder,
)
from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.local import PORTION, LocalEmbedder
from adk_graph_memory.embeddings.tokens import EmbeddedQuestion, TokenEncoder
from adk_graph_memory.language.fluency import fluency
from adk_graph_memory.records import Embedding, Passage
from adk_graph_memory.settings import Settings

S = TypeVar("S")
T = TypeVar("T")


class Vectors:
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
        self, choice: Chosen, *, concurrency: int, dimensions: int | None = None, projection: str | None = None
    ) -> None:
        self.embedder = choose_embedder(choice, dimensions)
        takes_all = isinstance(self.embedder, Batching) and not isinstance(self.embedder, Splitting)
        self._threads = 1 if takes_all or isinstance(self.embedder, LocalEmbedder) else concurrency
        self._projection = projection
        self._loading: Future[object] | None = None
        self._began = 0.0
        self._length: int | None = None

    @classmethod
    def of_settings(cls, choice: Chosen, settings: Settings) -> Vectors:
        """As the settings say."""
        return cls(
            choice,
            concurrency=settings.embed_concurrency,
            dimensions=settings.embed_dimensions,
            projection=settings.token_projection,
        )

    @property
    def texts_a_call(self) -> int | None:
        """How many texts one call takes at most; None for any number."""
        if isinstance(self.embedder, GeminiEmbedder):
            return self.embedder.texts_a_request
        return None if isinstance(self.embedder, Batching) else 1

    @property
    def name(self) -> str:
        """What the database remembers its vectors by."""
        if isinstance(self.embedder, Known):
            return self.embedder.known_as
        chosen = self.embedder.function if isinstance(self.embedder, FunctionEmbedder) else self.embedder
        model = getattr(chosen, "model", None)
        kind = chosen if hasattr(chosen, "__qualname__") else type(chosen)
        return f"{kind.__module__}.{kind.__qualname__}" + (f":{model}" if isinstance(model, str) else "")

    def fluency(self, text: str) -> float:
        """0…1: how well the embedder knows the text's language, as far as its tokenizer shows."""
        return fluency(text, self._tokenizer)

    @cached_property
    def _tokenizer(self) -> object:
        """One of our own: a tokenizer serves no two threads at a time, and the embedder's own is at work in another."""
        return copy.deepcopy(getattr(self._model, "tokenizer", None))

    def start_loading(self) -> None:
        """Loads a local model in the background, or sees to the key of a hosted one; again where that failed before."""
        if self._loading is not None and not (self._loading.done() and self._loading.exception()):
            return
        if isinstance(self.embedder, LocalEmbedder):
            self._began, self._loading = time.monotonic(), self._executor.submit(lambda: self.tokens)
        elif isinstance(self.embedder, GeminiEmbedder):
            self._began, self._loading = time.monotonic(), self._executor.submit(self.embedder.load)

    async def ready(self, patience: float | None = None) -> bool:
        """Waits until the embedder is loaded, so that the first text's time is the text's own.

        Args:
            patience: seconds from when the loading began; without it as long as it takes.

        Returns:
            Whether it is.

        Raises:
            errors.EmbedderMissing, errors.KeyMissing, errors.ConfigurationError: it cannot be used.
        """
        self.start_loading()
        if self._loading is None:
            return True
        if not self._loading.done():
            left = None if patience is None else max(0.0, self._began + patience - time.monotonic())
            try:
                async with asyncio.timeout(left):
                    await asyncio.shield(asyncio.wrap_future(self._loading))  # who waits no longer must not stop it
            except TimeoutError:
                return False
        self._loading.result()
        return True

    @cached_property
    def tokens(self) -> TokenEmbedder | None:
        """What makes token vectors beside the vectors; None of a model that does not show them. Loads a local model.

        Raises:
            errors.ConfigurationError: the projection that the settings name is none, or fits another model.
        """
        if isinstance(self.embedder, TokenEmbedder):
            return self.embedder
        name = self.embedder.model if isinstance(self.embedder, LocalEmbedder) else ""
        return TokenEncoder.of_model(self._model, name, self._projection)

    @property
    def _model(self) -> Any:
        """The model behind the embedder, as far as it shows one. Loads a local model."""
        if isinstance(self.embedder, LocalEmbedder):
            return self.embedder.loaded
        return getattr(self.embedder, "model", None)

    async def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        """An embedding of each passage that is to be stored, their vectors all of one length.

        Raises:
            errors.EmbedderMissing: the local model is not installed, or the hosted one has no key.
            errors.EmbedderFailed: the embedder raised, or gave not one usable vector a text.
        """
        return await self._named(self._made(list(passages))) if passages else []

    async def of_question(self, text: str) -> EmbeddedQuestion:
        """A question's embedding: some models embed it in another way than the texts that it is compared with.

        Raises:
            errors.EmbedderMissing, errors.EmbedderFailed: as :meth:`embed_passages`.
        """
        return await self._named(self._asked(text))

    def embed_question(self, text: str) -> EmbeddedQuestion:
        """The same, unchecked, in the caller's thread."""
        if self.tokens is not None:
            return self.tokens.embed_question(text)
        return EmbeddedQuestion([float(number) for number in self.embedder.embed_query(text)])

    async def _asked(self, text: str) -> EmbeddedQuestion:
        [asked] = await self._side_by_side(lambda texts: [self.embed_question(text) for text in texts], [[text]])
        [vector] = self._checked([asked.vector], 1)
        return asked._replace(vector=vector)

    async def _made(self, passages: list[Passage]) -> list[Embedding]:
        if (tokens := await self._in_thread(lambda: self.tokens)) is not None:
            portions = [passages[start : start + PORTION] for start in range(0, len(passages), PORTION)]
            made = await self._side_by_side(tokens.embed_passages, portions)
            vectors = await asyncio.to_thread(self._checked, [one.vector for one in made], len(passages))
            return [one._replace(vector=vector) for one, vector in zip(made, vectors, strict=True)]
        texts = list(dict.fromkeys(passage.text for passage in passages))
        if isinstance(self.embedder, Batching):
            vectors = await self._side_by_side(self.embedder.embed_documents, await self._batches(texts))
        else:
            vectors = await self._side_by_side(self._each, [[text] for text in texts])
        by_text = dict(zip(texts, await asyncio.to_thread(self._checked, vectors, len(texts)), strict=True))
        return [Embedding(by_text[passage.text]) for passage in passages]

    async def _named(self, making: Awaitable[T]) -> T:
        """What is made, or the embedder's error under our name."""
        try:
            return await making
        except errors.GraphMemoryError:
            raise
        except Exception as error:  # an embedder is anybody's code and may raise anything
            raise errors.EmbedderFailed(name=self.name, reason=f"{type(error).__name__}: {error}") from error

    async def _batches(self, texts: list[str]) -> list[list[str]]:
        if isinstance(self.embedder, Splitting):
            return await self._in_thread(self.embedder.batches, texts)
        return [texts]

    def _each(self, texts: list[str]) -> list[list[float]]:
        return [self.embedder.embed_query(text) for text in texts]

    async def _side_by_side(self, make: Callable[[list[S]], list[T]], batches: list[list[S]]) -> list[T]:
        """What is made of all batches: few are in line at a time, so that others get a turn; none follows a failure."""
        slots = asyncio.Semaphore(self._threads)

        async def made(batch: list[S]) -> list[T]:
            async with slots:
                return await self._in_thread(make, batch)

        tasks = [asyncio.create_task(made(batch)) for batch in batches]
        try:
            return [one for batch in await asyncio.gather(*tasks) for one in batch]
        finally:
            for task in tasks:
                task.cancel()

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        """Threads of its own: an embedder that hangs must not take those of everybody else."""
        return ThreadPoolExecutor(self._threads, thread_name_prefix="embedder")

    def _checked(self, made: Sequence[Sequence[float]], expected: int) -> list[list[float]]:
        vectors = [[float(number) for number in vector] for vector in made]
        if len(vectors) != expected:
            raise errors.EmbedderFailed(name=self.name, reason=f"{len(vectors)} vectors for {expected} texts")
        lengths = {len(vector) for vector in vectors}
        if len(lengths) != 1 or 0 in lengths:
            raise errors.EmbedderFailed(name=self.name, reason=f"vectors of lengths {sorted(lengths)}")
        [length] = lengths
        if self._length not in (None, length):
            raise errors.EmbedderFailed(name=self.name, reason=f"{length} numbers a vector, {self._length} before")
        self._length = length
        if not all(math.isfinite(math.hypot(*vector)) and any(vector) for vector in vectors):
            raise errors.EmbedderFailed(name=self.name, reason="a vector holds NaN or infinity, or nothing but zeros")
        return [_scaled(vector) for vector in vectors]


def _scaled(vector: list[float]) -> list[float]:
    """The vector as Neo4j can compare it, in single precision: of length one where its own is out of that range."""
    length = math.hypot(*vector)
    return vector if 1e-15 < length < 1e15 else [number / length for number in vector]
