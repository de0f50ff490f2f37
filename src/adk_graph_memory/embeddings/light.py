"""Embed texts on this machine with the ONNX runtime, without PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Literal

from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import errors
from adk_graph_memory.embeddings import hub
from adk_graph_memory.embeddings.local import BATCH_SIZE, CHUNK_SIZE, DEFAULT_MODEL, find_packaged_model
from adk_graph_memory.embeddings.onnx_model import ONNX_FILE, OnnxModel
from adk_graph_memory.embeddings.token_model import find_prompt

GRAPH = Path(__file__).with_name("graphs") / f"{DEFAULT_MODEL}.onnx"
"""The export of the default model without its weights, for those of the package."""
FILES = [f"{ONNX_FILE}*", "*.json"]
"""What an export consists of, as patterns; ``*`` stands for folders, too."""


class LightEmbedder(Embedder):
    """A sentence-transformers model with mean pooling on this machine, run by the ONNX runtime.

    It makes the vectors that :class:`LocalEmbedder` makes of the same model, and has its name, so that a graph that one
    has filled is searched with the other.

    Args:
        model: the path of an export, or a model's name; searched in the package with the default model, then in the
            local cache, and only then at the hub, which has exports of many models (set HF_HUB_OFFLINE=1 if it is out
            of reach).
        folder: where an export of the model lies, made by ``pipelines/export_onnx.py``; then nothing is searched.

    Raises:
        errors.EmbedderMissing: at the first text, when a library is not installed.
        errors.EmbeddingModelMissing: at the first text, when there is no export, or none that runs without PyTorch.
    """

    def __init__(self, model: str = DEFAULT_MODEL, folder: Path | str | None = None) -> None:
        super().__init__()
        self.model, self.folder = model, folder

    @property
    def embedder_name(self) -> str:
        """The name of the model's vectors, by whichever runtime."""
        return f"adk_graph_memory.embeddings.LocalEmbedder:{self.model}"

    def embed_query(self, text: str) -> list[float]:
        """Embed a question, with the model's own prompt if it has one; the default model has 384 dimensions."""
        return self._encode_texts([text], "query")[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts for storage, in order."""
        return self._encode_texts(texts, "document")

    def _encode_texts(self, texts: list[str], task: Literal["query", "document"]) -> list[list[float]]:
        model = self.loaded_model
        prompt, vectors = find_prompt(model, task), list[list[float]]()
        for start in range(0, len(texts), BATCH_SIZE):
            tokens = model.encode_tokens([prompt + text for text in texts[start : start + BATCH_SIZE]])
            vectors += model.pool_vectors([text.vectors for text in tokens])
        return vectors

    def split_batches(self, texts: list[str]) -> list[list[str]]:
        """Split texts into batches that take a moment each, so that a question need not wait for all of them."""
        return [texts[start : start + CHUNK_SIZE] for start in range(0, len(texts), CHUNK_SIZE)]

    @cached_property
    def loaded_model(self) -> OnnxModel:
        """The model in the ONNX runtime."""
        try:
            if self.folder is None and (folder := find_packaged_model(self.model)):
                return OnnxModel(folder, GRAPH)
            return OnnxModel(self._find_folder())
        except ModuleNotFoundError as error:
            raise errors.EmbedderMissing(reason=f"{error.name} is not installed") from error
        except errors.EmbeddingModelMissing:
            raise
        except Exception as error:  # onnxruntime and tokenizers have no common class for a damaged file
            reason = " ".join(str(error).split()).rstrip(".")
            raise errors.EmbeddingModelMissing(model=self.model, reason=reason) from error

    def _find_folder(self) -> Path:
        """Find an export on this machine, or download it from the hub."""
        if self.folder or Path(self.model).is_dir():
            return Path(self.folder or self.model)
        if (folder := self._download_export(local_files_only=True)) is None:
            if problem := hub.find_hub_problem(self.model):
                reason = f"{problem}; on a machine with PyTorch, pipelines/export_onnx.py writes one into a folder"
                raise errors.EmbeddingModelMissing(model=self.model, reason=reason)
            folder = self._download_export(local_files_only=False)
        if folder is None:
            raise ValueError(f"no repository of the hub has its {ONNX_FILE}; pipelines/export_onnx.py makes one")
        return folder

    def _download_export(self, *, local_files_only: bool) -> Path | None:
        """Download an export into the local cache, or only look there; None if there is none."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

        for name in hub.list_repositories(self.model):
            try:
                with _hide_progress_bars():
                    folder = Path(snapshot_download(name, allow_patterns=FILES, local_files_only=local_files_only))
            except (HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError):
                continue
            if (folder / ONNX_FILE).is_file():
                return folder
        return None


@contextmanager
def _hide_progress_bars() -> Iterator[None]:
    """Hide the hub's progress bars, which would break up the caller's own output."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    are_disabled = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not are_disabled:
            enable_progress_bars()
