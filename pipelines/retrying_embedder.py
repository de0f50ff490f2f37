"""Texts go in; a vector for each comes out, or the reason why this one text alone cannot have one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from adk_graph_memory import embeddings, errors
from adk_graph_memory.records import Embedding, Passage

CONTROL_PASSAGE = Passage("ready?")
"""A text that every working embedder takes: where it fails too, the fault is not the text's."""
RETRY_PAUSES = (0.5, 2.0, 8.0)
"""Seconds before the second, third and fourth attempt of a call."""
MAX_REASON_CHARACTERS = 500
"""Characters of a reason that are kept with the text."""

EmbeddingOrReason = Embedding | str
"""An embedding, or why there is none."""


@dataclass(frozen=True, slots=True)
class RetryingEmbedder:
    """An embedder that is asked again when it fails, and whose failing texts are told from its own failures."""

    vectors: embeddings.EmbedderAdapter
    dimensions: int

    async def embed_passages(self, passages: Sequence[Passage]) -> dict[Passage, EmbeddingOrReason]:
        """What became of each passage; the same one is embedded once.

        Raises:
            errors.EmbedderFailed: every attempt failed, and so did those with the control text.
        """
        return await self._embed_halves(list(dict.fromkeys(passages)))

    async def _embed_halves(self, texts: list[Passage], *, patiently: bool = True) -> dict[Passage, EmbeddingOrReason]:
        """Halves what fails, until the failing texts are alone; those get all the patience again."""
        try:
            return dict(zip(texts, await self._embed_checked(texts, patiently=patiently), strict=True))
        except errors.EmbedderFailed as error:
            if len(texts) == 1:
                await self._embed_checked([CONTROL_PASSAGE])
                return {texts[0]: str(error)[:MAX_REASON_CHARACTERS]}
        middle = len(texts) // 2
        halves = [await self._embed_halves(half, patiently=len(half) == 1) for half in (texts[:middle], texts[middle:])]
        return halves[0] | halves[1]

    async def _embed_checked(self, texts: list[Passage], *, patiently: bool = True) -> list[Embedding]:
        made = await (embed_with_retries(self.vectors, texts) if patiently else self.vectors.embed_passages(texts))
        if len(made[0].vector) != self.dimensions:
            reason = f"{len(made[0].vector)} numbers instead of {self.dimensions}"
            raise errors.EmbedderFailed(name=self.vectors.name, reason=reason)
        return made


async def embed_with_retries(vectors: embeddings.EmbedderAdapter, texts: list[Passage]) -> list[Embedding]:
    """An embedding of each passage, after as many further attempts as there are pauses."""
    for pause in RETRY_PAUSES:
        with suppress(errors.EmbedderFailed):
            return await vectors.embed_passages(texts)
        await asyncio.sleep(pause)
    return await vectors.embed_passages(texts)
