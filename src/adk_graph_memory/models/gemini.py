"""Embed texts with a Gemini model: documents and questions each in their own way, in batches that the service takes."""

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

from adk_graph_memory import errors
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.runtime import concurrency

MAX_REQUEST_TEXTS = 100
"""Texts per request: the Gemini API takes no more; Vertex AI takes 250."""
MAX_REQUEST_CHARACTERS = 20_000
"""Characters per request: Vertex AI takes 20,000 tokens, and in some scripts a character is a token. A longer text is
cut; the models read only 2,048 tokens of each anyway, gemini-embedding-2 8,192."""
EMPTY_PLACEHOLDER = "(no text)"
"""Replaces an empty text, which Vertex AI would skip silently and the Gemini API would refuse with its whole batch."""


class _EmbeddingTask(NamedTuple):
    """What a text is embedded for: an argument of the call, or a prefix of the text for models without the argument."""

    task: str
    prefix: str


_DOCUMENT_TASK = _EmbeddingTask("RETRIEVAL_DOCUMENT", "title: none | text: ")
_QUESTION_TASK = _EmbeddingTask("RETRIEVAL_QUERY", "task: search result | query: ")


class GeminiEmbedder(google_genai.GeminiEmbedder):
    """A Gemini embedding model, through the Gemini API or on Vertex AI.

    The credentials are google-genai's: GOOGLE_API_KEY, or on Vertex AI GOOGLE_GENAI_USE_VERTEXAI with
    GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION. They are looked up when the first text is embedded. Unlike
    neo4j-graphrag's own class, this one distinguishes questions from documents, sends many texts per request, and works
    in any thread and event loop. Its vectors have length 1; the service does not normalize vectors that it shortens.

    Args:
        model: the model's name.
        embedding_dim: the vector dimension; the models are made for 768, 1536 and 3072.
        timeout: seconds for one request, and in total for a question.
        retry_time: seconds during which a request is retried after a transient failure (429, 5xx, a lost connection).
        **client: other arguments of ``genai.Client``.

    Raises:
        errors.CredentialsMissing: when the first text is embedded, if there are no credentials.
    """

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        embedding_dim: int = google_genai.DEFAULT_EMBEDDING_DIM,
        *,
        timeout: float = 30.0,
        retry_time: float = 60.0,
        **client: Any,
    ) -> None:
        Embedder.__init__(self)  # the base class would make the client now, before ADK has read the agents' .env
        self.model, self.embedding_dim = model.removeprefix("models/"), embedding_dim
        self.timeout, self.retry_time = timeout, retry_time
        self.retry_pause = 1.0
        self.usage = Usage()
        """successful requests, and their tokens if the service counts them (on Vertex AI)"""
        self._client_options, self._usage_lock = client, threading.Lock()

    @property
    def embedder_name(self) -> str:
        """The base class's name, because both classes make the same vectors."""
        kind = google_genai.GeminiEmbedder
        return f"{kind.__module__}.{kind.__qualname__}:{self.model}"

    def embed_query(self, text: str) -> list[float]:  # type: ignore[override]  # the client takes no more arguments
        """Embed a question; retries end sooner, because somebody is waiting."""
        return self._embed_batch([text], _QUESTION_TASK, min(self.timeout, self.retry_time))[0]

    async def async_embed_query(self, text: str) -> list[float]:  # type: ignore[override]
        """Embed a question in a thread: the async client would belong to one event loop, the sync client does not."""
        return await asyncio.to_thread(self.embed_query, text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts for storage, in order."""
        return [
            vector
            for batch in self.split_batches(texts)
            for vector in self._embed_batch(batch, _DOCUMENT_TASK, self.retry_time)
        ]

    @property
    def texts_per_request(self) -> int:
        """The service's limit: for ``gemini-*`` models on Vertex AI 1, and google-genai sends no more."""
        return 1 if self.client.vertexai and "gemini" in self.model else MAX_REQUEST_TEXTS

    def split_batches(self, texts: list[str]) -> list[list[str]]:
        """Split texts into batches of one request each."""
        limit = self.texts_per_request
        batches: list[list[str]] = []
        characters = 0
        for text in texts:
            size = min(len(text), MAX_REQUEST_CHARACTERS)
            if not batches or len(batches[-1]) == limit or characters + size > MAX_REQUEST_CHARACTERS:
                batches.append([])
                characters = 0
            batches[-1].append(text)
            characters += size
        return batches

    @cached_property
    def client(self) -> genai.Client:  # type: ignore[override]  # the base class makes it at once
        """The sync client, shared by all threads; it looks up the credentials."""
        try:
            return genai.Client(**self._client_options)
        except (ValueError, DefaultCredentialsError) as error:
            # Drop the traceback: its frames keep the half-made client, which would log errors when freed in a loop's
            # thread.
            raise errors.CredentialsMissing(model=self.model, reason=str(error)) from error.with_traceback(None)

    def _embed_batch(self, texts: list[str], embedding_task: _EmbeddingTask, seconds: float) -> list[list[float]]:
        needs_prefix = "gemini-embedding-2" in self.model  # it ignores the argument silently
        prefix, task = (embedding_task.prefix, None) if needs_prefix else ("", embedding_task.task)
        # One content per text: gemini-embedding-2 makes a single vector of several plain strings.
        contents: types.ContentListUnion = [
            types.Content(
                parts=[types.Part(text=prefix + (text[:MAX_REQUEST_CHARACTERS] if text.strip() else EMPTY_PLACEHOLDER))]
            )
            for text in texts
        ]
        config = types.EmbedContentConfig(task_type=task, output_dimensionality=self.embedding_dim)
        embeddings = self._request_embeddings(contents, config, seconds).embeddings or []
        if len(embeddings) != len(texts):
            raise errors.EmbedderFailed(
                name=self.embedder_name, reason=f"{len(embeddings)} vectors for {len(texts)} texts"
            )
        tokens = sum(int(embedding.statistics.token_count or 0) for embedding in embeddings if embedding.statistics)
        with self._usage_lock:
            self.usage += Usage(calls=1, input_tokens=tokens)
        vectors = [embedding.values or [] for embedding in embeddings]
        lengths = [math.hypot(*vector) or 1.0 for vector in vectors]  # a vector of zeros stays as it is
        return [[number / length for number in vector] for vector, length in zip(vectors, lengths, strict=True)]

    def _request_embeddings(
        self, contents: types.ContentListUnion, config: types.EmbedContentConfig, seconds: float
    ) -> types.EmbedContentResponse:
        """Request the embeddings, with as many attempts as there is time for."""
        deadline = time.monotonic() + seconds
        for pause in concurrency.generate_backoff_delays(self.retry_pause):
            seconds_left = deadline - time.monotonic()
            config.http_options = types.HttpOptions(timeout=max(1, round(1_000 * min(self.timeout, seconds_left))))
            try:
                return self.client.models.embed_content(model=self.model, contents=contents, config=config)
            except DefaultCredentialsError as error:  # Vertex AI looks them up with the request
                raise errors.CredentialsMissing(model=self.model, reason=str(error)) from error
            except Exception as error:
                has_time = time.monotonic() + 2 * pause <= deadline  # the attempt takes time too
                if not concurrency.is_transient(error) or not has_time:
                    raise
            time.sleep(pause)
        raise AssertionError("unreachable")
