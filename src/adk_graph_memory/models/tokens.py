"""Make the vector and the token vectors of a text in one pass of a model.

The model reads a turn after the end of the turn before it, so that "Yes, since May" gets the meaning of its question.
Only the turn's own tokens are kept (late chunking: Günther et al., 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from adk_graph_memory.models.projection import (
    FloatArray,
    Projection,
    QuestionTokens,
    TokenModel,
    TokenVectors,
    find_prompt,
)
from adk_graph_memory.records.turns import Embedding, Passage


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


CONTEXT_TOKENS = 48
"""Tokens of context that the model reads before a text, or before a part of a long one."""
MAX_CONTEXT_CHARACTERS = 400
"""Characters of context that are split into tokens."""
MAX_TEXT_PARTS = 8
"""Parts of a long text that are embedded, each as long as the model takes: some 1,200 words with the default model."""
MAX_TEXT_CHARACTERS = 40_000
"""Characters of a text that are split into tokens."""
BATCH_SIZE = 16
"""Parts per forward pass; parts of similar length go together."""


class QuestionEmbedding(NamedTuple):
    """A question's vector and, if the embedder exposes them, its tokens.

    ``typed`` is the same of the question as it was typed, if it was embedded in other words; see
    :class:`adk_graph_memory.retrieval.question.ParsedQuestion`.
    """

    vector: list[float]
    tokens: QuestionTokens | None = None
    typed: QuestionEmbedding | None = None


class _TextPart(NamedTuple):
    """The text of one pass; from the character ``start`` on it is the passage's own."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class _EncodedPart:
    """The token vectors of a part, shape (tokens, n), and which are the passage's own, and which of those are words."""

    vectors: FloatArray
    own_mask: npt.NDArray[np.bool_]
    word_mask: npt.NDArray[np.bool_]


class TokenEncoder:
    """Embeds texts with a model, and keeps the token vectors.

    Args:
        model: the model, on whatever runtime.
        projection: compresses its token vectors.
    """

    def __init__(self, model: TokenModel, projection: Projection) -> None:
        self._model, self._projection = model, projection

    @classmethod
    def from_model(cls, model: Any, name: str, projection: str | None = None) -> TokenEncoder | None:
        """Make an encoder; None if the model exposes no token vectors, or its tokenizer no token offsets.

        Args:
            model: a :class:`TokenModel`, a ``SentenceTransformer``, or any other.
            name: its name or path; the package has projections for some models.
            projection: the path of a projection fitted to the model.

        Raises:
            errors.ConfigurationError: the file is not a projection, or fits another model.
        """
        token_model = model if isinstance(model, TokenModel) else TorchModel.from_sentence_transformer(model)
        if token_model is None:
            return None
        size = token_model.dimension
        fitted = Projection.from_file(Path(projection), size) if projection else Projection.from_model(name, size)
        return cls(token_model, fitted)

    def embed_question(self, text: str, typed_text: str | None = None) -> QuestionEmbedding:
        """Make a question's vector, the same as ``encode_query`` makes, and its token vectors.

        Args:
            text: the question.
            typed_text: the question as it was typed; embedded in the same pass, if given.
        """
        prompt = find_prompt(self._model, "query")
        texts = [text] if typed_text is None else [text, typed_text]
        parts = self._encode_parts([_TextPart(prompt + text, len(prompt)) for text in texts])
        vectors = self._model.pool_vectors([part.vectors for part in parts])
        first, *others = (
            QuestionEmbedding(vector, QuestionTokens(part.vectors[part.word_mask], self._projection))
            for vector, part in zip(vectors, parts, strict=True)
        )
        return first._replace(typed=others[0]) if others else first

    def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        """Make a vector and packed token vectors for each passage, in order."""
        if not passages:
            return []
        texts = self._encode_passages(passages)
        vectors = self._model.pool_vectors(
            [np.concatenate([self._select_pooled(part) for part in parts]) for parts in texts]
        )
        return [
            Embedding(vector, self._projection.pack_vectors(_select_word_vectors(parts)))
            for vector, parts in zip(vectors, texts, strict=True)
        ]

    def encode_tokens(self, passages: Sequence[Passage]) -> list[FloatArray]:
        """Make the token vectors of each passage, not compressed, shape (tokens, n)."""
        return [_select_word_vectors(parts) for parts in self._encode_passages(passages)]

    def _encode_passages(self, passages: Sequence[Passage]) -> list[list[_EncodedPart]]:
        """Encode the parts of each passage, in batches of similar length."""
        texts = [self._split_passage(passage) for passage in passages]
        parts = [part for text_parts in texts for part in text_parts]
        order = sorted(range(len(parts)), key=lambda i: len(parts[i].text))
        encoded_parts: dict[int, _EncodedPart] = {}
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            with self._model.reduce_precision():
                encoded_parts.update(zip(batch, self._encode_parts([parts[i] for i in batch]), strict=True))
        in_order = iter([encoded_parts[i] for i in range(len(parts))])
        return [list(islice(in_order, len(text_parts))) for text_parts in texts]

    def _select_pooled(self, part: _EncodedPart) -> FloatArray:
        """Select the token vectors that make up a passage's vector; all, unless the model takes their mean."""
        return part.vectors[part.own_mask] if self._model.has_mean_pooling and part.own_mask.any() else part.vectors

    def _split_passage(self, passage: Passage) -> list[_TextPart]:
        """Split a passage into parts for one pass each, each with context before it.

        Without mean pooling, a vector cannot leave the context's tokens out. Then the only part is the start of the
        passage, without context.
        """
        prompt, text = find_prompt(self._model, "document"), passage.text[:MAX_TEXT_CHARACTERS]
        if not self._model.has_mean_pooling:
            return [_TextPart(prompt + text, len(prompt))]
        context = f"{passage.preceding_text[-MAX_CONTEXT_CHARACTERS:]} " if passage.preceding_text else ""
        spans = self._model.find_token_spans(context + text)
        first = next((i for i, (_, end) in enumerate(spans) if end > len(context)), len(spans))
        # One pass takes context and text together, besides the prompt.
        free_tokens = self._model.max_text_tokens - len(self._model.find_token_spans(prompt))
        part_tokens = max(1, free_tokens - CONTEXT_TOKENS)
        parts = []
        for token in range(first, len(spans), part_tokens)[:MAX_TEXT_PARTS]:
            start, own_start = spans[max(0, token - CONTEXT_TOKENS)][0], max(spans[token][0], len(context))
            end = spans[min(len(spans), token + part_tokens) - 1][1]
            parts.append(_TextPart(prompt + (context + text)[start:end], len(prompt) + own_start - start))
        return parts or [_TextPart(prompt + text, len(prompt))]

    def _encode_parts(self, parts: Sequence[_TextPart]) -> list[_EncodedPart]:
        """Encode parts in one forward pass."""
        texts = self._model.encode_tokens([part.text for part in parts])
        return [_EncodedPart(text.vectors, *_mask_tokens(part, text)) for part, text in zip(parts, texts, strict=True)]


def _select_word_vectors(parts: Sequence[_EncodedPart]) -> FloatArray:
    return np.concatenate([part.vectors[part.word_mask] for part in parts])


def _mask_tokens(part: _TextPart, text: TokenVectors) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Mask the passage's own tokens, and those of them that are words; all of its own if none is a word."""
    is_own = ~text.special_mask & (text.offsets[:, 1] > part.start)
    has_letters = [any(map(str.isalnum, part.text[start:end])) for start, end in text.offsets]
    is_word = is_own & np.array(has_letters, dtype=bool)
    return is_own, is_word if is_word.any() else is_own
