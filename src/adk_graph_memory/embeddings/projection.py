"""Token vectors, made small enough to store beside every memory, and compared word by word (MaxSim).

ColBERT's late interaction (Khattab and Zaharia, 2020) with the token vectors of an ordinary embedder: each word of a
question looks for the word of a text that means most nearly the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from adk_graph_memory import errors

FloatArray = npt.NDArray[np.float32]

TOKEN_DIMENSIONS = 96
"""Numbers a token vector; fewer lose half a point of recall, more gain none."""
MAX_TOKEN_VECTORS = 64
"""Token vectors of a text, 48 bytes each; of a longer text every second, third … is kept."""
CLIP_DEVIATIONS = 2.5
"""Deviations of a number up to which four bits tell it."""
BLOCK_SIZE = 1_024
"""Token vectors that are unpacked at a time."""
SINGLE_THREAD_LIMIT = 2**18
"""Multiplications up to which OpenBLAS uses no other thread."""
DEFAULT_SPREAD = 0.06
"""The spread of a projection that was fitted to no texts, measured with all-MiniLM-L6-v2."""
_FINGERPRINT_SIZE = 4
"""Bytes in front of packed vectors that tell which projection made them."""
_LEVELS = (np.arange(16, dtype=np.float32) - 7.5) / 7.5


@dataclass(frozen=True, eq=False)
class Projection:
    """Takes a model's token vectors to a few dimensions, and those to four bits each.

    Attributes:
        name: what it is known by: packed vectors of another name are not compared.
        mean: the model's usual token vector, shape (n,).
        matrix: shape (n, d).
        spread: how far apart the scores of one question over a user's texts lie: their standard deviation.
    """

    name: str
    mean: FloatArray
    matrix: FloatArray
    spread: float = DEFAULT_SPREAD

    @classmethod
    def from_model(cls, model: str, size: int) -> Projection:
        """The one that this package carries for a model, or else a random orthogonal one, always the same.

        Args:
            model: its name or path.
            size: numbers of its token vectors.
        """
        file = resources.files(__package__) / "projections" / f"{Path(model).name}.npz"
        if file.is_file():
            with resources.as_file(file) as path:
                fitted = _read_projection(path)
            if len(fitted.mean) == size:  # a folder may have the name of another model
                return fitted
        numbers = np.random.RandomState(0).standard_normal((size, min(size, TOKEN_DIMENSIONS)))
        matrix, triangle = np.linalg.qr(numbers)
        signs = np.sign(np.diag(triangle))
        return cls(f"random {matrix.shape}", np.zeros(size, np.float32), (matrix * signs).astype(np.float32))

    @classmethod
    def fit(cls, texts: Sequence[FloatArray], dimensions: int = TOKEN_DIMENSIONS) -> Projection:
        """One that keeps what tells these texts' words apart: the directions in which they differ most.

        Args:
            texts: the token vectors of each, shape (tokens, n); some thousands of texts.
            dimensions: numbers that are kept of a token vector, an even count.
        """
        vectors = np.concatenate(list(texts))
        mean: FloatArray = vectors.mean(axis=0)
        centred = _normalize_rows(vectors - mean).astype(np.float64)
        _, directions = np.linalg.eigh(centred.T @ centred)
        matrix = directions[:, ::-1][:, :dimensions].astype(np.float16).astype(np.float32)
        unmeasured = cls(_hash_matrix(matrix), mean, matrix)
        return replace(unmeasured, spread=unmeasured.measure_spread(texts))

    def measure_spread(self, texts: Sequence[FloatArray], most: int = 300) -> float:
        """How far apart the scores of one text, taken for a question, over the others lie, as a rule."""
        some = [text for text in texts if len(text)][:most]
        packed = {str(number): self.pack_vectors(text) for number, text in enumerate(some)}
        scores = [QuestionTokens(text, self).compute_maxsim(packed)[1].mean(axis=1) for text in some]
        return float(np.mean([np.delete(row, number).std() for number, row in enumerate(scores)]))

    @classmethod
    def from_file(cls, path: Path, size: int) -> Projection:
        """One that ``pipelines/fit_projection.py`` has written.

        Raises:
            errors.ConfigurationError: the file is none, or fits token vectors of another size.
        """
        fitted = _read_projection(path)
        if len(fitted.mean) != size:
            reason = f"{path} is made for token vectors of {len(fitted.mean)} numbers; the embedder's have {size}"
            raise errors.ConfigurationError(reason=reason)
        return fitted

    def save(self, path: Path) -> None:
        """Writes it to a file that :meth:`from_file` reads."""
        matrix, spread = self.matrix.astype(np.float16), np.float32(self.spread)
        with path.open("wb") as file:  # given a path, numpy would write to another one where the ending is not its own
            np.savez_compressed(file, mean=self.mean, matrix=matrix, spread=spread)

    def project(self, vectors: FloatArray) -> FloatArray:
        """Unit vectors of shape (tokens, d) of a model's token vectors of shape (tokens, n)."""
        return _normalize_rows(_multiply(_normalize_rows(vectors - self.mean), self.matrix))

    def pack_vectors(self, vectors: FloatArray) -> bytes:
        """A text's token vectors as they are stored: two numbers a byte behind the projection's mark."""
        places = np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_TOKEN_VECTORS)).astype(int)
        numbers = self.project(vectors[places]) * (np.sqrt(self.matrix.shape[1]) / CLIP_DEVIATIONS)
        levels = np.clip(np.floor(numbers * 7.5 + 8.0), 0, 15).astype(np.uint8)
        return self._fingerprint + bytes(levels[:, 0::2] << 4 | levels[:, 1::2])

    def unpack_vectors(self, packed: Mapping[str, bytes]) -> tuple[list[str], list[int], Iterator[FloatArray]]:
        """The ids of the texts that this projection has packed, how many vectors each has, and these, of any length.

        They come in blocks, each in the place of the one before: what stays in the processor's cache is compared three
        times as fast.
        """
        ours = {
            id: data
            for id, data in packed.items()
            if data.startswith(self._fingerprint) and len(data) > _FINGERPRINT_SIZE
        }
        width = self.matrix.shape[1] // 2
        levels = np.frombuffer(b"".join([data[_FINGERPRINT_SIZE:] for data in ours.values()]), np.uint8).reshape(
            -1, width
        )
        counts = [(len(data) - _FINGERPRINT_SIZE) // width for data in ours.values()]
        return list(ours), counts, _unpack_blocks(levels)

    @cached_property
    def _fingerprint(self) -> bytes:
        return hashlib.sha256(self.name.encode()).digest()[:_FINGERPRINT_SIZE]


class QuestionTokens:
    """A question's tokens, to be compared with those of stored texts.

    Args:
        vectors: as the model makes them, shape (tokens, n).
        projection: what packs the texts' tokens.
    """

    def __init__(self, vectors: FloatArray, projection: Projection) -> None:
        self._vectors, self._projection = projection.project(vectors), projection

    @property
    def spread(self) -> float:
        """How far apart the mean similarities of a user's texts lie."""
        return self._projection.spread

    def compute_maxsim(self, packed: Mapping[str, bytes]) -> tuple[list[str], FloatArray]:
        """How near to each token of the question the nearest of a text's tokens is, from −1 to 1.

        Args:
            packed: tokens of texts by id; those that another projection has packed are left out.

        Returns:
            The ids of those that were compared, and a row for each, shape (texts, tokens).
        """
        ids, counts, blocks = self._projection.unpack_vectors(packed)
        if not ids or not len(self._vectors):
            return [], np.empty((0, 0), np.float32)
        similarities = np.empty((sum(counts), len(self._vectors)), np.float32)
        start = 0
        for vectors in blocks:
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
            some = similarities[start : start + len(vectors)]
            np.divide(_multiply(vectors, self._vectors.T), lengths, out=some)
            start += len(vectors)
        starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        return ids, np.maximum.reduceat(similarities, starts, axis=0)


_UNPACK_TABLE = np.stack([np.repeat(_LEVELS, 16), np.tile(_LEVELS, 16)], axis=1).view(np.float64).ravel()
"""The two numbers of each byte, side by side as one: they are looked up together."""


def _unpack_blocks(levels: npt.NDArray[np.uint8]) -> Iterator[FloatArray]:
    """The vectors of packed rows, a block of them at a time."""
    place = np.empty((min(BLOCK_SIZE, len(levels)), levels.shape[1]), np.float64)
    for start in range(0, len(levels), BLOCK_SIZE):
        rows = levels[start : start + BLOCK_SIZE]
        yield np.take(_UNPACK_TABLE, rows, out=place[: len(rows)], mode="clip").view(np.float32)


def _read_projection(path: Path) -> Projection:
    """A projection's file, or the error that it is none."""
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            mean, matrix = (file[name].astype(np.float32) for name in ("mean", "matrix"))
            spread = float(file["spread"])
        if mean.ndim != 1 or matrix.ndim != 2 or len(matrix) != len(mean) or matrix.shape[1] % 2:
            raise ValueError(f"its mean has the shape {mean.shape}, its matrix {matrix.shape}")
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise errors.ConfigurationError(reason=f"{path} is no projection of token vectors: {error}") from error
    return Projection(_hash_matrix(matrix), mean, matrix, spread)


def _hash_matrix(matrix: FloatArray) -> str:
    return hashlib.sha256(matrix.tobytes()).hexdigest()


def _multiply(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Their product, so few rows at a time that it is worked out in this thread.

    A larger product wakes the threads of OpenBLAS, which spin for milliseconds afterwards on a core that the server
    needs: that made the slowest searches a fifth slower.
    """
    products, step = np.empty((len(rows), matrix.shape[1]), np.float32), max(1, SINGLE_THREAD_LIMIT // matrix.size)
    for start in range(0, len(rows), step):
        np.matmul(rows[start : start + step], matrix, out=products[start : start + step])
    return products


def _normalize_rows(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: FloatArray = vectors / np.maximum(lengths, 1e-9)
    return scaled
