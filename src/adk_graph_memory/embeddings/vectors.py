"""Texts go in, vectors come out: whatever kind of embedder was chosen, counted, checked and never blocking a loop."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import errors
from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.local import DEFAULT_MODEL, LocalEmbedder
from adk_graph_memory.language.fluency import fluency
from adk_graph_memory.settings import Settings

Chosen = Embedder | Callable[[str], Sequence[float]] | str | None
Choice = Chosen | Literal[False]
T = TypeVar("T")
Numbers = Sequence[Sequence[float]]


@runtime_checkable
class Batching(Protocol):
    """An embedder that takes many texts in one call."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...


@runtime_checkable
class Splitting(Batching, Protocol):
    """One that takes so many texts in one call and no more, and several calls at a time."""

    def batches(self, texts: list[str]) -> list[list[str]]: ...


@runtime_checkable
class Known(Protocol):
    """One that says itself what its vectors are known by, wherever its class lives."""

    @property
    def known_as(self) -> str: ...


class FunctionEmbedder(Embedder):
    """A function from text to numbers.

    Args:
        function: called with one text at a time.
    """

    def __init__(self, function: Callable[[str], Sequence[float]]) -> None:
        super().__init__()
        self.function = function

    def embed_query(self, text: str) -> list[float]:
        """The text's vector."""
        return [float(number) for number in self.function(text)]


def _embedder(choice: Chosen, dimensions: int | None) -> Embedder:
    if isinstance(choice, Embedder):
        return choice
    if callable(choice):
        return FunctionEmbedder(choice)
    if choice and choice.removeprefix("models/").startswith("gemini-embedding"):
        return GeminiEmbedder(choice, dimensions) if dimensions else GeminiEmbedder(choice)
    return LocalEmbedder(choice or DEFAULT_MODEL)


class Vectors:
    """An embedder of any kind, as the memory uses it.

    It is asked in threads, never by a method that could be awaited: what such a method keeps open belongs to one event
    loop, and there are several.

    Args:
        choice: a neo4j-graphrag ``Embedder``, a function from text to numbers, or a name: of one of Gemini's models, or
            the name or path of a sentence-transformers model; None for the default model.
        concurrency: calls at a time to an embedder; one that takes any number of texts gets one.
        dimensions: numbers a vector, where one of Gemini's models is named.
    """

    def __init__(self, choice: Chosen, *, concurrency: int, dimensions: int | None = None) -> None:
        self.embedder = _embedder(choice, dimensions)
        takes_all = isinstance(self.embedder, Batching) and not isinstance(self.embedder, Splitting)
        self._threads = 1 if takes_all or isinstance(self.embedder, LocalEmbedder) else concurrency
        self._is_ready = False
        self._length: int | None = None

    @classmethod
    def of_settings(cls, choice: Chosen, settings: Settings) -> Vectors:
        """As the settings say."""
        return cls(choice, concurrency=settings.embed_concurrency, dimensions=settings.embed_dimensions)

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
        own = self.embedder.loaded if isinstance(self.embedder, LocalEmbedder) else None
        model = own or getattr(self.embedder, "model", None)
        return copy.deepcopy(getattr(model, "tokenizer", None))

    async def ready(self) -> None:
        """Loads a local model, or sees to the key of a hosted one, so that the first text's time is the text's own."""
        if not self._is_ready and isinstance(self.embedder, LocalEmbedder | GeminiEmbedder):
            await self._in_thread(self.embedder.load)
            self._is_ready = True

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text that is to be stored, all of one length.

        Raises:
            errors.EmbedderMissing: the local model is not installed, or the hosted one has no key.
            errors.EmbedderFailed: the embedder raised, or gave not one usable vector a text.
        """
        return await self._made(list(texts)) if texts else []

    async def of_question(self, text: str) -> list[float]:
        """A question's vector: some models embed it in another way than the texts that it is compared with.

        Raises:
            errors.EmbedderMissing, errors.EmbedderFailed: as :meth:`of`.
        """
        [vector] = await self._made([text], is_question=True)
        return vector

    async def _made(self, texts: list[str], *, is_question: bool = False) -> list[list[float]]:
        try:
            if isinstance(self.embedder, Batching) and not is_question:
                vectors = await self._side_by_side(self.embedder.embed_documents, await self._batches(texts))
            else:
                vectors = await self._side_by_side(self._each, [[text] for text in texts])
        except errors.GraphMemoryError:
            raise
        except Exception as error:  # an embedder is anybody's code and may raise anything
            raise errors.EmbedderFailed(name=self.name, reason=f"{type(error).__name__}: {error}") from error
        return await asyncio.to_thread(self._checked, vectors, len(texts))

    async def _batches(self, texts: list[str]) -> list[list[str]]:
        if isinstance(self.embedder, Splitting):
            return await self._in_thread(self.embedder.batches, texts)
        return [texts]

    def _each(self, texts: list[str]) -> Numbers:
        return [self.embedder.embed_query(text) for text in texts]

    async def _side_by_side(self, make: Callable[[list[str]], Numbers], batches: list[list[str]]) -> list[list[float]]:
        """Vectors of all batches: few are in line at a time, so that others get a turn; none begins once one failed."""
        slots = asyncio.Semaphore(self._threads)

        async def made(batch: list[str]) -> list[list[float]]:
            async with slots:
                return await self._in_thread(_numbers, make, batch)

        tasks = [asyncio.create_task(made(batch)) for batch in batches]
        try:
            return [vector for batch in await asyncio.gather(*tasks) for vector in batch]
        finally:
            for task in tasks:
                task.cancel()

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        """Threads of its own: an embedder that hangs must not take those of everybody else."""
        return ThreadPoolExecutor(self._threads, thread_name_prefix="embedder")

    def _checked(self, vectors: list[list[float]], expected: int) -> list[list[float]]:
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


def _numbers(make: Callable[[list[str]], Numbers], texts: list[str]) -> list[list[float]]:
    return [[float(number) for number in vector] for vector in make(texts)]


def _scaled(vector: list[float]) -> list[float]:
    """The vector as Neo4j can compare it, in single precision: of length one where its own is out of that range."""
    length = math.hypot(*vector)
    return vector if 1e-15 < length < 1e15 else [number / length for number in vector]
