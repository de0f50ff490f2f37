"""Texts and a sentence-transformers model go in; a vector and token vectors of each come out, of one pass.

A turn is read after the end of the one before it, so that "Yes, since May" means what was asked, and what is kept are
its own tokens (late chunking: Günther et al., 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from adk_graph_memory.embeddings.projection import FloatArray, Projection, QuestionTokens
from adk_graph_memory.records import Embedding, Passage

CONTEXT_TOKENS = 48
"""Tokens of what stands before a text, or before a part of a long one, that it is read after."""
MAX_CONTEXT_CHARACTERS = 400
"""Characters of the same."""
MAX_TEXT_PARTS = 8
"""Parts of a long text that are read, each as long as the model takes: some 1,200 words with the default model."""
MAX_TEXT_CHARACTERS = 40_000
"""Characters of a text that are split into tokens."""
BATCH_SIZE = 16
"""Parts a forward pass, those of like length together."""


class QuestionEmbedding(NamedTuple):
    """A question's vector and, of an embedder that shows them, its tokens."""

    vector: list[float]
    tokens: QuestionTokens | None = None


class _TextPart(NamedTuple):
    """What one pass reads: ``text`` is a passage's own from the character ``start`` on."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class _EncodedPart:
    """What a pass made of a part: token vectors of shape (tokens, n), and which of them count for what."""

    vectors: FloatArray
    own_mask: npt.NDArray[np.bool_]
    word_mask: npt.NDArray[np.bool_]


class TokenEncoder:
    """Embeds texts with a sentence-transformers model, and keeps the token vectors.

    Args:
        model: a ``SentenceTransformer``.
        projection: what makes its token vectors small.
    """

    def __init__(self, model: Any, projection: Projection) -> None:
        self._model, self._projection = model, projection

    @classmethod
    def from_model(cls, model: Any, name: str, projection: str | None = None) -> TokenEncoder | None:
        """One for this model; None where it shows no token vectors, or its tokenizer not the places of its tokens.

        Args:
            model: anything.
            name: the model's, or its path; the package carries projections for some.
            projection: path of one that was fitted to the model.

        Raises:
            errors.ConfigurationError: the projection is none, or fits another model.
        """
        tokenizer = getattr(model, "tokenizer", None)
        if not (hasattr(model, "get_max_seq_length") and getattr(tokenizer, "is_fast", False)):
            return None
        size = getattr(model[0], "get_embedding_dimension", lambda: None)()
        if not size or not model.get_max_seq_length():
            return None
        fitted = Projection.from_file(Path(projection), size) if projection else Projection.from_model(name, size)
        return cls(model, fitted)

    def embed_question(self, text: str) -> QuestionEmbedding:
        """A question's vector, as ``encode_query`` makes it, and its token vectors."""
        prompt = self._find_prompt("query")
        [reading] = self._encode_parts([_TextPart(prompt + text, len(prompt))])
        [vector] = self._pool_vectors([reading.vectors])
        return QuestionEmbedding(vector, QuestionTokens(reading.vectors[reading.word_mask], self._projection))

    def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        """A vector and packed token vectors for each passage, in their order."""
        if not passages:
            return []
        texts = self._encode_passages(passages)
        vectors = self._pool_vectors(
            [np.concatenate([self._select_pooled(reading) for reading in text]) for text in texts]
        )
        return [
            Embedding(vector, self._projection.pack_vectors(_select_word_vectors(text)))
            for vector, text in zip(vectors, texts, strict=True)
        ]

    def encode_tokens(self, passages: Sequence[Passage]) -> list[FloatArray]:
        """The token vectors of each passage as the model makes them, shape (tokens, n)."""
        return [_select_word_vectors(text) for text in self._encode_passages(passages)]

    def _encode_passages(self, passages: Sequence[Passage]) -> list[list[_EncodedPart]]:
        """The parts of each passage, read in batches of like length."""
        parts = [self._split_passage(passage) for passage in passages]
        flat = [part for some in parts for part in some]
        order = sorted(range(len(flat)), key=lambda i: len(flat[i].text))
        readings: dict[int, _EncodedPart] = {}
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            with self._enable_autocast():
                readings.update(zip(batch, self._encode_parts([flat[i] for i in batch]), strict=True))
        in_order = iter([readings[i] for i in range(len(flat))])
        return [list(islice(in_order, len(some))) for some in parts]

    def _select_pooled(self, reading: _EncodedPart) -> FloatArray:
        """The token vectors that a passage's vector is pooled from; where it is not their mean, all that were read."""
        return (
            reading.vectors[reading.own_mask] if self._has_mean_pooling and reading.own_mask.any() else reading.vectors
        )

    def _split_passage(self, passage: Passage) -> list[_TextPart]:
        """What is read of a passage; by a model whose vectors are no means of tokens only its beginning, by itself."""
        prompt, text = self._find_prompt("document"), passage.text[:MAX_TEXT_CHARACTERS]
        if not self._has_mean_pooling:
            return [_TextPart(prompt + text, len(prompt))]
        before = f"{passage.preceding_text[-MAX_CONTEXT_CHARACTERS:]} " if passage.preceding_text else ""
        places = self._find_token_spans(before + text)
        first = next((i for i, (_, end) in enumerate(places) if end > len(before)), len(places))
        length = max(1, self._count_free_tokens(prompt) - CONTEXT_TOKENS)
        parts = []
        for start in range(first, len(places), length)[:MAX_TEXT_PARTS]:
            begin, own = places[max(0, start - CONTEXT_TOKENS)][0], max(places[start][0], len(before))
            end = places[min(len(places), start + length) - 1][1]
            parts.append(_TextPart(prompt + (before + text)[begin:end], len(prompt) + own - begin))
        return parts or [_TextPart(prompt + text, len(prompt))]

    def _encode_parts(self, parts: Sequence[_TextPart]) -> list[_EncodedPart]:
        """One forward pass."""
        import torch

        split = self._model.tokenizer(
            [part.text for part in parts],
            padding=True,
            truncation=True,
            max_length=self._model.get_max_seq_length(),
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        places, special = split.pop("offset_mapping").numpy(), split.pop("special_tokens_mask").numpy().astype(bool)
        mask = split["attention_mask"].numpy().astype(bool)
        with torch.inference_mode():
            output = self._model[0]({name: value.to(self._model.device) for name, value in split.items()})
        vectors = output["token_embeddings"].float().cpu().numpy()
        return [
            _EncodedPart(vectors[i, mask[i]], *_mask_tokens(part, places[i, mask[i]], special[i, mask[i]]))
            for i, part in enumerate(parts)
        ]

    def _pool_vectors(self, texts: Sequence[FloatArray]) -> list[list[float]]:
        """The vector of each text, as the model's own modules make it of token vectors."""
        import torch

        features: dict[str, Any] = {
            "token_embeddings": torch.nn.utils.rnn.pad_sequence([torch.from_numpy(one) for one in texts], True),
            "attention_mask": torch.nn.utils.rnn.pad_sequence([torch.ones(len(one)) for one in texts], True),
        }
        features = {name: value.to(self._model.device) for name, value in features.items()}
        with torch.inference_mode():
            for module in list(self._model)[1:]:
                features = module(features)
        vectors: list[list[float]] = features["sentence_embedding"].float().cpu().tolist()
        return vectors

    def _find_token_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token begins and ends."""
        split = self._model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(start, end) for start, end in split["offset_mapping"] if end > start]

    def _count_free_tokens(self, prompt: str) -> int:
        """Tokens of a text and of what stands before it that one pass takes."""
        tokenizer = self._model.tokenizer
        taken = tokenizer.num_special_tokens_to_add() + len(self._find_token_spans(prompt))
        return int(self._model.get_max_seq_length() - taken)

    def _find_prompt(self, task: str) -> str:
        """What the model wants before a text of this kind, as sentence-transformers chooses it."""
        names = {"query": ("query",), "document": ("document", "passage", "corpus")}[task]
        prompts: dict[str, str] = self._model.prompts or {}
        default = prompts.get(self._model.default_prompt_name or "", "")
        return next((prompts[name] for name in names if name in prompts), default)

    @cached_property
    def _has_mean_pooling(self) -> bool:
        """Whether a vector is the mean of its token vectors, so that it may be taken over some of them."""
        modes = (getattr(module, "pooling_mode", None) for module in list(self._model)[1:])
        return any(mode in ("mean", ["mean"], ("mean",)) for mode in modes)

    def _enable_autocast(self) -> AbstractContextManager[Any]:
        """Half the bits where the machine computes with them: two to three times as fast, at cosines of .9999."""
        import torch

        device = self._model.device.type
        is_able = device == "cuda" or (device == "cpu" and torch.cpu.get_capabilities().get("avx512_bf16", False))
        return torch.autocast(device, torch.bfloat16, enabled=bool(is_able))


def _select_word_vectors(text: Sequence[_EncodedPart]) -> FloatArray:
    return np.concatenate([reading.vectors[reading.word_mask] for reading in text])


def _mask_tokens(
    part: _TextPart, places: npt.NDArray[np.int64], special: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which tokens are the passage's own, and which of them are words and no marks (of mere marks, all)."""
    is_own = ~special & (places[:, 1] > part.start)
    has_letters = [any(map(str.isalnum, part.text[start:end])) for start, end in places]
    is_word = is_own & np.array(has_letters, dtype=bool)
    return is_own, is_word if is_word.any() else is_own
