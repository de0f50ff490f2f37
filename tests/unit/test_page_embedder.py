"""Of the pages that a killed run was working on, no more than two have to be embedded again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from adk_graph_memory.graph import reembed
from adk_graph_memory.graph.reembed import TextPage, UnembeddedText
from adk_graph_memory.memory.jobs import reembedding
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import HashEmbedder


async def test_one_page_waits_embedded_while_another_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded, written, server = list[str](), list[str](), asyncio.Event()

    class Counting(HashEmbedder):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            embedded.extend(texts)
            return super().embed_documents(texts)

    async def fetch_texts(connection: Any, page: TextPage, slot: Any) -> list[UnembeddedText]:
        return [UnembeddedText("ada", page.until[1], f"text {page.until[1]}")]

    async def write(connection: Any, run: Any, nodes: Any, texts: list[UnembeddedText], results: Any) -> None:
        await server.wait()
        written.extend(text.text for text in texts)

    monkeypatch.setattr(reembed, "fetch_unembedded_texts", fetch_texts)
    monkeypatch.setattr(reembed, "write_embeddings", write)
    sorter = reembedding.RefusalSorter(EmbedderAdapter(Counting(), Settings()), HashEmbedder().dimensions)
    run: Any = SimpleNamespace(target=SimpleNamespace(slot=None))
    embedder = reembedding.PageEmbedder(SimpleNamespace(), sorter, run)  # type: ignore[arg-type]
    pages = [TextPage("memory", ("", ""), ("ada", str(number)), 1, 6) for number in range(5)]
    tasks = [asyncio.create_task(embedder.embed_page(page)) for page in pages]
    while len(embedded) < 2:  # noqa: ASYNC110  a thread embeds
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0.001)
    assert (embedded, written) == (["text 0", "text 1"], [])
    tasks[1].cancel()
    server.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result for result in results if not isinstance(result, asyncio.CancelledError)] == [1, 1, 1, 1]
    assert written == ["text 0", "text 2", "text 3", "text 4"]
