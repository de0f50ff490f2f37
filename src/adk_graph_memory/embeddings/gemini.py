"""Texts go in, vectors of one of Gemini's models come out: as documents or as a question, in portions that it takes."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from functools import cached_property
from typing import Any, NamedTuple

from google import genai
from google.auth.exceptions import DefaultCredentialsError
from google.genai import types
from neo4j_graphrag.embeddings import google_genai
from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import calls, errors
from adk_graph_memory.records import Usage

MAX_REQUEST_TEXTS = 100
"""Texts a request: the Gemini API takes no more, Vertex AI 250."""
MAX_REQUEST_CHARACTERS = 20_000
"""Characters a request: Vertex AI takes 20,000 tokens, and where scripts need most one character is one token. Of a
longer text the beginning is embedded; the models themselves read 2,048 tokens of each, gemini-embedding-2 8,192."""
EMPTY_PLACEHOLDER = "(no text)"
"""Stands for an empty text: Vertex AI would leave it out without a word, the Gemini API refuse the whole batch."""


class _EmbeddingTask(NamedTuple):
    """What a text is embedded as: an argument of the call, or words before the text where a model knows no argument."""

    task: str
    prefix: str


_DOCUMENT_TASK = _EmbeddingTask("RETRIEVAL_DOCUMENT", "title: none | text: ")
_QUESTION_TASK = _EmbeddingTask("RETRIEVAL_QUERY", "task: search result | query: ")


class GeminiEmbedder(google_genai.GeminiEmbedder):
    """One of Gemini's embedding models, by the Gemini API or on Vertex AI.

    The credentials are google-genai's: GOOGLE_API_KEY, or on Vertex AI GOOGLE_GENAI_USE_VERTEXAI with
    GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION. They are looked up at the first text. Unlike neo4j-graphrag's own
    class this one tells questions from what they are compared with, sends many texts a request, and is at home in every
    thread and event loop. Vectors have length one: the service leaves those that it shortens as they come.

    Args:
        model: its name.
        embedding_dim: numbers a vector. The models are made for 768, 1536 and 3072.
        timeout: seconds for one request, and for a question in all.
        patience: seconds in which a request is made again that failed by the way (429, 5xx, a lost connection).
        **client: whatever else ``genai.Client`` takes.

    Raises:
        errors.CredentialsMissing: at the first text, when there are no credentials.
    """

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        embedding_dim: int = google_genai.DEFAULT_EMBEDDING_DIM,
        *,
        timeout: float = 30.0,
        patience: float = 60.0,
        **client: Any,
    ) -> None:
        Embedder.__init__(self)  # the base class's own makes the client, before ADK has read the agents' .env
        self.model, self.embedding_dim = model.removeprefix("models/"), embedding_dim
        self.timeout, self.retry_time = timeout, patience
        self.retry_pause = 1.0
        self.usage = Usage()
        """requests that were answered, and the tokens of those that the service counts (on Vertex AI)"""
        self._client_options, self._usage_lock = client, threading.Lock()

    @property
    def embedder_name(self) -> str:
        """As the base class is: the same model's vectors fit, whichever of the two made them."""
        kind = google_genai.GeminiEmbedder
        return f"{kind.__module__}.{kind.__qualname__}:{self.model}"

    def embed_query(self, text: str) -> list[float]:  # type: ignore[override]  # the client takes no more arguments
        """The vector of a question; somebody waits for it, so there is less patience."""
        return self._embed_batch([text], _QUESTION_TASK, min(self.timeout, self.retry_time))[0]

    async def async_embed_query(self, text: str) -> list[float]:  # type: ignore[override]
        """The same, in a thread: the async client belongs to one event loop, the other to none."""
        return await asyncio.to_thread(self.embed_query, text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text that questions will be compared with, in their order."""
        return [
            vector
            for batch in self.split_batches(texts)
            for vector in self._embed_batch(batch, _DOCUMENT_TASK, self.retry_time)
        ]

    @property
    def texts_per_request(self) -> int:
        """How many the service takes: of Gemini's models Vertex AI takes one, and google-genai sends no more."""
        return 1 if self.client.vertexai and "gemini" in self.model else MAX_REQUEST_TEXTS

    def split_batches(self, texts: list[str]) -> list[list[str]]:
        """The texts in portions, each of which is one request."""
        most = self.texts_per_request
        found: list[list[str]] = []
        filled = 0
        for text in texts:
            size = min(len(text), MAX_REQUEST_CHARACTERS)
            if not found or len(found[-1]) == most or filled + size > MAX_REQUEST_CHARACTERS:
                found.append([])
                filled = 0
            found[-1].append(text)
            filled += size
        return found

    def load_credentials(self) -> None:
        """Looks up the credentials now rather than at the first text."""
        _ = self.client

    @cached_property
    def client(self) -> genai.Client:  # type: ignore[override]  # the base class makes it at once
        """The client of all threads."""
        try:
            return genai.Client(**self._client_options)
        except (ValueError, DefaultCredentialsError) as error:
            # Without its frames: they hold the half-made client, which would log errors when a loop's thread frees it.
            raise errors.CredentialsMissing(model=self.model, reason=str(error)) from error.with_traceback(None)

    def _embed_batch(self, texts: list[str], kind: _EmbeddingTask, seconds: float) -> list[list[float]]:
        takes_words = "gemini-embedding-2" in self.model  # and drops the argument without a word
        prefix, task = (kind.prefix, None) if takes_words else ("", kind.task)
        # A content each: of plain strings gemini-embedding-2 makes one vector for all.
        contents: types.ContentListUnion = [
            types.Content(
                parts=[types.Part(text=prefix + (text[:MAX_REQUEST_CHARACTERS] if text.strip() else EMPTY_PLACEHOLDER))]
            )
            for text in texts
        ]
        config = types.EmbedContentConfig(task_type=task, output_dimensionality=self.embedding_dim)
        made = self._request_embeddings(contents, config, seconds).embeddings or []
        if len(made) != len(texts):
            raise errors.EmbedderFailed(name=self.embedder_name, reason=f"{len(made)} vectors for {len(texts)} texts")
        tokens = sum(int(one.statistics.token_count or 0) for one in made if one.statistics)
        with self._usage_lock:
            self.usage += Usage(calls=1, input_tokens=tokens)
        return [_normalize_vector(one.values or []) for one in made]

    def _request_embeddings(
        self, contents: types.ContentListUnion, config: types.EmbedContentConfig, seconds: float
    ) -> types.EmbedContentResponse:
        """The service's answer, after as many attempts as there is time for."""
        deadline = time.monotonic() + seconds
        for pause in calls.generate_backoff_delays(self.retry_pause):
            left = deadline - time.monotonic()
            config.http_options = types.HttpOptions(timeout=max(1, round(1_000 * min(self.timeout, left))))
            try:
                return self.client.models.embed_content(model=self.model, contents=contents, config=config)
            except DefaultCredentialsError as error:  # on Vertex AI they are looked up with the request
                raise errors.CredentialsMissing(model=self.model, reason=str(error)) from error
            except Exception as error:
                if (
                    not calls.is_transient(error) or time.monotonic() + 2 * pause > deadline
                ):  # an attempt takes time too
                    raise
            time.sleep(pause)
        raise AssertionError("unreachable")


def _normalize_vector(vector: list[float]) -> list[float]:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else vector
