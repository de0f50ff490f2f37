"""Compress token vectors enough to store them with every memory, and compare them word by word (MaxSim).

This is ColBERT's late interaction (Khattab and Zaharia, 2020) with the token vectors of an ordinary embedder: each word
of a question looks for the word of a text that is nearest in meaning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from adk_graph_memory import errors

FloatArray = npt.NDArray[np.float32]

TOKEN_DIMENSIONS = 96
"""Dimensions of a projected token vector; fewer lose half a point of recall, more gain none."""
MAX_TOKEN_VECTORS = 64
"""Token vectors stored of a text, 48 bytes each; of a longer text, every second, third … is stored."""
CLIP_DEVIATIONS = 2.5
"""Deviations at which a number is clipped to fit four bits."""
BLOCK_SIZE = 1_024
"""Token vectors that are unpacked at a time."""
SINGLE_THREAD_LIMIT = 2**18
"""Multiplications up to which OpenBLAS uses a single thread."""
DEFAULT_SPREAD = 0.06
"""The spread of a projection that was not fitted to any texts, measured with all-MiniLM-L6-v2."""
_FINGERPRINT_SIZE = 4
"""Bytes before packed vectors that identify their projection."""
_LEVELS = (np.arange(16, dtype=np.float32) - 7.5) / 7.5


@dataclass(frozen=True, eq=False)
class Projection:
    """Reduces a model's token vectors to a few dimensions of four bits each.

    Attributes:
        name: its identity; vectors packed under another name are not compared.
        mean: the model's mean token vector, shape (n,).
        matrix: shape (n, d).
        spread: the standard deviation of one question's scores over a user's texts.
    """

    name: str
    mean: FloatArray
    matrix: FloatArray
    spread: float = DEFAULT_SPREAD

    @classmethod
    def from_model(cls, model: str, size: int) -> Projection:
        """Return this package's projection for a model, or else a random orthogonal one, always the same.

        Args:
            model: the model's name or path.
            size: the dimension of its token vectors.
        """
        file = resources.files(__package__) / "projections" / f"{Path(model).name}.npz"
        if file.is_file():
            with resources.as_file(file) as path:
                projection = _read_projection(path)
            if len(projection.mean) == size:  # the folder of another model may have the same name
                return projection
        random_matrix = np.random.RandomState(0).standard_normal((size, min(size, TOKEN_DIMENSIONS)))
        matrix, triangle = np.linalg.qr(random_matrix)
        signs = np.sign(np.diag(triangle))
        return cls(f"random {matrix.shape}", np.zeros(size, np.float32), (matrix * signs).astype(np.float32))

    @classmethod
    def fit(cls, texts: Sequence[FloatArray], dimensions: int = TOKEN_DIMENSIONS) -> Projection:
        """Fit a projection that keeps the directions in which the tokens of these texts differ most.

        Args:
            texts: the token vectors of each text, shape (tokens, n); some thousands of texts.
            dimensions: the dimension of the projected vectors, an even number.
        """
        vectors = np.concatenate(list(texts))
        mean: FloatArray = vectors.mean(axis=0)
        centred_vectors = _normalize_rows(vectors - mean).astype(np.float64)
        _, directions = np.linalg.eigh(centred_vectors.T @ centred_vectors)
        matrix = directions[:, ::-1][:, :dimensions].astype(np.float16).astype(np.float32)
        projection = cls(_hash_matrix(matrix), mean, matrix)
        return replace(projection, spread=projection.measure_spread(texts))

    def measure_spread(self, texts: Sequence[FloatArray], sample_size: int = 300) -> float:
        """Take each text for a question and return the mean standard deviation of its scores over the other texts."""
        sample = [text for text in texts if len(text)][:sample_size]
        packed_texts = {str(number): self.pack_vectors(text) for number, text in enumerate(sample)}
        scores = [QuestionTokens(text, self).compute_maxsim(packed_texts)[1].mean(axis=1) for text in sample]
        return float(np.mean([np.delete(row, number).std() for number, row in enumerate(scores)]))

    @classmethod
    def from_file(cls, path: Path, size: int) -> Projection:
        """Read a projection that ``pipelines/fit_projection.py`` wrote.

        Raises:
            errors.ConfigurationError: the file is not a projection, or fits token vectors of another dimension.
        """
        projection = _read_projection(path)
        if len(projection.mean) != size:
            reason = f"{path} fits token vectors of {len(projection.mean)} dimensions; the embedder's have {size}"
            raise errors.ConfigurationError(reason=reason)
        return projection

    def save(self, path: Path) -> None:
        """Write the projection to a file that :meth:`from_file` reads."""
        matrix, spread = self.matrix.astype(np.float16), np.float32(self.spread)
        with path.open("wb") as file:  # given a path without its own suffix, numpy would add that
            np.savez_compressed(file, mean=self.mean, matrix=matrix, spread=spread)

    def project(self, vectors: FloatArray) -> FloatArray:
        """Project a model's token vectors, shape (tokens, n), to unit vectors, shape (tokens, d)."""
        return _normalize_rows(_multiply(_normalize_rows(vectors - self.mean), self.matrix))

    def pack_vectors(self, vectors: FloatArray) -> bytes:
        """Pack a text's token vectors for storage: the projection's fingerprint, then two numbers per byte."""
        indexes = np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_TOKEN_VECTORS)).astype(int)
        numbers = self.project(vectors[indexes]) * (np.sqrt(self.matrix.shape[1]) / CLIP_DEVIATIONS)
        levels = np.clip(np.floor(numbers * 7.5 + 8.0), 0, 15).astype(np.uint8)
        return self._fingerprint + bytes(levels[:, 0::2] << 4 | levels[:, 1::2])

    def unpack_vectors(self, packed_texts: Mapping[str, bytes]) -> tuple[list[str], list[int], Iterator[FloatArray]]:
        """Return the ids of the texts that this projection packed, their vector counts, and the vectors, unnormalized.

        The vectors come in blocks that reuse the same memory: comparing them in the processor's cache is three times as
        fast.
        """
        payloads = {
            id: data[_FINGERPRINT_SIZE:]
            for id, data in packed_texts.items()
            if data.startswith(self._fingerprint) and len(data) > _FINGERPRINT_SIZE
        }
        width = self.matrix.shape[1] // 2
        levels = np.frombuffer(b"".join(payloads.values()), np.uint8).reshape(-1, width)
        counts = [len(payload) // width for payload in payloads.values()]
        return list(payloads), counts, _unpack_blocks(levels)

    @cached_property
    def _fingerprint(self) -> bytes:
        return hashlib.sha256(self.name.encode()).digest()[:_FINGERPRINT_SIZE]


class QuestionTokens:
    """A question's tokens, which are compared with those of stored texts.

    Args:
        vectors: the model's token vectors, shape (tokens, n).
        projection: the projection that packed the texts' tokens.
    """

    def __init__(self, vectors: FloatArray, projection: Projection) -> None:
        self._vectors, self._projection = projection.project(vectors), projection

    @property
    def spread(self) -> float:
        """The standard deviation of a question's scores over a user's texts."""
        return self._projection.spread

    def compute_maxsim(self, packed_texts: Mapping[str, bytes]) -> tuple[list[str], FloatArray]:
        """Compute for each token of the question the similarity of a text's nearest token, from −1 to 1.

        Args:
            packed_texts: the packed tokens of texts by id; those of another projection are left out.

        Returns:
            The ids of the texts that were compared, and a row for each, shape (texts, tokens).
        """
        ids, counts, blocks = self._projection.unpack_vectors(packed_texts)
        if not ids or not len(self._vectors):
            return [], np.empty((0, 0), np.float32)
        similarities = np.empty((sum(counts), len(self._vectors)), np.float32)
        start = 0
        for vectors in blocks:
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
            rows = similarities[start : start + len(vectors)]
            np.divide(_multiply(vectors, self._vectors.T), lengths, out=rows)
            start += len(vectors)
        return ids, np.maximum.reduceat(similarities, _locate_starts(counts), axis=0)

    def compare_texts(self, packed_texts: Mapping[str, bytes], id: str) -> dict[str, float]:
        """Compute how similar each text is to the one with this id, from −1 to 1, by their mean token vectors.

        Texts of another projection are left out; if the one with this id is, the result is empty.
        """
        ids, counts, blocks = self._projection.unpack_vectors(packed_texts)
        if id not in ids:
            return {}
        vectors = np.concatenate([_normalize_rows(block) for block in blocks])
        means = _normalize_rows(np.add.reduceat(vectors, _locate_starts(counts), axis=0))
        return dict(zip(ids, (means @ means[ids.index(id)]).tolist(), strict=True))


_UNPACK_TABLE = np.stack([np.repeat(_LEVELS, 16), np.tile(_LEVELS, 16)], axis=1).view(np.float64).ravel()
"""The two numbers of each byte, side by side as one float64, so that one look-up yields both."""


def _unpack_blocks(levels: npt.NDArray[np.uint8]) -> Iterator[FloatArray]:
    """Yield the vectors of packed rows block by block, each in the same memory."""
    buffer = np.empty((min(BLOCK_SIZE, len(levels)), levels.shape[1]), np.float64)
    for start in range(0, len(levels), BLOCK_SIZE):
        rows = levels[start : start + BLOCK_SIZE]
        yield np.take(_UNPACK_TABLE, rows, out=buffer[: len(rows)], mode="clip").view(np.float32)


def _locate_starts(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the first row of each text among the rows of all."""
    return np.concatenate(([0], np.cumsum(counts)[:-1]))


def _read_projection(path: Path) -> Projection:
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            mean, matrix = (file[name].astype(np.float32) for name in ("mean", "matrix"))
            spread = float(file["spread"])
        if mean.ndim != 1 or matrix.ndim != 2 or len(matrix) != len(mean) or matrix.shape[1] % 2:
            raise ValueError(f"its mean has the shape {mean.shape}, its matrix {matrix.shape}")
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise errors.ConfigurationError(reason=f"{path} is not a projection of token vectors: {error}") from error
    return Projection(_hash_matrix(matrix), mean, matrix, spread)


def _hash_matrix(matrix: FloatArray) -> str:
    return hashlib.sha256(matrix.tobytes()).hexdigest()


def _multiply(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Multiply so few rows at a time that OpenBLAS stays in this thread.

    A larger product wakes the threads of OpenBLAS, which then spin for milliseconds on a core that the server needs.
    That made the slowest searches a fifth slower.
    """
    products, step = np.empty((len(rows), matrix.shape[1]), np.float32), max(1, SINGLE_THREAD_LIMIT // matrix.size)
    for start in range(0, len(rows), step):
        np.matmul(rows[start : start + step], matrix, out=products[start : start + step])
    return products


def _normalize_rows(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit_vectors: FloatArray = vectors / np.maximum(lengths, 1e-9)
    return unit_vectors


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
