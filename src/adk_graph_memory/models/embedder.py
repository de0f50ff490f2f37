"""Adapt any embedder to the memory: call it in threads of its own, check its vectors, and wrap its errors.

A tokenizer splits the words of an unknown language into many pieces, and the vectors then compare spelling, not
meaning: with all-MiniLM-L6-v2 they cost Russian questions 13 points of recall against full text alone.
"""

from __future__ import annotations

import asyncio
import copy
import math
import re
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import errors
from adk_graph_memory.language.detection import WIDE_CHARACTER
from adk_graph_memory.models.gemini import GeminiEmbedder
from adk_graph_memory.models.light import LightEmbedder
from adk_graph_memory.models.local import CHUNK_SIZE, DEFAULT_MODEL, LocalEmbedder
from adk_graph_memory.models.tokens import QuestionEmbedding, TokenEncoder
from adk_graph_memory.records.health import LoadingState
from adk_graph_memory.records.turns import Embedding, Passage
from adk_graph_memory.runtime import concurrency
from adk_graph_memory.runtime.settings import Settings

KNOWN_PIECES, FOREIGN_PIECES = 1.5, 2.5
"""Pieces per word up to which a language counts as known, and from which it counts as foreign."""
KNOWN_WIDE_PIECES, FOREIGN_WIDE_PIECES = 0.75, 1.0
"""The same per character in scripts without spaces: a tokenizer that knows the script has multi-character pieces."""
MULTILINGUAL_TOKEN_COUNT = 100_000
"""Vocabulary size from which a tokenizer counts as multilingual."""
MAX_FLUENCY_LENGTH = 2_000
"""Leading characters of a text that are scored."""


@runtime_checkable
class Tokenizer(Protocol):
    """The tokenizer interface of sentence-transformers models."""

    def tokenize(self, text: str) -> list[str]: ...

    def __len__(self) -> int: ...


def score_fluency(text: str, tokenizer: object) -> float:
    """A score from 0 (foreign) to 1 (known); 1 if the embedder exposes no tokenizer.

    Args:
        text: the text to embed.
        tokenizer: the embedder's, or None.
    """
    text = text[:MAX_FLUENCY_LENGTH]
    if not isinstance(tokenizer, Tokenizer) or len(tokenizer) >= MULTILINGUAL_TOKEN_COUNT:
        return 1.0
    wide, words = WIDE_CHARACTER.findall(text), WIDE_CHARACTER.sub(" ", text).split()
    if not (wide or words):
        return 1.0
    wide_score = _interpolate_fluency(
        _count_pieces("".join(wide), tokenizer) / max(1, len(wide)), KNOWN_WIDE_PIECES, FOREIGN_WIDE_PIECES
    )
    word_score = _interpolate_fluency(
        _count_pieces(" ".join(words), tokenizer) / max(1, len(words)), KNOWN_PIECES, FOREIGN_PIECES
    )
    return (len(wide) * wide_score + len(words) * word_score) / (len(wide) + len(words))


def _count_pieces(text: str, tokenizer: Tokenizer) -> float:
    """Count pieces; an unknown token stands for a whole word and counts as a foreign one."""
    pieces = tokenizer.tokenize(text)
    return len(pieces) + (FOREIGN_PIECES - 1) * pieces.count(getattr(tokenizer, "unk_token", None) or "[UNK]")


def _interpolate_fluency(pieces: float, known: float, foreign: float) -> float:
    return min(1.0, max(0.0, (foreign - pieces) / (foreign - known)))


_ENDING = re.compile(r"after (interpreter )?shutdown")
"""What Python says to a thread that goes on while its process ends."""
EmbedderLike = Embedder | Callable[[str], Sequence[float]] | str | None
EmbedderChoice = EmbedderLike | Literal[False]
S = TypeVar("S")
T = TypeVar("T")


@runtime_checkable
class BatchEmbedder(Protocol):
    """An embedder that takes many texts in one call."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that returns token vectors, and reads a passage together with what was said before it."""

    def embed_question(self, text: str, typed_text: str | None = None) -> QuestionEmbedding: ...

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


class EmbedderAdapter:
    """An embedder of any kind, as the memory uses it.

    It is called in threads and never by an async method, because the connections of an async method belong to one event
    loop, and there are several.

    Args:
        choice: a neo4j-graphrag ``Embedder``, a function from text to a vector, the name of a Gemini model, or the name
            or path of a sentence-transformers model, or both as ``name=path``; None for the default model.
        settings: how many calls may run at a time (one, if the embedder takes any number of texts), the dimension of
            a Gemini model's vectors, and the projection of token vectors.
    """

    def __init__(self, choice: EmbedderLike, settings: Settings) -> None:
        self.embedder = choose_embedder(choice, settings.embed_dimensions)
        is_concurrent = isinstance(self.embedder, GeminiEmbedder) or not isinstance(self.embedder, BatchEmbedder)
        self._thread_count = settings.limits.embed_concurrency if is_concurrent else 1
        self._projection_path = settings.token_projection
        self._loading_future: Future[object] | None = None
        self._loading_start, self._is_failure_raised = 0.0, False
        self._dimension: int | None = None

    @property
    def texts_per_call(self) -> int | None:
        """The maximum number of texts per call; None for any number."""
        if isinstance(self.embedder, GeminiEmbedder):
            return self.embedder.texts_per_request
        return None if isinstance(self.embedder, BatchEmbedder) else 1

    @property
    def name(self) -> str:
        """The name under which the graph stores whose vectors these are."""
        if isinstance(self.embedder, NamedEmbedder):
            return self.embedder.embedder_name
        source = self.embedder.function if isinstance(self.embedder, FunctionEmbedder) else self.embedder
        model = getattr(source, "model", None)
        kind = source if hasattr(source, "__qualname__") else type(source)
        return f"{kind.__module__}.{kind.__qualname__}" + (f":{model}" if isinstance(model, str) else "")

    @property
    def is_default(self) -> bool:
        """Whether the model is the default one, for which scores are calibrated."""
        return isinstance(self.embedder, LocalEmbedder | LightEmbedder) and self.embedder.model == DEFAULT_MODEL

    def measure_fluency(self, text: str) -> float:
        """Rate from 0 to 1 how well the embedder knows the text's language, judging by its tokenizer."""
        return score_fluency(text, self._tokenizer)

    @cached_property
    def _tokenizer(self) -> object:
        """A copy of the embedder's tokenizer, which is busy in another thread; tokenizers are not thread-safe."""
        tokenizer: Any = copy.deepcopy(getattr(self._model, "tokenizer", None))
        if hasattr(tokenizer, "model_max_length"):
            tokenizer.model_max_length = sys.maxsize  # its pieces are only counted: no warning of texts too long
        return tokenizer

    def start_loading(self) -> None:
        """Start loading a local model, or the credentials of a hosted one, in the background; retry if that failed."""
        if self._loading_future is not None and self._loading_error is None:
            return
        match self.embedder:
            case LocalEmbedder() | LightEmbedder():
                self._loading_future = self._executor.submit(lambda: self.token_embedder)
            case GeminiEmbedder() as gemini:
                self._loading_future = self._executor.submit(lambda: gemini.client)
        self._loading_start, self._is_failure_raised = time.monotonic(), False

    @property
    def loading_state(self) -> LoadingState:
        """How far loading is."""
        if self._loading_future is None:
            is_lazy = isinstance(self.embedder, LocalEmbedder | LightEmbedder | GeminiEmbedder)
            return "not loaded yet" if is_lazy else "loaded"
        if not self._loading_future.done():
            return "loading"
        return "failed" if self._loading_error else "loaded"

    def report_loading_failure(self, report: Callable[[errors.GraphMemoryError], object]) -> None:
        """Call ``report`` with why loading failed, now or when it ends, unless the error was raised to somebody.

        A process that ends meanwhile interrupts the loading with a RuntimeError, which is no failure.
        """

        def report_error(_: Future[object]) -> None:
            if not (error := self._loading_error) or self._is_failure_raised:
                return
            is_ending = not threading.main_thread().is_alive() or bool(_ENDING.search(str(error.__cause__)))
            if not (is_ending and isinstance(error.__cause__, RuntimeError)):
                report(error)

        if self._loading_future is not None:
            self._loading_future.add_done_callback(report_error)

    async def wait_until_ready(self, seconds: float | None = None, *, retry_pause: float = 0.0) -> bool:
        """Wait until the embedder is loaded, so that the timeout of an embedding does not include loading.

        Args:
            seconds: the limit, counted from when loading began; None to wait as long as it takes.
            retry_pause: seconds before a failed loading is tried again; until then its error is raised.

        Returns:
            Whether it is loaded.

        Raises:
            errors.EmbeddingError, errors.ConfigurationError: it cannot be used.
        """
        if self._loading_error is None or time.monotonic() >= self._loading_start + retry_pause:
            self.start_loading()
        if self._loading_future is None:
            return True
        if not self._loading_future.done():
            seconds_left = None if seconds is None else max(0.0, self._loading_start + seconds - time.monotonic())
            loading = asyncio.wrap_future(self._loading_future)
            loading.add_done_callback(lambda future: future.cancelled() or future.exception())  # it is read below
            try:
                async with asyncio.timeout(seconds_left):
                    await asyncio.wait([loading])  # a timeout here must not cancel the loading
            except TimeoutError:
                return False
        if (error := self._loading_error) is not None:
            self._is_failure_raised = True
            raise error.with_traceback(None)
        return True

    @property
    def _loading_error(self) -> errors.GraphMemoryError | None:
        """Why the latest loading failed, if it did."""
        future = self._loading_future
        error = future.exception() if future is not None and future.done() else None
        if error is None or isinstance(error, errors.GraphMemoryError):
            return error
        failure = errors.EmbedderFailed(name=self.name, reason=concurrency.describe_failure(error))
        failure.__cause__ = error
        return failure

    @cached_property
    def token_embedder(self) -> TokenEmbedder | None:
        """The embedder that also makes token vectors; None if the model does not expose them. Loads a local model.

        Raises:
            errors.ConfigurationError: the file in the settings is not a projection, or fits another model.
        """
        if isinstance(self.embedder, TokenEmbedder):
            return self.embedder
        name = self.embedder.model if isinstance(self.embedder, LocalEmbedder | LightEmbedder) else ""
        return TokenEncoder.from_model(self._model, name, self._projection_path)

    @property
    def _model(self) -> Any:
        """The model behind the embedder, if it exposes one. Loads a local model."""
        if isinstance(self.embedder, LocalEmbedder | LightEmbedder):
            return self.embedder.loaded_model
        return getattr(self.embedder, "model", None)

    async def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        """Embed each passage for storage; all vectors have the same dimension.

        Raises:
            errors.EmbedderMissing, errors.CredentialsMissing: the local model is not installed, or the hosted one has
                no credentials.
            errors.EmbedderFailed: the embedder raised, or did not return one usable vector per text.
        """
        return await self._wrap_errors(self._compute_passage_embeddings(list(passages))) if passages else []

    async def aembed_question(self, text: str, typed_text: str | None = None) -> QuestionEmbedding:
        """Embed a question, which some models do in another way than the passages it is compared with.

        Args:
            text: the question.
            typed_text: the question as it was typed, if it is to be embedded too.

        Raises:
            errors.EmbedderMissing, errors.CredentialsMissing, errors.EmbedderFailed: as :meth:`embed_passages`.
        """
        return await self._wrap_errors(self._compute_question_embedding(text, typed_text))

    @property
    def dimension(self) -> int | None:
        """The numbers per vector, once there was one."""
        return self._dimension

    def embed_question(self, text: str, typed_text: str | None = None) -> QuestionEmbedding:
        """Embed a question in the caller's thread, without checking the vector."""
        if self.token_embedder is not None:
            return self.token_embedder.embed_question(text, typed_text)
        typed = None if typed_text is None else self.embed_question(typed_text)
        return QuestionEmbedding([float(number) for number in self.embedder.embed_query(text)], typed=typed)

    async def _compute_question_embedding(self, text: str, typed_text: str | None) -> QuestionEmbedding:
        [embedding] = await self._run_concurrently(
            lambda texts: [self.embed_question(text, typed_text) for text in texts], [[text]]
        )
        typed = embedding.typed
        vector, *typed_vectors = self._check_vectors([one.vector for one in (embedding, typed) if one], 1 + bool(typed))
        return embedding._replace(vector=vector, typed=typed and typed._replace(vector=typed_vectors[0]))

    async def _compute_passage_embeddings(self, passages: list[Passage]) -> list[Embedding]:
        if (token_embedder := await self._run_in_thread(lambda: self.token_embedder)) is not None:
            chunks = [passages[start : start + CHUNK_SIZE] for start in range(0, len(passages), CHUNK_SIZE)]
            embeddings = await self._run_concurrently(token_embedder.embed_passages, chunks)
            vectors = [embedding.vector for embedding in embeddings]
            vectors = await asyncio.to_thread(self._check_vectors, vectors, len(passages))
            return [embedding._replace(vector=vector) for embedding, vector in zip(embeddings, vectors, strict=True)]
        texts = list(dict.fromkeys(passage.text for passage in passages))
        embedder = self.embedder
        if isinstance(embedder, GeminiEmbedder | LocalEmbedder | LightEmbedder):
            batches = await self._run_in_thread(embedder.split_batches, texts)
            vectors = await self._run_concurrently(embedder.embed_documents, batches)
        elif isinstance(embedder, BatchEmbedder):
            vectors = await self._run_concurrently(embedder.embed_documents, [texts])
        else:
            vectors = await self._run_concurrently(
                lambda batch: [embedder.embed_query(text) for text in batch], [[text] for text in texts]
            )
        by_text = dict(zip(texts, await asyncio.to_thread(self._check_vectors, vectors, len(texts)), strict=True))
        return [Embedding(by_text[passage.text]) for passage in passages]

    async def _wrap_errors(self, call: Awaitable[T]) -> T:
        """Await a call of the embedder; raise any error of it as :class:`errors.EmbedderFailed`."""
        try:
            return await call
        except errors.GraphMemoryError:
            raise
        except Exception as error:  # an embedder is anybody's code and may raise anything
            raise errors.EmbedderFailed(name=self.name, reason=concurrency.describe_failure(error)) from error

    async def _run_concurrently(self, embed: Callable[[list[S]], list[T]], batches: list[list[S]]) -> list[T]:
        """Embed all batches, only a few queued at a time, so that other calls get a turn; a failure stops the rest."""
        semaphore = asyncio.Semaphore(self._thread_count)

        async def embed_batch(batch: list[S]) -> list[T]:
            async with semaphore:
                return await self._run_in_thread(embed, batch)

        tasks = [asyncio.create_task(embed_batch(batch)) for batch in batches]
        try:
            return [item for items in await asyncio.gather(*tasks) for item in items]
        finally:
            for task in tasks:
                task.cancel()

    async def _run_in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        """Threads of its own: an embedder that hangs must not block the event loop's thread pool."""
        return ThreadPoolExecutor(self._thread_count, thread_name_prefix="embedder")

    def _check_vectors(self, raw_vectors: Sequence[Sequence[float]], text_count: int) -> list[list[float]]:
        vectors = [[float(number) for number in vector] for vector in raw_vectors]
        if len(vectors) != text_count:
            raise errors.EmbedderFailed(name=self.name, reason=f"{len(vectors)} vectors for {text_count} texts")
        dimensions = {len(vector) for vector in vectors}
        if len(dimensions) != 1 or 0 in dimensions:
            raise errors.EmbedderFailed(name=self.name, reason=f"vectors of dimensions {sorted(dimensions)}")
        [dimension] = dimensions
        if self._dimension not in (None, dimension):
            raise errors.EmbedderFailed(
                name=self.name, reason=f"a vector has {dimension} dimensions, earlier ones had {self._dimension}"
            )
        self._dimension = dimension
        if not all(math.isfinite(math.hypot(*vector)) and any(vector) for vector in vectors):
            raise errors.EmbedderFailed(name=self.name, reason="a vector holds NaN or infinity, or nothing but zeros")
        # Neo4j compares in single precision: what would be too short or too long for it is scaled to length 1.
        return [
            vector if 1e-15 < (length := math.hypot(*vector)) < 1e15 else [number / length for number in vector]
            for vector in vectors
        ]


def check_choice(choice: object) -> None:
    """Refuse what is no embedder.

    Raises:
        errors.InvalidArgument: an embedder is of another kind.
    """
    is_none = choice is None or choice is False
    if isinstance(choice, type) or not (is_none or isinstance(choice, Embedder | str) or callable(choice)):
        reason = (
            f"embedder={choice!r} is no embedder: pass a neo4j-graphrag Embedder, a function from text to a list of "
            "numbers, a model's name or path, None for the default model, or False for full text alone"
        )
        raise errors.InvalidArgument(reason=reason)


def choose_embedder(choice: EmbedderLike, dimensions: int | None) -> Embedder:
    """Make the embedder for a choice; ``dimensions`` applies to Gemini models."""
    if isinstance(choice, Embedder):
        return choice
    check_choice(choice)
    if callable(choice):
        return FunctionEmbedder(choice)
    if choice and choice.removeprefix("models/").startswith("gemini-embedding"):
        return GeminiEmbedder(choice, dimensions) if dimensions else GeminiEmbedder(choice)
    if choice == "none":
        raise errors.InvalidArgument(reason="the embedder 'none' makes no vectors: name a model")
    model, folder = choice or DEFAULT_MODEL, ""
    if not Path(model).exists():
        model, _, folder = model.partition("=")
    is_light = not find_spec("sentence_transformers") and find_spec("onnxruntime") and find_spec("tokenizers")
    return LightEmbedder(model, folder or None) if is_light else LocalEmbedder(model, folder or None)
