"""Embed texts with retries, and single out the texts that the embedder refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from adk_graph_memory import embeddings, errors
from adk_graph_memory.records import Embedding, Passage

CONTROL_PASSAGE = Passage("ready?")
"""A text that every working embedder accepts: if it fails too, the embedder is at fault, not the text."""
RETRY_PAUSES = (0.5, 2.0, 8.0)
"""Seconds before the second, third and fourth attempt of a call."""
MAX_REASON_CHARACTERS = 500
"""Length to which the stored reason of a failure is cut."""

EmbeddingOrReason = Embedding | str
"""An embedding, or why there is none."""


@dataclass(frozen=True, slots=True)
class RetryingEmbedder:
    """An embedder with retries that tells texts it refuses from failures of its own."""

    vectors: embeddings.EmbedderAdapter
    dimensions: int

    async def embed_passages(self, passages: Sequence[Passage]) -> dict[Passage, EmbeddingOrReason]:
        """Embed each distinct passage once; a passage that the embedder refuses gets the reason instead.

        Raises:
            errors.EmbedderFailed: all attempts failed, those with the control passage too.
        """
        return await self._embed_halves(list(dict.fromkeys(passages)))

    async def _embed_halves(self, passages: list[Passage], *, retry: bool = True) -> dict[Passage, EmbeddingOrReason]:
        """Halve a failing batch until each failing passage is alone; only single passages are retried again."""
        try:
            return dict(zip(passages, await self._embed_checked(passages, retry=retry), strict=True))
        except errors.EmbedderFailed as error:
            if len(passages) == 1:
                await self._embed_checked([CONTROL_PASSAGE])
                return {passages[0]: str(error)[:MAX_REASON_CHARACTERS]}
        middle = len(passages) // 2
        halves = passages[:middle], passages[middle:]
        first, second = [await self._embed_halves(half, retry=len(half) == 1) for half in halves]
        return first | second

    async def _embed_checked(self, passages: list[Passage], *, retry: bool = True) -> list[Embedding]:
        results = await (embed_with_retries(self.vectors, passages) if retry else self.vectors.embed_passages(passages))
        if len(results[0].vector) != self.dimensions:
            reason = f"{len(results[0].vector)} numbers instead of {self.dimensions}"
            raise errors.EmbedderFailed(name=self.vectors.name, reason=reason)
        return results


async def embed_with_retries(vectors: embeddings.EmbedderAdapter, passages: list[Passage]) -> list[Embedding]:
    """Embed the passages, retrying after each of ``RETRY_PAUSES``; raise the error of the last attempt."""
    for pause in RETRY_PAUSES:
        with suppress(errors.EmbedderFailed):
            return await vectors.embed_passages(passages)
        await asyncio.sleep(pause)
    return await vectors.embed_passages(passages)
