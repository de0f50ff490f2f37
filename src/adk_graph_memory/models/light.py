"""Embed texts on this machine with the ONNX runtime, without PyTorch.

An export is a folder in the hub's layout: the model in ``onnx/model.onnx``, its tokenizer in ``tokenizer.json``, and
the settings of sentence-transformers in small files beside them. A folder without an export, but with the weights in
``model.safetensors``, runs with a graph that takes its weights from there; ``pipelines/export_onnx.py`` writes one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import errors
from adk_graph_memory.models import hub
from adk_graph_memory.models.local import BATCH_SIZE, CHUNK_SIZE, DEFAULT_MODEL, find_packaged_model
from adk_graph_memory.models.projection import FloatArray, TokenVectors, find_prompt

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


ONNX_FILE = "onnx/model.onnx"
WEIGHTS_FILE = "model.safetensors"
MAX_THREADS = 4
"""Threads of one pass; a question is too short to gain from more, and the server needs cores, too."""
PAD_TOKENS = ("[PAD]", "<pad>")


class PieceTokenizer:
    """A tokenizer that does not cut texts, with the methods by which :func:`score_fluency` judges.

    Args:
        tokenizer: it cuts nothing.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.unk_token: str | None = getattr(tokenizer.model, "unk_token", None)

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def tokenize(self, text: str) -> list[str]:
        """Split a text into pieces."""
        pieces: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return pieces

    def find_token_spans(self, text: str) -> list[tuple[int, int]]:
        """Find where each token starts and ends."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return [(start, end) for start, end in offsets if end > start]


class OnnxModel:
    """The ONNX export of a sentence-transformers model with mean pooling, as a :class:`TokenModel`.

    Args:
        folder: where the export lies, or with ``graph`` the model.
        graph: a graph that takes its weights from the folder.

    Raises:
        ModuleNotFoundError: onnxruntime or tokenizers is not installed.
        ValueError: the model needs sentence-transformers, or there is no model.
        Exception: a file is damaged; both libraries have errors of their own.
    """

    has_mean_pooling = True

    def __init__(self, folder: Path, graph: Path | None = None) -> None:
        from tokenizers import Tokenizer

        if not (path := graph or folder / ONNX_FILE).is_file():
            raise ValueError(f"{folder} has no {ONNX_FILE}")
        self._is_normalized = _read_modules(folder)
        max_tokens = _read_max_tokens(folder)
        settings = _read_json(folder / "config_sentence_transformers.json")
        self.prompts: dict[str, str] = settings.get("prompts") or {}
        self.default_prompt_name: str | None = settings.get("default_prompt_name")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.enable_padding(**_find_padding(self._tokenizer))
        self.max_text_tokens = max_tokens - self._tokenizer.num_special_tokens_to_add(is_pair=False)
        uncut_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        uncut_tokenizer.no_truncation()
        uncut_tokenizer.no_padding()
        self.tokenizer = PieceTokenizer(uncut_tokenizer)
        self._session = _open_session(path, read_weights(folder / WEIGHTS_FILE) if graph else {})
        self._input_names = {node.name for node in self._session.get_inputs()}
        output = next(node for node in self._session.get_outputs() if len(node.shape) == 3)
        self._output_name, self.dimension = output.name, int(output.shape[2])

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Make the token vectors of texts in one pass; each text is cut to what a pass takes."""
        encodings = self._tokenizer.encode_batch(list(texts))
        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        features = {
            name: np.array([getattr(encoding, column) for encoding in encodings], dtype=np.int64)
            for name, column in columns.items()
        }
        inputs = {name: values for name, values in features.items() if name in self._input_names}
        [vectors] = self._session.run([self._output_name], inputs)
        masks = features["attention_mask"].astype(bool)
        return [
            TokenVectors(
                vectors[i, mask],
                np.array(encoding.offsets, dtype=np.int64)[mask],
                np.array(encoding.special_tokens_mask, dtype=bool)[mask],
            )
            for i, (encoding, mask) in enumerate(zip(encodings, masks, strict=True))
        ]

    def pool_vectors(self, texts: Sequence[FloatArray]) -> list[list[float]]:
        """Pool the token vectors of each text into its vector."""
        vectors = np.stack([text.mean(axis=0) for text in texts])
        if self._is_normalized:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        rows: list[list[float]] = vectors.tolist()
        return rows

    def find_token_spans(self, text: str) -> list[tuple[int, int]]:
        """Find where each token starts and ends, without cutting the text."""
        return self.tokenizer.find_token_spans(text)

    def reduce_precision(self) -> AbstractContextManager[None]:
        """Change nothing: the weights are what they are, and computing in bfloat16 needs others."""
        return nullcontext()


def read_weights(path: Path) -> dict[str, FloatArray]:
    """Read the tensors of a safetensors file that make token vectors: a header in JSON, then their bytes."""
    content = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    weights = {}
    for name, about in json.loads(content[8:start].tobytes()).items():
        if about.get("dtype") == "F32" and not name.startswith("pooler."):  # BERT's own pooling, which is not used
            first, end = about["data_offsets"]
            weights[name] = content[start + first : start + end].view(np.float32).reshape(about["shape"])
    return weights


def _open_session(path: Path, weights: dict[str, FloatArray]) -> InferenceSession:
    """Open a model; its threads do not spin while they wait, because the server beside it needs the core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(MAX_THREADS, os.cpu_count() or 1)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False  # it keeps a plan of memory for each of the many lengths of texts
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensor)) for tensor in weights.values()]
    options.add_external_initializers(list(weights), values)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _read_modules(folder: Path) -> bool:
    """Read whether the model normalizes its vectors; its pooling must be the mean, and there may be no other module."""
    modules = _read_json(folder / "modules.json") or []
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(f"its modules are {kinds}, which takes sentence-transformers")
    pooling = _read_json(folder / modules[1]["path"] / "config.json")
    flags = {name for name, value in pooling.items() if name.startswith("pooling_mode_") and value}
    if pooling.get("pooling_mode") not in ("mean", ["mean"]) and flags != {"pooling_mode_mean_tokens"}:
        raise ValueError("its vectors are not the mean of token vectors, which takes sentence-transformers")
    return "Normalize" in kinds


def _read_max_tokens(folder: Path) -> int:
    """Read how many tokens a pass takes."""
    settings = _read_json(folder / "sentence_bert_config.json")
    if settings.get("do_lower_case"):
        raise ValueError("it lowers the case of texts before they are tokens, which takes sentence-transformers")
    limits = (
        _read_json(folder / "tokenizer_config.json").get("model_max_length"),
        _read_json(folder / "config.json").get("max_position_embeddings"),
    )
    return int(settings.get("max_seq_length") or min(limit for limit in limits if limit))


def _find_padding(tokenizer: Tokenizer) -> dict[str, Any]:
    """Find what pads the texts of a batch to the longest."""
    if padding := tokenizer.padding:
        return {name: padding[name] for name in ("pad_id", "pad_token", "pad_type_id", "direction")}
    token = next((token for token in PAD_TOKENS if tokenizer.token_to_id(token) is not None), None)
    return {"pad_id": tokenizer.token_to_id(token), "pad_token": token} if token else {}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


GRAPH = Path(__file__).with_name("graphs") / f"{DEFAULT_MODEL}.onnx"
"""The export of the default model without its weights, for those of the package."""
FILES = [f"{ONNX_FILE}*", "*.json"]
"""What an export consists of, as patterns; ``*`` stands for folders, too."""


class LightEmbedder(Embedder):
    """A sentence-transformers model with mean pooling on this machine, run by the ONNX runtime.

    It makes the same vectors as :class:`LocalEmbedder` with the same model, and has the same name, so that a graph
    filled by one can be searched with the other.

    Args:
        model: the path of an export, or a model's name; looked up in the package with the default model, then in the
            local cache, and only then at the hub, which has exports of many models (set HF_HUB_OFFLINE=1 if it cannot
            be reached).
        folder: the folder with an export of the model, made by ``pipelines/export_onnx.py``; then nothing is looked up.

    Raises:
        errors.EmbedderMissing: when the first text is embedded, if a library is not installed.
        errors.EmbeddingModelMissing: when the first text is embedded, if there is no export that runs without PyTorch.
    """

    def __init__(self, model: str = DEFAULT_MODEL, folder: Path | str | None = None) -> None:
        super().__init__()
        self.model, self.folder = model, folder

    @property
    def embedder_name(self) -> str:
        """The name of the model's vectors, whatever the runtime."""
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
