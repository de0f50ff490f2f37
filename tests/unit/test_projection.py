"""Token vectors, packed and compared: what is near stays near, and nothing is compared that another packing made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory import errors
from adk_graph_memory.models.projection import MAX_TOKEN_VECTORS, TOKEN_DIMENSIONS, Projection, QuestionTokens

SIZE = 384


def vectors(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, SIZE)).astype(np.float32)


@pytest.fixture(params=["all-MiniLM-L6-v2", "some-other-model"])
def projection(request: pytest.FixtureRequest) -> Projection:
    return Projection.from_model(request.param, SIZE)


@given(st.integers(0, 300))
def test_a_text_takes_what_its_tokens_take_and_never_more_than_four_kilobytes(count: int) -> None:
    packed = Projection.from_model("any", SIZE).pack_vectors(vectors(count))
    assert len(packed) == 4 + min(count, MAX_TOKEN_VECTORS) * TOKEN_DIMENSIONS // 2 < 4_096


def test_each_token_finds_itself_and_nothing_else(projection: Projection) -> None:
    text = vectors(12)
    question = QuestionTokens(text[3:6], projection)
    ids, nearest = question.compute_maxsim(
        {"same": projection.pack_vectors(text), "other": projection.pack_vectors(vectors(12, seed=1))}
    )
    assert ids == ["same", "other"]
    assert nearest[0].min() > 0.97  # four bits a number lose some
    assert nearest[1].max() < 0.6


def test_a_long_text_is_kept_from_its_beginning_to_its_end(projection: Projection) -> None:
    text = vectors(1_000)
    question = QuestionTokens(text[[0, -1]], projection)
    [nearest] = question.compute_maxsim({"long": projection.pack_vectors(text)})[1]
    assert nearest.min() > 0.97


def test_texts_are_compared_by_the_mean_of_their_tokens(projection: Projection) -> None:
    """Also where the vectors of several texts come in several blocks."""
    text, more = vectors(12), vectors(12, seed=1)
    packed = {str(seed): projection.pack_vectors(vectors(64, seed)) for seed in range(2, 20)}
    packed |= {"same": projection.pack_vectors(text), "both": projection.pack_vectors(np.concatenate([text, more]))}
    foreign = {"foreign": Projection("another", projection.mean, projection.matrix).pack_vectors(text), "none": b""}
    similarities = QuestionTokens(vectors(1), projection).compare_texts(packed | foreign, "same")
    assert similarities.keys() == packed.keys()
    assert similarities.pop("same") == pytest.approx(1.0)
    assert 0.5 < similarities.pop("both") < 0.9 and max(similarities.values()) < 0.5
    for unknown in ("foreign", "none", "nobody's"):
        assert QuestionTokens(vectors(1), projection).compare_texts(packed | foreign, unknown) == {}


def test_what_another_projection_packed_is_left_out(projection: Projection) -> None:
    other = Projection("another", projection.mean, projection.matrix)
    question = QuestionTokens(vectors(3), projection)
    assert question.compute_maxsim({"other": other.pack_vectors(vectors(3)), "none": b""})[0] == []
    assert question.compute_maxsim(
        {"other": other.pack_vectors(vectors(3)), "ours": projection.pack_vectors(vectors(3))}
    )[0] == ["ours"]


def test_a_comparison_wakes_no_threads_of_the_linear_algebra(
    projection: Projection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would spin on a core that the server needs; what they take over is told by the size of a product."""
    texts = {str(seed): projection.pack_vectors(vectors(64, seed)) for seed in range(30)}
    expected = QuestionTokens(vectors(40), projection).compute_maxsim(texts)[1]
    sizes, multiply = [], np.matmul

    def count(rows: np.ndarray, matrix: np.ndarray, **options: np.ndarray) -> np.ndarray:
        sizes.append(len(rows) * matrix.size)
        return multiply(rows, matrix, **options)

    monkeypatch.setattr(np, "matmul", count)
    nearest = QuestionTokens(vectors(40), projection).compute_maxsim(texts)[1]
    assert sum(sizes) == (40 * SIZE + 30 * 64 * 40) * TOKEN_DIMENSIONS
    assert max(sizes) <= 2**18
    assert np.allclose(nearest, expected)


def test_a_question_without_tokens_is_compared_with_nothing(projection: Projection) -> None:
    assert QuestionTokens(vectors(0), projection).compute_maxsim({"a": projection.pack_vectors(vectors(3))})[0] == []


def test_a_model_without_a_projection_always_gets_the_same_orthogonal_one() -> None:
    projection, again = Projection.from_model("mine", 64), Projection.from_model("/a/path/to/it", 64)
    assert projection.matrix.tobytes() == again.matrix.tobytes()
    assert np.allclose(projection.matrix.T @ projection.matrix, np.eye(64), atol=1e-5)
    assert projection.pack_vectors(vectors(5)[:, :64]) == again.pack_vectors(vectors(5)[:, :64])


def test_what_was_fitted_is_read_as_it_was_written(tmp_path: Path) -> None:
    texts = [vectors(8, seed) for seed in range(40)]
    fitted = Projection.fit(texts, 16)
    fitted.save(tmp_path / "fitted.npz")
    again = Projection.from_file(tmp_path / "fitted.npz", SIZE)
    assert again.spread == pytest.approx(fitted.spread) and 0 < again.spread < 1
    assert again.pack_vectors(texts[0]) == fitted.pack_vectors(texts[0])


def test_a_fitted_one_keeps_what_tells_texts_apart() -> None:
    """All that differs lies in four directions: those are kept, and near is as near as it was."""
    chance = np.random.default_rng(0)
    directions = np.linalg.qr(chance.standard_normal((SIZE, 4)))[0]
    texts = [(chance.standard_normal((10, 4)) @ directions.T + 5).astype(np.float32) for _ in range(50)]
    fitted = Projection.fit(texts, 4)
    centred = texts[0] - fitted.mean
    exact = centred @ centred.T / np.outer(*[np.linalg.norm(centred, axis=1)] * 2)
    projected = fitted.project(texts[0])
    assert np.allclose(projected @ projected.T, exact, atol=0.02)


@pytest.mark.parametrize("content", [b"no archive", b"PK\x03\x04 cut off", None])
def test_a_file_that_is_no_projection_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mine.npz"
    if content:
        path.write_bytes(content)
    with pytest.raises(errors.ConfigurationError, match=r"mine\.npz is not a projection"):
        Projection.from_file(path, SIZE)


def test_a_file_without_vectors_is_no_projection(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", mean=np.float32(1), matrix=np.eye(4, dtype=np.float32), spread=np.float32(0.1))
    with pytest.raises(errors.ConfigurationError, match=r"mine\.npz is not a projection.*shape \(\)"):
        Projection.from_file(tmp_path / "mine.npz", SIZE)


def test_a_file_is_written_where_it_was_told_to_be(tmp_path: Path) -> None:
    Projection.fit([vectors(8, seed) for seed in range(3)], 16).save(tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert Projection.from_file(tmp_path / "mine", SIZE).matrix.shape == (SIZE, 16)


def test_another_model_in_a_folder_of_the_default_ones_name_gets_a_projection_of_its_size() -> None:
    assert Projection.from_model("/models/all-MiniLM-L6-v2", 768).matrix.shape == (768, 96)


def test_a_projection_for_another_model_is_named(tmp_path: Path) -> None:
    Projection.fit([vectors(8, seed) for seed in range(3)], 16).save(tmp_path / "mine.npz")
    with pytest.raises(errors.ConfigurationError, match=r"384 dimensions; the embedder's have 768"):
        Projection.from_file(tmp_path / "mine.npz", 768)
