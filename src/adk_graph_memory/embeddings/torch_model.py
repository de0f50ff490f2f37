"""Run a sentence-transformers model, and keep its token vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from adk_graph_memory.embeddings.projection import FloatArray
from adk_graph_memory.embeddings.token_model import TokenVectors


class TorchModel:
    """A ``SentenceTransformer`` as a :class:`TokenModel`.

    Args:
        model: the ``SentenceTransformer``; its first module makes token vectors of a dimension.
        dimension: that dimension.
    """

    def __init__(self, model: Any, dimension: int) -> None:
        self._model, self.dimension = model, dimension

    @classmethod
    def from_sentence_transformer(cls, model: Any) -> TorchModel | None:
        """Wrap a model; None if it exposes no token vectors, or its tokenizer no token offsets."""
        tokenizer = getattr(model, "tokenizer", None)
        if not (hasattr(model, "get_max_seq_length") and getattr(tokenizer, "is_fast", False)):
            return None
        dimension = getattr(model[0], "get_embedding_dimension", lambda: None)()
        return cls(model, dimension) if dimension and model.get_max_seq_length() else None

    @property
    def max_text_tokens(self) -> int:
        """The tokens that one pass takes, besides those that the tokenizer adds."""
        return int(self._model.get_max_seq_length() - self._model.tokenizer.num_special_tokens_to_add())

    @property
    def prompts(self) -> Mapping[str, str]:
        """The model's prompts by the kind of text."""
        return self._model.prompts or {}

    @property
    def default_prompt_name(self) -> str | None:
        """The kind of text whose prompt stands before texts of kinds without one."""
        name: str | None = self._model.default_prompt_name
        return name

    @cached_property
    def has_mean_pooling(self) -> bool:
        """Whether a text's vector is the mean of its token vectors."""
        modes = (getattr(module, "pooling_mode", None) for module in list(self._model)[1:])
        return any(mode in ("mean", ["mean"], ("mean",)) for mode in modes)

    @property
    def tokenizer(self) -> object:
        """The model's tokenizer."""
        return self._model.tokenizer

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Make the token vectors of texts in one pass."""
        import torch

        features = self._model.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self._model.get_max_seq_length(),
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        offsets = features.pop("offset_mapping").numpy()
        special_mask = features.pop("special_tokens_mask").numpy().astype(bool)
        masks = features["attention_mask"].numpy().astype(bool)
        with torch.inference_mode():
            output = self._model[0]({name: value.to(self._model.device) for name, value in features.items()})
        vectors = output["token_embeddings"].float().cpu().numpy()
        return [TokenVectors(vectors[i, mask], offsets[i, mask], special_mask[i, mask]) for i, mask in enumerate(masks)]

    def pool_vectors(self, texts: Sequence[FloatArray]) -> list[list[float]]:
        """Pool the token vectors of each text into its vector, with the model's own modules."""
        import torch

        pad = torch.nn.utils.rnn.pad_sequence
        features: dict[str, Any] = {
            "token_embeddings": pad([torch.from_numpy(vectors) for vectors in texts], True),
            "attention_mask": pad([torch.ones(len(vectors)) for vectors in texts], True),
        }
        features = {name: value.to(self._model.device) for name, value in features.items()}
        with torch.inference_mode():
            for module in list(self._model)[1:]:
                features = module(features)
        vectors: list[list[float]] = features["sentence_embedding"].float().cpu().tolist()
        return vectors

    def find_token_spans(self, text: str) -> list[tuple[int, int]]:
        """Find where each token starts and ends."""
        encoding = self._model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(start, end) for start, end in encoding["offset_mapping"] if end > start]

    def reduce_precision(self) -> AbstractContextManager[Any]:
        """Compute in bfloat16 if the hardware supports it: two to three times as fast, at cosines of .9999."""
        import torch

        device = self._model.device.type
        is_supported = device == "cuda" or (device == "cpu" and torch.cpu.get_capabilities().get("avx512_bf16", False))
        return torch.autocast(device, torch.bfloat16, enabled=bool(is_supported))
