"""What the encoder of tokens needs of a model, whichever runtime the model runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from adk_graph_memory.embeddings.projection import FloatArray


class TokenVectors(NamedTuple):
    """What a model makes of a text: its token vectors, shape (tokens, n), the characters from and to which each token
    stands, shape (tokens, 2), and which tokens the tokenizer added itself."""

    vectors: FloatArray
    offsets: npt.NDArray[np.int64]
    special_mask: npt.NDArray[np.bool_]


@runtime_checkable
class TokenModel(Protocol):
    """A model that exposes the vectors and the offsets of tokens."""

    @property
    def dimension(self) -> int:
        """The dimension of a token vector."""

    @property
    def max_text_tokens(self) -> int:
        """The tokens that one pass takes, besides those that the tokenizer adds."""

    @property
    def prompts(self) -> Mapping[str, str]:
        """What the model was trained to read before a text, by the kind of text."""

    @property
    def default_prompt_name(self) -> str | None:
        """The kind of text whose prompt stands before texts of kinds without one."""

    @property
    def has_mean_pooling(self) -> bool:
        """Whether a text's vector is the mean of its token vectors, so that it can be taken over some of them only."""

    @property
    def tokenizer(self) -> object:
        """The tokenizer, by which :func:`score_fluency` judges."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Make the token vectors of texts in one pass; each text is cut to what a pass takes."""

    def pool_vectors(self, texts: Sequence[FloatArray]) -> list[list[float]]:
        """Pool the token vectors of each text into its vector."""

    def find_token_spans(self, text: str) -> list[tuple[int, int]]:
        """Find where each token starts and ends, without cutting the text."""

    def reduce_precision(self) -> AbstractContextManager[object]:
        """Compute with fewer bits within the block where that is faster and precise enough for passages."""


def find_prompt(model: TokenModel, task: Literal["query", "document"]) -> str:
    """Find the model's prompt for a kind of text, as sentence-transformers does."""
    names = {"query": ("query",), "document": ("document", "passage", "corpus")}[task]
    default = model.prompts.get(model.default_prompt_name or "", "")
    return next((model.prompts[name] for name in names if name in model.prompts), default)
